"""Corpora as people bring them: what is wrong, and what must be said and done about it.

Each is three pairs, one - eins, two - zwei, three - drei, with something wrong; `tests/data/test_bad_corpora.py` runs
them.
"""

import gzip
import json
import lzma
import os
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import zstandard

Content = bytes | Callable[[Path], object]  # bytes of a file, or a function that makes what stands there instead
Pairs = list[tuple[str, str]]

SOURCE, TARGET = b"one\ntwo\nthree\n", b"eins\nzwei\ndrei\n"
ONE, TWO, THREE = ("one", "eins"), ("two", "zwei"), ("three", "drei")
ALL = [ONE, TWO, THREE]
KOREAN = "안녕하세요, 저는 학생입니다.\n오늘 날씨가 좋습니다.\n커피 두 잔을 마셨어요.\n"
GERMAN = "Ältere Öfen für Köln\nschöne Grüße\ndrei\n"
QUOTED = "“Größe” – so\nschöne Grüße\ndrei\n"


@dataclass(frozen=True)
class Bad:
    """One corpus.  Left out, `found` is no finding, `reads` and `fixed` are the three pairs, `done` is nothing."""

    source: Content = SOURCE
    target: Content | None = TARGET  # None: one table
    names: tuple[str, ...] = ("train.en", "train.de")
    found: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind -> line and byte of the first
    reads: Pairs | str = field(default_factory=lambda: ALL)  # or what the error of training says
    where: str = ""  # and where it says that is
    fixed: Pairs | str = field(default_factory=lambda: ALL)  # or what the refusal says
    done: dict[str, int] = field(default_factory=dict)  # what the report counts
    unreadable: bool = False  # nobody may read the source


def lines(text: str) -> list[str]:
    return [unicodedata.normalize("NFC", line) for line in text.removesuffix("\n").split("\n")]


def beside(text: str) -> Pairs:
    """The pairs of a target text with the plain source."""
    return list(zip(("one", "two", "three"), lines(text), strict=True))


def table(name: str, text: str | bytes, **rest: object) -> Bad:
    return Bad(text if isinstance(text, bytes) else text.encode(), None, (name,), **rest)


def spoilt(raw: bytes, byte: int) -> Bad:
    """Bytes that are no UTF-8 in the second of three lines: the pair goes."""
    return Bad(
        target=b"eins\nzw" + raw + b"ei\ndrei\n",
        found={"not UTF-8": (2, byte)},
        reads="not UTF-8",
        where=f"line 2, byte {byte}",
        fixed=[ONE, THREE],
        done={"pair dropped: not UTF-8": 1},
    )


def separator(character: str) -> Bad:
    """A character that other tools split at, inside a line."""
    return Bad(
        target=f"eins\nz{character}wei\ndrei\n".encode(),
        found={"line separator inside": (2, 6)},
        reads=[ONE, ("two", f"z{character}wei"), THREE],
        fixed=[ONE, ("two", "z wei"), THREE],
        done={"line separator inside a line made a space": 1},
    )


def converted(raw: bytes, encoding: str, text: str, found: dict[str, tuple[int, int]], **rest: object) -> Bad:
    options = {"reads": "not UTF-8", "where": "train.de, line 1, byte", "done": {f"converted from {encoding}": 1}}
    return Bad(target=raw, found=found, fixed=beside(text), **(options | rest))


def damaged(suffix: str, raw: bytes, words: str) -> Bad:
    """A compressed file that is not whole."""
    return Bad(
        target=raw,
        names=("train.en", f"train.de{suffix}"),
        found={"unreadable": (0, 0)},
        reads=words,
        where=f"train.de{suffix}, after byte",
        fixed=words,
    )


def refused(source: Content, words: str, where: str = "train.en", **rest: object) -> Bad:
    """Something that is no text file at all."""
    return Bad(source, found={"unreadable": (0, 0)}, reads=words, where=where, fixed=words, **rest)


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 0x55]) + raw[middle + 1 :]


def rows(*values: object) -> str:
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


def packed_zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


