"""Distillation: a student with a deep encoder and a short decoder learns its teacher's translations.

    jumok distill runs/tiny                      runs/tiny-student: 6 + 2 layers instead of 4 + 4

The teacher translates its training text with beam search, and of its best translations the one most like the reference
is the lesson (Kim and Rush 2016, sequence-level interpolation); the student trains on the reference and the lesson of
every sentence.  It begins with the teacher's weights: embeddings, encoder, and decoder layers spread from the first to
the last.  Encoder layers beyond the teacher's begin as identities.

The same command continues after a kill at any moment.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, tee
from math import ceil
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from jumok.config.recipe import Recipe
from jumok.config.sections import UNCLEANED, transformer
from jumok.data import corpora, resolve
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare import folder as prepared_folder
from jumok.data.prepare.stage import Report, Stage
from jumok.disk.locks import lock
from jumok.errors import ModelFileError, Resumable
from jumok.evaluation.ngrams import chrf_matrix
from jumok.events import Sink
from jumok.models.transformer import Transformer
from jumok.runs import preparation
from jumok.runs.context import Context, ContextKeywords
from jumok.runs.experiment import run
from jumok.runs.selecting import Run
from jumok.stopping import NEVER
from jumok.storage import bundle, checkpoint
from jumok.storage.checkpoint import Loaded, RunFolder
from jumok.text.drafts import Draft
from jumok.text.lines import digest, read_lines, writing
from jumok.translation import Translation
from jumok.translator import Translator

BEST = 5  # translations among which the lesson is chosen
DEEPER = 1.5  # encoder layers of the student per encoder layer of the teacher
DECODED = 4_096  # stored pairs that are decoded at a time
PEAK = 0.5  # learning rate relative to the teacher's; lower, since the student begins with trained weights


@dataclass(frozen=True)
class Student:
    """The size of a student and how long it trains; by default it has 1.5 times the encoder layers of its teacher."""

    encoder_layers: int | None = None
    decoder_layers: int = 2
    minutes: float | None = None  # by default those of the teacher
    changes: Mapping[str, Any] = field(default_factory=dict)  # changes to its recipe, by dotted keys

    def recipe(self, teacher: Recipe, data: Mapping[str, Any]) -> Recipe:
        """The student's recipe; `data` are changes that name its text."""
        recipe = shape(teacher, self.encoder_layers, self.decoder_layers).change({**data, **self.changes})
        if self.minutes is None:
            return recipe
        return recipe.change({"training.minutes": self.minutes, "training.steps": 10**9, "training.epochs": None})


def distill(
    path: str | Path,
    student: Student = Student(),
    *,
    out: str | Path | None = None,
    source: str | None = None,
    target: str | None = None,
    **around: Unpack[ContextKeywords],
) -> Run:
    """Train a student of the model in `path`, on the teacher's training text unless another is given."""
    teacher = checkpoint.load(path)
    folder = RunFolder(out or student_of(path))
    recipe = teacher.recipe
    if source is not None or target is not None:
        recipe = recipe.change({"data.corpus": None, "data.table": None, "data.source": source, "data.target": target})
    lessons = Lessons.of(recipe, teacher, folder.data)
    with lock(folder.path, "the run"):
        lessons.write(around.get("stop", NEVER), partial(tell, around.get("sinks", ())))
    languages = dict(zip(("languages.source", "languages.target"), teacher.languages or (), strict=False))
    return run(
        student.recipe(recipe, {**languages, **lessons.data()}), folder,
        Context.of(folder, more=student.minutes is not None, **around), vocabularies=teacher.vocabularies,
        inherit=lambda model: inherit(model, teacher.model),
    )  # fmt: skip


def tell(sinks: Sequence[Sink], event: str, **values: Any) -> None:
    """Pass an event to the sinks; the run of the student has not begun, so no file has it."""
    for sink in sinks:
        sink({"event": event, "time": round(time.time(), 3), **values})


def student_of(path: str | Path) -> Path:
    """The default folder of a student: the name of its teacher's run with -student."""
    folder = bundle.find(path)
    run = folder.parent if folder.name == "model" else folder
    return run.with_name(f"{run.name}-student")


