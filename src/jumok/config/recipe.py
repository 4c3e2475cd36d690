"""Recipe: everything one can choose about a run, as one frozen, closed and bounded value.

Read from TOML, changed with `--set training.steps=500`, saved with every run.  An unknown key, a wrong type or a
value out of bounds is a `UsageError` that says which key, what it got and what it takes.  Which keys the
model's section has is known from its kind.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import tomli_w
from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from jumok.config.kinds import find_section
from jumok.config.sections import (
    DataConfig,
    DecodingConfig,
    ModelConfig,
    Section,
    TrainingConfig,
    TransformerConfig,
    VocabularyConfig,
)
from jumok.errors import DataError, UnknownName, UsageError

DOTS = 100  # in a line: the time that a key of many parts takes grows with their square


class Recipe(Section):
    """A whole run as one value."""

    name: Annotated[str, Field(pattern=r"^\w[\w.+-]{0,63}$")] = "custom"
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    data: DataConfig = DataConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    model: SerializeAsAny[ModelConfig] = TransformerConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def parts_fit(self) -> Self:
        if self.model.tied == "all" and not self.vocabulary.joint:
            raise ValueError(
                "model.tied='all' shares one matrix between both languages, which needs vocabulary.joint=true; "
                "set model.tied=target"
            )
        if self.decoding.beam * self.decoding.extra_length > 20_000:
            raise ValueError(
                f"decoding.beam={self.decoding.beam} with decoding.extra_length={self.decoding.extra_length} is more "
                "than a search can do; set decoding.extra_length=50"
            )
        return self

    def change(self, changes: Mapping[str, Any], *, where: str = "") -> "Recipe":
        """A copy with dotted keys set, e.g. {"training.steps": 500}; values may be strings as typed by a user.

        Another `model.kind` brings that model's own section, and what it is usually trained with.
        """
        values = self.model_dump()
        if (kind := changes.get("model.kind", self.model.kind)) != self.model.kind:
            other = find_section(kind if isinstance(kind, str) else _shown(kind)[:60], where=where or "in model.kind")
            values["model"] = other().model_dump()
            changes = {**other.usual, **changes}
        for key, value in changes.items():
            inner, parts = values, key.split(".")
            for part in parts[:-1]:
                inner = _known(inner, part, key, where)[part]
                if not isinstance(inner, dict):
                    what = f"{key!r} goes deeper than the recipe does"
                    raise UsageError(what, where=where or f"in {key}", hint=f"try: --set {key.rpartition('.')[0]}=…")
            _known(inner, parts[-1], key, where)
            inner[parts[-1]] = value
        return validate(values, where=where)

    def to_toml(self) -> str:
        return tomli_w.dumps(_without_none(self.model_dump()))


def validate(values: Mapping[str, Any], *, where: str = "") -> Recipe:
    """The recipe these plain values describe, or a `UsageError` that names the key."""
    given = values.get("model", {})
    kind = given.get("kind", "transformer") if isinstance(given, Mapping) else "transformer"
    if not isinstance(kind, str):
        what = f"model.kind: it is the name of a model; got {_shown(kind)[:60]}"
        raise UsageError(what, where=where or "in model.kind", hint=_hint("model.kind"))
    sort = find_section(kind, where=where or "in model.kind")
    try:
        if isinstance(given, Mapping):
            values = {**values, "model": sort.model_validate(given)}
    except ValidationError as error:
        raise _explain(error, where, sort, ("model",)) from None
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise _explain(error, where, sort) from None


def read_recipe(path: str | Path, *, missing: Mapping[str, Mapping[str, Any]] | None = None) -> Recipe:
    """A recipe from a TOML file of at most 100,000 bytes; `missing` are values for keys of sections that it lacks."""
    path = Path(path)
    try:
        if path.stat().st_size > 100_000:
            raise UsageError("a recipe of more than 100,000 bytes is no recipe", where=f"in {path}")
        text = path.read_text(encoding="utf-8")
        if any(line.count(".") > DOTS and not line.lstrip().startswith("#") for line in text.split("\n")):
            raise UsageError(f"a line with more than {DOTS} dots is no line of a recipe", where=f"in {path}")
        values = tomllib.loads(text)
    except OSError as error:
        hint = "try: --recipe tiny, or the name of a file that is there"
        raise DataError(f"cannot read the recipe: {error.strerror}", where=f"in {path}", hint=hint) from None
    except (ValueError, RecursionError) as error:  # not TOML or UTF-8, endless digits, nested too deep
        hint = "try: a file of lines such as seed = 1, then [training], then steps = 500"
        raise UsageError(f"not a TOML file: {error}", where=f"in {path}", hint=hint) from None
    for name, defaults in (missing or {}).items():
        if isinstance(section_values := values.setdefault(name, {}), dict):
            values[name] = {**defaults, **section_values}
    return validate(values, where=f"in {path}")


def parse_assignment(text: str) -> tuple[str, Any]:
    """`training.steps=500` as ("training.steps", 500): the value is read as TOML where it is TOML, else as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set takes KEY=VALUE, got {text!r}", where="in --set", hint="try: --set training.steps=500")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), None if value.strip().lower() == "none" else value.strip()


def _known(section: Mapping[str, Any], part: str, key: str, where: str) -> Mapping[str, Any]:
    if part not in section:
        raise UnknownName("recipe key", part, section, where=where or f"in {key}")
    return section


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value as TOML can write it."""
    if isinstance(value, Mapping):
        return _without_none(value)
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _explain(error: ValidationError, where: str, sort: type[ModelConfig], before: tuple[str, ...] = ()) -> UsageError:
    """The first complaint of pydantic as what, where, what to do; `before` is where in a recipe it was met."""
    first = error.errors()[0]
    location = (*before, *first["loc"])
    key = ".".join(str(part) for part in location)
    if first["type"] == "extra_forbidden":
        return UnknownName("recipe key", str(location[-1]), _keys(location[:-1], sort), where=where or f"in {key}")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] != "value_error":
        given = _shown(first["input"])
        message = f"{message[:1].lower()}{message[1:]}; got {given if len(given) <= 60 else given[:59] + '…'}"
    elif _is_section(location, sort):  # the message of a section names its keys and says what to do
        return UsageError(message, where=where or (f"in {key}" if key else "in the recipe"))
    return UsageError(f"{key}: {message}", where=where or f"in {key}", hint=_hint(key, sort))


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes; deeper than it goes
        return "something endless"


def _hint(key: str, sort: type[ModelConfig] = TransformerConfig) -> str:
    """A --set that is valid: the default."""
    value: Any = Recipe(model=sort()).model_dump()
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict):
        return f"try: --set {key}=… with another value" if value is None else f"try: --set {key}.KEY=VALUE"
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"try: --set {key}={shown}, the default"


def _is_section(location: Sequence[str | int], sort: type[ModelConfig]) -> bool:
    return all(isinstance(field, type) and issubclass(field, BaseModel) for field in _annotations(location, sort))


def _annotations(location: Sequence[str | int], sort: type[ModelConfig]) -> Iterator[Any]:
    """The types a recipe has along a place such as ("training", "steps")."""
    kind: Any = Recipe
    for part in location:
        kind = sort if (kind, part) == (Recipe, "model") else kind.model_fields[str(part)].annotation
        yield kind


def _keys(location: Sequence[str | int], sort: type[ModelConfig]) -> list[str]:
    """Names a recipe knows at a place such as ("training",)."""
    *_, kind = [Recipe, *_annotations(location, sort)]
    return list(kind.model_fields)
