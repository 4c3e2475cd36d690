"""The end of a run: the best of the candidates becomes the finished model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from jumok import machine
from jumok.data import lexicon
from jumok.data.known import find_known_words
from jumok.evaluation.metrics import quality
from jumok.runs import finished
from jumok.runs.aligning import choose_head
from jumok.runs.context import Context
from jumok.runs.finished import Finished
from jumok.runs.trainee import Trainee
from jumok.storage import checkpoint
from jumok.storage.checkpoint import RunFolder
from jumok.text import known
from jumok.training.budget import Pace
from jumok.training.progress import Progress
from jumok.training.validation import Validator, spread

if TYPE_CHECKING:
    from jumok.translator import Translator

EXAMPLES = 8  # sentences of the validation set in a model's card, for people to try
LONGEST_EXAMPLE = 90  # characters


@dataclass(frozen=True)
class Run:
    """A finished run: its folder and the scores of its model."""

    folder: Path
    scores: dict[str, float]  # on the validation set

    @property
    def model(self) -> Translator:
        from jumok.translator import Translator  # imported here, since training does not need it

        return Translator.load(self.folder)


@dataclass(frozen=True)
class Selected:
    """The weights of the finished model, and how all candidates scored."""

    name: str
    tensors: dict[str, Tensor]
    scores: dict[str, dict[str, float]]  # by candidate
    pairs: int  # validation pairs that they were scored on


def select(
    trainee: Trainee, folder: RunFolder, pace: Pace, progress: Progress, validator: Validator, earlier: Finished | None
) -> Selected:
    """Score as many candidates as there is time for, and return the best."""
    pairs = pace.final_pairs(progress)
    remaining = finished.candidates(
        folder, trainee.model, trainee.mean, progress, average=trainee.recipe.training.average,
        whole=progress.plan.pairs == pairs, earlier=earlier,
    )  # fmt: skip
    scores: dict[str, dict[str, float]] = {}
    best: tuple[str, dict[str, Tensor]] | None = None
    while len(scores) < pace.limits.compared or pace.can_afford(pairs):
        if (candidate := next(remaining, None)) is None:
            break
        name, tensors = candidate
        if (name, pairs) not in validator.known:
            checkpoint.set_weights(trainee.model, tensors)
        scores[name] = validator.score(name, pairs)
        if best is None or rank(scores[name]) > rank(scores[best[0]]):
            best = candidate
    assert best is not None  # the last weights are always a candidate
    return Selected(*best, scores, pairs)


def export(
    trainee: Trainee, folder: RunFolder, selected: Selected, reason: str, progress: Progress, context: Context
) -> Run:
    """Write the finished model with its card, and report it."""
    recipe, prepared, vocabularies = trainee.recipe, trainee.prepared, trainee.prepared.vocabularies
    card: dict[str, Any] = checkpoint.maker(recipe) | {
        "weights": selected.name,
        "ended_by": reason,
        "steps": progress.counts.step,
        "epochs": progress.counts.epoch,
        "minutes": round(progress.counts.seconds / 60, 1),
        "wall_minutes": round(context.clock() / 60, 1),
        "pairs": trainee.prepared.store.count,
        "data": prepared.digest,
        "vocabulary": vocabularies.digest,
        "valid": selected.scores,
        "valid_pairs": selected.pairs,
        "machine": str(machine.describe()),
    }
    more = describe_text(trainee, card)
    if prepared.shortlist is not None:
        more[lexicon.FILE] = prepared.shortlist.read_bytes()
        checkpoint.set_weights(trainee.model, selected.tensors)
        learned = lexicon.Lexicon.from_bytes(more[lexicon.FILE], (len(vocabularies.source), len(vocabularies.target)))
        if (head := choose_head(trainee.scorer.engine, prepared.store, learned)) is not None:
            card["aligning"] = head
    checkpoint.export(folder.bundle, selected.tensors, recipe, vocabularies, card, more)
    scores, pairs = selected.scores[selected.name], len(trainee.scorer.pairs)
    part = "" if selected.pairs == pairs else f" on {selected.pairs:,} of {pairs:,} pairs"
    context.report(
        "finished", reason=reason, weights=selected.name, step=progress.counts.step, wall=context.clock(),
        pairs=selected.pairs, **scores,
        text=f"Done after {progress.counts.step:,} steps ({reason}): {selected.name}, valid {spell(scores)}{part}; "
        f"the model is in {folder.bundle}",
    )  # fmt: skip
    return Run(folder.path, scores)


def describe_text(trainee: Trainee, card: dict[str, Any]) -> dict[str, bytes]:
    """Add sentences to try to the card of a translator; return the file of the words that it has read."""
    prepared = trainee.prepared
    if trainee.recipe.data.text is not None or not hasattr(trainee.model, "start"):
        return {}
    if sentences := choose_examples([pair.source for pair in trainee.scorer.pairs]):
        card["examples"] = sentences
    words = find_known_words(prepared.store.source, len(prepared.store), prepared.vocabularies.source)
    return {} if words is None else {known.FILE: words}


def choose_examples(sentences: Sequence[str]) -> list[str]:
    """Return some sentences to try a model with: short ones, evenly spread over the set and over lengths."""
    short = [one for one in dict.fromkeys(sentences) if 1 <= len(one) <= LONGEST_EXAMPLE and "\n" not in one]
    chosen = [short[row] for row in spread(len(short), 4 * EXAMPLES)]
    by_length = sorted(chosen, key=len)
    return [by_length[row] for row in spread(len(by_length), EXAMPLES)]


def rank(scores: dict[str, float]) -> tuple[float, float]:
    """The value by which candidates are compared: quality, then loss."""
    best = quality(scores)
    return 0.0 if best is None else best, -scores["loss"]


def spell(scores: dict[str, float]) -> str:
    """Scores as text."""
    names = {"bleu": "BLEU {:.2f}", "accuracy": "accuracy {:.2f} %", "nats": "{:.3f} nats per character"}
    if scores["perplexity"] < 100_000:  # a larger one comes from targets that are not words
        names["perplexity"] = "perplexity {:.2f}"
    return ", ".join(words.format(scores[name]) for name, words in names.items() if name in scores)
