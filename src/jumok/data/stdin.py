"""Standard input (`-`) as a training text: it can be read only once, so it is copied to a file first."""

import io
import select
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from jumok.config.sections import DataConfig
from jumok.errors import DiskError, UsageError

BLOCK = 1 << 20  # bytes read at a time
WAIT = 0.5  # seconds to wait for input before the caller may check for a stop


def replace_stdin(data: DataConfig, folder: Path) -> DataConfig:
    """The same data section with standard input replaced by the name of its copy in `folder`."""
    sides = ("source", "target", "table", "text", "valid_source", "valid_target", "valid_table", "valid_text")
    fields = [side for side in sides if getattr(data, side) == "-"]
    if len(fields) > 1:
        raise UsageError("data.stdin_twice", fields=" and ".join(fields))
    copies = {field: str(folder / ("stdin.tsv" if field.endswith("table") else "stdin.txt")) for field in fields}
    return data.model_copy(update=copies)


def copy_stdin(data: DataConfig, copied: DataConfig) -> Generator[None, None, None]:
    """Write standard input to the file that `copied` names, if `data` names it; yields after each block."""
    for field, path in copied:
        if getattr(data, field) != "-":
            continue
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                for block in _read_blocks(sys.stdin.buffer):
                    file.write(block)
                    yield
        except OSError as error:
            raise DiskError("data.cannot_copy_stdin", file=path, reason=error.strerror) from None


def _read_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Blocks as they arrive; an empty one every half second without input, so that the caller can check for a stop."""
    try:
        pipe = select.select([stream], [], [], 0)
    except (OSError, ValueError, TypeError):  # this stream cannot be waited for
        pipe = None
    while True:
        if pipe is not None and not select.select([stream], [], [], WAIT)[0]:
            yield b""
            continue
        block = stream.read1(BLOCK) if isinstance(stream, io.BufferedReader) else stream.read(BLOCK)
        if not block:
            return
        yield block
