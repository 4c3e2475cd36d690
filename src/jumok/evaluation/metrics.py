"""How good a translation is: sacreBLEU scores with their signatures, significance, perplexity, alignment error.

Scores are sacreBLEU's own, so that they compare with published ones; a number without its signature means nothing.

References   a list of sentences, or a list of such lists: several reference sets, each as long as the hypotheses
Shapes       T target pieces · S source pieces
Not here     running a model on a test set (evaluation/evaluate.py); sacrebleu and numpy are imported inside functions
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

from jumok.errors import DataError, MissingPackage, UnknownName, UsageError
from jumok.extras import hint, is_installed

if TYPE_CHECKING:
    import numpy as np

References = Sequence[str] | Sequence[Sequence[str]]
Links = set[tuple[int, int]]

TOKENIZERS = ("13a", "intl", "zh", "char", "none", "ko-mecab", "ja-mecab")  # sacreBLEU's, less those that download
METRICS = ("bleu", "chrf", "chrf++", "ter")
BLOCK, CHARACTERS = 512, 1_000_000  # sentences that are counted at once, and their characters, unless one has more
BLEU_ORDER = 4


@dataclass(frozen=True)
class Score:
    """A number and how it was computed."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


@dataclass(frozen=True)
class Significance:
    """Whether two systems differ: `difference` is a less b, `interval` holds it in 95 % of the samples."""

    a: Score
    b: Score
    difference: float
    p_value: float
    interval: tuple[float, float]


def bleu(hypotheses: Sequence[str], references: References, *, tokenize: str = "13a", lowercase: bool = False) -> Score:
    """BLEU (Papineni et al. 2002), 0 to 100.

    `tokenize="auto"` looks at the script of the references: ko-mecab or ja-mecab for Korean and Japanese where the
    package is installed, else char; zh for Chinese; 13a for everything else.
    """
    sets = _reference_sets(hypotheses, references)
    return _score(_metric("bleu", sets, tokenize=tokenize, lowercase=lowercase), hypotheses, sets)


def chrf(hypotheses: Sequence[str], references: References, *, word_order: int = 0) -> Score:
    """chrF2 (Popović 2015), 0 to 100; with `word_order=2` chrF2++."""
    sets = _reference_sets(hypotheses, references)
    return _score(_chrf_metric(word_order), hypotheses, sets)


def ter(hypotheses: Sequence[str], references: References) -> Score:
    """Translation edit rate (Snover et al. 2006): edits for every 100 words of the reference, so lower is better."""
    sets = _reference_sets(hypotheses, references)
    return _score(_metric("ter", sets), hypotheses, sets)


def scores(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "auto",
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
) -> dict[str, Score]:
    """Several scores by name: bleu, chrf, chrf++, ter."""
    sets = _reference_sets(hypotheses, references)
    return {name: _score(_metric(name, sets, tokenize=tokenize), hypotheses, sets) for name in metrics}


def tallies(names: Sequence[str], references: Sequence[str], *, tokenize: str = "auto") -> dict[str, "Tally"]:
    """A `Tally` for each metric, by name, to score hypotheses block by block.

    `references` are all of them, for `tokenize="auto"` to look at; nothing is scored yet.

    >>> judges = tallies(["bleu", "chrf"], references)
    >>> for tally in judges.values(): tally.add(some_hypotheses, [their_references])
    >>> judges["bleu"].score()
    """
    return {name: Tally(_metric(name, [list(references)], tokenize=tokenize)) for name in names}


