"""How a run begins: its recipe from what was asked for, and weights of a finished run that its model begins with."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import Any, Unpack

import torch

from jumok import machine
from jumok.config import presets
from jumok.config.keywords import DataKeywords, TrainKeywords
from jumok.config.recipe import Recipe
from jumok.config.sections import DataConfig
from jumok.data import corpora
from jumok.data.prepare import folder
from jumok.errors import UsageError, check_names
from jumok.storage import bundle, checkpoint
from jumok.storage.bundle import Bundle

TEXTS = ("table", "text", "corpora", "prepared")  # keys of a data section that name a training text


def choose(
    source: str | Path | None = None,
    target: str | Path | None = None,
    *,
    minutes: float | None = None,
    begin: str | Path | None = None,
    **options: Unpack[TrainKeywords],
) -> Recipe:
    """A recipe with the user's text and limits; other options are those of a recipe and keys of its data section.

    Another `model` comes with its own section; sizes are those of the run that is begun with, if there is one.  The
    recipe "auto" is the one that fits the number of pairs, the minutes and the cores.
    """
    check_names("option", options, {*TrainKeywords.__annotations__, *signature(choose).parameters})
    recipe, model = options.get("recipe", presets.AUTO), options.get("model")
    data: Any = {name: value for name, value in options.items() if name in DataKeywords.__annotations__}
    automatic, changes = recipe == presets.AUTO, options.get("changes") or {}
    if automatic:
        asked = {"source": source, "target": target, **data}
        plain = model is None and begin is None and data.get("text") is None and data.get("prepared") is None
        recipe = presets.recommend(_count(asked), minutes, machine.cores()) if plain else "tiny"
    chosen = presets.get(recipe) if isinstance(recipe, str) else recipe
    if automatic and not {"vocabulary.size", "vocabulary.at_most"} & changes.keys():
        chosen = chosen.change({"vocabulary.at_most": True})  # nobody asked for a size, so a small text has fewer
    if model is not None and model != chosen.model.kind:
        chosen = chosen.change({"model.kind": model, "name": f"{chosen.name}-{model}"})
    if begin is not None:
        given = bundle.read(begin).recipe.model
        common = type(chosen.model).model_fields.keys() & type(given).model_fields.keys() - {"kind", "tied"}
        chosen = chosen.change({f"model.{name}": getattr(given, name) for name in sorted(common)})
    given_data = {name: str(value) if isinstance(value, Path) else value for name, value in data.items()}
    wanted: dict[str, Any] = {f"data.{name}": value for name, value in given_data.items() if value is not None}
    if isinstance(recipe, str) and recipe in presets.names():
        wanted |= corpora.usual(data.get("corpus"), data.get("text"))
    if source is not None or target is not None or any(data.get(name) is not None for name in TEXTS):
        wanted |= {"data.corpus": None, "data.source": source and str(source), "data.target": target and str(target)}
    limits = {"minutes": minutes, "epochs": options.get("epochs"), "tokens": options.get("tokens")}
    steps = options.get("steps")
    if steps is not None or any(value is not None for value in limits.values()):
        wanted |= {f"training.{name}": value for name, value in limits.items()}
        wanted["training.steps"] = 10**9 if steps is None else steps
    wanted |= changes
    return _as_prepared(chosen.change(wanted), wanted) if data.get("prepared") is not None else chosen.change(wanted)


def _count(asked: dict[str, Any]) -> int:
    """About how many pairs were named."""
    given = {
        name: str(value) if isinstance(value, Path) else value for name, value in asked.items() if value is not None
    }
    try:
        return corpora.estimate_pairs(DataConfig.model_validate(given))
    except ValueError:  # pydantic's, which `choose` says in words
        return 0


def settle(out: str | Path | None, choices: dict[str, Any]) -> tuple[dict[str, Any], Path | None, str]:
    """Choices and folder of a run whose recipe is to be chosen: in a folder that holds a run it is that run's.

    Without a folder, a run on the same text under the name of any recipe is continued.  The last value says what was
    chosen, if anything was.
    """
    if choices.get("recipe", presets.AUTO) != presets.AUTO:
        return choices, None if out is None else Path(out), ""
    fresh = choose(**choices)
    places = [Path("runs") / name for name in presets.NAMED] if out is None else [Path(out)]
    for place in places:
        if (place / "recipe.toml").is_file() and bundle.checkpoints(place):
            saved = bundle.saved_recipe(place)
            if out is not None or _texts(saved.data) == _texts(corpora.public(fresh.data)):
                return choices | {"recipe": saved}, place, f"Recipe {saved.name}: that of the run in {place}"
    pairs = _count({name: choices.get(name) for name in (*TEXTS, "source", "target", "corpus", "columns")})
    about = f"about {pairs:,} pairs, " if pairs else ""
    minutes = fresh.training.minutes
    time = f"{minutes:g} minutes, " if minutes is not None else ""
    said = f"Recipe {fresh.name}: chosen for {about}{time}{machine.cores()} cores (--recipe NAME takes another)"
    return choices | {"recipe": presets.AUTO}, None if out is None else Path(out), said


def _texts(data: DataConfig) -> list[Any]:
    """What names the training text."""
    return [getattr(data, name) for name in ("corpus", "source", "target", "table", "text", "corpora", "prepared")]


def _as_prepared(recipe: Recipe, asked: dict[str, Any]) -> Recipe:
    """The recipe with the vocabulary and the limits of a prepared folder; asking for others is an error."""
    told = folder.read_told(Path(str(recipe.data.prepared)))["request"]
    fixed = {f"vocabulary.{name}": value for name, value in told["vocabulary"].items()}
    fixed |= {f"data.{name}": told["data"][name] for name in ("longest", "ratio")}
    for name, value in fixed.items():
        if name in asked and asked[name] != value:
            raise UsageError(
                f"these data were prepared with {name}={value}",
                where=f"in {recipe.data.prepared}",
                hint=f"try: the same without {name}, or jumok data prepare --set {name}={asked[name]}",
            )
    return recipe.change(fixed | {"data.corpus": None})


@dataclass(frozen=True)
class Named:
    """Texts as they are named on the command line: the n-th source belongs to the n-th target; or tables."""

    sources: Sequence[str] | None = None
    targets: Sequence[str] | None = None
    tables: Sequence[str] | None = None


def gather(
    trained: Named,
    validating: Named = Named(),
    *,
    shares: str | None = None,
    temperature: float | None = None,
    columns: str | None = None,
    exclude: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Keywords of `choose` from texts that were named once or several times.

    Several make several corpora, tables behind the others.  Validation texts belong to all, or one to each.
    """
    pairs, tables = _paired(trained, ""), trained.tables or ()
    valid, valid_tables = _paired(validating, "valid-"), validating.tables or ()
    rest = {"temperature": temperature, "columns": columns, "exclude": tuple(exclude or ()) or None}
    several = len(pairs) + len(tables) > 1
    if shares is not None and not several:
        raise UsageError(
            "shares are those of several corpora", where="in --shares", hint="try: --source and --target twice"
        )
    if not several:
        (source, target), (valid_source, valid_target) = ([*pairs, (None, None)][0], [*valid, (None, None)][0])
        if len(valid) + len(valid_tables) > 1:
            raise UsageError("one corpus takes one validation text", where="in --valid-source")
        found = {"source": source, "target": target, "table": next(iter(tables), None), **rest}
        return found | {
            "valid_source": valid_source,
            "valid_target": valid_target,
            "valid_table": next(iter(valid_tables), None),
        }
    named: list[dict[str, Any]] = [{"source": source, "target": target} for source, target in pairs]
    named += [{"table": table} for table in tables]
    judges: list[dict[str, Any]] = [{"valid_source": source, "valid_target": target} for source, target in valid]
    judges += [{"valid_table": table} for table in valid_tables]
    common: dict[str, Any] = {}
    if len(judges) == 1:
        common = judges[0]
    elif len(judges) == len(named):
        named = [corpus | own for corpus, own in zip(named, judges, strict=True)]
    elif judges:
        what = f"{len(judges)} validation texts for {len(named)} corpora"
        raise UsageError(what, where="in --valid-source", hint="try: one for all of them, or one for each")
    if shares is not None:
        given = _numbers(shares, len(named))
        named = [corpus | {"share": share} for corpus, share in zip(named, given, strict=True)]
    return {"corpora": named, **common, **rest}


