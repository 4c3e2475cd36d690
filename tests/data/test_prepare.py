"""Preparation: what is cleaned and counted, that workers and kills change no byte, that nobody outlives its parent."""

import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.corpus import Maker
from jumok.config import presets
from jumok.config.recipe import Recipe
from jumok.data import corpora, resolve
from jumok.data.prepare import crew, folder, parts, pipeline, sift, work
from jumok.data.prepare.crew import Crew, WorkItem
from jumok.data.prepare.decide import Decision
from jumok.errors import DataError, JumokError, ModelFileError, UnknownName, UsageError
from jumok.runs.choose import Named, choose, gather
from jumok.runs.preparation import list_dropped, prepare_folder
from jumok.stopping import NEVER
from jumok.text import seeds, trainer
from jumok.text.vocabulary import Vocabulary

PAIRS = 6_000


def written(folder_: Path, pairs: list[tuple[str, str]], name: str = "train") -> tuple[str, str]:
    """Two parallel files."""
    paths = folder_ / f"{name}.en", folder_ / f"{name}.xx"
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    return str(paths[0]), str(paths[1])


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> tuple[str, str, dict[str, int]]:
    """A corpus with known faults: its two files and the counts."""
    place, maker = tmp_path_factory.mktemp("corpus"), Maker(words=4_000)
    sources, targets = maker.chunk(0, PAIRS)
    names = []
    for name, lines in (("a.en", sources), ("a.xx", targets)):
        (place / name).write_bytes(b"\n".join(lines) + b"\n")
        names.append(str(place / name))
    return names[0], names[1], maker.counts


def small(source: str, target: str, **changes: object) -> Recipe:
    return presets.tiny().change(
        {"data.source": source, "data.target": target, "vocabulary.size": 600, "data.hold_out": 100, **changes}
    )


def run(recipe: Recipe, out: Path, workers: int = 0, **more: object) -> folder.Prepared:
    trained, valid = resolve.resolve_all(recipe.data, recipe.seed)
    told = more.pop("report", lambda *_, **__: None)
    return pipeline.prepare(recipe, trained, valid, out, report=told, workers=workers, **more)  # type: ignore[arg-type]


def bytes_of(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(place.iterdir())}


# ---------------------------------------------------------------------- what is left out


def test_every_fault_of_a_corpus_is_counted_under_its_own_name(made, tmp_path):
    source, target, counts = made
    found = run(small(source, target), tmp_path / "p").summary
    told = found["left_out"]
    names = {
        "duplicate": "duplicate", "near duplicate": "near duplicate", "copy": "source copied to target",
        "wrong script": "wrong script", "symbols": "digits and symbols", "empty": "empty side",
    }  # fmt: skip
    assert {name: told.get(reason, 0) for name, reason in names.items()} == {name: counts[name] for name in names}
    lengths = sum(count for reason, count in told.items() if "longer" in reason or "ratio" in reason)
    assert abs(lengths - counts["ratio"]) <= 8  # a few were held out before they had subwords
    assert found["train"] + found["held_out"] + sum(told.values()) == PAIRS


def near(text: str) -> str:
    """The definition, word for word: case folding, digits to 0, punctuation and white space removed."""
    kept = ("0" if unicodedata.category(c)[0] == "N" else c for c in text.casefold())
    return "".join(c for c in kept if unicodedata.category(c)[0] in "LMN")


def test_every_code_point_is_of_the_kind_that_unicode_says():
    from jumok.data.prepare.sift import DIGIT, FIRST_SCRIPT, kinds

    table = kinds()
    categories = [unicodedata.category(chr(code))[0] for code in range(0x110000)]
    assert [code for code, kind in enumerate(categories) if (kind in "LM") != (table[code] >= FIRST_SCRIPT)] == []
    assert [code for code, kind in enumerate(categories) if (kind == "N") != (table[code] == DIGIT)] == []


