"""The reference engine: ids to hypotheses with torch; every feature, any model of models/.

Sentences are sorted by length and decoded in batches up to a token budget; results are in the order given.
With the kernels a translation does not depend on the rest of the batch, bit for bit, unless coverage is asked for.  In
plain torch the last bits of a sum depend on the batch; `deterministic` then takes one sentence at a time on one thread.

Shapes   B sentences · S source · T target
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from jumok.config.search import UNCONSTRAINED, SearchOptions, TokenConstraints
from jumok.data.batches import pad
from jumok.decoding.constraints import search_with_phrases
from jumok.decoding.ensemble import Ensemble
from jumok.decoding.graph import Expansion
from jumok.decoding.hypothesis import NEVER, Hypothesis, rank
from jumok.decoding.rules import (
    Prefixes,
    Rule,
    Rulebook,
    Ruling,
    apply_to_copies,
    forbid_repeats,
    forbid_words,
    require_length,
)
from jumok.decoding.search import Choose, beam, generate_tokens, greedy, keep_apart, sample_by
from jumok.engines.alternatives import find_alternatives
from jumok.engines.options import (
    AT_ONCE,
    Count,
    Feature,
    Ids,
    check_lengths,
    limit_length,
    list_features,
    silent,
)
from jumok.engines.torch_forcing import TorchForcing
from jumok.kernels.modules import FastTransformer, accelerate
from jumok.kernels.searching import Marks
from jumok.keys import generator, key
from jumok.models.base import END, START, Seq2Seq, State
from jumok.text.automata import TextRules


@dataclass(frozen=True)
class Part:
    """Sentences that are decoded together."""

    sources: list[list[int]]
    limits: list[int]  # the longest output of each
    numbers: list[int]  # of the sentences; sampling depends on them
    constraints: list[TokenConstraints]
    rule: Rule | None  # given by the caller


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
        """`surfaces` returns the tokens as text; only constraints need it.

        With `deterministic` the hypotheses of a source do not depend on the other sources or on its position.
        """
        self.device = torch.device(device)
        self.model: Seq2Seq = model
        together = cast(list[nn.Module], model.models if isinstance(model, Ensemble) else [model])
        fast: list[Any] = [accelerate(part).eval() for part in together]
        self.fast: Any = Ensemble(fast) if isinstance(model, Ensemble) else fast[0]
        self.batch_tokens = batch_tokens
        self.surfaces = surfaces
        self.deterministic = deterministic

    @cached_property
    def texts(self) -> TextRules:
        """Rules about the text of outputs."""
        return TextRules(self.surfaces)

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
        check_lengths(sources)
        free_of_rules = ruling is None and is_plain(options, constraints)
        if free_of_rules and (at_once := self._search_at_once(sources, options, limits, progress)) is not None:
            return at_once
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
                    decoded = self._search(part, options)
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
        results: list[list[Hypothesis]] = []
        size = max(1, AT_ONCE // (options.n_best * max(longest, default=1)))
        for start in range(0, len(read), size):
            block = slice(start, start + size)
            hypotheses = self.fast.search(read[block], longest[block], options, marks=Marks(START, END, NEVER))
            results += [rank(several, options.length_penalty) for several in hypotheses]
            progress(len(hypotheses))
        return results

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

    def _search(self, part: Part, options: SearchOptions) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            read = pad(part.sources, after=END).to(self.device)
            state = self.fast.start(read)
        if options.sample:
            return self._sample(state, part, options)
        step, limits, phrases = self.fast.step, part.limits, [bound.require for bound in part.constraints]
        wide = replace(options, n_best=options.beam) if options.coverage else options
        if any(phrases):
            rules = self._make_rules(options, part.constraints, part.rule)
            hypotheses = search_with_phrases(
                step, state, limits, phrases, wide, rules=rules, texts=self._known_texts(), device=self.device
            )
        elif options.groups > 1:
            hypotheses = self._search_diversely(state, part, wide)
        else:
            rules = self._make_rules(options, part.constraints, part.rule)
            hypotheses = beam(step, state, limits, wide, rules=rules.list_all(), device=self.device)
        return self._penalize_coverage(part.sources, hypotheses, options) if options.coverage else hypotheses

    def _known_texts(self) -> TextRules | None:
        """Return the rules about text, None where the spelling of tokens is unknown."""
        return self.texts if len(self.texts.spelling) else None

    def _make_rules(
        self, options: SearchOptions, constraints: Sequence[TokenConstraints], own: Rule | None = None
    ) -> Rulebook:
        """Return the rule given by the caller and those of these options and constraints."""
        rules: list[Rule] = [] if own is None else [own]
        if options.min_length:
            rules.append(require_length(options.min_length, END))
        if options.no_repeat:
            rules.append(forbid_repeats(options.no_repeat))
        if any(bound.forbid for bound in constraints):
            automata = [self.texts.forbid(bound.forbid) if bound.forbid else None for bound in constraints]
            rules.append(forbid_words(automata, END))
        if not any(bound.prefix or bound.opening for bound in constraints):
            return Rulebook(rules)
        openings = [self.texts.open_with(bound.opening) if bound.opening else None for bound in constraints]
        return Rulebook(rules, Prefixes([bound.prefix for bound in constraints], openings, END))

    def _sample(self, state: State, part: Part, options: SearchOptions) -> list[list[Hypothesis]]:
        each = options.n_best
        copies = torch.arange(len(part.limits), device=self.device).repeat_interleave(each)
        choose = self.make_sampler(options, part.numbers, max(part.limits))
        limits, rules = self._copy_sentences(part, options, copies)
        samples = greedy(
            self.fast.step, state.select(copies), limits, options, choose=choose, rules=rules, device=self.device
        )
        return [sorted(samples[i : i + each], key=lambda h: -h.score) for i in range(0, len(samples), each)]

    def _copy_sentences(self, part: Part, options: SearchOptions, origin: Tensor) -> tuple[list[int], list[Rule]]:
        """Return the limits and rules of copies of sentences, where copy b is of sentence origin[b]."""
        rows = origin.tolist()
        own = None if part.rule is None else apply_to_copies(part.rule, origin)
        rulebook = self._make_rules(options, [part.constraints[i] for i in rows], own)
        return [part.limits[i] for i in rows], rulebook.list_all()

    def _search_diversely(self, state: State, part: Part, options: SearchOptions) -> list[list[Hypothesis]]:
        """Search with groups, each a separate beam that avoids the tokens of the groups before it."""
        groups, width = options.groups, options.beam // options.groups
        blocks = torch.arange(len(part.limits), device=self.device).repeat_interleave(groups)
        limits, rules = self._copy_sentences(part, options, blocks)
        ranking = keep_apart(groups, options.diversity, spare=options.beam)
        narrow = replace(options, beam=width, n_best=width, groups=1)
        hypotheses = beam(
            self.fast.step, state.select(blocks), limits, narrow, rules=rules, ranking=ranking, device=self.device
        )
        merged = []
        for start in range(0, len(hypotheses), groups):
            distinct = {h.ids: h for block in hypotheses[start : start + groups] for h in block}
            merged.append(sorted(distinct.values(), key=lambda h: -h.score)[: options.n_best])
        return merged

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
        ids = list(source)
        with torch.inference_mode():
            state = self.fast.start(pad([ids], after=END).to(self.device))
        begun = TokenConstraints(prefix=tuple(prefix))
        rules = self._make_rules(options, [begun]).list_all()
        limits = [max(len(ids), len(prefix)) + options.extra_length]
        beam(self.fast.step, state, limits, options, rules=rules, watch=watch, device=self.device)

    def alternatives(
        self, source: Ids, beginnings: Sequence[TokenConstraints], count: int, options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the best translations after each of the `count` likeliest ways to continue a beginning, best first.

        `beginnings` are different divisions of one text into tokens (`alternatives.find_alternatives`).
        """
        return find_alternatives(self.decode, self.texts.spelling, source, beginnings, count, options)

    def make_sampler(self, options: SearchOptions, numbers: list[int], limit: int) -> Choose:
        """Return a function that samples tokens for `n_best` copies of every sentence, by its number."""
        rows = [
            generator(options.seed, "sample", number, copy).random(limit, dtype=np.float32)
            for number in numbers
            for copy in range(options.n_best)
        ]
        uniforms = torch.from_numpy(np.stack(rows)).to(self.device)
        return sample_by(uniforms, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)

    def stream(
        self, source: Ids, options: SearchOptions, *, prefix: Ids = (), never: Sequence[int] = NEVER
    ) -> Iterator[int]:
        """Yield the tokens of one translation after a prefix, greedily or sampled, as they are decoded; not the END."""
        check_lengths([source])
        ids = list(source)
        limits = [len(ids) + len(prefix) + options.extra_length]
        rules = self._make_rules(options, [TokenConstraints(prefix=tuple(prefix))]).list_all()
        with torch.inference_mode():
            state = self.fast.start(pad([ids], after=END).to(self.device))
        temperature = options.temperature if options.sample else 0.0
        choose = self.make_sampler(replace(options, temperature=temperature, n_best=1), [0], limits[0])
        steps = generate_tokens(self.fast.step, state, limits, choose, rules=rules, never=never, device=self.device)
        for extended in islice(steps, len(prefix), None):
            token = extended[0][1]
            if token != END:
                yield token


def is_plain(options: SearchOptions, constraints: Sequence[TokenConstraints] | None) -> bool:
    """Return whether only greedy or beam search is asked for, without rules."""
    return not set(list_features(options, constraints)) - {Feature.EXACT}
