"""Logs of runs that were never trained, for tests that read them."""

import json
from pathlib import Path

HEADER = "step\tepoch\tloss\trate\tnorm\ttokens\tskipped\n"


def event(kind, **values):
    return json.dumps({"event": kind, "time": 1_795_000_000.5, **values}, ensure_ascii=False) + "\n"


def step(number, *, loss=None, seen=None, seconds=None):
    """The event of an update, as training writes it."""
    return event(
        "step", step=number, epoch=0, loss=10.0 / number if loss is None else loss, rate=1e-4 * number, norm=0.5,
        tokens=100, seconds=number * 0.5 if seconds is None else seconds, wall=number * 0.5 + 3.0, horizon=1_000,
        skipped=0, seen=100 * number if seen is None else seen,
    )  # fmt: skip


def line(number, *, loss=None):
    """A line of the loss log."""
    return f"{number}\t0\t{10.0 / number if loss is None else loss!r}\t{1e-4 * number:.9g}\t0.5\t100\t0\n"


def validation(number, bleu, sample="a b → A B"):
    return event(
        "validation", step=number, epoch=0, seconds=number * 0.5, wall=number * 0.5 + 3.0, pairs=20, of=20,
        seen=100 * number, better=True, sample=sample, memory=10**8, loss=1.5, perplexity=4.5, bleu=bleu,
    )  # fmt: skip


def begin(number):
    return event("begin", recipe="tiny", parameters=1_000, step=number, version="0.1")


def write_run(folder: Path, steps=20, *, losses=True, recipe="", more=""):
    """A run folder with these updates; `more` are further events."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(recipe or '[data]\ncorpus = "copy"\n')
    events = begin(0) + "".join(step(number) for number in range(1, steps + 1)) + more
    (folder / "events.jsonl").write_text(events, encoding="utf-8")
    if losses:
        (folder / "losses.tsv").write_text(HEADER + "".join(line(number) for number in range(1, steps + 1)))
    return folder
