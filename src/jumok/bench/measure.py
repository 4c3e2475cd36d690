"""Timing of updates, the choice of those that count, and the context of a line of results.

Our runs and those of the peers (bench/peers/) are measured by this file, which therefore imports only the standard
library.  The limit of a machine is `machine.sgemm`.

An update is clean if other processes used less than `TOLERANCE` of a core while it ran.  Each of the others is replaced
by another update, up to `PATIENCE` times the number requested.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOLERANCE = 0.08  # share of a core that other processes may use
TICKS = 0.03  # seconds; the clocks of the kernel and of the process advance a hundred times per second each
PATIENCE = 3
REFERENCE = 159.0  # GFLOPS: figures are also given for a machine of this rate
SETTINGS = (  # environment variables that change the speed of torch
    "OMP_NUM_THREADS",
    "GOMP_SPINCOUNT",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)


@dataclass(frozen=True)
class Reading:
    """The clocks in seconds; `others` is the work of all other processes, None where the system does not count it."""

    wall: float
    user: float
    system: float
    others: float | None


def read_clocks() -> Reading:
    """Read all clocks."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    user, system = own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime
    busy = _busy()
    return Reading(time.perf_counter(), user, system, None if busy is None else busy - user - system)


def _busy() -> float | None:
    """Seconds that all cores have worked since the machine started (Linux only)."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, hard, soft, stolen = map(int, file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + hard + soft + stolen) / os.sysconf("SC_CLK_TCK")


def is_undisturbed(others: float | None, seconds: float) -> bool:
    """Whether other processes, which worked `others` seconds meanwhile, left the machine idle enough."""
    return others is None or others < TOLERANCE * seconds + TICKS


@dataclass(frozen=True)
class Work:
    """The work of one update: real tokens of both sides, positions of the grid with padding, sentences."""

    source: int
    target: int
    grid: int
    sentences: int
    flops: float = 0.0
    loss: float | None = None


@dataclass(frozen=True)
class Update:
    """One update and its time."""

    work: Work
    seconds: float
    user: float
    system: float
    others: float | None

    @property
    def clean(self) -> bool:
        return is_undisturbed(self.others, self.seconds)


class Watch:
    """Times updates: the first `warmup` do not count; `enough` is True when `updates` more were clean."""

    def __init__(self, *, warmup: int, updates: int, read: Callable[[], Reading] = read_clocks) -> None:
        self.warmup, self.wanted, self.read = warmup, updates, read
        self.updates: list[Update] = []
        self.last = read()

    def update(self, work: Work, now: Reading | None = None) -> None:
        """Record that an update has just ended, or ended at `now`."""
        now, before = now or self.read(), self.last
        others = None if now.others is None or before.others is None else now.others - before.others
        times = (now.wall - before.wall, now.user - before.user, now.system - before.system)
        self.updates.append(Update(work, *times, others))
        self.last = now

    def resume(self) -> None:
        """Start the next update now, so that the time since the last one does not count."""
        self.last = self.read()

    @property
    def timed(self) -> list[Update]:
        return self.updates[self.warmup :]

    @property
    def clean(self) -> list[Update]:
        return [update for update in self.timed if update.clean]

    @property
    def enough(self) -> bool:
        return len(self.clean) >= self.wanted or len(self.timed) >= PATIENCE * self.wanted

    @property
    def contended(self) -> bool:
        """Whether fewer than half of the wanted updates were clean: figures are comparable only within a minute."""
        return len(self.clean) < self.wanted / 2

    @property
    def sample(self) -> list[Update]:
        """The updates behind the figures: the clean ones, or all if few are clean."""
        return self.timed if self.contended else self.clean[: self.wanted]

    def figures(self) -> dict[str, Any]:
        """Every figure that depends on time."""
        sample = self.sample
        if not sample:
            raise ValueError("no update was timed")
        seconds = sum(update.seconds for update in sample)
        source, target, grid, sentences = (
            sum(getattr(update.work, name) for update in sample) for name in ("source", "target", "grid", "sentences")
        )
        return {
            "updates": len(sample),
            "warmup_updates": self.warmup,
            "dirty_updates": len(self.timed) - len(self.clean),
            "contended": self.contended,
            "target_tokens_per_second": target / seconds,
            "target_tokens_per_second_median": statistics.median(u.work.target / u.seconds for u in sample),
            "source_tokens_per_second": source / seconds,
            "seconds_per_update": seconds / len(sample),
            "seconds_per_update_median": statistics.median(update.seconds for update in sample),
            "target_tokens_per_update": target / len(sample),
            "source_tokens_per_update": source / len(sample),
            "sentences_per_update": sentences / len(sample),
            "padding": 1.0 - (source + target) / grid,
            "user_seconds": sum(update.user for update in sample),
            "system_seconds": sum(update.system for update in sample),
            "wall_seconds": seconds,
        }

    def losses(self) -> tuple[float, float] | None:
        """The mean loss of the first and of the last tenth of all updates, warm-up included."""
        losses = [update.work.loss for update in self.updates if update.work.loss is not None]
        share = max(1, len(losses) // 10)
        return (statistics.fmean(losses[:share]), statistics.fmean(losses[-share:])) if losses else None


SQUARES = ((1024, 1024, 1024), (1536, 1536, 1536))


def scale_to_reference(rate: float, gflops: float) -> float:
    """A token rate scaled to a machine of `REFERENCE` GFLOPS, as if all time were matrix products."""
    return rate * REFERENCE / gflops


def describe_context(
    watch: Watch, rates: Mapping[str, float], memory: int, *, threads: int, meanwhile: Sequence[float] = ()
) -> dict[str, Any]:
    """The machine and the loss of a line of results, the same for all systems.

    `rates` are the best rates of products before and after the run, `meanwhile` those of one product between updates:
    on a host of varying speed, the mean speed of a run is compared with these.
    """
    first, last = watch.losses() or (None, None)
    best, rate = max(rates.values()), watch.figures()["target_tokens_per_second"]
    limit = statistics.median(meanwhile) if meanwhile else best
    return {
        "sgemm": dict(rates),
        "sgemm_gflops": limit,
        "sgemm_best_gflops": best,
        "reference_gflops": REFERENCE,
        "target_tokens_per_second_at_reference": scale_to_reference(rate, limit),
        "target_tokens_per_second_at_reference_best": scale_to_reference(rate, best),
        "peak_memory": memory,
        "threads": threads,
        "settings": settings(),
        "loss_first": first,
        "loss_last": last,
    }


def settings() -> dict[str, str]:
    """The environment variables for threads and the allocator that are set."""
    return {name: os.environ[name] for name in SETTINGS if name in os.environ}


def file_name(path: str | Path) -> str:
    """The name of a file without its folders, which results should not reveal."""
    return Path(path).name