TEXTS = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=("Cs",)), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=8))
def test_texts_have_the_same_hash_exactly_if_they_are_near_duplicates(texts):
    found = sift.examine(parts.join_lines(texts)).near
    keys = [near(sift.compose(text)) for text in texts]
    for i, j in pairwise(range(len(texts))):
        assert (found[i] == found[j]) == (keys[i] == keys[j]), (texts[i], texts[j])


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_lines_are_tidied_as_the_vocabulary_normalises_them(texts):
    from jumok.text.vocabulary import normalize

    side = sift.examine(parts.join_lines(texts))
    lines = side.content.tobytes().decode().split("\n")[:-1]
    assert lines == [normalize(text) for text in texts]
    assert np.array_equal(side.begins, np.cumsum([0, *(len(line.encode()) + 1 for line in lines)]))


def test_the_first_of_equal_pairs_stays_whatever_the_order_of_the_rest(tmp_path):
    pairs = [(f"Sentence number {word} here.", f"Satz mit {word} hier.") for word in ("one", "two", "three", "four")]
    twice = [
        *pairs,
        ("SENTENCE number two here!", "Satz mit two, hier."),
        pairs[0],
        ("sentence number one here", pairs[0][1]),
    ]
    recipe = small(*written(tmp_path, twice), **{"vocabulary.size": 330, "vocabulary.at_most": True})
    valid = written(tmp_path, [("Quite another thing.", "Etwas ganz anderes.")], "valid")
    recipe = recipe.change({"data.valid_source": valid[0], "data.valid_target": valid[1]})
    found = run(recipe, tmp_path / "p")
    assert found.store.lines.tolist() == [1, 2, 3, 4]
    assert found.summary["left_out"] == {"duplicate": 1, "near duplicate": 2}


@pytest.mark.parametrize("rule", ["duplicates", "near_duplicates", "copies", "scripts", "symbols"])
def test_every_rule_can_be_turned_off(made, tmp_path, rule):
    names = {
        "duplicates": "duplicate", "near_duplicates": "near duplicate", "copies": "source copied to target",
        "scripts": "wrong script", "symbols": "digits and symbols",
    }  # fmt: skip
    told = run(small(*made[:2], **{f"data.clean.{rule}": False}), tmp_path / "p").summary["left_out"]
    if rule == "duplicates":  # they are near duplicates, too, of the first
        assert told.get("duplicate", 0) == 0
    else:
        assert names[rule] not in told


def test_pairs_of_the_validation_set_and_sentences_of_excluded_files_do_not_train(tmp_path):
    pairs = [
        (f"This is sentence {n} of a text.", f"Das ist der Satz {n} eines Textes.") for n in ("a", "b", "c", "d", "e")
    ]
    valid = written(tmp_path, [("this is sentence A of a text", "Das ist der Satz a eines Textes!")], "valid")
    (tmp_path / "test.xx").write_text("Das ist der Satz b eines Textes.\n")
    recipe = small(*written(tmp_path, pairs), **{"vocabulary.size": 330, "vocabulary.at_most": True})
    changes = {
        "data.valid_source": valid[0],
        "data.valid_target": valid[1],
        "data.exclude": [str(tmp_path / "test.xx")],
    }
    found = run(recipe.change(changes), tmp_path / "p")
    assert found.store.lines.tolist() == [3, 4, 5]
    assert found.summary["left_out"] == {"in a validation or test file": 2}


def test_a_language_may_have_two_scripts_if_enough_of_it_is_written_in_each(tmp_path):
    latin = [
        (f"Sentence {'abcdefghij'[n % 10] * (n + 3)}.", f"Recenica {'klmnopqrst'[n % 10] * (n + 3)}.")
        for n in range(30)
    ]
    both = [
        *latin,
        *(
            (f"Other {'uvwxyzabcd'[n % 10] * (n + 3)}.", f"Реченица {'абвгдежзик'[n % 10] * (n + 3)}.")
            for n in range(20)
        ),
    ]
    recipe = small(*written(tmp_path, both), **{"vocabulary.size": 400, "vocabulary.at_most": True, "data.hold_out": 5})
    assert "wrong script" not in run(recipe, tmp_path / "p").summary["left_out"]
    recipe = small(
        *written(tmp_path, both[:33]), **{"vocabulary.size": 400, "vocabulary.at_most": True, "data.hold_out": 5}
    )
    assert run(recipe, tmp_path / "q").summary["left_out"]["wrong script"] == 3