def shape(recipe: Recipe, encoder_layers: int | None, decoder_layers: int) -> Recipe:
    """The teacher's recipe with the student's layers and a lower learning rate."""
    peak, layers = recipe.training.peak, transformer(recipe.model, "a student").encoder_layers
    return recipe.change(
        {
            "name": f"{recipe.name}-student",
            "model.encoder_layers": encoder_layers or ceil(layers * DEEPER),
            "model.decoder_layers": decoder_layers,
            "training.peak": None if peak is None else peak * PEAK,
        }
    )


# ------------------------------------------------------------------ lessons


@dataclass(frozen=True)
class Lessons:
    """The teacher's translations of its training text, written to a table that the student trains on."""

    teacher: Loaded
    folder: Path
    train: Corpus
    valid: Corpus | None
    share: float  # share of the training text for validation, if there is no validation text
    count: int  # pairs of the training text, with those for validation

    @classmethod
    def of(cls, recipe: Recipe, teacher: Loaded, folder: Path) -> "Lessons":
        """The lessons of a recipe; data that the teacher's run has prepared are used again if they exist."""
        if recipe is teacher.recipe and (prepared := find_prepared(teacher)) is not None:
            return cls(teacher, folder, *prepared)
        resolve.refuse_addresses(recipe.data, where=str(teacher.folder))
        trained, validating = resolve.resolve_all(recipe.data, recipe.seed)
        train, valid = join_corpora(trained), join_corpora(validating) if validating else None
        count = sum(1 for _ in train.read())
        return cls(teacher, folder, train, valid, 0.0 if valid else preparation.held_out_share(recipe, count), count)

    @property
    def table(self) -> Path:
        return self.folder / "lessons.jsonl"

    @property
    def held_out(self) -> Path:
        return self.folder / "valid.jsonl"

    def data(self) -> dict[str, Any]:
        """The student's text as changes to a recipe."""
        changes: dict[str, Any] = dict.fromkeys(("data.corpus", "data.source", "data.target", "data.prepared"))
        changes |= UNCLEANED | {"data.corpora": (), "data.exclude": (), "data.columns": None}
        changes["data.table"] = str(self.table)
        if self._writes_valid:
            changes |= {"data.valid_source": None, "data.valid_target": None, "data.valid_table": str(self.held_out)}
        return changes

    @property
    def _writes_valid(self) -> bool:
        """Whether the validation pairs must be written to a file for the student."""
        return self.valid is None or not self.valid.inputs

    def about(self) -> dict[str, Any]:
        """Everything that the lessons depend on."""
        weights = digest([self.teacher.folder / bundle.WEIGHTS])
        return {"teacher": weights, "text": self.train.digest, "best": BEST, "share": self.share}

    def pairs(self) -> Iterator[Pair]:
        """The pairs of the training text without those held out for validation."""
        return (pair for pair in self.train if not (self.share and corpora.is_held_out(pair.source, self.share)))

    def write(self, stop: Callable[[], bool], report: Report = lambda *_, **__: None) -> None:
        """Translate the sentences that have no translation yet, and write the table."""
        note, translations = self.folder / "lessons.json", self.folder / "lessons.txt"
        about = self.about()
        content = json.dumps(about, indent=1).encode()
        if note.is_file() and note.read_bytes() == content:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = Draft.begin(translations, about=about, resume=True)
        translator = Translator(self.teacher, engine="auto")
        done = f"{translator.engine_name}, {draft.lines:,} lines are done"
        report("stage", text=f"The teacher translates its training text ({done})")
        draft.write(self._chosen(translator, draft.lines, stop, report))
        draft.finish()
        count = self._write_table(translations)
        bundle.write_file(note, content)
        report("stage", text=f"{count:,} sentences, each with its reference and its lesson")

    def _chosen(self, translator: Translator, done: int, stop: Callable[[], bool], report: Report) -> Iterator[str]:
        """One line per pair: of the teacher's best translations the one most like the reference."""
        width = max(BEST, translator.recipe.decoding.beam)
        total = max(1, round(self.count * (1.0 - self.share)))
        stage = Stage(report, "lessons", "The teacher translates", unit="sentences")
        stage.skip(done / total, done)
        pairs, sources = tee(islice(self.pairs(), done, None))
        translations = translator.lines((pair.source for pair in sources), beam=width, n_best=BEST, details=False)
        for number, (pair, translation) in enumerate(zip(pairs, translations, strict=True), start=done + 1):
            if stop():
                raise Resumable("distillation.stopped", folder=self.folder)
            yield nearest(translation, pair.target)
            stage(min(1.0, number / total), number)

    def _write_table(self, translations: Path) -> int:
        """Write the pairs with their lessons, and those for validation, in one walk; returns how many have lessons."""
        lessons, count = read_lines(translations), 0
        with ExitStack() as files:
            table = files.enter_context(writing(self.table))
            held_out = files.enter_context(writing(self.held_out)) if self._writes_valid else None
            for pair in self.train:
                if self.share and corpora.is_held_out(pair.source, self.share):
                    assert held_out is not None  # there is no validation text
                    held_out(row(pair.source, pair.target))
                    continue
                table(row(pair.source, pair.target))
                table(row(pair.source, next(lessons)))
                count += 1
            assert next(lessons, None) is None  # one for every pair
            for pair in self.valid or ():
                if held_out is not None:
                    held_out(row(pair.source, pair.target))
        return count


