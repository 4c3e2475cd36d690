"""`jumok bench decode`: systems take turns, only translating is timed, ratios are of one round, failures are told."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jumok as package
from bench.peers import decode as arena
from bench.peers import decode_ct2
from bench.places import Absent, environment, peer_python, peers
from jumok import machine
from jumok.bench import decode, worker
from jumok.bench.decode import Contender, Gone, Process, Times, contest, ratio, row, spread
from jumok.bench.measure import Reading
from jumok.bench.worker import WARM, Jumok, System, answer
from jumok.config import presets
from jumok.runs.experiment import train
from jumok.translator import load
from tests.conftest import MICRO

PAIRS = [("a b c", "c b a"), ("d e", "e d"), ("f", "f"), ("g h i j k", "k j i h g")]
TOY = """
import sys
from pathlib import Path
from jumok.bench.worker import System, serve

log, name, fault = sys.argv[1:4]

class Toy(System):
    version = "7"
    once = [__file__, log, name, "once"]

    def note(self, what):
        with open(log, "a") as file:
            file.write(f"{what} {name}\\n")

    def tokens(self, texts):
        return sum(len(text.split()) for text in texts)

    def warm(self, texts, beam):
        self.note(f"warm{beam}")
        return "by heart"

    def translate(self, texts, beam):
        self.note(f"batch{beam}" if len(texts) > 1 else f"single{beam}")
        if fault == "dies":
            print("a first word")
            sys.exit("no patience left")
        if fault == "noisy":
            print("a library that chats on stdout", flush=True)
        return [" ".join(reversed(text.split())) for text in texts]

if fault == "unborn":
    sys.exit("there is no such model")
if fault == "once":
    print(Toy().translate([sys.argv[-1]], 1)[0])
    sys.exit()
