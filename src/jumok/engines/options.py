"""What all engines share: which one is used and how it runs, and the features that some lack.

How engines are called is in interface.py; how to search and what a translation must contain is in config/search.py.
No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Unpack

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.errors import DataError, UnknownName, Unsupported
from jumok.messages import Message

if TYPE_CHECKING:
    from jumok.config.keywords import EngineKeywords
    from jumok.engines.interface import FastEngine

LONGEST_SOURCE = 2_048  # subwords; longer sources are refused, so that an absurd line cannot exhaust the memory
ENGINES = ("auto", "native", "ctranslate2", "torch")

Ids = Sequence[int]
Count = Callable[[int], None]  # is called with the number of sentences that were just translated


def silent(sentences: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Which engine translates, and how."""

    engine: str = "auto"  # native where it supports what is asked for, else torch; or native, ctranslate2, torch
    device: str = "cpu"
    precision: str | None = None  # of ctranslate2: int8, which is the default, or float32
    shortlist: bool = False  # choose among likely words only; native and ctranslate2
    deterministic: bool = False  # results do not depend on the rest of the batch, bit for bit

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UnknownName("engines.unknown_engine", self.engine, ENGINES)

    @classmethod
    def of(cls, **choices: Unpack[EngineKeywords]) -> EngineOptions:
        """Return the options that keywords choose; a misspelt one gets a proposal."""
        known = {*cls.__dataclass_fields__, "others", "say"}
        for name in choices.keys() - known:
            raise UnknownName("engines.unknown_choice", name, known)
        return cls(**choices)


class Feature(StrEnum):
    """What may be asked for beyond greedy and beam search, by the name of its option."""

    SAMPLING = "sample"
    EXACT = "exact"
    GROUPS = "groups"
    COVERAGE = "coverage"
    MIN_LENGTH = "min_length"
    NO_REPEAT = "no_repeat"
    PREFIX = "prefix"
    REQUIRE = "require"
    FORBID = "forbid"


def list_features(options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None) -> list[Feature]:
    """List the features that are asked for."""
    each = constraints or ()
    asked = {
        Feature.SAMPLING: options.sample,
        Feature.EXACT: options.exact,
        Feature.GROUPS: options.groups > 1,
        Feature.COVERAGE: options.coverage > 0.0,
        Feature.MIN_LENGTH: options.min_length > 0,
        Feature.NO_REPEAT: options.no_repeat > 0,
        Feature.PREFIX: any(bound.prefix or bound.opening for bound in each),
        Feature.REQUIRE: any(bound.require for bound in each),
        Feature.FORBID: any(bound.forbid for bound in each),
    }
    return [feature for feature, wanted in asked.items() if wanted]


def check_lengths(sources: Sequence[Ids], numbers: Sequence[int] | None = None) -> None:
    """Raise `DataError` where a source is too long; `numbers` are those of the sources in their file, from 0."""
    for row, ids in enumerate(sources):
        if len(ids) > LONGEST_SOURCE:
            number = row if numbers is None else numbers[row]
            raise DataError("engines.too_long", number=number + 1, subwords=len(ids), most=LONGEST_SOURCE)


def limit_length(limit: int, constraints: TokenConstraints) -> int:
    """Return the longest output of a sentence, given that without constraints."""
    required = sum(map(len, constraints.require))
    limit += constraints.longest_prefix
    return max(limit, constraints.longest_prefix + 2 * required + 2) if required else limit


def check_support(
    engine: FastEngine, options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None
) -> None:
    """Raise `Unsupported` where an engine lacks a feature that is asked for."""
    for feature in list_features(options, constraints):
        if feature not in engine.supported:
            reason = Message("engines.no_feature", {"engine": engine.name, "feature": feature})
            raise Unsupported("engines.unsupported", reason=reason)


def check_request(
    engine: FastEngine,
    sources: Sequence[Ids],
    options: SearchOptions,
    constraints: Sequence[TokenConstraints] | None,
    numbers: Sequence[int] | None,
) -> None:
    """Raise an error where an engine lacks a feature that is asked for, or a source is too long."""
    check_support(engine, options, constraints)
    check_lengths(sources, numbers)


def is_supported(engine: FastEngine | None, options: SearchOptions) -> bool:
    """Return whether a fast engine has all features that are asked for."""
    return engine is not None and engine.supported >= set(list_features(options))
