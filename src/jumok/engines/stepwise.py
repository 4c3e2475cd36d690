"""Search step by step over a model in torch: the features that no kernel has, with any model of models/.

Rules close tokens at every step, required phrases extend the beam, groups of a diverse beam avoid each other's tokens,
samples come from the sentence's number; the searches themselves are in decoding/.

Shapes   B sentences · S source · T target
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from jumok.config.search import Ids, SearchOptions, TokenConstraints
from jumok.data.batches import pad
from jumok.decoding.constraints import search_with_phrases
from jumok.decoding.graph import Expansion
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.rules import (
    Prefixes,
    Rule,
    Rulebook,
    apply_to_copies,
    forbid_repeats,
    forbid_words,
    require_length,
)
from jumok.decoding.search import Choose, beam, generate_tokens, greedy, keep_apart, sample_by
from jumok.keys import generator
from jumok.models.base import END, Seq2Seq, State
from jumok.text.automata import TextRules


@dataclass(frozen=True)
class Part:
    """Sentences that are decoded together."""

    sources: list[list[int]]
    limits: list[int]  # the longest output of each
    numbers: list[int]  # of the sentences; sampling depends on them
    constraints: list[TokenConstraints]
    rule: Rule | None  # given by the caller


class StepwiseSearch:
    """Searches with `start` and `step` of a model."""

    def __init__(self, model: Seq2Seq, device: torch.device, surfaces: Callable[[], Sequence[str]]) -> None:
        self.model, self.device, self.surfaces = model, device, surfaces

    @cached_property
    def texts(self) -> TextRules:
        """Rules about the text of outputs."""
        return TextRules(self.surfaces)

    def search(self, part: Part, options: SearchOptions) -> list[list[Hypothesis]]:
        """Return the hypotheses of every sentence, best first."""
        state = self._start(part.sources)
        if options.sample:
            return self._sample(state, part, options)
        phrases = [bound.require for bound in part.constraints]
        if options.groups > 1 and not any(phrases):
            return self._search_diversely(state, part, options)
        rules = self._make_rules(options, part.constraints, part.rule)
        if not any(phrases):
            return beam(self.model.step, state, part.limits, options, rules=rules.list_all(), device=self.device)
        return search_with_phrases(
            self.model.step, state, part.limits, phrases, options, rules=rules, texts=self._known_texts(),
            device=self.device,
        )  # fmt: skip

    @torch.inference_mode()
    def _start(self, sources: Sequence[Ids]) -> State:
        """Encode sources; the state has one row for each."""
        return self.model.start(pad([list(ids) for ids in sources], after=END).to(self.device))

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
            self.model.step, state.select(copies), limits, options, choose=choose, rules=rules, device=self.device
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
            self.model.step, state.select(blocks), limits, narrow, rules=rules, ranking=ranking, device=self.device
        )
        merged = []
        for start in range(0, len(hypotheses), groups):
            distinct = {h.ids: h for block in hypotheses[start : start + groups] for h in block}
            merged.append(sorted(distinct.values(), key=lambda h: -h.score)[: options.n_best])
        return merged

    def make_sampler(self, options: SearchOptions, numbers: list[int], limit: int) -> Choose:
        """Return a function that samples tokens for `n_best` copies of every sentence, by its number."""
        rows = [
            generator(options.seed, "sample", number, copy).random(limit, dtype=np.float32)
            for number in numbers
            for copy in range(options.n_best)
        ]
        uniforms = torch.from_numpy(np.stack(rows)).to(self.device)
        return sample_by(uniforms, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)

    def watch(self, source: Ids, options: SearchOptions, watch: Callable[[Expansion], None], prefix: Ids = ()) -> None:
        """Search one sentence, whose translation begins with a prefix, and pass every step to `watch`."""
        rules = self._make_rules(options, [TokenConstraints(prefix=tuple(prefix))]).list_all()
        limits = [max(len(source), len(prefix)) + options.extra_length]
        beam(self.model.step, self._start([source]), limits, options, rules=rules, watch=watch, device=self.device)

    def stream(self, source: Ids, options: SearchOptions, *, prefix: Ids, never: Sequence[int]) -> Iterator[int]:
        """Yield the tokens of one translation after a prefix, greedily or sampled, as they are decoded; not the END."""
        limits = [len(source) + len(prefix) + options.extra_length]
        rules = self._make_rules(options, [TokenConstraints(prefix=tuple(prefix))]).list_all()
        temperature = options.temperature if options.sample else 0.0
        choose = self.make_sampler(replace(options, temperature=temperature, n_best=1), [0], limits[0])
        steps = generate_tokens(
            self.model.step, self._start([source]), limits, choose, rules=rules, never=never, device=self.device
        )
        for extended in islice(steps, len(prefix), None):
            token = extended[0][1]
            if token != END:
                yield token
