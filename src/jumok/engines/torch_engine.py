"""The reference engine: ids to hypotheses with torch; every feature, any model of models/.

Sentences are sorted by length and decoded in batches up to a token budget; results are in the order given.
With the kernels a translation does not depend on the rest of the batch, bit for bit, unless coverage is asked for.  In
plain torch the last bits of a sum depend on the batch; `deterministic` then takes one sentence at a time on one thread.

Shapes   B sentences · S source · T target
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    MINUS,
    Moment,
    Prefixes,
    Rule,
    Rulebook,
    Ruling,
    apply_to_copies,
    forbid_repeats,
    forbid_words,
    require_length,
)
from jumok.decoding.search import Choose, beam, generate_tokens, greedy, keep_apart, list_candidates, sample_by
from jumok.engines.options import (
    AT_ONCE,
    LONGEST_SOURCE,
    Count,
    Feature,
    Ids,
    extend_prefix,
    limit_length,
    list_features,
    silent,
)
from jumok.errors import UsageError
from jumok.kernels.modules import FastTransformer, accelerate
from jumok.kernels.searching import Marks
from jumok.keys import generator, key
from jumok.models.base import END, PAD, START, Attention, Seq2Seq, State
from jumok.text.automata import TextRules

ROWS = 64  # pairs whose attention is in memory at once
SCORED = 512  # positions whose logits are in memory at once when translations are scored


@dataclass(frozen=True)
class Part:
    """Sentences that are decoded together."""

    sources: list[list[int]]
    limits: list[int]  # the longest output of each
    numbers: list[int]  # of the sentences; sampling depends on them
    constraints: list[TokenConstraints]
    rule: Rule | None  # given by the caller


class TorchEngine:
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
                cut = [list(sources[row])[:LONGEST_SOURCE] for row in rows]
                longest = [
                    limit_length(len(ids) + options.extra_length, asked[row])
                    for ids, row in zip(cut, rows, strict=True)
                ]
                if limits is not None:
                    longest = [min(most, limits[row]) for most, row in zip(longest, rows, strict=True)]
                own = None if ruling is None else ruling(rows, longest)
                numbered = self._number_rows(sources, numbers, rows)
                with self._limit_threads():
                    part = Part(cut, longest, numbered, [asked[row] for row in rows], own)
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
        read = [[*ids[:LONGEST_SOURCE], END] for ids in sources]
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
            longest = min(LONGEST_SOURCE, len(sources[order[start]])) + 1
            stop = start + max(1, budget // longest)
            yield order[start:stop]
            start = stop

    @contextmanager
    def _limit_threads(self) -> Iterator[None]:
        """Use one thread where the engine is deterministic: the last bits of a sum depend on how threads divide it."""
        before = torch.get_num_threads()
        try:
            if self.deterministic:
                torch.set_num_threads(1)
            yield
        finally:
            if self.deterministic:
                torch.set_num_threads(before)

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
                covered = next(weights)[:, :-1].sum(dim=0).clamp(1e-9, 1.0)  # (S,) END left out
                score = hypothesis.score + options.coverage * float(covered.log().sum())
                scored.append(replace(hypothesis, score=score))
            ranked.append(sorted(scored, key=lambda h: -h.score)[: options.n_best])
        return ranked

    def watch(self, source: Ids, options: SearchOptions, watch: Callable[[Expansion], None]) -> None:
        """Search one sentence and pass every step to `watch`."""
        ids = list(source)[:LONGEST_SOURCE]
        with torch.inference_mode():
            state = self.fast.start(pad([ids], after=END).to(self.device))
        rules, limits = self._make_rules(options, [UNCONSTRAINED]).list_all(), [len(ids) + options.extra_length]
        beam(self.fast.step, state, limits, options, rules=rules, watch=watch, device=self.device)

    @torch.inference_mode()
    def align(self, pairs: Sequence[tuple[Ids, Ids]], chosen: tuple[int, int] | None = None) -> list[Tensor]:
        """Return the attention of each output over its source (T, S), END included.

        It is that of a layer and a head, or else the mean of all heads in the last layer but one.
        """
        results: list[Tensor] = []
        for start in range(0, len(pairs), ROWS):
            some = pairs[start : start + ROWS]
            source, target, _ = self._force_pairs(some)
            cross = self.model.attention(source, target).cross  # (B, L, H, T, S)
            if cross.shape[1] == 0:
                raise UsageError("engines.no_attention_over_source")
            means = cross[:, max(0, cross.shape[1] - 2)].mean(dim=1) if chosen is None else cross[:, *chosen]
            results += [
                weights[: len(body) + 1, : min(len(read), LONGEST_SOURCE) + 1]
                for weights, (read, body) in zip(means, some, strict=True)
            ]
        return results

    def alternatives(
        self, source: Ids, prefix: Ids, count: int, options: SearchOptions, *, opening: str = ""
    ) -> list[Hypothesis]:
        """Return the best translations that continue a prefix with each of the `count` likeliest tokens, best first.

        `opening` is a text after the prefix, in any division into tokens.
        """
        history, sentence = (torch.tensor(ids, dtype=torch.long, device=self.device) for ids in ([list(prefix)], [0]))
        now, begun = Moment(len(prefix), history, sentence), TokenConstraints(prefix=tuple(prefix), opening=opening)
        with torch.inference_mode():
            read, fed, _ = self._force_pairs([(source, prefix)])
            logits = self.fast.project(self.fast.hidden(read, fed)[:, len(prefix)])  # (1, V)
            top, tokens = list_candidates(logits, count, self._make_rules(options, [begun]).list_all(), now)
        likeliest = [token for token, gain in zip(tokens[0].tolist(), top[0].tolist(), strict=True) if gain > MINUS]
        each = [extend_prefix(begun, token, self.texts) for token in likeliest if token != END]
        hypotheses = self.decode([source] * len(each), replace(options, n_best=1), constraints=each)
        return sorted((several[0] for several in hypotheses), key=lambda h: -h.score)

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
        ids = list(source)[:LONGEST_SOURCE]
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

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Ids, Ids]], *, length_penalty: float = 0.6) -> list[Hypothesis]:
        """Return the model's scores of given translations (force-scoring), in the order given."""
        if self.deterministic and len(pairs) > 1:
            return [h for pair in pairs for h in self.score([pair], length_penalty=length_penalty)]
        results: list[Hypothesis | None] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]) - len(pairs[row][1]))
        start = 0
        while start < len(order):
            longest = max(map(len, pairs[order[start]])) + 1
            rows = order[start : start + max(1, self.batch_tokens // longest)]
            source, target, labels = self._force_pairs([pairs[row] for row in rows])
            with self._limit_threads():
                gains = self._score_labels(self.fast.hidden(source, target), labels)  # (B, T)
            for row, gain in zip(rows, gains.tolist(), strict=True):
                ids = (*pairs[row][1], END)
                results[row] = Hypothesis.scored_by(ids, gain[: len(ids)], length_penalty)
            start += len(rows)
        return [result for result in results if result is not None]

    def _score_labels(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the log-probabilities (B, T) of labels; logits of only some positions are held at a time."""
        parts = zip(hidden.flatten(0, 1).split(SCORED), labels.flatten().split(SCORED), strict=True)
        gains = [self.fast.project(h).log_softmax(dim=-1).gather(1, label[:, None]) for h, label in parts]
        return torch.cat(gains).view(labels.shape)  # (B, T)

    @torch.inference_mode()
    def attention(self, source: Ids, target: Ids) -> Attention:
        """Return all maps of one sentence and its translation (ids with or without END): (L, H, ·, ·) each."""
        body = [i for i in target if i != END]
        read, fed, _ = self._force_pairs([(source, body)])
        maps = self.model.attention(read, fed)
        return Attention(maps.encoder[0], maps.decoder[0], maps.cross[0])

    def _force_pairs(self, pairs: Sequence[tuple[Ids, Ids]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return source, decoder input and labels of given translations."""
        source = pad([list(s)[:LONGEST_SOURCE] for s, _ in pairs], after=END)
        labels = pad([t for _, t in pairs], after=END)
        target = torch.full_like(labels, PAD)
        target[:, 0] = START
        target[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == END, PAD)
        return source.to(self.device), target.to(self.device), labels.to(self.device)


def is_plain(options: SearchOptions, constraints: Sequence[TokenConstraints] | None) -> bool:
    """Return whether only greedy or beam search is asked for, without rules."""
    return not set(list_features(options, constraints)) - {Feature.EXACT}
