"""What happens in a run, as lines of JSON and as a person sees it; and randomness by name."""

import io
import json
import math
import os
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from jumok.cli.display import TrainingDisplay, clock
from jumok.errors import DataError, DiskError, JumokError, UnknownName
from jumok.events import EventLog, LossLog, TensorBoardSink, history, is_recorded, read_events, read_losses
from jumok.keys import generator, key

STEP = {"epoch": 0, "rate": 0.1, "norm": 1.0, "tokens": 50, "horizon": 100, "skipped": 0}
VALIDATION = {"epoch": 0, "seconds": 61.0, "loss": 2.0, "perplexity": 7.39, "bleu": 12.3, "better": True}


# ------------------------------------------------------------------------------------------ events


def test_events_are_read_as_they_were_written_and_reach_every_sink_in_order(tmp_path):
    seen: list[dict[str, object]] = []
    log = EventLog(tmp_path / "run" / "events.jsonl", [seen.append, seen.append])
    log("stage", text="읽는 중\n…")
    log("step", step=1, loss=2.5)
    log.close()
    found = list(read_events(tmp_path / "run" / "events.jsonl"))
    assert [event["event"] for event in found] == ["stage", "step"]
    assert seen == [found[0], found[0], found[1], found[1]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_becomes_null_wherever_it_stands(tmp_path, value):
    log = EventLog(tmp_path / "events.jsonl")
    log("step", loss=value, scores={"bleu": value, "deep": {"er": value}})
    log.close()
    text = (tmp_path / "events.jsonl").read_text()
    event = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (event["loss"], event["scores"]) == (None, {"bleu": None, "deep": {"er": None}})


@given(cut=st.integers(0, 200))
def test_a_log_cut_off_anywhere_loses_one_event_at_most_and_none_that_comes_later(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    log = EventLog(path)
    for step in range(4):
        log("step", step=step)
    log.close()
    kept = path.read_bytes()[:cut]
    path.write_bytes(kept)
    log = EventLog(path)
    log("step", step="later")
    log.close()
    steps = [event["step"] for event in read_events(path)]
    assert steps[:-1] == list(range(len(steps) - 1))
    assert kept.count(b"\n") <= len(steps) - 1 <= kept.count(b"\n") + 1
    assert steps[-1] == "later"


def test_what_the_disk_does_not_take_waits_and_is_written_when_there_is_room(tmp_path):
    place, seen = tmp_path / "run", []
    place.write_text("in the way")
    log = EventLog(place / "events.jsonl", [seen.append])
    log("stage", text="first")
    log("step", step=1)
    place.unlink()
    log("stage", text="second")
    log.close()
    texts = [event.get("text", event.get("step")) for event in read_events(place / "events.jsonl")]
    assert [text if isinstance(text, int) else text.split(" (")[0] for text in texts] == [
        "first", "the event log cannot be written", 1, "second", "the event log is complete again",
    ]  # fmt: skip
    assert len(seen) == len(texts)


def test_a_write_that_was_cut_short_is_gone_on_with(tmp_path, monkeypatch):
    real, taken = os.write, []

    def short(file, content):
        taken.append(min(7, len(content)))
        if len(taken) == 3:
            raise OSError(28, "No space left on device")
        return real(file, bytes(content[:7]))

    monkeypatch.setattr(os, "write", short)
    log = EventLog(tmp_path / "events.jsonl")
    log("stage", text="a")
    log("stage", text="b")
    log.close()
    assert next(event["text"] for event in read_events(tmp_path / "events.jsonl")) == "a"
    assert len(taken) > 10
    assert all(json.loads(line) for line in (tmp_path / "events.jsonl").read_text().split("\n")[:-1])


def test_a_loss_log_that_is_cut_back_and_goes_on_has_the_bytes_of_one_that_was_not(tmp_path):
    def lines(log, steps):
        for step in steps:
            log(step=step, epoch=0, loss=1 / (step + 3), rate=1e-4, norm=math.inf, tokens=9, skipped=0)

    whole, broken = LossLog(tmp_path / "whole.tsv"), LossLog(tmp_path / "broken.tsv")
    assert whole.begin(0)
    assert broken.begin(0)
    lines(whole, range(1, 9))
    lines(broken, range(1, 4))
    size = broken.sync()
    lines(broken, range(4, 7))
    broken.close()
    again = LossLog(tmp_path / "broken.tsv")
    assert again.begin(size)
    lines(again, range(4, 9))
    assert again.sync() == whole.sync()
    assert (tmp_path / "whole.tsv").read_bytes() == (tmp_path / "broken.tsv").read_bytes()
    assert not LossLog(tmp_path / "broken.tsv").begin(10**6)  # a checkpoint that knows of more than there is


def test_logs_keep_a_thousand_updates_of_every_doubling_and_sinks_hear_all_of_them(tmp_path):
    heard: list[int] = []
    log = EventLog(tmp_path / "events.jsonl", [lambda event: heard.append(event["step"])])
    for step in range(1, 9_001):
        log("step", step=step)
    log("validation", step=8_999)
    log.close()
    assert heard == [*range(1, 9_001), 8_999]
    kept = [event["step"] for event in read_events(tmp_path / "events.jsonl") if event["event"] == "step"]
    expected = [*range(1, 2_000), *range(2_000, 4_000, 2), *range(4_000, 8_000, 4), *range(8_000, 9_001, 8)]
    assert kept == expected
    assert sum(1 for event in read_events(tmp_path / "events.jsonl") if event["event"] == "validation") == 1
    assert sum(map(is_recorded, range(1, 1_000_001))) < 12_000


def test_tensorboard_gets_the_updates_that_the_log_keeps(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    sink = TensorBoardSink(tmp_path)
    for step in (1_999, 2_000, 2_001, 2_002):
        sink({"event": "step", "time": 2.0, "step": step, "seconds": 0.5, "loss": 2.5} | STEP)
    sink({"event": "validation", "time": 3.0, "step": 2_001} | VALIDATION)
    sink.close()
    [file] = os.listdir(tmp_path)
    records = list(EventFileLoader(str(tmp_path / file)).Load())
    assert [record.step for record in records if record.summary.value] == [1_999, 2_000, 2_002, 2_001]


def test_a_line_of_the_loss_log_is_short_and_its_loss_exact(tmp_path):
    log, rng = LossLog(tmp_path / "losses.tsv"), random.Random(1)
    log.begin(0)
    losses = [rng.uniform(1, 9) for _ in range(1_000)]
    for step, loss in enumerate(losses, start=350_000):
        log(step=step, epoch=12, loss=loss, rate=loss / 3e4, norm=loss / 7, tokens=1_987, skipped=0)
    log.close()
    found = list(read_losses(tmp_path / "losses.tsv"))
    assert [row["loss"] for row in found] == losses
    assert [row["norm"] for row in found] == pytest.approx([loss / 7 for loss in losses], rel=1e-8)
    assert (tmp_path / "losses.tsv").stat().st_size / 1_000 < 62


def test_a_loss_log_of_an_earlier_version_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "losses.tsv"
    before = "step\tepoch\tloss\trate\tnorm\ttokens\tskipped\n1\t0\t2.5\t0.00033333333333333335\tnan\t9\t1\n"
    path.write_text(before)
    log = LossLog(path)
    assert log.begin(len(before))
    log(step=2, epoch=0, loss=1 / 3, rate=1 / 3_000, norm=math.nan, tokens=9, skipped=2)
    log.close()
    assert path.read_text() == before + f"2\t0\t{1 / 3!r}\t0.000333333333\tnan\t9\t2\n"
    assert [row["skipped"] for row in read_losses(path)] == [1, 2]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.integers(0, 9)),
            st.tuples(st.sampled_from(["step", "checkpoint"]), st.integers(0, 12)),
            st.just(("stage", None)),
        ),
        max_size=40,
    )
)
def test_the_history_of_a_run_is_that_of_a_reader_who_forgets_what_is_repeated(tmp_path_factory, told):
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    events = [{"event": kind, "number": number, **({} if step is None else {"step": step})}
              for number, (kind, step) in enumerate(told)]  # fmt: skip
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    remembered: list[dict] = []
    for event in events:
        if event["event"] == "begin":
            remembered = [one for one in remembered if one.get("step", 0) <= event["step"]]
        remembered.append(event)
    assert list(history(path)) == remembered


