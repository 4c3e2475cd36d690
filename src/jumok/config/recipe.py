"""Recipe: all settings of a run as one frozen, closed and bounded value.

Read from TOML, changed with `--set training.steps=500`, saved with every run.  An unknown key, a wrong type or a
value out of bounds is a `UsageError` that names the key, the value it got and the values it takes.  The keys of the
model's section depend on its kind.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Self

import tomli_w
from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from jumok import messages
from jumok.config.kinds import KINDS
from jumok.config.sections import (
    DataConfig,
    DecodingConfig,
    LanguagesConfig,
    ModelConfig,
    Section,
    TrainingConfig,
    TransformerConfig,
    VocabularyConfig,
)
from jumok.errors import DataError, MissingPackage, UnknownName, UsageError
from jumok.extras import find_missing, hint
from jumok.messages import Message

MOST_BYTES = 100_000  # of a recipe file
MOST_DOTS = 100  # of a line: parsing a dotted key takes time that grows with the square of its parts
SHOWN = 60  # characters of a wrong value in an error


class Recipe(Section):
    """A whole run as one value."""

    name: Annotated[str, Field(pattern=r"^\w[\w.+-]{0,63}$")] = "custom"
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    languages: LanguagesConfig = Field(default_factory=LanguagesConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    vocabulary: VocabularyConfig = Field(default_factory=VocabularyConfig)
    model: SerializeAsAny[ModelConfig] = Field(default_factory=TransformerConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    decoding: DecodingConfig = Field(default_factory=DecodingConfig)

    @model_validator(mode="after")
    def check_sections(self) -> Self:
        """Refuse sections that contradict each other."""
        if self.model.tied == "all" and not self.vocabulary.joint:
            raise ValueError(messages.text("config.tied_needs_joint"))
        beam, extra_length = self.decoding.beam, self.decoding.extra_length
        if beam * extra_length > 20_000:
            raise ValueError(messages.text("config.search_too_large", beam=beam, extra_length=extra_length))
        return self

    def change(self, changes: Mapping[str, Any]) -> "Recipe":
        """A copy with dotted keys set, e.g. {"training.steps": 500}; values may be strings as typed by a user.

        Another `model.kind` replaces the section of the model and brings the changes of its `usual`.
        """
        values = self.model_dump()
        if (kind := changes.get("model.kind", self.model.kind)) != self.model.kind:
            other = find_section(kind if isinstance(kind, str) else _show(kind))
            values["model"] = other().model_dump()
            changes = {**other.usual, **changes}
        for key, value in changes.items():
            inner, parts = values, key.split(".")
            for part in parts[:-1]:
                _check_key(inner, part, key)
                inner = inner[part]
                if not isinstance(inner, dict):
                    raise UsageError("config.key_too_deep", setting=key, section=key.rpartition(".")[0], origin=key)
            _check_key(inner, parts[-1], key)
            inner[parts[-1]] = value
        return validate(values)

    def to_toml(self) -> str:
        """The recipe as a TOML file; keys without a value and unknown languages are left out."""
        values = _without_none(self.model_dump())
        if not values["languages"]:
            del values["languages"]
        return tomli_w.dumps(values)


def refuse_large(recipe: Recipe) -> None:
    """Refuse a recipe whose file could not be read back: one that names many hundred corpora."""
    if (size := len(recipe.to_toml().encode())) > MOST_BYTES:
        raise UsageError("config.too_many_corpora", corpora=len(recipe.data.corpora), size=size, most=MOST_BYTES)


def find_section(kind: str, *, origin: str = "model.kind") -> type[ModelConfig]:
    """Return the section of a recipe that describes such a model; `origin` is the file or key that named it."""
    if kind not in KINDS:
        raise UnknownName("config.unknown_model", kind, KINDS, origin=origin)
    try:
        section: type[ModelConfig] = load(KINDS[kind][1])
    except ModuleNotFoundError as error:  # the section is in the file of its model, unless it is the Transformer's
        if (module := find_missing(error)) is None:
            raise
        raise MissingPackage(
            "config.model_needs_package", kind=kind, module=module, origin=origin, advice=hint(module)
        ) from None
    return section


def load(path: str) -> Any:
    """Import what a dotted path names."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def validate(values: Mapping[str, Any], *, origin: str = "") -> Recipe:
    """The recipe these plain values describe, or a `UsageError` that names the key and the file they come from."""
    given = values.get("model", {})
    kind = given.get("kind", "transformer") if isinstance(given, Mapping) else "transformer"
    if not isinstance(kind, str):
        advice = _advise("model.kind")
        raise UsageError("config.kind_not_a_name", given=_show(kind), origin=origin or "model.kind", advice=advice)
    section = find_section(kind, origin=origin or "model.kind")
    try:
        if isinstance(given, Mapping):
            values = {**values, "model": section.model_validate(given)}
    except ValidationError as error:
        raise _explain(error, origin, section, ("model",)) from None
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise _explain(error, origin, section) from None


