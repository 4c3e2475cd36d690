"""The model that is looked at, with what turns text into its ids and back; and its validation pairs.  No torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jumok.config.recipe import Recipe
from jumok.data.corpora import Pair
from jumok.data.prepare import folder as prepared
from jumok.decoding.hypothesis import Hypothesis
from jumok.errors import UsageError
from jumok.inside.edits import NOTHING, Edits, divide, flatten, shuffle
from jumok.inside.inspector import find_inspector, go_on
from jumok.text.symbols import SPECIALS
from jumok.text.vocabulary import Vocabularies

if TYPE_CHECKING:
    from jumok.engines.choose import Engines

Translation = str | Sequence[int]  # a text, or its ids
LONGEST = 512  # tokens of a sentence that is looked at


class Subject(Protocol):
    """What is read of a `Translator`."""

    @property
    def engines(self) -> Engines: ...

    @property
    def recipe(self) -> Recipe: ...

    @property
    def vocabularies(self) -> Vocabularies: ...

    @property
    def folder(self) -> Path: ...


def read_source(subject: Subject, text: str, edits: Edits = NOTHING) -> list[int]:
    """The ids of a text without END, in another order if the edits say so."""
    vocabulary = subject.vocabularies.source
    ids = vocabulary.encode(text)
    check_length(ids)
    if edits.shuffle is None:
        return ids
    groups = divide(ids, vocabulary.begins())
    mixed = shuffle(groups, edits.shuffle)
    return mixed if mixed else flatten(groups)


def check_length(ids: Sequence[int]) -> None:
    """Refuse a sentence that is too long to be looked at."""
    if len(ids) > LONGEST:
        raise UsageError("inside.too_long", tokens=len(ids), most=LONGEST)


def read_target(subject: Subject, translation: Translation) -> list[int]:
    """The ids of a translation without END: of a text, or given; a search may divide a text in another way."""
    vocabulary = subject.vocabularies.target
    if isinstance(translation, str):
        ids = vocabulary.encode(translation)
    else:
        ids = [int(number) for number in translation]
        if not all(SPECIALS <= number < len(vocabulary) for number in ids):
            raise UsageError("inside.bad_ids", first=SPECIALS, last=len(vocabulary) - 1)
    check_length(ids)
    return ids


def translate(
    subject: Subject, sources: Sequence[Sequence[int]], edits: Edits = NOTHING, check: Callable[[], None] = go_on
) -> list[Hypothesis]:
    """Greedy translations of ids (without END) by the model with edits.

    Unless heads alone are off, the output of an edited model is at most half longer than its source, plus ten.
    `check` is called now and then and may raise an exception to stop the work.
    """
    return find_inspector(subject).translate(sources, edits, check)


def read_validation(subject: Subject) -> list[Pair]:
    """The validation pairs in the folder of the run."""
    if subject.recipe.data.text is not None:
        raise UsageError("inside.no_pairs", kind=subject.recipe.model.kind)
    bundle = subject.folder
    for run in (bundle, bundle.parent, bundle.parent.parent):  # RUN/model, or RUN/checkpoints/step-…
        try:
            pairs = prepared.number_pairs(prepared.read_valid(run / "data" / "prepared"))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if pairs:
            return pairs
    raise UsageError("inside.no_validation", folder=bundle)