def test_what_was_dropped_can_be_listed_with_its_line_and_its_text(made, tmp_path):
    source, target, counts = made
    run(small(source, target), tmp_path / "p")
    rows = list(list_dropped(tmp_path / "p", reason="source copied to target"))
    assert len(rows) == counts["copy"]
    assert all(row["source"] == row["target"] for row in rows)
    lines = Path(source).read_text().split("\n")
    for row in rows[:20]:
        number = int(str(row["where"]).rpartition(" ")[2])
        assert lines[number - 1] == row["source"]
    with pytest.raises(UsageError, match="no reason is called"):
        list(list_dropped(tmp_path / "p", reason="bad luck"))


def test_a_corpus_of_which_nothing_is_left_says_where_all_went(tmp_path):
    recipe = small(*written(tmp_path, [(f"sentence {n}", f"sentence {n}") for n in "abcdef"]))
    with pytest.raises(DataError, match="no sentence pair is left") as raised:
        run(recipe, tmp_path / "p")
    assert "source copied to target: 6" in raised.value.where
    assert "data.clean.copies=false" in raised.value.hint


# ---------------------------------------------------------------------- workers and kills


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_no_byte(made, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(pipeline, "ALONE", 0)
    monkeypatch.setattr(parts, "PAIRS", 700)
    recipe = small(*made[:2])
    run(recipe, tmp_path / "alone", workers=0)
    run(recipe, tmp_path / "crew", workers=workers)
    assert bytes_of(tmp_path / "crew") == bytes_of(tmp_path / "alone")


def command(made: tuple[str, str, object], out: Path) -> list[str]:
    """`jumok data prepare` in small parts, in a process of its own."""
    code = (
        "import sys; from jumok.data.prepare import parts, pipeline; parts.PAIRS = 500; pipeline.ALONE = 0; "
        "from jumok.cli import main; sys.argv = ['jumok', *sys.argv[1:]]; main.main()"
    )
    asked = ["data", "prepare", "--source", made[0], "--target", made[1], "--out", str(out), "--workers", "2"]
    asked += ["--set", "vocabulary.size=600", "--set", "data.hold_out=100"]
    return [sys.executable, "-c", code, *asked]


def workers_of(pid: int) -> list[int]:
    """Processes of ours whose parent this process is, or was."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(pid).encode() in words and any(word.startswith(b"jumok.") for word in words):
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_preparation_that_is_killed_again_and_again_ends_with_the_same_bytes(made, tmp_path, tries, kept):
    subprocess.run(command(made, tmp_path / "whole"), check=True, capture_output=True)
    whole = bytes_of(tmp_path / "whole")
    rng, place = random.Random(1), tmp_path / "killed"
    kills, stages = tries(4, 20), Counter[str]()
    for _ in range(kills):
        child = subprocess.Popen(command(made, place), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0.6, 3.0))
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        stages[" ".join(sorted(path.name for path in tmp_path.glob("killed*"))) or "nothing yet"] += 1
        deadline = time.monotonic() + 5
        while workers_of(child.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert workers_of(child.pid) == []
    last = subprocess.run(command(made, place), check=False, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert bytes_of(place) == whole
    assert sorted(path.name for path in tmp_path.iterdir() if "work" in path.name or "partial" in path.name) == []
    kept("T1", "preparation killed with kill -9: same bytes, no worker left")


class Killed(BaseException):
    """The process ends here."""


CHANGES = {"os.mkdir", "os.rmdir", "os.rename", "os.remove", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Killer:
    """Ends a preparation at the nth change of a name or file in a folder; one audit hook serves all."""

    instance: "Killer | None" = None

    def __init__(self) -> None:
        self.folder, self.at, self.seen = "", 0, 0

    @classmethod
    def hired(cls) -> "Killer":
        if cls.instance is None:
            cls.instance = cls()
            sys.addaudithook(cls.instance.hear)
        return cls.instance

    def hear(self, event: str, values: tuple[object, ...]) -> None:
        if not self.at or not (event in CHANGES or (event == "open" and int(values[2] or 0) & WRITING)):  # type: ignore[call-overload]
            return
        if event != "os.rmdir" and not str(values[0]).startswith(self.folder) and not str(values[0]).isdigit():
            return
        self.seen += 1
        if self.seen == self.at:
            raise Killed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that were open stay so
def test_a_preparation_that_ends_at_any_change_of_a_file_can_be_continued(tmp_path):
    words = ["".join(letters) for letters in product("abcdefgh", repeat=2)]
    source, target = written(tmp_path, [(f"word {word} of many", f"wort {word} von vielen") for word in words])
    recipe = small(source, target, **{"vocabulary.kind": "byte", "data.hold_out": 5})
    run(recipe, tmp_path / "whole")
    whole, killer, place = bytes_of(tmp_path / "whole"), Killer.hired(), tmp_path / "killed"
    points = 0
    for points in range(1, 200):
        killer.folder, killer.at, killer.seen = str(tmp_path), points, 0
        try:
            run(recipe, place)
            break
        except Killed:
            killer.at = 0
            run(recipe, place)
            assert bytes_of(place) == whole
            assert sorted(path.name for path in tmp_path.glob("killed*")) == ["killed"]
            shutil.rmtree(place)
        finally:
            killer.at = 0
    assert 30 < points < 199


def test_parts_that_are_whole_are_not_read_again_and_spoilt_ones_are(made, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PAIRS", 500)

    class Enough(Exception):
        pass

    def stop_when_encoding(event: str, **values: object) -> None:
        if str(values.get("text", "")).startswith("Encoding"):
            raise Enough

    recipe = small(*made[:2])
    with pytest.raises(Enough):
        run(recipe, tmp_path / "p", report=stop_when_encoding)
    there = tmp_path / "p.work" / work.PARTS
    (there / "000003.source").write_bytes(b"spoilt")
    before = {path.name: path.stat().st_mtime_ns for path in there.iterdir()}
    asked = []
    plain = work.TABLE["pairs"]
    monkeypatch.setitem(work.TABLE, "pairs", lambda *a, **k: asked.append(k["number"]) or plain(*a, **k))
    with pytest.raises(Enough):
        run(recipe, tmp_path / "p", report=stop_when_encoding)
    assert asked == [3]
    assert all(path.stat().st_mtime_ns == before[path.name] for path in there.iterdir() if "000003" not in path.name)
    run(recipe, tmp_path / "p")
    run(recipe, tmp_path / "undisturbed")
    assert bytes_of(tmp_path / "p") == bytes_of(tmp_path / "undisturbed")


def test_what_is_prepared_is_found_again_without_reading_a_byte_of_the_text(made, tmp_path, monkeypatch):
    source, target = (tmp_path / name for name in ("b.en", "b.xx"))
    source.write_bytes(Path(made[0]).read_bytes())
    target.write_bytes(Path(made[1]).read_bytes())
    recipe = small(str(source), str(target))
    first = run(recipe, tmp_path / "p")

    def unread(*_: object, **__: object) -> Iterator[bytes]:
        raise AssertionError("the text was read")

    monkeypatch.setattr("jumok.text.files.blocks", unread)
    again = run(recipe, tmp_path / "p")
    assert (again.digest, again.summary) == (first.digest, first.summary)
    monkeypatch.undo()
    os.utime(source)  # touched, but the same
    again = run(recipe, tmp_path / "p")
    assert {**again.summary, "files": []} == {**first.summary, "files": []}
    hashes = [[entry["sha256"] for entry in one.summary["files"]] for one in (first, again)]
    assert hashes[0] == hashes[1]
    source.write_bytes(Path(made[0]).read_bytes().replace(b"a", b"o"))
    changed = run(recipe, tmp_path / "p")
    assert changed.digest != first.digest
    source.unlink()  # a file that is gone was not changed
    assert run(recipe, tmp_path / "p").digest == changed.digest


def test_a_failure_of_an_early_part_comes_before_that_of_a_later_one(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "ALONE", 0)
    monkeypatch.setattr(parts, "PAIRS", 50)
    lines = [b"a good line %d" % n for n in range(400)]
    spoilt = [*lines[:120], b"bad \xff line", *lines[121:300], b"worse \xfe line", *lines[301:]]
    (tmp_path / "a.en").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "a.xx").write_bytes(b"\n".join(spoilt))
    with pytest.raises(DataError, match="not UTF-8") as raised:
        run(small(str(tmp_path / "a.en"), str(tmp_path / "a.xx")), tmp_path / "p", workers=2)
    assert "line 121, byte" in raised.value.where
    place = b"\n".join(spoilt).index(b"\xff")
    assert raised.value.where.endswith(f"byte {place}")


def test_unequal_files_are_told_with_both_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "PAIRS", 50)
    (tmp_path / "a.en").write_text("".join(f"line {n}\n" for n in range(130)))
    (tmp_path / "a.xx").write_text("".join(f"Zeile {n}\n" for n in range(171)))
    with pytest.raises(DataError, match=r"has 130 lines but .* has 171 lines") as raised:
        run(small(str(tmp_path / "a.en"), str(tmp_path / "a.xx")), tmp_path / "p")
    assert "ends after line 130; line 131" in raised.value.where


def test_an_error_of_a_worker_arrives_with_its_class_key_and_values():
    for error, kind in (
        (DataError("data.empty_corpus", corpus=Path("a.en")), DataError),
        (ModelFileError("data.wrong_size", file="lines", size=1_000, folder="p"), ModelFileError),
        (UnknownName("data.unknown_corpus", "phrasebok", ["phrasebook"]), UsageError),
    ):
        _, again = crew._unpack_answer(crew.pack({"number": 3, **crew._describe(error)}))
        assert (type(again), again.key, str(again)) == (kind, error.key, str(error))


def test_a_worker_that_dies_is_told_and_not_waited_for():
    table = {"end": lambda **_: os._exit(7)}
    with Crew(1, "tests.support.dying_worker", table) as running:
        running.submit(WorkItem(0, "end", {}))
        with pytest.raises(JumokError, match="exited with code 7"):
            list(running.finish())


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_packed_files_and_tables_give_the_same_store(made, tmp_path, suffix):
    from jumok.text.lines import read_lines, write_lines

    pairs = list(zip(read_lines(made[0]), read_lines(made[1]), strict=True))
    plain = run(small(*made[:2]), tmp_path / "plain")
    table = tmp_path / f"a.tsv{suffix}"
    write_lines(table, (f"{source}\t{target}" for source, target in pairs))
    recipe = small("", "").change({"data.source": None, "data.target": None, "data.table": str(table)})
    other = run(recipe, tmp_path / "table")
    for name in ("source.ids", "target.ids", "source.begins", "lines", "dropped", "valid.jsonl", "vocabulary.model"):
        assert (tmp_path / "table" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name
    assert len(other.store) == len(plain.store)


def test_stages_that_take_long_say_how_far_they_are(made, tmp_path, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    monkeypatch.setattr(parts, "PAIRS", 500)
    events: list[dict[str, object]] = []
    run(small(*made[:2]), tmp_path / "p", report=lambda event, **values: events.append({"event": event, **values}))
    for stage in ("reading", "vocabulary", "encoding", "joining"):
        shares = [float(str(one["share"])) for one in events if one.get("stage") == stage]
        assert len(shares) >= 2, stage
        assert shares == sorted(shares)
        assert 0.0 <= shares[0] <= shares[-1] <= 1.0


# ---------------------------------------------------------------------- vocabulary


def test_a_vocabulary_learnt_in_another_process_gets_all_of_its_text():
    """Megabytes of it: a pipe would take 64 kB and then wait for ever for a child that is slow to start."""
    rng = random.Random(1)
    words = ["".join(rng.choice("abcdefghijklmnop") for _ in range(rng.randint(3, 9))) for _ in range(40_000)]
    lines = [" ".join(rng.choices(words, k=12)) for _ in range(25_000)]
    assert sum(map(len, lines)) > 2_000_000
    apart = NEVER.finish(Vocabulary.learn(trainer.count_words(lines), size=500, kind="bpe"))
    assert apart.model == Vocabulary.train(lines, size=500, kind="bpe").model


def test_bpe_from_counted_words_is_what_sentencepiece_learns_from_the_sentences(made):
    lines = [" ".join(line.split()) for path in made[:2] for line in Path(path).read_text().split("\n") if line.strip()]
    ours = Vocabulary.train(lines, size=700, kind="bpe")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=700, model_type="bpe", character_coverage=1.0,
        byte_fallback=True, normalization_rule_name="identity", pad_id=0, unk_id=1, bos_id=2, eos_id=3,
        control_symbols=list(trainer.RESERVED), max_sentence_length=100_000, num_threads=4, minloglevel=2,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert ours.pieces(range(len(ours))) == [theirs.id_to_piece(i) for i in range(theirs.get_piece_size())]


def test_unigram_from_counted_words_has_the_subwords_that_the_sentences_give(made, monkeypatch):
    monkeypatch.setattr(trainer, "SEEDS", 1_000_000)
    lines = [" ".join(line.split()) for path in made[:2] for line in Path(path).read_text().split("\n") if line.strip()]
    ours = Vocabulary.train(lines, size=1_500)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=1_500, model_type="unigram",
        character_coverage=1.0, byte_fallback=True, normalization_rule_name="identity", pad_id=0, unk_id=1, bos_id=2,
        eos_id=3, control_symbols=list(trainer.RESERVED), max_sentence_length=100_000, num_threads=4, minloglevel=2,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    common = set(ours.pieces(range(len(ours)))) & {theirs.id_to_piece(i) for i in range(theirs.get_piece_size())}
    assert len(common) >= 0.97 * 1_500


def test_the_bytes_of_a_vocabulary_do_not_tell_where_it_was_made(made, tmp_path):
    model = run(small(*made[:2]), tmp_path / "p").vocabularies.source.model
    assert b"tmp" not in model
    assert b"tsv" not in model
    assert b"/" not in re.sub(rb"\x0a[\x01-\x7f]\x0a.*?\x15", b"", model[-300:])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("abc가나", min_size=1, max_size=20), st.integers(1, 5), min_size=1, max_size=12))
def test_repeated_parts_are_those_that_a_plain_count_finds(words):
    counts: Counter[str] = Counter()
    for word, count in words.items():
        marked = f"▁{word}"
        for start in range(len(marked)):
            for stop in range(start + 2, min(len(marked), start + 17) + 1):
                counts[marked[start:stop]] += count
    longest: Counter[str] = Counter()
    for part, count in counts.items():
        if len(part) > 2:
            longest[part[:-1]] = max(longest[part[:-1]], count)
    wanted = {p: c for p, c in counts.items() if c >= 2 and longest[p] < c and len(p) <= 16}
    assert dict(seeds.repeated_parts(list(words), list(words.values()), most=10**6)) == wanted


def test_the_sample_is_a_fair_draw_bounded_by_characters(tmp_path):
    pairs = [(f"x{n} word", f"y{n} wort") for n in range(9_000)]
    recipe = small(*written(tmp_path, pairs), **{"data.clean.near_duplicates": False, "data.clean.symbols": False})

    class Enough(Exception):
        pass

    found: list[Counter[str]] = []

    def look(self: Decision, **asked: object) -> tuple[Counter[str], Counter[str]]:
        words = sample(self, **asked)  # type: ignore[arg-type]
        found.extend(words)
        raise Enough

    sample, Decision.sample = Decision.sample, look  # type: ignore[assignment, method-assign]
    try:
        with pytest.raises(Enough):
            run(recipe.change({"vocabulary.characters": 40_000}), tmp_path / "p")
    finally:
        Decision.sample = sample  # type: ignore[method-assign]
    drawn = [int(word[1:]) for word in found[0] if word[1:].isdigit()]
    assert [int(word[1:]) for word in found[1] if word[1:].isdigit()] != []
    assert 0.6 * 40_000 <= sum(len(f"x{n} word") + len(f"y{n} wort") for n in drawn) <= 40_000
    assert abs(sum(drawn) / len(drawn) - 4_500) < 4 * 9_000 / (12 * len(drawn)) ** 0.5


# ---------------------------------------------------------------------- what may be asked for


def test_texts_named_several_times_become_several_corpora():
    trained = Named(["a.en", "b.en"], ["a.de", "b.de"], ["c.tsv"])
    named = gather(trained, Named(["v.en"], ["v.de"]), shares="3,1,2")
    recipe = choose(**named)
    assert [(one.source, one.table, one.share) for one in recipe.data.corpora] == [
        ("a.en", None, 3.0), ("b.en", None, 1.0), (None, "c.tsv", 2.0),
    ]  # fmt: skip
    assert (recipe.data.valid_source, recipe.data.source) == ("v.en", None)
    assert choose(**gather(Named(["a.en"], ["a.de"]))).data.source == "a.en"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"trained": Named(["a", "b"], ["c"])}, "2 of --source and 1 of --target"),
        ({"trained": Named(["a"], ["b"]), "shares": "1"}, "several corpora"),
        ({"trained": Named(["a", "b"], ["c", "d"]), "shares": "1,x"}, "not 2 numbers"),
        ({"trained": Named(["a", "b"], ["c", "d"]), "shares": "1,0"}, "not 2 numbers"),
        (
            {"trained": Named(tables=["a.tsv", "b.tsv", "c.tsv"]), "validating": Named(tables=["v.tsv", "w.tsv"])},
            "2 validation texts for 3",
        ),
    ],
)
def test_what_does_not_fit_together_is_told(asked, words):
    with pytest.raises(UsageError, match=words):
        gather(**asked)


def test_a_prepared_folder_trains_with_its_own_vocabulary(made, tmp_path):
    run(small(*made[:2]), tmp_path / "p")
    recipe = choose(prepared=str(tmp_path / "p"), recipe="tiny")
    assert recipe.vocabulary.size == 600
    assert recipe.data.prepared == str(tmp_path / "p")
    with pytest.raises(UsageError, match=r"prepared with vocabulary\.size=600"):
        choose(prepared=str(tmp_path / "p"), changes={"vocabulary.size": 500})
    told = json.loads((tmp_path / "p" / "prepared.json").read_text())
    assert told["pairs"] == PAIRS


def test_data_prepare_never_removes_a_folder_that_holds_something_else(made, tmp_path):
    recipe, out = small(*made[:2]), tmp_path / "mine"
    out.mkdir()
    assert list(prepare_folder(recipe, out))  # an empty folder is taken
    assert list(prepare_folder(recipe, out))  # and the same data are found again
    for place, other in ((tmp_path / "papers", recipe), (out, recipe.change({"seed": 5}))):
        place.mkdir(exist_ok=True)
        (place / "thesis.txt").write_text("three years of work")
        with pytest.raises(UsageError, match="not empty"):
            list(prepare_folder(other, place))
        assert (place / "thesis.txt").read_text() == "three years of work"


def test_data_prepared_before_a_setting_existed_are_found_again(made, tmp_path):
    recipe = small(*made[:2])
    first = run(recipe, tmp_path / "p")
    path = tmp_path / "p" / "prepared.json"
    summary = json.loads(path.read_text())
    del summary["request"]["data"]["temperature"], summary["request"]["vocabulary"]["characters"]
    path.write_text(json.dumps(summary))
    manifest = tmp_path / "p" / "MANIFEST.json"
    if "prepared.json" in (entries := json.loads(manifest.read_text())):
        entries["prepared.json"]["size"] = path.stat().st_size
        manifest.write_text(json.dumps(entries))
    before = (tmp_path / "p" / "source.ids").stat().st_mtime_ns
    again = run(recipe, tmp_path / "p")
    assert again.digest == first.digest
    assert (tmp_path / "p" / "source.ids").stat().st_mtime_ns == before


def test_two_that_prepare_the_same_folder_do_not_meet(made, tmp_path, monkeypatch):
    from jumok.disk import locks

    monkeypatch.setattr(locks, "WAIT", 0.1)
    with locks.lock(tmp_path / "p.work", "the prepared data"):
        child = subprocess.run(command(made, tmp_path / "p"), capture_output=True, text=True)
    assert child.returncode == 2
    assert "the prepared data" in child.stderr
    assert str(os.getpid()) in child.stderr
    subprocess.run(command(made, tmp_path / "p"), check=True, capture_output=True)


def test_a_run_begun_before_pairs_were_cleaned_goes_on_with_its_own_store(tmp_path):
    import shutil

    import jumok
    from jumok.data import store
    from jumok.errors import Resumable
    from jumok.storage.checkpoint import RunFolder
    from tests.conftest import MICRO

    recipe = presets.tiny().change(MICRO | {"training.validate_every": 2})
    whole = jumok.train(recipe=recipe, out=tmp_path / "whole").folder
    steps: list[int] = []
    watch = [lambda event: steps.append(event["step"]) if event["event"] == "step" else None]
    with pytest.raises(Resumable):
        jumok.train(recipe=recipe, out=tmp_path / "before", sinks=watch, stop=lambda: len(steps) >= 3)
    run = RunFolder(tmp_path / "before")
    made = folder.load(run.data / "prepared")
    trained, _ = resolve.resolve_all(recipe.data, recipe.seed)
    share = pipeline.held_out_share(recipe, 400)
    pairs = (pair for pair in trained[0] if not corpora.is_held_out(pair.source, share))
    filters = store.Filters(recipe.data.longest, recipe.data.ratio)
    identity = f"{trained[0].digest}:{share}"
    old = store.build(pairs, made.vocabularies, filters, run.data, identity=identity)
    assert not old.mixed
    shutil.rmtree(run.data / "prepared")
    text = (run.path / "recipe.toml").read_text()
    (run.path / "recipe.toml").write_text(re.sub(r"\[data\.clean\]\n(?:.+\n)+\n?", "", text))
    again = jumok.train(
        recipe=recipe.change({f"data.clean.{rule}": True for rule in ("copies", "symbols")}), out=run.path
    )
    assert not (run.data / "prepared").exists()
    model = Path("model") / "model.safetensors"
    assert (again.folder / model).read_bytes() == (whole / model).read_bytes()


def test_another_validation_text_or_another_excluded_file_is_prepared_anew(tmp_path):
    pairs = [(f"This is sentence {n} of a text.", f"Das ist der Satz {n} eines Textes.") for n in ("a", "b", "c", "d")]
    valid = written(tmp_path, [("Quite another thing.", "Etwas ganz anderes.")], "valid")
    (tmp_path / "test.xx").write_text("Etwas, das nirgends steht.\n")
    recipe = small(*written(tmp_path, pairs), **{"vocabulary.size": 330, "vocabulary.at_most": True})
    recipe = recipe.change({"data.valid_source": valid[0], "data.valid_target": valid[1]})
    recipe = recipe.change({"data.exclude": [str(tmp_path / "test.xx")]})
    assert len(run(recipe, tmp_path / "p").store) == 4
    Path(valid[0]).write_text("Something else altogether.\n")
    assert [pair.source for pair in run(recipe, tmp_path / "p").valid] == ["Something else altogether."]
    (tmp_path / "test.xx").write_text("Das ist der Satz c eines Textes.\n")
    assert run(recipe, tmp_path / "p").store.lines.tolist() == [1, 2, 4]


def test_a_text_that_was_only_touched_is_not_prepared_anew(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Line {n} of a text that is learnt itself.\n" for n in range(300)))
    recipe = choose(text=str(text), recipe="tiny", changes={"vocabulary.size": 330, "vocabulary.at_most": True})
    first = run(recipe, tmp_path / "p")
    os.utime(text)
    events: list[str] = []
    again = run(recipe, tmp_path / "p", report=lambda event, **_: events.append(event))
    assert set(events) == {"progress"}, "it is compared, not prepared"
    assert again.digest == first.digest
