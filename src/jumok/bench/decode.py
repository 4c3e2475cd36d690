"""Speed of translation on this machine: sentences per second, milliseconds per sentence, start-up, memory, BLEU.

    figures = measure("runs/tiny", source="test.en", target="test.de")
    figures["systems"][0]["sentences_per_second"]

Every system runs in a separate process (worker.py) that answers requests; all run at the same time and are asked in
turn, so that a machine that is slow for a minute is slow for all of them.  The protocol, for each beam: a warm-up batch
of all sentences, then `rounds` rounds in which every system translates that batch once, starting with another system in
each round.  Then, for each beam, single sentences one by one; last, new processes up to their first translation.  A
ratio compares two times of the same round.  A system that fails is left out, and its last error is reported.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import jumok
from jumok import machine
from jumok.bench.measure import file_name, settings
from jumok.errors import DataError, JumokError, UnknownName, UsageError
from jumok.evaluation.metrics import bleu, check_installed
from jumok.text.lines import read_pairs

ENGINES = {  # the options of each
    "torch": ("--engine", "torch"),
    "native": ("--engine", "native"),
    "native-shortlist": ("--engine", "native", "--shortlist"),
    "ctranslate2-float32": ("--engine", "ctranslate2", "--precision", "float32"),
    "ctranslate2-float32-shortlist": ("--engine", "ctranslate2", "--precision", "float32", "--shortlist"),
    "ctranslate2-int8": ("--engine", "ctranslate2", "--precision", "int8"),
    "ctranslate2-int8-shortlist": ("--engine", "ctranslate2", "--precision", "int8", "--shortlist"),
}
USUAL = tuple(ENGINES)
SINGLES = 200  # sentences that are translated one by one
STARTS = 3  # new processes, of which the fastest counts
PATIENCE = 10.0  # seconds for a process to exit

Answer = TypeVar("Answer")
Say = Callable[[str], None]


class Gone(Exception):
    """A system that cannot be measured; the message is one line with the reason."""


@dataclass(frozen=True)
class Contender:
    """A system and the command that starts its process, interpreter first."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None  # None: that of this process


