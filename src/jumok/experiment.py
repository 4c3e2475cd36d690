"""The conductor: recipe -> vocabulary -> data -> model -> loop -> finished model.

    run = train(source="train.en", target="train.de", recipe="tiny", minutes=10)
    run.model.translate("A man rides a bike.").text

A run folder that has checkpoints is continued by the same call.  Minutes count from the call, or from the start of the
process where the caller says so, and over all attempts; a finished run that is given minutes trains so many more.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import jumok
from jumok import bundle, checkpoint, ending, events, machine, native, preparation
from jumok.beginning import choose, inherit, settle
from jumok.checkpoint import RunFolder
from jumok.config import UNCLEANED
from jumok.data import corpora, lexicon
from jumok.data.batches import Batch, Batches, Noise, Place, ahead
from jumok.data.corpora import Corpus
from jumok.ending import Finished
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import Resumable, UsageError
from jumok.events import EventLog, LossLog, Silence, Sink, TensorBoardSink
from jumok.interop.ctranslate2_library import obstacle
from jumok.keeping import Keeper
from jumok.keys import key
from jumok.locks import lock
from jumok.metrics import quality
from jumok.models import build
from jumok.recipe import Recipe
from jumok.text.vocabulary import Vocabularies, Vocabulary
from jumok.training import loop, optim
from jumok.training.distributed import ALONE, Agreed, World
from jumok.training.objectives import objective_of
from jumok.training.pace import ByClock, ByCount, Costs, Limits, Pace, Progress, ration
from jumok.training.schedule import Course, Schedule
from jumok.training.team import Stopped, Team
from jumok.translator import Translator
from jumok.validation import judge_of, spread

UPDATES_A_MINUTE = 1_200  # at most: what logs are told to take in a run that is limited by minutes
WRITING = 1.5e8  # bytes a second that a disk takes, until the first checkpoint has shown it


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    scores: dict[str, float]  # on the validation set

    @property
    def model(self) -> Translator:
        return Translator.load(self.folder)


def train(
    source: str | None = None,
    target: str | None = None,
    *,
    out: str | Path | None = None,
    minutes: float | None = None,
    device: str = "cpu",
    sinks: Sequence[Sink] = (),
    stop: Callable[[], bool] = lambda: False,
    began: float | None = None,
    exact: bool = False,
    world: World = ALONE,
    begin: str | Path | None = None,
    **choices: Any,
) -> Run:
    """Train a translator from two text files; the other choices are those of `choose`.

    `begin` is a finished run whose vocabulary and weights, as far as they fit, the new one begins with.

    Minutes count from `began` on the clock of `time.monotonic`, or from this call.  `exact` refuses to continue a run
    where it could not end with the bytes of a run that was never interrupted.  Several processes train together in a
    `world` (training/distributed.py).
    """
    asked = {"source": source, "target": target, "minutes": minutes, "begin": begin, **choices}
    asked, out, said = settle(out, asked)
    recipe = choose(**asked)
    out = out or Path("runs") / recipe.name
    common: dict[str, Any] = {"device": device, "sinks": sinks, "stop": stop, "began": began, "exact": exact}
    common |= {"more": minutes is not None, "world": world, "said": said}
    if begin is None:
        return Experiment(recipe, out, **common).run()
    found = bundle.read(begin)
    known = found.vocabularies if recipe.vocabulary.joint else found.vocabularies.source
    return Experiment(recipe, out, **common, vocabularies=known, inherit=partial(inherit, found)).run()


class Experiment:
    """One run from its recipe to its model."""

    def __init__(
        self,
        recipe: Recipe,
        out: str | Path,
        *,
        device: str = "cpu",
        sinks: Sequence[Sink] = (),
        stop: Callable[[], bool] = lambda: False,
        began: float | None = None,
        more: bool = False,
        exact: bool = False,
        world: World = ALONE,
        vocabularies: Vocabularies | Vocabulary | None = None,
        inherit: Callable[[Any], None] = lambda model: None,
        said: str = "",
    ) -> None:
        """`vocabularies` are learnt from the text unless given; `inherit` may set the weights of the new model; `said`
        is a line for the start."""
        self.recipe, self.folder, self.said = recipe, RunFolder(out), said
        self.given, self.inherit = vocabularies, inherit
        self.device, self.stop = torch.device(device), stop
        self.world = world
        self.report: EventLog | Silence = EventLog(self.folder.events, list(sinks)) if world.first else Silence()
        self.losses: LossLog | Silence = LossLog(self.folder.losses) if world.first else Silence()
        self.began = time.monotonic() if began is None else began
        self.more = more  # minutes given to a finished run come on top
        self.exact = exact
        self.before = 0.0  # seconds of earlier attempts
        self.asked = recipe.data  # as it was named
        self.earlier: Finished | None = None  # the finished run that this one continues
        self.known: dict[tuple[str, int], dict[str, float]] = {}  # scores by name of the weights and number of pairs

    def run(self) -> Run:
        """Everything from text to finished model; no other process may use the folder meanwhile."""
        machine.keep_memory()
        if not self.world.first:  # rank 0 holds the lock for all
            return self._run()
        with lock(self.folder.path, "the run", note=lambda text: self.report("note", text=text)):
            return self._run()

    def _run(self) -> Run:
        try:
            if bundle.is_older(self.folder.path):
                self.recipe = self.recipe.change(UNCLEANED)
            given = self.recipe.data
            self.asked = corpora.without_stdin(given, self.folder.data)  # addresses may hold what no file may
            self.recipe = self.recipe.model_copy(update={"data": corpora.public(self.asked)})
            self.world.in_turn(self._claim_folder)
            if self.said:
                self.stage(self.said)
            if (done := self.already()) is not None:
                return done
            if self.world.first:
                corpora.keep_stdin(given, self.asked, tick=self.tick)
            self.world.in_turn(self.prepare)
            with closing(TensorBoardSink(self.folder.tensorboard) if self.world.first else Silence()) as board:
                self.report.sinks.append(board)
                return self.learn()
        except Stopped:
            raise Resumable(
                "stopped; all that was made so far is kept",
                where=f"in {self.folder.path}",
                hint="run the same command again to continue",
            ) from None
        finally:
            self.losses.close()
            self.report.close()

    def tick(self) -> None:
        """What long work calls now and then: it ends here when somebody asked the run to stop."""
        if self.stop():
            raise Stopped

    def clock(self) -> float:
        """Seconds since the run began, over all its attempts."""
        return self.before + time.monotonic() - self.began

    def already(self) -> Run | None:
        """The finished run in the folder, if its limits leave nothing to do."""
        found, minutes = ending.finished(self.folder), self.recipe.training.minutes
        if found is None:
            return None
        reason = loop.reached(self.limits(), found.progress)
        if reason is None and minutes is not None and not self.more and minutes * 60.0 <= found.progress.until:
            reason = "minutes"
        if reason is None:
            self.earlier = found
            self.known[found.name, found.pairs] = found.scores
            return None
        steps, epochs = found.progress.step, found.progress.epoch
        option = {"steps": f"--steps {2 * steps}", "epochs": f"--epochs {2 * epochs}", "minutes": "--minutes 10"}
        option |= {
            "tokens": f"--tokens {2 * found.progress.tokens}",
            "bleu": "a higher --until-bleu",
            "patience": "a larger --set training.patience=N",
        }
        self.stage(
            f"This run is finished: {steps:,} steps, ended by {found.card['ended_by']}; the model is in "
            f"{self.folder.bundle}. To go on: the same command with {option[reason]}"
        )
        return Run(self.folder.path, found.scores)

    # ------------------------------------------------------------------ text to batches

    def prepare(self) -> None:
        """Vocabulary, token store and validation set, made once and found again by a resumed run."""
        self.prepared = preparation.prepare(
            self.recipe, self.folder, *self.texts(), report=self.report, vocabularies=self.given, tick=self.tick,
            write=self.world.first,
        )  # fmt: skip
        self.vocabularies, self.store, self.valid = self.prepared.vocabularies, self.prepared.store, self.prepared.valid

    def texts(self) -> tuple[list[Corpus], list[Corpus]]:
        """The training corpora, and the validation corpora if there are any."""
        if self.recipe.data.prepared is not None:
            return [], []
        fetched = self.folder.data / "fetched"
        return corpora.resolve_all(self.asked, self.recipe.seed, tick=self.tick, fetched=fetched)

    def _claim_folder(self) -> None:
        """A folder that holds another run is not touched, and one that cannot be written is no use."""
        if self.folder.begun() and self.folder.steps() and comparable(self.folder.recipe()) != comparable(self.recipe):
            raise UsageError(
                "this folder holds a run with another recipe",
                where=f"in {self.folder.path}",
                hint="try: another --out, or the same recipe to continue that run",
            )
        if self.world.first:
            self.folder.claim()

    # ------------------------------------------------------------------ batches to weights

    def learn(self) -> Run:
        """Build the model, continue the newest whole checkpoint if there is one, and train to a limit."""
        self.assemble()
        progress = self.resume()
        parameters = sum(p.numel() for p in self.model.parameters())
        self.stage(
            f"Training {parameters / 1e6:.1f} million parameters on {self.device} ({torch.get_num_threads()} threads); "
            + (obstacle(self.recipe.model) or "this recipe exports to CTranslate2")
        )
        if self.device.type == "cpu" and (problem := native.problem()):
            self.report("note", text=f"training without the C kernels, which is slower: {problem}")
        name = self.recipe.name
        self.report("begin", recipe=name, parameters=parameters, step=progress.step, version=jumok.__version__)
        self.pace = self.paced(progress)
        self._check_disk(progress)
        pace, stop = (self.pace, self.stop) if self.world.size == 1 else (Agreed(self.pace, self.world), self.agreed)
        try:
            outcome = self.drive(pace, progress, stop)
        except loop.NotFinite as error:
            error.hint += f"; to see the pairs: jumok data pairs {self.folder.path} {' '.join(map(str, error.rows))}"
            raise
        if outcome.reason == "stopped":
            self.report("stopped", step=outcome.progress.step)
            raise Resumable(
                f"stopped at step {outcome.progress.step:,}; everything is saved",
                where=f"in {self.folder.path}",
                hint="run the same command again to continue",
            )
        scores = self.finish(outcome.reason, outcome.progress).scores if self.world.first else {}
        return Run(self.folder.path, self.world.share(scores))

    def _check_disk(self, progress: Progress) -> None:
        """Say what the run will need of the disk; refuse to begin where not even one checkpoint fits."""
        if not self.world.first:
            return
        training, last = self.recipe.training, self.pace.limits.last
        if training.minutes is not None:
            last = min(last, progress.step + round(UPDATES_A_MINUTE * training.minutes))
        beside = sum(map(len, self.vocabularies.files().values()))
        if preparation.shortlisted(self.recipe, self.prepared.is_text):
            beside += len(preparation.shortlist(self.prepared))
        logs = events.most_bytes(max(0, last - progress.step), training.validations)
        self.keeper.check_disk(logs=logs, beside=beside, begun=progress.step > 0)

    def agreed(self) -> bool:
        """Whether any process was asked to stop."""
        return self.world.any(self.stop())

    def assemble(self) -> None:
        """Everything that training needs, as new."""
        recipe, training = self.recipe, self.recipe.training
        torch.manual_seed(key(recipe.seed, "weights"))
        self.model = build(recipe.model, len(self.vocabularies.source), len(self.vocabularies.target)).to(self.device)
        self.inherit(self.model)
        if hasattr(self.model, "starts"):  # a model that must know which symbols begin a word
            self.model.starts.copy_(torch.tensor(self.vocabularies.source.begins()))
        self.optimizer = optim.Optimizer(self.model, training)
        self.mean = optim.RunningMean(self.model, training.ema) if training.ema else None
        self.keeper = Keeper(
            self.folder, self.model, self.optimizer, self.mean, self.vocabularies.digest, self.surroundings(),
            losses=self.losses, report=self.report, world=self.world, keep=max(2, training.average), exact=self.exact,
        )  # fmt: skip
        self.team = Team(self.model, self.objective, self.optimizer, self.workers(), self.world)
        batch_tokens = min(recipe.data.tokens_per_batch, training.tokens_per_update)
        self.feed = Batches(
            self.store, tokens=batch_tokens, seed=recipe.seed, vocabularies=self.vocabularies, noise=self.noise,
            ends=not self.prepared.is_text, temperature=recipe.data.temperature,
        )  # fmt: skip
        self.accumulate = max(1, round(training.tokens_per_update / batch_tokens))
        self.schedule = Schedule(training.schedule, recipe.model.d_model, training.warmup, training.peak)
        source, target = self.store.tokens()
        chosen = spread(len(self.valid), training.valid_pairs)
        valid, names = [self.valid[row] for row in chosen], self.prepared.corpora
        engine = TorchEngine(self.model, device=self.device)
        self.judge = judge_of(
            engine, self.vocabularies, valid, is_text=self.prepared.is_text, ratio=target / max(1, source),
            labels=recipe.vocabulary.target_kind == "word", tick=self.tick,
            groups=[names[self.prepared.labels[row]] for row in chosen],
        )  # fmt: skip

    def drive(self, pace: Pace, progress: Progress, stop: Callable[[], bool]) -> loop.Outcome:
        """The training loop with all its arguments."""
        with closing(ahead(self.feed.walk(Place(progress.epoch, progress.index)), self.device)) as batches:
            return loop.train(
                self.team,
                batches,
                pace,
                progress,
                seed=self.recipe.seed,
                accumulate=self.accumulate,
                largest_gradient=self.recipe.training.clip,
                dropout=self.dropout_share,
                mean=self.mean,
                report=self.updated,
                validate=self.validate,
                save=self.save,
                save_seconds=60.0 * self.recipe.training.save_minutes,
                stop=stop,
                clock=self.clock,
            )

    def limits(self) -> Limits:
        """The recipe's limits, time apart."""
        training = self.recipe.training
        return Limits(
            steps=training.steps, epochs=training.epochs, tokens=training.tokens, bleu=training.until_bleu,
            patience=training.patience, validations=training.validations, validate_every=training.validate_every,
        )  # fmt: skip

    def paced(self, progress: Progress) -> Pace:
        """By count or by clock; epochs and tokens are told as steps, too, so that the schedule can end with them."""
        training, limits = self.recipe.training, self.limits()
        if training.epochs is not None or training.tokens is not None:  # counted once in a run: it takes minutes
            progress.batches = progress.batches or self.feed.count(0)
        if training.epochs is not None:
            expected = -(-training.epochs * progress.batches // self.accumulate)
            limits = replace(limits, expected=min(training.steps, expected))
        if training.tokens is not None:
            each = (self.store.tokens()[1] + len(self.store)) / progress.batches * self.accumulate
            limits = replace(limits, expected=min(limits.last, max(1, round(training.tokens / each))))
        candidates = 1 + (training.average > 1) + (self.mean is not None) + (self.earlier is not None)
        compared = 1 if self.earlier is None else 2
        limits = replace(limits, pairs=len(self.judge.pairs), candidates=candidates, compared=compared)
        if training.minutes is None:
            if progress.step == 0:
                self._tell_ration(limits)
            return ByCount(limits, self.schedule, self.counted_work())
        self.promise(training.minutes * 60.0, progress)
        self.model.eval()
        costs = Costs(pair=self.judge.seconds_a_pair(), checkpoint=self.keeper.size() / WRITING)
        return ByClock(
            limits, self.schedule, costs, clock=self.clock, report=lambda **values: self.report("plan", **values)
        )

    def _tell_ration(self, limits: Limits) -> None:
        """Say so where a run validates less than the recipe asks for."""
        chosen = ration(limits, self.counted_work())
        if chosen == ration(limits):
            return
        often = f"every {chosen.every:,} updates" if chosen.every < limits.last else "once, at the end,"
        self.stage(
            f"Validating {often} on {chosen.pairs:,} of {limits.pairs:,} pairs, so that nearly all work is "
            "training; --set training.validate_every=N validates every N updates on all of them"
        )

    def counted_work(self) -> Costs:
        """Counted work of an update and of validating on one pair, in target tokens."""
        return Costs(pair=self.judge.work(), update=self.recipe.training.tokens_per_update)

    def promise(self, seconds: float, progress: Progress) -> None:
        """Set when the run will be over: the minutes of an interrupted run go on, those of a finished one are new."""
        if self.earlier is not None:
            progress.began, progress.judged, progress.spent = progress.wall, 0, 0.0
            progress.until = progress.wall + seconds if self.more else seconds
            left = progress.until - progress.wall
            progress.course = Course(0, progress.course.warmup, progress.step, left=left / progress.until)
            self.stage(
                f"This run was finished after {progress.wall / 60:.1f} minutes; it trains {left / 60:.1f} minutes more"
            )
        elif progress.step:
            progress.until = progress.began + seconds if self.more else max(progress.until, seconds)
            gone, given = progress.wall - progress.began, progress.until - progress.began
            self.stage(
                f"{gone / 60:.1f} of its {given / 60:.1f} minutes are over; {max(0.0, given - gone) / 60:.1f} are left"
            )
        else:
            progress.until = seconds
        if self.clock() > progress.until:
            self.report("note", text=f"the {(progress.until - progress.began) / 60:g} minutes are over before training")

    def dropout_share(self, epoch: int) -> float:
        """Share of the dropout in a pass: what has been seen often is what can be learnt by heart."""
        passes = self.recipe.training.dropout_epochs
        return min(1.0, epoch / passes) if passes else 1.0

    def noise(self, epoch: int) -> Noise:
        """How the words of a pass are cut and hidden, in proportion to its dropout."""
        share = self.dropout_share(epoch)
        sampling, unknown = self.recipe.vocabulary.sampling, self.recipe.training.word_dropout
        return Noise(sampling=share * sampling, unknown=share * unknown)

    def workers(self) -> int:
        """One a core, where cores are what we compute on; a compiled model and a graphics card work alone."""
        return torch.get_num_threads() if self.device.type == "cpu" and not self.recipe.training.compile else 1

    def objective(self, model: Any) -> Callable[[Batch], tuple[Tensor, int]]:
        """What a model, or a replica of it, makes small."""
        training = self.recipe.training
        hidden = torch.compile(model.hidden, dynamic=True) if training.compile else None
        plain = objective_of(model, smoothing=training.label_smoothing, hidden=hidden)
        if training.precision != "bf16":
            return plain
        if not has_bf16(self.device):
            self.report("note", text=f"{self.device} has no bf16 arithmetic; training goes on in float32")
            return plain

        def mixed(batch: Batch) -> tuple[Tensor, int]:
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                return plain(batch)

        return mixed

    def resume(self) -> Progress:
        """Where the run stands: at its newest whole checkpoint, or at its beginning."""
        progress = self.keeper.restore()
        self.before = progress.wall
        return progress

    def surroundings(self) -> dict[str, Any]:
        """All that the bytes of the result depend on besides the recipe."""
        return {
            "data": self.prepared.digest,
            "torch": torch.__version__,
            "threads": torch.get_num_threads() * self.world.size,
            "kernels": native.library() is not None,
            "device": str(self.device),
        }

    def updated(self, **values: Any) -> None:
        """Book an update."""
        self.losses(**{name: values[name] for name in LossLog.COLUMNS})
        self.report("step", **values)

    def save(self, progress: Progress) -> None:
        """Write a checkpoint."""
        self.keeper.save(progress)

    # ------------------------------------------------------------------ weights to scores

    def validate(self, progress: Progress) -> dict[str, float]:
        """Loss, perplexity and greedy BLEU on the validation set; one fixed sentence shows how it is getting on."""
        if not self.world.first:
            return self.world.share({})
        scores, sample = self.scores(progress.pairs)
        self.world.share(scores)
        self.known[f"checkpoint {progress.step}", progress.pairs] = scores
        better = loop.is_best(progress, scores)
        self.report(
            "validation", step=progress.step, epoch=progress.epoch, seconds=progress.seconds, wall=progress.wall,
            pairs=progress.pairs, of=len(self.judge.pairs), seen=progress.tokens, better=better, sample=sample,
            **scores,
        )  # fmt: skip
        return scores

    def scores(self, pairs: int) -> tuple[dict[str, float], str]:
        """What the weights as they are now are worth, and one translation."""
        self.model.eval()
        return self.judge(pairs)

    def finish(self, reason: str, progress: Progress) -> Run:
        """Export the best of the candidates, as many as there is time to judge."""
        pairs = self.pace.final(progress)
        judged: dict[str, dict[str, float]] = {}
        best: tuple[str, dict[str, Tensor]] | None = None
        average = self.recipe.training.average
        waiting = ending.candidates(
            self.folder, self.model, self.mean, progress, average=average, whole=progress.pairs == pairs,
            earlier=self.earlier,
        )  # fmt: skip
        least = self.pace.limits.compared
        while (len(judged) < least or self.pace.affords(pairs)) and (found := next(waiting, None)) is not None:
            name, tensors = found
            if (name, pairs) not in self.known:
                checkpoint.set_weights(self.model, tensors)
                self.known[name, pairs] = self.scores(pairs)[0]
            judged[name] = self.known[name, pairs]
            if best is None or worth(judged[name]) > worth(judged[best[0]]):
                best = found
        assert best is not None  # the last weights are always there
        return self.export(best, judged, pairs, reason, progress)

    def export(
        self,
        best: tuple[str, dict[str, Tensor]],
        judged: dict[str, dict[str, float]],
        pairs: int,
        reason: str,
        progress: Progress,
    ) -> Run:
        """Write the finished model with its card, and say so."""
        name, tensors = best
        card = checkpoint.maker(self.recipe) | {
            "weights": name,
            "ended_by": reason,
            "steps": progress.step,
            "epochs": progress.epoch,
            "minutes": round(progress.seconds / 60, 1),
            "wall_minutes": round(self.clock() / 60, 1),
            "pairs": len(self.store),
            "data": self.prepared.digest,
            "vocabulary": self.vocabularies.digest,
            "valid": judged,
            "valid_pairs": pairs,
            "machine": str(machine.describe()),
        }
        wanted = preparation.shortlisted(self.recipe, self.prepared.is_text)
        more = {lexicon.FILE: preparation.shortlist(self.prepared)} if wanted else {}
        checkpoint.export(self.folder.bundle, tensors, self.recipe, self.vocabularies, card, more)
        scores, of = judged[name], len(self.judge.pairs)
        on = "" if pairs == of else f" on {pairs:,} of {of:,} pairs"
        self.report(
            "finished", reason=reason, weights=name, step=progress.step, wall=self.clock(), pairs=pairs, **scores,
            text=f"Done after {progress.step:,} steps ({reason}): {name}, valid {told(scores)}{on}; "
            f"the model is in {self.folder.bundle}",
        )  # fmt: skip
        return Run(self.folder.path, scores)

    def stage(self, text: str) -> None:
        self.report("stage", text=text)


def comparable(recipe: Recipe) -> dict[str, Any]:
    """A recipe without what may change between a stop and its continuation: the limits, and how often it is saved."""
    values = recipe.model_dump()
    for name in ("steps", "epochs", "tokens", "minutes", "until_bleu", "patience", "save_minutes"):
        del values["training"][name]
    return values


def worth(scores: dict[str, float]) -> tuple[float, float]:
    """What candidates are compared by: quality, then loss."""
    found = quality(scores)
    return 0.0 if found is None else found, -scores["loss"]


def told(scores: dict[str, float]) -> str:
    """Scores in words."""
    names = {"bleu": "BLEU {:.2f}", "accuracy": "accuracy {:.2f} %", "nats": "{:.3f} nats a character"}
    if scores["perplexity"] < 100_000:  # more is no loss of words alone
        names["perplexity"] = "perplexity {:.2f}"
    return ", ".join(words.format(scores[name]) for name, words in names.items() if name in scores)


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type == "cpu":
        flags = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, flag, lambda: False)() for flag in flags)
    return device.type == "mps"
