"""How engines are called: the protocol of all of them, and of those without torch.

Types only: the engines need not import them to follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from jumok.config.search import Count, Feature, Ids, silent

if TYPE_CHECKING:
    import numpy as np

    from jumok.config.search import SearchOptions, TokenConstraints
    from jumok.decoding.hypothesis import Hypothesis


class Engine(Protocol):
    """Ids to hypotheses."""

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

        `constraints` are those of each source.  `numbers` are those of the sources in the user's file: sampling
        depends on them, and errors name them.  Without `details` an engine may leave out scores.  An engine raises
        `Unsupported` where it lacks a feature that is asked for.
        """
        ...

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
        """Begin to decode, in the background where the engine can; the function waits for what `decode` returns."""
        ...


class FastEngine(Engine, Protocol):
    """An engine without torch, which has some of the torch engine's features."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def supported(self) -> frozenset[Feature]:
        """The features it has."""
        ...

    @property
    def description(self) -> str:
        """The engine and how it runs, in a few words."""
        ...


class Forcing(Protocol):
    """An engine that takes translations, or their beginnings, as given."""

    def score(self, pairs: Sequence[tuple[Ids, Ids]], *, length_penalty: float = 0.6) -> list[Hypothesis]:
        """Return the model's scores of given translations, in the order given."""
        ...

    def align(
        self, pairs: Sequence[tuple[Ids, Ids]], layer: int | None = None, head: int | None = None
    ) -> list[np.ndarray]:
        """Return the attention of each output over its source (T, S), END included.

        It is that of one head of a layer, or the mean of all its heads; the last layer but one unless given.
        """
        ...

    def alternatives(
        self, source: Ids, beginnings: Sequence[TokenConstraints], count: int, options: SearchOptions
    ) -> list[Hypothesis]:
        """Return the best translations after each of the `count` likeliest ways to continue a beginning, best first.

        `beginnings` are different divisions of one text into tokens (`alternatives.find_alternatives`).
        """
        ...