class Process:
    """The process of a contender."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = self.start_process(contender.command)
        try:
            ready = self.receive()
            if "skipped" in ready:
                raise Gone(ready["skipped"])
        except Gone:
            self.close()
            raise
        self.version: str = ready["version"]
        self.once: list[str] = ready["once"]

    def start_process(self, command: Sequence[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        env = None if self.contender.environment is None else dict(self.contender.environment)
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.stderr, encoding="utf-8", env=env)

    def ask(self, do: str, **question: Any) -> dict[str, Any]:
        """Send a request and return the answer."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has exited, and `receive` reports it
            self.process.stdin.write(json.dumps({"do": do, **question}) + "\n")
            self.process.stdin.flush()
        return self.receive()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Gone(self.describe_exit(self.process))
        return dict(json.loads(line))

    def describe_exit(self, process: subprocess.Popen[str]) -> str:
        """The exit code of a process, and its last line on stderr."""
        code = process.wait()
        self.stderr.seek(0)
        words = self.stderr.read().strip().split("\n")[-1]
        return f"it ended with code {code}" + (f": {words}" if words else "")

    def first_translation(self, text: str, beam: int) -> float:
        """Seconds from the start of a new process to the translation it prints."""
        began = time.perf_counter()
        process = self.start_process([self.contender.command[0], *self.once, "--beam", str(beam), "--", text])
        with process:
            assert process.stdout is not None
            line = process.stdout.readline()
            seconds = time.perf_counter() - began
            process.communicate()
        if not line or process.returncode:
            raise Gone("a new process gave no translation; " + self.describe_exit(process))
        return seconds

    def close(self) -> None:
        """Ask the process to exit, and kill it if it does not."""
        with suppress(BrokenPipeError, ValueError), self.process:
            try:
                self.process.communicate('{"do": "leave"}\n', timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.stderr.close()


class Field(AbstractContextManager["Field"]):
    """The running systems in their order; one that fails is reported and left out."""

    def __init__(self, contenders: Sequence[Contender], say: Say) -> None:
        self.say = say
        self.running: dict[str, Process] = {}
        self.skipped: dict[str, str] = {}
        for contender in contenders:
            say(f"starting {contender.name}")
            try:
                self.running[contender.name] = Process(contender)
            except Gone as reason:
                self.skip(contender.name, str(reason))

    def skip(self, name: str, reason: str) -> None:
        self.say(f"left out: {name}: {reason}")
        self.skipped[name] = reason

    def each(self, call: Callable[[Process], Answer], *, turn: int = 0) -> dict[str, Answer]:
        """The result of a call for every system, one after the other; `turn` chooses the first."""
        names, answers = list(self.running), dict[str, Answer]()
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            try:
                answers[name] = call(self.running[name])
            except Gone as reason:
                self.running.pop(name).close()
                self.skip(name, str(reason))
        return answers

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.close()


@dataclass(frozen=True)
class Times:
    """Measurements with one beam, by system."""

    beam: int
    warm: Mapping[str, dict[str, Any]]
    rounds: Sequence[Mapping[str, dict[str, Any]]]
    memory: Mapping[str, dict[str, Any]]

    def seconds(self, name: str) -> list[float]:
        return [answers[name]["seconds"] for answers in self.rounds]

    @classmethod
    def take(cls, field: Field, texts: list[str], beam: int, rounds: int) -> "Times":
        field.say(f"beam {beam}: {rounds} rounds of {len(texts):,} sentences")
        warm = field.each(partial(Process.ask, do="warm", beam=beam, texts=texts))
        batch = partial(Process.ask, do="batch", beam=beam, texts=texts)
        done = [field.each(batch, turn=turn) for turn in range(rounds)]
        return cls(beam, warm, done, field.each(partial(Process.ask, do="memory")))


def contest(
    contenders: Sequence[Contender],
    pairs: Sequence[tuple[str, str]],
    *,
    beams: Sequence[int],
    rounds: int,
    say: Say = lambda text: None,
    alone: int = SINGLES,
) -> dict[str, Any]:
    """Run the protocol for any systems; ratios are speeds relative to the first system that ran."""
    check_installed()
    texts, references = ([pair[side] for pair in pairs] for side in (0, 1))
    with Field(contenders, say) as field:
        times = [Times.take(field, texts, beam, rounds) for beam in beams]
        few = texts[:alone]
        say(f"{len(few)} sentences one by one")
        singles = [field.each(partial(Process.ask, do="single", beam=beam, texts=few)) for beam in beams]
        say("new processes up to their first translation")
        first = partial(Process.first_translation, text=texts[0], beam=beams[0])
        fresh = [field.each(first, turn=turn) for turn in range(STARTS)]
        rows = [
            {"system": name, "version": process.version}
            | row(measured, name, next(iter(field.running)), references)
            | spread(single[name]["milliseconds"], clean=single[name]["clean"])
            | {"start_seconds": min(seconds[name] for seconds in fresh)}
            for measured, single in zip(times, singles, strict=True)
            for name, process in field.running.items()
        ]
    return {
        "bench": "decode", "version": jumok.__version__, "sentences": len(texts), "rounds": rounds,
        "singles": len(few), "starts": STARTS, "systems": rows, "skipped": field.skipped,
        "settings": settings(), "machine": asdict(machine.describe()),
    }  # fmt: skip


def row(times: Times, name: str, first: str, references: Sequence[str]) -> dict[str, Any]:
    """The figures of a system with one beam; `first` is the system that its ratio refers to."""
    seconds, last = times.seconds(name), times.rounds[-1][name]
    middle = statistics.median(seconds)
    return {
        "beam": times.beam,
        "chosen": times.warm[name]["settings"],
        "seconds": seconds,
        "sentences_per_second": len(references) / middle,
        "sentences_per_second_best": len(references) / min(seconds),
        "source_tokens_per_second": last["source_tokens"] / middle,
        "ratio": ratio(seconds, times.seconds(first)),
        "peak_memory": times.memory[name]["peak_memory"],
        "bleu": bleu(last["texts"], references, tokenize="auto").value,
        "disturbed": sum(not answers[name]["clean"] for answers in times.rounds),
    }


def ratio(own_contenders: Sequence[float], other_seconds: Sequence[float]) -> float:
    """The relative speed: the median over rounds of the other seconds divided by these of the same round."""
    return statistics.median(theirs / mine for mine, theirs in zip(own_contenders, other_seconds, strict=True))


def spread(milliseconds: Sequence[float], *, clean: bool) -> dict[str, Any]:
    """The 50th, 95th and 99th percentile of the times of single sentences."""
    ordered = sorted(milliseconds)
    times = {f"milliseconds_p{share}": ordered[math.ceil(share / 100 * len(ordered)) - 1] for share in (50, 95, 99)}
    return times | {"milliseconds_clean": clean}


def own_contenders(model: str, engines: Sequence[str], environment: Mapping[str, str] | None = None) -> list[Contender]:
    """The engines of jumok as contenders."""
    for name in engines:
        if name not in ENGINES:
            raise UnknownName("bench.unknown_engine", name, ENGINES)
    start = (sys.executable, "-m", "jumok.bench.worker", model)
    return [Contender(f"jumok {name}", (*start, *ENGINES[name]), environment) for name in engines]


def measure(
    model: str,
    *,
    source: str,
    target: str,
    engines: Sequence[str] = USUAL,
    beams: Sequence[int] = (1, 5),
    rounds: int = 3,
    sentences: int = 1_000,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Run the protocol for the engines of jumok; results have names of files, never of folders."""
    contenders, pairs = own_contenders(model, engines), test_set(source, target, sentences)
    figures = contest(contenders, pairs, beams=check_beams(beams), rounds=require_positive("rounds", rounds), say=say)
    if not figures["systems"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in figures["skipped"].items())
        raise JumokError("bench.nothing_measured", reasons=reasons, model=model)
    return figures | {"model": file_name(model), "source": file_name(source), "target": file_name(target)}


def test_set(source: str | Path, target: str | Path, sentences: int) -> list[tuple[str, str]]:
    """The first pairs of two files, without blank sources."""
    pairs = ((text, reference) for text, reference in read_pairs(source, target) if text.strip())
    chosen = list(islice(pairs, require_positive("sentences", sentences)))
    if not chosen:
        raise DataError("bench.nothing_to_translate", file=source)
    return chosen


def check_beams(beams: Sequence[int]) -> Sequence[int]:
    if not beams:
        raise UsageError("bench.no_beams")
    return [require_positive("beams", beam) for beam in beams]


def require_positive(name: str, given: int) -> int:
    if given < 1:
        raise UsageError("bench.too_small", option=name, least=1, given=given)
    return given


def table(figures: Mapping[str, Any]) -> list[str]:
    """The figures as a table for the terminal."""
    rows = [cells(row) for row in figures["systems"]]
    titles = dict.fromkeys(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in titles}
    lines = [
        "  ".join(
            f"{row[name]:<{width}}" if name == "system" else f"{row[name]:>{width}}" for name, width in widths.items()
        )
        for row in [{name: name for name in titles}, *rows]
    ]
    return lines + notes(figures)


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """The formatted values of a row, by title."""
    return {
        "system": row["system"],
        "beam": str(row["beam"]),
        "sentences/s": f"{row['sentences_per_second']:,.1f}",
        "best": f"{row['sentences_per_second_best']:,.1f}",
        "source tokens/s": f"{row['source_tokens_per_second']:,.0f}",
        "ratio": f"{row['ratio']:.2f}",
        **{f"p{share} ms": f"{row[f'milliseconds_p{share}']:.1f}" for share in (50, 95, 99)},
        "start s": f"{row['start_seconds']:.2f}",
        "memory MB": f"{row['peak_memory'] / 1e6:,.0f}",
        "BLEU": f"{row['bleu']:.2f}",
    }


def notes(figures: Mapping[str, Any]) -> list[str]:
    """Notes below a table: what was run, what was left out, and whether the machine was idle."""
    rows, here = figures["systems"], figures["machine"]
    lines = [
        f"{figures['sentences']:,} sentences of {figures['source']}, {figures['rounds']} rounds; "
        f"{here['processor']}, {here['cores']} cores; ratio: speed over that of {rows[0]['system']} in the same round"
    ]
    lines += [f"left out: {name}: {reason}" for name, reason in figures["skipped"].items()]
    batches, singles = sum(row["disturbed"] for row in rows), sum(not row["milliseconds_clean"] for row in rows)
    if batches or singles:
        lines.append(
            f"other programs disturbed {batches} of {len(rows) * figures['rounds']} batches "
            f"and {singles} of {len(rows)} series of single sentences: do not quote"
        )
    return lines
