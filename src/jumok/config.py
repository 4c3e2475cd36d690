"""Recipe: everything one can choose about a run, as one frozen, closed and bounded value.

Read from TOML, changed with `--set training.steps=500`, saved with every run.  An unknown key, a wrong type or a
value out of bounds is a `UsageError` that says which key, what it got and what it takes.  Every default of
`TransformerConfig` is the paper's base model.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from jumok.errors import DataError, UnknownName, UsageError

DOTS = 100  # in a line: the time that a key of many parts takes grows with their square
Count = Annotated[int, Field(ge=1, le=10**12)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=256)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Rate = Annotated[float, Field(gt=0.0, le=100.0)]


class Section(BaseModel):
    """A part of a recipe: cannot be changed after it is made, knows only its own keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def yes_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for 1; a recipe does not."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError(f"true and false are no value for it; got {str(value).lower()}")
        return value


class DataConfig(Section):
    """Which sentence pairs, which of them are kept, and how they are put into batches."""

    corpus: str | None = None  # a corpus jumok makes itself: phrasebook, copy, reverse, sort
    pairs: Annotated[int, Field(ge=100, le=10**9)] = 50_000  # how many pairs of it
    source: str | None = None  # the user's own files, one sentence a line
    target: str | None = None
    table: str | None = None  # or one .tsv or .jsonl with both sides
    valid_source: str | None = None
    valid_target: str | None = None
    valid_table: str | None = None
    hold_out: Annotated[int, Field(ge=1, le=100_000)] = 1_000  # pairs held out where no validation set is given
    longest: Annotated[int, Field(ge=1, le=4_096)] = 200  # subwords a side; longer pairs are left out of training
    ratio: Annotated[float, Field(ge=1.0, le=1_000.0)] = 9.0  # of the two lengths in subwords
    tokens_per_batch: Annotated[int, Field(ge=16, le=10**7)] = 4_096  # padded tokens a side that go through at once


class VocabularyConfig(Section):
    """Subwords, trained on the corpus itself."""

    size: Annotated[int, Field(ge=265, le=256_000)] = 8_000  # 8 specials, 256 bytes, and a character at least
    kind: Literal["unigram", "bpe"] = "unigram"
    joint: bool = True  # one vocabulary for both languages
    sentences: Annotated[int, Field(ge=100, le=10**8)] = 1_000_000  # sampled from the corpus to learn it
    sampling: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0  # how freely words are cut in training; grows with dropout


class TransformerConfig(Section):
    """One row of table 3.  Every default is the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    d_model: Size = 512
    d_ff: Size = 2048
    heads: Annotated[int, Field(ge=1, le=1_024)] = 8
    d_k: Size | None = None  # width of a query and key; d_model / heads unless chosen (table 3, rows A and B)
    d_v: Size | None = None
    dropout: Share = 0.1
    norm: Literal["layer", "rms", "batch", "none"] = "layer"
    norm_place: Literal["post", "pre"] = "post"  # the paper is post; pre trains without warm-up
    positions: Literal["sinusoidal", "learned", "rotary", "appended", "none"] = "sinusoidal"
    join: Literal["add", "concatenate"] = "add"  # how positions meet embeddings
    longest: Annotated[int, Field(ge=8, le=65_536)] = 1_024  # learned positions there are
    score: Literal["scaled-dot", "dot", "additive"] = "scaled-dot"
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    residual: bool = True
    bias: bool = True  # in the projections of attention
    tied: Literal["all", "target", "none"] = "all"  # embeddings shared with the output: both sides, target only

    @property
    def key_width(self) -> int:
        return self.d_k or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        return self.d_v or self.d_model // self.heads

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        if (self.d_k is None or self.d_v is None) and self.d_model % self.heads:
            nearest = self.d_model // self.heads * self.heads + self.heads
            raise ValueError(
                f"d_model={self.d_model} cannot be split into heads={self.heads} equal heads; "
                f"choose a multiple of {self.heads}, such as {nearest}, or set d_k and d_v"
            )
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(f"rotary positions turn pairs of coordinates; d_k={self.key_width} must be even")
        if self.positions == "appended" and self.join != "concatenate":
            raise ValueError("the step number t is appended, not added; set model.join=concatenate too")
        if self.positions in ("rotary", "none") and self.join != "add":
            raise ValueError(f"positions={self.positions!r} has nothing to concatenate; set model.join=add")
        return self


class TrainingConfig(Section):
    """How long, how fast, and what is kept."""

    steps: Count = 100_000  # the first limit that is reached ends the run
    epochs: Count | None = None
    minutes: Annotated[float, Field(gt=0.0, le=10**6)] | None = None
    until_bleu: Annotated[float, Field(gt=0.0, le=100.0)] | None = None
    optimizer: Literal["adam", "muon"] = "adam"  # muon: orthogonal moves for the matrices, Adam for the rest
    schedule: Literal["noam", "constant", "linear", "cosine"] = "noam"  # all but noam end with the steps or minutes
    peak: Rate | None = None  # the highest learning rate; equation 3 sets its own when none is given
    warmup: Annotated[int, Field(ge=0, le=10**7)] = 4_000
    beta1: Share = 0.9
    beta2: Share = 0.98
    epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    clip: Annotated[float, Field(ge=0.0, le=10**6)] = 1.0  # largest norm of the gradient; 0 is off
    label_smoothing: Share = 0.1
    dropout_epochs: Annotated[int, Field(ge=0, le=10_000)] = (
        0  # passes over which dropout grows to the model's; 0: at once
    )
    word_dropout: Share = 0.0  # of the words of source and target that the model sees as unknown; grows with dropout
    tokens_per_update: Annotated[int, Field(ge=16, le=10**8)] = 25_000  # gradients add up until this many tokens
    validations: Annotated[int, Field(ge=1, le=10_000)] = 20  # in the whole run, evenly spaced
    validate_every: Count | None = None  # steps; takes the place of `validations`
    valid_pairs: Annotated[int, Field(ge=1, le=10**6)] = 2_000  # at most this many are scored in training
    patience: Annotated[int, Field(ge=0, le=10_000)] = 0  # validations without a better loss or BLEU; 0 never stops
    average: Annotated[int, Field(ge=1, le=100)] = 5  # the final model is the mean of this many last checkpoints
    ema: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0  # decay of a running mean of the weights; 0 is off
    precision: Literal["float32", "bf16"] = "float32"
    compile: bool = False


class DecodingConfig(Section):
    """How a translation is searched for; the paper's choices."""

    beam: Annotated[int, Field(ge=1, le=1_000)] = 4
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6  # alpha of ((5 + n) / 6)^alpha
    extra_length: Annotated[int, Field(ge=1, le=10_000)] = 50  # output may be this much longer than the input


