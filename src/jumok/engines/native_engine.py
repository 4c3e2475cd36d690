"""Our own engine: ids to hypotheses with the C kernels, encoder and search in one call; no torch.

It reads the bundle's weights in float32 and finds the same hypotheses as the torch engine.  With a shortlist it chooses
among the tokens that the source may turn into, probabilities are relative to the shortlist, and hypotheses much less
likely than the best are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from math import inf

import numpy as np

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.config.sections import TransformerConfig
from jumok.decoding.hypothesis import NEVER, Hypothesis, rank
from jumok.engines.options import AT_ONCE, LONGEST_SOURCE, Count, Feature, Ids, check_support, silent
from jumok.errors import Unsupported, UsageError
from jumok.kernels import library
from jumok.kernels.layout import find_obstacle
from jumok.kernels.pack import Packed
from jumok.kernels.searching import Marks, Shortlist, address_of
from jumok.messages import Message
from jumok.storage import tensors
from jumok.storage.bundle import Bundle
from jumok.text.vocabulary import END, START

MARKS = Marks(START, END, NEVER)
# With a shortlist, a hypothesis e^2 times less likely than its sentence's best is given up
# (docs/log/2026-11-17-shortlist.md).
MARGIN = 2.0


class NativeEngine:
    """Decodes with the kernels."""

    name = "native"
    supported = frozenset({Feature.EXACT})

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
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of every source (ids without END), best first, in the order given.

        `constraints` must be empty.  There is no sampling, so `numbers` change nothing, and `details` are always given.
        """
        check_support(self, options, constraints)
        hypotheses = self._search(sources, options)
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
        check_support(self, options, constraints)
        running = self._background.submit(self._search, sources, options)

        def collect() -> list[list[Hypothesis]]:
            hypotheses = running.result()
            progress(len(hypotheses))
            return hypotheses

        return collect

    def _search(self, sources: Sequence[Ids], options: SearchOptions) -> list[list[Hypothesis]]:
        read = [[*ids[:LONGEST_SOURCE], END] for ids in sources]
        limits = [len(ids) - 1 + options.extra_length for ids in read]
        margin = MARGIN if self.shortlist is not None and not options.exact and options.n_best == 1 else inf
        size = max(1, AT_ONCE // (options.n_best * max(limits, default=1)))
        results: list[list[Hypothesis]] = []
        for start in range(0, len(read), size):
            block = slice(start, start + size)
            hypotheses = self.packed.search(
                read[block], limits[block], options, marks=MARKS, margin=margin, shortlist=self.shortlist
            )
            results += [rank(several, options.length_penalty) for several in hypotheses]
        return results


def read_shortlist(matrix: np.ndarray, bundle: Bundle) -> Shortlist:
    """Return the bundle's shortlist as the kernels read it; a token of both vocabularies may turn into itself."""
    from jumok.data.lexicon import load_shortlist  # imports what learns one, which translating does not need

    lexicon = load_shortlist(bundle)
    if lexicon is None:
        raise UsageError("engines.no_shortlist", folder=bundle.folder)
    arrays = (np.ascontiguousarray(part, np.int64) for part in (lexicon.begins, lexicon.targets, lexicon.common))
    return Shortlist(address_of(matrix), bundle.vocabularies.joint, *arrays)
