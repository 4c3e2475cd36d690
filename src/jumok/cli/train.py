"""`jumok train` in a terminal: a run, or only a forecast of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumok import machine
from jumok.cli.terminal import check_device
from jumok.config.recipe import parse_assignment
from jumok.runs import experiment
from jumok.runs.choose import Named, choose, gather, settle
from jumok.training.distributed import join

if TYPE_CHECKING:
    from jumok.events import Sink

__all__ = ["Named", "gather", "list_changes", "plan", "train"]


def list_changes(words: Sequence[str], *, compiled: bool, until_bleu: float | None) -> dict[str, Any]:
    """Return the changes to the recipe, by dotted keys."""
    changes = dict(map(parse_assignment, words))
    changes |= {"training.compile": True} if compiled else {}
    return changes | ({} if until_bleu is None else {"training.until_bleu": until_bleu})


def plan(choices: dict[str, Any], *, out: Path | None, device: str) -> None:
    """Probe for some seconds and print the forecast."""
    from jumok.runs.forecast import probe

    check_device(device)
    settled, folder, why = settle(out, choices)
    forecast = probe(choose(**settled), folder, device=device, began=machine.process_began())
    print("\n".join([*filter(None, [why]), *forecast.lines()]))


def train(
    choices: dict[str, Any],
    *,
    out: Path | None,
    device: str,
    exact: bool,
    sinks: Sequence[Sink],
    stop: Callable[[], bool],
) -> None:
    """Train, alone or with the processes that torchrun started, and print the folder of the run."""
    check_device(device)
    began, world = machine.process_began(), join(os.environ, device)
    run = experiment.train(
        **choices, out=out, device=device, exact=exact, sinks=sinks, stop=stop, began=began, world=world
    )
    world.leave()
    if world.first:
        print(run.folder)