class Recipe(Section):
    """A whole run as one value."""

    name: Annotated[str, Field(pattern=r"^\w[\w.+-]{0,63}$")] = "custom"
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    data: DataConfig = DataConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    model: TransformerConfig = TransformerConfig()
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
        """A copy with dotted keys set, e.g. {"training.steps": 500}; values may be strings as typed by a user."""
        values = self.model_dump()
        for key, value in changes.items():
            section, parts = values, key.split(".")
            for part in parts[:-1]:
                section = _known(section, part, key, where)[part]
                if not isinstance(section, dict):
                    what = f"{key!r} goes deeper than the recipe does"
                    raise UsageError(what, where=where or f"in {key}", hint=_hint(key.partition(f".{parts[-1]}")[0]))
            _known(section, parts[-1], key, where)
            section[parts[-1]] = value
        return validate(values, where=where)

    def to_toml(self) -> str:
        return tomli_w.dumps(_without_none(self.model_dump()))


def validate(values: Mapping[str, Any], *, where: str = "") -> Recipe:
    """The recipe these plain values describe, or a `UsageError` that names the key."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise _explain(error, where) from None


def read_recipe(path: str | Path) -> Recipe:
    """A recipe from a TOML file of at most 100,000 bytes."""
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
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


def _explain(error: ValidationError, where: str) -> UsageError:
    """The first complaint of pydantic as what, where, what to do."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return UnknownName("recipe key", str(first["loc"][-1]), _keys(first["loc"][:-1]), where=where or f"in {key}")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] != "value_error":
        given = _shown(first["input"])
        message = f"{message[:1].lower()}{message[1:]}; got {given if len(given) <= 60 else given[:59] + '…'}"
    elif _is_section(first["loc"]):  # the message of a section names its keys and says what to do
        return UsageError(message, where=where or (f"in {key}" if key else "in the recipe"))
    return UsageError(f"{key}: {message}", where=where or f"in {key}", hint=_hint(key))


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # more digits than Python writes; deeper than it goes
        return "something endless"


def _hint(key: str) -> str:
    """A --set that is valid: the default."""
    value: Any = Recipe().model_dump()
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict):
        return f"try: --set {key}=… with another value" if value is None else f"try: --set {key}.KEY=VALUE"
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"try: --set {key}={shown}, the default"


def _is_section(location: Sequence[str | int]) -> bool:
    return all(isinstance(field, type) and issubclass(field, BaseModel) for field in _annotations(location))


def _annotations(location: Sequence[str | int]) -> Iterator[Any]:
    """The types a recipe has along a place such as ("training", "steps")."""
    kind: Any = Recipe
    for part in location:
        kind = kind.model_fields[str(part)].annotation
        yield kind


def _keys(location: Sequence[str | int]) -> list[str]:
    """Names a recipe knows at a place such as ("training",)."""
    *_, kind = [Recipe, *_annotations(location)]
    return list(kind.model_fields)
