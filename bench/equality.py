"""Compare the engines with a plain search in torch: no cache, no batches of sentences.

    bench/equality --model runs/tiny --source val.en --sentences 1000
    bench/equality … --against torch            # the native engine beside the torch engine; minutes instead of hours

The plain search computes source and output from scratch at every step, one sentence at a time, with hypotheses as
tuples.  Required words and sampling use the engine's search over such a step; the tests prove what that finds.  For
every feature it reports how many sentences are the same, and whether the scores of the others differ: two translations
whose scores are equal in float32 are both right.  Exits with code 1 if any score differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch

from jumok import machine
from jumok.config.search import SearchOptions, TokenConstraints, limit_length, list_features
from jumok.decoding.constraints import search_with_phrases
from jumok.decoding.hypothesis import penalize
from jumok.decoding.search import greedy
from jumok.engines.native_engine import NativeEngine
from jumok.engines.torch_engine import TorchEngine
from jumok.kernels import library
from jumok.models.base import END, START
from jumok.storage import checkpoint
from jumok.storage.bundle import read
from jumok.text.boundaries import contains_word
from jumok.text.lines import read_lines
from jumok.text.symbols import NEVER
from jumok.text.vocabulary import Vocabulary

Ids = tuple[int, ...]
Forbids = Callable[[Ids, torch.Tensor], None]  # excludes tokens (V,) that may not follow these
NEAR = 2e-4


class Feature(NamedTuple):
    """Options for the engines and the plain search; constraints are made from another translation."""

    name: str
    options: SearchOptions
    forbids: Sequence[Forbids] = ()
    prefix: int = 0  # tokens of its beginning
    letters: int = 0  # of the word after the prefix
    require: int = 0  # words
    forbid: int = 0

    def constraints_for(self, body: Ids, vocabulary: Vocabulary) -> TokenConstraints:
        """Constraints for a sentence from a translation: every other word, from the end."""
        words = [word for word in vocabulary.decode(body).split() if word.isalpha()][::-2]
        return TokenConstraints(
            prefix=body[: self.prefix] if len(body) > self.prefix else (),
            opening=next((f" {word[: self.letters]}" for word in words if self.letters and len(word) > 1), ""),
            require=tuple(tuple(vocabulary.encode(word)) for word in dict.fromkeys(words[: self.require])),
            forbid=tuple(words[self.require : self.require + self.forbid]),
        )


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


def opens_with(surfaces: Sequence[str], text: str) -> Forbids:
    """Exclude outputs that do not begin with a text."""

    def close(ids: Ids, logs: torch.Tensor) -> None:
        rest = text[len("".join(surfaces[token] for token in ids)) :]
        if rest:
            fits = [bool(one) and (one.startswith(rest) or rest.startswith(one)) for one in surfaces]
            logs[~torch.tensor(fits)] = -float("inf")

    return close


def begins_with(prefix: Ids) -> Forbids:
    def close(ids: Ids, logs: torch.Tensor) -> None:
        if len(ids) < len(prefix):
            value = logs[prefix[len(ids)]].clone()
            logs[:] = -float("inf")
            logs[prefix[len(ids)]] = value

    return close


FEATURES = [
    Feature("greedy", SearchOptions(beam=1)),
    Feature("beam 5", SearchOptions(beam=5, length_penalty=1.5)),
    Feature("beam 4, the paper's length penalty, 2 best", SearchOptions(beam=4, n_best=2)),
    Feature("beam 3 without the short cut", SearchOptions(beam=3, exact=True)),
    Feature("at least 12 tokens, beam 5", SearchOptions(beam=5, min_length=12), [too_short(12)]),
    Feature("no two tokens twice, beam 5", SearchOptions(beam=5, no_repeat=2), [repeats(2)]),
    Feature("a prefix, beam 5", SearchOptions(beam=5), prefix=3),
    Feature("the first letter of a word, beam 5", SearchOptions(beam=5), letters=1),
    Feature("two forbidden words, beam 5", SearchOptions(beam=5), forbid=2),
    Feature("two required words, beam 5", SearchOptions(beam=5), require=2),
    Feature("three required words, beam 4, 2 best", SearchOptions(beam=4, n_best=2), require=3),
    Feature("3 groups of 2, all 6", SearchOptions(beam=6, groups=3, n_best=6)),
    Feature("coverage 0.2, beam 5", SearchOptions(beam=5, coverage=0.2)),
    Feature("2 drawn from the 20 likeliest", SearchOptions(sample=True, n_best=2, top_k=20)),
]
COMBINED = [  # constraints of several kinds, which the plain search does not know together
    Feature("a prefix, a required and a forbidden word, beam 5", SearchOptions(beam=5), prefix=2, require=1, forbid=1),
    Feature("a prefix, no two tokens twice, at least 12", SearchOptions(beam=5, no_repeat=2, min_length=12), prefix=2),
    Feature("two required words, no two tokens twice, beam 4", SearchOptions(beam=4, no_repeat=2), require=2),
]


class Stateless(NamedTuple):
    """A state that holds only the outputs so far: every step is computed from the first token."""

    source: Ids
    outputs: list[Ids]

    def select(self, rows: torch.Tensor) -> Stateless:
        return Stateless(self.source, [self.outputs[row] for row in rows.tolist()])


class Plain:
    """The plain search over one model."""

    def __init__(self, path: str) -> None:
        torch.set_num_threads(1)
        loaded = checkpoint.load(path)
        self.model = loaded.model
        self.surfaces = loaded.vocabularies.target.surfaces()
        self.engine = TorchEngine(self.model, surfaces=lambda: self.surfaces)

    def logits(self, source: Sequence[int], several: Sequence[Ids]) -> torch.Tensor:
        """Logits (W, V) after hypotheses of one length, read from their first token."""
        with library.without(), torch.no_grad():
            read = torch.tensor([[*source, END]] * len(several))
            hidden = self.model.hidden(read, torch.tensor([[START, *ids] for ids in several]))
            logits: torch.Tensor = self.model.project(hidden[:, -1])
        return logits

    def step(self, token: torch.Tensor, state: Stateless) -> tuple[torch.Tensor, Stateless]:
        outputs = [(*ids, last) for ids, last in zip(state.outputs, token.tolist(), strict=True)]
        return self.logits(state.source, [ids[1:] for ids in outputs]), Stateless(state.source, outputs)

    def forbid_words(self, words: Sequence[str]) -> Forbids:
        """Exclude texts with one of the words; checks only the likeliest tokens, from which search chooses."""

        def close(ids: Ids, logs: torch.Tensor) -> None:
            before = "".join(self.surfaces[token] for token in ids)
            for token in logs.topk(100).indices.tolist():
                if any(contains_word(f" {before}{self.surfaces[token]}", word) for word in words):
                    logs[token] = -float("inf")

        return close

    def logs(self, source: Sequence[int], several: list[Ids], forbids: Sequence[Forbids]) -> torch.Tensor:
        """Log-probabilities (W, V) after hypotheses of one length; forbidden tokens have -inf."""
        logs = self.logits(source, several).log_softmax(dim=-1)
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
        self, source: Sequence[int], limit: int, o: SearchOptions, forbids: Sequence[Forbids]
    ) -> list[tuple[Ids, float]]:
        living: list[tuple[float, Ids]] = [(0.0, ())]
        ended: list[tuple[float, Ids]] = []
        for t in range(limit):
            top, tokens = self.logs(source, [ids for _, ids in living], forbids).topk(2 * o.beam, dim=-1)
            candidates = [
                (total + gain, (*ids, token))
                for (total, ids), gains, row in zip(living, top.tolist(), tokens.tolist(), strict=True)
                for gain, token in zip(gains, row, strict=True)
                if gain > -float("inf")
            ]
            candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * o.beam]
            last = t + 1 == limit
            closing = [candidate for candidate in candidates[: o.beam] if candidate[1][-1] == END or last]
            ended += [(penalize(total, len(ids), o.length_penalty), ids) for total, ids in closing]
            living = [candidate for candidate in candidates if candidate[1][-1] != END][: o.beam]
            if last or not living:
                break
            if len(ended) >= o.n_best:
                worst = sorted(ended, key=lambda candidate: -candidate[0])[o.n_best - 1][0]
                longest = limit if o.exact or len(ended) < o.beam else t + 2
                if worst >= penalize(living[0][0], longest, o.length_penalty):
                    break
        return [(ids, score) for score, ids in sorted(ended, key=lambda candidate: -candidate[0])[: o.n_best]]

    def groups(self, source: Sequence[int], limit: int, o: SearchOptions) -> list[tuple[Ids, float]]:
        """Diverse beam search: each group avoids the tokens that earlier groups took at the same step."""
        width = o.beam // o.groups
        living: list[list[tuple[float, Ids]]] = [[(0.0, ())] for _ in range(o.groups)]
        ended: list[list[tuple[float, Ids]]] = [[] for _ in range(o.groups)]
        for t in range(limit):
            taken: list[int] = []
            for g in range(o.groups):
                if not living[g]:
                    continue
                logs = self.logs(source, [ids for _, ids in living[g]], ())
                ranks = logs + torch.tensor([[total] for total, _ in living[g]])
                for token in taken:
                    ranks[:, token] -= o.diversity
                chosen = [divmod(index, logs.shape[1]) for index in ranks.flatten().topk(2 * width).indices.tolist()]
                candidates = [
                    (living[g][row][0] + float(logs[row, token]), (*living[g][row][1], token)) for row, token in chosen
                ]
                taken += [token for _, token in chosen[:width]]
                last = t + 1 == limit
                closing = [candidate for candidate in candidates[:width] if candidate[1][-1] == END or last]
                ended[g] += [(penalize(total, len(ids), o.length_penalty), ids) for total, ids in closing]
                living[g] = [candidate for candidate in candidates if candidate[1][-1] != END][:width]
                if len(ended[g]) >= width:
                    worst = sorted(ended[g], reverse=True)[width - 1][0]
                    if worst >= penalize(max(total for total, _ in living[g]), t + 2, o.length_penalty):
                        living[g] = []
                living[g] = [] if last else living[g]
            if not any(living):
                break
        best = {ids: score for several in ended for score, ids in sorted(several, reverse=True)[:width]}
        return sorted(best.items(), key=lambda candidate: -candidate[1])[: o.n_best]

    def rank_by_coverage(self, source: Sequence[int], limit: int, o: SearchOptions) -> list[tuple[Ids, float]]:
        """The whole beam, ranked with the coverage penalty."""
        ranked = []
        for ids, score in self.beam(source, limit, replace(o, n_best=o.beam), ()):
            body = ids[:-1] if ids[-1] == END else ids
            with library.without(), torch.no_grad():
                cross = self.model.attention(torch.tensor([[*source, END]]), torch.tensor([[START, *body]])).cross[0]
            seen = cross[-2].mean(dim=0)[:, :-1].sum(dim=0).clamp(1e-9, 1.0)
            ranked.append((ids, score + o.coverage * float(seen.log().sum())))
        return sorted(ranked, key=lambda pair: -pair[1])[: o.n_best]

    def __call__(
        self, feature: Feature, number: int, source: Sequence[int], constraints: TokenConstraints
    ) -> list[tuple[Ids, float]]:
        o, limit = feature.options, limit_length(len(source) + feature.options.extra_length, constraints)
        forbids = [*feature.forbids, *([begins_with(constraints.prefix)] if constraints.prefix else [])]
        forbids += [self.forbid_words(constraints.forbid)] if constraints.forbid else []
        forbids += [opens_with(self.surfaces, constraints.opening)] if constraints.opening else []
        if constraints.require:
            start, phrases = Stateless(tuple(source), [()]), [constraints.require]
            hypotheses = search_with_phrases(self.step, start, [limit], phrases, o, texts=self.engine.texts)[0]
            return [(one.ids, one.score) for one in hypotheses]
        if o.sample:
            choose, start = (
                self.engine.stepwise.make_sampler(o, [number], limit),
                Stateless(tuple(source), [()] * o.n_best),
            )
            drawn = greedy(self.step, start, [limit] * o.n_best, o, choose=choose)
            return sorted(((one.ids, one.score) for one in drawn), key=lambda one: -one[1])
        if o.groups > 1:
            return self.groups(source, limit, o)
        if o.coverage:
            return self.rank_by_coverage(source, limit, o)
        if o.beam > 1:
            return self.beam(source, limit, o, forbids)
        return [
            (ids, penalize(total, len(ids), o.length_penalty)) for ids, total in self.greedy(source, limit, forbids)
        ]


SEARCHES: dict[str, Plain] = {}  # one search per model, cached in this process


def plainly(path: str, number: int, task: tuple[int, Sequence[int], TokenConstraints]) -> list[tuple[Ids, float]]:
    if path not in SEARCHES:
        SEARCHES[path] = Plain(path)
    return SEARCHES[path](FEATURES[number], *task)


def differences(ours: Sequence[Any], plain: Sequence[tuple[Ids, float]]) -> str:
    """Compare two results: same, tie or other."""
    if [hypothesis.ids for hypothesis in ours] == [ids for ids, _ in plain]:
        return "same"
    near = len(ours) == len(plain) and all(
        abs(hypothesis.score - score) <= NEAR * max(1.0, abs(score))
        for hypothesis, (_, score) in zip(ours, plain, strict=True)
    )
    return "tie" if near else "other"


def compare(
    path: str, texts: list[str], only: str = "", against: str = "plain"
) -> Iterator[tuple[str, str, dict[str, int], float]]:
    """For every engine and feature (with `only` in its name): counts of same, tie and other, and the seconds of the
    search that they are compared with: the plain one, or that of the torch engine."""
    contents = read(path)
    sources = contents.vocabularies.source.encode_all(texts)
    torch_engine = TorchEngine(checkpoint.with_model(contents).model, surfaces=contents.vocabularies.target.surfaces)
    engines: dict[str, Any] = {"torch": torch_engine, "native": NativeEngine(contents)}
    first = torch_engine.decode(sources, SearchOptions(beam=1))
    with ProcessPoolExecutor(machine.cores()) as pool:
        for number, feature in enumerate([*FEATURES, *(COMBINED if against == "torch" else [])]):
            if only not in feature.name:
                continue
            constraints = [feature.constraints_for(nbest[0].body, contents.vocabularies.target) for nbest in first]
            began = time.perf_counter()
            if against == "torch":
                found = torch_engine.decode(sources, feature.options, constraints=constraints)
                plain = [[(one.ids, one.score) for one in several] for several in found]
            else:
                tasks = zip(range(len(sources)), sources, constraints, strict=True)
                plain = list(pool.map(partial(plainly, path, number), tasks, chunksize=10))
            seconds = time.perf_counter() - began
            for name, engine in engines.items():
                if name == against:
                    continue
                if name == "native" and set(list_features(feature.options, constraints)) - engine.supported:
                    continue
                ours = engine.decode(sources, feature.options, constraints=constraints)
                kinds = [differences(*pair) for pair in zip(ours, plain, strict=True)]
                yield feature.name, name, {kind: kinds.count(kind) for kind in ("same", "tie", "other")}, seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/equality", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--against", choices=("plain", "torch"), default="plain", help="what to compare with")
    parser.add_argument("--only", default="", help="features with this in their name, such as forbidden")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    texts = [text for text in islice(read_lines(given.source), given.sentences) if text.strip()]
    kinds = "the same | another of equal score | another score"
    print(f"| {len(texts):,} sentences | engine | {kinds} | {given.against} search |\n{'|---' * 6}|", flush=True)
    wrong = 0
    for feature, engine, counts, seconds in compare(given.model, texts, given.only, given.against):
        print(
            f"| {feature} | {engine} | {counts['same']:,} | {counts['tie']} | {counts['other']} | {seconds:.0f} s |",
            flush=True,
        )
        wrong += counts["other"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
