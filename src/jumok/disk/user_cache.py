"""Folders of the user's own for what can be made again: compiled kernels, models in another engine's form."""

import os
import shutil
from pathlib import Path


def own(name: str) -> Path | None:
    """The user's cache folder of this name, made if need be; None where there is none to be trusted and written to."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "jumok" / name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder if folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK) else None
    except (OSError, RuntimeError):
        return None


def prune(folder: Path, *, keep: int) -> None:
    """Drop all but the `keep` entries that were used last."""

    def used(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    for path in sorted(folder.iterdir(), key=used, reverse=True)[keep:]:
        shutil.rmtree(path, ignore_errors=True)
