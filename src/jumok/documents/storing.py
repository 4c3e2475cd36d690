"""Files that are whole or ignored after a crash: written under another name, flushed, then renamed."""

import os
from pathlib import Path

from jumok.errors import DiskError
from jumok.text.lines import sync_folder


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DiskError("documents.cannot_save", folder=path.parent, reason=error.strerror or str(error)) from None


def make_folder(folder: Path) -> Path:
    """Return a folder that only its owner can read, made if it is not there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError("documents.cannot_save", folder=folder, reason=error.strerror or str(error)) from None
    return folder
