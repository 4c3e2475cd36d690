"""The conductor: recipe -> vocabulary -> data -> model -> loop -> finished model.

    run = train(source="train.en", target="train.de", recipe="tiny", minutes=10)
    run.model.translate("A man rides a bike.").text

A run folder that has checkpoints is continued by the same call.  Minutes count from the call, or from the start of the
process where the caller says so, and over all attempts; a finished run that is given minutes trains so many more.
"""

import shlex
from collections.abc import Callable
from contextlib import closing
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Unpack

import torch

import jumok
from jumok import machine
from jumok.config.keywords import TrainKeywords
from jumok.config.recipe import Recipe
from jumok.data.batches import Place, ahead
from jumok.errors import Resumable, check_names
from jumok.events import LossLog, Silence, book, open_board
from jumok.interop.ctranslate2_library import obstacle
from jumok.kernels import library
from jumok.runs import finished
from jumok.runs.checkpointing import check_disk, make_keeper
from jumok.runs.choose import choose, inherit, settle
from jumok.runs.claiming import claim, hold, settle_data
from jumok.runs.context import Context, ContextKeywords
from jumok.runs.finished import Finished, nothing_left, tell_finished
from jumok.runs.pacing import pace_of
from jumok.runs.preparation import prepare_run
from jumok.runs.selecting import Run, export, select
from jumok.runs.trainee import Trainee, assemble, dropout_share
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.text.vocabulary import Vocabularies, Vocabulary
from jumok.training import loop
from jumok.training.budget import Pace
from jumok.training.distributed import Agreed
from jumok.training.progress import Progress
from jumok.training.validation import Validator

Inherit = Callable[[Any], None]  # may set the weights of a new model


class RunKeywords(TrainKeywords, ContextKeywords, total=False):
    """What to train, and where."""


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

    `begin` is a finished run whose vocabulary and weights, as far as they fit, the new one begins with.  The other
    options choose the recipe (`choose`) and say where it is trained and who hears of it (`ContextKeywords`).
    """
    check_names("option", options, {*RunKeywords.__annotations__, *signature(train).parameters})
    around: Any = {name: value for name, value in options.items() if name in ContextKeywords.__annotations__}
    choices = {name: value for name, value in options.items() if name not in around}
    asked: dict[str, Any] = {"source": source, "target": target, "minutes": minutes, "begin": begin, **choices}
    asked, out, chosen = settle(out, asked)
    recipe = choose(**asked)
    folder = RunFolder(out or Path("runs") / recipe.name)
    context = Context.of(folder, more=minutes is not None, **around)
    if begin is None:
        return run(recipe, folder, context, chosen=chosen)
    found = bundle.read(begin)
    known = found.vocabularies if recipe.vocabulary.joint else found.vocabularies.source
    return run(recipe, folder, context, chosen=chosen, vocabularies=known, inherit=partial(inherit, found))


def run(
    recipe: Recipe,
    folder: RunFolder,
    context: Context,
    *,
    vocabularies: Vocabularies | Vocabulary | None = None,
    inherit: Inherit = lambda model: None,
    chosen: str = "",
) -> Run:
    """Run a recipe to its finished model, or continue where it was stopped; no other process may use the folder.

    `vocabularies` are learnt from the text unless given; `inherit` may set the weights of the new model; `chosen` says
    why this recipe was chosen.
    """
    machine.keep_memory()
    with hold(folder, context):
        recipe, texts = settle_data(recipe, folder)
        with context.world.turn():
            claim(folder, recipe, context.world)
        if chosen:
            context.say(chosen)
        earlier = finished.finished(folder)
        if earlier is not None and (reason := nothing_left(recipe, earlier, context)) is not None:
            tell_finished(folder, earlier, reason, context)
            return Run(folder.path, earlier.scores)
        with context.world.turn():
            prepared = prepare_run(recipe, folder, texts, context, vocabularies)
        machine.release_memory()
        trainee = assemble(recipe, prepared, context, inherit)
        with closing(open_board(folder.tensorboard, context.note) if context.world.first else Silence()) as board:
            context.report.sinks.append(board)
            return learn(trainee, folder, context, earlier)


def learn(trainee: Trainee, folder: RunFolder, context: Context, earlier: Finished | None) -> Run:
    """Continue the newest whole checkpoint if there is one, train to a limit, and export the best weights."""
    world = context.world
    with closing(LossLog(folder.losses) if world.first else Silence()) as losses:
        keeper = make_keeper(trainee, folder, context, losses)
        progress = keeper.restore()
        context.clock.before = progress.counts.wall
        tell_begin(trainee, progress, context)
        pace = pace_of(trainee, progress, context, checkpoint=keeper.size(), earlier=earlier)
        check_disk(trainee, keeper, pace, progress, context)
        validator = Validator(trainee.scorer, context.report, world)
        if earlier is not None:
            validator.known[earlier.name, earlier.pairs] = earlier.scores
        try:
            hooks = hooks_of(trainee, context, losses, validate=validator, save=keeper.save)
            outcome = drive(trainee, pace, progress, context, hooks)
        except loop.NotFinite as error:
            raise loop.NotFinite("runs.not_finite", **error.values, folder=shlex.quote(str(folder.path))) from None
        if outcome.reason == "stopped":
            context.report("stopped", step=progress.counts.step)
            raise Resumable(
                f"stopped at step {progress.counts.step:,}; everything is saved",
                where=f"in {folder.path}",
                hint="run the same command again to continue",
            )
        if not world.first:
            return Run(folder.path, world.share({}))
        selected = select(trainee, folder, pace, progress, validator, earlier)
        done = export(trainee, folder, selected, outcome.reason, progress, context)
        return Run(folder.path, world.share(done.scores))


def hooks_of(
    trainee: Trainee,
    context: Context,
    losses: LossLog | Silence,
    *,
    validate: Callable[[Progress], dict[str, float]],
    save: Callable[[Progress], None],
) -> loop.Hooks:
    """What the loop of a run calls: several processes stop when any of them was asked to."""
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
    """Run the training loop from where the progress says."""
    recipe, world = trainee.recipe, context.world
    setup = loop.Setup(
        team=trainee.team,
        seed=recipe.seed,
        accumulate=trainee.accumulate,
        largest_gradient=recipe.training.clip,
        mean=trainee.mean,
        dropout=partial(dropout_share, recipe),
    )
    place = Place(progress.counts.epoch, progress.counts.index)
    with closing(ahead(trainee.feed.walk(place), context.device)) as batches:
        return loop.train(setup, batches, pace if world.size == 1 else Agreed(pace, world), progress, hooks)


def tell_begin(trainee: Trainee, progress: Progress, context: Context) -> None:
    """Say what begins, on what."""
    context.say(
        f"Training {trainee.parameters / 1e6:.1f} million parameters on {context.device} "
        f"({torch.get_num_threads()} threads); "
        + (obstacle(trainee.recipe.model) or "this recipe exports to CTranslate2")
    )
    if context.device.type == "cpu" and (problem := library.problem()):
        context.note(f"training without the C kernels, which is slower: {problem}")
    context.report(
        "begin", recipe=trainee.recipe.name, parameters=trainee.parameters, step=progress.counts.step,
        version=jumok.__version__,
    )  # fmt: skip
