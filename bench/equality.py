"""Is what the engines find what a plain search finds?  Without cache, without batches of sentences, in torch alone.

    bench/equality --model runs/tiny --source val.en --sentences 1000

The plain search reads source and output anew at every step, one sentence at a time, and keeps hypotheses as tuples.
For every feature it says how many sentences are the same, and of the others whether their scores differ: two
translations whose scores are equal to float32 are both right.  Ends with code 1 if any score differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch

from jumok import checkpoint, machine, native
from jumok.bundle import read
from jumok.decoding.hypothesis import NEVER, length_penalty
from jumok.engines.native_engine import NativeEngine
from jumok.engines.options import Options, Wish
from jumok.engines.torch_engine import TorchEngine
from jumok.models.base import END, START
from jumok.text.lines import read_lines

Ids = tuple[int, ...]
Forbids = Callable[[Ids, torch.Tensor], None]  # closes tokens (V,) that may not follow these
NEAR = 2e-4


class Feature(NamedTuple):
    """How the engines are asked, and the same for the plain search."""

    name: str
    options: Options
    forbids: Callable[[], list[Forbids]]
    prefix: int = 0  # so many words of another translation


def too_short(length: int) -> Forbids:
    def close(ids: Ids, logs: torch.Tensor) -> None:
        if len(ids) < length:
            logs[END] = -float("inf")

    return close


def repeats(size: int) -> Forbids:
    def close(ids: Ids, logs: torch.Tensor) -> None:
        for start in range(len(ids) - size + 1):
            if ids[start : start + size - 1] == ids[len(ids) - size + 1 :]:
                logs[ids[start + size - 1]] = -float("inf")

    return close


def begins_with(prefix: Ids) -> Forbids:
    def close(ids: Ids, logs: torch.Tensor) -> None:
        if len(ids) < len(prefix):
            kept = logs[prefix[len(ids)]].clone()
            logs[:] = -float("inf")
            logs[prefix[len(ids)]] = kept

    return close


FEATURES = [
    Feature("greedy", Options(beam=1), list),
    Feature("beam 5", Options(beam=5, length_penalty=1.5), list),
    Feature("beam 4, the paper's length penalty, 2 best", Options(beam=4, best=2), list),
    Feature("beam 3 without the short cut", Options(beam=3, exact=True), list),
    Feature("at least 12 tokens, beam 5", Options(beam=5, shortest=12), lambda: [too_short(12)]),
    Feature("no two tokens twice, beam 5", Options(beam=5, no_repeat=2), lambda: [repeats(2)]),
    Feature("a prefix, beam 5", Options(beam=5), list, prefix=3),
]


class Plain:
    """The plain search over one model."""

    def __init__(self, path: str) -> None:
        torch.set_num_threads(1)
        self.model = checkpoint.load(path).model

    def logs(self, source: Sequence[int], several: list[Ids], forbids: Sequence[Forbids]) -> torch.Tensor:
        """Log-probabilities (W, V) after hypotheses of one length, read from their first token."""
        with native.without(), torch.no_grad():
            read = torch.tensor([[*source, END]] * len(several))
            hidden = self.model.hidden(read, torch.tensor([[START, *ids] for ids in several]))
            logs: torch.Tensor = self.model.project(hidden[:, -1]).log_softmax(dim=-1)
        for ids, row in zip(several, logs, strict=True):
            row[list(NEVER)] = -float("inf")
            for close in forbids:
                close(ids, row)
        return logs

    def greedy(self, source: Sequence[int], limit: int, forbids: Sequence[Forbids]) -> list[tuple[Ids, float]]:
        ids, total = (), 0.0
        while len(ids) < limit and (not ids or ids[-1] != END):
            gain, token = self.logs(source, [ids], forbids)[0].max(dim=0)
            ids, total = (*ids, int(token)), total + float(gain)
        return [(ids, total)]

    def beam(
        self, source: Sequence[int], limit: int, o: Options, forbids: Sequence[Forbids]
    ) -> list[tuple[Ids, float]]:
        living: list[tuple[float, Ids]] = [(0.0, ())]
        ended: list[tuple[float, Ids]] = []
        for t in range(limit):
            top, tokens = self.logs(source, [ids for _, ids in living], forbids).topk(2 * o.beam, dim=-1)
            found = [
                (total + gain, (*ids, token))
                for (total, ids), gains, row in zip(living, top.tolist(), tokens.tolist(), strict=True)
                for gain, token in zip(gains, row, strict=True)
                if gain > -float("inf")
            ]
            found = sorted(found, key=lambda one: -one[0])[: 2 * o.beam]
            last = t + 1 == limit
            closing = [one for one in found[: o.beam] if one[1][-1] == END or last]
            ended += [(total / length_penalty(len(ids), o.length_penalty), ids) for total, ids in closing]
            living = [one for one in found if one[1][-1] != END][: o.beam]
            if last or not living:
                break
            if len(ended) >= o.best:
                kept = sorted(ended, key=lambda one: -one[0])[o.best - 1][0]
                longest = limit if o.exact or len(ended) < o.beam else t + 2
                if kept >= living[0][0] / length_penalty(longest, o.length_penalty):
                    break
        return [(ids, score) for score, ids in sorted(ended, key=lambda one: -one[0])[: o.best]]

    def __call__(self, feature: Feature, source: Sequence[int], prefix: Ids) -> list[tuple[Ids, float]]:
        o, limit = feature.options, len(source) + len(prefix) + feature.options.extra_length
        forbids = [*feature.forbids(), *([begins_with(prefix)] if prefix else [])]
        if o.beam > 1:
            return self.beam(source, limit, o, forbids)
        return [
            (ids, total / length_penalty(len(ids), o.length_penalty))
            for ids, total in self.greedy(source, limit, forbids)
        ]


SEARCHES: dict[str, Plain] = {}  # of this process


def plainly(path: str, number: int, task: tuple[Sequence[int], Ids]) -> list[tuple[Ids, float]]:
    if path not in SEARCHES:
        SEARCHES[path] = Plain(path)
    return SEARCHES[path](FEATURES[number], *task)


def differences(ours: Sequence[Any], plain: Sequence[tuple[Ids, float]]) -> str:
    """same, tie or other."""
    if [one.ids for one in ours] == [ids for ids, _ in plain]:
        return "same"
    near = len(ours) == len(plain) and all(
        abs(one.score - score) <= NEAR * max(1.0, abs(score)) for one, (_, score) in zip(ours, plain, strict=True)
    )
    return "tie" if near else "other"


def compare(path: str, texts: list[str]) -> Iterator[tuple[str, str, dict[str, int], float]]:
    """For every feature and engine: how many are the same, and the seconds of the plain search."""
    found = read(path)
    sources = found.vocabularies.source.encode_all(texts)
    engines: dict[str, Any] = {"torch": TorchEngine(checkpoint.with_model(found).model), "native": NativeEngine(found)}
    first = engines["torch"].decode(sources, Options(beam=1))
    with ProcessPoolExecutor(machine.cores()) as pool:
        for number, feature in enumerate(FEATURES):
            prefixes = [one[0].body[: feature.prefix] if len(one[0].body) > feature.prefix else () for one in first]
            began = time.perf_counter()
            work = partial(plainly, path, number)
            plain = list(pool.map(work, zip(sources, prefixes, strict=True), chunksize=10))
            seconds = time.perf_counter() - began
            wishes = [Wish(prefix=prefix) for prefix in prefixes] if feature.prefix else []
            for name, engine in engines.items():
                if name == "native" and engine.why_not(feature.options, wishes) is not None:
                    continue
                more = {"wishes": wishes} if wishes else {}
                ours = engine.decode(sources, feature.options, **more)
                kinds = [differences(*pair) for pair in zip(ours, plain, strict=True)]
                yield feature.name, name, {kind: kinds.count(kind) for kind in ("same", "tie", "other")}, seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/equality", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sentences", type=int, default=1_000)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    texts = [text for text in islice(read_lines(given.source), given.sentences) if text.strip()]
    print(
        f"| {len(texts):,} sentences | engine | the same | another of equal score | another score | plain search |\n"
        + "|---" * 6
        + "|"
    )
    wrong = 0
    for feature, engine, counts, seconds in compare(given.model, texts):
        print(
            f"| {feature} | {engine} | {counts['same']:,} | {counts['tie']} | {counts['other']} | {seconds:.0f} s |",
            flush=True,
        )
        wrong += counts["other"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
