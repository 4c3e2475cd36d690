"""Scores of the current weights on the validation pairs or a fixed part of them: loss, perplexity, and BLEU of greedy
translations; where the references are answers or labels, the percentage that is right.

    scorer = scorer_of(engine, vocabularies, pairs, ratio=1.1)
    scores, sample = scorer(200)

A part is spread evenly over the set and always has the same pairs, so that the scores of a run can be compared.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumok import machine
from jumok.config.search import LONGEST_SOURCE, SearchOptions
from jumok.data.batches import Batch, teacher_force
from jumok.data.corpora import Pair
from jumok.data.prepare.stage import Stage
from jumok.engines.torch_engine import TorchEngine
from jumok.evaluation import metrics
from jumok.models.base import PAD, Learner
from jumok.stopping import NEVER, Stop
from jumok.text.vocabulary import Vocabularies
from jumok.training.distributed import ALONE, World
from jumok.training.objectives import objective_of
from jumok.training.progress import Progress

PROBES = (8, 64)  # pairs to measure the speed of validating on: few, and more if these are quick
QUICK = 1.0  # seconds
PAIRS = 96  # pairs of similar length that are scored in one batch
SEGMENTS = 32  # segments of a text that are scored in one batch
GREEDY = SearchOptions(beam=1)


# Work of validating per token of a reference, in target tokens of training.  Measured on one core, Multi30k: scoring
# 0.5 to 1.0, greedy search 0.2 to 0.4 (tiny, small) and 1.7 (base, on 50 pairs only) at the length of the reference.
# An untrained model writes about twice as much, and search gains less than training from further cores.
SCORING, SEARCHING = 1.0, 2.0


class Scorer:
    """Scores the current weights of a model on the pairs of one validation set.

    `ratio` is the length of target sentences in subwords over that of source sentences.  Output is at most 1.5 times as
    long as this implies, plus 10: an untrained model would not stop earlier.
    """

    def __init__(
        self,
        engine: TorchEngine,
        vocabularies: Vocabularies,
        pairs: Sequence[Pair],
        *,
        ratio: float,
        groups: Sequence[str] = (),
        stop: Stop = NEVER,
    ) -> None:
        """`groups` are the corpora that the pairs belong to; where there are several, each is also scored by itself.

        A validation that `stop` interrupts raises `Stopped`.
        """
        self.engine, self.vocabularies, self.pairs, self.stop = engine, vocabularies, pairs, stop
        self.progress: Callable[[float, int], None] = lambda share, pairs: None  # told the pairs that are done
        self.groups = groups if len(set(groups)) > 1 else ()
        encoded = vocabularies.source.encode_all([pair.source for pair in pairs])
        self.sources = [ids[:LONGEST_SOURCE] for ids in encoded]  # engines refuse longer ones
        self.targets = vocabularies.target.encode_all([pair.target for pair in pairs])
        self.limits = [round(1.5 * max(1.0, ratio) * len(ids)) + 10 for ids in self.sources]

    def __call__(self, most: int) -> tuple[dict[str, float], str]:
        """Scores on at most `most` pairs, and one of them, always the same, with its translation."""
        rows = spread(len(self.pairs), most)
        scores, texts = self.score(rows, [self.limits[row] for row in rows])
        chosen = typical([self.sources[row] for row in rows])
        source = self.pairs[rows[chosen]].source.replace("\n", " ")
        return scores, f"{source} → {texts[chosen]}"

    def score(self, rows: Sequence[int], limits: Sequence[int]) -> tuple[dict[str, float], list[str]]:
        """Scores on these pairs, and their translations, none longer than its limit."""
        order = sorted(range(len(rows)), key=lambda index: -len(self.sources[rows[index]]))
        loss, tokens, texts, sureness = 0.0, 0, [""] * len(rows), list[float]()
        for start in range(0, len(order), PAIRS):
            self.stop.check()
            self.progress(start / len(order), start)
            batch = order[start : start + PAIRS]
            sources, targets = ([side[rows[index]] for index in batch] for side in (self.sources, self.targets))
            for scored in self.engine.score(list(zip(sources, targets, strict=True))):
                loss, tokens = loss - scored.log_probability, tokens + len(scored.ids)
            translations = self.engine.decode(sources, GREEDY, limits=[limits[index] for index in batch])
            for index, hypotheses in zip(batch, translations, strict=True):
                texts[index] = self.vocabularies.target.decode(hypotheses[0].body)
                sureness.append(hypotheses[0].log_probability / max(1, len(hypotheses[0].ids)))
        self.engine.release()
        scores = {"loss": loss / tokens, "perplexity": metrics.perplexity(loss, tokens)}
        scores["doubt"] = sorted(sureness)[len(sureness) // 20]  # 5 % of the translations are less sure than this
        scores |= self.compare(texts, [self.pairs[row].target for row in rows])
        return scores | self._compare_by_group(rows, texts), texts

    def _compare_by_group(self, rows: Sequence[int], texts: Sequence[str]) -> dict[str, float]:
        """The same for the pairs of each corpus, as bleu/NAME."""
        scores: dict[str, float] = {}
        for group in dict.fromkeys(self.groups):
            members = [index for index, row in enumerate(rows) if self.groups[row] == group]
            if members:
                references = [self.pairs[rows[index]].target for index in members]
                compared = self.compare([texts[index] for index in members], references)
                scores |= {f"{name}/{group}": value for name, value in compared.items()}
        return scores

    def compare(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """Scores of translations against their references."""
        return {"bleu": metrics.bleu(texts, references, tokenize="auto").value}

    def count_work(self) -> float:
        """Work of validating on one pair, counted in target tokens of training: the same on every machine."""
        return (SCORING + SEARCHING) * self._length()

    def _length(self) -> float:
        return sum(len(ids) + 1 for ids in self.targets) / len(self.targets)

    def measure_seconds(self, clock: Callable[[], float] = time.monotonic) -> float:
        """Seconds to validate on one pair, with output as long as that of a trained model."""
        each = 0.0
        for count in PROBES:
            rows = spread(len(self.pairs), count)
            began = clock()
            self.score(rows, [len(self.targets[row]) + 1 for row in rows])
            seconds = clock() - began
            each = seconds / len(rows)
            if seconds > QUICK:
                break
        return each


class AnswerScorer(Scorer):
    """Scores of answers or labels: each word must be right and at its position."""

    def compare(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(texts, references)}


class TextScorer(Scorer):
    """Scores of segments of a text, without translations, and of models that define their own loss."""

    def count_work(self) -> float:
        return SCORING * self._length()

    def __call__(self, most: int) -> tuple[dict[str, float], str]:
        rows = spread(len(self.pairs), most)
        return self.score(rows, [])[0], ""

    @torch.inference_mode()
    def score(self, rows: Sequence[int], limits: Sequence[int]) -> tuple[dict[str, float], list[str]]:
        order = sorted(rows, key=lambda row: -len(self.targets[row]))
        objective = objective_of(self.engine.fast, smoothing=0.0)
        loss, tokens, characters, right, of = 0.0, 0, 0, 0, 0
        for start in range(0, len(order), SEGMENTS):
            self.stop.check()
            self.progress(start / len(order), start)
            chosen = order[start : start + SEGMENTS]
            batch = self.batch(chosen)
            total, count = objective(batch)
            loss, tokens = loss + float(total), tokens + count
            characters += sum(len(self.pairs[row].target) for row in chosen)
            if isinstance(self.engine.fast, Learner):
                hits = self.engine.fast.accuracy(batch.source, batch.target, batch.labels)
                right, of = right + hits[0], of + hits[1]
        scores = {"loss": loss / tokens, "perplexity": metrics.perplexity(loss, tokens)}
        scores |= {"accuracy": 100.0 * right / of} if of else {"nats": loss / characters}
        return scores, []

    def batch(self, rows: Sequence[int]) -> Batch:
        """These pairs as a batch for teacher forcing."""
        sources, targets = [self.sources[row] for row in rows], [self.targets[row] for row in rows]
        source, target, labels = teacher_force(sources, targets, ends=False)
        batch = Batch(source, target, labels, torch.tensor(rows), int((labels != PAD).sum()))
        return batch.to(self.engine.device)


def scorer_of(
    engine: TorchEngine,
    vocabularies: Vocabularies,
    pairs: Sequence[Pair],
    *,
    is_text: bool = False,
    labels: bool = False,
    **more: Any,
) -> Scorer:
    """The scorer for this kind of model and of pairs; further options are those of `Scorer`."""
    if is_text or isinstance(engine.model, Learner):
        return TextScorer(engine, vocabularies, pairs, **more)
    answers = labels or all(len(pair.target.split()) == 1 for pair in pairs)
    return (AnswerScorer if answers else Scorer)(engine, vocabularies, pairs, **more)


def spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` numbers, evenly spread, always the same."""
    chosen = min(count, most)
    return [row * count // chosen for row in range(chosen)]


def typical(sources: Sequence[Sequence[int]]) -> int:
    """The number of the first sentence of median length."""
    middle = sorted(len(ids) for ids in sources)[len(sources) // 2]
    return next(row for row, ids in enumerate(sources) if len(ids) == middle)


class Validator:
    """Validates a run: rank 0 scores, all processes get the result; scores are cached by the name of the weights."""

    def __init__(self, scorer: Scorer, report: Callable[..., None], world: World = ALONE) -> None:
        self.scorer, self.report, self.world = scorer, report, world
        self.known: dict[tuple[str, int], dict[str, float]] = {}  # by name of the weights and number of pairs

    def score(self, name: str, pairs: int) -> dict[str, float]:
        """Scores of the model's current weights, which have this name; known scores are not computed again."""
        if (name, pairs) not in self.known:
            self.known[name, pairs] = self._score(f"Scoring {name}", pairs)[0]
        return self.known[name, pairs]

    def _score(self, text: str, pairs: int) -> tuple[dict[str, float], str]:
        """Scores and a sample; the progress is reported under this text."""
        self.scorer.progress = Stage(self.report, "validating", text)
        try:
            return self.scorer(pairs)
        finally:
            self.scorer.progress = lambda share, pairs: None

    def __call__(self, progress: Progress) -> dict[str, float]:
        """Loss, perplexity and greedy BLEU on the validation set, reported with one fixed sentence."""
        if not self.world.first:
            return self.world.share({})
        counts, pairs = progress.counts, progress.plan.pairs
        scores, sample = self._score("Validating", pairs)
        self.world.share(scores)
        self.known[f"checkpoint {progress.counts.step}", pairs] = scores
        self.report(
            "validation", step=progress.counts.step, epoch=counts.epoch, seconds=counts.seconds, wall=counts.wall,
            pairs=pairs, of=len(self.scorer.pairs), seen=counts.tokens, better=progress.best.is_beaten(scores),
            sample=sample, memory=machine.resident_memory(), **scores,
        )  # fmt: skip
        return scores
