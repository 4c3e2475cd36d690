"""The command line as a newcomer meets it: results on stdout, progress on stderr, mistakes in three lines."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import jumok as package
from tests.conftest import MICRO

OPTIONS = [part for key, value in MICRO.items() if value is not None for part in ("--set", f"{key}={value}")]
TRAIN = ["train", *OPTIONS, "--steps", "6"]


def lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


@pytest.fixture
def parallel(tmp_path):
    """Two small parallel files."""
    source, target = tmp_path / "test.en", tmp_path / "test.de"
    source.write_text("a b c\nd e\n\nf g h a\n")
    target.write_text("a b c\nd e\nb\nf g h a\n")
    return source, target


# ------------------------------------------------------------------------------------------ verbs that work


def test_training_prints_the_folder_and_the_same_command_continues_a_run_that_was_stopped(jumok, tmp_path, monkeypatch):
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": 1.0}

    out = tmp_path / "run"
    from jumok.training.validation import Validator

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "__call__", interrupt)  # a signal at the first validation, step 2 of 6
        stopped = jumok(*TRAIN, "--out", out)
    assert stopped.code == 75
    assert stopped.out == ""
    assert stopped.complaint[0].startswith("jumok: stopped at step 2")
    assert not (out / "model").exists()

    unfinished = jumok("translate", out, "a b")
    assert unfinished.code == 65
    assert unfinished.complaint[2] == f"try: jumok model average {out}"

    continued = jumok(*TRAIN, "--out", out)
    assert (continued.code, continued.out) == (0, f"{out}\n")
    assert "Continuing from step 2" in continued.err
    assert "Done after 6 steps" in continued.err


def test_a_sentence_as_argument_in_a_file_and_on_stdin_is_translated_alike(jumok, micro, tmp_path):
    (tmp_path / "in.txt").write_text("a b c\nd e\n")
    by_argument = jumok("translate", micro, "a b c", "d e")
    assert by_argument.code == 0
    assert len(lines(by_argument.out)) == 2
    assert jumok("translate", micro, stdin=b"a b c\nd e").out == by_argument.out
    assert jumok("translate", micro / "model", "--input", "-", stdin=b"a b c\nd e\n").out == by_argument.out
    assert jumok("translate", micro, "-i", tmp_path / "in.txt").out == by_argument.out
    silent = jumok("translate", micro, "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert (silent.code, silent.out) == (0, "")
    assert (tmp_path / "out.txt").read_text() == by_argument.out


def test_there_are_as_many_lines_out_as_in_and_a_blank_line_stays_blank(jumok, micro):
    answer = jumok("translate", micro, "--beam", 1, stdin=b"a b\n\n \nc\n")
    found = lines(answer.out)
    assert len(found) == 4
    assert found[1] == found[2] == ""


def test_json_has_one_object_a_line_with_the_text_and_its_score(jumok, micro):
    plain, rich = jumok("translate", micro, "a b", "c"), jumok("translate", micro, "a b", "c", "--json")
    objects = [json.loads(line) for line in lines(rich.out)]
    assert [one["text"] for one in objects] == lines(plain.out)
    for one in objects:
        assert one["log_probability"] == pytest.approx(sum(one["token_scores"]), abs=1e-4)


def test_the_n_best_come_in_order_with_the_number_of_their_sentence(jumok, micro):
    rows = [line.split("\t", 2) for line in lines(jumok("translate", micro, "a b", "c", "--n-best", 3).out)]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3
    for first in (0, 3):
        scores = [float(row[1]) for row in rows[first : first + 3]]
        assert scores == sorted(scores, reverse=True)


def test_sampling_is_a_matter_of_its_seed(jumok, micro):
    def draw(seed: int) -> str:
        return jumok("translate", micro, "a b c d", "--sample", "--temperature", 2, "--seed", seed).out

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_streaming_prints_what_greedy_search_finds(jumok, micro):
    assert jumok("translate", micro, "a b", "--stream").out == jumok("translate", micro, "a b", "--beam", 1).out


def test_scores_of_given_translations_come_a_line_each(jumok, micro, parallel):
    source, target = parallel
    plain = jumok("score", micro, "--source", source, "--target", target)
    rich = jumok("score", micro, "--source", source, "--target", target, "--json")
    for text, row in zip(lines(plain.out), lines(rich.out), strict=True):
        one = json.loads(row)
        assert text == f"{one['log_probability']:.4f}\t{one['score']:.4f}"
    assert len(lines(plain.out)) == 4


def test_evaluating_gives_scores_with_signatures_and_compares_with_another_output(jumok, micro, parallel, tmp_path):
    source, target = parallel
    plain = jumok("evaluate", micro, "--source", source, "--target", target, "--output", tmp_path / "ours")
    assert (plain.code, plain.err) == (0, "")  # progress is for terminals
    assert "BLEU" in plain.out
    assert "nrefs:1" in plain.out
    assert not {"TER", "perplexity"} & set(plain.out.split())
    assert len(lines((tmp_path / "ours").read_text())) == 4
    rich = jumok(
        "evaluate",
        micro,
        "--source",
        source,
        "--target",
        target,
        "--json",
        "--compare",
        target,
        "--ter",
        "--perplexity",
    )
    found = json.loads(rich.out)
    assert {"bleu", "chrf", "ter", "perplexity", "significance"} <= set(found)
    assert f"BLEU {found['bleu']['value']:.2f}" in plain.out
    by_stdin = jumok("evaluate", micro, "--source", "-", "--target", target, stdin=source.read_bytes())
    assert lines(by_stdin.out)[0] == lines(plain.out)[0]


@pytest.mark.parametrize(
    "words",
    [["translate", "--input", "SOURCE", "--output", "OUT"], ["evaluate", "--source", "SOURCE", "--target", "TARGET"]],
    ids=["translate", "evaluate"],
)
def test_sentences_are_counted_on_a_terminal(micro, parallel, tmp_path, words):
    files = {"SOURCE": parallel[0], "TARGET": parallel[1], "OUT": tmp_path / "out"}
    arguments = [str(files.get(word, word)) for word in [words[0], micro, *words[1:]]]
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "jumok", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    shown = b""
    with contextlib.suppress(OSError):  # what a terminal says when nobody writes to it any more
        while part := os.read(reader, 4_096):
            shown += part
    os.close(reader)
    process.communicate()
    assert process.returncode == 0, shown.decode()
    assert re.search(rb"sentences.*\D3/.*\d/s", shown, re.DOTALL)  # the fourth line is blank


def test_attention_is_drawn_and_written_as_a_page(jumok, micro, tmp_path):
    answer = jumok("look", micro, "a b c", "--html", tmp_path / "page.html", "--layer", 2, "--head", 1)
    assert answer.code == 0
    assert "Cross-attention" in answer.out
    assert "a b c → " in answer.out
    assert "\x1b" not in answer.out, "no colours where there is no terminal"
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert str(tmp_path / "page.html") in answer.err


@pytest.mark.parametrize("built", [True, False])
def test_a_page_without_the_studios_parts_says_how_to_get_them(jumok, micro, tmp_path, monkeypatch, built):
    monkeypatch.setattr("jumok.reports.attention.find_parts", lambda: ("let a;", "b {}") if built else None)
    answer = jumok("look", micro, "a b", "--html", tmp_path / "page.html")
    assert answer.code == 0
    assert answer.err.count("\n") == (1 if built else 2)
    assert ("python tools/studio.py" in answer.err) is not built


def test_a_model_tells_what_it_is_and_the_mean_of_its_checkpoints_is_a_model_too(jumok, micro, tmp_path):
    told = jumok("model", "info", micro)
    assert "1 + 2 layers, d_model 16" in told.out
    assert json.loads(jumok("model", "info", micro, "--json").out)["recipe"] == "tiny"
    made = jumok("model", "average", micro, "--last", 2, "--out", tmp_path / "mean")
    assert (made.code, made.out) == (0, f"{tmp_path / 'mean'}\n")
    assert "mean of the checkpoints 4, 6" in jumok("model", "info", tmp_path / "mean").out


def test_text_files_are_counted_and_checked(jumok, parallel, tmp_path):
    source, target = parallel
    counted = json.loads(jumok("data", "stats", source, target, "--json").out)
    assert (counted["pairs"], counted["source"]["empty_lines"], counted["source"]["words"]) == (4, 1, 9)
    assert "4 pairs" in jumok("data", "stats", source, target).out
    warned = jumok("data", "check", source, target)
    assert (warned.code, "line 3" in warned.out, "see the warnings" in warned.out) == (0, True, True)
    target.write_text("one line\n")
    wrong = jumok("data", "check", source, target)
    assert wrong.code == 64
    assert "4 lines" in wrong.out
    assert json.loads(lines(jumok("data", "check", source, target, "--json").out)[-1])["severity"] == "error"


def test_the_doctor_finds_what_is_needed_and_says_so_when_it_is_not(jumok, monkeypatch):
    from jumok.cli import doctor

    well = jumok("doctor")
    assert well.code == 0
    assert all(line[:2] in ("ok", "--", "!!") for line in lines(well.out))
    assert {"jumok", "packages", "speed"} <= {one["name"] for one in json.loads(jumok("doctor", "--json").out)}
    monkeypatch.setitem(doctor.NEEDED, "no_such_module", "no-such-package")
    ill = jumok("doctor")
    assert ill.code == 1
    assert "pip install no-such-package" in ill.out


def test_the_version_and_the_help_are_results(jumok):
    assert jumok("--version").out == f"jumok {package.__version__}\n"
    assert jumok("--help").out.startswith("Usage: jumok")
    assert jumok("train", "-h").out == jumok("train", "--help").out
    bare = jumok()
    assert (bare.code, bare.out) == (2, "")
    assert "Usage: jumok" in bare.err


# ------------------------------------------------------------------------------------------ mistakes


def mistakes(folder: Path | None) -> dict[str, tuple[list[object], int, str]]:
    """Arguments, exit code, and what the first line must say."""
    files = {
        "three": b"a\nb\nc\n",
        "two": b"a\nb\n",
        "empty": b"",
        "empty2": b"",
        "latin": b"caf\xe9\n\n\n",
        "bad.toml": b"[training]\nstpes = 5\n",
    }
    for name, content in files.items() if folder else ():
        (folder / name).write_bytes(content)
    folder = folder or Path()
    f = {name: folder / name for name in files}
    out = ["--out", folder / "run"]
    model = folder / "model"
    return {
        "unknown option": (["train", "--stpes", 5], 2, "--stpes"),
        "unknown verb": (["trian"], 2, "did you mean 'train'"),
        "no model": (["translate"], 2, "MODEL"),
        "not a number": (["train", "--steps", "many"], 2, "--steps"),
        "no text": (["train", *out], 2, "name exactly one training text"),
        "one side": (["train", "--source", f["two"], *out], 2, "--target is missing"),
        "wrong key": (["train", "--corpus", "copy", "--set", "training.stpes=5", *out], 2, "did you mean 'steps'"),
        "wrong value": (["train", "--corpus", "copy", "--set", "model.dropout=2", *out], 2, "model.dropout"),
        "no assignment": (["train", "--corpus", "copy", "--set", "steps", *out], 2, "KEY=VALUE"),
        "unknown recipe": (["train", "--corpus", "copy", "--recipe", "tniy", *out], 2, "did you mean 'tiny'"),
        "bad recipe file": (["train", "--corpus", "copy", "--recipe", f["bad.toml"], *out], 2, "stpes"),
        "no recipe file": (["train", "--corpus", "copy", "--recipe", "no.toml", *out], 64, "recipe"),
        "unknown corpus": (["train", "--corpus", "cpoy", *out], 2, "did you mean 'copy'"),
        "vocabulary too large": (
            ["train", "--corpus", "copy", "--set", "data.pairs=300", "--set", "vocabulary.at_most=false", *out],
            2,
            "8,000",
        ),
        "unequal": (["train", "--source", f["three"], "--target", f["two"], *out], 64, "3 lines"),
        "not UTF-8": (["train", "--source", f["three"], "--target", f["latin"], *out], 64, "not UTF-8"),
        "empty": (["train", "--source", f["empty"], "--target", f["empty2"], *out], 64, "empty"),
        "missing file": (["train", "--source", f["two"], "--target", folder / "tow", *out], 64, "there is no file"),
        "missing input": (["translate", model, "-i", folder / "tow"], 64, "there is no file"),
        "argument not UTF-8": (["translate", model, "caf\udce9"], 64, "not UTF-8"),
        "unequal score": (["score", model, "--source", f["three"], "--target", f["two"]], 64, "3 lines"),
        "empty test": (["evaluate", model, "--source", f["empty"], "--target", f["empty2"]], 64, "empty"),
        "stats of one": (["data", "stats", f["two"]], 2, "two parallel text files"),
        "no folder": (["translate", folder / "modle", "a"], 65, "there is no folder"),
        "no model there": (["model", "info", folder], 65, "there is no model"),
        "no checkpoint": (["model", "average", folder], 65, "no checkpoint"),
        "no device": (["translate", model, "a", "--device", "gpu"], 2, "'gpu'"),
        "no layer": (["look", model, "a", "--layer", 3], 2, "there is no layer 3"),
        "no head 0": (["look", model, "a", "--head", 0], 2, "there is no head 0"),
        "no kind": (["look", model, "a", "--kind", "crsos"], 2, "did you mean 'cross'"),
        "beam 0": (["translate", model, "a", "--beam", 0], 2, "beam"),
        "ignored option": (["translate", model, "a", "--top-k", 5], 2, "--sample"),
        "stream and json": (["translate", model, "a", "--stream", "--json"], 2, "--json"),
        "text and input": (["translate", model, "a", "--input", f["two"]], 2, "--input"),
        "mean of none": (["model", "average", model, "--last", 0], 2, "0 checkpoints"),
        "cannot write": (["translate", model, "a", "-o", folder / "no" / "where"], 74, "cannot write"),
    }


@pytest.mark.parametrize("name", mistakes(None))
def test_a_mistake_is_told_in_three_lines_with_its_exit_code(jumok, micro, tmp_path, name):
    (tmp_path / "model").symlink_to(micro)
    arguments, code, words = mistakes(tmp_path)[name]
    answer = jumok(*arguments)
    assert answer.code == code
    assert words in answer.complaint[0]
    assert len(answer.complaint) <= 3
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_a_reader_that_has_seen_enough_is_no_failure(micro):
    code = "import sys; sys.argv = ['jumok', '--help']; from jumok.cli.main import main; main()"
    pipeline = f'{sys.executable} -c "$1" | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", pipeline, "bash", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


# --------------------------------------------------------------------------------------- wishes, long files


def test_wishes_on_the_command_line(jumok, micro):
    bound = jumok("translate", micro, "a b c", "--require", "q", "--prefix", "h", "--align")
    text, links = bound.out.rstrip("\n").split("\t")
    assert text.startswith("h")
    assert "q" in text.split()
    assert all(re.fullmatch(r"\d+-\d+", link) for link in links.split())
    ways = jumok("translate", micro, "a b c", "--alternatives", "3").out.rstrip("\n").split("\n")
    assert 2 <= len(ways) <= 3
    assert all(way.startswith("0\t") for way in ways)


@pytest.mark.slow
def test_a_translation_killed_at_any_moment_goes_on_with_every_line_once_and_in_order(jumok, micro, tmp_path):
    source, goal, part = tmp_path / "in", tmp_path / "out", tmp_path / "out.part"
    source.write_text("".join(f"{chr(97 + n % 20)} {chr(97 + n * 7 % 23)} c\n" for n in range(12_000)))
    command = ["translate", micro, "--input", source, "--output", goal, "--beam", "1", "--resume"]
    process = subprocess.Popen([sys.executable, "-m", "jumok", *map(str, command)])
    try:
        wait_until(lambda: part.exists() and part.read_bytes().count(b"\n") >= 1_000, process)
    finally:
        process.kill()
        process.wait()
    assert not goal.exists()
    before = part.read_bytes()
    part.write_bytes(before[:-1])  # as if the disk had the last line but for its end
    assert jumok(*command).code == 0
    assert goal.read_text() == jumok("translate", micro, "--input", source, "--beam", "1").out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def wait_until(true, process, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("missing", [("--input", "x"), ("--output", "y")], ids=str)
def test_resume_needs_both_files(jumok, micro, missing):
    answer = jumok("translate", micro, *missing, "--resume")
    assert answer.code == 2
    assert "--resume needs" in answer.err


@pytest.mark.parametrize(
    "options",
    [
        ("--stream", "--require", "a"),
        ("--stream", "--alternatives", "2"),
        ("--alternatives", "2", "--forbid", "a"),
        ("--alternatives", "2", "--n-best", "2"),
        ("--temperature", "0.5"),
    ],
    ids=" ".join,
)
def test_an_option_that_would_be_ignored_is_refused(jumok, micro, options):
    answer = jumok("translate", micro, "a b", *options)
    assert (answer.code, "does not fit" in answer.err) == (2, True)


def test_samples_for_the_least_risk_have_a_temperature(jumok, micro):
    assert jumok("translate", micro, "a b", "--mbr", "4", "--temperature", "0.8", "--seed", "2").code == 0
