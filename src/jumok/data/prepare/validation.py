"""The validation pairs of a preparation, and the sentences that must not be trained on."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from jumok.data import corpora
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare import parts, work
from jumok.data.prepare.sift import examine, mix_pair
from jumok.data.prepare.stage import Report
from jumok.errors import DataError
from jumok.stopping import Stop
from jumok.storage import bundle

LINES = 1_024  # lines read between two checks for a stop
PAIRS = 100_000  # most pairs of a validation file that are used


def read_validation(
    validating: Sequence[Corpus], *, alone: bool, report: Report, stop: Stop
) -> tuple[list[Pair], list[int]]:
    """The pairs of the validation files, each with the number of its corpus; `alone` allows empty sources."""
    valid: list[Pair] = []
    labels: list[int] = []
    for number, corpus in enumerate(validating):
        watched = stop.watch(corpus, LINES)
        pairs = (pair for pair in watched if (pair.source.strip() or alone) and pair.target.strip())
        taken = list(islice(pairs, PAIRS))
        if next(pairs, None) is not None:
            report("note", text=f"{corpus.name} has more than {PAIRS:,} pairs; the first ones validate")
        valid += taken
        labels += [number if len(validating) > 1 else 0] * len(taken)
    if validating and not valid:
        raise DataError("data.empty_validation_file", corpus=validating[0].name)
    return valid, labels


def write_excluded(folder: Path, pairs: Sequence[Pair], paths: Sequence[str], stop: Stop) -> None:
    """Write the hashes of what must not be trained on: these pairs, and all sentences of the files `paths`."""
    both, either = np.empty(0, np.uint64), np.empty(0, np.uint64)
    if pairs:
        sides = [examine(parts.join_lines(side)) for side in zip(*((p.source, p.target) for p in pairs), strict=True)]
        both = np.unique(mix_pair(*sides))
    sentences = (texts for path in paths for texts in stop.watch(corpora.read_sentences(path)))
    hashes = [examine(parts.join_lines(texts)).near for texts in sentences]
    if hashes:
        either = np.unique(np.concatenate(hashes))
    for name, content in (("pairs", both), ("sides", either)):
        bundle.write_file(folder / f"{work.EXCLUDED}.{name}", content.tobytes())
