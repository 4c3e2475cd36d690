"""A model against a test set: scores with signatures, speed, and, if asked, perplexity and significance.

Knows a model only as something that translates lines and scores pairs.  A block is scored while the next one is being
translated.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, Unpack

import numpy as np

from jumok.config.search import SearchKeywords
from jumok.data.corpora import Pair
from jumok.errors import DataError
from jumok.evaluation import metrics
from jumok.reports.attention import AttentionView
from jumok.text.boundaries import words_of
from jumok.text.lines import read_lines
from jumok.translation import TranslateKeywords, Translation

SCORED = 1_024  # pairs whose probabilities are held at once


class Translates(Protocol):
    """What can be evaluated."""

    def lines(
        self, texts: Iterable[str], *, progress: Callable[[int], None] = ..., **keywords: Unpack[TranslateKeywords]
    ) -> Iterator[Translation]: ...
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[Translation]: ...


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a test set."""

    scores: dict[str, metrics.Score]  # bleu and chrf; ter where it was asked for
    sentences: int
    seconds: float  # to translate and score them
    hypotheses: tuple[str, ...]
    perplexity: float | None = None  # per subword of the reference, where it was asked for
    significance: metrics.Significance | None = None
    accuracy: float | None = None  # where the output is as many words as the reference each time: labels, answers

    @property
    def bleu(self) -> float:
        return self.scores["bleu"].value

    @property
    def chrf(self) -> float:
        return self.scores["chrf"].value

    def lines(self) -> list[str]:
        """The evaluation as text."""
        shown = [str(score) for score in self.scores.values()]
        shown += [] if self.accuracy is None else [f"right words in their places: {self.accuracy:.2f} %"]
        shown += [] if self.perplexity is None else [f"perplexity {self.perplexity:.3f} per subword of the reference"]
        shown.append(f"{self.sentences:,} sentences in {self.seconds:.1f} s ({self.sentences / self.seconds:,.0f}/s)")
        if self.significance is not None:
            s = self.significance
            low, high = s.interval
            shown.append(
                f"against the other output: {s.a.value:.2f} to {s.b.value:.2f}, difference {s.difference:+.2f} "
                f"(95 % interval {low:+.2f} … {high:+.2f}), p = {s.p_value:.4f}, paired bootstrap"
            )
        return shown

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            name: {"value": round(score.value, 4), "signature": score.signature} for name, score in self.scores.items()
        }
        values |= {"sentences": self.sentences, "seconds": round(self.seconds, 3)}
        if self.perplexity is not None:
            values["perplexity"] = self.perplexity
        if self.accuracy is not None:
            values["accuracy"] = self.accuracy
        if self.significance is not None:
            values["significance"] = vars(self.significance)
        return values


def evaluate(
    model: Translates,
    pairs: Sequence[Pair],
    *,
    tokenize: str = "auto",
    compare: str | None = None,
    ter: bool = False,
    perplexity: bool = False,
    progress: Callable[[int], None] = lambda sentences: None,
    **search: Unpack[SearchKeywords],
) -> Evaluation:
    """Translate the sources and compare with the references: BLEU and chrF.

    `ter` adds the translation edit rate, which takes longer than both; `perplexity` that of the references, which needs
    torch; `compare` a significance test against another system's output file.  Other keywords say how to search.
    """
    metrics.check_installed()  # now: what is missing is reported before the work
    if not pairs:
        raise DataError("there is nothing to evaluate on", hint="give at least one pair")
    others = _output(compare, len(pairs)) if compare else None  # read now: a wrong file is reported before the work
    began = time.perf_counter()
    names = ("bleu", "chrf", "ter") if ter else ("bleu", "chrf")
    translated = model.lines((pair.source for pair in pairs), progress=progress, details=False, **search)
    hypotheses, scores = _judged(translated, pairs, names, tokenize)
    seconds = time.perf_counter() - began
    references = [pair.target for pair in pairs]
    alike = all(len(a.split()) == len(b.split()) for a, b in zip(hypotheses, references, strict=True))
    return Evaluation(
        scores=scores,
        sentences=len(pairs),
        seconds=seconds,
        hypotheses=tuple(hypotheses),
        perplexity=perplexity_of(model, pairs) if perplexity else None,
        significance=metrics.significance(hypotheses, others, references) if others else None,
        accuracy=metrics.accuracy(hypotheses, references) if alike else None,
    )


def _judged(
    translations: Iterable[Translation], pairs: Sequence[Pair], names: Sequence[str], tokenize: str
) -> tuple[list[str], dict[str, metrics.Score]]:
    """Translations of all pairs and their scores, which are counted as the translations come."""
    judges: dict[str, metrics.Tally] = {}
    hypotheses: list[str] = []
    translated = (translation.text for translation in translations)
    while block := list(islice(translated, metrics.BLOCK)):
        # the first time, sacreBLEU is imported and looks at the references: meanwhile the model goes on
        judges = judges or metrics.tallies(names, [pair.target for pair in pairs], tokenize=tokenize)
        references = [pair.target for pair in pairs[len(hypotheses) : len(hypotheses) + len(block)]]
        for judge in judges.values():
            judge.add(block, [references])
        hypotheses += block
    return hypotheses, {name: judge.score() for name, judge in judges.items()}


def perplexity_of(model: Translates, pairs: Sequence[Pair]) -> float:
    """The model's perplexity per subword of the references, with the reference as what was said so far."""
    loss, tokens = 0.0, 0
    for start in range(0, len(pairs), SCORED):
        some = pairs[start : start + SCORED]
        for one in model.score([pair.source for pair in some], [pair.target for pair in some]):
            loss, tokens = loss - one.log_probability, tokens + len(one.tokens)
    return metrics.perplexity(loss, tokens)


def _output(path: str, lines: int) -> list[str]:
    """Another system's output, which must have so many lines."""
    others = list(read_lines(path))
    if len(others) != lines:
        raise DataError(f"{len(others):,} lines to compare with {lines:,} references", where=f"in {path}")
    return others


class Attends(Protocol):
    """What can be asked for its attention."""

    def attention(self, text: str, translation: str | None = None) -> AttentionView: ...


def alignment_errors(model: Attends, phrases: Sequence[Any]) -> np.ndarray:
    """Alignment error rate (layers, heads) of cross-attention against gold word links, reference translations forced.

    `phrases` have english, korean and alignment, as the phrasebook makes them.
    """
    gold = [set(phrase.alignment) for phrase in phrases]
    links: dict[tuple[int, int], list[set[tuple[int, int]]]] = {}
    for phrase in phrases:
        view = model.attention(phrase.english, phrase.korean)
        source, target = words_of(view.source), words_of(view.target)
        for place in np.ndindex(*view.cross.shape[:2]):
            links.setdefault((place[0], place[1]), []).append(metrics.word_links(view.cross[place], source, target))
    rates = np.zeros((max(l for l, _ in links) + 1, max(h for _, h in links) + 1))
    for place, found in links.items():
        rates[place] = metrics.alignment_error_rate(found, gold)
    return rates