serve(Toy)
"""


@pytest.fixture
def toys(tmp_path):
    """Systems that turn the words round and write down what they are asked; a letter each, maybe with a fault."""
    (tmp_path / "toy.py").write_text(TOY)
    log = tmp_path / "log"

    def make(**faults: str) -> list[Contender]:
        start = (sys.executable, str(tmp_path / "toy.py"), str(log))
        return [Contender(name, (*start, name, fault)) for name, fault in faults.items()]

    make.log = lambda: log.read_text().strip().split("\n")
    return make


class Slow(System):
    """Takes a moment for everything, least for translating."""

    version, once = "1", ()

    def __init__(self) -> None:
        self.calls = 0

    def translate(self, texts: list[str], beam: int) -> list[str]:
        self.calls += 1
        time.sleep(0.01)
        return texts

    def tokens(self, texts: list[str]) -> int:
        time.sleep(0.3)
        return 5


# ------------------------------------------------------------------------------------------ the protocol


def test_systems_take_turns_and_another_one_begins_each_round(toys):
    contest(toys(a="", b="", c=""), PAIRS, beams=[4], rounds=4)
    log = toys.log()
    assert log[:3] == ["warm4 a", "warm4 b", "warm4 c"]
    assert [line[-1] for line in log if line.startswith("batch4")] == list("abcbcacababc")
    assert not any(line.startswith("batch") for line in log[15:])


def test_time_outside_translating_is_not_counted():
    found = answer(Slow(), {"do": "batch", "beam": 1, "texts": ["x", "y"]})
    assert 0.01 <= found["seconds"] < 0.2
    assert (found["texts"], found["source_tokens"]) == (["x", "y"], 5)


def test_single_sentences_are_timed_one_by_one_after_a_few_that_do_not_count():
    system, texts = Slow(), [f"sentence {n}" for n in range(8)]
    found = answer(system, {"do": "single", "beam": 1, "texts": texts})
    assert len(found["milliseconds"]) == 8
    assert system.calls == WARM + 8
    assert min(found["milliseconds"]) >= 10


def test_a_question_that_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="no such question"):
        answer(Slow(), {"do": "dance"})


@pytest.mark.parametrize("others", [5.0, 0.0])
def test_an_answer_says_whether_the_machine_was_left_alone(others, monkeypatch):
    readings = iter([Reading(0.0, 0.0, 0.0, 0.0), Reading(1.0, 1.0, 0.0, others)])
    monkeypatch.setattr(worker, "read_clocks", lambda: next(readings))
    assert answer(Slow(), {"do": "batch", "beam": 1, "texts": ["x"]})["clean"] is (others == 0.0)


def test_a_ratio_compares_times_of_the_same_round():
    """The machine was ten times slower in the second round, and we were slow in the third."""
    assert ratio([1.0, 10.0, 3.0], [2.0, 20.0, 1.0]) == 2.0
    seconds = {"a": [2.0, 20.0, 1.0], "b": [1.0, 10.0, 3.0]}
    rounds = [
        {
            name: {"seconds": own[n], "texts": ["f"], "source_tokens": 6, "clean": n != 1}
            for name, own in seconds.items()
        }
        for n in range(3)
    ]
    same = {name: {"settings": "", "peak_memory": 1} for name in seconds}
    found = row(Times(1, same, rounds, same), "b", "a", ["f"])
    assert found["ratio"] == 2.0
    assert (found["sentences_per_second"], found["sentences_per_second_best"]) == (1 / 3, 1.0)
    assert found["source_tokens_per_second"] == 2.0
    assert found["disturbed"] == 1


def test_percentiles_are_times_that_so_many_sentences_do_not_exceed():
    found = spread([float(n) for n in range(200, 0, -1)], clean=True)
    assert [found[f"milliseconds_p{share}"] for share in (50, 95, 99)] == [100.0, 190.0, 198.0]


def test_a_system_that_dies_is_told_with_its_last_words_and_the_others_go_on(toys):
    said = []
    found = contest(toys(a="dies", b="", c="unborn"), PAIRS, beams=[1, 2], rounds=2, say=said.append)
    assert found["skipped"] == {
        "c": "it ended with code 1: there is no such model",
        "a": "it ended with code 1: no patience left",
    }
    assert "left out: a: it ended with code 1: no patience left" in said
    assert [(line["system"], line["beam"], line["ratio"]) for line in found["systems"]] == [
        ("b", 1, 1.0),
        ("b", 2, 1.0),
    ]
    assert all(line["bleu"] >= 0 and line["start_seconds"] > 0 for line in found["systems"])


def test_what_a_library_prints_is_not_taken_for_an_answer(toys):
    found = contest(toys(a="noisy"), PAIRS, beams=[1], rounds=1)
    assert found["skipped"] == {}
    assert found["systems"][0]["chosen"] == "by heart"


def test_a_process_is_gone_when_it_was_asked_to_leave(toys):
    process = Process(toys(a="")[0])
    process.close()
    assert process.process.returncode == 0


def test_peak_memory_is_that_of_the_process_and_not_of_the_one_that_started_it():
    held = bytearray(b"x" * 300_000_000)
    code = "from jumok.machine import peak_memory; print(peak_memory())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(out) < 150_000_000 < len(held) < machine.peak_memory()


def test_the_one_who_asks_does_not_load_torch():
    code = "import sys, jumok.bench.decode, jumok.bench.worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------ ours


def test_an_engine_is_asked_of_the_translator_and_of_the_command_line_alike(monkeypatch):
    asked = []

    class Fake:
        @classmethod
        def load(cls, path, *, say, **choices):
            asked.append(choices)
            return cls()

        def translate(self, text, **options):
            asked.append(options)
            return []

    monkeypatch.setattr(package, "Translator", Fake, raising=False)
    command = ["-m", "jumok", "translate", "M"]
    assert Jumok("M", "torch", None, False).once == [*command, "--engine", "torch"]
    fast = [*command, "--engine", "ctranslate2", "--precision", "int8"]
    assert Jumok("M", "ctranslate2", "int8", False).once == fast
    assert Jumok("M", "ctranslate2", "int8", True).once == [*fast, "--shortlist"]
    ours = {"engine": "ctranslate2", "precision": "int8"}
    torch = {"engine": "torch", "precision": None, "shortlist": False}
    assert asked[::2] == [torch, ours | {"shortlist": False}, ours | {"shortlist": True}]


def test_what_is_timed_is_what_the_command_line_does_text_without_details(micro, monkeypatch):
    system, asked = Jumok(str(micro), "torch", "float32", False), []
    monkeypatch.setattr(system.translator, "translate", lambda texts, **options: asked.append(options) or [])
    system.translate(["a"], 3)
    assert asked == [{"beam": 3, "details": False}]


def test_an_engine_that_a_model_cannot_have_is_left_out_in_a_line(tmp_path):
    run = train(recipe=presets.tiny().change(MICRO | {"model.norm": "rms"}), out=tmp_path / "run").folder
    (contender,) = decode.own_contenders(str(run), ["ctranslate2-int8"])
    with pytest.raises(Gone, match=r"^it would translate with the torch engine: CTranslate2 does not support norm"):
        Process(contender)


@pytest.fixture
def sentences(tmp_path) -> tuple[Path, Path]:
    """Source and reference files of the copy task."""
    files = tmp_path / "test.source", tmp_path / "test.target"
    for file in files:
        file.write_text("".join(f"{text}\n" for text, _ in PAIRS * 3))
    return files


FIELDS = """system version beam chosen seconds sentences_per_second sentences_per_second_best source_tokens_per_second
ratio peak_memory bleu disturbed milliseconds_p50 milliseconds_p95 milliseconds_p99 milliseconds_clean start_seconds"""


def test_a_model_is_measured_from_files_to_figures(jumok, micro, sentences, tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "STARTS", 1)
    files = ["--source", sentences[0], "--target", sentences[1]]
    chosen = ["--engines", "torch,ctranslate2-float32", "--beams", "1,2", "--rounds", 2]
    found = jumok("bench", "decode", micro, *files, *chosen, "--json")
    assert found.code == 0, found.err
    figures = json.loads(found.out)
    assert figures["skipped"] == {}
    assert [(line["system"], line["beam"]) for line in figures["systems"]] == [
        ("jumok torch", 1), ("jumok ctranslate2-float32", 1), ("jumok torch", 2), ("jumok ctranslate2-float32", 2),
    ]  # fmt: skip
    assert figures["systems"][1]["peak_memory"] < figures["systems"][0]["peak_memory"]  # it does not load torch
    assert all(set(line) == set(FIELDS.split()) for line in figures["systems"])
    assert all(line["sentences_per_second"] > 0 and line["peak_memory"] > 1e6 for line in figures["systems"])
    assert (figures["sentences"], figures["rounds"], figures["source"]) == (12, 2, "test.source")
    assert str(tmp_path) not in found.out
    shown = decode.table(figures)
    assert shown[0].split()[:3] == ["system", "beam", "sentences/s"]
    assert f"{figures['systems'][1]['sentences_per_second']:,.1f}" in shown[2]
    assert len({len(line) for line in shown[:5]}) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--beams", "1,x"], "'1,x' is not a list of whole numbers"),
        (["--beams", "0"], "--beams must be at least 1"),
        (["--rounds", 0], "--rounds must be at least 1"),
        (["--sentences", 0], "--sentences must be at least 1"),
        (["--engines", "torsch"], "did you mean 'torch'?"),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused_before_anything_runs(jumok, micro, sentences, options, words):
    found = jumok("bench", "decode", micro, "--source", sentences[0], "--target", sentences[1], *options)
    assert found.code == 2
    assert words in found.complaint[0]


def test_where_nothing_can_be_measured_the_reasons_are_told(jumok, sentences, tmp_path):
    files = ["--source", sentences[0], "--target", sentences[1]]
    found = jumok("bench", "decode", tmp_path / "nowhere", *files, "--engines", "torch")
    assert found.code == 1
    assert found.complaint[0] == "jumok: no engine could be measured"
    assert "jumok torch: " in found.complaint[1]


# ------------------------------------------------------------------------------------------ peers


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> Path:
    """A run of the paper's kind, which Marian has too; look at it, never change it."""
    changes = MICRO | {"model.norm_place": "post", "model.positions": "sinusoidal"}
    return train(recipe=presets.tiny().change(changes), out=tmp_path_factory.mktemp("runs") / "paper").folder


