"""Functions that the verbs share: watching a run, reading arguments, printing results.

torch is imported inside the functions that need it, so that --help is instant.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jumok import messages
from jumok.errors import MissingPackage, UnknownName, UsageError, printable
from jumok.extras import hint, is_installed


@contextmanager
def watching() -> Iterator[tuple[list[Any], Callable[[], bool]]]:
    """Show a training on stderr; yields the sinks of its events, and a function that returns whether to stop.

    Ctrl-C, SIGTERM or a closed terminal request a stop; a second Ctrl-C exits at once.
    """
    from jumok.cli.display import TrainingDisplay

    requests: list[int] = []

    def request_stop(number: int, frame: object) -> None:
        if requests and number == signal.SIGINT:
            raise KeyboardInterrupt
        requests.append(number)
        with suppress(OSError):  # the terminal may be closed
            print(f"\n{messages.text('cli.stopping')}", file=sys.stderr)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, request_stop) for number in numbers}
    display = TrainingDisplay()
    try:
        yield [display], lambda: bool(requests)
    finally:
        display.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def check_device(name: str) -> None:
    """Refuse a device that this machine does not have, before anything is read."""
    if not is_installed("torch"):
        raise MissingPackage("cli.device_needs_torch", advice=hint("torch"))
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind, _, number = name.partition(":")
    if kind not in available or (number and not (number.isdigit() and kind == "cuda")):
        raise UnknownName("cli.unknown_device", name, available)
    if not available[kind] or (number and int(number) >= torch.cuda.device_count()):
        raise UsageError("cli.no_device", device=name)


def to_index(number: int | None, count: int, part: str) -> int | None:
    """Return the index of a layer or head that is counted from 1."""
    if number is not None and not 1 <= number <= count:
        raise UsageError("cli.no_such_part", part=part, number=number, count=count)
    return None if number is None else number - 1


def parse_numbers(text: str, option: str) -> list[int]:
    """Return whole numbers that are separated by commas."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError("cli.not_numbers", given=text, option=option) from None


def describe_position(finding: Any) -> str:
    """Return file, line and byte of a finding, or only the file."""
    return f"{finding.file}, line {finding.line}, byte {finding.byte}" if finding.line else str(finding.file)


def list_values(values: dict[str, Any], margin: str = "") -> Iterator[str]:
    """Yield names and values, one per line; nested values are indented."""
    for name, value in values.items():
        if isinstance(value, dict) and any(isinstance(part, dict) for part in value.values()):
            yield printable(f"{margin}{name}")
            yield from list_values(value, margin + "  ")
        elif isinstance(value, dict):
            parts = (f"{n} {v:.2f}" if isinstance(v, float) else f"{n} {v}" for n, v in value.items())
            yield printable(f"{margin}{name}: {', '.join(parts)}")
        else:
            yield printable(f"{margin}{name:<14} {value}")


def split_chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items in lists of `size`; the last may be shorter."""
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def print_aside(text: str) -> None:
    """Print a line on stderr, apart from the results."""
    print(text, file=sys.stderr)


def dumps(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def measure_width() -> int:
    """Return the columns of the terminal; 100 without one."""
    try:
        return max(40, os.get_terminal_size().columns)
    except OSError:
        return 100
