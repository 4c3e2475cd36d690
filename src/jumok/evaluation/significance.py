"""Paired bootstrap resampling: whether two systems differ by more than chance (Koehn 2004)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jumok.errors import UsageError
from jumok.evaluation import metrics


@dataclass(frozen=True)
class Significance:
    """Whether two systems differ: `difference` is a less b, `interval` contains it in 95 % of the samples."""

    a: metrics.Score
    b: metrics.Score
    difference: float
    p_value: float
    interval: tuple[float, float]


def significance(
    a: Sequence[str],
    b: Sequence[str],
    references: metrics.References,
    *,
    metric: str = "bleu",
    samples: int = 1000,
    seed: int = 12345,
    tokenize: str = "auto",
) -> Significance:
    """Paired bootstrap resampling (Koehn 2004): could the difference between a and b be chance?

    Sentences are sampled with replacement, both systems are scored on the same sample.  Samples and p-value are those
    of `sacrebleu --paired-bs` with that seed and a as the baseline, with one exception: a sample that ties with the
    observed difference counts as chance, so a system does not differ from itself (p = 1; sacreBLEU says 1 / 1001).
    """
    import numpy as np

    resampled = resample([a, b], references, metric=metric, samples=samples, seed=seed, tokenize=tokenize)
    (first, second), (ours, theirs) = resampled.scores, resampled.samples
    differences = ours - theirs
    spread = np.abs(differences)
    chance = int(np.sum(spread - spread.mean() >= abs(first.value - second.value)))
    p_value = (chance + 1) / (samples + 1)
    return Significance(first, second, first.value - second.value, p_value, find_interval(differences))


class Resampled(NamedTuple):
    """The scores of systems, and those on every sample of the sentences."""

    scores: list[metrics.Score]
    samples: Any  # (systems, samples)


def resample(
    systems: Sequence[Sequence[str]],
    references: metrics.References,
    *,
    metric: str = "bleu",
    samples: int = 1000,
    seed: int = 12345,
    tokenize: str = "auto",
) -> Resampled:
    """Score systems on sentences sampled with replacement, all systems on the same samples."""
    import numpy as np

    if samples < 1:
        raise UsageError("evaluation.no_samples", samples=samples)
    sets, *_ = [metrics.list_reference_sets(system, references) for system in systems]  # all are checked
    scorer = metrics.build_metric(metric, sets, tokenize=tokenize)
    statistics = [np.array(list(_count_each(scorer, system, sets)), dtype=np.float64) for system in systems]
    whole = [scorer._compute_score_from_stats(list(table.sum(axis=0))) for table in statistics]
    generator, scores, count = np.random.default_rng(seed), np.empty((len(systems), samples)), len(systems[0])
    for sample in range(samples):
        rows = generator.choice(count, size=count, replace=True)
        for system, table in enumerate(statistics):
            scores[system, sample] = scorer._compute_score_from_stats(list(table[rows].sum(axis=0))).score
    signature = scorer.get_signature()
    signature.update("bs", samples)
    signature.update("seed", seed)
    named = [metrics.Score(result.name, float(result.score), str(signature)) for result in whole]
    return Resampled(named, scores)


def find_interval(scores: Any) -> tuple[float, float]:
    """Return the interval that holds 95 % of the scores."""
    import numpy as np

    low, high = np.quantile(scores, [0.025, 0.975])
    return float(low), float(high)


def _count_each(metric: Any, hypotheses: Sequence[str], sets: Sequence[Sequence[str]]) -> Iterator[list[float]]:
    """sacreBLEU's counts of each sentence; only the n-grams of one block are held in memory."""
    for block in metrics.cut_blocks(hypotheses, sets):
        yield from metric._extract_corpus_statistics(*block)
