"""Glossaries, jobs and corrections: what they hold, and that they are whole or ignored after kill -9."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumok.documents.corrections import Corrections
from jumok.documents.glossary import Glossary
from jumok.documents.glossary_store import Dictionary, GlossaryStore
from jumok.documents.guards import copies, find_faults, repeats
from jumok.documents.jobs import DONE, JobStore
from jumok.errors import DataError, DiskError, UsageError
from jumok.text.tables import row_parser

# ------------------------------------------------------------------------------------------ glossaries


def targets(glossary: Glossary, text: str, language: str) -> list[str]:
    return [term.target for term in glossary.find(text, language)]


@pytest.mark.parametrize(
    ("text", "form", "entries"),
    [
        ("a\tb\nc\td\n", "tsv", (("a", "b"), ("c", "d"))),
        ("a\tb\r\n\r\n  c \t d ", "tsv", (("a", "b"), ("c", "d"))),
        ('"ice, cream",Eis\n"say ""hi""",x\n', "csv", (("ice, cream", "Eis"), ('say "hi"', "x"))),
        ("a,b,en,de\n", "csv", (("a", "b"),)),
        ("a\tb, c", "tsv", (("a", "b, c"),)),
    ],
)
def test_entries_are_read_as_clients_send_them(text, form, entries):
    glossary = Glossary.parse(text, form)
    assert glossary.entries == entries
    assert Glossary.parse(glossary.to_tsv()).entries == entries


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("", "tsv", "no entries"),
        ("\n \n", "tsv", "no entries"),
        ("a\tb\na\tc", "tsv", "line 2.*already"),
        ("a\t", "tsv", "line 1.*empty"),
        ("\tb", "tsv", "line 1.*empty"),
        ("a", "tsv", "line 1.*two columns"),
        ("a\tb\tc", "tsv", "line 1.*two columns"),
        ('"a,b', "csv", "quotation marks"),
        ("a\x07\tb", "tsv", "control characters"),
        (f"{'x' * 2_000}\tb", "tsv", "1,024 bytes"),
        ("a\tb\n" * 3_000_000, "tsv", "at most 10,000,000 bytes"),
    ],
)
def test_a_bad_glossary_is_refused_with_its_line(text, form, words):
    with pytest.raises(DataError, match=words):
        Glossary.parse(text, form)


@pytest.mark.parametrize(
    ("source", "text", "language", "matches"),
    [
        ("apple", "I eat apples.", "en", True),
        ("apple", "Apple pie", "en", True),
        ("apple", "pineapple", "en", False),
        ("apple", "applesauce", "en", False),
        ("Apple", "an apple a day", "en", False),
        ("Apple", "APPLE STORE", "en", True),
        ("US", "give us that", "en", False),
        ("cat", "concatenate", "en", False),
        ("ice cream", "Ice cream, please", "en", True),
        ("C++", "I write C++ code", "en", True),
        ("사과", "저는 사과를 먹어요.", "ko", True),
        ("사과", "사과에서는 향이 나요", "ko", True),
        ("사과", "풋사과를 먹어요", "ko", False),
        ("사과", "사과나무가 있어요", "ko", False),
        ("Hund", "die Hunde bellen", "de", True),
        ("Hund", "des Hundes", "de", True),
        ("Hund", "der Hundertste", "de", False),
        ("Ei", "Eis essen", "de", False),
        ("苹果", "我吃苹果。", "zh", True),
    ],
)
def test_terms_are_whole_words_with_the_endings_of_their_language(source, text, language, matches):
    assert bool(Glossary(((source, "x"),)).find(text, language)) == matches


def test_the_longest_term_wins_and_terms_do_not_overlap():
    glossary = Glossary((("ice", "얼음"), ("ice cream", "아이스크림"), ("cream cake", "케이크"), ("i", "나")))
    assert targets(glossary, "ice cream cake and ice", "en") == ["아이스크림", "얼음"]
    assert targets(glossary, "I like ice.", "en") == ["나", "얼음"]


def test_a_large_glossary_is_fast():
    glossary = Glossary(tuple((f"term{number} word", f"t{number}") for number in range(100_000)))
    glossary.find("warm up", "en")
    before = time.process_time()
    assert targets(glossary, "here is term77 word and term99999 word", "en") == ["t77", "t99999"]
    assert time.process_time() - before < 1


