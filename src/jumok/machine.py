"""The computer: its cores, memory and speed, and the setting of its allocator that training needs."""

import ctypes
import gc
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8
IMPORTED = time.monotonic()


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that `jumok doctor` prints and a checkpoint records."""

    system: str
    python: str
    processor: str
    cores: int
    memory: int  # bytes

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.processor}, {cores}, {self.memory / 2**30:.0f} GiB, {self.system}"


def describe() -> Machine:
    """This machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return Machine(platform.system(), platform.python_version(), _processor(), cores(), memory)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_memory() -> bool:
    """Make glibc keep freed memory for later; returns whether that worked (Linux with glibc only).

    Otherwise every update returns its tensors to the kernel and faults them in again, a fifth of the time.  One arena
    serves all threads, so that a thread can use what another one has freed.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    settings = (
        (M_MMAP_THRESHOLD, 1 << 30), (M_TRIM_THRESHOLD, (1 << 31) - 1), (M_TOP_PAD, 16 << 20), (M_ARENA_MAX, 1),
    )  # fmt: skip
    return all(mallopt(name, value) == 1 for name, value in settings)


def release_memory() -> bool:
    """Return freed memory to the kernel once; returns whether any was returned (Linux with glibc only).

    `keep_memory` retains what is freed, which is right for updates and wrong for what preparation has freed for good.
    Reference cycles are collected first: beside the objects of torch, Python would let tens of thousands accumulate.
    """
    gc.collect()
    if sys.platform != "linux":
        return False
    try:
        malloc_trim = ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):
        return False
    return bool(malloc_trim(0))


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes."""
    import resource

    try:
        lines = Path("/proc/self/status").read_text().split("\n")
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # on Linux possibly the parent's
        return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Resident size of this process now, in bytes; its largest so far where the present one is unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory()


def process_began() -> float:
    """When this process was started, on the clock of `time.monotonic`; if unknown, when jumok was imported."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, IndexError, AttributeError):
        return IMPORTED
    return min(IMPORTED, time.monotonic() - age)


def available_memory() -> int:
    """Bytes that this process can allocate without swapping; 0 if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().split("\n")
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return describe().memory
    limits = [*_group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")), *_address_limit()]
    return max(0, min([free, *limits]))


def _group_limits(listed: Path, root: Path) -> list[int]:
    """Bytes that are left in each control group of this process: its own and all above it; version 2 and version 1."""
    try:
        lines = listed.read_text().split("\n")
    except OSError:
        return []
    left = []
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        names = ("limit_in_bytes", "usage_in_bytes") if controllers else ("max", "current")
        group = Path(path.lstrip("/"))
        for folder in (base / group, *(base / parent for parent in group.parents)):  # a container shows its own as root
            try:
                limit, used = ((folder / f"memory.{name}").read_text().strip() for name in names)
                left += [int(limit) - int(used)] if limit != "max" else []
            except (OSError, ValueError):
                continue
    return left


def _address_limit() -> list[int]:
    """Bytes of addresses that this process may still use (`ulimit -v`), if they are limited."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return []
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return [limit]
    return [limit - used]


def shape_name(shape: tuple[int, int, int]) -> str:
    """The name of a shape (rows, inner, columns) in results."""
    return "x".join(map(str, shape))


def sgemm(shapes: Iterable[tuple[int, int, int]], *, seconds: float = 0.3) -> dict[str, float]:
    """GFLOPS of float32 matrix products (rows, inner, columns): the fastest call within `seconds` for each shape."""
    import torch

    rates = {}
    for rows, inner, columns in shapes:
        a, b, c = torch.randn(rows, inner), torch.randn(inner, columns), torch.empty(rows, columns)
        torch.mm(a, b, out=c)
        best, began = float("inf"), time.perf_counter()
        while (start := time.perf_counter()) - began < seconds:
            torch.mm(a, b, out=c)
            best = min(best, time.perf_counter() - start)
        rates[shape_name((rows, inner, columns))] = 2.0 * rows * inner * columns / best / 1e9
    return rates


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
