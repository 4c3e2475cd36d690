"""Attention as alignment: some cross-attention heads know which word comes from which (section 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from jumok.evaluation.alignment import alignment_error_rate, word_links
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned, all_heads, by_words, gold, to_lists, views
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.attention import AttentionView, heatmap_svg
from jumok.reports.charts import bars_svg, field_svg, row_svg
from jumok.text.boundaries import words_of

WORDS, LIMITS = Words.read("alignment"), Limits.read("alignment")
SENTENCES = 150
Links = set[tuple[int, int]]  # (English word, Korean word)


def lengths(phrase: Aligned) -> tuple[int, int]:
    """The numbers of English and Korean words."""
    return len(phrase.english.split()), len(phrase.korean.split())


def diagonal(phrase: Aligned) -> Links:
    """The links if both languages had the same word order."""
    source, target = lengths(phrase)
    return {(round(row * (source - 1) / max(1, target - 1)), row) for row in range(target)}


def by_chance(phrases: Sequence[Aligned], sure: Sequence[Links]) -> float:
    """The expected error rate of linking every Korean word to a random English word."""
    hits = sum(len(links) / lengths(phrase)[0] for phrase, links in zip(phrases, sure, strict=True))
    return 1 - 2 * hits / sum(lengths(phrase)[1] + len(links) for phrase, links in zip(phrases, sure, strict=True))


def best_rate(sure: Sequence[Links]) -> float:
    """The lowest possible error rate with one link per Korean word, though some words have several."""
    one_each = [{next(link for link in sorted(links) if link[1] == row) for _, row in links} for links in sure]
    return alignment_error_rate(one_each, sure)


def errors(looks: Sequence[AttentionView], sure: Sequence[Links], *, read: bool = False) -> np.ndarray:
    """Error rates (layers, heads), by the attention of the steps that generate a word or, with `read`, read it."""
    links: dict[tuple[int, int], list[Links]] = {}
    for view in looks:
        source, target = words_of(view.source), words_of(view.fed if read else view.target)
        for head in all_heads(view.cross.shape):
            links.setdefault(head, []).append(word_links(view.cross[head], source, target))
    rates = np.zeros(looks[0].cross.shape[:2])
    for head, guesses in links.items():
        rates[head] = alignment_error_rate(guesses, sure)
    return rates


def shuffle_links(phrase: Aligned, row: int) -> Links:
    """The right number of links to wrong words: the Korean words are shuffled."""
    order = list(range(lengths(phrase)[1]))
    Random(row).shuffle(order)
    return {(source, order[target]) for source, target in phrase.alignment}


GOLD: dict[str, Callable[[Aligned, int], Links]] = {
    "right": lambda phrase, row: set(phrase.alignment),
    "shuffled": shuffle_links,
}


def measure(lab: Lab, *, links: str = "right") -> dict[str, Any]:
    """`links`: right, or shuffled, which no attention can have learned."""
    model, phrases = lab.base().model, lab.phrases(SENTENCES)
    sure = [GOLD[links](phrase, row) for row, phrase in enumerate(phrases)]
    looks = views(model, phrases)
    by_output, by_input = errors(looks, sure), errors(looks, sure, read=True)
    layer, head = map(int, np.unravel_index(by_output.argmin(), by_output.shape))
    return {
        "sentences": len(phrases),
        "graded": lab.grade(model),
        "said": to_lists(by_output),
        "read": to_lists(by_input),
        "chance": by_chance(phrases, sure),
        "diagonal": alignment_error_rate([diagonal(phrase) for phrase in phrases], sure),
        "perfect": best_rate(sure),
        "best": [layer, head],
        "example": pick_example(phrases, looks, layer, head),
    }


def pick_example(phrases: Sequence[Aligned], looks: Sequence[AttentionView], layer: int, head: int) -> dict[str, Any]:
    """The sentence whose word order changes most, with its gold links and the attention of one head."""

    def crossings(phrase: Aligned) -> int:
        links = phrase.alignment
        return sum((a < c) != (b < d) for a, b in links for c, d in links if a != c and b != d)

    fitting = [row for row, phrase in enumerate(phrases) if 6 <= lengths(phrase)[0] <= 11] or [0]
    row = max(fitting, key=lambda row: crossings(phrases[row]))
    phrase, view = phrases[row], looks[row]
    weights = by_words(view.cross[layer, head], words_of(view.target), words_of(view.source))
    return {
        "english": phrase.english.split()[: weights.shape[1]],
        "korean": phrase.korean.split()[: weights.shape[0]],
        "gold": gold(phrase, *weights.shape).tolist(),
        "attention": to_lists(weights),
    }


def check(numbers: Numbers) -> list[Check]:
    rates = np.array(numbers["said"])
    best, guess = float(rates.min()), min(numbers["chance"], numbers["diagonal"])
    better = int((rates < guess).sum())
    values = {"best": best, "layer": numbers["best"][0] + 1, "head": numbers["best"][1] + 1}
    return [
        Check(
            WORDS("checks.best", **values, chance=numbers["chance"], diagonal=numbers["diagonal"]),
            best <= guess - LIMITS["better"],
        ),
        Check(WORDS("checks.several", better=better, heads=rates.size), better >= LIMITS["heads"]),
    ]


def stand(numbers: Numbers) -> Standing:
    graded = numbers.get("graded", {})
    return Standing("phrasebook", "bleu", graded.get("bleu"), 1, graded.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    by_output, by_input, example = np.array(numbers["said"]), np.array(numbers["read"]), numbers["example"]
    layer, head = numbers["best"]
    rows = [word("layer", layer=number + 1) for number in range(len(by_output))]
    columns = [word("head", head=number + 1) for number in range(by_output.shape[1])]
    guess = min(numbers["chance"], numbers["diagonal"])
    fields = [
        field_svg(rates - guess, rows=rows, columns=columns, form="{:+.2f}", title=word(key))
        for key, rates in (("said", by_output), ("read", by_input))
    ]
    bars = {word(key): {"AER": numbers[key]} for key in ("chance", "diagonal")}
    bars |= {word("of_layer", layer=number + 1): {"AER": float(rates.min())} for number, rates in enumerate(by_output)}
    bars |= {word("perfect"): {"AER": numbers["perfect"]}}
    maps = [
        heatmap_svg(np.array(example[key]), example["korean"], example["english"], title=title)
        for key, title in (("gold", word("gold")), ("attention", word("attention", layer=layer + 1, head=head + 1)))
    ]
    return [
        Picture("alignment-sentence", row_svg(maps), WORDS("picture.sentence")),
        Picture("alignment-rates", bars_svg(bars, x=word("rate"), form="{:.2f}"), WORDS("picture.rates")),
        Picture("alignment-heads", row_svg(fields), WORDS("picture.heads", guess=guess)),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS("table.head"), WORDS("table.said"), WORDS("table.read")]
    rows: list[list[str | Text]] = [
        [WORDS("table.place", layer=l + 1, head=h + 1), f"{numbers['said'][l][h]:.3f}", f"{numbers['read'][l][h]:.3f}"]
        for l, h in all_heads(np.shape(numbers["said"]))
    ]
    rows += [[WORDS(f"table.{key}"), f"{numbers[key]:.3f}", ""] for key in ("chance", "diagonal", "perfect")]
    return Table(titles, rows)


CLAIM = Claim(
    name="alignment",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
