"""Is everything here that jumok needs, and how fast is this machine?"""

import importlib.metadata
import importlib.util
import shutil
import time

import torch

import jumok
from jumok import machine

NEEDED = ("torch", "numpy", "pydantic", "sentencepiece", "sacrebleu", "safetensors", "typer", "rich", "tensorboard")


def examine() -> list[tuple[str, str, bool]]:
    """(what, finding, whether it is fine) for every check."""
    here = machine.describe()
    rate, threads = sgemm(), torch.get_num_threads()
    free = shutil.disk_usage(".").free / 2**30
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in NEEDED if name not in missing)
    korean = importlib.util.find_spec("mecab_ko") is not None
    return [
        ("jumok", jumok.__version__, True),
        ("machine", str(here), True),
        ("python", here.python, tuple(map(int, here.python.split(".")[:2])) >= (3, 11)),
        ("packages", versions if not missing else f"missing: {', '.join(missing)}", not missing),
        ("threads", f"{threads} of {here.cores} cores", threads >= min(here.cores, 2)),
        ("speed", f"{rate:.0f} GFLOPS in float32 matrix products", rate > 10),
        ("memory", f"{here.memory / 2**30:.0f} GiB", here.memory > 2 * 2**30),
        ("allocator", "keeps freed memory" if machine.keep_memory() else "not tuned (no glibc)", True),
        ("device", devices(), True),
        ("disk", f"{free:.0f} GiB free here", free > 1),
        ("Korean BLEU", "ko-mecab" if korean else "by characters (pip install jumok[korean] for ko-mecab)", True),
    ]


def sgemm(size: int = 1_024, seconds: float = 0.5) -> float:
    """Measured rate of matrix products in GFLOPS."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    a @ b
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        a @ b
        count += 1
    return 2 * size**3 * count / (time.perf_counter() - began) / 1e9


def devices() -> str:
    """What --device may name here."""
    found = ["cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return ", ".join(found)
