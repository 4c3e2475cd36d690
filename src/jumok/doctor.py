"""Is everything here that jumok needs, and how fast is this machine?

Works where packages are missing, torch among them: that is when one asks.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from typing import Literal

import jumok
from jumok import machine
from jumok.kernels import library

NEEDED = {  # module -> package
    "torch": "torch",
    "numpy": "numpy",
    "pydantic": "pydantic",
    "sentencepiece": "sentencepiece",
    "sacrebleu": "sacrebleu",
    "safetensors": "safetensors",
    "typer": "typer",
    "rich": "rich",
    "tensorboard": "tensorboard",
    "zstandard": "zstandard",
    "tomli_w": "tomli-w",
}
MARKS = {"fine": "ok", "poor": "!!", "missing": "XX"}


@dataclass(frozen=True)
class Finding:
    """One check: fine, poor (jumok works, but slowly or not for long) or missing (it cannot work)."""

    name: str
    value: str
    state: Literal["fine", "poor", "missing"] = "fine"

    def __str__(self) -> str:
        return f"{MARKS[self.state]}  {self.name:<12} {self.value}"


def examine() -> list[Finding]:
    """Every check, in the order a person would ask."""
    here = machine.describe()
    absent = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    there = [package for package in NEEDED.values() if package not in absent]
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in there)
    wanted = f"missing: {', '.join(absent)} (try: pip install {' '.join(absent)})"
    free = shutil.disk_usage(".").free / 2**30
    korean = importlib.util.find_spec("mecab_ko") is not None
    return [
        Finding("jumok", jumok.__version__),
        Finding("machine", str(here)),
        Finding("python", here.python, "fine" if sys.version_info >= (3, 11) else "missing"),
        Finding("packages", wanted if absent else versions, "missing" if absent else "fine"),
        *(arithmetic(here) if "torch" in there else []),
        Finding("memory", f"{here.memory / 2**30:.0f} GiB", "fine" if here.memory > 2 * 2**30 else "poor"),
        Finding("allocator", "keeps freed memory" if machine.keep_memory() else "not tuned (no glibc)"),
        Finding("disk", f"{free:.0f} GiB free here", "fine" if free > 1 else "poor"),
        Finding("Korean BLEU", "ko-mecab" if korean else "by characters (pip install jumok[korean] for ko-mecab)"),
    ]


def arithmetic(here: machine.Machine) -> list[Finding]:
    """What torch can do here."""
    import torch

    (rate,) = machine.sgemm([(1_024, 1_024, 1_024)], seconds=0.5).values()
    threads, few = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    why = f" (OMP_NUM_THREADS={few} says so)" if few and threads < here.cores else ""
    return [
        Finding("threads", f"{threads} of {here.cores} cores{why}", "fine" if threads >= here.cores else "poor"),
        Finding("speed", f"{rate:.0f} GFLOPS in float32 matrix products", "fine" if rate > 10 else "poor"),
        Finding("kernels", *kernels()),
        Finding("device", devices()),
    ]


def kernels() -> tuple[str, Literal["fine", "poor"]]:
    """Whether the C kernels are there."""
    if (problem := library.problem()) is None:
        return "compiled for this processor", "fine"
    return f"none, so training is slower: {problem} (try: apt-get install gcc, or your system's equivalent)", "poor"


def devices() -> str:
    """What --device may name here."""
    import torch

    found = ["cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return ", ".join(found)