def ask(contender: Contender, *questions: dict) -> list[dict]:
    process = Process(contender)
    try:
        return [process.ask(**question) for question in questions]
    finally:
        process.close()


def agree(ours: list[str], theirs: list[str]) -> bool:
    """The same translations, but that one may go on where the other has reached its limit of length."""
    return all(a.startswith(b) or b.startswith(a) for a, b in zip(ours, theirs, strict=True))


TEXTS = [text for text, _ in PAIRS]
QUESTIONS = [
    {"do": "warm", "beam": 2, "texts": TEXTS},
    {"do": "batch", "beam": 1, "texts": TEXTS},
    {"do": "batch", "beam": 2, "texts": TEXTS},
    {"do": "single", "beam": 1, "texts": TEXTS[:2]},
    {"do": "memory"},
]


def test_ctranslate2_by_itself_answers_the_same_questions_and_translates_as_we_do(paper, tmp_path):
    contender = arena.Arena(str(paper), tmp_path, tmp_path, threads=1).contender("ct2-float32")
    warm, greedy, beam, single, memory = ask(contender, *QUESTIONS)
    translator = load(paper)
    assert agree([one.text for one in translator.translate(TEXTS, beam=1)], greedy["texts"])
    assert len(beam["texts"]) == len(TEXTS)
    assert greedy["source_tokens"] == sum(map(len, translator.vocabularies.source.encode_all(TEXTS)))
    assert warm["settings"].startswith("workers × threads 1 × 1, batches of ")  # as many as it was given
    assert len(single["milliseconds"]) == 2
    assert memory["peak_memory"] > 1e6
    process = Process(contender)
    assert process.first_translation("a b", 1) > 0
    process.close()


