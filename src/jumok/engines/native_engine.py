"""Our own engine: ids to hypotheses with the C kernels, encoder and search in one call; no torch.

It reads the bundle's weights in float32 and finds the same hypotheses as the torch engine.  With a shortlist it chooses
among the tokens that the source may turn into, probabilities are relative to the shortlist, and hypotheses much less
likely than the best are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import numpy as np

from jumok.config.search import (
    Count,
    Feature,
    Ids,
    SearchOptions,
    TokenConstraints,
    check_lengths,
    check_request,
    limit_length,
    silent,
)
from jumok.config.sections import TransformerConfig
from jumok.decoding.hypothesis import Hypothesis, rank
from jumok.errors import Unsupported, UsageError
from jumok.kernels import library
from jumok.kernels.layout import find_obstacle
from jumok.kernels.pack import Packed
from jumok.kernels.searching import Course, Shortlist, address_of
from jumok.messages import Message
from jumok.storage import tensors
from jumok.storage.bundle import Bundle
from jumok.text.vocabulary import END, START

if TYPE_CHECKING:
    from jumok.config.keywords import CourseKeywords
    from jumok.kernels.ruling import Rules
    from jumok.text.automata import TextRules

# With a shortlist, a hypothesis e^2 times less likely than its sentence's best is given up
# (docs/log/2026-11-17-shortlist.md).
MARGIN = 2.0


class NativeEngine:
    """Decodes with the kernels."""

    name = "native"
    supported = frozenset(Feature) - {Feature.SAMPLING, Feature.GROUPS, Feature.COVERAGE}

    def __init__(self, bundle: Bundle, *, shortlist: bool = False) -> None:
        model, kernels = bundle.recipe.model, library.load()
        reason = find_obstacle(model)
        if reason is None and kernels is None:
            reason = library.find_problem() or Message("engines.kernels_switched_off")
        if reason is not None:
            raise Unsupported("engines.unsupported_model", reason=reason, folder=bundle.folder)
        assert isinstance(model, TransformerConfig)  # there are kernels for no other kind
        self.packed = Packed(kernels, model, bundle.sizes, tensors.read(bundle))
        self.shortlist = read_shortlist(self.packed.matrix, bundle) if shortlist else None
        self.surfaces = bundle.vocabularies.target.surfaces

    @cached_property
    def texts(self) -> TextRules:
        """Rules about the text of outputs; only constraints need them."""
        from jumok.text.automata import TextRules

        return TextRules(self.surfaces)

    @property
    def description(self) -> str:
        return "native" if self.shortlist is None else "native with shortlist"

    @cached_property
    def _background(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1)

    def decode(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints] | None = None,
        numbers: Sequence[int] | None = None,
        details: bool = True,
        progress: Count = silent,
        **course: Unpack[CourseKeywords],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of every source (ids without END), best first, in the order given.

        There is no sampling, so `numbers` are for errors alone, and `details` are always given.  May be called from
        several threads at once.

        `threads` is the number of cores that are used at most.  `stops` are the addresses of a byte for each
        source, or the address of as many bytes in a row, which another thread or process may set: where it is not 0,
        the source is given up at the next step and has no hypotheses; those of the others stay the same, bit for bit.
        Into row b of `live` (sources, 1 + tokens), an
        array of int64, the search of source b writes after each step how many tokens of its best translation are
        certain, and these tokens.  `limits` bounds the outputs further than the options do.
        """
        check_request(self.name, self.supported, sources, options, constraints, numbers)
        stops = course.get("stops")
        flags = range(stops, stops + len(sources)) if isinstance(stops, int) else stops
        chosen = Course(course.get("threads"), flags, course.get("live"))
        hypotheses = self._search(sources, options, constraints, chosen, course.get("limits"))
        progress(len(hypotheses))
        return hypotheses

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
        """Begin to decode in the background; the function waits for what `decode` returns."""
        check_request(self.name, self.supported, sources, options, constraints, numbers)
        running = self._background.submit(self._search, sources, options, constraints)

        def collect() -> list[list[Hypothesis]]:
            hypotheses = running.result()
            progress(len(hypotheses))
            return hypotheses

        return collect

    def _search(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        constraints: Sequence[TokenConstraints] | None = None,
        course: Course = Course(),
        bounds: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        read = [[*ids, END] for ids in sources]
        each = list(constraints) if constraints is not None and any(any(bound.kinds) for bound in constraints) else None
        limits = [len(ids) - 1 + options.extra_length for ids in read]
        if each is not None:
            limits = [limit_length(limit, bound) for limit, bound in zip(limits, each, strict=True)]
        if bounds is not None:
            limits = [min(pair) for pair in zip(limits, bounds, strict=True)]
        if self.shortlist is not None and not options.exact and options.n_best == 1:
            course = course._replace(margin=MARGIN)
        rules = None if each is None else self._make_rules(each)
        hypotheses = self.packed.search(read, limits, options, shortlist=self.shortlist, rules=rules, course=course)
        return [rank(several, options.length_penalty) for several in hypotheses]

    def alternatives(
        self, source: Ids, beginnings: Sequence[TokenConstraints], count: int, options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the best translations after each of the `count` likeliest ways to continue a beginning, best first.

        `beginnings` are different divisions of one text into tokens (`alternatives.find_alternatives`).
        """
        from jumok.engines.alternatives import find_alternatives

        return find_alternatives(self.decode, self.texts.spelling, source, beginnings, count, options)

    def score(
        self, pairs: Sequence[tuple[Ids, Ids]], *, length_penalty: float = 0.6, threads: int | None = None
    ) -> list[Hypothesis]:
        """Return the model's scores of given translations (force-scoring), in the order given."""
        check_lengths([source for source, _ in pairs])
        read = [([*source, END], [*target, END]) for source, target in pairs]
        gains = self.packed.score(read, START, threads=threads)
        return [
            Hypothesis.scored_by(target, each, length_penalty) for (_, target), each in zip(read, gains, strict=True)
        ]

    def align(
        self,
        pairs: Sequence[tuple[Ids, Ids]],
        layer: int | None = None,
        head: int | None = None,
        *,
        threads: int | None = None,
    ) -> list[np.ndarray]:
        """Return the attention of each output over its source (T, S), END included.

        It is that of one head of a layer, or the mean of all its heads; the last layer but one unless given.
        """
        return [weights.mean(axis=0) for weights in self.attend(pairs, layer, head, threads=threads)]

    def attend(
        self,
        pairs: Sequence[tuple[Ids, Ids]],
        layer: int | None = None,
        head: int | None = None,
        *,
        threads: int | None = None,
    ) -> list[np.ndarray]:
        """Return the attention of each output over its source (heads, T, S) in one layer, of all heads or of one."""
        check_lengths([source for source, _ in pairs])
        read = [([*source, END], [*target, END]) for source, target in pairs]
        chosen = max(0, self.packed.decoder.layers - 2) if layer is None else layer
        return self.packed.attend(read, START, chosen, head, threads=threads)

    def _make_rules(self, constraints: Sequence[TokenConstraints]) -> Rules:
        """Return the constraints as the kernels read them."""
        from jumok.kernels.ruling import Rules, SentenceRules

        texts = self.texts
        each = [
            SentenceRules(
                bound.prefix,
                texts.open_with(bound.opening) if bound.opening else None,
                texts.forbid(bound.forbid) if bound.forbid else None,
                [(phrase, texts.begin_ending(phrase)) for phrase in bound.require],
            )
            for bound in constraints
        ]
        return Rules(each, texts.spelling, texts.ending)


def read_shortlist(matrix: np.ndarray, bundle: Bundle) -> Shortlist:
    """Return the bundle's shortlist as the kernels read it; a token of both vocabularies may turn into itself."""
    from jumok.data.lexicon import load_shortlist  # imports what learns one, which translating does not need

    lexicon = load_shortlist(bundle)
    if lexicon is None:
        raise UsageError("engines.no_shortlist", folder=bundle.folder)
    arrays = (np.ascontiguousarray(part, np.int64) for part in (lexicon.begins, lexicon.targets, lexicon.common))
    return Shortlist(address_of(matrix), bundle.vocabularies.joint, *arrays)
