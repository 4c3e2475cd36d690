"""The model that is looked at, with what turns text into its ids and back; and its validation pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from jumok.config.recipe import Recipe
from jumok.config.search import SearchOptions
from jumok.data.batches import pad
from jumok.data.corpora import Pair
from jumok.data.prepare import folder as prepared
from jumok.decoding.ensemble import Ensemble
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.search import greedy
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import UsageError
from jumok.inside import surgery
from jumok.inside.edits import NOTHING, Edits, divide, flatten, shuffle
from jumok.inside.passes import Edited
from jumok.models.base import END, SPECIALS, START
from jumok.text.vocabulary import Vocabularies

Translation = str | Sequence[int]  # a text, or its ids
ROWS = 256  # sentences that are read together
AT_ONCE = 128  # sentences that the kernels translate between two checks
LONGEST = 512  # tokens of a sentence that is looked at
LONGER, EXTRA = 1.5, 10  # how much longer than its source the output of an edited model may become: times, plus


class Subject(Protocol):
    """What is read of a `Translator`."""

    @property
    def engine(self) -> TorchEngine: ...

    @property
    def recipe(self) -> Recipe: ...

    @property
    def vocabularies(self) -> Vocabularies: ...

    @property
    def folder(self) -> Path: ...


def find_model(subject: Subject) -> Any:
    """The torch model; an ensemble has no inside of its own."""
    model: Any = subject.engine.model
    if isinstance(model, Ensemble):
        raise UsageError("inside.ensemble")
    return model


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


def to_tensors(source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
    """One pair as a batch: the source with its END, the target after START."""
    return torch.tensor([[*source, END]]), torch.tensor([[START, *target]])


@contextmanager
def limit_threads() -> Iterator[None]:
    """Run torch on one thread: one sentence is too small for more, and threads that wait for each other are slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def go_on() -> None:
    """Check nothing."""


def translate(
    subject: Subject, sources: Sequence[Sequence[int]], edits: Edits = NOTHING, check: Callable[[], None] = go_on
) -> list[Hypothesis]:
    """Greedy translations of ids (without END) by the model with edits.

    Without edits, and where heads alone are off, the kernels translate; otherwise every step is a reading, whose
    output is at most half longer than the source, plus ten: a broken model may never end.  `check` is called now and
    then and may raise an exception to stop the work.
    """
    model, options = find_model(subject), SearchOptions(beam=1, extra_length=subject.recipe.decoding.extra_length)
    if not hasattr(model, "start"):
        raise UsageError("inside.says_nothing", kind=subject.recipe.model.kind)
    if not edits.inner or surgery.is_weights(edits.inner):
        results = []
        with surgery.change(model, edits.inner):
            for first in range(0, len(sources), AT_ONCE):
                check()
                results += subject.engine.decode(sources[first : first + AT_ONCE], options)
        return [hypotheses[0] for hypotheses in results]
    with limit_threads():
        return _translate_in_batches(Edited(model, edits.inner), sources, options, check)


@torch.inference_mode()
def _translate_in_batches(
    edited: Edited, sources: Sequence[Sequence[int]], options: SearchOptions, check: Callable[[], None]
) -> list[Hypothesis]:
    """Greedy translations, sentences of similar length together."""
    results: dict[int, Hypothesis] = {}

    def step(token: Tensor, state: Any) -> tuple[Tensor, Any]:
        check()
        return edited.step(token, state)

    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    for first in range(0, len(order), ROWS):
        rows = order[first : first + ROWS]
        state = edited.start(pad([list(sources[row]) for row in rows], after=END))
        limits = [min(len(sources[row]) + options.extra_length, limit_length(len(sources[row]))) for row in rows]
        results |= zip(rows, greedy(step, state, limits, options), strict=True)
    return [results[row] for row in range(len(sources))]


def limit_length(tokens: int) -> int:
    """The longest output of an edited model for a source of so many tokens."""
    return round(LONGER * tokens) + EXTRA


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