def test_the_fastest_settings_are_kept_and_hopeless_ones_only_tasted(monkeypatch):
    seen = []

    def clock(run, texts, beam, settings):
        seen.append((settings[0], len(texts)))
        return len(texts) * settings[0], None

    monkeypatch.setattr(decode_ct2, "time_call", clock)
    engine = object.__new__(decode_ct2.CTranslate2)
    assert engine.choose_fastest([["x"] * 24], 1, [(2, 1, 1), (1, 1, 1), (20, 1, 1)]) == (1, 1, 1)
    assert seen == [(2, 8), (2, 24), (1, 8), (1, 24), (20, 8)]


def hugging_face(run: Path, folder: Path) -> Contender:
    """The driver in the peers' environment, or in ours where that has transformers."""
    made = arena.Arena(str(run), folder, peers(None), threads=1)
    try:
        return made.contender("hf")
    except Absent:
        pytest.importorskip("transformers")
        command = [sys.executable, "-W", "ignore", "-m", "bench.peers.decode_hf", made.bundle]
        return Contender("transformers", command, made.environment)


def test_transformers_answer_the_same_questions_and_translate_as_we_do(paper, tmp_path):
    _, greedy, beam, single, memory = ask(hugging_face(paper, tmp_path), *QUESTIONS)
    ours = [one.text for one in load(paper).translate(TEXTS, beam=1)]
    assert any(ours)
    assert agree(ours, greedy["texts"])
    assert len(beam["texts"]) == len(TEXTS)
    assert len(single["milliseconds"]) == 2
    assert memory["peak_memory"] > 1e6


def test_transformers_are_left_out_where_they_have_no_such_model(micro, tmp_path):
    with pytest.raises(Gone, match="transformers has no such model: norm_place='pre', positions='rotary'"):
        Process(hugging_face(micro, tmp_path))


def test_peers_that_cannot_be_started_are_said_so(paper, tmp_path, capsys):
    made = arena.Arena(str(paper), tmp_path, tmp_path, threads=None)
    assert arena.present(made, ["hf", "marian"]) == []
    complaint = capsys.readouterr().err
    assert "hf is not installed" in complaint
    assert "no peer is called 'marian'; known: ct2-int8, ct2-float32, hf" in complaint
    with pytest.raises(Absent):
        peer_python(tmp_path, "hf")


def test_a_comparison_writes_every_system_and_the_ratios_of_ours_to_theirs(
    toys, tmp_path, sentences, monkeypatch, capsys
):
    monkeypatch.setattr(
        arena, "own_contenders", lambda *_: [Contender(f"jumok {c.name}", c.command) for c in toys(a="", b="")]
    )
    monkeypatch.setattr(arena, "present", lambda *_: toys(peer="", ill="unborn"))
    files = ["--source", str(sentences[0]), "--target", str(sentences[1])]
    assert (
        arena.main(["--model", str(tmp_path / "run"), *files, "--beams", "3", "--rounds", "2", "--out", str(tmp_path)])
        == 0
    )
    lines = (tmp_path / "decode-run.md").read_text().split("\n")
    assert lines == [*capsys.readouterr().out.split("\n")]
    assert "- left out: ill: it ended with code 1: there is no such model" in lines
    assert [line.split(" | ")[:2] for line in lines if line.startswith(("| jumok", "| peer"))][:4] == [
        ["| jumok a", "3"], ["| jumok b", "3"], ["| peer", "3"], ["| peer", "beam"],
    ]  # fmt: skip
    figures = json.loads((tmp_path / "decode-run.jsonl").read_text())
    seconds = {one["system"]: one["seconds"] for one in figures["systems"]}
    shares = [f"{ratio(seconds[name], seconds['peer']):.2f}" for name in ("jumok a", "jumok b")]
    assert f"| peer | 3 | {' | '.join(shares)} |" in lines
    assert str(tmp_path) not in "\n".join(lines)


def test_a_process_of_a_peer_gets_no_settings_of_ours(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000")
    assert "GOMP_SPINCOUNT" not in environment()
    assert os.environ["GOMP_SPINCOUNT"] == "1000"
