"""What is asked for: how to search, what a translation must and must not contain, and which engine does it.  No torch.

    options = SearchOptions(beam=5, length_penalty=1.0)
    constraints = Constraints(prefix="The", forbid=("bicycle",))

They are made once, from the options of the command line or from keywords, and handed down unchanged: the translator,
the engines, the search and the kernels read the same value.  Functions accept their fields as keywords (keywords.py);
one that is None, or not given, takes its default.  Every engine checks a request with `check_request`.

Not here how engines are called (engines/interface.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from jumok.errors import DataError, UnknownName, Unsupported, UsageError
from jumok.messages import Message

if TYPE_CHECKING:
    from jumok.config.keywords import ConstraintKeywords, EngineKeywords, SearchKeywords
    from jumok.config.sections import DecodingConfig

SAMPLING = ("temperature", "top_k", "top_p", "seed")  # options that only sampling uses
MBR_TEMPERATURE = 0.5  # at 1 too many samples are far off (docs/log/2026-11-16-constrained-search.md)
LONGEST_SOURCE = 2_048  # subwords; longer sources are refused, so that an absurd line cannot exhaust the memory
ENGINES = ("auto", "native", "ctranslate2", "torch")

Ids = Sequence[int]
Count = Callable[[int], None]  # is called with the number of sentences that were just translated


def silent(sentences: int) -> None:
    """Count nothing."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How to search; the defaults are the paper's."""

    beam: int = 4  # hypotheses at each step; 1 is greedy
    length_penalty: float = 0.6  # alpha of ((5 + n) / 6)^alpha: 0 prefers short, 1 long
    n_best: int = 1  # translations of each sentence
    extra_length: int = 50  # tokens that the output may be longer than the source
    min_length: int = 0  # least number of tokens
    no_repeat: int = 0  # length of n-grams that are never repeated; 0 allows all
    groups: int = 1  # of a diverse beam search
    diversity: float = 0.5  # penalty for a token of another group
    coverage: float = 0.0  # penalty for source words that receive no attention (Wu et al. 2016, beta)
    exact: bool = False  # search until no other hypothesis can win
    sample: bool = False  # sample instead of searching
    temperature: float = 1.0  # of sampling: 0 is greedy, 1 the model's own
    top_k: int = 0  # sample among the k likeliest tokens; 0 is all
    top_p: float = 1.0  # sample among the fewest tokens that hold a share p of the probability
    seed: int = 1  # of sampling
    mbr: int = 0  # samples of which the one most like the others is returned; 0 does not sample

    def __post_init__(self) -> None:
        checks = {
            "beam": 1 <= self.beam <= 1_000,
            "n-best": 1 <= self.n_best <= (1_000 if self.sample else self.beam),
            "temperature": 0.0 <= self.temperature <= 100.0,
            "top-k": self.top_k >= 0,
            "top-p": 0.0 < self.top_p <= 1.0,
            "length penalty": 0.0 <= self.length_penalty <= 10.0,
            "extra length": 1 <= self.extra_length <= 10_000,
            "min-length": 0 <= self.min_length <= 10_000,
            "no-repeat": 0 <= self.no_repeat <= 100,
            "groups": 1 <= self.groups <= self.beam and self.beam % self.groups == 0,
            "diversity": 0.0 <= self.diversity <= 100.0,
            "coverage": 0.0 <= self.coverage <= 100.0,
            "mbr": 0 <= self.mbr <= 1_000,
        }
        for name, fine in checks.items():
            if not fine:
                advice = ADVICE.get(name, Message("config.see_help"))
                raise UsageError("config.out_of_range", option=name, options=self, advice=advice)

    @classmethod
    def of(cls, usual: DecodingConfig, **keywords: Unpack[SearchKeywords]) -> SearchOptions:
        """Return the options of a recipe, changed by keywords."""
        options = cls(beam=usual.beam, length_penalty=usual.length_penalty, extra_length=usual.extra_length)
        return options.change(**keywords)

    def change(self, **keywords: Unpack[SearchKeywords]) -> SearchOptions:
        """Return the same options with what is given and not None.

        Unless the beam is given it is as wide as `n_best` needs.  `mbr` samples, at temperature 0.5 unless another one
        is given.
        """
        for name in keywords.keys() - self.__dataclass_fields__.keys():
            raise UnknownName("config.unknown_search_option", name, self.__dataclass_fields__)
        given: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
        if given.get("mbr"):
            given = {"temperature": MBR_TEMPERATURE} | given | {"sample": True}
        if "beam" not in given and not given.get("sample", self.sample):
            given["beam"] = max(self.beam, given.get("n_best", 1))
        return replace(self, **given)


