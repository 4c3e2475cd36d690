"""Who runs in a race: the same data, vocabulary, budget and seeds for all; each with its own model and what suits it.

    field = contenders("tiny", ["transformer", "rnn"], seeds=[1], minutes=15, data={…})

A race is a folder: NAME/ a run of each contender, NAME.toml its recipe, race.json what was raced, report.html and
report.json what came of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from jumok.config.keywords import CommonKeywords
from jumok.config.recipe import Recipe
from jumok.config.sections import ModelConfig
from jumok.errors import UsageError
from jumok.runs.choose import choose

STEPS = [number / 16 for number in range(4, 65)]  # factors by which widths may change: a quarter to four times
GRAIN = 16  # widths stay multiples of it
FAR = 0.15  # of the wanted number of weights, at most


class Contender(NamedTuple):
    """A run of the race."""

    name: str
    recipe: Recipe


def contenders(
    recipe: str | Recipe,
    models: Sequence[str],
    *,
    seeds: Sequence[int] = (1,),
    parameters: int | None = None,
    changes: Mapping[str, Any] | None = None,
    **chosen: Unpack[CommonKeywords],
) -> list[Contender]:
    """A contender for each model and seed, models in turn; with `parameters`, each as wide as makes so many weights.

    Vocabulary and data are the recipe's for all of them; `chosen` as in `choose`.
    """
    doubled = sorted({name for name in models if list(models).count(name) > 1})
    if not models:
        raise UsageError("race.no_models")
    if doubled:
        raise UsageError("race.repeated_model", model=doubled[0])
    common = choose(recipe=recipe, changes=dict(changes or {}), **chosen)
    field = []
    for seed in seeds:
        for model in models:
            own = choose(recipe=recipe, model=model, changes=dict(changes or {}), **chosen)
            own = own.model_copy(update={"vocabulary": common.vocabulary, "data": common.data})
            if parameters is not None:
                own = own.model_copy(update={"model": scaled(own.model, parameters, own.vocabulary.size)})
            name = model if len(seeds) == 1 else f"{model}-{seed}"
            field.append(Contender(name, own.change({"name": name, "seed": seed})))
    return field


def scaled(model: ModelConfig, parameters: int, symbols: int) -> ModelConfig:
    """The model with all its widths changed alike, so that it has nearly so many weights."""
    widths = [name for name, value in model if name.startswith("d_") and isinstance(value, int)]
    tried = []
    for factor in STEPS:
        sizes = {name: max(GRAIN, round(getattr(model, name) * factor / GRAIN) * GRAIN) for name in widths}
        try:
            other = type(model).model_validate(model.model_dump() | sizes)
        except ValueError:  # heads that do not divide this width
            continue
        tried.append((abs(other.parameters(symbols, symbols) / parameters - 1.0), factor, other))
    distance, _, best = min(tried, key=lambda one: one[:2])
    if distance > FAR:
        count = best.parameters(symbols, symbols)
        raise UsageError("race.unreachable_size", kind=model.kind, parameters=parameters, nearest=count)
    return best
