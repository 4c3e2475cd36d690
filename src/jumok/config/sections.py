"""The sections of a recipe: all settings of data, vocabulary, training, decoding, and the Transformer.

Every section is frozen, closed and bounded.  Other models have their section in the file of the model; the
Transformer's is here because engines that start without torch read it.  Every default of `TransformerConfig` is the
paper's base model.  Sections become a run in config/recipe.py.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from jumok import messages
from jumok.errors import UsageError

Count = Annotated[int, Field(ge=1, le=10**12)]
Size = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=256)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Rate = Annotated[float, Field(gt=0.0, le=100.0)]


class Section(BaseModel):
    """A part of a recipe: immutable, with a closed set of keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def check_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse booleans where a number is meant; read None as "none" where that is one of the names."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError(messages.text("config.not_boolean", given=str(value).lower()))
        return "none" if value is None and "none" in get_args(annotation) else value


class CleaningConfig(Section):
    """Which pairs are left out of training; each rule can be turned off."""

    duplicates: bool = True  # pairs that occurred before
    near_duplicates: bool = True  # pairs that differ from an earlier one only in case, digits, punctuation or spaces
    copies: bool = True  # pairs whose target equals the source
    scripts: bool = True  # pairs with a side mostly in a script that its language does not use
    symbols: bool = True  # pairs with a side that has hardly any letters


UNCLEANED = {f"data.clean.{rule}": False for rule in CleaningConfig.model_fields}  # changes to a recipe: keep all pairs


class CorpusConfig(Section):
    """One of several corpora that are trained on together."""

    name: Annotated[str, Field(max_length=100)] = ""
    source: str | None = None
    target: str | None = None
    table: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    valid_table: str | None = None
    share: Annotated[float, Field(gt=0.0, le=1e9)] | None = None  # of the training pairs, relative to all shares


class DataConfig(Section):
    """The sentence pairs, which of them to train on, and how to put them into batches."""

    corpus: str | None = None  # a corpus that jumok generates: phrasebook, phrasebook-several, copy, sort, babi-1 …
    pairs: Annotated[int, Field(ge=100, le=10**9)] = 50_000  # pairs to generate of `corpus`
    source: str | None = None  # the user's own files, one sentence per line
    target: str | None = None
    table: str | None = None  # or one .tsv or .jsonl file with both sides
    text: str | None = None  # or plain text for a language model: an empty source, all of it target
    valid_source: str | None = None
    valid_target: str | None = None
    valid_table: str | None = None
    valid_text: str | None = None
    corpora: tuple[CorpusConfig, ...] = ()  # or several corpora, mixed by shares or by temperature
    temperature: Annotated[float, Field(ge=1.0, le=1_000.0)] | None = None  # share ∝ pairs^(1/T); 1 keeps the sizes
    columns: str | None = None  # source and target column of tables, such as en,de
    exclude: tuple[str, ...] = ()  # files whose sentences are left out of training
    prepared: str | None = None  # or a folder that `jumok data prepare` has written
    clean: CleaningConfig = CleaningConfig()
    stretch: Annotated[int, Field(ge=8, le=65_536)] = 256  # characters of a segment of `text`
    halves: bool = False  # make the first half of a segment the source, the second half the target
    hold_out: Annotated[int, Field(ge=1, le=100_000)] = 1_000  # pairs held out where no validation set is given
    longest: Annotated[int, Field(ge=1, le=4_096)] = 200  # most subwords per side; longer pairs are left out
    ratio: Annotated[float, Field(ge=1.0, le=1_000.0)] = 9.0  # largest ratio of the two lengths in subwords
    tokens_per_batch: Annotated[int, Field(ge=16, le=10**7)] = 4_096  # most tokens per side of a batch, with padding

    @model_validator(mode="after")
    def check_shares(self) -> Self:
        """Refuse shares that only some corpora have."""
        without = [number for number, corpus in enumerate(self.corpora, start=1) if corpus.share is None]
        if without and len(without) < len(self.corpora):
            raise ValueError(messages.text("config.share_missing", number=without[0]))
        return self


