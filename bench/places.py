"""Where things are: the repository, real corpora, the peers' environments.  Nothing of it is written into results."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = {"plain": "base", "hf": "hf", "onmt": "onmt", "eole": "eole"}  # peer -> its environment


class Absent(Exception):
    """Something that has to be fetched or installed first; the message says how."""


def corpus(given: str | None, name: str = "multi30k") -> Path:
    """The folder of a corpus: under the option, else JUMOK_DATA, else ../shared/data beside the repository."""
    folder = Path(given or os.environ.get("JUMOK_DATA") or ROOT.parent / "shared" / "data")
    for place in (folder / name, folder):
        if (place / "train.en.gz").is_file():
            return place
    raise Absent(
        f"{name} is not here: no train.en.gz in {folder / name}\n"
        f"try: --data FOLDER or JUMOK_DATA=FOLDER, a folder with {name}/train.en.gz, train.de.gz, val.*, test2016.*"
    )


def peers(given: str | None) -> Path:
    """The folder that holds the peers' environments."""
    return Path(given or os.environ.get("JUMOK_PEERS") or Path.home() / ".cache" / "jumok" / "peers")


def peer_python(folder: Path, peer: str) -> Path:
    """The interpreter of a peer."""
    if peer not in PEERS:
        raise Absent(f"no peer is called {peer!r}; known: {', '.join(PEERS)}")
    found = folder / PEERS[peer] / "bin" / "python"
    if not found.is_file():
        raise Absent(f"{peer} is not installed under {folder}\ntry: bench/peers/setup --folder {folder} {peer}")
    return found


def our_python(given: str | None) -> Path:
    """The interpreter that has jumok."""
    found = Path(given) if given else ROOT / ".venv" / "bin" / "python"
    if not found.is_file():
        raise Absent(f"jumok is not installed: no {found}\ntry: ./test --setup-only, or --python PATH")
    return found


def environment(*, threads: int | None = None, tuned: bool = False) -> dict[str, str]:
    """The environment of a measured process: no settings of torch but the chosen ones; `tuned` tells glibc to keep
    freed memory, as jumok does by itself."""
    ours = ("OMP_NUM_THREADS", "GOMP_SPINCOUNT", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("MALLOC_")}
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    if threads is not None:
        kept["OMP_NUM_THREADS"] = str(threads)
    if tuned:
        kept |= {
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
            "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
            "MALLOC_TOP_PAD_": str(1 << 26),
        }
    return kept


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