def join_corpora(parts: Sequence[Corpus]) -> Corpus:
    """Several corpora as one, in their order; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    return Corpus(
        ", ".join(part.name for part in parts), lambda: chain.from_iterable(part.read() for part in parts),
        lambda _: corpora.hash_values(*(part.digest for part in parts)),
    )  # fmt: skip


def find_prepared(teacher: Loaded) -> tuple[Corpus, Corpus, float, int] | None:
    """What a teacher was trained and validated on, from the prepared data of its run; None without them.

    The corpora, the share for validation, which is none of the training pairs, and the number of these.

    They are clean, and the text itself is not needed.
    """
    named = teacher.recipe.data.prepared
    folder = Path(named) if named is not None else RunFolder(teacher.folder.parent).data / preparation.FOLDER
    try:
        made = prepared_folder.load(folder)
    except ModelFileError:
        return None
    if made.vocabularies.digest != teacher.vocabularies.digest or made.is_text:
        return None

    def read() -> Iterator[tuple[str, str]]:
        for start in range(0, len(made.store), DECODED):
            rows = range(start, min(len(made.store), start + DECODED))
            sources = teacher.vocabularies.source.decode_all([made.store.source[row].tolist() for row in rows])
            targets = teacher.vocabularies.target.decode_all([made.store.target[row].tolist() for row in rows])
            yield from zip(sources, targets, strict=True)

    valid = [(pair.source, pair.target) for pair in made.valid]
    identity = f"{made.digest}:{made.summary['train']}:{made.summary['left_out']}"
    validating = Corpus(f"{made.name}, validation", lambda: iter(valid), made.digest)
    return Corpus(made.name, read, identity), validating, 0.0, len(made.store)


def nearest(translation: Translation, reference: str) -> str:
    """The one of the best translations that is most like the reference (chrF)."""
    texts = [alternative.text for alternative in (translation, *translation.alternatives)]
    return texts[int(chrf_matrix([*texts, reference])[:-1, -1].argmax())]


def row(source: str, target: str) -> str:
    """A row of the table."""
    return json.dumps({"source": source, "target": target}, ensure_ascii=False)


# ------------------------------------------------------------------ inherited weights


@torch.no_grad()
def inherit(student: Transformer, teacher: torch.nn.Module) -> None:
    """Give a student the weights of its teacher; a student of another width keeps its random weights."""
    own, given = checkpoint.weights(student), checkpoint.weights(teacher)
    if own["matrix"].shape != given["matrix"].shape:
        return
    counts = {side: (count_layers(own, side), count_layers(given, side)) for side in ("encoder", "decoder")}
    for name, tensor in own.items():
        side, *rest = name.split(".")
        if side not in counts:
            old: str | None = name
        else:
            layer = find_ancestor(int(rest[0]), *counts[side], side)
            old = None if layer is None else ".".join([side, str(layer), *rest[1:]])
        if old is not None and old in given and given[old].shape == tensor.shape:
            tensor.copy_(given[old])
        elif old is None and name.endswith((".output.weight", ".outer.weight", ".output.bias", ".outer.bias")):
            tensor.zero_()  # a new layer adds nothing to the residual


def count_layers(weights: dict[str, Tensor], side: str) -> int:
    """The number of layers of a side."""
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith(f"{side}."))


def find_ancestor(number: int, own: int, given: int, side: str) -> int | None:
    """The teacher's layer that becomes the student's layer `number`; None for a new layer."""
    if own > given:
        return number if number < given else None
    if own == 1:
        return given - 1 if side == "decoder" else 0
    return round(number * (given - 1) / (own - 1))
