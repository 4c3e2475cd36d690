"""What the verbs of the command line share: watching a run, reading arguments, printing results.

torch is imported inside the functions that need it, so that --help is instant.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jumok.errors import DataError, UnknownName, UsageError


@contextmanager
def watching() -> Iterator[tuple[list[Any], Callable[[], bool]]]:
    """A training display on stderr and a stop that Ctrl-C or SIGTERM asks for; a second Ctrl-C leaves at once."""
    from jumok.display import TrainingDisplay

    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)
        print("\nstopping after this step; everything will be saved (Ctrl-C again to leave at once)", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    display = TrainingDisplay()
    try:
        yield [display], lambda: bool(asked)
    finally:
        display.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def printed(translations: Iterator[Any], *, as_json: bool, ranked: bool, align: bool = False) -> Iterator[str]:
    """Translations as lines: JSON, or the text; ranked: number of the sentence, score and text of each."""
    for number, translation in enumerate(translations):
        if as_json:
            yield dumps(translation.to_json())
            continue
        for one in (translation, *translation.alternatives) if ranked else (translation,):
            links = f"\t{one.pharaoh}" if align else ""
            yield (f"{number}\t{one.score:.4f}\t" if ranked else "") + one.text + links


@dataclass(frozen=True)
class Job:
    """Lines to be translated, and how the translations are shown."""

    translator: Any
    options: dict[str, Any]
    as_json: bool
    ranked: bool
    align: bool

    def shown(self, lines: Iterator[str], *, chunk: int = 1_024, first: int = 0, **more: Any) -> Iterator[str]:
        made = self.translator.lines(lines, chunk=chunk, first=first, **self.options, **more)
        return printed(made, as_json=self.as_json, ranked=self.ranked, align=self.align)

    def write(self, lines: Iterator[str], source: str | None, output: str, *, resume: bool) -> None:
        """Into a file that is there whole or not at all; with `resume`, one that goes on where it was interrupted."""
        from jumok.text.drafts import Draft
        from jumok.text.lines import write_lines

        with counting() as progress:
            if not resume:
                write_lines(output, self.shown(lines, progress=progress))
                return
            draft = Draft.begin(output, about=self.about(source), resume=True)
            progress(draft.lines)
            draft.write(self.shown(islice(lines, draft.lines, None), first=draft.lines, progress=progress))
            draft.finish()

    def about(self, source: str | None) -> dict[str, Any]:
        """What a translation depends on: another of these, and a draft is not gone on with."""
        from jumok.text.lines import digest

        options = {name: value for name, value in self.options.items() if value is not None}
        weights = [folder / "model.safetensors" for folder in self.translator.folders]
        return {"model": digest(weights), "input": digest([source or "-"]), "option": options | {"json": self.as_json}}


@contextmanager
def counting() -> Iterator[Callable[[int], None]]:
    """Counts sentences on a terminal's stderr; elsewhere in silence."""
    if not sys.stderr.isatty():
        yield lambda sentences: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("sentences"), MofNCompleteColumn(), TextColumn("{task.speed:,.0f}/s"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("translate", total=None)
        yield lambda sentences: bar.advance(task, sentences)


def print_alternatives(
    translator: Any, lines: Iterator[str], prefix: str, count: int, options: dict[str, Any], *, as_json: bool
) -> None:
    for number, line in enumerate(lines):
        for one in translator.alternatives(line, prefix, count=count, **options):
            print(dumps(one.to_json()) if as_json else f"{number}\t{one.score:.4f}\t{one.text}", flush=True)


def source_lines(text: list[str] | None, path: str | None) -> tuple[Iterator[str], bool]:
    """The lines to translate, and whether they come one by one from a person who waits for each answer."""
    from jumok.text.lines import read_lines

    if text:
        return iter(clean_arguments(text)), False
    typed = path in (None, "-") and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
    return read_lines(path or "-"), typed


def clean_arguments(texts: list[str]) -> list[str]:
    """Sentences from the command line, which must be UTF-8."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" for character in text):
            shown = text.encode("utf-8", "backslashreplace").decode()
            raise DataError(
                "a sentence is not UTF-8", where=f"in {shown}", hint="try: a file, and jumok data check FILE"
            )
    return texts


def forbid(why: str, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored."""
    for name, value in options.items():
        if value is not None:
            given = f"--{name.replace('_', '-')}"
            raise UsageError(f"{given} does not fit: {why}", where=f"in {given}", hint=f"try: the same without {given}")


def check_device(name: str) -> None:
    """Refuse a device that is not here, before anything is read."""
    import torch

    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind, _, number = name.partition(":")
    if kind not in here or (number and not (number.isdigit() and kind == "cuda")):
        raise UnknownName("device", name, here, where="in --device")
    if not here[kind] or (number and int(number) >= torch.cuda.device_count()):
        raise UsageError(
            f"this machine has no {name}", where="in --device", hint="try: --device cpu, or see: jumok doctor"
        )


def counted(number: int | None, size: int, name: str) -> int | None:
    """A layer or head counted from 1 as an index."""
    if number is not None and not 1 <= number <= size:
        hint = f"try: --{name} 1" + f" … {size}" * (size > 1)
        raise UsageError(f"there is no {name} {number}; the model has {size}", where=f"in --{name}", hint=hint)
    return None if number is None else number - 1


def numbers(words: str, name: str) -> list[int]:
    """Whole numbers between commas."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise UsageError(f"{words!r} are not numbers", where=f"in --{name}", hint=f"try: --{name} 1,5") from None


def place(finding: Any) -> str:
    return f"{finding.file}, line {finding.line}, byte {finding.byte}" if finding.line else str(finding.file)


def listed(values: dict[str, Any], margin: str = "") -> Iterator[str]:
    """Names and values, a line each; what is in a value of several stands below it."""
    for name, value in values.items():
        if isinstance(value, dict) and any(isinstance(part, dict) for part in value.values()):
            yield f"{margin}{name}"
            yield from listed(value, margin + "  ")
        elif isinstance(value, dict):
            parts = (f"{n} {v:.2f}" if isinstance(v, float) else f"{n} {v}" for n, v in value.items())
            yield f"{margin}{name}: {', '.join(parts)}"
        else:
            yield f"{margin}{name:<14} {value}"


def stream_lines(translator: Any, lines: Iterator[str], options: dict[str, Any]) -> None:
    for line in lines:
        for piece in translator.stream(line, **options):
            print(piece, end="", flush=True)
        print(flush=True)


def chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def terminal_width() -> int:
    try:
        return max(40, os.get_terminal_size().columns)
    except OSError:
        return 100
