"""Parallel corpora of any size with known faults, to measure preparation where no real corpus is large enough.

    bench/corpus --pairs 2000000 --out /tmp/two-million          # two-million.en, two-million.xx, two-million.json

Both languages spell the same word numbers in two ways, so a model can learn to translate between them.
Three words of a pair encode its number, which makes every pair different; the others follow Zipf's law over three
million words.  A known share of the pairs is corrupted: repeated, repeated with other case, digits and punctuation,
copied from source to target, in another script, of absurd length, without letters, or empty.  The counts are in the
.json.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WORDS = 3_000_000  # different words of each language
BASE = 1_000  # three words of ranks 1,000 to 1,999 encode the number of a pair
CHUNK = 100_000  # pairs made at a time
POOL = 2_000  # pairs of the first chunk that are repeated in later ones
RATES = {
    "duplicate": 0.04,
    "near duplicate": 0.03,
    "copy": 0.02,
    "wrong script": 0.01,
    "ratio": 0.01,
    "symbols": 0.005,
    "empty": 0.002,
}
SOURCE = [c + v for c in "bcdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u", "ar")][:100]
TARGET = [c + v for c in "bdfghklmnprstwz" for v in ("a", "e", "i", "o", "u", "ä", "ö", "ü")][:100]
OTHER = [c + v for c in "бвгджзклмнпрстфхцч" for v in "аеиоу"][:90]


@dataclass(frozen=True)
class Spelling:
    """The words of a language: their bytes end to end, and where each begins."""

    content: np.ndarray
    begins: np.ndarray

    @classmethod
    def of(cls, syllables: list[str], words: int, seed: int) -> "Spelling":
        """Spell every word number by its digits, frequent words shorter; numbers are shuffled within a length."""
        rng, base = np.random.default_rng(seed), len(syllables)
        spelled = [syllable.encode() for syllable in syllables]
        result: list[bytes] = []
        size = 1
        while len(result) < words:
            count = min(base**size, words - len(result))
            numbers = (
                rng.permutation(base**size)[:count]
                if base**size <= 4 * words
                else rng.choice(base**size, count, replace=False)
            )
            digits = [(numbers // base**digit % base).tolist() for digit in range(size)]
            result += [b"".join([spelled[digit] for digit in word]) for word in zip(*digits, strict=True)]
            size += 1
        lengths = np.fromiter(map(len, result), np.int64, len(result))
        return cls(np.frombuffer(b"".join(result), np.uint8), np.concatenate([[0], np.cumsum(lengths)]))

    def write(self, words: np.ndarray, counts: np.ndarray) -> list[bytes]:
        """Sentences of the words, `counts` each, capitalised, with spaces between and a full stop."""
        lengths = self.begins[words + 1] - self.begins[words] + 1  # each with a space after it
        ends = np.cumsum(lengths)
        starts = ends - lengths
        offset = np.arange(ends[-1]) - np.repeat(starts, lengths)
        text = self.content[np.minimum(np.repeat(self.begins[words], lengths) + offset, len(self.content) - 1)]
        text[ends - 1] = 32
        last = ends[np.cumsum(counts) - 1]
        text[last - 1] = 46  # the full stop replaces the last space
        first = np.concatenate([[0], last[:-1]])
        text[first] -= 32  # every word begins with an ASCII letter
        raw = text.tobytes()
        return [raw[start:stop] for start, stop in zip(first.tolist(), last.tolist(), strict=True)]


class Maker:
    """Makes pairs chunk by chunk; the same seed makes the same corpus."""

    def __init__(self, seed: int = 1, words: int = WORDS, rates: dict[str, float] = RATES) -> None:
        self.seed, self.words, self.rates = seed, words, rates
        self.source, self.target = Spelling.of(SOURCE, words, 11), Spelling.of(TARGET, words, 12)
        self.other = Spelling.of(OTHER, 8_000, 13)
        self.chances = np.cumsum(1.0 / np.arange(1, words + 1))
        self.chances /= self.chances[-1]
        self.counts = dict.fromkeys(["clean", *rates], 0)
        self.pool: list[tuple[bytes, bytes]] = []

    def chunk(self, number: int, size: int = CHUNK) -> tuple[list[bytes], list[bytes]]:
        """The pairs from number · CHUNK on, some of them corrupted."""
        rng = np.random.default_rng((self.seed, number))
        drawn = rng.geometric(0.22, size).clip(1, 40)
        counts = drawn + 3
        tokens = np.searchsorted(self.chances, rng.random(int(counts.sum())))
        begins = np.cumsum(counts) - counts
        unique = (
            (np.arange(size, dtype=np.uint64) + np.uint64(number * CHUNK)) * np.uint64(610_612_589) % np.uint64(10**9)
        )
        for position in range(3):
            tokens[begins + position] = BASE + (unique // np.uint64(BASE**position) % np.uint64(BASE)).astype(np.int64)
        sources = self.source.write(tokens, counts)
        swapped = np.arange(len(tokens))  # the first two words are swapped in the other language
        swapped[begins], swapped[begins + 1] = begins + 1, begins
        targets = self.target.write(tokens[swapped], counts)
        for row in np.flatnonzero(rng.random(size) < 0.05).tolist():  # a number in both
            figure = b" %d." % rng.integers(10, 10_000)
            sources[row], targets[row] = sources[row][:-1] + figure, targets[row][:-1] + figure
        self.corrupt(sources, targets, rng, tokens, begins)
        return sources, targets

    def corrupt(
        self,
        sources: list[bytes],
        targets: list[bytes],
        rng: np.random.Generator,
        tokens: np.ndarray,
        begins: np.ndarray,
    ) -> None:
        """Corrupt a share of the pairs in place, and count them."""
        size = len(sources)
        kinds = list(self.rates)
        drawn = np.searchsorted(np.cumsum(list(self.rates.values())), rng.random(size), side="right")
        clean = np.flatnonzero(drawn == len(kinds))
        for name, count in zip([*kinds, "clean"], np.bincount(drawn, minlength=len(kinds) + 1).tolist(), strict=True):
            self.counts[name] += count
        rows = {name: np.flatnonzero(drawn == index).tolist() for index, name in enumerate(kinds)}
        unused = {"near duplicate": set[int]()}
        for name in ("duplicate", "near duplicate"):
            for row in rows[name]:
                earlier = int(np.searchsorted(clean, row))
                if earlier == 0:  # there is nothing to repeat yet
                    self.counts[name] -= 1
                    self.counts["clean"] += 1
                    continue
                if name == "duplicate":
                    if self.pool and row % 2:
                        sources[row], targets[row] = self.pool[row % len(self.pool)]
                    else:
                        original = int(clean[rng.integers(earlier)])
                        sources[row], targets[row] = sources[original], targets[original]
                    continue
                original = int(clean[rng.integers(earlier)])
                if original in unused[name]:  # a second near duplicate would be a duplicate of the first
                    self.counts[name] -= 1
                    self.counts["clean"] += 1
                    continue
                unused[name].add(original)
                sources[row] = sources[original].upper().replace(b" ", b"  ", 1)
                targets[row] = (
                    b"- " + targets[original][:-1].translate(bytes.maketrans(b"0123456789", b"1234567890")) + b"!"
                )
        for row in rows["copy"]:
            targets[row] = sources[row]
        for row in rows["wrong script"]:
            words = tokens[begins[row] : begins[row] + 4] % 8_000
            spelled = [
                self.other.content[self.other.begins[w] : self.other.begins[w + 1]].tobytes() for w in words.tolist()
            ]
            targets[row] = b" ".join(spelled) + b"."
        for row in rows["ratio"]:
            targets[row] = b" ".join([targets[row]] * 14)
        for row in rows["symbols"]:
            sources[row] = b"%d %d ## -- %d %% ++ %d:" % tuple(rng.integers(10, 99_999, 4).tolist())
        for row in rows["empty"]:
            sources[row] = b""
        if not self.pool:
            self.pool = [(sources[row], targets[row]) for row in clean[:POOL].tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--out", required=True, help="beginning of the names of the files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--words", type=int, default=WORDS)
    given = parser.parse_args()
    maker, began = Maker(given.seed, given.words), time.monotonic()
    names = [f"{given.out}.{side}" for side in ("en", "xx")]
    with open(names[0], "wb") as source, open(names[1], "wb") as target:
        for number in range(-(-given.pairs // CHUNK)):
            size = min(CHUNK, given.pairs - number * CHUNK)
            sides = maker.chunk(number, size)
            for file, lines in zip((source, target), sides, strict=True):
                file.write(b"\n".join(lines) + b"\n")
            if number % 20 == 0:
                rate = (number * CHUNK + size) / (time.monotonic() - began)
                print(f"{number * CHUNK + size:,} pairs, {rate:,.0f} per second", file=sys.stderr)
    Path(f"{given.out}.json").write_text(
        json.dumps({"pairs": given.pairs, "seed": given.seed, **maker.counts}, indent=1)
    )


if __name__ == "__main__":
    main()
