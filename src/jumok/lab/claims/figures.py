"""The paper's figures 3 to 5, found by measurement: distant words that belong together, reference, phrases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from jumok.data.made import phrasebook
from jumok.data.made.grammar.draft import CALL, Draft
from jumok.data.made.grammar.people import NAMES
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import all_heads, constituents, drafts, encoder_by_words, to_lists, untrain, views
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.charts import field_svg, links_svg

WORDS, LIMITS = Words.read("figures"), Limits.read("figures")
SENTENCES = 500
SAMPLES = 200  # random samples to compare with
SHORTEST = 6  # words of a sentence at least
FAR = 4  # least distance of words that are far apart
FIGURES = ("far", "reference", "phrases")
PRONOUNS = frozenset(("he", "she", "they", "him", "her", "them", "his", "their"))
FRIENDS = frozenset(english for english, _ in NAMES)


class Sentence(NamedTuple):
    """A sentence with its grammar: links, the phrase of each word, who is addressed, where "you" is."""

    english: str
    korean: str
    alignment: tuple[tuple[int, int], ...]
    parts: tuple[int, ...]  # the phrase of each English word
    call: int  # words at the beginning that address a person
    you: int  # the index of "you"; -1 without

    @property
    def words(self) -> list[str]:
        return self.english.split()

    @property
    def by_name(self) -> bool:
        """Whether a friend is addressed by name: not Sir, not Professor Kim, not Hey."""
        return self.call == 1 and self.words[0].rstrip(",") in FRIENDS

    def bound(self) -> set[tuple[int, int]]:
        """Pairs of words that share a Korean word, at least FAR apart, with another phrase between them."""
        of: dict[int, list[int]] = {}
        for english, korean in self.alignment:
            of.setdefault(korean, []).append(english)
        couples = {(a, b) for group in of.values() for a in group for b in group if b - a >= FAR}
        return {(a, b) for a, b in couples if set(self.parts[a : b + 1]) - {self.parts[a], self.parts[b]}}


def grammar(draft: Draft) -> Sentence:
    """The sentence of a draft with its grammar; a phrase is a run of words of the same constituent."""
    english, korean = draft.spell()
    parts, of = [0], constituents(draft)
    for before, after in pairwise(of):
        parts.append(parts[-1] + (before != after))
    words = english.split()
    call = next((index for index, part in enumerate(of) if part != CALL), len(of))
    you = words.index("you") if "you" in words else -1
    return Sentence(english, korean, phrasebook.align(draft), tuple(parts), call, you)


def sentences(lab: Lab) -> list[Sentence]:
    """Unseen sentences: any, then more with distant pairs or with "you" after an address."""
    count = max(60, round(SENTENCES * min(4.0, lab.scale.factor)))
    chosen, wanted = dict[str, Sentence](), {"far": count // 5, "reference": count // 5}
    for sentence in map(grammar, drafts(f"figures/{lab.seed}")):
        if len(chosen) >= count and max(wanted.values()) <= 0:
            break
        if len(sentence.words) < SHORTEST:
            continue
        of = [
            name
            for name, has in (("far", bool(sentence.bound())), ("reference", 0 < sentence.call < sentence.you))
            if has
        ]
        if sentence.english not in chosen and (len(chosen) < count or any(wanted[name] > 0 for name in of)):
            chosen[sentence.english] = sentence
            wanted |= {name: wanted[name] - 1 for name in of}
    return list(chosen.values())


def exchange_grammar(given: Sequence[Sentence]) -> list[Sentence]:
    """Give every sentence the grammar of another one of the same length, so that all findings are due to chance."""
    alike: dict[int, list[int]] = {}
    for row, sentence in enumerate(given):
        alike.setdefault(len(sentence.words), []).append(row)
    after = {row: rows[(index + 1) % len(rows)] for rows in alike.values() for index, row in enumerate(rows)}
    return [
        given[after[row]]._replace(english=sentence.english, korean=sentence.korean)
        for row, sentence in enumerate(given)
    ]


# ------------------------------------------------------------------------------------------ three searches


class Case(NamedTuple):
    """Attention from a word to other words of a sentence; it is compared with sentences of the same `like`."""

    sentence: int
    word: int
    to: tuple[int, ...]
    like: tuple[int, ...]


def far_cases(given: Sequence[Sentence], *, back: bool) -> list[Case]:
    """From a word back to the words it is linked with, or forward to them."""
    targets: dict[tuple[int, int], list[int]] = {}
    for row, sentence in enumerate(given):
        for first, second in sorted(sentence.bound()):
            word, to = (second, first) if back else (first, second)
            targets.setdefault((row, word), []).append(to)
    return [Case(row, word, tuple(to), (len(given[row].words),)) for (row, word), to in targets.items()]


def reference_cases(given: Sequence[Sentence], *, by_name: bool) -> list[Case]:
    """From "you" to the person it refers to: a friend addressed by name, or a person addressed in another way."""
    return [
        Case(row, sentence.you, tuple(range(sentence.call)), (sentence.call, sentence.by_name))
        for row, sentence in enumerate(given)
        if 0 < sentence.call < sentence.you and sentence.by_name == by_name
    ]


def others(case: Case, given: Sequence[Sentence], *, reference: bool) -> Iterator[int]:
    """Sentences in which the words at these positions are not linked: of the same length, or with the same address."""
    for row, sentence in enumerate(given):
        if case.word >= len(sentence.words):
            continue
        if reference and (sentence.call, sentence.by_name) == case.like and sentence.you != case.word:
            yield row
        elif not reference and (len(sentence.words),) == case.like:
            couples = {(min(case.word, to), max(case.word, to)) for to in case.to}
            if couples.isdisjoint(sentence.bound()):
                yield row


def search_cases(
    maps: Sequence[np.ndarray], given: Sequence[Sentence], cases: Sequence[Case], *, reference: bool, seed: int
) -> dict[str, Any]:
    """Mean weights (heads,) of the cases, of the same positions in other sentences, and of SAMPLES random choices."""
    random = np.random.default_rng(seed)
    heads = len(maps[0])
    weight, chance, samples = np.zeros(heads), np.zeros(heads), np.zeros((SAMPLES, heads))
    used = []
    for case in cases:
        elsewhere = [maps[row][:, case.word, case.to].sum(axis=-1) for row in others(case, given, reference=reference)]
        if not elsewhere:
            continue
        values = np.stack(elsewhere)  # (sentences, heads)
        weight += maps[case.sentence][:, case.word, case.to].sum(axis=-1)
        chance += values.mean(axis=0)
        samples += values[random.integers(len(values), size=SAMPLES)]
        used.append(case)
    count = max(1, len(used))
    return {"weight": weight / count, "chance": chance / count, "draws": samples / count, "cases": used}


def search_reference(maps: Sequence[np.ndarray], given: Sequence[Sentence], seed: int) -> dict[str, Any]:
    """The search for reference: a head counts with the worse of names and other addresses; "you" may be either."""
    kinds = [
        search_cases(maps, given, reference_cases(given, by_name=by_name), reference=True, seed=seed)
        for by_name in (True, False)
    ]
    more = [kind["weight"] - kind["chance"] for kind in kinds]
    worse = {key: np.where(more[0] <= more[1], *(kind[key] for kind in kinds)) for key in ("weight", "chance", "draws")}
    either = np.maximum(*more).argmax()
    weights = {name: float(kind["weight"][either]) for name, kind in zip(("names", "titles"), kinds, strict=True)}
    return {**worse, "cases": kinds[0]["cases"] + kinds[1]["cases"], "either": {"place": int(either), **weights}}


def search_phrases(maps: Sequence[np.ndarray], given: Sequence[Sentence], *, seed: int) -> dict[str, Any]:
    """The share (heads,) of the weight on other words that stays in the phrase, and in random phrases."""
    random = np.random.default_rng(seed)
    heads = len(maps[0])
    inside, outside = np.zeros((SAMPLES + 1, heads)), np.zeros((SAMPLES + 1, heads))
    for map_, sentence in zip(maps, given, strict=True):
        sizes = np.array(list(Counter(sentence.parts).values()))
        laid = [np.array(sentence.parts)]
        laid += [np.repeat(np.arange(len(sizes)), random.permutation(sizes)) for _ in range(SAMPLES)]
        part = np.stack(laid)  # (SAMPLES + 1, words): the true one first
        same = (part[:, :, None] == part[:, None, :]) & ~np.eye(part.shape[1], dtype=bool)
        several = same.any(axis=2)  # words that are not alone in their phrase
        rest = several[:, :, None] & ~np.eye(part.shape[1], dtype=bool)
        inside += same.reshape(SAMPLES + 1, -1) @ map_.reshape(heads, -1).T
        outside += rest.reshape(SAMPLES + 1, -1) @ map_.reshape(heads, -1).T
    words = sum(len(sentence.words) for sentence in given)
    # 0 for heads that attend to the word itself
    shares = np.where(outside > LIMITS["least"] * words / 2, inside / outside.clip(1e-9), 0.0)
    return {"weight": shares[0], "chance": shares[1:].mean(axis=0), "draws": shares[1:], "cases": list(given)}


# ------------------------------------------------------------------------------------------ the claim


def summarize(result: dict[str, Any], shape: tuple[int, int], example: dict[str, Any]) -> dict[str, Any]:
    """The result of a search as plain numbers; `chances`: how often the best of all heads is as good by chance."""
    more = result["weight"] - result["chance"]
    best = int(more.argmax())
    as_good = int(((result["draws"] - result["chance"]).max(axis=1) >= more[best]).sum())
    return {
        "weight": to_lists(result["weight"].reshape(shape)),
        "chance": to_lists(result["chance"].reshape(shape)),
        "best": [best // shape[1], best % shape[1]],
        "chances": (1 + as_good) / (1 + SAMPLES),
        "cases": len(result["cases"]),
        "example": example,
    }


def pick_case(maps: Sequence[np.ndarray], given: Sequence[Sentence], result: dict[str, Any]) -> dict[str, Any]:
    """The clearest case of the best head, with its attention."""
    head, cases = int((result["weight"] - result["chance"]).argmax()), result["cases"]
    if not cases:
        return {"words": [], "weights": [], "bold": [], "parts": []}
    case = max(cases, key=lambda case: maps[case.sentence][head, case.word, case.to].sum())
    weights = np.zeros_like(maps[case.sentence][head])
    weights[case.word] = maps[case.sentence][head, case.word]
    words = given[case.sentence].words
    return {"words": words, "weights": to_lists(weights), "bold": [case.word, *case.to], "parts": []}


def pick_phrases(maps: Sequence[np.ndarray], given: Sequence[Sentence], result: dict[str, Any]) -> dict[str, Any]:
    """The sentence of several phrases whose phrases the best head follows most closely."""
    head = int((result["weight"] - result["chance"]).argmax())

    def follows(row: int) -> float:
        part, map_ = np.array(given[row].parts), maps[row][head] * ~np.eye(len(given[row].parts), dtype=bool)
        same = part[:, None] == part[None, :]
        return float((map_ * same).sum() / max(1e-9, map_.sum()))

    several = [row for row, sentence in enumerate(given) if max(sentence.parts) >= 3] or [0]
    row = max(several, key=follows)
    return {
        "words": given[row].words, "weights": to_lists(maps[row][head]), "bold": [], "parts": list(given[row].parts)
    }  # fmt: skip


def collect_maps(model: Any, given: Sequence[Sentence]) -> tuple[list[np.ndarray], tuple[int, int]]:
    """Maps (heads, words, words) of every sentence, and the numbers of layers and heads."""
    looks = [encoder_by_words(view) for view in views(model, given)]  # (L, H, words, words) each
    return [look.reshape(-1, *look.shape[2:]) for look in looks], looks[0].shape[:2]


def search_all(maps: Sequence[np.ndarray], given: Sequence[Sentence], seed: int) -> dict[str, dict[str, Any]]:
    """The three searches; the one for distant words in the direction that finds more."""
    both = [
        search_cases(maps, given, far_cases(given, back=back), reference=False, seed=seed) for back in (True, False)
    ]
    return {
        "far": max(both, key=lambda result: float((result["weight"] - result["chance"]).max())),
        "reference": search_reference(maps, given, seed),
        "phrases": search_phrases(maps, given, seed=seed),
    }


def measure(lab: Lab, *, grammar: str = "own") -> dict[str, Any]:
    """`grammar`: own, or that of others, where nothing can be found."""
    given = sentences(lab)
    maps, shape = collect_maps(lab.base().model, given)
    accidents, _ = collect_maps(untrain(lab.base().model, lab.seed), given)
    if grammar == "others":
        given = exchange_grammar(given)
    lab.stop.check()
    results, before = search_all(maps, given, lab.seed), search_all(accidents, given, lab.seed)
    numbers: dict[str, Any] = {"sentences": len(given)}
    for figure in FIGURES:
        show = pick_phrases if figure == "phrases" else pick_case
        numbers[figure] = summarize(results[figure], shape, show(maps, given, results[figure]))
        numbers[figure]["untrained"] = float((before[figure]["weight"] - before[figure]["chance"]).max())
    either = results["reference"]["either"]
    layer, head = divmod(either["place"], shape[1])
    numbers["reference"]["either"] = {**either, "layer": layer + 1, "head": head + 1}
    couples = Counter(tuple(given[row].words[i].strip(",.?!").lower() for i in pair)
                      for row in range(len(given)) for pair in given[row].bound())  # fmt: skip
    numbers |= {
        "pronouns": count_pronouns(given),
        "minutes": lab.base().seconds / 60,
        "graded": lab.grade(lab.base().model),
    }
    return numbers | {"couples": ", ".join(f"{a} … {b}" for (a, b), _ in couples.most_common(6))}


def best(numbers: Numbers, figure: str) -> dict[str, Any]:
    """The best head of a figure: its layer and number, its weight and the weight expected by chance."""
    result = numbers[figure]
    layer, head = result["best"]
    weight, chance = result["weight"][layer][head], result["chance"][layer][head]
    return {"layer": layer + 1, "head": head + 1, "weight": weight, "chance": chance, "cases": result["cases"],
            "chances": result["chances"], "untrained": result["untrained"]}  # fmt: skip


def is_found(numbers: Numbers, figure: str) -> bool:
    """Whether a head clearly shows it: far above chance, rarely matched by random samples, and not without training."""
    head = best(numbers, figure)
    trained = head["weight"] - head["chance"] >= LIMITS["trained"] * head["untrained"]
    if head["cases"] < LIMITS["cases"] or head["chances"] > LIMITS["doubt"] or not trained:
        return False
    if figure == "phrases":
        return bool(head["weight"] >= head["chance"] + LIMITS["more"])
    return bool(head["weight"] >= max(LIMITS["least"], LIMITS["times"] * head["chance"]))


def count_pronouns(given: Sequence[Sentence]) -> int:
    """Sentences in which a pronoun of the third person follows a name."""
    count = 0
    for sentence in given:
        words = [word.strip(",.?!").lower() for word in sentence.words]
        names = [at for at, word in enumerate(sentence.words) if word.strip(",.?!") in FRIENDS]
        count += bool(names) and not PRONOUNS.isdisjoint(words[names[0] + 1 :])
    return count


def check(numbers: Numbers) -> list[Check]:
    checks = []
    for figure in FIGURES:
        is_there, pronouns = is_found(numbers, figure), numbers.get("pronouns", 0)
        text = WORDS(f"checks.{figure}.{'yes' if is_there else 'no'}", **best(numbers, figure))
        if figure == "reference" and not is_there and pronouns < LIMITS["pronouns"]:
            size = {"pronouns": pronouns, "least": LIMITS["pronouns"], "minutes": numbers.get("minutes", 0.0)}
            decide = WORDS("decide.reference" if "minutes" in numbers else "decide.unknown", **size)
            checks.append(Check(text, None, figure, decide))
        else:
            checks.append(Check(text, is_there, figure))
    return checks


def stand(numbers: Numbers) -> Standing:
    graded = numbers.get("graded", {})
    return Standing("phrasebook", "bleu", graded.get("bleu"), 1, graded.get("interval"))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    pictures = []
    for figure in FIGURES:
        example, head = numbers[figure]["example"], best(numbers, figure)
        if not example["words"]:
            continue
        title = word("of", layer=head["layer"], head=head["head"])
        svg = links_svg(
            example["words"], example["words"], np.array(example["weights"]), title=title,
            groups=example["parts"], bold=example["bold"],
        )  # fmt: skip
        caption = WORDS(f"picture.{figure}", couples=numbers["couples"], **numbers["reference"]["either"])
        pictures.append(Picture(f"figures-{figure}", svg, caption))
    more = [np.array(numbers[figure]["weight"]) - np.array(numbers[figure]["chance"]) for figure in FIGURES]
    columns = [f"{layer + 1}.{head + 1}" for layer, head in all_heads(more[0].shape)]
    rows = [word(f"row_{figure}") for figure in FIGURES]
    field = field_svg(np.stack([difference.ravel() for difference in more]), rows=rows, columns=columns, form="{:+.2f}")
    return [*pictures, Picture("figures-heads", field, WORDS("picture.heads"))]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("figure", "head", "weight", "chance", "untrained", "cases", "chances")]
    rows: list[list[str | Text]] = []
    for figure in FIGURES:
        head = best(numbers, figure)
        rows.append(
            [
                WORDS(f"table.{figure}"), f"{head['layer']}.{head['head']}", f"{head['weight']:.3f}",
                f"{head['chance']:.3f}", f"{head['untrained']:+.3f}", str(head["cases"]), f"{head['chances']:.3f}",
            ]
        )  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="figures",
    words=WORDS,
    measure=measure,
    check=check,
    stand=stand,
    draw=draw,
    tabulate=tabulate,
    version=2,
    understands=(1,),
)
