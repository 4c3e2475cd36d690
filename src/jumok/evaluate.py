"""A model against a test set: scores with signatures, perplexity, speed, significance against another output.

Knows a model only as something that translates lines and scores pairs.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jumok import metrics
from jumok.data.corpora import Pair, test_set
from jumok.errors import DataError
from jumok.text.lines import read_lines
from jumok.text.words import SPACE
from jumok.viz import AttentionView


class Translated(Protocol):
    """What a translation must tell."""

    @property
    def text(self) -> str: ...
    @property
    def log_probability(self) -> float: ...
    @property
    def tokens(self) -> tuple[str, ...]: ...


class Translates(Protocol):
    """What can be evaluated."""

    def lines(self, texts: Iterable[str], **options: Any) -> Iterator[Any]: ...
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a test set."""

    scores: dict[str, metrics.Score]
    perplexity: float  # per subword of the reference
    sentences: int
    seconds: float
    hypotheses: tuple[str, ...]
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
        shown.append(f"perplexity {self.perplexity:.3f} per subword of the reference")
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
        values |= {"perplexity": self.perplexity, "sentences": self.sentences, "seconds": round(self.seconds, 3)}
        if self.accuracy is not None:
            values["accuracy"] = self.accuracy
        if self.significance is not None:
            values["significance"] = vars(self.significance)
        return values


def evaluate(
    model: Translates,
    source: str | None = None,
    target: str | None = None,
    *,
    table: str | None = None,
    pairs: Sequence[Pair] | None = None,
    tokenize: str = "auto",
    compare: str | None = None,
    **options: Any,
) -> Evaluation:
    """Translate the sources and compare with the references; `compare` is another system's output file."""
    chosen = list(pairs) if pairs is not None else test_set(source, target, table)
    began = time.perf_counter()
    hypotheses = tuple(translation.text for translation in model.lines([pair.source for pair in chosen], **options))
    seconds = time.perf_counter() - began
    references = [pair.target for pair in chosen]
    alike = all(len(a.split()) == len(b.split()) for a, b in zip(hypotheses, references, strict=True))
    judged = model.score([pair.source for pair in chosen], references)
    loss, tokens = -sum(one.log_probability for one in judged), sum(len(one.tokens) for one in judged)
    return Evaluation(
        scores=metrics.scores(list(hypotheses), references, tokenize=tokenize),
        perplexity=metrics.perplexity(loss, tokens),
        sentences=len(chosen),
        seconds=seconds,
        hypotheses=hypotheses,
        significance=_against(compare, list(hypotheses), references) if compare else None,
        accuracy=metrics.accuracy(hypotheses, references) if alike else None,
    )


def _against(path: str, hypotheses: list[str], references: list[str]) -> metrics.Significance:
    others = list(read_lines(path))
    if len(others) != len(references):
        raise DataError(f"{len(others):,} lines to compare with {len(references):,} references", where=f"in {path}")
    return metrics.significance(hypotheses, others, references)


class Attends(Protocol):
    """What can be asked for its attention."""

    def attention(self, text: str, translation: str | None = None) -> AttentionView: ...


def words_of(pieces: Sequence[str]) -> list[int]:
    """The word (counted by spaces) each subword belongs to; -1 for a symbol such as </s> and for spaces at the end."""
    word, words, begun = -1, list[int](), False  # begun: there have been spaces, and nothing of the word yet
    for piece in pieces:
        if piece in ("<s>", "</s>"):
            words.append(-1)
            continue
        word += not begun and (piece.startswith(SPACE) or word < 0)
        begun = not piece.strip(SPACE)
        words.append(word)
    for place in range(len(words) - 1, -1, -1):
        if pieces[place].strip(SPACE) and words[place] >= 0:
            break
        words[place] = -1
    return words


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
