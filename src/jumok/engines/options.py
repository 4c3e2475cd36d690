"""What all engines have in common: how they are called, how one is chosen, and what not every one of them can do.

How to search and what a translation must say is in config/search.py.  No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypedDict

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.decoding.hypothesis import Hypothesis
from jumok.errors import UnknownName, Unsupported

LONGEST_SOURCE = 2_048  # subwords; what is beyond is cut, so that an absurd line cannot take the machine down
AT_ONCE = 1 << 23  # tokens of output that one call of the kernels has space for
ENGINES = ("auto", "native", "ctranslate2", "torch")

Ids = Sequence[int]
Count = Callable[[int], None]  # is told of so many sentences more


def silent(sentences: int) -> None:
    """Count for nobody."""


class EngineKeywords(TypedDict, total=False):
    """The fields of `EngineOptions` as keywords."""

    engine: str
    device: str
    precision: str | None
    shortlist: bool
    deterministic: bool


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Which engine translates, and how."""

    engine: str = "auto"  # native where it can do what is asked, else torch; or native, ctranslate2, torch
    device: str = "cpu"
    precision: str | None = None  # of ctranslate2: int8, which is the default, or float32
    shortlist: bool = False  # choose among likely words only; native and ctranslate2
    deterministic: bool = False  # the same to the last bit, whatever is translated in the same call

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownName("engine", self.engine, ENGINES, where="in --engine")


class Engine(Protocol):
    """Ids to hypotheses."""

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
        """Begin to decode sources (ids without END); the function waits for the hypotheses, best first.

        `constraints` are those of each source.  `numbers` are those of the sources in the user's file: what is drawn
        for a sentence depends on its number.  Without `details` an engine may leave out scores.  An engine raises
        `Unsupported` where it cannot do what is asked.
        """
        ...


class Feature(StrEnum):
    """What may be asked beyond greedy and beam search."""

    SAMPLING = "drawing"
    EXACT = "exact search"
    GROUPS = "groups"
    COVERAGE = "coverage"
    MIN_LENGTH = "minimum length"
    NO_REPEAT = "ban on repeats"
    PREFIX = "prefix"
    REQUIRE = "words that must be said"
    FORBID = "words that must not be said"


def features(options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None) -> list[Feature]:
    """The features that are asked for."""
    each = constraints or ()
    asked = {
        Feature.SAMPLING: options.sample,
        Feature.EXACT: options.exact,
        Feature.GROUPS: options.groups > 1,
        Feature.COVERAGE: options.coverage > 0.0,
        Feature.MIN_LENGTH: options.min_length > 0,
        Feature.NO_REPEAT: options.no_repeat > 0,
        Feature.PREFIX: any(one.prefix for one in each),
        Feature.REQUIRE: any(one.require for one in each),
        Feature.FORBID: any(one.forbid for one in each),
    }
    return [feature for feature, wanted in asked.items() if wanted]


class FastEngine(Engine, Protocol):
    """An engine that can do a part of what the torch engine can, without torch."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def description(self) -> str:
        """The engine and how it runs, in a few words."""
        ...

    def unsupported(
        self, options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None
    ) -> Feature | None:
        """The first feature that only the torch engine has; None if this one can do all that is asked."""
        ...


def check_support(
    engine: FastEngine, options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None
) -> None:
    """Raise `Unsupported` where an engine lacks something that is asked for."""
    if (missing := engine.unsupported(options, constraints)) is not None:
        raise Unsupported(f"the {engine.name} engine has no {missing}")
