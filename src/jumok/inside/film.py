"""A film of one sentence: its translation and its attention at every snapshot of a run.

    for frame in play("runs/tiny", "A man rides a bike."):
        print(frame.step, frame.text)

The last frame is the finished model, where there is one.  Snapshots are read one after the other into one model, so
memory does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

from jumok.config.search import LONGEST_SOURCE, SearchOptions
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import ModelFileError, UsageError
from jumok.models import build
from jumok.models.base import END, Learner
from jumok.storage import bundle, checkpoint, snapshots
from jumok.text.vocabulary import Vocabularies

LONGEST = 120  # subwords of the sentence: attention is shown as a picture


@dataclass(frozen=True)
class Frame:
    """What one snapshot makes of the sentence."""

    step: int | None  # None for the finished model
    text: str
    probability: float  # of a token, on average
    source: tuple[str, ...]  # pieces, END last
    target: tuple[str, ...]
    attention: tuple[tuple[float, ...], ...]  # (T, S), mean of the heads of the last layer but one; empty without any

    def to_json(self) -> dict[str, Any]:
        """The frame as plain values."""
        return dict(vars(self))


def play(run: str | Path, text: str) -> Iterator[Frame]:
    """Yield a frame for every snapshot, oldest first; one that is damaged, or was just removed, is left out."""
    folder = Path(run)
    recipe = bundle.saved_recipe(folder)
    folders = snapshots.find_folders(folder)
    if not folders:
        raise UsageError("inside.film_no_snapshots", folder=folder)
    vocabularies = Vocabularies.load(folder, breaks=recipe.vocabulary.breaks)
    ids = vocabularies.source.encode(text)
    if not 0 < len(ids) <= min(LONGEST, LONGEST_SOURCE):
        raise UsageError("inside.film_bad_length", tokens=len(ids), limit=LONGEST)
    options = SearchOptions.of(recipe.decoding, beam=1)
    model = build(recipe.model, len(vocabularies.source), len(vocabularies.target)).eval()
    if recipe.data.text is not None or isinstance(model, Learner):
        raise UsageError("inside.film_does_not_translate", kind=recipe.model.kind, folder=folder)
    for snapshot in folders:
        try:
            snapshots.restore(snapshot, model)
        except ModelFileError:
            continue
        yield _look(TorchEngine(model), vocabularies, ids, options, step=bundle.step_of(snapshot))
    if (folder / "model" / bundle.MANIFEST).is_file():
        finished = checkpoint.load(folder).model
        yield _look(TorchEngine(finished), vocabularies, ids, options, step=None)


def _look(
    engine: TorchEngine, vocabularies: Vocabularies, ids: Sequence[int], options: SearchOptions, *, step: int | None
) -> Frame:
    """Translate the sentence with the present weights."""
    longest = [2 * len(ids) + 20]  # an untrained model would not stop by itself
    hypothesis = engine.decode([ids], options, limits=longest)[0][0]
    body = list(hypothesis.body)
    try:
        weights = engine.align([(ids, body)])[0]
    except UsageError:  # a model without attention between the two sides
        weights = None
    return Frame(
        step=step,
        text=vocabularies.target.decode(body),
        probability=exp(hypothesis.log_probability / max(1, len(hypothesis.ids))),
        source=tuple(vocabularies.source.pieces([*ids, END])),
        target=tuple(vocabularies.target.pieces([*body, END])),
        attention=() if weights is None else tuple(tuple(round(float(x), 4) for x in row) for row in weights),
    )