ADVICE = {"n-best": Message("config.beam_limits_n_best"), "groups": Message("config.groups_divide_beam")}


class Encodes(Protocol):
    """A vocabulary."""

    def encode(self, text: str) -> Sequence[int]: ...

    def split_prefix(self, text: str) -> tuple[Sequence[int], str]: ...


@dataclass(frozen=True)
class TokenConstraints:
    """`Constraints` as an engine reads them: tokens that must appear, and words that must not."""

    prefix: tuple[int, ...] = ()
    require: tuple[tuple[int, ...], ...] = ()
    forbid: tuple[str, ...] = ()
    opening: str = ""  # the text after the prefix, in any division into tokens; words begin with a space

    @property
    def kinds(self) -> tuple[bool, bool, bool]:
        """Whether there is a prefix, a required phrase, a forbidden one."""
        return bool(self.prefix or self.opening), bool(self.require), bool(self.forbid)

    @property
    def longest_prefix(self) -> int:
        """The most tokens that the prefix and the text after it may take."""
        return len(self.prefix) + len(self.opening.encode("utf-8", "surrogateescape"))


UNCONSTRAINED = TokenConstraints()


@dataclass(frozen=True)
class Constraints:
    """What one translation must and must not contain."""

    prefix: str = ""  # how it begins; its last word may continue, unless a space follows it
    require: tuple[str, ...] = ()  # words or phrases that are in it, in any order
    forbid: tuple[str, ...] = ()  # words or phrases that are not

    def __bool__(self) -> bool:
        return bool(self.prefix or self.require or self.forbid)

    @classmethod
    def of(cls, count: int, **keywords: Unpack[ConstraintKeywords]) -> list[Constraints]:
        """Return the constraints of each of `count` texts, from keywords that hold for all of them or for one each."""
        for name in keywords.keys() - cls.__dataclass_fields__.keys():
            raise UnknownName("config.unknown_constraint", name, cls.__dataclass_fields__)
        given = keywords.get("prefix") or ""
        prefixes = [given] * count if isinstance(given, str) else list(given)
        required, forbidden = _each(keywords.get("require"), count), _each(keywords.get("forbid"), count)
        for name, each in (("prefix", prefixes), ("require", required), ("forbid", forbidden)):
            if len(each) != count:
                raise UsageError("config.wrong_number_of_constraints", constraint=name, given=len(each), texts=count)
        return [cls(*each) for each in zip(prefixes, required, forbidden, strict=True)]

    def encode(self, vocabulary: Encodes) -> TokenConstraints:
        """Return the same for an engine, in the subwords of a vocabulary; empty phrases are left out."""
        if not self:
            return UNCONSTRAINED
        phrases = (tuple(vocabulary.encode(phrase)) for phrase in self.require)
        prefix, opening = vocabulary.split_prefix(self.prefix) if self.prefix else ([], "")
        forbidden = (" ".join(word.split()) for word in self.forbid)
        return TokenConstraints(
            prefix=tuple(prefix),
            opening=opening,
            require=tuple(filter(None, phrases)),
            forbid=tuple(filter(None, forbidden)),
        )


def _each(given: Sequence[str] | Sequence[Sequence[str]] | None, count: int) -> list[tuple[str, ...]]:
    """Return the phrases of each of `count` texts."""
    if not given or isinstance(given[0], str):
        return [tuple(map(str, given or ()))] * count
    return [tuple(phrases) for phrases in given]


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
    engine: str,
    supported: Collection[Feature],
    options: SearchOptions,
    constraints: Sequence[TokenConstraints] | None = None,
) -> None:
    """Raise `Unsupported` where an engine, which supports these features, lacks one that is asked for."""
    for feature in list_features(options, constraints):
        if feature not in supported:
            reason = Message("engines.no_feature", {"engine": engine, "feature": feature})
            raise Unsupported("engines.unsupported", reason=reason)


def check_request(
    engine: str,
    supported: Collection[Feature],
    sources: Sequence[Ids],
    options: SearchOptions,
    constraints: Sequence[TokenConstraints] | None,
    numbers: Sequence[int] | None,
) -> None:
    """Raise an error where an engine lacks a feature that is asked for, or a source is too long."""
    check_support(engine, supported, options, constraints)
    check_lengths(sources, numbers)