def test_glossaries_are_there_again_after_a_restart(tmp_path):
    store = GlossaryStore(tmp_path, now=lambda: 1_628_000_178.329)
    entry = store.create("Food", [Dictionary("EN", "de", Glossary((("apple", "Apfel"),)))])
    assert entry.creation_time == "2021-08-03T14:16:18.329Z"
    assert entry.dictionaries == (("EN", "de", 1),)
    store.put_dictionary(entry.id, Dictionary("en", "ko", Glossary((("apple", "사과"), ("pear", "배")))))
    store.change(entry.id, name="Fruit", dictionaries=[Dictionary("en", "de", Glossary((("pear", "Birne"),)))])
    again = GlossaryStore(tmp_path)
    [listed] = again.list_entries()
    assert (listed.name, listed.created) == ("Fruit", entry.created)
    german = again.find_glossary(entry.id, "en-US", "DE")
    assert german is not None
    assert dict(german.entries) == {"apple": "Apfel", "pear": "Birne"}
    assert again.delete_dictionary(entry.id, "en", "ko")
    assert not again.delete_dictionary(entry.id, "en", "ko")
    assert GlossaryStore(tmp_path).find_glossary(entry.id, "en", "ko") is None
    assert again.delete(entry.id)
    assert not again.delete(entry.id)
    assert GlossaryStore(tmp_path).list_entries() == []


def test_a_broken_glossary_is_ignored_and_an_unknown_id_names_no_file(tmp_path):
    store = GlossaryStore(tmp_path / "glossaries")
    entry = store.create("a", [Dictionary("en", "de", Glossary((("a", "b"),)))])
    (tmp_path / "secret.glossary").write_text("secret")
    for id in ("../secret", "", "/etc/passwd", entry.id.upper()):
        assert store.find(id) is None
        assert store.load(id) == ()
        assert not store.delete(id)
    path = tmp_path / "glossaries" / f"{entry.id}.glossary"
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:10], b"", whole + b"x", b"[" * 100_000):
        path.write_bytes(broken)
        assert GlossaryStore(tmp_path / "glossaries").list_entries() == []
    path.write_bytes(whole.replace(b"a\tb", b"a\tc"))
    assert GlossaryStore(tmp_path / "glossaries").load(entry.id) == ()


def test_pairs_of_a_glossary_are_distinct_and_names_are_needed(tmp_path):
    store = GlossaryStore(tmp_path)
    one = Dictionary("en", "de", Glossary((("a", "b"),)))
    for name, several in (("x", [one, one]), ("", [one]), ("x" * 2_000, [one])):
        with pytest.raises(UsageError):
            store.create(name, several)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------ kill -9

WRITER = """
import sys
from jumok.documents.corrections import Corrections
from jumok.documents.glossary import Glossary
from jumok.documents.glossary_store import Dictionary, GlossaryStore
from jumok.documents.jobs import JobStore
folder = sys.argv[1]
glossaries, jobs, corrections = GlossaryStore(folder + "/g"), JobStore(folder + "/j"), Corrections(folder + "/c")
print("ready", flush=True)
number = 0
while True:
    number += 1
    terms = Glossary(tuple((f"{i}", f"{number}") for i in range(300)))
    entry = glossaries.create("x", [Dictionary("en", "de", terms)])
    glossaries.change(entry.id, name=f"{number}")
    corrections.add(f"source {number}" * 50, "better", source_language="en", target_language="de")
    job, _ = jobs.create("a.txt", b"x" * 10_000)
    if number % 2:
        jobs.start(job.id)
        jobs.finish(job.id, b"y" * 10_000)
    if number > 40:
        glossaries.delete(entry.id)
        jobs.delete(job.id)
"""


