"""The checks of `jumok doctor`: whether everything that jumok needs is installed, and how fast this machine is.

It works where packages are missing, even torch.
"""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import jumok
from jumok import extras, machine
from jumok.kernels import library

NEEDED = {  # module -> package
    "numpy": "numpy",
    "pydantic": "pydantic",
    "sentencepiece": "sentencepiece",
    "safetensors": "safetensors",
    "typer": "typer",
    "rich": "rich",
    "tomli_w": "tomli-w",
}
MARKS = {"fine": "ok", "absent": "--", "poor": "!!", "missing": "XX"}
State = Literal["fine", "absent", "poor", "missing"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    States: fine; absent, an extra that not everyone needs; poor, jumok works, but slowly or not for long; missing, it
    cannot work.
    """

    name: str
    value: str
    state: State = "fine"

    def __str__(self) -> str:
        return f"{MARKS[self.state]}  {self.name:<12} {self.value}"


def examine() -> list[Finding]:
    """Return the results of all checks."""
    here = machine.describe()
    absent = [package for module, package in NEEDED.items() if not extras.is_installed(module)]
    versions = describe_versions(package for package in NEEDED.values() if package not in absent)
    missing = f"missing: {', '.join(absent)} (try: pip install {' '.join(absent)})"
    free = shutil.disk_usage(".").free / 2**30
    torch = extras.is_installed("torch")
    return [
        Finding("jumok", jumok.__version__),
        Finding("machine", str(here)),
        Finding("python", here.python, "fine" if sys.version_info >= (3, 11) else "missing"),
        Finding("packages", missing if absent else versions, "missing" if absent else "fine"),
        *map(check_extra, extras.PURPOSES),
        *(check_torch(here) if torch else []),
        check_kernels(torch=torch),
        Finding("memory", f"{here.memory / 2**30:.0f} GiB", "fine" if here.memory > 2 * 2**30 else "poor"),
        Finding("allocator", "keeps freed memory" if machine.keep_memory() else "not tuned (no glibc)"),
        Finding("disk", f"{free:.0f} GiB free here", "fine" if free > 1 else "poor"),
    ]


def check_extra(name: str) -> Finding:
    """Check whether the libraries of an extra are installed."""
    modules = [module for module, extra in extras.EXTRAS.items() if extra == name]
    absent = [module for module in modules if not extras.is_installed(module)]
    if absent:
        needed = f"{', '.join(absent)} not installed, for {extras.PURPOSES[name]}"
        return Finding(name, f"{needed} ({extras.hint(absent[0])})", "absent")
    return Finding(name, describe_versions(module.replace("_", "-") for module in modules))


def describe_versions(packages: Iterable[str]) -> str:
    """Return installed packages with their versions."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def check_torch(here: machine.Machine) -> list[Finding]:
    """Check how many threads torch uses, how fast it is and which devices it has."""
    import torch

    (rate,) = machine.sgemm([(1_024, 1_024, 1_024)], seconds=0.5).values()
    threads, limit = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    reason = f" (OMP_NUM_THREADS={limit})" if limit and threads < here.cores else ""
    return [
        Finding("threads", f"{threads} of {here.cores} cores{reason}", "fine" if threads >= here.cores else "poor"),
        Finding("speed", f"{rate:.0f} GFLOPS in float32 matrix products", "fine" if rate > 10 else "poor"),
        Finding("device", list_devices()),
    ]


def check_kernels(*, torch: bool) -> Finding:
    """Check whether there are C kernels; without them and without torch nothing translates."""
    problem = library.find_problem()
    if problem is None:
        return Finding("kernels", "compiled for this processor")
    reason = f"{problem} (try: apt-get install gcc, or your system's equivalent)"
    if torch:
        return Finding("kernels", f"none, so training is slower: {reason}", "poor")
    return Finding("kernels", f"none, so nothing translates: {reason}", "missing")


def list_devices() -> str:
    """Return the devices that --device may name on this machine."""
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available.append("cuda")
    if torch.backends.mps.is_available():
        available.append("mps")
    return ", ".join(available)
