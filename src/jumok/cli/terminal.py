"""What the verbs of the command line share: watching a run, reading arguments, printing results.

torch is imported inside the functions that need it, so that --help is instant.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jumok.errors import DataError, MissingPackage, UnknownName, UsageError, printable
from jumok.extras import hint, is_installed


@contextmanager
def watching() -> Iterator[tuple[list[Any], Callable[[], bool]]]:
    """A training display on stderr and a stop that Ctrl-C, SIGTERM or a closed terminal asks for; a second Ctrl-C
    leaves at once."""
    from jumok.cli.display import TrainingDisplay

    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)
        with suppress(OSError):  # nobody may be there to read it
            print("\nstopping; everything will be saved (Ctrl-C again to leave at once)", file=sys.stderr)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, ask) for number in numbers}
    display = TrainingDisplay()
    try:
        yield [display], lambda: bool(asked)
    finally:
        display.close()
        for number, handler in before.items():
            signal.signal(number, handler)


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
    if not is_installed("torch"):
        raise MissingPackage("devices need torch, which is not installed", where="in --device", hint=hint("torch"))
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
            yield printable(f"{margin}{name}")
            yield from listed(value, margin + "  ")
        elif isinstance(value, dict):
            parts = (f"{n} {v:.2f}" if isinstance(v, float) else f"{n} {v}" for n, v in value.items())
            yield printable(f"{margin}{name}: {', '.join(parts)}")
        else:
            yield printable(f"{margin}{name:<14} {value}")


def chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def aside(text: str) -> None:
    """A line for the person, beside the results."""
    print(text, file=sys.stderr)


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def terminal_width() -> int:
    try:
        return max(40, os.get_terminal_size().columns)
    except OSError:
        return 100
