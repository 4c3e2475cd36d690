"""The validation pairs of a preparation, and the sentences that must not be trained on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from jumok.data import corpora
from jumok.data.corpora import Corpus, Pair, Tail
from jumok.data.prepare import parts, work
from jumok.data.prepare.folder import stamp
from jumok.data.prepare.sift import examine, mix_pair
from jumok.data.prepare.stage import Report, Stage
from jumok.errors import DataError
from jumok.stopping import Stop
from jumok.storage import bundle
from jumok.text.lines import hash_files
from jumok.text.tables import Columns

LINES = 1_024  # lines read between two checks for a stop
SHORT = 24  # most bytes of a source that may be both in a validation pair and in another pair that trains
PAIRS = 100_000  # most pairs of a validation file that are used


def read_validation(
    validating: Sequence[Corpus], *, alone: bool, report: Report, stop: Stop
) -> tuple[list[Pair], list[int]]:
    """The pairs of the validation files, each with the number of its corpus; `alone` allows empty sources."""
    valid: list[Pair] = []
    labels: list[int] = []
    if not validating:
        return valid, labels
    stage = Stage(report, "validation", "Reading the validation pairs")
    for number, corpus in enumerate(validating):
        tell = stage.span(number / len(validating), (number + 1) / len(validating))
        pairs = (pair for pair in _watch(corpus, stop, tell) if (pair.source.strip() or alone) and pair.target.strip())
        taken = list(islice(pairs, PAIRS))
        if next(pairs, None) is not None:
            report("note", text=f"{corpus.name} has more than {PAIRS:,} pairs; the first ones validate")
        valid += taken
        labels += [number if len(validating) > 1 else 0] * len(taken)
        stage.count = len(valid)
    if not valid:
        raise DataError("data.empty_validation_file", corpus=validating[0].name)
    return valid, labels


def _watch(corpus: Corpus, stop: Stop, tell: Callable[[float], None]) -> Iterator[Pair]:
    """The pairs of a validation corpus; the share of them that was read is told, and the stop checked."""
    tail = corpus.tail
    if tail is not None:  # most of the text comes before it
        with watching(tail, lambda line: tell(line / max(1, tail.count))):
            yield from corpus
        return
    size, done = max(1, parts.size_on_disk(corpus.files)), 0
    for count, pair in enumerate(stop.watch(corpus, LINES)):
        done += len(pair.source) + len(pair.target) + 2
        if count % LINES == 0:
            tell(min(1.0, done / size))
        yield pair


@contextmanager
def watching(tail: Tail, tell: Callable[[int], None]) -> Iterator[None]:
    """Tell the number of every thousandth line of a text that is read meanwhile."""
    before = tail.watch

    def watch(lines: Iterator[str]) -> Iterator[str]:
        for number, line in enumerate(before(lines)):
            if number % LINES == 0:
                tell(number)
            yield line

    tail.watch = watch
    try:
        yield
    finally:
        tail.watch = before


def hash_others(paths: Sequence[str], known: dict[str, str], *, report: Report, stop: Stop) -> list[dict[str, Any]]:
    """The entries of files with their digests, which are added to `known` unless they are there."""
    entries = [stamp(path) for path in paths]
    missing = {entry["path"]: entry["size"] for entry in entries if entry["path"] not in known}
    if missing:
        stage = Stage(report, "hashing", "Looking at the validation and test files", unit="bytes")
        size, done = sum(missing.values()), 0
        for path in missing:
            known[path] = stop.finish(stage.count_up(hash_files([path]), size, before=done))
            done += missing[path]
    return [entry | {"sha256": known[entry["path"]]} for entry in entries]


def write_excluded(
    folder: Path,
    pairs: Sequence[Pair],
    paths: Sequence[str],
    *,
    columns: Columns | None = None,
    report: Report,
    stop: Stop,
) -> None:
    """Write the hashes of what must not be trained on: these pairs, and all sentences of the files `paths`.

    Of the pairs, the source counts by itself too, unless it is short: phrases such as "Thank you." are in every corpus.
    The target does not: trees or answers are equal for many sources.
    `columns` are the two sides of those files that are tables.
    """
    both, either = np.empty(0, np.uint64), np.empty(0, np.uint64)
    hashes: list[np.ndarray] = []
    if pairs:
        sides = [examine(parts.join_lines(side)) for side in zip(*((p.source, p.target) for p in pairs), strict=True)]
        both = np.unique(mix_pair(*sides))
        hashes += [side.near[(np.diff(side.begins) > SHORT) & ~side.symbols & ~side.empty] for side in sides[:1]]
    if paths:
        stage = Stage(report, "excluding", "Reading what must not be trained on", unit="sentences")
        size, done, count = max(1, parts.size_on_disk(paths)), 0, 0
        sentences = partial(corpora.read_sentences, columns=columns)
        for texts in (texts for path in paths for texts in stop.watch(sentences(path))):
            hashes.append(examine(parts.join_lines(texts)).near)
            done, count = done + sum(map(len, texts)) + len(texts), count + len(texts)
            stage(min(1.0, done / size), count)
    if hashes:
        either = np.unique(np.concatenate(hashes))
    for name, content in (("pairs", both), ("sides", either)):
        bundle.write_file(folder / f"{work.EXCLUDED}.{name}", content.tobytes())
