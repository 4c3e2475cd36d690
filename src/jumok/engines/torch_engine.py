"""The reference engine: ids to hypotheses with torch; every feature, any model of models/.

A search without rules is one call of the kernels where they have the model; all others go step by step (stepwise.py).
Sentences are sorted by length and decoded in batches up to a token budget; results are in the order given.
With the kernels a translation does not depend on the rest of the batch, bit for bit, unless coverage is asked for.  In
plain torch the last bits of a sum depend on the batch; `deterministic` then takes one sentence at a time on one thread.

Shapes   B sentences · S source · T target
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from jumok.config.search import (
    UNCONSTRAINED,
    Count,
    Feature,
    Ids,
    SearchOptions,
    TokenConstraints,
    check_lengths,
    limit_length,
    list_features,
    silent,
)
from jumok.decoding.hypothesis import Hypothesis, rank
from jumok.engines.torch_forcing import TorchForcing
from jumok.kernels.modules import FastTransformer, accelerate
from jumok.keys import key
from jumok.models.base import END, Seq2Seq
from jumok.text.symbols import NEVER

if TYPE_CHECKING:
    from jumok.decoding.graph import Expansion
    from jumok.decoding.rules import Ruling
    from jumok.engines.stepwise import Part, StepwiseSearch
    from jumok.text.automata import TextRules


class TorchEngine(TorchForcing):
    """Decodes with a torch model."""

    def __init__(
        self,
        model: Any,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int = 4_096,
        surfaces: Callable[[], Sequence[str]] = tuple,
        deterministic: bool = False,
    ) -> None:
        """`model` is a module or an ensemble of them; `surfaces` returns the tokens as text, for constraints only.

        With `deterministic` the hypotheses of a source do not depend on the other sources or on its position.
        """
        self.device = torch.device(device)
        self.model: Seq2Seq = model
        self.fast: Any = make_fast(model) if isinstance(model, nn.Module) else model.convert(make_fast)
        self.batch_tokens = batch_tokens
        self.surfaces = surfaces
        self.deterministic = deterministic

    @cached_property
    def stepwise(self) -> StepwiseSearch:
        """The search for what no kernel has."""
        from jumok.engines.stepwise import StepwiseSearch

        return StepwiseSearch(self.fast, self.device, self.surfaces)

    @property
    def texts(self) -> TextRules:
        """Rules about the text of outputs."""
        return self.stepwise.texts

    def release(self) -> None:
        """Free what was packed from the present weights, for a model that goes on learning."""
        if isinstance(self.fast, FastTransformer):
            self.fast.release()

    def decode(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints] | None = None,
        numbers: Sequence[int] | None = None,
        details: bool = True,
        progress: Count = silent,
        limits: Sequence[int] | None = None,
        ruling: Ruling | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of every source (ids without END), best first, in the order given.

        `numbers` are those of the sources in the user's file (0, 1, … unless given): the samples of a sentence depend
        on its number, not on the batch, and where the engine is deterministic, on the sentence itself.  `details` are
        always given.  `limits` bounds the outputs further than the options do.  `ruling` makes a rule of the caller's
        for sources that are decoded together, from their indices and their limits.
        """
        check_lengths(sources, numbers)
        free_of_rules = ruling is None and is_plain(options, constraints)
        if free_of_rules and (at_once := self._search_at_once(sources, options, limits, progress)) is not None:
            return at_once
        from jumok.engines.stepwise import Part

        results: list[list[Hypothesis]] = [[] for _ in sources]
        asked = list(constraints) if constraints is not None else [UNCONSTRAINED] * len(sources)
        bound = [row for row, asked_for in enumerate(asked) if asked_for.require]
        free = [row for row, asked_for in enumerate(asked) if not asked_for.require]
        for kind in filter(None, (free, bound)):
            for batch in self.batches([sources[row] for row in kind], options):
                rows = [kind[index] for index in batch]
                longest = [limit_length(len(sources[row]) + options.extra_length, asked[row]) for row in rows]
                if limits is not None:
                    longest = [min(most, limits[row]) for most, row in zip(longest, rows, strict=True)]
                own = None if ruling is None else ruling(rows, longest)
                numbered = self._number_rows(sources, numbers, rows)
                with self._limit_threads():
                    part = Part(
                        [list(sources[row]) for row in rows], longest, numbered, [asked[row] for row in rows], own
                    )
                    decoded = self._search_by_steps(part, options)
                for row, hypotheses in zip(rows, decoded, strict=True):
                    results[row] = hypotheses
                progress(len(rows))
        return results

    def _number_rows(self, sources: Sequence[Ids], given: Sequence[int] | None, rows: list[int]) -> list[int]:
        """Return the numbers that the samples of these rows depend on, besides the seed."""
        if self.deterministic:
            return [key(0, "sentence", *sources[row]) for row in rows]
        return rows if given is None else [given[row] for row in rows]

    @torch.inference_mode()
    def _search_at_once(
        self, sources: Sequence[Ids], options: SearchOptions, limits: Sequence[int] | None, progress: Count
    ) -> list[list[Hypothesis]] | None:
        """Search in one call of the kernels, with the same result as step by step; None where there are no kernels."""
        if not isinstance(self.fast, FastTransformer):
            return None
        read = [[*ids, END] for ids in sources]
        longest = [len(ids) - 1 + options.extra_length for ids in read]
        if limits is not None:
            longest = [min(pair) for pair in zip(longest, limits, strict=True)]
        hypotheses = self.fast.search(read, longest, options)
        progress(len(hypotheses))
        return [rank(several, options.length_penalty) for several in hypotheses]

    def submit(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints] | None = None,
        numbers: Sequence[int] | None = None,
        details: bool = True,
        progress: Count = silent,
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Return a function that decodes when it is called; torch uses all cores anyway."""
        return lambda: self.decode(sources, options, numbers=numbers, constraints=constraints, progress=progress)

    def batches(self, sources: Sequence[Ids], options: SearchOptions) -> Iterator[list[int]]:
        """Yield rows of similar length together; the wider the beam, the fewer."""
        if self.deterministic:
            yield from ([row] for row in range(len(sources)))
            return
        order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
        budget = max(1, self.batch_tokens * 4 // (3 + (options.n_best if options.sample else options.beam)))
        start = 0
        while start < len(order):
            longest = len(sources[order[start]]) + 1
            stop = start + max(1, budget // longest)
            yield order[start:stop]
            start = stop

    def _search_by_steps(self, part: Part, options: SearchOptions) -> list[list[Hypothesis]]:
        """Return the hypotheses of sentences that are decoded together."""
        if options.sample or not options.coverage:
            return self.stepwise.search(part, options)
        hypotheses = self.stepwise.search(part, replace(options, n_best=options.beam))
        return self._penalize_coverage(part.sources, hypotheses, options)

    def _penalize_coverage(
        self, sources: list[list[int]], hypotheses: list[list[Hypothesis]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """Rank again: source tokens that receive little attention lower the score."""
        pairs = [(source, h.body) for source, several in zip(sources, hypotheses, strict=True) for h in several]
        weights = iter(self.align(pairs))
        ranked = []
        for several in hypotheses:
            scored = []
            for hypothesis in several:
                covered = next(weights)[:, :-1].sum(axis=0).clip(1e-9, 1.0)  # (S,) END left out
                score = hypothesis.score + options.coverage * float(np.log(covered).sum())
                scored.append(replace(hypothesis, score=score))
            ranked.append(sorted(scored, key=lambda h: -h.score)[: options.n_best])
        return ranked

    def watch(self, source: Ids, options: SearchOptions, watch: Callable[[Expansion], None], prefix: Ids = ()) -> None:
        """Search one sentence, whose translation begins with a prefix, and pass every step to `watch`."""
        check_lengths([source])
        self.stepwise.watch(source, options, watch, prefix)

    def stream(
        self, source: Ids, options: SearchOptions, *, prefix: Ids = (), never: Sequence[int] = NEVER
    ) -> Iterator[int]:
        """Yield the tokens of one translation after a prefix, greedily or sampled, as they are decoded; not the END."""
        check_lengths([source])
        yield from self.stepwise.stream(source, options, prefix=prefix, never=never)

    def alternatives(
        self, source: Ids, beginnings: Sequence[TokenConstraints], count: int, options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the best translations after each of the `count` likeliest ways to continue a beginning, best first.

        `beginnings` are different divisions of one text into tokens (`alternatives.find_alternatives`).
        """
        from jumok.engines.alternatives import find_alternatives

        return find_alternatives(self.decode, self.texts.spelling, source, beginnings, count, options)


def make_fast(model: nn.Module) -> nn.Module:
    """Return a twin of the model that runs in the kernels, for translating."""
    return accelerate(model).eval()


def is_plain(options: SearchOptions, constraints: Sequence[TokenConstraints] | None) -> bool:
    """Return whether only greedy or beam search is asked for, without rules."""
    return not set(list_features(options, constraints)) - {Feature.EXACT}
