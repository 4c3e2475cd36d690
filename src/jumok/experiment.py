"""The conductor: recipe -> vocabulary -> data -> model -> loop -> finished model.

    run = train(source="train.en", target="train.de", recipe="tiny", minutes=10)
    run.model.translate("A man rides a bike.").text

A run folder that has checkpoints is continued by the same call.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import jumok
from jumok import checkpoint, machine, metrics, recipes
from jumok.checkpoint import RunFolder
from jumok.config import Recipe
from jumok.data import corpora, store
from jumok.data.batches import Batch, Batches, Place, ahead
from jumok.data.corpora import Corpus, Pair
from jumok.engines.torch_engine import Options, TorchEngine
from jumok.errors import DataError, DiskError, ModelFileError, Resumable, UsageError
from jumok.events import EventLog, Sink, TensorBoardSink
from jumok.keys import key
from jumok.models import build
from jumok.text.vocabulary import Vocabularies, Vocabulary
from jumok.training import optim
from jumok.training.loop import Limits, Progress
from jumok.training.loop import train as loop
from jumok.training.objectives import next_token
from jumok.translator import Translator

UNSAVED_LIMIT = 3


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    scores: dict[str, float]  # on the validation set

    @property
    def model(self) -> Translator:
        return Translator.load(self.folder)


def load(path: str | Path, *, device: str = "cpu") -> Translator:
    """The translator of a run folder or an exported bundle."""
    return Translator.load(path, device=device)


def train(
    source: str | None = None,
    target: str | None = None,
    *,
    recipe: str | Recipe = "tiny",
    out: str | Path | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    device: str = "cpu",
    changes: dict[str, Any] | None = None,
    sinks: Sequence[Sink] = (),
    stop: Callable[[], bool] = lambda: False,
    **data: Any,
) -> Run:
    """Train a translator from two text files; further keywords are keys of the recipe's data section."""
    chosen = recipes.get(recipe) if isinstance(recipe, str) else recipe
    wanted: dict[str, Any] = {f"data.{name}": str(value) for name, value in data.items() if value is not None}
    if source is not None or target is not None or data.get("table") is not None:
        wanted |= {"data.corpus": None, "data.source": source and str(source), "data.target": target and str(target)}
    limits = {"minutes": minutes, "steps": steps, "epochs": epochs}
    if any(value is not None for value in limits.values()):
        wanted |= {
            "training.minutes": minutes,
            "training.epochs": epochs,
            "training.steps": 10**9 if steps is None else steps,
        }
    chosen = chosen.change(wanted | (changes or {}))
    return Experiment(chosen, out or Path("runs") / chosen.name, device=device, sinks=sinks, stop=stop).run()


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
    ) -> None:
        self.recipe, self.folder = recipe, RunFolder(out)
        self.device, self.stop = torch.device(device), stop
        self.report = EventLog(self.folder.events, list(sinks))
        self.began = time.monotonic()
        self.unsaved = 0  # checkpoints in a row that the disk did not take

    def run(self) -> Run:
        """Everything from text to finished model."""
        machine.keep_memory()
        try:
            self.prepare()
            with closing(TensorBoardSink(self.folder.tensorboard)) as board:
                self.report.sinks.append(board)
                return self.learn()
        finally:
            self.report.close()

    # ------------------------------------------------------------------ text to batches

    def prepare(self) -> None:
        """Vocabulary, token store and validation set, made once and found again by a resumed run."""
        given = self.recipe.data
        self.recipe = self.recipe.model_copy(update={"data": corpora.without_stdin(given, self.folder.data)})
        self._claim_folder()
        corpora.keep_stdin(given, self.recipe.data)
        corpus, valid = corpora.resolve(self.recipe.data, self.recipe.seed)
        self.stage(f"Reading {corpus.name}")
        self.corpus = corpus
        texts, count = self.survey(corpus)
        share = 0.0 if valid is not None else min(self.recipe.data.hold_out / max(1, count), 0.1)
        self.vocabularies = self.learn_vocabulary(texts)
        self.folder.begin(self.recipe)
        self.vocabularies.save(self.folder.path)
        if valid is not None:
            self.valid = list(valid)
        else:
            self.valid = [pair for pair in corpus if corpora.held_out(pair.source, share)]
        self.valid = [pair for pair in self.valid if pair.source.strip() and pair.target.strip()]
        if not self.valid:
            raise DataError("the validation set is empty", where=f"in {(valid or corpus).name}")
        training = (pair for pair in corpus if not (share and corpora.held_out(pair.source, share)))
        filters = store.Filters(self.recipe.data.longest, self.recipe.data.ratio)
        identity = f"{corpus.digest}:{share}"
        self.store = store.build(training, self.vocabularies, filters, self.folder.data, identity=identity)
        self._tell_corpus(count, share)

    def _claim_folder(self) -> None:
        """A folder that holds another run is not touched."""
        if self.folder.begun() and self.folder.steps() and comparable(self.folder.recipe()) != comparable(self.recipe):
            raise UsageError(
                "this folder holds a run with another recipe",
                where=f"in {self.folder.path}",
                hint="try: another --out, or the same recipe to continue that run",
            )

    def survey(self, corpus: Corpus) -> tuple[tuple[list[str], list[str]], int]:
        """Count the pairs and draw the sentences that the vocabulary is learnt from, in one pass and bounded memory."""
        most = self.recipe.vocabulary.sentences
        sample: list[tuple[int, int, Pair]] = []  # a heap of the pairs with the smallest draws, largest on top
        count = 0
        for pair in corpus:
            count += 1
            entry = (-key(self.recipe.seed, "vocabulary", pair.line), pair.line, pair)
            if len(sample) < most:
                heapq.heappush(sample, entry)
            elif entry > sample[0]:
                heapq.heapreplace(sample, entry)
        drawn = [pair for _, _, pair in sorted(sample, key=lambda one: one[1])]
        if not drawn:
            raise DataError("the corpus is empty", where=f"in {corpus.name}", hint="try: jumok data check FILES")
        return ([pair.source for pair in drawn], [pair.target for pair in drawn]), count

    def learn_vocabulary(self, texts: tuple[list[str], list[str]]) -> Vocabularies:
        """The run's vocabulary, or a new one."""
        config = self.recipe.vocabulary
        if self.folder.begun() and any(self.folder.path.glob("vocabulary*.model")):
            before = self.folder.recipe()
            if (before.vocabulary, before.data, before.seed) == (config, self.recipe.data, self.recipe.seed):
                return Vocabularies.load(self.folder.path)
        kind = "joint" if config.joint else "separate"
        self.stage(f"Learning a {kind} vocabulary of {config.size:,} subwords ({config.kind})")
        source, target = texts
        where = f"in {self.corpus.name}"
        if config.joint:
            joint = Vocabulary.train([*source, *target], size=config.size, kind=config.kind, where=where)
            return Vocabularies(joint, joint)
        sides = (Vocabulary.train(side, size=config.size, kind=config.kind, where=where) for side in (source, target))
        return Vocabularies(*sides)

    def _tell_corpus(self, count: int, share: float) -> None:
        source, target = self.store.tokens()
        left_out = "; left out: " + ", ".join(f"{n:,} {r}" for r, n in self.store.left_out.items())
        held = " (held out by rule)" if share else ""
        self.stage(
            f"{len(self.store):,} of {count:,} pairs train ({source:,} + {target:,} subwords), "
            f"{len(self.valid):,} validate{held}{left_out if self.store.left_out else ''}"
        )
        self.report(
            "corpus", name=self.corpus.name, digest=self.corpus.digest, pairs=count, train=len(self.store),
            valid=len(self.valid), left_out=self.store.left_out, source_tokens=source, target_tokens=target,
        )  # fmt: skip

    # ------------------------------------------------------------------ batches to weights

    def learn(self) -> Run:
        """Build the model, continue the newest whole checkpoint if there is one, and train to a limit."""
        recipe, training = self.recipe, self.recipe.training
        torch.manual_seed(key(recipe.seed, "weights"))
        self.model = build(recipe.model, len(self.vocabularies.source), len(self.vocabularies.target)).to(self.device)
        self.optimizer = optim.adam(self.model, training)
        self.mean = optim.RunningMean(self.model, training.ema) if training.ema else None
        progress = self.resume()
        self.engine = TorchEngine(self.model, device=self.device)
        batch_tokens = min(recipe.data.tokens_per_batch, training.tokens_per_update)
        batches = Batches(
            self.store, tokens=batch_tokens, seed=recipe.seed,
            vocabularies=self.vocabularies, sampling=recipe.vocabulary.sampling,
        )  # fmt: skip
        accumulate = max(1, round(training.tokens_per_update / batch_tokens))
        parameters = sum(p.numel() for p in self.model.parameters())
        self.stage(
            f"Training {parameters / 1e6:.1f} million parameters on {self.device} ({torch.get_num_threads()} threads)"
        )
        self.report("begin", recipe=recipe.name, parameters=parameters, step=progress.step, version=jumok.__version__)
        outcome = loop(
            self.model,
            ahead(batches.walk(Place(progress.epoch, progress.index)), self.device),
            self.objective(),
            self.optimizer,
            optim.Schedule(training.schedule, recipe.model.d_model, training.warmup, training.peak),
            progress,
            self.limits(batches, accumulate),
            seed=recipe.seed,
            accumulate=accumulate,
            largest_gradient=training.clip,
            mean=self.mean,
            report=lambda **values: self.report("step", **values),
            validate=self.validate,
            save=self.save,
            stop=self.stop,
        )
        if outcome.reason == "stopped":
            self.report("note", text=f"stopped at step {outcome.progress.step:,}; everything is saved")
            raise Resumable(
                f"stopped at step {outcome.progress.step:,}; everything is saved",
                where=f"in {self.folder.path}",
                hint="run the same command again to continue",
            )
        return self.finish(outcome.reason, outcome.progress)

    def limits(self, batches: Batches, accumulate: int) -> Limits:
        """The recipe's limits; epochs are told as steps, too, so that the schedule can end with them."""
        training = self.recipe.training
        seconds, expected = None, None
        if training.epochs is not None:
            expected = min(training.steps, -(-training.epochs * batches.count(0) // accumulate))
        if training.minutes is not None:
            spent = time.monotonic() - self.began  # reading and the vocabulary count; the end needs a little, too
            seconds = max(1.0, training.minutes * 60.0 - spent - min(15.0, training.minutes * 3.0))
        return Limits(
            steps=training.steps, expected=expected, epochs=training.epochs, seconds=seconds, bleu=training.until_bleu,
            patience=training.patience, validations=training.validations, validate_every=training.validate_every,
        )  # fmt: skip

    def objective(self) -> Callable[[Batch], tuple[Tensor, int]]:
        training = self.recipe.training
        hidden = torch.compile(self.model.hidden, dynamic=True) if training.compile else self.model.hidden
        plain = next_token(self.model, smoothing=training.label_smoothing, hidden=hidden)
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
        """Restore the newest checkpoint that verifies; say which were refused and why."""
        found, refused = self.folder.newest()
        for error in refused:
            self.report("note", text=f"refused a checkpoint: {error.what} ({error.where})")
        if found is None:
            return Progress()
        if found.state.get("vocabulary") != self.vocabularies.digest:
            raise ModelFileError("the checkpoint belongs to another vocabulary", where=f"in {found.folder}")
        if found.state.get("data") != self.corpus.digest:
            self.report("note", text="the training text is not the one this run began with")
        expected = checkpoint.weights(self.model)
        checkpoint.set_weights(self.model, found.tensors("model.safetensors", expected))
        optim.restore_optimizer(self.model, self.optimizer, found.tensors("optimizer.safetensors"))
        if self.mean is not None and (found.folder / "mean.safetensors").exists():
            self.mean.tensors.update(found.tensors("mean.safetensors", expected))
        self.stage(f"Continuing from step {found.step:,}")
        return Progress.from_json(found.state["progress"])

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; a disk that refuses three in a row ends the run."""
        tensors = {
            "model.safetensors": checkpoint.weights(self.model),
            "optimizer.safetensors": optim.optimizer_tensors(self.model, self.optimizer),
        }
        if self.mean is not None:
            tensors["mean.safetensors"] = {name: self.mean.tensors[name] for name in checkpoint.weights(self.model)}
        state = {
            "progress": progress.to_json(),
            "vocabulary": self.vocabularies.digest,
            "data": self.corpus.digest,
            "version": jumok.__version__,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": str(self.device),
        }
        keep = max(2, self.recipe.training.average)
        try:
            self.folder.save(progress.step, tensors, state, keep=keep, best=progress.best_step)
        except DiskError as error:
            self.unsaved += 1
            if self.unsaved == UNSAVED_LIMIT:
                raise
            self.report("note", text=f"{error.what} ({error.where}); training goes on from memory")
            return
        self.unsaved = 0
        self.report("checkpoint", step=progress.step)

    # ------------------------------------------------------------------ weights to scores

    def validate(self, progress: Progress) -> dict[str, float]:
        """Loss, perplexity and greedy BLEU on the validation set; one fixed sentence shows how it is getting on."""
        scores, sample = self.judge(self.recipe.training.valid_pairs)
        better = scores["bleu"] > progress.best_bleu
        self.report(
            "validation", step=progress.step, epoch=progress.epoch, seconds=progress.seconds, better=better,
            sample=sample, **scores,
        )  # fmt: skip
        return scores

    def judge(self, most: int) -> tuple[dict[str, float], str]:
        """The scores of the weights as they are now, on at most `most` validation pairs."""
        self.model.eval()
        pairs = self.valid[:most]
        sources = self.vocabularies.source.encode_all([pair.source for pair in pairs])
        targets = self.vocabularies.target.encode_all([pair.target for pair in pairs])
        scored = self.engine.score(list(zip(sources, targets, strict=True)))
        loss, tokens = -sum(h.log_probability for h in scored), sum(len(h.ids) for h in scored)
        found = self.engine.decode(sources, Options(beam=1))
        texts = [self.vocabularies.target.decode(hypotheses[0].body) for hypotheses in found]
        bleu = metrics.bleu(texts, [pair.target for pair in pairs], tokenize="auto").value
        chosen = typical(sources)
        scores = {"loss": loss / tokens, "perplexity": metrics.perplexity(loss, tokens), "bleu": bleu}
        return scores, f"{pairs[chosen].source} → {texts[chosen]}"

    def finish(self, reason: str, progress: Progress) -> Run:
        """Export the best of: the mean of the last checkpoints, the best single one, the running mean."""
        last = {name: value.clone() for name, value in checkpoint.weights(self.model).items()}
        candidates = dict(self.candidates(progress)) or {"last weights": last}
        judged = {}
        for name, tensors in candidates.items():
            checkpoint.set_weights(self.model, tensors)
            judged[name] = self.judge(self.recipe.training.valid_pairs)[0]
        name = max(judged, key=lambda one: (judged[one]["bleu"], -judged[one]["loss"]))
        card = checkpoint.maker(self.recipe) | {
            "weights": name,
            "ended_by": reason,
            "steps": progress.step,
            "epochs": progress.epoch,
            "minutes": round(progress.seconds / 60, 1),
            "pairs": len(self.store),
            "data": self.corpus.digest,
            "vocabulary": self.vocabularies.digest,
            "valid": judged,
            "machine": str(machine.describe()),
        }
        checkpoint.export(self.folder.bundle, candidates[name], self.recipe, self.vocabularies, card)
        scores = judged[name]
        self.report(
            "finished", reason=reason, weights=name, step=progress.step, **scores,
            text=f"Done after {progress.step:,} steps ({reason}): {name}, valid BLEU {scores['bleu']:.2f}, "
            f"perplexity {scores['perplexity']:.2f}; the model is in {self.folder.bundle}",
        )  # fmt: skip
        return Run(self.folder.path, scores)

    def candidates(self, progress: Progress) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """Weights that may become the finished model, by name."""
        expected = checkpoint.weights(self.model)
        last = self.folder.last(self.recipe.training.average, until=progress.step)
        whole = [one.tensors("model.safetensors", expected) for one in last]
        if len(whole) > 1:
            yield f"mean of the last {len(whole)} checkpoints", checkpoint.average(whole)
        for one in self.folder.last(1, until=progress.best_step):
            yield f"checkpoint {one.step}", one.tensors("model.safetensors", expected)
        if self.mean is not None:
            yield "running mean", {name: self.mean.tensors[name].clone() for name in expected}

    def stage(self, text: str) -> None:
        self.report("stage", text=text)


def comparable(recipe: Recipe) -> dict[str, Any]:
    """A recipe without what may change between a stop and its continuation: the limits."""
    values = recipe.model_dump()
    for name in ("steps", "epochs", "minutes", "until_bleu", "patience"):
        del values["training"][name]
    return values


def typical(sources: Sequence[Sequence[int]]) -> int:
    """The first sentence of middling length: long enough to be interesting, short enough for one line."""
    middle = sorted(len(ids) for ids in sources)[len(sources) // 2]
    return next(row for row, ids in enumerate(sources) if len(ids) == middle)


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16 in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type == "cpu":
        flags = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, flag, lambda: False)() for flag in flags)
    return device.type == "mps"
