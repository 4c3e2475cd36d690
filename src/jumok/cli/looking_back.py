"""`jumok film` and `jumok errors`: what a run has learned when, and what it has not."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # searching for plugins takes longer than a translation

from jumok.cli.options import File, Json, ModelPath, argument, option
from jumok.cli.terminal import dumps
from jumok.cli.translate import clean_arguments, counting, load_translator
from jumok.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from jumok.data.corpora import Pair


def film(
    run: Annotated[Path, argument("help.film_run", "RUN")],
    text: Annotated[str, argument("help.film_text", "TEXT")],
    as_json: Json = False,
) -> None:
    from jumok.inside.film import play

    [text] = clean_arguments([sys.stdin.readline().rstrip("\n") if text == "-" else text])
    for frame in play(run, text):
        if as_json:
            print(dumps(frame.to_json()), flush=True)
            continue
        when = "finished" if frame.step is None else f"{frame.step:,}"
        print(f"{when:>10}  {frame.probability:.2f}  {frame.text}", flush=True)


def errors(
    model: ModelPath,
    source: Annotated[File, option("FILE", "help.evaluate_source")] = None,
    target: Annotated[File, option("FILE", "help.references")] = None,
    by: Annotated[str, option("ORDER", "help.errors_by")] = "chrf",
    most: Annotated[int, option("N", "help.errors_most")] = 20,
    pairs: Annotated[int, option("N", "help.errors_pairs")] = 1_000,
    as_json: Json = False,
) -> None:
    from jumok.data.corpora import read_test_set
    from jumok.evaluation.faults import ORDERS, find_faults, sort

    if by not in ORDERS:
        raise UnknownName("cli.unknown_order", by, ORDERS)
    given = source is not None or target is not None
    some = list(islice(read_test_set(source, target, None) if given else read_validation(Path(model)), pairs))
    with counting() as progress:
        faults = sort(find_faults(load_translator(model), some, progress=progress), by)
    for fault in faults[: most or None]:
        if as_json:
            print(dumps(fault.to_json()))
            continue
        print(f"chrF {fault.chrf:5.1f}  length {fault.ratio:.2f}  probability {fault.probability:.2f}")
        print(f"  {fault.source}\n  {fault.text}\n  {fault.reference}\n")


def read_validation(run: Path) -> list[Pair]:
    """Return the pairs that a run validates on."""
    from jumok.data.prepare.folder import number_pairs, read_valid

    try:
        return number_pairs(read_valid(run / "data" / "prepared"))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError("cli.no_validation_set", folder=run) from None
