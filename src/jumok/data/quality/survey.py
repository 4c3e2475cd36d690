"""What is in a corpus and what is wrong with it, for `jumok data stats` and `jumok data check`, in bounded memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from jumok.data.corpora import Corpus
from jumok.data.prepare.parts import join_lines
from jumok.data.prepare.sift import examine, mix
from jumok.errors import DataError
from jumok.text import check as text_check
from jumok.text.files import attempt
from jumok.text.lines import Finding, is_table, read_lines, read_pairs, read_table

INCURABLE = ("unreadable", "compressed", "replacement character")  # kinds of findings that --fix cannot put right
PAIRS = 1 << 13  # counted at a time


class Distinct:
    """Counts how many hashes came again, in bounded memory: a few million at a time, the rest in a temporary folder."""

    HELD = 2_000_000
    FILES = 64

    def __init__(self) -> None:
        self.total = 0
        self._held: list[np.ndarray] = []
        self._size = 0
        self._folder: TemporaryDirectory[str] | None = None

    def add(self, hashes: np.ndarray) -> None:
        self._held.append(hashes)
        self._size += len(hashes)
        self.total += len(hashes)
        if self._size > self.HELD:
            self._spill()

    def _spill(self) -> None:
        self._folder = self._folder or TemporaryDirectory(prefix="jumok-stats-")
        hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *self._held]))
        edges = np.searchsorted(hashes >> np.uint64(58), np.arange(self.FILES + 1))
        for number, (start, stop) in enumerate(pairwise(edges.tolist())):
            with open(Path(self._folder.name) / str(number), "ab") as file:
                file.write(hashes[start:stop].tobytes())
        self._held, self._size = [], 0

    @cached_property
    def repeated(self) -> int:
        """How many came that had been there; nothing can be added afterwards."""
        if self._folder is None:
            return self.total - len(np.unique(np.concatenate([np.empty(0, np.uint64), *self._held])))
        self._spill()
        files = (Path(self._folder.name) / str(number) for number in range(self.FILES))
        found = self.total - sum(len(np.unique(np.fromfile(file, np.uint64))) for file in files)
        self._folder.cleanup()
        return found


@dataclass
class SideStats:
    """Counts of one language."""

    words: int = 0
    characters: int = 0
    empty: int = 0
    lengths: Counter[int] = field(default_factory=Counter)  # words a line, from 256 on together
    alphabet: set[int] = field(default_factory=set)
    seen: Distinct = field(default_factory=Distinct, repr=False)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Count some lines; their hashes."""
        counts = [len(text.split()) for text in texts]
        whole = "".join(texts)
        self.words += sum(counts)
        self.characters += len(whole)
        self.empty += sum(not count for count in counts)
        self.lengths.update(min(count, 256) for count in counts)
        codes = np.frombuffer(whole.encode("utf-32-le", "surrogatepass"), np.uint32)
        self.alphabet.update(np.unique(codes).tolist())
        side = examine(join_lines(texts), as_is=True)
        hashes = mix(side.near + side.exact)
        self.seen.add(hashes)
        return hashes

    @property
    def repeated(self) -> int:
        return self.seen.repeated

    def percentile(self, share: float) -> int:
        """The number of words that this share of the lines does not exceed."""
        wanted, so_far = share * self.lengths.total(), 0
        for length in sorted(self.lengths):
            so_far += self.lengths[length]
            if so_far >= wanted:
                return length
        return 0

    def to_json(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "characters": self.characters,
            "different_characters": len(self.alphabet),
            "empty_lines": self.empty,
            "repeated_lines": self.repeated,
            "words_per_line": {f"p{round(100 * s)}": self.percentile(s) for s in (0.05, 0.5, 0.95, 0.99)},
        }


@dataclass
class CorpusStats:
    """Counts of a parallel corpus."""

    name: str
    pairs: int = 0
    identical: int = 0  # both sides the same text
    repeated: int = 0  # the same pair again
    far: int = 0  # one side more than three times as many characters as the other
    source: SideStats = field(default_factory=SideStats)
    target: SideStats = field(default_factory=SideStats)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pairs": self.pairs,
            "identical_sides": self.identical,
            "repeated_pairs": self.repeated,
            "length_ratio_over_3": self.far,
            "source": self.source.to_json(),
            "target": self.target.to_json(),
        }

    def lines(self) -> list[str]:
        """The counts as a table."""
        head = [f"{self.name}: {self.pairs:,} pairs"]
        head.append(
            f"  {self.repeated:,} repeated pairs, {self.identical:,} with both sides the same, "
            f"{self.far:,} with one side over 3 times as long"
        )
        rows = [f"  {'':<22}{'source':>14}{'target':>14}"]
        source, target = self.source.to_json(), self.target.to_json()
        for name in ("words", "characters", "different_characters", "empty_lines", "repeated_lines"):
            rows.append(f"  {name.replace('_', ' '):<22}{source[name]:>14,}{target[name]:>14,}")
        for name, count in source["words_per_line"].items():
            rows.append(f"  {'words a line, ' + name:<22}{count:>14,}{target['words_per_line'][name]:>14,}")
        return head + rows


def stats(corpus: Corpus) -> CorpusStats:
    """Count everything in one pass."""
    found, seen = CorpusStats(corpus.name), Distinct()
    pairs = iter(corpus)
    while chunk := list(islice(pairs, PAIRS)):
        found.pairs += len(chunk)
        hashes = found.source.add([pair.source for pair in chunk]), found.target.add([pair.target for pair in chunk])
        seen.add(mix(hashes[0] * np.uint64(3) + hashes[1]))
        for source, target, _ in chunk:
            found.identical += source == target
            short, long = sorted((len(source), len(target)))
            found.far += long > 3 * short and long > 20
    if not found.pairs:
        raise DataError("the corpus is empty", where=f"in {corpus.name}", hint="try: jumok data check FILES")
    found.repeated = seen.repeated
    return found


def check(files: Iterable[str]) -> list[Finding]:
    """All findings of the files, and of the pair if there are two texts.

    What is unreadable by itself is not read again as a pair; nor is standard input, which is gone by then.  Where
    `--fix` can help, that is what the hint says.
    """
    listed = list(files)
    findings = [finding for file in listed for finding in text_check.check(file)]
    if "-" in listed:
        return findings
    cure = attempt("jumok data check --fix", *listed)
    findings = [one if one.kind in INCURABLE else replace(one, hint=cure) for one in findings]
    if any(finding.severity == "error" for finding in findings):
        return findings
    name = " + ".join(listed)
    try:
        count = sum(_texts(listed))
    except DataError as error:
        hint = error.hint if "both source and target" in error.what else cure
        return [*findings, Finding(name, 0, 0, f"{error.what} ({error.where})", hint, kind="not parallel")]
    if not count:
        findings.append(Finding(name, 0, 0, "there is no text", attempt("ls -l", *listed), kind="no text"))
    return findings


def _texts(files: list[str]) -> Iterator[bool]:
    """Whether there is text, for each pair, or each line of files that are not parallel."""
    if len(files) == 2 and not any(map(is_table, files)):
        yield from (bool(source.strip() and target.strip()) for source, target in read_pairs(*files))
        return
    for file in files:
        if is_table(file):
            yield from (bool(source.strip() and target.strip()) for source, target in read_table(file))
        else:
            yield from (bool(line.strip()) for line in read_lines(file))
