"""Our own engine: ids to hypotheses with the C kernels, encoder and search in one call; no torch.

It reads the bundle's own weights, in floats, and finds what the torch engine finds, hypothesis by hypothesis.  With a
shortlist it chooses among the tokens that the source may turn into, probabilities are shares of what is on the list,
and hypotheses that are far behind are given up.  `unsupported` says what it cannot do; the torch engine can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf

import numpy as np

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.config.sections import ModelConfig, transformer
from jumok.decoding.hypothesis import NEVER, Hypothesis, rank
from jumok.engines.options import AT_ONCE, LONGEST_SOURCE, Count, Feature, Ids, check_support, features, silent
from jumok.errors import Unsupported, UsageError
from jumok.kernels import library
from jumok.kernels.layout import find_obstacle
from jumok.kernels.pack import Packed
from jumok.kernels.searching import Marks, Shortlist, at
from jumok.storage import tensors as stored
from jumok.storage.bundle import Bundle
from jumok.text.vocabulary import END, START

MARKS = Marks(START, END, NEVER)
# With a shortlist, a hypothesis e^2 times less likely than its sentence's best is given up
# (docs/log/2026-11-17-shortlist.md).
MARGIN = 2.0


def obstacle(model: ModelConfig) -> str | None:
    """Say why a model cannot run here; None if it can."""
    return find_obstacle(model) or ("there is no compiler for the kernels" if library.load() is None else None)


class NativeEngine:
    """Decodes with the kernels."""

    name = "native"

    def __init__(self, found: Bundle, *, shortlist: bool = False) -> None:
        if (reason := obstacle(found.recipe.model)) is not None:
            raise Unsupported(reason, where=f"in {found.folder}")
        model = transformer(found.recipe.model, "the native engine")
        self.packed = Packed(library.load(), model, found.sizes, stored.read(found))
        self.lists = listed(self.packed.matrix, found) if shortlist else None
        self.background = ThreadPoolExecutor(1)

    @property
    def description(self) -> str:
        return "native" if self.lists is None else "native with shortlist"

    def unsupported(
        self, options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None
    ) -> Feature | None:
        """The first feature that only the torch engine has; None if this one can do all that is asked."""
        return next((one for one in features(options, constraints) if one is not Feature.EXACT), None)

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
        """Begin to decode in the background; the function waits for the hypotheses.

        `constraints` must be empty.  Nothing is drawn, so `numbers` change nothing, and `details` are always there.
        """
        check_support(self, options, constraints)
        waiting = self.background.submit(self.decode, sources, options)

        def collect() -> list[list[Hypothesis]]:
            found = waiting.result()
            progress(len(found))
            return found

        return collect

    def decode(self, sources: Sequence[Ids], options: SearchOptions) -> list[list[Hypothesis]]:
        """Hypotheses of every source (ids without END), best first, in the order given."""
        check_support(self, options)
        read = [[*ids[:LONGEST_SOURCE], END] for ids in sources]
        limits = [len(ids) - 1 + options.extra_length for ids in read]
        margin = MARGIN if self.lists is not None and not options.exact and options.n_best == 1 else inf
        some = max(1, AT_ONCE // (options.n_best * max(limits, default=1)))
        results: list[list[Hypothesis]] = []
        for start in range(0, len(read), some):
            block = slice(start, start + some)
            hypotheses = self.packed.search(
                read[block], limits[block], options, marks=MARKS, margin=margin, shortlist=self.lists
            )
            results += [rank(one, options.length_penalty) for one in hypotheses]
        return results


def listed(matrix: np.ndarray, found: Bundle) -> Shortlist:
    """The bundle's shortlist as the search reads it; a token that both sides know may turn into itself."""
    from jumok.data.lexicon import shortlist_of  # with all that makes one, which most models are loaded without

    lexicon = shortlist_of(found)
    if lexicon is None:
        hint = "try: jumok model shortlist RUN"
        raise UsageError("this model has no shortlist", where=f"in {found.folder}", hint=hint)
    arrays = (np.ascontiguousarray(one, np.int64) for one in (lexicon.begins, lexicon.targets, lexicon.common))
    return Shortlist(at(matrix), found.vocabularies.joint, *arrays)
