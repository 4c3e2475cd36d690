"""Does a sentence get the same translation whatever is beside it?  Counted for every engine, scores to the last bit.

    bench/same --model runs/tiny --source val.en --sentences 1000 --mixes 20

A mix is the sentences in random order, in calls of 1 to 300.  What a sentence gets in a mix is compared with what it
got when all were translated in one call.  OMP_NUM_THREADS says how many threads; the digest of the first call is
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

LARGEST = 300  # sentences of a call


class Way(NamedTuple):
    """An engine as it is asked for."""

    choices: dict[str, Any]
    kernels: bool = True


WAYS = {
    "native": Way({"engine": "native"}),
    "native with shortlist": Way({"engine": "native", "shortlist": True}),
    "torch": Way({"engine": "torch"}),
    "torch without kernels": Way({"engine": "torch"}, kernels=False),
    "ctranslate2 int8": Way({"engine": "ctranslate2"}),
    "ctranslate2 float32": Way({"engine": "ctranslate2", "precision": "float32"}),
    "ctranslate2 int8 with shortlist": Way({"engine": "ctranslate2", "shortlist": True}),
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
    "drawing": {"sample": True, "seed": 7},  # depends on the place in the call, unless deterministic
    "least risk": {"mbr": 8, "seed": 7},
}


class Difference(NamedTuple):
    """Of so many translations in mixes: those with another text, and those with a score that differs in any bit."""

    tried: int = 0
    texts: int = 0
    scores: int = 0

    def plus(self, one: Translation, other: Translation) -> Difference:
        texts = [[each.text for each in (first, *first.alternatives)] for first in (one, other)]
        scores = [[numbers(each) for each in (first, *first.alternatives)] for first in (one, other)]
        return Difference(self.tried + 1, self.texts + (texts[0] != texts[1]), self.scores + (scores[0] != scores[1]))


def numbers(one: Translation) -> tuple[str, ...]:
    """Every number of a translation, to the last bit."""
    words = [word.probability for word in one.words]
    return tuple(map(float.hex, (one.score, one.log_probability, *one.token_scores, *words)))


def mixes(count: int, times: int, *, seed: int = 1) -> Iterator[list[list[int]]]:
    """The rows 0 … count - 1 in random order, divided at random; few together are as likely as many."""
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
    """What all texts get in one call, and how often a text got something else in a mix."""
    expected, found = translate(list(texts)), Difference()
    for calls in mixes(len(texts), times, seed=seed):
        for rows in calls:
            for row, one in zip(rows, translate([texts[row] for row in rows]), strict=True):
                found = found.plus(one, expected[row])
    return expected, found


def digest(translations: Sequence[Translation]) -> str:
    """Changes with any letter and any bit."""
    told = "\n".join(f"{one.text}\t{' '.join(numbers(one))}" for one in translations)
    return blake2b(told.encode(), digest_size=4).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/same", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--mixes", type=int, default=20)
    parser.add_argument("--searches", default="greedy,beam 5", help=f"of: {', '.join(SEARCHES)}")
    parser.add_argument("--ways", default=",".join(WAYS), help="engines, with commas between")
    parser.add_argument("--deterministic", action="store_true")
    given = parser.parse_args()
    texts = [text for text in islice(read_lines(given.source), given.sentences) if text.strip()]
    threads, mode = os.environ.get("OMP_NUM_THREADS", "all"), "deterministic" if given.deterministic else "default"
    titles = [f"{len(texts):,} sentences, {given.mixes} mixes, {mode}, threads: {threads}", "search", "tried"]
    titles += ["other translation", "other score", "digest", "sentences/s"]
    print(f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|", flush=True)
    for name in given.ways.split(","):
        way, model = WAYS[name], Translator.load(given.model, deterministic=given.deterministic, **WAYS[name].choices)
        for search in given.searches.split(","):
            with nullcontext() if way.kernels else library.without():
                began = time.perf_counter()
                whole, found = differences(partial(model.translate, **SEARCHES[search]), texts, given.mixes)
                speed = (len(texts) + found.tried) / (time.perf_counter() - began)
            counts = f"{found.tried:,} | {found.texts:,} | {found.scores:,}"
            print(f"| {name} | {search} | {counts} | {digest(whole)} | {speed:,.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
