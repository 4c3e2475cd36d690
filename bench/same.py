"""Count translations that depend on the rest of the batch, for every engine, with scores to the last bit.

    bench/same --model runs/tiny --source val.en --sentences 1000 --mixes 20

A mix is the sentences in random order, in calls of 1 to 300.  The translation of a sentence in a mix is compared with
that of one call with all sentences.  OMP_NUM_THREADS sets the number of threads; the digest of the first call is
printed, so that runs with different numbers of threads can be compared.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from jumok.kernels import library
from jumok.text.lines import read_lines
from jumok.translation import Translation
from jumok.translator import Translator

LARGEST = 300  # most sentences of a call


class Variant(NamedTuple):
    """An engine with its options."""

    choices: dict[str, Any]
    kernels: bool = True


VARIANTS = {
    "native": Variant({"engine": "native"}),
    "native with shortlist": Variant({"engine": "native", "shortlist": True}),
    "torch": Variant({"engine": "torch"}),
    "torch without kernels": Variant({"engine": "torch"}, kernels=False),
    "ctranslate2 int8": Variant({"engine": "ctranslate2"}),
    "ctranslate2 float32": Variant({"engine": "ctranslate2", "precision": "float32"}),
    "ctranslate2 int8 with shortlist": Variant({"engine": "ctranslate2", "shortlist": True}),
}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam 5": {"beam": 5},
    "5 best": {"beam": 5, "n_best": 5},
    "no repeats": {"beam": 5, "no_repeat": 2},
    "groups": {"beam": 4, "groups": 2},
    "forbidden word": {"beam": 5, "forbid": ["ein"]},
    "required word": {"beam": 3, "require": ["und"]},
    "coverage": {"beam": 5, "coverage": 0.2},
    "drawing": {"sample": True, "seed": 7},  # depends on the position in the call, unless deterministic
    "least risk": {"mbr": 8, "seed": 7},
}


class Difference(NamedTuple):
    """Counts over translations in mixes: all, those with another text, those with a score that differs in any bit."""

    tried: int = 0
    texts: int = 0
    scores: int = 0

    def plus(self, one: Translation, other: Translation) -> Difference:
        texts = [[each.text for each in (first, *first.alternatives)] for first in (one, other)]
        scores = [[numbers(each) for each in (first, *first.alternatives)] for first in (one, other)]
        return Difference(self.tried + 1, self.texts + (texts[0] != texts[1]), self.scores + (scores[0] != scores[1]))


def numbers(translation: Translation) -> tuple[str, ...]:
    """Every number of a translation, to the last bit."""
    words = [word.probability for word in translation.words]
    return tuple(map(float.hex, (translation.score, translation.log_probability, *translation.token_scores, *words)))


def mixes(count: int, times: int, *, seed: int = 1) -> Iterator[list[list[int]]]:
    """The rows 0 … count - 1 in random order, in random calls; small calls are as likely as large ones."""
    for number in range(times):
        draw = random.Random(f"{seed}:{number}")
        rows = draw.sample(range(count), count)
        calls = []
        while rows:
            size = round(LARGEST ** draw.random())
            calls.append(rows[:size])
            rows = rows[size:]
        yield calls


def differences(
    translate: Callable[[list[str]], list[Translation]], texts: Sequence[str], times: int, *, seed: int = 1
) -> tuple[list[Translation], Difference]:
    """The translations of all texts in one call, and how often a mix gave a different one."""
    expected, difference = translate(list(texts)), Difference()
    for calls in mixes(len(texts), times, seed=seed):
        for rows in calls:
            for row, translation in zip(rows, translate([texts[row] for row in rows]), strict=True):
                difference = difference.plus(translation, expected[row])
    return expected, difference


def digest(translations: Sequence[Translation]) -> str:
    """A digest of all texts and all bits of scores."""
    lines = "\n".join(f"{translation.text}\t{' '.join(numbers(translation))}" for translation in translations)
    return blake2b(lines.encode(), digest_size=4).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/same", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--mixes", type=int, default=20)
    parser.add_argument("--searches", default="greedy,beam 5", help=f"of: {', '.join(SEARCHES)}")
    parser.add_argument("--ways", default=",".join(VARIANTS), help="engines, with commas between")
    parser.add_argument("--deterministic", action="store_true")
    given = parser.parse_args()
    texts = [text for text in islice(read_lines(given.source), given.sentences) if text.strip()]
    threads, mode = os.environ.get("OMP_NUM_THREADS", "all"), "deterministic" if given.deterministic else "default"
    titles = [f"{len(texts):,} sentences, {given.mixes} mixes, {mode}, threads: {threads}", "search", "tried"]
    titles += ["other translation", "other score", "digest", "sentences/s"]
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|", flush=True)
    for name in given.ways.split(","):
        variant, model = (
            VARIANTS[name],
            Translator.load(given.model, deterministic=given.deterministic, **VARIANTS[name].choices),
        )
        for search in given.searches.split(","):
            with nullcontext() if variant.kernels else library.without():
                began = time.perf_counter()
                whole, difference = differences(partial(model.translate, **SEARCHES[search]), texts, given.mixes)
                speed = (len(texts) + difference.tried) / (time.perf_counter() - began)
            counts = f"{difference.tried:,} | {difference.texts:,} | {difference.scores:,}"
            print(f"| {name} | {search} | {counts} | {digest(whole)} | {speed:,.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
