"""The recipe of a run from the options of the user, and weights from a finished run for a new model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch

from jumok import machine
from jumok.config import presets
from jumok.config.recipe import Recipe, refuse_large
from jumok.config.sections import DataConfig
from jumok.data import resolve
from jumok.data.languages import find_languages
from jumok.data.prepare import folder
from jumok.errors import UnknownName, UsageError
from jumok.storage import bundle, checkpoint
from jumok.storage.bundle import Bundle
from jumok.storage.checkpoint import RunFolder
from jumok.text.languages import canonical

if TYPE_CHECKING:
    from jumok.config.keywords import TrainKeywords

DATA = DataConfig.model_fields.keys() - {"source", "target"}  # options that are keys of the data section
OPTIONS = {
    *DATA, "source", "target", "source_language", "target_language", "minutes", "steps", "epochs", "tokens", "begin",
    "recipe", "model", "changes",
}  # fmt: skip
TEXTS = ("table", "text", "corpora", "prepared")  # keys of the data section that name a training text


def choose(
    source: str | Path | None = None,
    target: str | Path | None = None,
    *,
    minutes: float | None = None,
    begin: str | Path | None = None,
    **options: Unpack[TrainKeywords],
) -> Recipe:
    """A recipe with the user's text and limits; further options are keys of its data section and limits.

    Another `model` comes with its own section; `begin` is a finished run whose sizes the model gets.  The recipe "auto"
    stands for the one that fits the number of pairs, the minutes and the cores.
    """
    for name in options.keys() - OPTIONS:
        raise UnknownName("runs.unknown_option", name, OPTIONS)
    recipe, model = options.get("recipe", presets.AUTO), options.get("model")
    data: Any = {name: value for name, value in options.items() if name in DATA}
    automatic, changes = recipe == presets.AUTO, options.get("changes") or {}
    if automatic:
        recipe, _ = recommend({"source": source, "target": target, "minutes": minutes, "begin": begin, **options})
    chosen = presets.get(recipe) if isinstance(recipe, str) else recipe
    if automatic:
        changes = _allow_fewer({"changes": changes, **data})
    if model is not None and model != chosen.model.kind:
        chosen = chosen.change({"model.kind": model, "name": f"{chosen.name}-{model}"})
    saved = None if begin is None else bundle.read(begin)
    if saved is not None:
        given = saved.recipe.model
        common = type(chosen.model).model_fields.keys() & type(given).model_fields.keys() - {"kind", "tied"}
        chosen = chosen.change({f"model.{name}": getattr(given, name) for name in sorted(common)})
    given_data = {name: str(value) if isinstance(value, Path) else value for name, value in data.items()}
    wanted: dict[str, Any] = {f"data.{name}": value for name, value in given_data.items() if value is not None}
    if isinstance(recipe, str) and recipe in presets.names():
        wanted |= resolve.suggest_settings(data.get("corpus"), data.get("text"))
    if source is not None or target is not None or any(data.get(name) is not None for name in TEXTS):
        wanted |= {"data.corpus": None, "data.source": source and str(source), "data.target": target and str(target)}
    limits = {"minutes": minutes, "epochs": options.get("epochs"), "tokens": options.get("tokens")}
    steps = options.get("steps")
    if steps is not None or any(value is not None for value in limits.values()):
        wanted |= {f"training.{name}": value for name, value in limits.items()}
        wanted["training.steps"] = 10**9 if steps is None else steps
    for side in ("source", "target"):
        if (language := options.get(f"{side}_language")) is not None:
            wanted[f"languages.{side}"] = canonical(str(language))
    wanted |= changes
    if saved is not None:
        wanted |= _pass_on_languages(saved, chosen.change(wanted))
    chosen = chosen.change(wanted)
    refuse_large(chosen)
    return _as_prepared(chosen, wanted) if data.get("prepared") is not None else chosen


def _pass_on_languages(saved: Bundle, recipe: Recipe) -> dict[str, Any]:
    """Return changes to a recipe that give it the languages of an earlier model, where nothing else names them."""
    if saved.languages is None or recipe.languages.pair is not None or find_languages(recipe.data) is not None:
        return {}
    pairs = zip(("source", "target"), saved.languages, strict=True)
    return {f"languages.{side}": tag for side, tag in pairs if getattr(recipe.languages, side) is None}


def recommend(asked: dict[str, Any], *, fetched: Path = Path("fetched")) -> tuple[str, int]:
    """The name of the recipe that fits these options of `choose`, and the approximate number of pairs, 0 if unknown.

    Files at addresses are looked at in the folder `fetched`, if they are there.
    """
    if any(asked.get(name) is not None for name in ("model", "begin", "text")):
        return "tiny", 0
    from jumok.data import sizes  # only a recipe that is chosen automatically depends on the size of a text

    given = {name: asked.get(name) for name in (*TEXTS, "source", "target", "corpus", "columns", "pairs")}
    given = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    try:
        section = DataConfig.model_validate({name: value for name, value in given.items() if value is not None})
        pairs = sizes.estimate_pairs(section, fetched=fetched)
    except ValueError:  # raised by pydantic; `choose` reports it later
        pairs = 0
    return presets.recommend(pairs, asked.get("minutes"), machine.cores()), pairs


def settle(out: str | Path | None, choices: dict[str, Any]) -> tuple[dict[str, Any], Path | None, str]:
    """Settle the recipe "auto": the options with its recipe, the folder, and a line that says why.

    A folder that holds a run keeps the recipe of that run, and no text is looked at.  Without a folder, a run on the
    same text in the folder of any recipe is continued.  Options with another recipe come back as they are.
    """
    if choices.get("recipe", presets.AUTO) != presets.AUTO:
        return choices, None if out is None else Path(out), ""
    folders = [Path("runs") / name for name in presets.NAMED] if out is None else [Path(out)]
    named: list[Any] | None = None
    for path in folders:
        if (path / "recipe.toml").is_file() and bundle.checkpoints(path):
            saved = bundle.saved_recipe(path)
            if out is None and named is None:
                named = _texts(resolve.redact_addresses(choose(**choices | {"recipe": "tiny"}).data))
            if out is not None or _texts(saved.data) == named:
                return choices | {"recipe": saved}, path, f"Recipe {saved.name}: that of the run in {path}"
    fetched = Path("fetched") if out is None else RunFolder(out).data / "fetched"
    name, pairs = recommend(choices, fetched=fetched)
    settled = choices | {"recipe": name, "changes": _allow_fewer(choices)}
    fresh = choose(**settled)
    minutes = fresh.training.minutes
    about = f"about {pairs:,} pairs, " if pairs else ""
    time = f"{minutes:g} minutes, " if minutes is not None else ""
    why = f"Recipe {fresh.name}: chosen for {about}{time}{machine.cores()} cores (--recipe NAME takes another)"
    return settled, None if out is None else Path(out), why


def _allow_fewer(choices: dict[str, Any]) -> dict[str, Any]:
    """The changes to a recipe that was chosen automatically: a small text may have fewer subwords."""
    changes = dict(choices.get("changes") or {})
    if choices.get("prepared") is not None or {"vocabulary.size", "vocabulary.at_most"} & changes.keys():
        return changes
    return {"vocabulary.at_most": True, **changes}


def _texts(data: DataConfig) -> list[Any]:
    """The values that name the training text."""
    return [getattr(data, name) for name in ("corpus", "source", "target", "table", "text", "corpora", "prepared")]


def _as_prepared(recipe: Recipe, asked: dict[str, Any]) -> Recipe:
    """The recipe with the vocabulary and the limits of a prepared folder; asking for others is an error."""
    prepared_with = folder.read_summary(Path(str(recipe.data.prepared)))["request"]
    fixed = {f"vocabulary.{name}": value for name, value in prepared_with["vocabulary"].items()}
    fixed |= {f"data.{name}": prepared_with["data"][name] for name in ("longest", "ratio")}
    for name, value in fixed.items():
        if name in asked and asked[name] != value:
            raise UsageError(
                "runs.prepared_otherwise",
                setting=name,
                prepared=value,
                wanted=asked[name],
                folder=recipe.data.prepared,
            )
    return recipe.change(fixed | {"data.corpus": None})


@dataclass(frozen=True)
class Named:
    """Texts as named on the command line: sources with targets in the same order, and tables."""

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

    Several texts are several corpora, tables last.  One validation text is for all of them, or there is one for each.
    """
    pairs, tables = _paired(trained, ""), trained.tables or ()
    valid, valid_tables = _paired(validating, "valid-"), validating.tables or ()
    rest = {"temperature": temperature, "columns": columns, "exclude": tuple(exclude or ()) or None}
    several = len(pairs) + len(tables) > 1
    if shares is not None and not several:
        raise UsageError("runs.shares_of_one")
    if not several:
        (source, target), (valid_source, valid_target) = ([*pairs, (None, None)][0], [*valid, (None, None)][0])
        if len(valid) + len(valid_tables) > 1:
            raise UsageError("runs.one_validation_text")
        return {
            "source": source,
            "target": target,
            "table": next(iter(tables), None),
            **rest,
            "valid_source": valid_source,
            "valid_target": valid_target,
            "valid_table": next(iter(valid_tables), None),
        }
    named: list[dict[str, Any]] = [{"source": source, "target": target} for source, target in pairs]
    named += [{"table": table} for table in tables]
    texts: list[dict[str, Any]] = [{"valid_source": source, "valid_target": target} for source, target in valid]
    texts += [{"valid_table": table} for table in valid_tables]
    common: dict[str, Any] = {}
    if len(texts) == 1:
        common = texts[0]
    elif len(texts) == len(named):
        named = [corpus | text for corpus, text in zip(named, texts, strict=True)]
    elif texts:
        raise UsageError("runs.validation_texts", texts=len(texts), corpora=len(named))
    if shares is not None:
        given = _numbers(shares, len(named))
        named = [corpus | {"share": share} for corpus, share in zip(named, given, strict=True)]
    return {"corpora": named, **common, **rest}