LONG_TEXT = "".join(f"line {number * number}\n" for number in range(300)).encode()
GUESS = " (a guess: look at the result)"
MARKED = {"wrong encoding": (1, 0)}
WITH_MARK = {"byte order mark removed": 1}
PLAIN_ROWS = [{"source": "one", "target": "eins"}, {"source": "two", "target": "zwei"}]
UNEQUAL = {"not parallel": (0, 0)}
NO_PAIR = {"pair dropped: no pair": 1}

BAD = {
    # ---------------------------------------------------------------------------------- encodings
    "a byte order mark": Bad(
        target=b"\xef\xbb\xbf" + TARGET,
        found={"byte order mark": (1, 0)},
        reads="byte order mark of UTF-8",
        where="line 1, byte 0",
        done=WITH_MARK,
    ),
    "a byte order mark in the middle": Bad(
        target="eins\n\ufeffzwei\ndr\ufeffei\n".encode(),
        found={"byte order mark inside": (2, 5)},
        reads=[ONE, ("two", "\ufeffzwei"), ("three", "dr\ufeffei")],
        done={"byte order mark inside a line removed": 2},
    ),
    "two byte order marks": Bad(
        target=b"\xef\xbb\xbf" * 2 + TARGET,
        found={"byte order mark": (1, 0), "byte order mark inside": (1, 3)},
        reads="byte order mark of UTF-8",
        where="line 1, byte 0",
        done=WITH_MARK | {"byte order mark inside a line removed": 1},
    ),
    "UTF-16, little end first": converted(
        ("\ufeff" + KOREAN).encode("utf-16-le"), "UTF-16LE", KOREAN, MARKED, reads="UTF-16", where="line 1, byte 0",
        done={"converted from UTF-16LE": 1} | WITH_MARK,
    ),
    "UTF-16, big end first": converted(
        ("\ufeff" + KOREAN).encode("utf-16-be"), "UTF-16BE", KOREAN, MARKED, reads="UTF-16", where="line 1, byte 0",
        done={"converted from UTF-16BE": 1} | WITH_MARK,
    ),
    "UTF-16 of English, little end first, without mark": converted(
        TARGET.decode().encode("utf-16-le"), "UTF-16LE", TARGET.decode(), {"NUL": (1, 1)}, reads="NUL",
    ),
    "UTF-16 of English, big end first, without mark": converted(
        TARGET.decode().encode("utf-16-be"), "UTF-16BE", TARGET.decode(), {"NUL": (1, 0)}, reads="NUL",
    ),
    "UTF-16 of Korean, little end first, without mark": converted(
        KOREAN.encode("utf-16-le"), "UTF-16LE", KOREAN, {"not UTF-8": (1, 1), "NUL": (2, 33)},
    ),
    "UTF-16 of Korean, big end first, without mark": converted(
        KOREAN.encode("utf-16-be"), "UTF-16BE", KOREAN, {"not UTF-8": (1, 0)},
    ),
    "UTF-16 with half a character at its end": Bad(
        target=("\ufeff" + TARGET.decode()).encode("utf-16-le")[:-3],
        found=MARKED, reads="UTF-16", where="line 1, byte 0", fixed=[ONE, TWO],
        done={"converted from UTF-16LE": 1, "pair dropped: not UTF-16LE": 1} | WITH_MARK,
    ),
    "UTF-16 with half a surrogate pair": Bad(
        target="\ufeffeins\nzw\ud800ei\ndrei\n".encode("utf-16-le", "surrogatepass"),
        found=MARKED, reads="UTF-16", where="line 1, byte 0", fixed=[ONE, THREE],
        done={"converted from UTF-16LE": 1, "pair dropped: not UTF-16LE": 1} | WITH_MARK,
    ),
    "UTF-16 with CR LF, compressed": Bad(
        target=gzip.compress(("\ufeff" + TARGET.decode().replace("\n", "\r\n")).encode("utf-16-le")),
        names=("train.en", "train.de.gz"), found=MARKED, reads="UTF-16", where="line 1, byte 0",
        done={"converted from UTF-16LE": 1, "CR LF made LF": 3} | WITH_MARK,
    ),
    "UTF-32": converted(
        ("\ufeff" + KOREAN).encode("utf-32-le"), "UTF-32LE", KOREAN, MARKED, reads="UTF-32", where="line 1, byte 0",
        done={"converted from UTF-32LE": 1} | WITH_MARK,
    ),
    "UTF-32 without mark": converted(
        KOREAN.encode("utf-32-be"), "UTF-32BE", KOREAN, {"NUL": (1, 0)}, reads="NUL",
    ),
    "Latin-1": converted(GERMAN.encode("latin-1"), f"LATIN1{GUESS}", GERMAN, {"not UTF-8": (1, 0)}),
    "Windows-1252": converted(QUOTED.encode("cp1252"), f"WINDOWS-1252{GUESS}", QUOTED, {"not UTF-8": (1, 0)}),
    "CP949": converted(KOREAN.encode("cp949"), f"CP949{GUESS}", KOREAN, {"not UTF-8": (1, 0)}),
    "half UTF-8, half Latin-1": Bad(
        target="schöne\n".encode() + "Grüße für Öfen\n".encode("latin-1") + b"drei\n",
        found={"not UTF-8": (2, 10)}, reads="not UTF-8", where="line 2, byte 10",
        fixed=[("one", "schöne"), THREE], done={"pair dropped: not UTF-8": 1},
    ),
    # ---------------------------------------------------------------------------------- bytes
    "UTF-8 cut off at the end of the file": Bad(
        target=b"eins\nzwei\ndrei \xed\x95", found={"not UTF-8": (3, 15)}, reads="not UTF-8", where="line 3, byte 15",
        fixed=[ONE, TWO], done={"pair dropped: not UTF-8": 1},
    ),
    "UTF-8 cut off at the end of a line": Bad(
        target=b"eins\nzwei \xc3\ndrei\n", found={"not UTF-8": (2, 10)}, reads="not UTF-8", where="line 2, byte 10",
        fixed=[ONE, THREE], done={"pair dropped: not UTF-8": 1},
    ),
    "a lone continuation byte": spoilt(b"\x80", 7),
    "several lone continuation bytes": spoilt(b"\x80\xa0\xbf", 7),
    "an overlong form": spoilt(b"\xc0\xaf", 7),
    "an overlong NUL": spoilt(b"\xc0\x80", 7),
    "a surrogate": spoilt(b"\xed\xa0\x80", 7),
    "a character beyond Unicode": spoilt(b"\xf5\x80\x80\x80", 7),
    "byte 0xff": spoilt(b"\xff", 7),
    "NUL": Bad(
        target=b"eins\nzw\0ei\ndrei\n", found={"NUL": (2, 7)}, reads="NUL", where="line 2, byte 7",
        done={"NUL removed": 1},
    ),
    "a hole of NUL": Bad(
        target=b"eins\n" + b"\0" * 4096 + b"\ndrei\n", found={"NUL": (2, 5)}, reads="NUL", where="line 2, byte 5",
        fixed=[ONE, THREE], done={"pair dropped: NUL": 1},
    ),
    "control characters": Bad(
        target=b"eins\nz\x07w\x1b\x7fei\ndrei\n", found={"control character": (2, 6)},
        reads=[ONE, ("two", "z\aw\x1b\x7fei"), THREE], done={"control character removed": 1},
    ),
    "not NFC": Bad(
        target="eins\nzwei\nvier Tu\u0308ren\n".encode(), found={"not NFC": (3, 10)},
        reads=[ONE, TWO, ("three", "vier Tu\u0308ren")], fixed=[ONE, TWO, ("three", "vier Türen")],
        done={"brought into NFC": 1},
    ),
    "lost characters": Bad(
        target="eins\nzw\ufffdei\ndrei\n".encode(), found={"replacement character": (2, 7)},
        reads=[ONE, ("two", "zw\ufffdei"), THREE], fixed=[ONE, ("two", "zw\ufffdei"), THREE],
    ),
    # ---------------------------------------------------------------------------------- line ends
    "CR as line end": Bad(
        target=b"eins\rzwei\rdrei\r",
        found={"old Mac line ends": (1, 4), "line separator inside": (1, 4), "outer white space": (1, 14)},
        reads="3 lines", where="line 2", done={"CR alone made a line end": 1},
    ),
    "CR as line end on both sides": Bad(
        b"one\rtwo\rthree", b"eins\rzwei\rdrei",
        found={"old Mac line ends": (1, 3), "line separator inside": (1, 3)},
        reads=[("one\rtwo\rthree", "eins\rzwei\rdrei")], done={"CR alone made a line end": 2},
    ),
    "CR LF": Bad(target=b"eins\r\nzwei\r\ndrei\r\n", done={"CR LF made LF": 3}),
    "CR LF on one line": Bad(
        target=b"eins\nzwei\r\ndrei\n", found={"mixed line ends": (2, 9)}, done={"CR LF made LF": 1},
    ),
    "CR CR LF": Bad(
        target=b"eins\r\r\nzwei\r\ndrei\r\n",
        found={"line separator inside": (1, 4), "outer white space": (1, 4)},
        reads=[("one", "eins\r"), TWO, THREE],
        done={"CR LF made LF": 3, "line separator inside a line made a space": 1, "outer white space removed": 1},
    ),
    "no final line feed": Bad(target=TARGET[:-1]),
    **{
        f"U+{ord(character):04X} inside a line": separator(character)
        for character in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    },
    # ---------------------------------------------------------------------------------- lines that say nothing
    "an empty side": Bad(
        target=b"eins\n\ndrei\n", found={"empty line": (2, 5)}, reads=[ONE, ("two", ""), THREE],
        fixed=[ONE, THREE], done={"pair dropped: empty line": 1},
    ),
    "both sides empty": Bad(
        b"one\n\nthree\n", b"eins\n\ndrei\n", found={"empty line": (2, 4)}, reads=[ONE, ("", ""), THREE],
        fixed=[ONE, THREE], done={"pair dropped: empty line": 1},
    ),
    "tabs only": Bad(
        target=b"eins\n\t\t\ndrei\n", found={"empty line": (2, 5)}, reads=[ONE, ("two", "\t\t"), THREE],
        fixed=[ONE, THREE], done={"pair dropped: empty line": 1},
    ),
    "white space only": Bad(
        target="eins\n \u3000\u00a0\ndrei\n".encode(), found={"empty line": (2, 5)},
        reads=[ONE, ("two", " \u3000\u00a0"), THREE], fixed=[ONE, THREE], done={"pair dropped: empty line": 1},
    ),
    "white space at the ends": Bad(
        target=b"eins\n  zwei\t\ndrei\n", found={"outer white space": (2, 5)},
        reads=[ONE, ("two", "  zwei\t"), THREE], done={"outer white space removed": 1},
    ),
    "both files empty": Bad(
        b"", b"", found={"no text": (0, 0)}, reads="empty", where="train.en", fixed="nothing is left",
    ),
    "one file empty": Bad(
        target=b"", found=UNEQUAL, reads="0 lines", where="line 1 of", fixed="3 lines but",
    ),
    "an extra last line": Bad(
        target=TARGET + b"vier\n", found=UNEQUAL, reads="4 lines", where="line 4 of", fixed="has 4",
    ),
    "an extra empty last line": Bad(
        target=TARGET + b"\n", found={"empty line": (4, 15)} | UNEQUAL, reads="4 lines", where="line 4 of",
        done={"empty last line without partner left away": 1},
    ),
    "an extra blank last line of the source": Bad(
        SOURCE + b" \r\n", found={"empty line": (4, 14), "mixed line ends": (4, 15)} | UNEQUAL, reads="4 lines",
        where="line 4 of", done={"empty last line without partner left away": 1, "CR LF made LF": 1},
    ),
    "two extra empty last lines": Bad(
        target=TARGET + b"\n\n", found={"empty line": (4, 15)} | UNEQUAL, reads="5 lines", where="line 4 of",
        fixed="has 5",
    ),
    "a line lost in the middle": Bad(
        target=b"eins\ndrei\n", found=UNEQUAL, reads="2 lines", where="line 3 of", fixed="has 2",
    ),
    "a line of 10 MB": Bad(
        target=b"eins\n" + b"zwei " * 2_000_000 + b"\ndrei\n", found={"over-long line": (2, 5)}, reads="longer than",
        where="line 2, byte 5", fixed=[ONE, THREE], done={"pair dropped: over-long line": 1},
    ),
    "a million empty lines": Bad(
        b"\n" * 1_000_000, b"\n" * 1_000_000, found={"empty line": (1, 0), "no text": (0, 0)},
        reads="no text", where="train.en", fixed="nothing is left",
    ),
    "the same pair again and again": Bad(SOURCE * 3, TARGET * 3, reads=ALL * 3, fixed=ALL * 3),
    # ---------------------------------------------------------------------------------- files
    "the same file by a link": Bad(
        target=lambda path: path.symlink_to("train.en"), found=UNEQUAL, reads="both source and target",
        where="train.de", fixed="both source and target",
    ),
    "the same file by a hard link": Bad(
        target=lambda path: path.hardlink_to(path.with_name("train.en")), found=UNEQUAL,
        reads="both source and target", where="train.de", fixed="both source and target",
    ),
    "the same file twice": Bad(
        names=("train.en", "train.en"), found=UNEQUAL, reads="both source and target", where="train.en",
        fixed="both source and target",
    ),
    "a gzip bomb": damaged(".gz", gzip.compress((b"x" * 99 + b"\n") * 100_000) * 12, "more than 200 times its size"),
    "gzip cut off": damaged(".gz", gzip.compress(LONG_TEXT)[:-20], "cut off before its end"),
    "gzip with a flipped byte": damaged(".gz", flipped(gzip.compress(LONG_TEXT)), "not valid gzip data"),
    "xz cut off": damaged(".xz", lzma.compress(LONG_TEXT)[:-20], "cut off before its end"),
    "xz with a flipped byte": damaged(".xz", flipped(lzma.compress(LONG_TEXT)), "not valid xz data"),
    "zstd cut off": damaged(".zst", packed_zstd(LONG_TEXT)[:-20], "cut off before its end"),
    "zstd with a flipped byte": damaged(".zst", flipped(packed_zstd(LONG_TEXT)), "not valid zstd data"),
    "a text that calls itself compressed": damaged(".gz", TARGET, "not valid gzip data"),
    "nothing that calls itself compressed": damaged(".xz", b"", "cut off before its end"),
    "compressed under the name of a text": Bad(
        target=gzip.compress(TARGET, mtime=0), found={"compressed": (1, 0)}, reads="is gzip data",
        where="train.de, line 1, byte 0", fixed="is gzip data",
    ),
    "an empty folder": replace(refused(lambda path: path.mkdir(), "is a folder"), reads="no text in the folder"),
    "a pipe": refused(lambda path: os.mkfifo(path), "is a pipe"),
    "a device that never ends": refused(lambda path: path.symlink_to("/dev/full"), "is a device"),
    "nobody may read it": refused(SOURCE, "you may not read", unreadable=True),
    "no file": refused(lambda path: None, "there is no file"),
    "a link to nowhere": refused(lambda path: path.symlink_to("nowhere"), "there is no file"),
    "one compressed, one not": Bad(gzip.compress(SOURCE), names=("train.en.gz", "train.de")),
    "zstd with CR LF": Bad(
        target=packed_zstd(TARGET.replace(b"\n", b"\r\n")), names=("train.en", "train.de.zst"),
        done={"CR LF made LF": 3},
    ),
    "xz with a byte order mark": Bad(
        target=lzma.compress(b"\xef\xbb\xbf" + TARGET), names=("train.en", "train.de.xz"),
        found={"byte order mark": (1, 0)}, reads="byte order mark", where="line 1, byte 0", done=WITH_MARK,
    ),
    # ---------------------------------------------------------------------------------- tables
    "a tsv row without tab": table(
        "train.tsv", "one\teins\nno tab\nthree\tdrei\n", found={"not a pair": (2, 15)}, reads="no tab",
        where="line 2, byte 15", fixed=[ONE, THREE], done=NO_PAIR,
    ),
    "a tsv with further columns": table("train.tsv", "one\teins\t1\ntwo\tzwei\t2\tx\nthree\tdrei\n"),
    "a tsv with an empty side": table(
        "train.tsv", "one\teins\n\tzwei\nthree\tdrei\n", found={"outer white space": (2, 9)},
        reads=[ONE, ("", "zwei"), THREE], fixed=[ONE, THREE], done=NO_PAIR,
    ),
    "a tsv with a bit of everything": table(
        "train.tsv.gz", gzip.compress(b"\xef\xbb\xbfone\teins\r\n two\0 \tzw\x07ei\r\nthree\tdrei\r\nx\ty\xff\r\n"),
        found={
            "byte order mark": (1, 0), "NUL": (2, 17), "not UTF-8": (4, 42),
        },
        reads="byte order mark", where="line 1, byte 0",
        done=WITH_MARK | {
            "CR LF made LF": 4, "NUL removed": 1, "control character removed": 1, "outer white space removed": 1,
            "pair dropped: not UTF-8": 1,
        },
    ),
    "bad JSON": table(
        "train.jsonl", rows(PLAIN_ROWS[0], '{"source": "two", oops}'), found={"not a pair": (2, 54)}, reads="not JSON",
        where="line 2, byte 54", fixed=[ONE], done=NO_PAIR,
    ),
    "JSON with other keys": table(
        "train.jsonl", rows(PLAIN_ROWS[0], {"en": "two", "de": "zwei"}), found={"not a pair": (2, 36)},
        reads="a row has de, en", where="line 2, byte 36", fixed=[ONE], done=NO_PAIR,
    ),
    "JSON with keys that no terminal should see": table(
        "train.jsonl", rows(PLAIN_ROWS[0], {"\x1b[2J\n\0\ud800": 1, "k" * 9_999: 2}), found={"not a pair": (2, 36)},
        reads=r"a row has \x1b[2J\n\x00\ud800, kkk", where="line 2, byte 36", fixed=[ONE], done=NO_PAIR,
    ),
    "JSON with values inside values": table(
        "train.jsonl", rows(PLAIN_ROWS[0], {"source": ["two"], "target": {"de": "zwei"}}),
        found={"not a pair": (2, 36)}, reads="source is of type list", where="line 2, byte 36", fixed=[ONE],
        done=NO_PAIR,
    ),
    "JSON without end of depth": table(
        "train.jsonl", rows(PLAIN_ROWS[0], "[" * 100_000, '{"a":' * 100_000), found={"not a pair": (2, 36)},
        reads="excessive depth", where="line 2, byte 36", fixed=[ONE], done={"pair dropped: no pair": 2},
    ),
    "JSON with half a surrogate pair": table(
        "train.jsonl", rows(PLAIN_ROWS[0], '{"source": "\\ud800", "target": "x"}'), found={"not a pair": (2, 36)},
        reads="surrogate", where="line 2, byte 36", fixed=[ONE], done=NO_PAIR,
    ),
    "JSON with a NUL": table(
        "train.jsonl", rows(PLAIN_ROWS[0], '{"source": "tw\\u0000o", "target": "zwei"}'),
        found={"not a pair": (2, 36)}, reads="NUL", where="line 2, byte 36", fixed=[ONE], done=NO_PAIR,
    ),
    "JSON with an empty line": table(
        "train.jsonl", rows(PLAIN_ROWS[0], "", PLAIN_ROWS[1]), found={"empty line": (2, 36), "not a pair": (2, 36)},
        reads="not JSON", where="line 2, byte 36", fixed=[ONE, TWO], done=NO_PAIR,
    ),
    "JSON with a line feed and a separator in a text": table(
        "train.jsonl", rows(PLAIN_ROWS[0], '{"id": " 7", "source": "two\\n", "target": "zw\\u2028ei"}'),
        reads=[ONE, ("two\n", "zw\u2028ei")], fixed=[ONE, ("two", "zw ei")],
        done={"line separator inside a line made a space": 1, "outer white space removed": 1},
    ),
    "JSON with a raw control character": table(
        "train.jsonl", rows(PLAIN_ROWS[0], '{"source": "tw\x07o", "target": "zwei"}'),
        found={"control character": (2, 50), "not a pair": (2, 50)}, reads="not JSON", where="line 2, byte 50",
        fixed=[ONE, TWO], done={"control character removed": 1},
    ),
    "JSON in UTF-16": table(
        "train.jsonl", rows(*PLAIN_ROWS).encode("utf-16"), found=MARKED, reads="UTF-16", where="line 1, byte 0",
        fixed=[ONE, TWO], done={"converted from UTF-16LE": 1} | WITH_MARK,
    ),
    "JSON with a third language": table(
        "train.jsonl",
        rows({"translation": {"en": "one", "de": "eins"}}, {"translation": {"en": "a", "de": "b", "fr": "c"}}),
        found={"not a pair": (2, 45)}, reads="de, en, fr", where="line 2, byte 45", fixed=[ONE], done=NO_PAIR,
    ),
}  # fmt: skip