def test_reading_a_long_history_takes_no_memory(tmp_path):
    import tracemalloc

    path = tmp_path / "events.jsonl"
    line = json.dumps({"event": "step", "step": 1, "text": "x" * 100}) + "\n"
    path.write_text(line * 40_000)
    tracemalloc.start()
    count = sum(1 for _ in history(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 1_000_000, "4.8 MB of text, and several times that as events"


def test_tensorboard_gets_the_numbers_of_steps_and_validations(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    sink = TensorBoardSink(tmp_path)
    sink({"event": "stage", "time": 1.0, "text": "x"})
    sink({"event": "step", "time": 2.0, "step": 1, "seconds": 0.5, "loss": 2.5} | STEP)
    sink({"event": "validation", "time": 3.0, "step": 1} | VALIDATION)
    sink.close()
    [file] = os.listdir(tmp_path)
    records = list(EventFileLoader(str(tmp_path / file)).Load())
    tags = {value.tag for record in records for value in record.summary.value}
    assert {"train/loss", "train/rate", "valid/bleu", "valid/loss"} <= tags
    assert not tags & {"valid/better", "train/time", "train/step"}


# ------------------------------------------------------------------------------------------ display


def shown(events: list[dict[str, object]], *, terminal: bool = False) -> str:
    screen = io.StringIO()
    display = TrainingDisplay(Console(file=screen, force_terminal=terminal, width=120, highlight=False))
    for event in events:
        display(event)
    display.close()
    return screen.getvalue()


def test_without_a_terminal_only_what_stays_is_printed():
    steps = [{"event": "step", "step": n, "seconds": n * 3.0, "loss": 4.0 - n} | STEP for n in (1, 2)]
    valid = {"event": "validation", "step": 2, "sample": "a [b] → c"} | VALIDATION
    text = shown([{"event": "stage", "text": "Reading [file]"}, *steps, valid, {"event": "finished", "text": "Done"}])
    lines = text.removesuffix("\n").split("\n")
    assert [line.split()[0] for line in lines] == ["Reading", "step", "2", "a", "Done"]
    assert "[file]" in lines[0], "square brackets are text, not markup"
    assert "1:01" in lines[2]
    assert lines[2].endswith("best")
    assert "\x1b" not in text


def test_on_a_terminal_there_is_one_live_line_with_the_time_left():
    steps = [{"event": "step", "step": n, "seconds": n * 1.0, "loss": 3.0} | STEP for n in (1, 2)]
    text = shown(steps, terminal=True)
    assert "step 1" in text
    assert "1:39 left" in text, "99 steps of a second each"


def test_a_run_limited_by_minutes_shows_what_is_left_of_them():
    event = {"event": "step", "step": 5, "seconds": 50.0, "wall": 60.0, "loss": 3.0} | STEP
    assert "4:00 left" in shown([{"event": "plan", "until": 300.0}, event], terminal=True)


def test_a_validation_on_a_part_of_the_pairs_says_so():
    valid = {"event": "validation", "step": 2} | VALIDATION
    assert "of 1,014 pairs" in shown([valid | {"pairs": 87, "of": 1_014}])
    assert "pairs" not in shown([valid | {"pairs": 1_014, "of": 1_014}])


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_skipped_step_does_not_spoil_the_loss_that_is_shown(loss):
    losses = [2.0, loss, 2.0]
    steps = [{"event": "step", "step": n, "seconds": n * 1.0, "loss": x} | STEP for n, x in enumerate(losses, start=1)]
    row = shown([*steps, {"event": "validation", "step": 3} | VALIDATION]).split("\n")[1]
    assert " 2.000 " in row


def test_an_event_nobody_draws_is_passed_over():
    assert shown([{"event": "unheard of"}]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (-5, "0:00"), (59.6, "1:00"), (245, "4:05"), (3723, "1:02:03")]
)
def test_time_is_written_as_on_a_clock(seconds, text):
    assert clock(seconds) == text


# ------------------------------------------------------------------------------------------ keys and errors


def test_a_key_depends_on_every_part_of_it_and_on_their_order():
    parts = [(1, "a"), (2, "a"), (1, "b"), (1, "a", 0), (1, "a", 0, 1), (1, "a", 1, 0), (1, "a", 10), (11, "a", 0)]
    keys = [key(*part) for part in parts]
    assert all(one != other for one, other in combinations(keys, 2))
    assert keys == [key(*part) for part in parts]
    assert all(0 <= one < 2**63 for one in keys)


def test_a_generator_starts_anew_from_its_key():
    assert generator(1, "order", 5).random(4).tolist() == generator(1, "order", 5).random(4).tolist()
    assert generator(1, "order", 5).random() != generator(1, "order", 6).random()


def test_an_error_is_three_lines_at_most_whatever_is_put_into_it():
    error = DiskError("disk.in_use", folder_kind="a\nrun", holder="process\n7", folder="a\nb", advice="try\nthis\n")
    assert str(error) == "a run is in use by process 7\nin a b\ntry this , or use another folder"
    assert str(DataError("data.empty_corpus", corpus="x" * 5_000)).split("\n")[1] == f"in {'x' * 996}…"


def test_an_unknown_name_gets_the_nearest_or_all():
    assert "did you mean 'tiny'?" in str(UnknownName("config.unknown_recipe", "tniy", ["base", "tiny"]))
    assert "known: base, tiny" in str(UnknownName("config.unknown_recipe", "zzz", ["tiny", "base"]))


def test_every_kind_of_error_has_the_exit_code_of_the_contract():
    kinds = [kind for kind in JumokError.__subclasses__() if kind.__module__ == JumokError.__module__]
    codes = {kind.__name__: kind.code for kind in [JumokError, *kinds]}
    contract = {
        "UsageError": 2,
        "DataError": 64,
        "ModelFileError": 65,
        "DiskError": 74,
        "Resumable": 75,
        "JumokError": 1,
    }
    assert codes == contract
