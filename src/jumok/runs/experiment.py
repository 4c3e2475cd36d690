"""The conductor: recipe -> vocabulary -> data -> model -> loop -> finished model.

    run = train(source="train.en", target="train.de", recipe="tiny", minutes=10)
    run.model.translate("A man rides a bike.").text

The same call continues a run folder that has checkpoints.  Minutes count from the call, or from `began`, and over all
attempts; minutes given to a finished run train it further.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch

import jumok
from jumok import machine
from jumok.config.recipe import Recipe
from jumok.data.batches import Position, prefetch
from jumok.errors import Resumable, UnknownName
from jumok.events import LossLog, Silence, book, open_board
from jumok.interop.ctranslate2_library import find_obstacle
from jumok.kernels import library
from jumok.runs.checkpointing import check_disk, make_keeper
from jumok.runs.choose import OPTIONS, choose, inherit, settle
from jumok.runs.claiming import claim, hold, settle_data
from jumok.runs.context import Context, ContextKeywords
from jumok.runs.finished import Finished, find_finished, find_limit, report_finished
from jumok.runs.pacing import pace_of
from jumok.runs.preparation import prepare_run
from jumok.runs.selecting import Run, export, select
from jumok.runs.trainee import Trainee, assemble, dropout_share
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.storage.snapshots import Snapshots
from jumok.text.vocabulary import Vocabularies, Vocabulary
from jumok.training import loop
from jumok.training.budget import Pace
from jumok.training.distributed import Agreed
from jumok.training.progress import Progress
from jumok.training.validation import Validator

if TYPE_CHECKING:
    from jumok.config.keywords import TrainKeywords

    class RunKeywords(TrainKeywords, ContextKeywords, total=False):
        """Options of `train`: what to train, and where."""


Inherit = Callable[[Any], None]  # may set the weights of a new model


def train(
    source: str | Path | None = None,
    target: str | Path | None = None,
    *,
    out: str | Path | None = None,
    minutes: float | None = None,
    begin: str | Path | None = None,
    **options: Unpack[RunKeywords],
) -> Run:
    """Train a translator from two text files into the folder `out`, runs/RECIPE unless given.

    `begin` is a finished run whose vocabulary and weights, as far as they fit, the new run begins with.  The other
    options choose the recipe (`choose`), and the device, events and stop of the run (`ContextKeywords`).
    """
    known = {*OPTIONS, *ContextKeywords.__annotations__, "out"}
    for name in options.keys() - known:
        raise UnknownName("runs.unknown_option", name, known)
    around: Any = {name: value for name, value in options.items() if name in ContextKeywords.__annotations__}
    choices = {name: value for name, value in options.items() if name not in around}
    asked: dict[str, Any] = {"source": source, "target": target, "minutes": minutes, "begin": begin, **choices}
    asked, out, chosen = settle(out, asked)
    recipe = choose(**asked)
    folder = RunFolder(out or Path("runs") / recipe.name)
    context = Context.of(folder, more=minutes is not None, **around)
    if begin is None:
        return run(recipe, folder, context, chosen=chosen)
    saved = bundle.read(begin)
    vocabularies = saved.vocabularies if recipe.vocabulary.joint else saved.vocabularies.source
    return run(recipe, folder, context, chosen=chosen, vocabularies=vocabularies, inherit=partial(inherit, saved))


def run(
    recipe: Recipe,
    folder: RunFolder,
    context: Context,
    *,
    vocabularies: Vocabularies | Vocabulary | None = None,
    inherit: Inherit = lambda model: None,
    chosen: str = "",
) -> Run:
    """Train a recipe to its finished model, or resume where it was stopped; no other process may use the folder.

    `vocabularies` are learned from the text unless given; `inherit` may set the weights of the new model; `chosen` is a
    line that says why this recipe was chosen.
    """
    machine.keep_memory()
    with hold(folder, context):
        recipe, texts = settle_data(recipe, folder)
        with context.world.turn():
            claim(folder, recipe, context.world)
        if chosen:
            context.say(chosen)
        earlier = find_finished(folder)
        if earlier is not None and (reason := find_limit(recipe, earlier, context)) is not None:
            report_finished(folder, earlier, reason, context)
            return Run(folder.path, earlier.scores)
        if context.device.type == "cpu":
            context.stop.finish(library.compile_in_steps())
        with context.world.turn():
            prepared = prepare_run(recipe, folder, texts, context, vocabularies)
        machine.release_memory()
        trainee = assemble(recipe, prepared, context, inherit)
        with closing(open_board(folder.tensorboard, context.note) if context.world.first else Silence()) as board:
            context.report.sinks.append(board)
            return learn(trainee, folder, context, earlier)


def learn(trainee: Trainee, folder: RunFolder, context: Context, earlier: Finished | None) -> Run:
    """Restore the newest complete checkpoint if there is one, train to a limit, and export the best weights."""
    world = context.world
    with closing(LossLog(folder.losses) if world.first else Silence()) as losses:
        keeper = make_keeper(trainee, folder, context, losses)
        progress = keeper.restore()
        context.clock.before = progress.counts.wall
        report_begin(trainee, progress, context)
        pace = pace_of(trainee, progress, context, checkpoint=keeper.size(), earlier=earlier)
        check_disk(trainee, keeper, pace, progress, context)
        validator = Validator(trainee.scorer, context.report, world)
        if earlier is not None:
            validator.known[earlier.name, earlier.pairs] = earlier.scores
        hooks = hooks_of(trainee, context, losses, validate=validator, save=keeper.save)
        most = trainee.recipe.training.snapshots if world.first else 0
        snapshots = Snapshots(folder, trainee.model, most, context.report)
        snapshots.thin(progress.counts.step)
        try:
            reason = drive(trainee, pace, progress, context, replace(hooks, updated=snapshots.take)).reason
        except loop.NotFinite as error:
            raise loop.NotFinite("runs.not_finite", **error.values, folder=shlex.quote(str(folder.path))) from None
        if reason == "stopped":
            context.report("stopped", step=progress.counts.step)
            raise Resumable("runs.stopped", step=progress.counts.step, folder=folder.path)
        snapshots.end(progress.counts.step)
        if not world.first:  # rank 0 writes the model and shares its scores
            return Run(folder.path, world.share({}))
        selected = select(trainee, folder, pace, progress, validator, earlier)
        done = export(trainee, folder, selected, reason, progress, context)
        return Run(folder.path, world.share(done.scores))


def hooks_of(
    trainee: Trainee,
    context: Context,
    losses: LossLog | Silence,
    *,
    validate: Callable[[Progress], dict[str, float]],
    save: Callable[[Progress], None],
) -> loop.Hooks:
    """The hooks of the loop; several processes stop as soon as one of them is asked to."""
    world = context.world
    return loop.Hooks(
        report=partial(book, losses, context.report),
        validate=validate,
        save=save,
        stop=context.stop if world.size == 1 else lambda: world.any(context.stop()),
        clock=context.clock,
        save_seconds=60.0 * trainee.recipe.training.save_minutes,
    )


def drive(trainee: Trainee, pace: Pace, progress: Progress, context: Context, hooks: loop.Hooks) -> loop.Outcome:
    """Run the training loop from the batch that the progress names."""
    recipe, world = trainee.recipe, context.world
    setup = loop.Setup(
        team=trainee.team,
        seed=recipe.seed,
        accumulate=trainee.accumulate,
        largest_gradient=recipe.training.clip,
        mean=trainee.mean,
        dropout=partial(dropout_share, recipe),
    )
    start = Position(progress.counts.epoch, progress.counts.index)
    with closing(prefetch(trainee.feed.walk(start), context.device)) as batches:
        return loop.train(setup, batches, pace if world.size == 1 else Agreed(pace, world), progress, hooks)


def report_begin(trainee: Trainee, progress: Progress, context: Context) -> None:
    """Report the size of the model, the device, and whether the C kernels are used."""
    context.say(
        f"Training {trainee.parameters / 1e6:.1f} million parameters on {context.device} "
        f"({torch.get_num_threads()} threads); "
        + str(find_obstacle(trainee.recipe.model) or "this recipe exports to CTranslate2")
    )
    if context.device.type == "cpu" and (problem := library.find_problem()):
        context.note(f"training without the C kernels, which is slower: {problem}")
    context.report(
        "begin", recipe=trainee.recipe.name, parameters=trainee.parameters, step=progress.counts.step,
        version=jumok.__version__,
    )  # fmt: skip
