"""The recipe `auto`: chosen by the size of the text, wherever the text is, and looked for only where no run is."""

import gzip
import json
import shutil
import time
from pathlib import Path

import pytest

from jumok.config.sections import DataConfig
from jumok.data import sizes
from jumok.errors import UsageError
from jumok.runs.choose import choose, settle
from jumok.runs.preparation import prepare_folder
from jumok.storage.checkpoint import RunFolder
from tests.support.web import Site, serving
from tests.training.test_training import micro, run

LINE = "a sentence of nine words that is rather plain\n"
MANY = 100_000.0  # minutes


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("prepared") / "data"
    list(prepare_folder(micro(), out))
    return out


def of_pairs(prepared: Path, out: Path, pairs: int) -> str:
    """A prepared folder that says it has so many pairs."""
    shutil.copytree(prepared, out)
    summary = json.loads((out / "prepared.json").read_bytes())
    (out / "prepared.json").write_text(json.dumps(summary | {"train": pairs}))
    return str(out)


def test_auto_takes_the_pairs_of_a_prepared_folder(prepared, tmp_path):
    for pairs, name in ((279, "tiny"), (300_000, "small"), (2_000_000, "base")):
        folder = of_pairs(prepared, tmp_path / name, pairs)
        asked = {"prepared": folder, "minutes": MANY}
        assert choose(**asked).name == name
        settled, _, why = settle(tmp_path / "run", asked)
        assert choose(**settled).name == name
        assert f"about {pairs:,} pairs" in why
        assert choose(**settled).vocabulary.size == micro().vocabulary.size, "the vocabulary is that of the folder"


def test_auto_asks_a_server_how_large_a_text_is_that_was_not_fetched(tmp_path):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install jumok[remote]")
    for suffix, pack in (("", bytes), (".gz", gzip.compress)):
        rows = "".join(f"{n} {LINE.strip()}\t{n * 7919 % 10_007} {LINE}" for n in range(70_000))
        with serving(Site(pack(rows.encode()))) as site:
            address = site.address.replace("train.en", f"train.tsv{suffix}")
            asked = {"table": address, "minutes": MANY}
            settled, _, why = settle(tmp_path / "run", asked)
            assert len(site.starts) == 1, "asked once"
        found = int(why.split("about ")[1].split(" pairs")[0].replace(",", ""))
        assert found == pytest.approx(70_000, rel=0.1)
        assert choose(**settled).name == "small"


def test_auto_looks_at_files_that_were_fetched_before(tmp_path):
    address = "https://127.0.0.1:1/train.tsv"  # nobody answers there
    fetched = RunFolder(tmp_path / "run").data / "fetched"
    fetched.mkdir(parents=True)
    (fetched / sizes.resolve_all(DataConfig(table=address), 1)[0][0].files[0].rpartition("/")[2]).write_text(
        LINE.replace("\n", "\tein Satz\n") * 65_000
    )
    assert "about 65,000 pairs" in settle(tmp_path / "run", {"table": address, "minutes": MANY})[2]
    assert "pairs" not in settle(tmp_path / "other", {"table": address})[2], "what cannot be asked is not known"


def test_a_folder_that_holds_a_run_is_recognised_without_a_look_at_the_text(tmp_path, monkeypatch):
    run(tmp_path / "run")
    for name in ("estimate_pairs", "measure_corpus"):
        monkeypatch.setattr(sizes, name, lambda *_, **__: pytest.fail("the text was looked at"))
    _, place, why = settle(tmp_path / "run", {"source": "a.en", "target": "a.de"})
    assert place == tmp_path / "run"
    assert "that of the run" in why


def test_a_text_is_counted_once_and_of_many_files_some_are_read(tmp_path, monkeypatch):
    read: list[str] = []
    plain = sizes.blocks
    monkeypatch.setattr(sizes, "blocks", lambda path, *more, **named: read.append(path) or plain(path, *more, **named))
    total = 0
    for number in range(200):
        lines = 500 + 7 * number
        total += lines
        for side in ("en", "de"):
            (tmp_path / f"part{number}.{side}").write_text(LINE * lines)
    asked = {"source": f"{tmp_path}/part*.en", "target": f"{tmp_path}/part*.de", "minutes": MANY}
    settled, _, why = settle(tmp_path / "run", asked)
    assert choose(**settled).name == "small"
    assert len(read) == sizes.FILES
    assert int(why.split("about ")[1].split(" pairs")[0].replace(",", "")) == pytest.approx(total, rel=0.01)


def test_a_recipe_that_could_not_be_read_back_is_refused_at_the_start():
    names = [f"corpora/a-long-name-of-a-part-{number}" for number in range(900)]
    named = [{"source": f"{name}.en", "target": f"{name}.de"} for name in names]
    with pytest.raises(UsageError, match="900 corpora") as raised:
        choose(corpora=named, recipe="tiny")
    assert "glob" in raised.value.hint
    assert len(choose(corpora=named[:300], recipe="tiny").data.corpora) == 300


def test_a_server_that_does_not_answer_does_not_delay_a_run_for_long(tmp_path, monkeypatch):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install jumok[remote]")
    monkeypatch.setattr("jumok.text.remote.PEEKING", 0.5)
    with serving(Site(b"a\tb\n" * 1_000_000, pace=30.0)) as site:
        began = time.monotonic()
        address = site.address.replace("train.en", "train.tsv")
        _, _, why = settle(tmp_path / "run", {"table": address})
        assert time.monotonic() - began < 25
    assert why.startswith("Recipe tiny: chosen for 90 minutes")
