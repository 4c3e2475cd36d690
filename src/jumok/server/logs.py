"""Logs: one line per request on stderr, as JSON or as text.  No texts, no addresses, no keys: ids, sizes and times."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Where a server writes what happened."""

    def __init__(self, form: str = "off", stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.form = form if form != "auto" else ("text" if self.stream.isatty() else "json")

    def write(self, event: str, /, level: str = "info", **values: Any) -> None:
        """Write one line."""
        if self.form == "off":
            return
        given = {name: value for name, value in values.items() if value is not None}
        now = datetime.now(UTC)
        if self.form == "json":
            line = json.dumps({"time": now.isoformat(timespec="milliseconds"), "level": level, "event": event} | given)
        else:
            line = f"{now:%H:%M:%S} {event} " + " ".join(f"{name}={value}" for name, value in given.items())
        try:
            print(line, file=self.stream, flush=True)
        except (OSError, ValueError):  # a full disk or a closed terminal does not stop a server
            self.form = "off"

    def write_fault(self, error: BaseException, **values: Any) -> None:
        """Write where an unexpected error came from; its message is left out because it may quote a text."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        self.write("fault", level="error", error=type(error).__name__, trace=places, **values)


def silence_libraries() -> None:
    """Keep libraries from logging on their own: uvicorn's lines hold addresses and whole paths, and none is JSON."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "python_multipart.multipart"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate, logger.disabled = [logging.NullHandler()], False, True
        logger.setLevel(logging.CRITICAL)
