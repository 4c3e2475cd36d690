"""The sections of a recipe: everything one can choose about data, vocabulary, training, decoding, and the Transformer.

Every section is frozen, closed and bounded.  A model's section stands in the model's own file; the Transformer's is
here, because engines read it that start without torch.  Every default of `TransformerConfig` is the paper's base model.
Sections become a run in config/recipe.py.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from jumok.errors import UsageError

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
    def check_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and false where a number is meant; take None for "none" where that is a name."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and annotation is not bool:
            raise ValueError(f"must not be true or false; got {str(value).lower()}")
        return "none" if value is None and "none" in get_args(annotation) else value


class CleaningConfig(Section):
    """Which pairs are left out of training; each rule can be turned off."""

    duplicates: bool = True  # the same pair again
    near_duplicates: bool = True  # equal but for case, digits, punctuation and white space
    copies: bool = True  # the target is the source
    scripts: bool = True  # a side is mostly in a script that its language does not use
    symbols: bool = True  # a side has hardly any letters


UNCLEANED = {f"data.clean.{rule}": False for rule in CleaningConfig.model_fields}  # changes to a recipe: all pairs stay


class CorpusConfig(Section):
    """One of several corpora that are trained on together."""

    name: Annotated[str, Field(max_length=100)] = ""
    source: str | None = None
    target: str | None = None
    table: str | None = None
    valid_source: str | None = None
    valid_target: str | None = None
    valid_table: str | None = None
    share: Annotated[float, Field(gt=0.0, le=1e9)] | None = None  # of what is seen, over the sum of all shares


class DataConfig(Section):
    """Which sentence pairs, which of them are kept, and how they are put into batches."""

    corpus: str | None = None  # a corpus jumok makes itself: phrasebook, copy, reverse, sort, babi-1 …
    pairs: Annotated[int, Field(ge=100, le=10**9)] = 50_000  # how many pairs of it
    source: str | None = None  # the user's own files, one sentence a line
    target: str | None = None
    table: str | None = None  # or one .tsv or .jsonl with both sides
    text: str | None = None  # or a text to be learnt itself: nothing is read, all of it is said
    valid_source: str | None = None
    valid_target: str | None = None
    valid_table: str | None = None
    valid_text: str | None = None
    corpora: tuple[CorpusConfig, ...] = ()  # or several corpora, mixed by their shares or by temperature
    temperature: Annotated[float, Field(ge=1.0, le=1_000.0)] | None = None  # share ∝ pairs^(1/T); 1: by their sizes
    columns: str | None = None  # of tables: names of the source and the target column, such as en,de
    exclude: tuple[str, ...] = ()  # files whose sentences are left out of training
    prepared: str | None = None  # or a folder that `jumok data prepare` has made
    clean: CleaningConfig = CleaningConfig()
    stretch: Annotated[int, Field(ge=8, le=65_536)] = 256  # characters of a text that are learnt at a time
    halves: bool = False  # of which the first half is read and the second said
    hold_out: Annotated[int, Field(ge=1, le=100_000)] = 1_000  # pairs held out where no validation set is given
    longest: Annotated[int, Field(ge=1, le=4_096)] = 200  # subwords a side; longer pairs are left out of training
    ratio: Annotated[float, Field(ge=1.0, le=1_000.0)] = 9.0  # of the two lengths in subwords
    tokens_per_batch: Annotated[int, Field(ge=16, le=10**7)] = 4_096  # padded tokens a side that go through at once


class VocabularyConfig(Section):
    """Subwords, trained on the corpus itself."""

    size: Annotated[int, Field(ge=265, le=256_000)] = 8_000  # 8 specials, 256 bytes, and a character at least
    at_most: bool = False  # fewer, where the text has no more
    kind: Literal["unigram", "bpe", "word", "byte"] = "unigram"
    target_kind: Literal["unigram", "bpe", "word", "byte"] | None = None  # where the target has its own: labels, say
    joint: bool = True  # one vocabulary for both languages
    breaks: bool = False  # lines of a text are kept apart; else a line break is a space
    sentences: Annotated[int, Field(ge=100, le=10**8)] = 1_000_000  # pairs sampled from the corpus to learn it
    characters: Annotated[int, Field(ge=10_000, le=10**10)] = 20_000_000  # of this sample, at most
    sampling: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0  # how freely words are cut in training; grows with dropout


class ModelConfig(Section):
    """What a model's section says whatever the model: its kind, its width, its dropout, how many weights it has.

    `usual` are changes to a recipe (dotted keys) with which such a model trains well where nobody chose otherwise.
    """

    usual: ClassVar[Mapping[str, Any]] = {}

    kind: str = ""
    d_model: Size = 128
    dropout: Share = 0.1
    tied: Literal["all", "target", "none"] = "all"  # embeddings shared with the output: both sides, target only

    def parameters(self, source: int, target: int) -> int:
        """How many weights it has at most over so many symbols; not fewer than it has, and not many more."""
        raise NotImplementedError

    @property
    def shape(self) -> str:
        """Its sizes in words."""
        return ", ".join(f"{name} {value}" for name, value in self if name not in ("kind", "dropout", "tied"))

    def tables(self, source: int, target: int) -> int:
        """Weights of the embeddings and of the output matrix."""
        rows = {"all": max(source, target), "target": source + target, "none": source + 2 * target}
        return rows[self.tied] * self.d_model


def heads_fit(d_model: int, heads: int, *, positions: str = "", otherwise: str = "") -> None:
    """Refuse heads that a width cannot be split into, or, where positions are rotary, heads of odd width."""
    if d_model % heads:
        nearest = d_model // heads * heads + heads
        raise ValueError(
            f"d_model={d_model} cannot be split into heads={heads} equal heads; "
            f"choose a multiple of {heads}, such as {nearest}{otherwise}"
        )
    if positions == "rotary" and d_model // heads % 2:
        raise ValueError(
            f"rotary positions turn pairs of coordinates, but a head is {d_model // heads} wide; "
            f"choose d_model={heads * (d_model // heads + 1)}, or model.positions=learned"
        )


class TransformerConfig(ModelConfig):
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
    activation: Literal["relu", "gelu", "swiglu", "linear"] = "relu"  # linear: none, to see what it is for
    residual: bool = True
    bias: bool = True  # in the projections of attention

    @property
    def key_width(self) -> int:
        return self.d_k or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        return self.d_v or self.d_model // self.heads

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        if self.d_k is None or self.d_v is None:
            heads_fit(self.d_model, self.heads, otherwise=", or set d_k and d_v")
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(f"rotary positions turn pairs of coordinates; d_k={self.key_width} must be even")
        if self.positions == "appended" and self.join != "concatenate":
            raise ValueError("the step number t is appended, not added; set model.join=concatenate too")
        if self.positions in ("rotary", "none") and self.join != "add":
            raise ValueError(f"positions={self.positions!r} has nothing to concatenate; set model.join=add")
        return self

    @property
    def shape(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers, d_model {self.d_model}, d_ff {self.d_ff}"
        return f"{layers}, {self.heads} heads of {self.key_width}"

    def parameters(self, source: int, target: int) -> int:
        width, keys, values = self.d_model, self.heads * self.key_width, self.heads * self.value_width
        positions = 2 * self.longest * width * (self.positions == "learned")
        join = 4 * width * width * (self.join == "concatenate")
        norm = 4 * width
        attention = (width + 1) * (2 * keys + 2 * values) + width + norm
        attention += keys * (self.score == "additive")
        inner = (3 if self.activation == "swiglu" else 2) * (width + 1) * self.d_ff + width + norm
        layers = self.encoder_layers * (attention + inner) + self.decoder_layers * (2 * attention + inner)
        return self.tables(source, target) + positions + join + layers + 2 * norm


def transformer(model: ModelConfig, what: str) -> TransformerConfig:
    """The section of a Transformer; `what` is not there for other models."""
    if not isinstance(model, TransformerConfig):
        raise UsageError(f"{what} is there for the Transformer alone, not for {model.kind!r}", where="in model.kind")
    return model


class TrainingConfig(Section):
    """How long, how fast, and what is kept."""

    steps: Count = 100_000  # the first limit that is reached ends the run
    epochs: Count | None = None
    tokens: Count | None = None  # of the target, padding not counted
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
    save_minutes: Annotated[float, Field(gt=0.0, le=1_440.0)] = 15.0  # between checkpoints; changes nothing else
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
