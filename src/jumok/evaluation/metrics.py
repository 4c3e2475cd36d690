"""Scores of translations: sacreBLEU's BLEU, chrF and TER with their signatures, accuracy, perplexity.

Scores are sacreBLEU's own, so that they can be compared with published ones; every score comes with its signature.

References   a list of sentences, or a list of such lists: several reference sets, each as long as the hypotheses
Not here     counting n-grams (ngrams.py), significance (significance.py), alignment (alignment.py), running a model on
             a test set (evaluate.py); sacrebleu and numpy are imported inside functions
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, cast

from jumok.errors import DataError, MissingPackage, UnknownName, UsageError
from jumok.evaluation import ngrams
from jumok.extras import hint, is_installed
from jumok.messages import Message

References = Sequence[str] | Sequence[Sequence[str]]

TOKENIZERS = ("13a", "intl", "zh", "char", "none", "ko-mecab", "ja-mecab")  # those of sacreBLEU without a download
METRICS = ("bleu", "chrf", "chrf++", "ter")
BLOCK, CHARACTERS = 512, 1_000_000  # most sentences, and about how many characters, to count at once


@dataclass(frozen=True)
class Score:
    """A score and the signature that says how it was computed."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def bleu(hypotheses: Sequence[str], references: References, *, tokenize: str = "13a", lowercase: bool = False) -> Score:
    """BLEU (Papineni et al. 2002), 0 to 100.

    `tokenize="auto"` looks at the script of the references: ko-mecab or ja-mecab for Korean and Japanese where the
    package is installed, else char; zh for Chinese; 13a for everything else.
    """
    sets = list_reference_sets(hypotheses, references)
    return _score(build_metric("bleu", sets, tokenize=tokenize, lowercase=lowercase), hypotheses, sets)


def chrf(hypotheses: Sequence[str], references: References, *, word_order: int = 0) -> Score:
    """chrF2 (Popović 2015), 0 to 100; with `word_order=2` chrF2++."""
    sets = list_reference_sets(hypotheses, references)
    return _score(_chrf_metric(word_order), hypotheses, sets)


def ter(hypotheses: Sequence[str], references: References) -> Score:
    """Translation edit rate (Snover et al. 2006): edits for every 100 words of the reference, so lower is better."""
    sets = list_reference_sets(hypotheses, references)
    return _score(build_metric("ter", sets), hypotheses, sets)


def scores(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "auto",
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
) -> dict[str, Score]:
    """Several scores by name: bleu, chrf, chrf++, ter."""
    sets = list_reference_sets(hypotheses, references)
    return {name: _score(build_metric(name, sets, tokenize=tokenize), hypotheses, sets) for name in metrics}


def tallies(names: Sequence[str], references: Sequence[str], *, tokenize: str = "auto") -> dict[str, "Tally"]:
    """An empty `Tally` for each metric, by name, to score hypotheses block by block.

    `references` are those of all blocks: `tokenize="auto"` chooses a tokenizer for them.

    >>> counts = tallies(["bleu", "chrf"], references)
    >>> for tally in counts.values(): tally.add(some_hypotheses, [their_references])
    >>> counts["bleu"].score()
    """
    return {name: Tally(build_metric(name, [list(references)], tokenize=tokenize)) for name in names}


