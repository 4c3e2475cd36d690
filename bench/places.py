"""Paths of the repository, of real corpora and of the peers' environments.  They are never written into results."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = {  # peer -> its environment
    "plain": "base",
    "hf": "hf",
    "onmt": "onmt",
    "eole": "eole",
    "libretranslate": "libretranslate",
}


class Absent(Exception):
    """A corpus or program that has to be fetched or installed first; the message says how."""


def corpus(given: str | None, name: str = "multi30k") -> Path:
    """The folder of a corpus: below the option, else JUMOK_DATA, else ../shared/data next to the repository."""
    folder = Path(given or os.environ.get("JUMOK_DATA") or ROOT.parent / "shared" / "data")
    for candidate in (folder / name, folder):
        if (candidate / "train.en.gz").is_file():
            return candidate
    raise Absent(
        f"{name} is not here: no train.en.gz in {folder / name}\n"
        f"try: --data FOLDER or JUMOK_DATA=FOLDER, a folder with {name}/train.en.gz, train.de.gz, val.*, test2016.*"
    )


def peers(given: str | None) -> Path:
    """The folder with the peers' environments."""
    return Path(given or os.environ.get("JUMOK_PEERS") or Path.home() / ".cache" / "jumok" / "peers")


def peer_python(folder: Path, peer: str) -> Path:
    """The interpreter of a peer."""
    if peer not in PEERS:
        raise Absent(f"no peer is called {peer!r}; known: {', '.join(PEERS)}")
    python = folder / PEERS[peer] / "bin" / "python"
    if not python.is_file():
        raise Absent(f"{peer} is not installed under {folder}\ntry: bench/peers/setup --folder {folder} {peer}")
    return python


def our_python(given: str | None) -> Path:
    """The interpreter that has jumok."""
    python = Path(given) if given else ROOT / ".venv" / "bin" / "python"
    if not python.is_file():
        raise Absent(f"jumok is not installed: no {python}\ntry: ./test --setup-only, or --python PATH")
    return python


def environment(*, threads: int | None = None, tuned: bool = False) -> dict[str, str]:
    """The environment of a measured process, with only the given settings of torch; `tuned` makes glibc keep freed
    memory, as jumok does by default."""
    replaced = ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "PYTHONPATH")
    values = {
        name: setting for name, setting in os.environ.items() if name not in replaced and not name.startswith("MALLOC_")
    }
    values["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    if threads is not None:
        values["OMP_NUM_THREADS"] = str(threads)
    if tuned:
        values |= {
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
            "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
            "MALLOC_TOP_PAD_": str(1 << 26),
        }
    return values


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
