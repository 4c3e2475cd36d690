"""The paper's figures 3 to 5, searched for by measurement: far words that belong together, reference, phrases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from jumok.data.made import phrasebook
from jumok.data.made.grammar.draft import Draft
from jumok.data.made.grammar.words import NAMES
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import blank, constituents, drafts, encoder_by_words, places, rounded, views
from jumok.lab.wording import Text, Words
from jumok.reports.charts import field_svg, looks_svg

WORDS = Words.read("figures")
SENTENCES = 500
DRAWS = 200  # by chance, to compare with
SHORTEST = 6  # words of a sentence
FAR = 4  # words between which others stand
FIGURES = ("far", "reference", "phrases")
TIMES, LEAST, MORE = 3.0, 0.1, 0.15  # found: so many times chance and so much weight, or so much more than chance
CASES = 10  # fewer say nothing
FRIENDS = frozenset(english for english, _ in NAMES)


class Sentence(NamedTuple):
    """A sentence with its grammar: what belongs together, which phrase a word is in, who is called, where "you" is."""

    english: str
    korean: str
    alignment: tuple[tuple[int, int], ...]
    parts: tuple[int, ...]  # the phrase of each English word
    call: int  # words that call somebody, at the beginning
    you: int  # the place of "you"; -1 without

    @property
    def words(self) -> list[str]:
        return self.english.split()

    @property
    def named(self) -> bool:
        """Whether a friend is called by name: not Sir, not Professor Kim, not Hey."""
        return self.call == 1 and self.words[0].rstrip(",") in FRIENDS

    def bound(self) -> set[tuple[int, int]]:
        """Words (first, second) that one Korean word stands for, at least FAR apart, with another phrase between."""
        of: dict[int, list[int]] = {}
        for english, korean in self.alignment:
            of.setdefault(korean, []).append(english)
        couples = {(a, b) for group in of.values() for a in group for b in group if b - a >= FAR}
        return {(a, b) for a, b in couples if set(self.parts[a : b + 1]) - {self.parts[a], self.parts[b]}}


def grammar(draft: Draft) -> Sentence:
    """What the phrasebook knows of a sentence; a phrase is a run of words of the same constituent."""
    english, korean = draft.spell()
    parts = [0]
    for before, after in pairwise(constituents(draft)):
        parts.append(parts[-1] + (before != after))
    words = english.split()
    call = next((place + 1 for place, word in enumerate(words[:2]) if word.endswith(",")), 0)
    you = words.index("you") if "you" in words else -1
    return Sentence(english, korean, phrasebook.align(draft), tuple(parts), call, you)


def sentences(lab: Lab) -> list[Sentence]:
    """Sentences that no model of the lab has read: any, then some with far words or with "you" and a call."""
    count = max(60, round(SENTENCES * min(4.0, lab.scale.factor)))
    found, wanted = dict[str, Sentence](), {"far": count // 5, "reference": count // 5}
    for one in map(grammar, drafts(f"figures/{lab.seed}")):
        if len(found) >= count and max(wanted.values()) <= 0:
            break
        if len(one.words) < SHORTEST:
            continue
        of = [name for name, has in (("far", bool(one.bound())), ("reference", 0 < one.call < one.you)) if has]
        if one.english not in found and (len(found) < count or any(wanted[name] > 0 for name in of)):
            found[one.english] = one
            wanted |= {name: wanted[name] - 1 for name in of}
    return list(found.values())


def exchanged(given: Sequence[Sentence]) -> list[Sentence]:
    """Every sentence gets the grammar of another one of its length: what one then finds is chance."""
    alike: dict[int, list[int]] = {}
    for row, one in enumerate(given):
        alike.setdefault(len(one.words), []).append(row)
    after = {row: rows[(place + 1) % len(rows)] for rows in alike.values() for place, row in enumerate(rows)}
    return [given[after[row]]._replace(english=one.english, korean=one.korean) for row, one in enumerate(given)]


# ------------------------------------------------------------------------------------------ three searches


class Case(NamedTuple):
    """Something to see: in a sentence, from a word to words; what it is compared with has the same `like`."""

    sentence: int
    word: int
    to: tuple[int, ...]
    like: tuple[int, ...]


def far_cases(given: Sequence[Sentence], *, back: bool) -> list[Case]:
    """From a word back to those before it to which it is bound, or ahead to those behind it."""
    found: dict[tuple[int, int], list[int]] = {}
    for row, one in enumerate(given):
        for first, second in sorted(one.bound()):
            word, to = (second, first) if back else (first, second)
            found.setdefault((row, word), []).append(to)
    return [Case(row, word, tuple(to), (len(given[row].words),)) for (row, word), to in found.items()]


def reference_cases(given: Sequence[Sentence], *, named: bool) -> list[Case]:
    """From "you" to whom it means: a friend who is called by name, or somebody who is called in another way."""
    return [
        Case(row, one.you, tuple(range(one.call)), (one.call, one.named))
        for row, one in enumerate(given)
        if 0 < one.call < one.you and one.named == named
    ]


def others(case: Case, given: Sequence[Sentence], *, reference: bool) -> Iterator[int]:
    """Sentences in which the same places hold words that are not bound: of the same length, or with such a call."""
    for row, one in enumerate(given):
        if case.word >= len(one.words):
            continue
        if reference and (one.call, one.named) == case.like and one.you != case.word:
            yield row
        elif not reference and (len(one.words),) == case.like:
            couples = {(min(case.word, to), max(case.word, to)) for to in case.to}
            if couples.isdisjoint(one.bound()):
                yield row


def searched(
    maps: Sequence[np.ndarray], given: Sequence[Sentence], cases: Sequence[Case], *, reference: bool, seed: int
) -> dict[str, Any]:
    """The weight (heads,) of the cases, of the same places elsewhere, and DRAWS times of such places by chance."""
    random = np.random.default_rng(seed)
    heads = len(maps[0])
    weight, chance, draws = np.zeros(heads), np.zeros(heads), np.zeros((DRAWS, heads))
    kept = []
    for case in cases:
        elsewhere = [maps[row][:, case.word, case.to].sum(axis=-1) for row in others(case, given, reference=reference)]
        if not elsewhere:
            continue
        values = np.stack(elsewhere)  # (sentences, heads)
        weight += maps[case.sentence][:, case.word, case.to].sum(axis=-1)
        chance += values.mean(axis=0)
        draws += values[random.integers(len(values), size=DRAWS)]
        kept.append(case)
    count = max(1, len(kept))
    return {"weight": weight / count, "chance": chance / count, "draws": draws / count, "cases": kept}


def whoever(maps: Sequence[np.ndarray], given: Sequence[Sentence], seed: int) -> dict[str, Any]:
    """The search for reference: every head is taken at its worse, friends by name or others, for "you" means either."""
    kinds = [
        searched(maps, given, reference_cases(given, named=named), reference=True, seed=seed) for named in (True, False)
    ]
    more = [kind["weight"] - kind["chance"] for kind in kinds]
    worse = {key: np.where(more[0] <= more[1], *(kind[key] for kind in kinds)) for key in ("weight", "chance", "draws")}
    either = np.maximum(*more).argmax()
    kept = {name: float(kind["weight"][either]) for name, kind in zip(("names", "titles"), kinds, strict=True)}
    return {**worse, "cases": kinds[0]["cases"] + kinds[1]["cases"], "either": {"place": int(either), **kept}}


def phrased(maps: Sequence[np.ndarray], given: Sequence[Sentence], *, seed: int) -> dict[str, Any]:
    """Of the weight on other words, the share (heads,) that stays in the phrase, and in phrases laid by chance."""
    random = np.random.default_rng(seed)
    heads = len(maps[0])
    inside, outside = np.zeros((DRAWS + 1, heads)), np.zeros((DRAWS + 1, heads))
    for map_, one in zip(maps, given, strict=True):
        sizes = np.array(list(Counter(one.parts).values()))
        laid = [np.array(one.parts)]
        laid += [np.repeat(np.arange(len(sizes)), random.permutation(sizes)) for _ in range(DRAWS)]
        part = np.stack(laid)  # (DRAWS + 1, words): the true one first
        same = (part[:, :, None] == part[:, None, :]) & ~np.eye(part.shape[1], dtype=bool)
        several = same.any(axis=2)  # words that are not alone in their phrase
        rest = several[:, :, None] & ~np.eye(part.shape[1], dtype=bool)
        inside += same.reshape(DRAWS + 1, -1) @ map_.reshape(heads, -1).T
        outside += rest.reshape(DRAWS + 1, -1) @ map_.reshape(heads, -1).T
    words = sum(len(one.words) for one in given)
    shares = np.where(outside > LEAST * words / 2, inside / outside.clip(1e-9), 0.0)  # heads that look at themselves: 0
    return {"weight": shares[0], "chance": shares[1:].mean(axis=0), "draws": shares[1:], "cases": list(given)}


# ------------------------------------------------------------------------------------------ the claim


def told(found: dict[str, Any], shape: tuple[int, int], example: dict[str, Any]) -> dict[str, Any]:
    """A search in plain numbers; `chances`: how often the best of all heads does as well by chance."""
    more = found["weight"] - found["chance"]
    best = int(more.argmax())
    as_good = int(((found["draws"] - found["chance"]).max(axis=1) >= more[best]).sum())
    return {
        "weight": rounded(found["weight"].reshape(shape)),
        "chance": rounded(found["chance"].reshape(shape)),
        "best": [best // shape[1], best % shape[1]],
        "chances": (1 + as_good) / (1 + DRAWS),
        "cases": len(found["cases"]),
        "example": example,
    }


def shown(maps: Sequence[np.ndarray], given: Sequence[Sentence], found: dict[str, Any]) -> dict[str, Any]:
    """The case in which the best head shows it most, and what this head does there."""
    head, cases = int((found["weight"] - found["chance"]).argmax()), found["cases"]
    if not cases:
        return {"words": [], "weights": [], "bold": [], "parts": []}
    one = max(cases, key=lambda case: maps[case.sentence][head, case.word, case.to].sum())
    weights = np.zeros_like(maps[one.sentence][head])
    weights[one.word] = maps[one.sentence][head, one.word]
    words = given[one.sentence].words
    return {"words": words, "weights": rounded(weights), "bold": [one.word, *one.to], "parts": []}


def phrase_shown(maps: Sequence[np.ndarray], given: Sequence[Sentence], found: dict[str, Any]) -> dict[str, Any]:
    """A sentence of several phrases that the best head follows well."""
    head = int((found["weight"] - found["chance"]).argmax())

    def follows(row: int) -> float:
        part, map_ = np.array(given[row].parts), maps[row][head] * ~np.eye(len(given[row].parts), dtype=bool)
        same = part[:, None] == part[None, :]
        return float((map_ * same).sum() / max(1e-9, map_.sum()))

    several = [row for row, one in enumerate(given) if max(one.parts) >= 3] or [0]
    row = max(several, key=follows)
    return {
        "words": given[row].words, "weights": rounded(maps[row][head]), "bold": [], "parts": list(given[row].parts)
    }  # fmt: skip


def looked(model: Any, given: Sequence[Sentence]) -> tuple[list[np.ndarray], tuple[int, int]]:
    """Maps (heads, words, words) of every sentence; how many layers and heads there are."""
    looks = [encoder_by_words(view) for view in views(model, given)]  # (L, H, words, words) each
    return [look.reshape(-1, *look.shape[2:]) for look in looks], looks[0].shape[:2]


def all_searched(maps: Sequence[np.ndarray], given: Sequence[Sentence], seed: int) -> dict[str, dict[str, Any]]:
    """The three searches; that for far words in the direction in which it finds more."""
    both = [searched(maps, given, far_cases(given, back=back), reference=False, seed=seed) for back in (True, False)]
    return {
        "far": max(both, key=lambda found: float((found["weight"] - found["chance"]).max())),
        "reference": whoever(maps, given, seed),
        "phrases": phrased(maps, given, seed=seed),
    }


def measure(lab: Lab, *, grammar: str = "own") -> dict[str, Any]:
    """`grammar`: of the sentence itself, or of others, where nothing can be found."""
    given = sentences(lab)
    maps, shape = looked(lab.base().model, given)
    accidents, _ = looked(blank(lab.base().model, lab.seed), given)
    if grammar == "others":
        given = exchanged(given)
    lab.stop.check()
    found, before = all_searched(maps, given, lab.seed), all_searched(accidents, given, lab.seed)
    numbers: dict[str, Any] = {"sentences": len(given)}
    for figure in FIGURES:
        show = phrase_shown if figure == "phrases" else shown
        numbers[figure] = told(found[figure], shape, show(maps, given, found[figure]))
        numbers[figure]["untrained"] = float((before[figure]["weight"] - before[figure]["chance"]).max())
    either = found["reference"]["either"]
    layer, head = divmod(either["place"], shape[1])
    numbers["reference"]["either"] = {**either, "layer": layer + 1, "head": head + 1}
    couples = Counter(tuple(given[row].words[i].strip(",.?!").lower() for i in pair)
                      for row in range(len(given)) for pair in given[row].bound())  # fmt: skip
    return numbers | {"couples": ", ".join(f"{a} … {b}" for (a, b), _ in couples.most_common(6))}


def best(numbers: Numbers, figure: str) -> dict[str, Any]:
    """The head that shows it most: where it is, its weight and that by chance."""
    one = numbers[figure]
    layer, head = one["best"]
    weight, chance = one["weight"][layer][head], one["chance"][layer][head]
    return {"layer": layer + 1, "head": head + 1, "weight": weight, "chance": chance, "cases": one["cases"],
            "chances": one["chances"], "untrained": one["untrained"]}  # fmt: skip


def is_found(numbers: Numbers, figure: str) -> bool:
    """Whether a head does it clearly: far above chance, as no draw by chance does, and not without training."""
    one = best(numbers, figure)
    learnt = one["weight"] - one["chance"] >= 2 * one["untrained"]
    if one["cases"] < CASES or one["chances"] > 0.01 or not learnt:
        return False
    if figure == "phrases":
        return bool(one["weight"] >= one["chance"] + MORE)
    return bool(one["weight"] >= max(LEAST, TIMES * one["chance"]))


def judge(numbers: Numbers) -> list[Check]:
    return [
        Check(
            WORDS(f"checks.{figure}.{'yes' if is_found(numbers, figure) else 'no'}", **best(numbers, figure)),
            is_found(numbers, figure),
        )
        for figure in FIGURES
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    pictures = []
    for figure in FIGURES:
        example, one = numbers[figure]["example"], best(numbers, figure)
        if not example["words"]:
            continue
        title = word("of", layer=one["layer"], head=one["head"])
        svg = looks_svg(
            example["words"], example["words"], np.array(example["weights"]), title=title,
            groups=example["parts"], bold=example["bold"],
        )  # fmt: skip
        caption = WORDS(f"picture.{figure}", couples=numbers["couples"], **numbers["reference"]["either"])
        pictures.append(Picture(f"figures-{figure}", svg, caption))
    more = [np.array(numbers[figure]["weight"]) - np.array(numbers[figure]["chance"]) for figure in FIGURES]
    columns = [f"{layer + 1}.{head + 1}" for layer, head in places(more[0].shape)]
    rows = [word(f"row_{figure}") for figure in FIGURES]
    field = field_svg(np.stack([one.ravel() for one in more]), rows=rows, columns=columns, form="{:+.2f}")
    return [*pictures, Picture("figures-heads", field, WORDS("picture.heads"))]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("figure", "head", "weight", "chance", "untrained", "cases", "chances")]
    rows: list[list[str | Text]] = []
    for figure in FIGURES:
        one = best(numbers, figure)
        rows.append(
            [
                WORDS(f"table.{figure}"), f"{one['layer']}.{one['head']}", f"{one['weight']:.3f}",
                f"{one['chance']:.3f}", f"{one['untrained']:+.3f}", str(one["cases"]), f"{one['chances']:.3f}",
            ]
        )  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(name="figures", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
