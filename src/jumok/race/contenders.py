"""The contenders of a race: the same data, vocabulary, budget and seeds for all, each with its own model.

    field = contenders("tiny", ["transformer", "rnn"], seeds=[1], minutes=15, data={…})

A race is a folder: NAME/ is the run of a contender, NAME.toml its recipe, race.json describes the race, and report.html
and report.json are its results.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from jumok.config.keywords import CommonKeywords
from jumok.config.recipe import Recipe
from jumok.config.sections import ModelConfig
from jumok.errors import UsageError
from jumok.runs.choose import choose

STEPS = [number / 16 for number in range(4, 65)]  # factors by which widths may change: from a quarter to four times
GRAIN = 16  # widths are multiples of it
FAR = 0.15  # largest relative distance from the wanted number of weights


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
    """A contender for each seed and model; with `parameters`, widths are chosen to give about that many weights.

    All have the vocabulary and data of the recipe; `chosen` as in `choose`.
    """
    repeated = sorted({name for name in models if list(models).count(name) > 1})
    if not models:
        raise UsageError("race.no_models")
    if repeated:
        raise UsageError("race.repeated_model", model=repeated[0])
    common = choose(recipe=recipe, changes=dict(changes or {}), **chosen)
    field = []
    for seed in seeds:
        for model in models:
            own = choose(recipe=recipe, model=model, changes=dict(changes or {}), **chosen)
            own = own.model_copy(update={"vocabulary": common.vocabulary, "data": common.data})
            if parameters is not None:
                own = own.model_copy(update={"model": scale_widths(own.model, parameters, own.vocabulary.size)})
            name = model if len(seeds) == 1 else f"{model}-{seed}"
            field.append(Contender(name, own.change({"name": name, "seed": seed})))
    return field


def scale_widths(model: ModelConfig, parameters: int, symbols: int) -> ModelConfig:
    """The model with all widths multiplied by one factor, so that it has about this many weights."""
    widths = [name for name, value in model if name.startswith("d_") and isinstance(value, int)]
    candidates = []
    for factor in STEPS:
        sizes = {name: max(GRAIN, round(getattr(model, name) * factor / GRAIN) * GRAIN) for name in widths}
        try:
            other = type(model).model_validate(model.model_dump() | sizes)
        except ValueError:  # heads that do not divide this width
            continue
        candidates.append((abs(other.parameters(symbols, symbols) / parameters - 1.0), factor, other))
    distance, _, best = min(candidates, key=lambda candidate: candidate[:2])
    if distance > FAR:
        count = best.parameters(symbols, symbols)
        raise UsageError("race.unreachable_size", kind=model.kind, parameters=parameters, nearest=count)
    return best
