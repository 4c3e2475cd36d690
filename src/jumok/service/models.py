"""The models that are served: a fixed list, by name, and which of them translates between two languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumok.config.search import SearchOptions
from jumok.errors import UsageError
from jumok.service.errors import UnknownModel, UnknownPair

PAIR = re.compile(r"([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*)-([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)*)")


@dataclass(frozen=True)
class ModelEntry:
    """A model of the list, before it is loaded."""

    name: str
    folder: str
    follow: bool = False
    named: bool = True  # whether the user chose the name


@dataclass(frozen=True)
class ServedModel:
    """A model as the service knows it."""

    name: str
    source: str | None = None  # BCP 47 tag; None where the model does not know
    target: str | None = None
    digest: str = ""  # sha256 of the weights
    card: Mapping[str, Any] | None = None
    texts: tuple[str, ...] = ()  # names of the texts that it has learned from
    kind: str = "transformer"
    generates: bool = False  # a language model, which has no source
    engine: str | None = None  # of the native process; None where everything needs torch
    features: frozenset[str] = frozenset()  # of the native engine
    calls: frozenset[str] = frozenset()
    options: SearchOptions = field(default_factory=SearchOptions)  # the recipe's
    ready: bool = False

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target; None where the model does not know."""
        return None if self.source is None or self.target is None else (self.source, self.target)

    @property
    def pair(self) -> str:
        return f"{self.source or '?'}-{self.target or '?'}"


def read_entries(given: Sequence[str], follow: Iterable[str] = ()) -> list[ModelEntry]:
    """Return the models that `name=folder` or `folder` name; without a name, that of the folder."""
    entries: dict[str, ModelEntry] = {}
    for text, following in [*((text, False) for text in given), *((text, True) for text in follow)]:
        name, equals, folder = text.partition("=")
        if not equals or not re.fullmatch(r"[\w.-]+", name):
            name, folder = Path(text).absolute().name, text
        if name in entries:
            raise UsageError("service.two_models", model=name, first=entries[name].folder, second=folder)
        entries[name] = ModelEntry(name, folder, following, named=folder != text)
    if not entries:
        raise UsageError("service.no_models")
    return list(entries.values())


def describe_model(entry: ModelEntry, values: Mapping[str, Any]) -> ServedModel:
    """Return the model that an engine process has loaded; a name such as en-de overrides its languages."""
    if not values.get("digest"):
        return ServedModel(entry.name)
    languages = values["languages"] or (None, None)
    if entry.named and (match := PAIR.fullmatch(entry.name)):
        languages = tuple(tag.replace("_", "-") for tag in match.groups())
    beam, length_penalty, extra_length = values["options"]
    return ServedModel(
        name=entry.name,
        source=languages[0],
        target=languages[1],
        digest=values["digest"],
        card=values["card"],
        texts=tuple(values["texts"]),
        kind=values["kind"],
        generates=values["text"],
        engine=values["engine"],
        features=frozenset(values["features"]),
        calls=frozenset(values["calls"]),
        options=SearchOptions(beam=beam, length_penalty=length_penalty, extra_length=extra_length),
        ready=True,
    )


def find(models: Mapping[str, ServedModel], name: str) -> ServedModel:
    """Return the model of a name."""
    if name not in models:
        raise UnknownModel("service.unknown_model", model=name, names=", ".join(models))
    return models[name]


def route(
    models: Mapping[str, ServedModel], source: str | None, target: str | None, name: str | None = None
) -> ServedModel:
    """Return the model of a name, or the first that translates between two languages; None means any.

    A tag fits a model that has the same tag, or else the same language without region and script.
    """
    some = [find(models, name)] if name is not None else list(models.values())
    for exact in (True, False):
        for model in some:
            if _fits(source, model.source, exact) and _fits(target, model.target, exact):
                return model
    pairs = ", ".join(dict.fromkeys(model.pair for model in some))
    raise UnknownPair("service.unknown_pair", source=source or "any", target=target or "any", pairs=pairs)


def _fits(asked: str | None, has: str | None, exact: bool) -> bool:
    if asked is None:
        return True
    if has is None:
        return False
    one, other = asked.casefold(), has.casefold()
    return one == other if exact else one.partition("-")[0] == other.partition("-")[0]