def _paired(texts: Named, prefix: str) -> list[tuple[str | None, str | None]]:
    """Sources with their targets; one that has none is told when the text is read."""
    ours, theirs = list(texts.sources or ()), list(texts.targets or ())
    if len(ours) != len(theirs) and max(len(ours), len(theirs)) > 1:
        what = f"{len(ours)} of --{prefix}source and {len(theirs)} of --{prefix}target"
        raise UsageError(what, where=f"in --{prefix}source", hint="try: a target for each source, in the same order")
    return list(zip_longest(ours, theirs))


def _numbers(words: str, count: int) -> list[float]:
    """Numbers above 0 between commas, as many as there are corpora."""
    try:
        found = [float(word) for word in words.split(",")]
    except ValueError:
        found = []
    if len(found) != count or not all(0.0 < share < 1e9 for share in found):
        hint = f"try: --shares {','.join(['1'] * count)}"
        raise UsageError(f"{words!r} are not {count} numbers above 0", where="in --shares", hint=hint)
    return found


@torch.no_grad()
def inherit(found: Bundle, model: torch.nn.Module) -> None:
    """Give a new model the weights of a finished one, by name, wherever they fit."""
    given, fitting = checkpoint.with_model(found).model.state_dict(), 0
    for name, tensor in checkpoint.weights(model).items():
        if name in given and given[name].shape == tensor.shape:
            tensor.copy_(given[name])
            fitting += 1
    if not fitting:
        raise UsageError(
            f"no weight of a {found.recipe.model.kind} fits into this model",
            where=f"in {found.folder}",
            hint="try: the same sizes, or another --from",
        )
