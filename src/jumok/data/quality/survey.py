"""Statistics and faults of a corpus, for `jumok data stats` and `jumok data check`, in bounded memory."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from jumok.config.sections import DataConfig
from jumok.data.corpora import Corpus
from jumok.data.languages import find_languages
from jumok.data.prepare.parts import join_lines
from jumok.data.prepare.sift import examine, mix
from jumok.data.quality.sides import LanguageCheck, Problem
from jumok.errors import DataError
from jumok.messages import Message
from jumok.text import check as text_check
from jumok.text.files import attempt
from jumok.text.lines import Finding, is_table, read_lines, read_pairs, read_table

INCURABLE = ("unreadable", "compressed", "replacement character")  # kinds of findings that --fix cannot repair
PAIRS = 1 << 13  # pairs counted at a time
EACH = 40  # pairs of such a block whose languages are looked at


class Distinct:
    """Counts repeated hashes in bounded memory: a few million are held, the others are in a temporary folder.

    It is made in `folder`, next to the text: the temporary folder of the system may be small, or in memory.
    """

    HELD = 2_000_000  # most hashes in memory
    FILES = 64  # files of the temporary folder, by the first bits of a hash

    def __init__(self, folder: Path | None = None) -> None:
        self.total, self._parent = 0, folder
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
        self._folder = self._folder or TemporaryDirectory(prefix=".jumok-stats-", dir=self._parent)
        hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *self._held]))
        edges = np.searchsorted(hashes >> np.uint64(58), np.arange(self.FILES + 1))
        for number, (start, stop) in enumerate(pairwise(edges.tolist())):
            with open(Path(self._folder.name) / str(number), "ab") as file:
                file.write(hashes[start:stop].tobytes())
        self._held, self._size = [], 0

    @cached_property
    def repeated(self) -> int:
        """The number of hashes that had been added before; nothing can be added after this."""
        if self._folder is None:
            return self.total - len(np.unique(np.concatenate([np.empty(0, np.uint64), *self._held])))
        self._spill()
        files = (Path(self._folder.name) / str(number) for number in range(self.FILES))
        distinct = sum(len(np.unique(np.fromfile(file, np.uint64))) for file in files)
        self._folder.cleanup()
        return self.total - distinct


@dataclass
class SideStats:
    """Counts of one language."""

    words: int = 0
    characters: int = 0
    empty: int = 0
    lengths: Counter[int] = field(default_factory=Counter)  # words per line; 256 stands for 256 and more
    alphabet: set[int] = field(default_factory=set)
    seen: Distinct = field(default_factory=Distinct, repr=False)

    def add(self, texts: Sequence[str]) -> np.ndarray:
        """Count some lines and return their hashes."""
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
    identical: int = 0  # pairs with the same text on both sides
    repeated: int = 0  # pairs that occurred before
    far: int = 0  # pairs with one side more than three times as long as the other
    languages: Problem | None = None  # what is wrong with the languages of the sides
    source: SideStats = field(default_factory=SideStats)
    target: SideStats = field(default_factory=SideStats)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pairs": self.pairs,
            "identical_sides": self.identical,
            "repeated_pairs": self.repeated,
            "length_ratio_over_3": self.far,
            "languages": self.languages,
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
        if self.languages is not None:
            head.append(f"  {explain_languages(self.languages)[0]}")
        rows = [f"  {'':<22}{'source':>14}{'target':>14}"]
        source, target = self.source.to_json(), self.target.to_json()
        for name in ("words", "characters", "different_characters", "empty_lines", "repeated_lines"):
            rows.append(f"  {name.replace('_', ' '):<22}{source[name]:>14,}{target[name]:>14,}")
        for name, count in source["words_per_line"].items():
            rows.append(f"  {'words a line, ' + name:<22}{count:>14,}{target['words_per_line'][name]:>14,}")
        return head + rows


def stats(corpus: Corpus) -> CorpusStats:
    """Count everything in one pass."""
    folder = next((Path(path).absolute().parent for path in corpus.files), None)
    folder = folder if folder is not None and os.access(folder, os.W_OK) else None
    sides = (SideStats(seen=Distinct(folder)) for _ in range(2))
    counts, seen = CorpusStats(corpus.name, source=next(sides), target=next(sides)), Distinct(folder)
    pairs, languages = iter(corpus), make_check(list(corpus.inputs[0]) if corpus.inputs else [])
    while chunk := list(islice(pairs, PAIRS)):
        counts.pairs += len(chunk)
        if languages is not None:
            ask(languages, [(pair.source, pair.target) for pair in chunk])
        source_hashes = counts.source.add([pair.source for pair in chunk])
        target_hashes = counts.target.add([pair.target for pair in chunk])
        seen.add(mix(source_hashes * np.uint64(3) + target_hashes))
        for source, target, _ in chunk:
            counts.identical += source == target
            short, long = sorted((len(source), len(target)))
            counts.far += long > 3 * short and long > 20
    if not counts.pairs:
        raise DataError("data.empty_corpus", corpus=corpus.name)
    counts.repeated = seen.repeated
    counts.languages = None if languages is None else languages.problem
    return counts


def make_check(files: Sequence[str]) -> LanguageCheck | None:
    """A check of the languages that the files are named after; None if their names do not say."""
    if len(files) == 2 and not any(map(is_table, files)):
        data = DataConfig(source=files[0], target=files[1])
    elif len(files) == 1 and is_table(files[0]):
        data = DataConfig(table=files[0])
    else:
        return None
    pair = find_languages(data)
    return None if pair is None else LanguageCheck(pair)


def explain_languages(problem: Problem) -> tuple[Message, Message]:
    """What is wrong with the languages of a corpus, and what to do."""
    if problem == "swapped":
        return Message("data.languages_swapped"), Message("data.languages_swapped_hint")
    return Message("data.languages_same"), Message("data.languages_same_hint")


def ask(languages: LanguageCheck, pairs: Sequence[tuple[str, str]]) -> None:
    """Check some pairs of a block, evenly spread, until enough have been looked at."""
    if not languages.full:
        for source, target in pairs[:: max(1, len(pairs) // EACH)]:
            languages.add(source, target)


def check(files: Iterable[str]) -> list[Finding]:
    """All findings in the files, and in the pair if there are two texts.

    Files that cannot be read are not read again as a pair, and standard input cannot be.  The hint of a finding that
    `--fix` can repair is that command.
    """
    listed = list(files)
    findings = [finding for file in listed for finding in text_check.check(file)]
    if "-" in listed:
        return findings
    cure = attempt("jumok data check --fix", *listed)
    findings = [finding if finding.kind in INCURABLE else replace(finding, hint=cure) for finding in findings]
    if any(finding.severity == "error" for finding in findings):
        return findings
    name, languages = " + ".join(listed), make_check(listed)
    try:
        count = sum(_have_text(listed, languages))
    except DataError as error:
        hint = error.hint if error.key == "text.same_file" else cure
        problem = str(Message("data.not_parallel", {"problem": error.what, "position": error.where}))
        return [*findings, Finding(name, 0, 0, problem, hint, kind="not parallel")]
    if not count:
        problem = str(Message("data.no_text_found"))
        findings.append(Finding(name, 0, 0, problem, attempt("ls -l", *listed), kind="no text"))
    if languages is not None and languages.problem is not None:
        explained = explain_languages(languages.problem)
        findings.append(Finding(name, 0, 0, *explained, severity="warning", kind=f"{languages.problem} languages"))
    return findings


def _have_text(files: list[str], languages: LanguageCheck | None = None) -> Iterator[bool]:
    """Whether each pair has text on both sides, or each line of files that are not parallel.

    The languages of some of the pairs are checked.
    """
    pairs: Iterator[tuple[str, str]] | None = None
    if len(files) == 2 and not any(map(is_table, files)):
        pairs = read_pairs(*files)
    elif len(files) == 1 and is_table(files[0]):
        pairs = read_table(files[0])
    while pairs is not None:
        if not (chunk := list(islice(pairs, PAIRS))):
            return
        if languages is not None:
            ask(languages, chunk)
        yield from (bool(source.strip() and target.strip()) for source, target in chunk)
    for file in files:
        if is_table(file):
            yield from (bool(source.strip() and target.strip()) for source, target in read_table(file))
        else:
            yield from (bool(line.strip()) for line in read_lines(file))