def _paired(texts: Named, prefix: str) -> list[tuple[str | None, str | None]]:
    """Sources with their targets; a single text without its other side is an error when it is read."""
    sources, targets = list(texts.sources or ()), list(texts.targets or ())
    if len(sources) != len(targets) and max(len(sources), len(targets)) > 1:
        raise UsageError("runs.unpaired", sources=len(sources), targets=len(targets), prefix=prefix)
    return list(zip_longest(sources, targets))


def _numbers(words: str, count: int) -> list[float]:
    """Numbers above 0 between commas, as many as there are corpora."""
    try:
        shares = [float(word) for word in words.split(",")]
    except ValueError:
        shares = []
    if len(shares) != count or not all(0.0 < share < 1e9 for share in shares):
        raise UsageError("runs.bad_shares", given=words, count=count, example=",".join(["1"] * count))
    return shares


@torch.no_grad()
def inherit(begin: Bundle, model: torch.nn.Module) -> None:
    """Give a new model the weights of a finished one that have the same name and shape."""
    given, fitting = checkpoint.with_model(begin).model.state_dict(), 0
    for name, tensor in checkpoint.weights(model).items():
        if name in given and given[name].shape == tensor.shape:
            tensor.copy_(given[name])
            fitting += 1
    if not fitting:
        raise UsageError("runs.nothing_fits", kind=begin.recipe.model.kind, folder=begin.folder)