class VocabularyConfig(Section):
    """Subwords, trained on the corpus itself."""

    size: Annotated[int, Field(ge=265, le=256_000)] = 8_000  # at least 8 specials, 256 bytes, a character
    at_most: bool = False  # accept a smaller vocabulary if the text does not have enough subwords
    kind: Literal["unigram", "bpe", "word", "byte"] = "unigram"
    target_kind: Literal["unigram", "bpe", "word", "byte"] | None = None  # for a target of another kind, e.g. labels
    joint: bool = True  # one vocabulary for both languages
    breaks: bool = False  # keep line breaks of a text; otherwise they become spaces
    sentences: Annotated[int, Field(ge=100, le=10**8)] = 1_000_000  # pairs sampled from the corpus to learn it
    characters: Annotated[int, Field(ge=10_000, le=10**10)] = 20_000_000  # most characters of this sample
    sampling: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0  # rate of subword sampling in training; grows with dropout


LONGEST_TAG = 35  # characters of a BCP 47 tag
TAG = r"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*$"
Tag = Annotated[str, Field(pattern=TAG, max_length=LONGEST_TAG)]  # a BCP 47 tag in canonical form (text/languages.py)


class LanguagesConfig(Section):
    """The languages of both sides; they describe the model to its users and do not change training."""

    source: Tag | None = None
    target: Tag | None = None

    @property
    def pair(self) -> tuple[str, str] | None:
        """Both tags; None if one of them is unknown."""
        return None if self.source is None or self.target is None else (self.source, self.target)


class ModelConfig(Section):
    """What the sections of all models have: kind, width, dropout, tied embeddings, number of weights.

    `usual` are changes to a recipe (dotted keys) with which such a model trains well, unless the user sets others.
    """

    usual: ClassVar[Mapping[str, Any]] = {}

    kind: str = ""
    d_model: Size = 128
    dropout: Share = 0.1
    tied: Literal["all", "target", "none"] = "all"  # embeddings shared with the output: both sides, target only

    def parameters(self, source: int, target: int) -> int:
        """A close upper bound on the number of weights, given the sizes of both vocabularies."""
        raise NotImplementedError

    @property
    def shape(self) -> str:
        """Its sizes in words."""
        return ", ".join(f"{name} {value}" for name, value in self if name not in ("kind", "dropout", "tied"))

    def tables(self, source: int, target: int) -> int:
        """Weights of the embeddings and of the output matrix."""
        rows = {"all": max(source, target), "target": source + target, "none": source + 2 * target}
        return rows[self.tied] * self.d_model


def check_heads(d_model: int, heads: int, *, positions: str = "") -> None:
    """Refuse heads that a width cannot be split into, and heads of odd width if positions are rotary."""
    if d_model % heads:
        nearest = d_model // heads * heads + heads
        raise ValueError(messages.text("config.heads_do_not_divide", d_model=d_model, heads=heads, nearest=nearest))
    width = d_model // heads
    if positions == "rotary" and width % 2:
        raise ValueError(messages.text("config.rotary_heads_are_even", width=width, better=heads * (width + 1)))


