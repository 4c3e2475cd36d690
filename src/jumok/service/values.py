"""What the service takes and gives (`Ask`, `Answer`, `Partial`), and translations as the plain values of a frame."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from jumok.config.search import Constraints, SearchOptions
from jumok.translation import Contents, Translation, Word

if TYPE_CHECKING:
    from jumok.reports.attention import AttentionView

TEXT = Contents(details=False)  # nothing but the text and its score
DEFAULTS = {part.name: part.default for part in fields(SearchOptions)}
WARM_TEXT = "a b c d e f g h i j"  # an engine process translates it before it says that it is ready
MAPS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Ask:
    """One sentence and what is asked of it."""

    text: str
    options: SearchOptions = field(default_factory=SearchOptions)
    constraints: Constraints = field(default_factory=Constraints)
    contents: Contents = TEXT


@dataclass(frozen=True)
class Answer:
    """The translation of one sentence."""

    translation: Translation
    digest: str  # of the weights that made it
    flags: tuple[str, ...] = ()  # what is suspicious about it: "limit", "repeats", "copies" (faults.py)
    cached: bool = False  # it comes from the cache, or from the work for an equal request


@dataclass(frozen=True)
class Partial:
    """The beginning of a translation that is being made; the last one has the answer."""

    text: str
    answer: Answer | None = None


def pack_options(options: SearchOptions) -> dict[str, Any]:
    """Return the options that are not the defaults."""
    return {name: value for name, value in vars(options).items() if value != DEFAULTS[name]}


def unpack_options(values: Mapping[str, Any]) -> SearchOptions:
    return SearchOptions(**values)


def pack_constraints(constraints: Constraints) -> list[Any] | None:
    """Return constraints as plain values; None if there are none."""
    return [constraints.prefix, constraints.require, constraints.forbid] if constraints else None


def unpack_constraints(values: Sequence[Any] | None) -> Constraints:
    return Constraints(values[0], tuple(values[1]), tuple(values[2])) if values else Constraints()


def pack_contents(contents: Contents) -> list[bool]:
    return [contents.details, contents.attention, contents.align]


def pack_translation(translation: Translation, asked: str | None = None) -> list[Any]:
    """Return a translation as plain values; its source is left out where it is the text that was `asked` for."""
    bare = [
        None if translation.source == asked else translation.source,
        translation.text,
        translation.score,
        translation.log_probability,
    ]
    more = (translation.tokens, translation.alternatives, translation.alignment, translation.attention)
    if not any(part is not None and part != () for part in more):
        return bare
    return [
        *bare,
        translation.tokens,
        translation.token_scores,
        [[word.text, word.probability] for word in translation.words],
        [pack_translation(other, translation.source) for other in translation.alternatives],
        translation.alignment,
        None if translation.attention is None else pack_attention(translation.attention),
    ]


def unpack_translation(values: Sequence[Any], asked: str = "") -> Translation:
    source = asked if values[0] is None else values[0]
    translation = Translation(source, *values[1:4])
    if len(values) == 4:
        return translation
    tokens, scores, words, others, links, attention = values[4:]
    return replace(
        translation,
        tokens=tuple(tokens),
        token_scores=tuple(scores),
        words=tuple(Word(*word) for word in words),
        alternatives=tuple(unpack_translation(other, source) for other in others),
        alignment=None if links is None else tuple((link[0], link[1]) for link in links),
        attention=None if attention is None else unpack_attention(attention),
    )


def pack_attention(view: AttentionView) -> dict[str, Any]:
    """Return attention maps with their float32 values in base 64."""
    values = {name: value for name, value in vars(view).items() if name not in MAPS}
    for name in MAPS:
        array = getattr(view, name).astype("<f4")
        values[name] = [array.shape, base64.b64encode(array.tobytes()).decode()]
    return values


def unpack_attention(values: Mapping[str, Any]) -> AttentionView:
    import numpy as np  # only what is asked for attention loads it in the front process

    from jumok.reports.attention import AttentionView

    arrays = {
        name: np.frombuffer(base64.b64decode(content), "<f4").reshape(shape)
        for name, (shape, content) in ((name, values[name]) for name in MAPS)
    }
    parts: dict[str, Any] = {name: tuple(values[name]) for name in ("source", "target", "fed")} | arrays
    return AttentionView(**parts, text=values["text"], translation=values["translation"])