class Tally:
    """A corpus score of sentences that come in blocks; only the counts are held in memory.

    sacreBLEU's `corpus_score` holds the n-grams of all references at once, about 40 kB for each.
    """

    def __init__(self, metric: Any) -> None:
        self.metric, self.counts = metric, list[float]()

    def add(self, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> None:
        """Count a block of hypotheses and its references, one list for each reference set."""
        for block in cut_blocks(hypotheses, sets):
            for row in _count(self.metric, *block):
                self.counts = [a + b for a, b in zip(self.counts, row, strict=True)] if self.counts else list(row)

    def score(self) -> Score:
        """The score of all sentences so far, equal to sacreBLEU's."""
        result = self.metric._compute_score_from_stats(list(self.counts))
        forget_sentences(getattr(self.metric, "tokenizer", None))
        return Score(result.name, float(result.score), str(self.metric.get_signature()))


def forget_sentences(tokenizer: Any) -> None:
    """Empty the caches of a tokenizer of sacreBLEU: they hold 65,536 sentences, and no translation comes again."""
    while tokenizer is not None:
        getattr(type(tokenizer).__call__, "cache_clear", lambda: None)()
        tokenizer = getattr(tokenizer, "_post_tokenizer", None)


def cut_blocks(hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> Iterator[tuple[Any, list[Any]]]:
    """Hypotheses and their references in blocks of bounded size."""
    start = size = 0
    for stop, sentences in enumerate(zip(hypotheses, *sets, strict=True), start=1):
        size += sum(map(len, sentences))
        if stop - start == BLOCK or size >= CHARACTERS or stop == len(hypotheses):
            yield hypotheses[start:stop], [references[start:stop] for references in sets]
            start, size = stop, 0


def _count(metric: Any, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> list[list[float]]:
    """sacreBLEU's counts, in rows to be added up: one row for all sentences (ngrams.py), or one for each sentence."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(sets) == 1 and isinstance(metric, BLEU) and metric.max_ngram_order == ngrams.BLEU_ORDER:
        metric.num_refs = 1
        return [
            ngrams.count_for_bleu(
                *([metric._preprocess_segment(text).split() for text in side] for side in (hypotheses, *sets))
            )
        ]
    if len(sets) == 1 and isinstance(metric, CHRF) and not (metric.word_order or metric.whitespace):
        metric.num_refs = 1
        sides = (["".join(metric._preprocess_segment(text).split()) for text in side] for side in (hypotheses, *sets))
        return [ngrams.count_for_chrf(*sides, order=metric.char_order)]
    return list(metric._extract_corpus_statistics(hypotheses, sets))


def accuracy(texts: Sequence[str], references: Sequence[str]) -> float:
    """Per cent of the references' words that a text has at the same position: for answers and labels."""
    right, total = 0, 0
    for text, reference in zip(texts, references, strict=True):
        expected = reference.split()
        right += sum(map(str.__eq__, text.split(), expected))
        total += len(expected)
    return 100.0 * right / max(1, total)


def quality(scores: Mapping[str, float]) -> float | None:
    """The score that ranks models before their loss does: BLEU or accuracy; None without either."""
    return scores.get("bleu", scores.get("accuracy"))


def perplexity(loss_sum: float, tokens: int) -> float:
    """exp(loss per token); infinite if that is too large for a float."""
    if tokens <= 0:
        raise ValueError(f"perplexity needs at least one token, not {tokens}")
    try:
        return math.exp(loss_sum / tokens)
    except OverflowError:
        return math.inf


def _score(metric: Any, hypotheses: Sequence[str], sets: list[list[str]]) -> Score:
    tally = Tally(metric)
    tally.add(hypotheses, sets)
    return tally.score()


def check_installed() -> None:
    """Refuse to score where sacreBLEU is not installed."""
    if not is_installed("sacrebleu"):
        raise MissingPackage("evaluation.scores_need_sacrebleu", advice=hint("sacrebleu"))


def build_metric(name: str, sets: list[list[str]], *, tokenize: str = "auto", lowercase: bool = False) -> Any:
    """The sacreBLEU metric of that name."""
    check_installed()
    if name == "bleu":
        return _bleu_metric(_tokenizer_for(sets) if tokenize == "auto" else tokenize, lowercase)
    if name in ("chrf", "chrf++"):
        return _chrf_metric(word_order=2 if name == "chrf++" else 0)
    if name == "ter":
        from sacrebleu.metrics.ter import TER

        return TER()
    raise UnknownName("evaluation.unknown_metric", name, METRICS)


def _chrf_metric(word_order: int) -> Any:
    check_installed()
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=word_order)


def _bleu_metric(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in TOKENIZERS:
        raise UnknownName("evaluation.unknown_tokenizer", tokenize, (*TOKENIZERS, "auto"))
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase)
    except (RuntimeError, AssertionError) as error:  # MeCab or its dictionary is missing, or is another one
        packages = {"ja-mecab": "mecab-python3 ipadic"}.get(tokenize, "-U sacrebleu")
        advice = hint("mecab_ko") if tokenize == "ko-mecab" else Message("evaluation.install", {"packages": packages})
        raise UsageError("evaluation.tokenizer_missing", tokenizer=tokenize, advice=advice) from error


def _tokenizer_for(sets: Iterable[Iterable[str]]) -> str:
    """The tokenizer for the script of the references, if it is installed, or else characters."""
    language = script(chain.from_iterable(sets))
    if language in ("ko", "ja"):
        try:
            _bleu_metric(f"{language}-mecab", lowercase=False)
        except UsageError:
            return "char"
        return f"{language}-mecab"
    return "zh" if language == "zh" else "13a"


def script(texts: Iterable[str]) -> Literal["ko", "ja", "zh", ""]:
    """The East Asian script that texts are mostly in, "" for none; Latin names and numbers among them do not matter."""
    frequencies = Counter[str]()
    for text in texts:
        frequencies.update(text)
    hangul = kana = han = others = 0
    for character, count in frequencies.items():
        if "\uac00" <= character <= "\ud7a3" or "\u1100" <= character <= "\u11ff":
            hangul += count
        elif "\u3041" <= character <= "\u30ff":
            kana += count
        elif "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff":
            han += count
        elif character.isalpha():
            others += count
    eastern = hangul + kana + han
    if eastern * 4 <= others:  # a syllable or sign stands for several letters
        return ""
    if kana * 10 > eastern:
        return "ja"
    return "ko" if hangul >= han else "zh"


def list_reference_sets(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The references as sacreBLEU takes them: a list of sets, each as long as the hypotheses."""
    single = len(references) == 0 or isinstance(references[0], str)
    sets = cast(Sequence[Sequence[str]], [references] if single else references)
    for number, sentences in enumerate(sets, start=1):
        if len(sentences) != len(hypotheses):
            raise DataError(
                "evaluation.unequal_lengths",
                hypotheses=len(hypotheses),
                references=len(sentences),
                number=number,
                sets=len(sets),
            )
    if not hypotheses:
        raise DataError("evaluation.nothing_to_score")
    return [list(sentences) for sentences in sets]