def test_all_is_whole_or_ignored_after_kill_9(tmp_path, tries):
    draw = random.Random(1)
    for _ in range(tries(4, 40)):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(draw.uniform(0.01, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = GlossaryStore(tmp_path / "g")
        for entry in store.list_entries():
            [dictionary] = store.load(entry.id)
            assert len(dictionary.glossary.entries) == 300
        jobs = JobStore(tmp_path / "j")
        for job in list(jobs.jobs.values()):
            assert (
                (jobs.read_result(job.id) == b"y" * 10_000)
                if job.status == DONE
                else jobs.start(job.id) == b"x" * 10_000
            )
            jobs.delete(job.id)
        Corrections(tmp_path / "c").add("after", "it", source_language="en", target_language="de")
        lines = (tmp_path / "c" / "en-de.jsonl").read_text().splitlines()
        assert all(json.loads(line)["target"] for line in lines)


# ------------------------------------------------------------------------------------------ corrections and guards


def test_corrections_are_a_table_that_train_reads(tmp_path):
    corrections = Corrections(tmp_path, now=lambda: 0.0)
    corrections.add("An\tapple\n", " 사과 ", source_language="en", target_language="ko", machine="배")
    corrections.add("Two", "둘", source_language="en", target_language="ko")
    path = tmp_path / "en-ko.jsonl"
    parse = row_parser("en-ko.jsonl")
    assert [parse(line) for line in path.read_text().splitlines()] == [("An apple", "사과"), ("Two", "둘")]
    assert json.loads(path.read_text().splitlines()[0])["time"] == "1970-01-01T00:00:00Z"


def test_unfinished_lines_are_removed_when_a_server_starts(tmp_path):
    whole = '{"source": "a", "target": "b"}\n'
    for name, content in (("en-ko", whole + '{"source": "ha'), ("en-de", whole), ("de-en", '{"sou')):
        (tmp_path / f"{name}.jsonl").write_text(content)
    Corrections(tmp_path).repair()
    assert {path.stem: path.read_text() for path in tmp_path.iterdir()} == {"en-ko": whole, "en-de": whole, "de-en": ""}
    Corrections(tmp_path / "none").repair()
    assert not (tmp_path / "none").exists()


def test_an_unfinished_line_is_removed_and_languages_name_no_other_file(tmp_path):
    corrections = Corrections(tmp_path)
    (tmp_path / "en-ko.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "half')
    corrections.add("c", "d", source_language="en", target_language="ko")
    assert [json.loads(line)["source"] for line in (tmp_path / "en-ko.jsonl").read_text().splitlines()] == ["a", "c"]
    corrections.add("c", "d", source_language="../../x", target_language="/etc")
    assert (tmp_path / "x-etc.jsonl").exists()
    for bad in ("", " \n", "x" * 20_000):
        with pytest.raises(UsageError):
            corrections.add(bad, "d", source_language="en", target_language="ko")


def test_a_folder_that_cannot_be_written_is_an_error_for_people(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DiskError, match="cannot save"):
        Corrections(tmp_path / "file" / "c").add("a", "b", source_language="en", target_language="de")
    with pytest.raises(DiskError, match="cannot save"):
        JobStore(tmp_path / "file" / "j")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the the the", True),
        ("I am here and I am here and I am here and so on", True),
        ("오늘은 날씨가 오늘은 날씨가, 오늘은 날씨가.", True),
        ("我喜欢我喜欢我喜欢苹果", True),
        ("very very good", False),
        ("hmmmmmmm", False),
        ("1 1 1 1 and 10000000", False),
        ("a rose is a rose", False),
        ("...... ------", False),
        ("hahaha", True),
    ],
)
def test_a_phrase_three_times_in_a_row_is_a_repetition(text, expected):
    assert repeats(text) == expected


def test_flags_of_answers():
    assert find_faults("Where is the station?", "Wo ist der Bahnhof?") == ()
    assert find_faults("Where is the station?", "where is the  station") == ("copies",)
    assert find_faults("Berlin", "Berlin") == ()
    assert find_faults("no no no", "nein nein nein") == ()
    assert find_faults("one", "eins eins eins", ended=False) == ("limit", "repeats")
    for text in ("10 10 10 10", "Maria Schmidt", ""):
        assert find_faults(text, text) == ()
    assert copies("서울에서 만나요 그럼", "서울에서 만나요, 그럼.")


@pytest.mark.parametrize("text", ["a " * 100_000, "ab" * 200_000, "x" * 500_000, "a b c d " * 30_000])
def test_guards_are_fast_on_any_text(text):
    before = time.process_time()
    repeats(text)
    copies(text, text)
    assert time.process_time() - before < 5


def test_the_stores_are_for_their_owner_only(tmp_path):
    store = JobStore(tmp_path / "jobs")
    store.create("a.txt", b"x")
    assert Path(store.folder).stat().st_mode & 0o077 == 0
    assert os.listdir(store.folder) == list(store.jobs)