def read_recipe(path: str | Path, *, missing: Mapping[str, Mapping[str, Any]] | None = None) -> Recipe:
    """A recipe from a TOML file of at most 100,000 bytes; `missing` has defaults for keys that the file lacks."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError("config.recipe_too_large", file=path, limit=MOST_BYTES)
        text = path.read_text(encoding="utf-8")
        if any(line.count(".") > MOST_DOTS and not line.lstrip().startswith("#") for line in text.split("\n")):
            raise UsageError("config.recipe_line_too_deep", file=path, dots=MOST_DOTS)
        values = tomllib.loads(text)
    except OSError as error:
        raise DataError("config.cannot_read_recipe", file=path, reason=error.strerror) from None
    except (ValueError, RecursionError) as error:  # not TOML or UTF-8, too many digits, nested too deep
        raise UsageError("config.not_toml", file=path, reason=error) from None
    for name, defaults in (missing or {}).items():
        if isinstance(section_values := values.setdefault(name, {}), dict):
            values[name] = {**defaults, **section_values}
    return validate(values, origin=str(path))


def parse_assignment(text: str) -> tuple[str, Any]:
    """`training.steps=500` as ("training.steps", 500): the value is read as TOML where it is TOML, else as a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError("config.not_an_assignment", given=text)
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), None if value.strip().lower() == "none" else value.strip()


def _check_key(section: Mapping[str, Any], part: str, key: str) -> None:
    """Refuse a dotted key with a part that its section does not have."""
    if part not in section:
        raise UnknownName("config.unknown_key", part, section, origin=key)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value as TOML can write it."""
    if isinstance(value, Mapping):
        return _without_none(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _explain(
    error: ValidationError, origin: str, section: type[ModelConfig], before: tuple[str, ...] = ()
) -> UsageError:
    """The first problem that pydantic reports, as an error; `before` are the parts of the key above what it checked."""
    first = error.errors()[0]
    location = (*before, *first["loc"])
    setting = ".".join(str(part) for part in location)
    origin = origin or setting
    if first["type"] == "extra_forbidden":
        return UnknownName("config.unknown_key", str(location[-1]), _keys(location[:-1], section), origin=origin)
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] != "value_error":
        advice, reason = _advise(setting, section), f"{reason[:1].lower()}{reason[1:]}"
        given = _show(first["input"])
        return UsageError("config.bad_type", setting=setting, reason=reason, given=given, origin=origin, advice=advice)
    if _is_section(location, section):  # the message of a section names its keys and what to do
        return UsageError("config.bad_section", problem=reason, origin=origin or Message("config.the_recipe"))
    advice = _advise(setting, section)
    return UsageError("config.bad_value", setting=setting, problem=reason, origin=origin, advice=advice)


def _show(value: Any) -> str:
    """A value as an error shows it, cut off if it is long."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # more digits or more levels than Python writes
        return messages.text("config.unprintable")
    return shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"


def _advise(setting: str, section: type[ModelConfig] = TransformerConfig) -> Message:
    """A --set that is valid: the default."""
    value: Any = Recipe(model=section()).model_dump()
    for part in setting.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return Message("config.try_another_value", {"setting": setting})
    if isinstance(value, dict):
        return Message("config.try_key", {"setting": setting})
    default = str(value).lower() if isinstance(value, bool) else str(value)
    return Message("config.try_default", {"setting": setting, "default": default})


def _is_section(location: Sequence[str | int], section: type[ModelConfig]) -> bool:
    return all(isinstance(field, type) and issubclass(field, BaseModel) for field in _annotations(location, section))


def _annotations(location: Sequence[str | int], section: type[ModelConfig]) -> Iterator[Any]:
    """The types of a recipe along a key such as ("training", "steps")."""
    kind: Any = Recipe
    for part in location:
        kind = section if (kind, part) == (Recipe, "model") else kind.model_fields[str(part)].annotation
        yield kind


def _keys(location: Sequence[str | int], section: type[ModelConfig]) -> list[str]:
    """The keys that a recipe has in a section such as ("training",)."""
    *_, kind = [Recipe, *_annotations(location, section)]
    return list(kind.model_fields)
