"""Packed text: repeated corpora are read, bombs are refused, and the library that unpacks changes nothing."""

import gzip
import lzma
import random
import sys
from pathlib import Path

import pytest
import zstandard

from jumok.errors import DataError
from jumok.text import files
from jumok.text.files import blocks


def hex_lines(count: int) -> bytes:
    draw = random.Random(1)
    return b"".join(draw.randbytes(30).hex().encode() + b"\n" for _ in range(count))


def text_of(path: Path) -> bytes:
    return b"".join(blocks(path, 1 << 20))


def test_a_large_corpus_of_repeated_lines_is_read_though_zstd_packs_it_over_200_times(tmp_path):
    text, times = hex_lines(20_000), 240
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27, enable_ldm=True)
    path = tmp_path / "repeated.zst"
    path.write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(text * times))
    assert path.stat().st_size * 200 < len(text) * times > files.ALLOWANCE
    assert sum(map(len, blocks(path, 1 << 20))) == len(text) * times


def test_a_corpus_of_repeated_lines_is_read_whole_from_xz(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ALLOWANCE", 10_000)
    monkeypatch.setattr(files, "SMALL", 1_000)
    text = hex_lines(100) * 1_000
    path = tmp_path / "repeated.xz"
    path.write_bytes(lzma.compress(text))
    assert path.stat().st_size * 200 < len(text)
    assert text_of(path) == text


@pytest.mark.parametrize("suffix", [".xz", ".zst"])
def test_a_few_kilobytes_that_unpack_to_more_than_100_megabytes_are_refused(tmp_path, suffix):
    text = b"the same line again and again\n" * 4_000_000
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(lzma.compress(text, preset=0) if suffix == ".xz" else zstandard.compress(text))
    assert path.stat().st_size < files.SMALL
    with pytest.raises(DataError, match="more than 200 times its size") as refused:
        for _ in blocks(path, 1 << 20):
            pass
    assert "unpack it to a file" in refused.value.hint


def test_a_large_file_is_refused_too_if_it_swells_without_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ALLOWANCE", 1_000_000)
    monkeypatch.setattr(files, "SMALL", 100)
    path = tmp_path / "bomb.zst"
    path.write_bytes(zstandard.compress(b"\n" * 10_000_000))
    with pytest.raises(DataError, match="more than 10,000 times"):
        text_of(path)


DAMAGES = {
    "whole": lambda raw: raw,
    "three members": lambda raw: raw * 3,
    "padded with zeros": lambda raw: raw + bytes(100),
    "empty": lambda raw: b"",
    "cut off": lambda raw: raw[:-20],
    "only a header": lambda raw: raw[:5],
    "wrong sum": lambda raw: raw[:-8] + bytes([raw[-8] ^ 1]) + raw[-7:],
    "no gzip at all": lambda raw: b"plain text\n",
    "wrong inside": lambda raw: raw[:1_000] + bytes(50) + raw[1_050:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_gzip_gives_the_same_text_and_the_same_refusals_with_isal_and_without(tmp_path, monkeypatch, damage):
    igzip = pytest.importorskip("isal.igzip", reason="isal is not installed: pip install jumok[fast]")
    unpacker, opened = igzip.IGzipFile, []
    monkeypatch.setattr(igzip, "IGzipFile", lambda **how: opened.append(gz := unpacker(**how)) or gz)
    path = tmp_path / "text.gz"
    path.write_bytes(DAMAGES[damage](gzip.compress(hex_lines(3_000))))

    def outcome() -> bytes | type:
        try:
            return text_of(path)
        except DataError:
            return DataError

    with_isal = outcome()
    assert len(opened) == (damage != "empty")
    monkeypatch.setitem(sys.modules, "isal", None)
    assert outcome() == with_isal
    assert len(opened) == (damage != "empty")
    assert (with_isal is DataError) == (damage not in ("whole", "three members", "padded with zeros"))
