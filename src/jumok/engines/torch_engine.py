"""The reference engine: ids to hypotheses with torch; every feature, any model of models/.

Sentences are sorted by length and decoded in batches up to a token budget; results come back in the order given.
With the kernels a translation depends on nothing in its batch, to the last bit, except where coverage is asked for.  In
plain torch sums depend on what they are computed with; `deterministic` then takes one sentence at a time on one thread.

Shapes   B sentences · S source · T target
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.data.batches import pad
from jumok.decoding.constraints import constrained
from jumok.decoding.graph import Expansion
from jumok.decoding.hypothesis import NEVER, Hypothesis, length_penalty, ranked
from jumok.decoding.rules import Moment, Rule, Ruling, Words, at_least, begin_with, no_repeats, of_copies
from jumok.decoding.search import (
    Choose,
    apart,
    beam,
    candidates,
    drawn,
    greedy,
    tokens_one_by_one,
)
from jumok.engines.options import ANYTHING, AT_ONCE, LONGEST_SOURCE, Options, Wish
from jumok.errors import UsageError
from jumok.keys import generator, key
from jumok.models.base import END, PAD, START, Attention, Seq2Seq, State
from jumok.native.searching import Search

ROWS = 64  # pairs whose attention is held at once


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
        """`surfaces` gives the tokens as text; only words that must or must not be said need it.

        `deterministic`: the same source gives the same hypotheses, whatever is beside it and wherever it stands.
        """
        self.device = torch.device(device)
        self.model: Seq2Seq = model
        self.batch_tokens = batch_tokens
        self.surfaces = surfaces
        self.deterministic = deterministic

    @cached_property
    def words(self) -> Words:
        return Words(self.surfaces())

    @cached_property
    def inner(self) -> Tensor | None:
        """(V,) True for tokens that go on with a word; None where nobody said how tokens are spelt."""
        return (
            None
            if not self.words.surfaces
            else torch.tensor([text[:1].isalnum() for text in self.words.surfaces], device=self.device)
        )

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        options: Options,
        *,
        numbers: Sequence[int] | None = None,
        limits: Sequence[int] | None = None,
        wishes: Sequence[Wish] | None = None,
        ruling: Ruling | None = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of every source (ids without END), best first, in the order given.

        `numbers` are those of the sources in the user's file (0, 1, … unless given): what is drawn for a sentence
        depends on its number, not on the batch, and where the engine is deterministic, on the sentence itself.
        `limits` are the longest outputs, where they are to be shorter than the options allow; `wishes` say what each
        translation must and must not have.  `ruling` makes a rule of one's own for the sources that are decoded
        together, from their places among all and the longest that each may become.
        """
        free_of_rules = ruling is None and plain(options, wishes)
        if free_of_rules and (at_once := self._at_once(sources, options, limits, progress)) is not None:
            return at_once
        results: list[list[Hypothesis]] = [[] for _ in sources]
        wished = list(wishes) if wishes is not None else [ANYTHING] * len(sources)
        bound = [row for row, wish in enumerate(wished) if wish.require]
        free = [row for row, wish in enumerate(wished) if not wish.require]
        for kind in filter(None, (free, bound)):
            for batch in self.batches([sources[row] for row in kind], options):
                rows = [kind[place] for place in batch]
                cut = [list(sources[row])[:LONGEST_SOURCE] for row in rows]
                more = [len(wished[row].prefix) + options.extra_length for row in rows]
                longest = [len(ids) + extra for ids, extra in zip(cut, more, strict=True)]
                if limits is not None:
                    longest = [min(most, limits[row]) for most, row in zip(longest, rows, strict=True)]
                own = None if ruling is None else ruling(rows, longest)
                wanted = [wished[row] for row in rows]
                with self._threads():
                    found = self._search(cut, options, longest, self._numbers(sources, numbers, rows), wanted, own=own)
                for row, hypotheses in zip(rows, found, strict=True):
                    results[row] = hypotheses
                progress(len(rows))
        return results

    def _numbers(self, sources: Sequence[Sequence[int]], given: Sequence[int] | None, rows: list[int]) -> list[int]:
        """What the draws of these rows depend on, beside the seed."""
        if self.deterministic:
            return [key(0, "sentence", *sources[row]) for row in rows]
        return rows if given is None else [given[row] for row in rows]

    @torch.inference_mode()
    def _at_once(
        self,
        sources: Sequence[Sequence[int]],
        options: Options,
        limits: Sequence[int] | None,
        progress: Callable[[int], None],
    ) -> list[list[Hypothesis]] | None:
        """The same as search step by step, by a model that can search by itself; None where it cannot."""
        run = getattr(self.model, "search", None)
        if run is None or self.device.type != "cpu":
            return None
        read = [[*ids[:LONGEST_SOURCE], END] for ids in sources]
        longest = [len(ids) - 1 + options.extra_length for ids in read]
        if limits is not None:
            longest = [min(pair) for pair in zip(longest, limits, strict=True)]
        how = Search(options.beam, options.length_penalty, options.best, options.exact)
        results: list[list[Hypothesis]] = []
        some = max(1, AT_ONCE // (options.best * max(longest, default=1)))
        for start in range(0, len(read), some):
            block = slice(start, start + some)
            found = run(read[block], longest[block], how, ends=(START, END), never=NEVER)
            if found is None:
                return None
            results += [ranked(one, options.length_penalty) for one in found]
            progress(len(found))
        return results

    def submit(
        self, sources: Sequence[Sequence[int]], options: Options, *, details: bool = True, **more: Any
    ) -> Callable[[], list[list[Hypothesis]]]:
        """`decode` when the function is called; details are always there."""
        return lambda: self.decode(sources, options, **more)

    def batches(self, sources: Sequence[Sequence[int]], options: Options) -> Iterator[list[int]]:
        """Rows of like length together, at most `batch_tokens` source tokens times the beam's share at once."""
        if self.deterministic:
            yield from ([row] for row in range(len(sources)))
            return
        order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
        budget = max(1, self.batch_tokens * 4 // (3 + (options.best if options.sample else options.beam)))
        start = 0
        while start < len(order):
            longest = min(LONGEST_SOURCE, len(sources[order[start]])) + 1
            stop = start + max(1, budget // longest)
            yield order[start:stop]
            start = stop

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """One, where the engine is deterministic: how torch divides a sum among threads shows in its last bits."""
        before = torch.get_num_threads()
        try:
            if self.deterministic:
                torch.set_num_threads(1)
            yield
        finally:
            if self.deterministic:
                torch.set_num_threads(before)

    def _search(
        self,
        sources: list[list[int]],
        options: Options,
        limits: list[int],
        numbers: list[int],
        wishes: Sequence[Wish],
        own: Rule | None = None,
    ) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            read = pad(sources, after=END).to(self.device)
            state = self.model.start(read)
        common: dict[str, Any] = {"alpha": options.length_penalty, "device": self.device}
        if options.sample:
            return self._sampled(state, options, limits, numbers, wishes, common, own)
        shared = common | {"best": options.beam if options.coverage else options.best}
        if any(wish.require for wish in wishes):
            phrases = [wish.require for wish in wishes]
            rules, inner = self._rules(options, wishes, own), self.inner
            found = constrained(
                self.model.step, state, limits, phrases, width=options.beam, rules=rules, inner=inner, **shared
            )
        elif options.groups > 1:
            found = self._diverse(state, options, limits, wishes, shared, own)
        else:
            rules = self._rules(options, wishes, own)
            found = beam(self.model.step, state, limits, width=options.beam, exact=options.exact, rules=rules, **shared)
        return self._covered(sources, found, options) if options.coverage else found

    def _rules(self, options: Options, wishes: Sequence[Wish], own: Rule | None = None) -> list[Rule]:
        """What these options and wishes forbid, and what somebody's own rule does."""
        rules: list[Rule] = [] if own is None else [own]
        if options.shortest:
            rules.append(at_least(options.shortest, END))
        if options.no_repeat:
            rules.append(no_repeats(options.no_repeat))
        if any(wish.forbid for wish in wishes):
            rules.append(self.words.rule([wish.forbid for wish in wishes]))
        if any(wish.prefix for wish in wishes):  # last: what a prefix says is said
            rules.append(begin_with([wish.prefix for wish in wishes]))
        return rules

    def _sampled(
        self,
        state: State,
        options: Options,
        limits: list[int],
        numbers: list[int],
        wishes: Sequence[Wish],
        common: dict[str, Any],
        own: Rule | None = None,
    ) -> list[list[Hypothesis]]:
        each = options.best
        copies = torch.arange(len(limits), device=self.device).repeat_interleave(each)
        choose = self.draws(options, numbers, max(limits))
        chosen, longest = [wishes[i] for i in copies.tolist()], [limits[i] for i in copies.tolist()]
        rules = self._rules(options, chosen, own and of_copies(own, copies))
        flat = greedy(self.model.step, state.select(copies), longest, choose=choose, rules=rules, **common)
        return [sorted(flat[i : i + each], key=lambda h: -h.score) for i in range(0, len(flat), each)]

    def _diverse(
        self,
        state: State,
        options: Options,
        limits: list[int],
        wishes: Sequence[Wish],
        shared: dict[str, Any],
        own: Rule | None = None,
    ) -> list[list[Hypothesis]]:
        """Groups of the beam, each a beam of its own that keeps away from the tokens of those before it."""
        groups, width = options.groups, options.beam // options.groups
        blocks = torch.arange(len(limits), device=self.device).repeat_interleave(groups)
        longest = [limits[i] for i in blocks.tolist()]
        rules = self._rules(options, [wishes[i] for i in blocks.tolist()], own and of_copies(own, blocks))
        found = beam(
            self.model.step, state.select(blocks), longest, width=width,
            exact=options.exact, rules=rules, rank=apart(groups, options.diversity), spare=options.beam,
            **shared | {"best": width},
        )  # fmt: skip
        merged = []
        for start in range(0, len(found), groups):
            distinct = {h.ids: h for block in found[start : start + groups] for h in block}
            merged.append(sorted(distinct.values(), key=lambda h: -h.score)[: shared["best"]])
        return merged

    def _covered(
        self, sources: list[list[int]], found: list[list[Hypothesis]], options: Options
    ) -> list[list[Hypothesis]]:
        """Ranked anew: a source token that all of the output together hardly looks at lowers the score."""
        pairs = [(source, one.body) for source, several in zip(sources, found, strict=True) for one in several]
        looks = iter(self.aligned(pairs))
        ranked = []
        for hypotheses in found:
            judged = []
            for one in hypotheses:
                seen = next(looks)[:, :-1].sum(dim=0).clamp(1e-9, 1.0)  # (S,) END left out
                judged.append(replace(one, score=one.score + options.coverage * float(seen.log().sum())))
            ranked.append(sorted(judged, key=lambda h: -h.score)[: options.best])
        return ranked

    def watch(self, source: Sequence[int], options: Options, watch: Callable[[Expansion], None]) -> None:
        """Search one sentence and tell of every step."""
        ids = list(source)[:LONGEST_SOURCE]
        with torch.inference_mode():
            state = self.model.start(pad([ids], after=END).to(self.device))
        beam(
            self.model.step, state, [len(ids) + options.extra_length], width=options.beam,
            alpha=options.length_penalty, best=options.best, exact=options.exact,
            rules=self._rules(options, [ANYTHING]), watch=watch, device=self.device,
        )  # fmt: skip

    @torch.inference_mode()
    def aligned(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Tensor]:
        """How each output looks at its source (T, S), END included: the mean of all heads in the last layer but one."""
        looks: list[Tensor] = []
        for start in range(0, len(pairs), ROWS):
            some = pairs[start : start + ROWS]
            source, target, _ = self._forced(some)
            cross = self.model.attention(source, target).cross  # (B, L, H, T, S)
            if cross.shape[1] == 0:
                what = "this model has no attention over the source, so nobody knows which word comes from which"
                raise UsageError(what, where="in model.kind", hint="try: the same without --align and --coverage")
            means = cross[:, max(0, cross.shape[1] - 2)].mean(dim=1)  # (B, T, S)
            looks += [
                weights[: len(body) + 1, : min(len(read), LONGEST_SOURCE) + 1]
                for weights, (read, body) in zip(means, some, strict=True)
            ]
        return looks

    def alternatives(
        self, source: Sequence[int], prefix: Sequence[int], count: int, options: Options
    ) -> list[Hypothesis]:
        """The best translations that go on behind a prefix with each of the `count` likeliest tokens, best first."""
        history, sentence = (torch.tensor(ids, dtype=torch.long, device=self.device) for ids in ([list(prefix)], [0]))
        now = Moment(len(prefix), history, sentence)
        with torch.inference_mode():
            read, fed, _ = self._forced([(source, prefix)])
            logits = self.model.project(self.model.hidden(read, fed)[:, len(prefix)])  # (1, V)
            _, tokens = candidates(logits, count, self._rules(options, [ANYTHING]), now)
        wishes = [Wish(prefix=(*prefix, token)) for token in tokens[0].tolist() if token != END]
        found = self.decode([source] * len(wishes), replace(options, best=1), wishes=wishes)
        return sorted((hypotheses[0] for hypotheses in found), key=lambda h: -h.score)

    def draws(self, options: Options, numbers: list[int], limit: int) -> Choose:
        """Choose by chance, for `best` copies of every sentence, by its number in the user's file."""
        rows = [
            generator(options.seed, "sample", number, copy).random(limit, dtype=np.float32)
            for number in numbers
            for copy in range(options.best)
        ]
        uniforms = torch.from_numpy(np.stack(rows)).to(self.device)
        return drawn(uniforms, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)

    def stream(
        self, source: Sequence[int], options: Options, *, prefix: Sequence[int] = (), never: Sequence[int] = NEVER
    ) -> Iterator[int]:
        """Tokens of one translation as they are made, greedily or sampled, behind a prefix; END is not given out."""
        ids = list(source)[:LONGEST_SOURCE]
        limits = [len(ids) + len(prefix) + options.extra_length]
        rules = self._rules(options, [Wish(prefix=tuple(prefix))])
        with torch.inference_mode():
            state = self.model.start(pad([ids], after=END).to(self.device))
        temperature = options.temperature if options.sample else 0.0
        choose = self.draws(Options(**{**vars(options), "temperature": temperature, "best": 1}), [0], limits[0])
        made = tokens_one_by_one(self.model.step, state, limits, choose, rules=rules, never=never, device=self.device)
        for extended in islice(made, len(prefix), None):
            token = extended[0][1]
            if token != END:
                yield token

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, alpha: float = 0.6) -> list[Hypothesis]:
        """The model's own score of given translations (force-decoding), in the order given."""
        if self.deterministic and len(pairs) > 1:
            return [one for pair in pairs for one in self.score([pair], alpha=alpha)]
        results: list[Hypothesis | None] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]) - len(pairs[row][1]))
        start = 0
        while start < len(order):
            longest = max(map(len, pairs[order[start]])) + 1
            rows = order[start : start + max(1, self.batch_tokens // longest)]
            source, target, labels = self._forced([pairs[row] for row in rows])
            with self._threads():
                logits = self.model.project(self.model.hidden(source, target))  # (B, T, V)
                gains = logits.log_softmax(dim=-1).gather(2, labels[:, :, None]).squeeze(2)  # (B, T)
            for row, gain in zip(rows, gains.tolist(), strict=True):
                ids = (*pairs[row][1], END)
                kept = gain[: len(ids)]
                total = sum(kept)
                results[row] = Hypothesis(ids, total / length_penalty(len(ids), alpha), total, tuple(kept))
            start += len(rows)
        return [result for result in results if result is not None]

    @torch.inference_mode()
    def attention(self, source: Sequence[int], target: Sequence[int]) -> Attention:
        """All maps of one sentence and its translation (ids with or without END): (L, H, ·, ·) each."""
        body = [i for i in target if i != END]
        read, fed, _ = self._forced([(source, body)])
        maps = self.model.attention(read, fed)
        return Attention(maps.encoder[0], maps.decoder[0], maps.cross[0])

    def _forced(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[Tensor, Tensor, Tensor]:
        source = pad([list(s)[:LONGEST_SOURCE] for s, _ in pairs], after=END)
        labels = pad([t for _, t in pairs], after=END)
        target = torch.full_like(labels, PAD)
        target[:, 0] = START
        target[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == END, PAD)
        return source.to(self.device), target.to(self.device), labels.to(self.device)


def plain(options: Options, wishes: Sequence[Wish] | None) -> bool:
    """Whether all that is asked for is greedy or beam search, without rules."""
    rules = options.sample or options.shortest or options.no_repeat or options.coverage or options.groups > 1
    return not rules and (wishes is None or all(wish == ANYTHING for wish in wishes))
