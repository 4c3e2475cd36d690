"""Evaluation of a model on a test set: scores with signatures, speed, and on request perplexity and significance.

A model is anything that translates lines and scores pairs.  A block is scored while the next one is being translated.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, Unpack

from jumok.config.keywords import SearchKeywords, TranslateKeywords
from jumok.data.corpora import Pair
from jumok.errors import DataError
from jumok.evaluation import metrics
from jumok.evaluation.significance import Significance, significance
from jumok.text.lines import read_lines
from jumok.translation import Translation

SCORED = 1_024  # pairs to score at once for perplexity


class Translates(Protocol):
    """A model that can be evaluated."""

    def lines(
        self, texts: Iterable[str], *, progress: Callable[[int], None] = ..., **keywords: Unpack[TranslateKeywords]
    ) -> Iterator[Translation]: ...
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[Translation]: ...


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a test set."""

    scores: dict[str, metrics.Score]  # bleu and chrf; ter on request
    sentences: int
    seconds: float  # to translate and score them
    hypotheses: tuple[str, ...]
    perplexity: float | None = None  # per subword of the reference, on request
    significance: Significance | None = None
    accuracy: float | None = None  # if every output has as many words as its reference: labels, answers

    @property
    def bleu(self) -> float:
        return self.scores["bleu"].value

    @property
    def chrf(self) -> float:
        return self.scores["chrf"].value

    def lines(self) -> list[str]:
        """The evaluation as lines of text."""
        report = [str(score) for score in self.scores.values()]
        report += [] if self.accuracy is None else [f"right words in their places: {self.accuracy:.2f} %"]
        report += [] if self.perplexity is None else [f"perplexity {self.perplexity:.3f} per subword of the reference"]
        report.append(f"{self.sentences:,} sentences in {self.seconds:.1f} s ({self.sentences / self.seconds:,.0f}/s)")
        if self.significance is not None:
            s = self.significance
            low, high = s.interval
            report.append(
                f"against the other output: {s.a.value:.2f} to {s.b.value:.2f}, difference {s.difference:+.2f} "
                f"(95 % interval {low:+.2f} … {high:+.2f}), p = {s.p_value:.4f}, paired bootstrap"
            )
        return report

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
    """Translate the sources and compare the translations with the references: BLEU and chrF.

    `ter` adds the translation edit rate, which takes longer than both; `perplexity` adds that of the references;
    `compare` adds a significance test against another system's output file.  Other keywords are options of the search.
    """
    metrics.check_installed()  # now: what is missing is reported before the work
    if not pairs:
        raise DataError("evaluation.nothing_to_evaluate")
    others = (
        _read_output(compare, len(pairs)) if compare else None
    )  # read now: a wrong file is reported before the work
    began = time.perf_counter()
    names = ("bleu", "chrf", "ter") if ter else ("bleu", "chrf")
    translated = model.lines((pair.source for pair in pairs), progress=progress, details=False, **search)
    hypotheses, scores = _score(translated, pairs, names, tokenize)
    seconds = time.perf_counter() - began
    references = [pair.target for pair in pairs]
    alike = all(len(a.split()) == len(b.split()) for a, b in zip(hypotheses, references, strict=True))
    return Evaluation(
        scores=scores,
        sentences=len(pairs),
        seconds=seconds,
        hypotheses=tuple(hypotheses),
        perplexity=perplexity_of(model, pairs) if perplexity else None,
        significance=significance(hypotheses, others, references) if others else None,
        accuracy=metrics.accuracy(hypotheses, references) if alike else None,
    )


def _score(
    translations: Iterable[Translation], pairs: Sequence[Pair], names: Sequence[str], tokenize: str
) -> tuple[list[str], dict[str, metrics.Score]]:
    """Translations of all pairs and their scores, which are counted as the translations arrive."""
    tallies: dict[str, metrics.Tally] = {}
    hypotheses: list[str] = []
    translated = (translation.text for translation in translations)
    while block := list(islice(translated, metrics.BLOCK)):
        # only now, so that the model translates while sacreBLEU is imported and looks at the references
        tallies = tallies or metrics.tallies(names, [pair.target for pair in pairs], tokenize=tokenize)
        references = [pair.target for pair in pairs[len(hypotheses) : len(hypotheses) + len(block)]]
        for tally in tallies.values():
            tally.add(block, [references])
        hypotheses += block
    return hypotheses, {name: tally.score() for name, tally in tallies.items()}


def perplexity_of(model: Translates, pairs: Sequence[Pair]) -> float:
    """The model's perplexity per subword of the references, with teacher forcing."""
    loss, tokens = 0.0, 0
    for start in range(0, len(pairs), SCORED):
        block = pairs[start : start + SCORED]
        for scored in model.score([pair.source for pair in block], [pair.target for pair in block]):
            loss, tokens = loss - scored.log_probability, tokens + len(scored.tokens)
    return metrics.perplexity(loss, tokens)


def _read_output(path: str, lines: int) -> list[str]:
    """Another system's output, which must have this many lines."""
    others = list(read_lines(path))
    if len(others) != lines:
        raise DataError("evaluation.unequal_output", lines=len(others), references=lines, file=path)
    return others