class Tally:
    """A corpus score of sentences that come in blocks; nothing is kept of them but the counts.

    sacreBLEU's `corpus_score` holds the n-grams of all references at once, some 40 kB for each.
    """

    def __init__(self, metric: Any) -> None:
        self.metric, self.counts = metric, list[float]()

    def add(self, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> None:
        """Count a block of hypotheses and its references: one list for each set of them."""
        for block in _blocks(hypotheses, sets):
            for row in _statistics(self.metric, *block):
                self.counts = [a + b for a, b in zip(self.counts, row, strict=True)] if self.counts else list(row)

    def score(self) -> Score:
        """The score of all sentences so far, equal to sacreBLEU's."""
        result = self.metric._compute_score_from_stats(list(self.counts))
        return Score(result.name, float(result.score), str(self.metric.get_signature()))


def _blocks(hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> Iterator[tuple[Any, list[Any]]]:
    """Hypotheses and their references, a block of bounded size at a time."""
    start = size = 0
    for stop, sentences in enumerate(zip(hypotheses, *sets, strict=True), start=1):
        size += sum(map(len, sentences))
        if stop - start == BLOCK or size >= CHARACTERS or stop == len(hypotheses):
            yield hypotheses[start:stop], [one[start:stop] for one in sets]
            start, size = stop, 0


def _statistics(metric: Any, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> list[list[float]]:
    """sacreBLEU's counts, in rows to be added up: of all sentences at once where we count ourselves, else of each."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(sets) == 1 and isinstance(metric, BLEU) and metric.max_ngram_order == BLEU_ORDER:
        metric.num_refs = 1
        return [
            _bleu_counts(*([metric._preprocess_segment(text).split() for text in side] for side in (hypotheses, *sets)))
        ]
    if len(sets) == 1 and isinstance(metric, CHRF) and not (metric.word_order or metric.whitespace):
        metric.num_refs = 1
        sides = (["".join(metric._preprocess_segment(text).split()) for text in side] for side in (hypotheses, *sets))
        return [_chrf_counts(*sides, order=metric.char_order)]
    return list(metric._extract_corpus_statistics(hypotheses, sets))


def _bleu_counts(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[float]:
    """Lengths of all hypotheses and references in tokens; n-grams that match and n-grams there are, by order."""
    import numpy as np

    known: dict[str, int] = {}
    both = chain(hypotheses, references)
    numbers = np.array([known.setdefault(token, len(known)) for text in both for token in text], np.int64)
    ours, theirs = (np.array([len(text) for text in side]) for side in (hypotheses, references))
    totals = [int(np.maximum(ours - n, 0).sum()) for n in range(BLEU_ORDER)]
    return [int(ours.sum()), int(theirs.sum()), *_matches(numbers, ours, theirs, order=BLEU_ORDER), *totals]


def _chrf_counts(hypotheses: Sequence[str], references: Sequence[str], *, order: int) -> list[float]:
    """For each order: n-grams of the hypotheses, of the references, and those that match."""
    import numpy as np

    characters = "".join([*hypotheses, *references]).encode("utf-32-le", "surrogatepass")
    ours, theirs = (np.array([len(text) for text in side]) for side in (hypotheses, references))
    matches = _matches(np.frombuffer(characters, "<u4").astype(np.int64), ours, theirs, order=order)
    counts: list[float] = []
    for n, match in enumerate(matches):
        there = theirs > n  # where a reference is too short for such an n-gram, nobody counts the hypothesis's
        counts += [int(np.maximum(ours - n, 0)[there].sum()), int(np.maximum(theirs - n, 0).sum()), match]
    return counts


def _matches(symbols: "np.ndarray", ours: "np.ndarray", theirs: "np.ndarray", *, order: int) -> list[int]:
    """How many n-grams of each order the hypotheses share with their references, each as often as both have it.

    `symbols` (N,) are all hypotheses and then all references, of these lengths, as numbers from 0.  An n-gram is known
    by the number of its first n - 1 symbols and its last one; those are sorted, and only what both sides have goes on
    to the next order.
    """
    import numpy as np

    lengths, base = np.concatenate([ours, theirs]), int(symbols.max(initial=0)) + 1
    place = np.arange(len(symbols))
    ends = np.repeat(np.cumsum(lengths), lengths)
    mine = place < ours.sum()
    gram = np.repeat(np.tile(np.arange(len(ours)), 2), lengths)  # the empty n-gram of each pair
    found = []
    for n in range(order):
        fits = place + n < ends[place]
        place, gram = place[fits], gram[fits]
        distinct, gram = np.unique(gram * base + symbols[place + n], return_inverse=True)
        sides = (np.bincount(gram[side], minlength=len(distinct)) for side in (mine[place], ~mine[place]))
        shared = np.minimum(*sides)
        found.append(int(shared.sum()))
        both = shared[gram] > 0
        place, gram = place[both], gram[both]
    return found


def accuracy(texts: Sequence[str], references: Sequence[str]) -> float:
    """Per cent of the references' words that are there in their place: for answers and labels."""
    right, of = 0, 0
    for text, reference in zip(texts, references, strict=True):
        wanted = reference.split()
        right += sum(map(str.__eq__, text.split(), wanted))
        of += len(wanted)
    return 100.0 * right / max(1, of)


def quality(scores: Mapping[str, float]) -> float | None:
    """What models are compared by before their loss: BLEU, or the share of right answers; None without either."""
    return scores.get("bleu", scores.get("accuracy"))


def perplexity(loss_sum: float, tokens: int) -> float:
    """exp(loss per token); infinite where that is beyond a float."""
    if tokens <= 0:
        raise ValueError(f"perplexity needs at least one token, not {tokens}")
    try:
        return math.exp(loss_sum / tokens)
    except OverflowError:
        return math.inf


def significance(
    a: Sequence[str],
    b: Sequence[str],
    references: References,
    *,
    metric: str = "bleu",
    samples: int = 1000,
    seed: int = 12345,
    tokenize: str = "auto",
) -> Significance:
    """Paired bootstrap resampling (Koehn 2004): could the difference between a and b be chance?

    Sentences are drawn with replacement, both systems are scored on the same draw.  Draws and p-value are those of
    `sacrebleu --paired-bs` with that seed and a as the baseline, but for one thing: a sample that ties with the
    observed difference counts as chance, so a system does not differ from itself (p = 1; sacreBLEU says 1 / 1001).
    """
    import numpy as np

    if samples < 1:
        raise UsageError(f"samples={samples}: significance needs at least one sample", hint="try samples=1000")
    sets = _reference_sets(a, references)
    _reference_sets(b, references)
    scorer = _metric(metric, sets, tokenize=tokenize)
    statistics = [np.array(list(_each(scorer, system, sets)), dtype=np.float64) for system in (a, b)]
    whole = [scorer._compute_score_from_stats(list(table.sum(axis=0))) for table in statistics]
    generator = np.random.default_rng(seed)
    differences = np.empty(samples)
    for sample in range(samples):
        drawn = generator.choice(len(a), size=len(a), replace=True)
        ours, theirs = (scorer._compute_score_from_stats(list(table[drawn].sum(axis=0))).score for table in statistics)
        differences[sample] = ours - theirs
    spread = np.abs(differences)
    chance = int(np.sum(spread - spread.mean() >= abs(whole[0].score - whole[1].score)))
    low, high = np.quantile(differences, [0.025, 0.975])
    signature = scorer.get_signature()
    signature.update("bs", samples)
    signature.update("seed", seed)
    first, second = (Score(result.name, float(result.score), str(signature)) for result in whole)
    p_value = (chance + 1) / (samples + 1)
    return Significance(first, second, first.value - second.value, p_value, (float(low), float(high)))


def _each(metric: Any, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> Iterator[list[float]]:
    """sacreBLEU's counts of each sentence; n-grams are held of one block at a time."""
    for block in _blocks(hypotheses, sets):
        yield from metric._extract_corpus_statistics(*block)


def alignment_error_rate(
    links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """AER (Och & Ney 2003): 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all sentences, 0 is best.

    Every sure link is also possible; without `possible` the sure ones are all.  Nothing to link and nothing linked: 0.
    """
    possible = sure if possible is None else possible
    if not len(links) == len(sure) == len(possible):
        counts = f"{len(links):,} alignments, {len(sure):,} sure, {len(possible):,} possible"
        raise DataError("the alignments are not of the same sentences", where=counts, hint="give one set a sentence")
    hits = total = 0
    for found, certain, allowed in zip(links, sure, possible, strict=True):
        hits += len(found & certain) + len(found & (allowed | certain))
        total += len(found) + len(certain)
    return 1 - hits / total if total else 0.0


def word_links(weights: "np.ndarray", source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Links (source word, target word): each target word to the source word it attends to most.

    `weights` (T, S) is attention over subword pieces; `source_words[s]` is the word that piece s belongs to, -1 for
    none (such as </s>).  Weights are summed over the pieces of a source word and averaged over those of a target word.
    A target word that attends to no source word has no link; of equals the first word wins.
    """
    import numpy as np

    if weights.shape != (len(target_words), len(source_words)):
        raise ValueError(f"weights are {weights.shape}, words are ({len(target_words)}, {len(source_words)})")
    sources, targets = np.asarray(source_words, dtype=int), np.asarray(target_words, dtype=int)
    words = np.unique(sources[sources >= 0])
    links = set()
    for target in np.unique(targets[targets >= 0]):
        attention = weights[targets == target].mean(axis=0)  # (S,)
        summed = [attention[sources == source].sum() for source in words]
        if summed and max(summed) > 0:
            links.add((int(words[int(np.argmax(summed))]), int(target)))
    return links


def chrf_matrix(texts: Sequence[str], *, order: int = 6, beta: float = 2.0) -> "np.ndarray":
    """Sentence chrF (n, n) of every text against every other: row i as the hypothesis, column j as the reference.

    The same numbers as sacreBLEU's sentence chrF, for some dozens of like sentences at once.
    """
    import numpy as np

    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(bare), len(bare))) for _ in range(3))
    for size in range(1, order + 1):
        places: dict[str, int] = {}
        found = [[places.setdefault(t[i : i + size], len(places)) for i in range(len(t) - size + 1)] for t in bare]
        counts = np.zeros((len(bare), max(1, len(places))), dtype=np.uint16)
        for row, grams in zip(counts, found, strict=True):
            row[:] = np.bincount(grams, minlength=counts.shape[1])
        totals = counts.sum(axis=1).astype(float)
        match = np.stack([np.minimum(row, counts).sum(axis=1) for row in counts])
        both = (totals[:, None] > 0) & (totals[None] > 0)
        orders += both
        precision += np.where(both, match / np.maximum(totals[:, None], 1.0), 0.0)
        recall += np.where(both, match / np.maximum(totals[None], 1.0), 0.0)
    precision, recall = precision / np.maximum(orders, 1.0), recall / np.maximum(orders, 1.0)
    below = beta**2 * precision + recall
    return np.where(below > 0, 100.0 * (1.0 + beta**2) * precision * recall / np.where(below > 0, below, 1.0), 0.0)


def _score(metric: Any, hypotheses: Sequence[str], sets: list[list[str]]) -> Score:
    tally = Tally(metric)
    tally.add(hypotheses, sets)
    return tally.score()


def check_installed() -> None:
    """Refuse to score where sacreBLEU is not installed."""
    if not is_installed("sacrebleu"):
        raise MissingPackage("scores need sacrebleu, which is not installed", hint=hint("sacrebleu"))


def _metric(name: str, sets: list[list[str]], *, tokenize: str = "auto", lowercase: bool = False) -> Any:
    """The sacreBLEU metric of that name."""
    check_installed()
    if name == "bleu":
        return _bleu_metric(_tokenizer_for(sets) if tokenize == "auto" else tokenize, lowercase)
    if name in ("chrf", "chrf++"):
        return _chrf_metric(word_order=2 if name == "chrf++" else 0)
    if name == "ter":
        from sacrebleu.metrics.ter import TER

        return TER()
    raise UnknownName("metric", name, METRICS)


def _chrf_metric(word_order: int) -> Any:
    check_installed()
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=word_order)


def _bleu_metric(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in TOKENIZERS:
        raise UnknownName("BLEU tokenizer", tokenize, (*TOKENIZERS, "auto"))
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase)
    except (RuntimeError, AssertionError) as error:  # MeCab or its dictionary is missing or another one
        try_this = {"ko-mecab": hint("mecab_ko"), "ja-mecab": "try: pip install mecab-python3 ipadic"}
        how = try_this.get(tokenize, "try: pip install -U sacrebleu")
        raise UsageError(f"the tokenizer {tokenize} is not installed", hint=how) from error


def _tokenizer_for(sets: Iterable[Iterable[str]]) -> str:
    """The tokenizer that fits the script of the references and works here."""
    language = script(chain.from_iterable(sets))
    if language in ("ko", "ja"):
        try:
            _bleu_metric(f"{language}-mecab", lowercase=False)
        except UsageError:
            return "char"
        return f"{language}-mecab"
    return "zh" if language == "zh" else "13a"


def script(texts: Iterable[str]) -> Literal["ko", "ja", "zh", ""]:
    """Which of the scripts of East Asia a text is mostly in, "" for none; names and numbers in between do no harm."""
    times = Counter[str]()
    for text in texts:
        times.update(text)
    hangul = kana = han = others = 0
    for character, count in times.items():
        if "\uac00" <= character <= "\ud7a3" or "\u1100" <= character <= "\u11ff":
            hangul += count
        elif "\u3041" <= character <= "\u30ff":
            kana += count
        elif "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff":
            han += count
        elif character.isalpha():
            others += count
    eastern = hangul + kana + han
    if eastern * 4 <= others:  # a syllable or sign says as much as several letters
        return ""
    if kana * 10 > eastern:
        return "ja"
    return "ko" if hangul >= han else "zh"


def _reference_sets(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The references as sacreBLEU wants them: a list of sets, each as long as the hypotheses."""
    single = len(references) == 0 or isinstance(references[0], str)
    sets = cast(Sequence[Sequence[str]], [references] if single else references)
    for number, sentences in enumerate(sets, start=1):
        if len(sentences) != len(hypotheses):
            raise DataError(
                f"{len(hypotheses):,} hypotheses cannot be compared with {len(sentences):,} references",
                where=f"reference set {number} of {len(sets)}",
                hint="both must have one line for each sentence; try: wc -l",
            )
    if not hypotheses:
        raise DataError("there is nothing to score", hint="give at least one sentence")
    return [list(sentences) for sentences in sets]
