"""The keywords of functions that train: keys of a recipe's data section, its limits, and which model.

They are types only; the values are checked where they become a recipe (recipe.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from jumok.config.recipe import Recipe
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
