"""How good the weights are now, on the validation pairs or on a fixed part of them: loss and perplexity, and BLEU of
greedy translations; where the references are answers or labels, how many of them are right.

    judge = judge_of(engine, vocabularies, pairs, ratio=1.1)
    scores, sample = judge(200)

A part is spread evenly over the set and is the same pairs every time, so that a curve compares with itself.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jumok.config.search import SearchOptions
from jumok.data.batches import Batch, teacher_force
from jumok.data.corpora import Pair
from jumok.engines.torch_engine import TorchEngine
from jumok.evaluation import metrics
from jumok.models.base import PAD, Learner
from jumok.stopping import NEVER, Stop
from jumok.text.vocabulary import Vocabularies
from jumok.training.distributed import ALONE, World
from jumok.training.objectives import objective_of
from jumok.training.progress import Progress

PROBES = (8, 64)  # pairs that are enough to see what validating costs: few, and if these are quick, more
QUICK = 1.0  # seconds
SOME = 96  # pairs of like length that are judged together
FEW = 32  # stretches of a text
GREEDY = SearchOptions(beam=1)


# What validating costs per token of a reference, in target tokens of training.  Measured on one core, Multi30k: scoring
# 0.5 to 1.0, greedy search 0.2 to 0.4 (tiny, small) and 1.7 (base, on 50 pairs only) at the length of the reference.
# A model that has learnt little writes about twice as much, and search gains less than training from further cores.
SCORING, SEARCHING = 1.0, 2.0


class Judge:
    """Scores a model, whatever its weights, on the pairs of one validation set.

    `ratio` is the length of target sentences in subwords over that of source sentences.  Output may be half as long
    again as this and 10 more: nobody waits for what an untrained model says until it is stopped.
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
        """`groups` are the corpora that the pairs belong to, where there are several: each is scored by itself, too.

        A validation that is stopped raises `Stopped`, and nothing has come of it.
        """
        self.engine, self.vocabularies, self.pairs, self.stop = engine, vocabularies, pairs, stop
        self.groups = groups if len(set(groups)) > 1 else ()
        self.sources = vocabularies.source.encode_all([pair.source for pair in pairs])
        self.targets = vocabularies.target.encode_all([pair.target for pair in pairs])
        self.limits = [round(1.5 * max(1.0, ratio) * len(ids)) + 10 for ids in self.sources]

    def __call__(self, most: int) -> tuple[dict[str, float], str]:
        """Scores on at most `most` pairs, and one of them, always the same, with its translation."""
        rows = spread(len(self.pairs), most)
        scores, texts = self.scores(rows, [self.limits[row] for row in rows])
        chosen = typical([self.sources[row] for row in rows])
        source = self.pairs[rows[chosen]].source.replace("\n", " ")
        return scores, f"{source} → {texts[chosen]}"

    def scores(self, rows: Sequence[int], limits: Sequence[int]) -> tuple[dict[str, float], list[str]]:
        """Scores on these pairs and their translations, none longer than its limit."""
        order = sorted(range(len(rows)), key=lambda place: -len(self.sources[rows[place]]))
        loss, tokens, texts = 0.0, 0, [""] * len(rows)
        for start in range(0, len(order), SOME):
            self.stop.check()
            some = order[start : start + SOME]
            sources, targets = ([side[rows[place]] for place in some] for side in (self.sources, self.targets))
            for scored in self.engine.score(list(zip(sources, targets, strict=True))):
                loss, tokens = loss - scored.log_probability, tokens + len(scored.ids)
            found = self.engine.decode(sources, GREEDY, limits=[limits[place] for place in some])
            for place, hypotheses in zip(some, found, strict=True):
                texts[place] = self.vocabularies.target.decode(hypotheses[0].body)
        scores = {"loss": loss / tokens, "perplexity": metrics.perplexity(loss, tokens)}
        scores |= self.compared(texts, [self.pairs[row].target for row in rows])
        return scores | self._compared_by_group(rows, texts), texts

    def _compared_by_group(self, rows: Sequence[int], texts: Sequence[str]) -> dict[str, float]:
        """The same for the pairs of each corpus, as bleu/NAME."""
        found: dict[str, float] = {}
        for group in dict.fromkeys(self.groups):
            mine = [place for place, row in enumerate(rows) if self.groups[row] == group]
            if mine:
                references = [self.pairs[rows[place]].target for place in mine]
                judged = self.compared([texts[place] for place in mine], references)
                found |= {f"{name}/{group}": value for name, value in judged.items()}
        return found

    def compared(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """How near what was said is to what should have been."""
        return {"bleu": metrics.bleu(texts, references, tokenize="auto").value}

    def work(self) -> float:
        """Counted work of validating on one pair, in target tokens of training: the same on every machine."""
        return (SCORING + SEARCHING) * self._length()

    def _length(self) -> float:
        return sum(len(ids) + 1 for ids in self.targets) / len(self.targets)

    def seconds_a_pair(self, clock: Callable[[], float] = time.monotonic) -> float:
        """What validating on one pair takes, with output as long as that of a model that has learnt."""
        taken = 0.0
        for count in PROBES:
            rows = spread(len(self.pairs), count)
            began = clock()
            self.scores(rows, [len(self.targets[row]) + 1 for row in rows])
            seconds = clock() - began
            taken = seconds / len(rows)
            if seconds > QUICK:
                break
        return taken


class AnswerJudge(Judge):
    """The same where references are answers or labels: each word is right, in its place, or wrong."""

    def compared(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return {"accuracy": metrics.accuracy(texts, references)}


class TextJudge(Judge):
    """The same for stretches of a text, which nobody translates, and for models that say themselves what they learn."""

    def work(self) -> float:
        return SCORING * self._length()

    def __call__(self, most: int) -> tuple[dict[str, float], str]:
        rows = spread(len(self.pairs), most)
        return self.scores(rows, [])[0], ""

    @torch.inference_mode()
    def scores(self, rows: Sequence[int], limits: Sequence[int]) -> tuple[dict[str, float], list[str]]:
        order = sorted(rows, key=lambda row: -len(self.targets[row]))
        objective = objective_of(self.engine.fast, smoothing=0.0)
        loss, tokens, characters, right, of = 0.0, 0, 0, 0, 0
        for start in range(0, len(order), FEW):
            self.stop.check()
            some = order[start : start + FEW]
            batch = self.batch(some)
            total, count = objective(batch)
            loss, tokens = loss + float(total), tokens + count
            characters += sum(len(self.pairs[row].target) for row in some)
            if isinstance(self.engine.fast, Learner):
                hits = self.engine.fast.accuracy(batch.source, batch.target, batch.labels)
                right, of = right + hits[0], of + hits[1]
        scores = {"loss": loss / tokens, "perplexity": metrics.perplexity(loss, tokens)}
        scores |= {"accuracy": 100.0 * right / of} if of else {"nats": loss / characters}
        return scores, []

    def batch(self, rows: Sequence[int]) -> Batch:
        """These pairs as a model is taught."""
        sources, targets = [self.sources[row] for row in rows], [self.targets[row] for row in rows]
        source, target, labels = teacher_force(sources, targets, ends=False)
        batch = Batch(source, target, labels, torch.tensor(rows), int((labels != PAD).sum()))
        return batch.to(self.engine.device)


def judge_of(
    engine: TorchEngine,
    vocabularies: Vocabularies,
    pairs: Sequence[Pair],
    *,
    is_text: bool = False,
    labels: bool = False,
    **more: Any,
) -> Judge:
    """Who judges a model of this kind on pairs like these; options as of `Judge`."""
    if is_text or isinstance(engine.model, Learner):
        return TextJudge(engine, vocabularies, pairs, **more)
    answers = labels or all(len(pair.target.split()) == 1 for pair in pairs)
    return (AnswerJudge if answers else Judge)(engine, vocabularies, pairs, **more)


def spread(count: int, most: int) -> list[int]:
    """At most `most` of `count` numbers, evenly spread, always the same."""
    chosen = min(count, most)
    return [row * count // chosen for row in range(chosen)]


def typical(sources: Sequence[Sequence[int]]) -> int:
    """The first sentence of middling length: long enough to be interesting, short enough for one line."""
    middle = sorted(len(ids) for ids in sources)[len(sources) // 2]
    return next(row for row, ids in enumerate(sources) if len(ids) == middle)


class Validator:
    """Validates a run: rank 0 scores, all processes hear of it, and scores are kept by the name of the weights."""

    def __init__(self, judge: Judge, report: Callable[..., None], world: World = ALONE) -> None:
        self.judge, self.report, self.world = judge, report, world
        self.known: dict[tuple[str, int], dict[str, float]] = {}  # by name of the weights and number of pairs

    def score(self, name: str, pairs: int) -> dict[str, float]:
        """Scores of the weights that the model has now, which have this name; those already known are not computed."""
        if (name, pairs) not in self.known:
            self.known[name, pairs] = self.judge(pairs)[0]
        return self.known[name, pairs]

    def __call__(self, progress: Progress) -> dict[str, float]:
        """Loss, perplexity and greedy BLEU on the validation set, reported with one fixed sentence."""
        if not self.world.first:
            return self.world.share({})
        counts, pairs = progress.counts, progress.plan.pairs
        scores, sample = self.judge(pairs)
        self.world.share(scores)
        self.known[f"checkpoint {progress.counts.step}", pairs] = scores
        self.report(
            "validation", step=progress.counts.step, epoch=counts.epoch, seconds=counts.seconds, wall=counts.wall,
            pairs=pairs, of=len(self.judge.pairs), seen=counts.tokens, better=progress.best.beaten(scores),
            sample=sample, **scores,
        )  # fmt: skip
        return scores
