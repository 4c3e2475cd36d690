"""The keywords of functions that train and that translate, as types.

Nothing here runs: the values are checked where they become a recipe (recipe.py), or options and constraints of a search
and the choice of an engine (search.py).  A test compares these names with the fields of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import numpy as np

    from jumok.config.recipe import Recipe
    from jumok.config.search import Constraints, SearchOptions
    from jumok.config.sections import CleaningConfig, CorpusConfig


class DataKeywords(TypedDict, total=False):
    """The keys of a recipe's data section (`DataConfig`) except source and target; None leaves a key unchanged."""

    corpus: str | None
    pairs: int | None
    table: str | Path | None
    text: str | Path | None
    valid_source: str | Path | None
    valid_target: str | Path | None
    valid_table: str | Path | None
    valid_text: str | Path | None
    corpora: Sequence[CorpusConfig | Mapping[str, Any]] | None
    temperature: float | None
    columns: str | None
    exclude: Sequence[str] | None
    prepared: str | Path | None
    clean: CleaningConfig | Mapping[str, bool] | None
    stretch: int | None
    halves: bool | None
    hold_out: int | None
    longest: int | None
    ratio: float | None
    tokens_per_batch: int | None


class LimitKeywords(TypedDict, total=False):
    """When a run ends: at the first limit it reaches; `minutes` is a separate parameter of every function."""

    steps: int | None
    epochs: int | None
    tokens: int | None


class TrainKeywords(DataKeywords, LimitKeywords, total=False):
    """What to train, on what and for how long."""

    recipe: str | Recipe  # a name, a .toml file or a recipe; "auto" chooses one that fits the text and the time
    model: str | None  # a kind of model other than the recipe's
    changes: dict[str, Any] | None  # dotted keys of the recipe, such as {"model.dropout": 0.3}
    source_language: str | None  # BCP 47 tags; by default those that the names of the files say
    target_language: str | None


class CommonKeywords(DataKeywords, LimitKeywords, total=False):
    """What all models of a race are trained on and for how long."""

    source: str | Path | None
    target: str | Path | None
    minutes: float | None


class RaceKeywords(CommonKeywords, total=False):
    """The options of a race: see `race.contenders.contenders`."""

    seeds: Sequence[int]
    parameters: int | None
    changes: Mapping[str, Any] | None


class SamplingKeywords(TypedDict, total=False):
    """How to sample a token: see `SearchOptions`."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None


class SearchKeywords(SamplingKeywords, total=False):
    """The fields of `SearchOptions` as keywords."""

    beam: int | None
    length_penalty: float | None
    n_best: int | None
    extra_length: int | None
    min_length: int | None
    no_repeat: int | None
    groups: int | None
    diversity: float | None
    coverage: float | None
    exact: bool | None
    sample: bool | None
    mbr: int | None


class ConstraintKeywords(TypedDict, total=False):
    """The fields of `Constraints` as keywords: the same for all texts, or one for each."""

    prefix: str | Sequence[str] | None
    require: Sequence[str] | Sequence[Sequence[str]] | None
    forbid: Sequence[str] | Sequence[Sequence[str]] | None


class EngineKeywords(TypedDict, total=False):
    """The fields of `EngineOptions` as keywords."""

    engine: str
    device: str
    precision: str | None
    shortlist: bool
    deterministic: bool


class ContentKeywords(TypedDict, total=False):
    """The fields of `Contents` as keywords."""

    details: bool | None
    attention: bool | None
    align: bool | None


class EvaluateKeywords(SearchKeywords, total=False):
    """How to search, and how to score: see `evaluation.evaluate.evaluate`."""

    tokenize: str
    compare: str | None
    ter: bool
    perplexity: bool


class TranslateKeywords(SearchKeywords, ConstraintKeywords, ContentKeywords, total=False):
    """How to search, what a translation must and must not contain, and what it holds.

    `options` and `constraints` are the values that the other keywords change.
    """

    options: SearchOptions | None
    constraints: Constraints | None


class CourseKeywords(TypedDict, total=False):
    """How a search of the native engine runs (`kernels.searching.Course`), besides its options and constraints."""

    threads: int | None
    stops: int | Sequence[int] | None
    live: np.ndarray | None
    limits: Sequence[int] | None