class TransformerConfig(ModelConfig):
    """One row of table 3.  Every default is the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    d_model: Size = 512
    d_ff: Size = 2048
    heads: Annotated[int, Field(ge=1, le=1_024)] = 8
    d_k: Size | None = None  # width of queries and keys; default d_model / heads (table 3, rows A and B)
    d_v: Size | None = None
    dropout: Share = 0.1
    norm: Literal["layer", "rms", "batch", "none"] = "layer"
    norm_place: Literal["post", "pre"] = "post"  # the paper is post; pre trains without warm-up
    positions: Literal["sinusoidal", "learned", "rotary", "appended", "none"] = "sinusoidal"
    join: Literal["add", "concatenate"] = "add"  # how positions are combined with embeddings
    longest: Annotated[int, Field(ge=8, le=65_536)] = 1_024  # number of learned positions
    score: Literal["scaled-dot", "dot", "additive"] = "scaled-dot"
    activation: Literal["relu", "gelu", "swiglu", "linear"] = "relu"  # linear: none, for comparison
    residual: bool = True
    bias: bool = True  # in the projections of attention

    @property
    def head_widths(self) -> tuple[int, int]:
        """The width of a head's keys, which is that of its queries, and of its values."""
        return self.d_k or self.d_model // self.heads, self.d_v or self.d_model // self.heads

    @model_validator(mode="after")
    def check_sizes(self) -> Self:
        """Refuse sizes and positions that do not go together."""
        if (self.d_k is None or self.d_v is None) and self.d_model % self.heads:
            width, heads = self.d_model, self.heads
            nearest = width // heads * heads + heads
            raise ValueError(messages.text("config.widths_not_set", d_model=width, heads=heads, nearest=nearest))
        keys, _ = self.head_widths
        if self.positions == "rotary" and keys % 2:
            raise ValueError(messages.text("config.rotary_keys_are_even", key_width=keys))
        if self.positions == "appended" and self.join != "concatenate":
            raise ValueError(messages.text("config.appended_is_concatenated"))
        if self.positions in ("rotary", "none") and self.join != "add":
            raise ValueError(messages.text("config.nothing_to_concatenate", positions=self.positions))
        return self

    @property
    def shape(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers, d_model {self.d_model}, d_ff {self.d_ff}"
        return f"{layers}, {self.heads} heads of {self.head_widths[0]}"

    def parameters(self, source: int, target: int) -> int:
        width, (keys, values) = self.d_model, (self.heads * each for each in self.head_widths)
        positions = 2 * self.longest * width * (self.positions == "learned")
        join = 4 * width * width * (self.join == "concatenate")
        norm = 4 * width
        attention = (width + 1) * (2 * keys + 2 * values) + width + norm
        attention += keys * (self.score == "additive")
        inner = (3 if self.activation == "swiglu" else 2) * (width + 1) * self.d_ff + width + norm
        layers = self.encoder_layers * (attention + inner) + self.decoder_layers * (2 * attention + inner)
        return self.tables(source, target) + positions + join + layers + 2 * norm


def transformer(model: ModelConfig, feature: str) -> TransformerConfig:
    """The section of a Transformer, or a `UsageError`: other models do not have `feature`."""
    if not isinstance(model, TransformerConfig):
        raise UsageError("config.transformer_only", feature=feature, kind=model.kind)
    return model


class TrainingConfig(Section):
    """How long and how to train, when to validate, and which weights become the model."""

    steps: Count = 100_000  # the first limit that is reached ends the run
    epochs: Count | None = None
    tokens: Count | None = None  # target tokens, without padding
    minutes: Annotated[float, Field(gt=0.0, le=10**6)] | None = None
    until_bleu: Annotated[float, Field(gt=0.0, le=100.0)] | None = None
    optimizer: Literal["adam", "muon"] = "adam"  # muon: orthogonal updates for matrices, Adam for the rest
    schedule: Literal["noam", "constant", "linear", "cosine"] = "noam"  # all but noam end with the steps or minutes
    peak: Rate | None = None  # the highest learning rate; default: that of equation 3
    warmup: Annotated[int, Field(ge=0, le=10**7)] = 4_000
    beta1: Share = 0.9
    beta2: Share = 0.98
    epsilon: Annotated[float, Field(gt=0.0, le=1.0)] = 1e-9
    weight_decay: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    clip: Annotated[float, Field(ge=0.0, le=10**6)] = 1.0  # largest norm of the gradient; 0 is off
    label_smoothing: Share = 0.1
    dropout_epochs: Annotated[int, Field(ge=0, le=10_000)] = (
        0  # passes over which dropout grows to the model's value; 0: full dropout from the start
    )
    word_dropout: Share = 0.0  # share of source and target words replaced by the unknown token; grows with dropout
    tokens_per_update: Annotated[int, Field(ge=16, le=10**8)] = 25_000  # batches are accumulated up to this many tokens
    validations: Annotated[int, Field(ge=1, le=10_000)] = 20  # evenly spaced over the run
    validate_every: Count | None = None  # updates between validations, instead of `validations`
    valid_pairs: Annotated[int, Field(ge=1, le=10**6)] = 2_000  # most pairs to score during training
    save_minutes: Annotated[float, Field(gt=0.0, le=1_440.0)] = 15.0  # between checkpoints; does not change the result
    snapshots: Annotated[int, Field(ge=0, le=1_000)] = 24  # half-precision weights to look back at; 0 is none
    patience: Annotated[int, Field(ge=0, le=10_000)] = 0  # validations without a better loss or BLEU; 0 never stops
    average: Annotated[int, Field(ge=1, le=100)] = 5  # the final model is the mean of this many last checkpoints
    ema: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0  # decay of a running mean of the weights; 0 is off
    precision: Literal["float32", "bf16"] = "float32"
    compile: bool = False


class DecodingConfig(Section):
    """How to search for a translation; the defaults are the paper's."""

    beam: Annotated[int, Field(ge=1, le=1_000)] = 4
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6  # alpha of ((5 + n) / 6)^alpha
    extra_length: Annotated[int, Field(ge=1, le=10_000)] = 50  # tokens that the output may be longer than the source
