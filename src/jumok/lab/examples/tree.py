"""Beam search by hand: a table of next-word probabilities small enough to draw as a tree (section 6.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.decoding.graph import Graph
from jumok.decoding.hypothesis import Hypothesis, penalize
from jumok.decoding.search import beam, greedy
from jumok.lab.examples.example import Example, Numbers, Part, Say
from jumok.models.base import State
from jumok.text.symbols import END, SPECIALS

WORDS = {SPECIALS: "A", SPECIALS + 1: "B", SPECIALS + 2: "C", END: "■"}  # ■ ends the sentence
TABLE = {  # P(next | words so far); after any other words the sentence ends
    "": {"A": 0.5, "B": 0.4, "C": 0.1},
    "A": {"A": 0.42, "B": 0.4, "■": 0.18},
    "B": {"■": 0.6, "C": 0.4},
    "A A": {"■": 0.4, "A": 0.35, "B": 0.25},
    "A B": {"C": 0.95, "■": 0.05},
    "A B C": {"■": 0.95, "A": 0.05},
}
LONGEST, WIDTHS, ALPHAS = 5, (1, 2, 4), (0.0, 0.6, 1.0)
NEVER_SAID = -50.0  # log P below which a continuation is not in the table
DRAWN = 2  # the beam width whose tree is shown


class Prefixes:
    """The words of every row so far: what a decoder would remember."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = list(rows)

    def select(self, rows: Tensor) -> Prefixes:
        return Prefixes([self.rows[row] for row in rows.tolist()])


def step(token: Tensor, state: State) -> tuple[Tensor, State]:
    """The logits (N, V) of the next word, from the table."""
    assert isinstance(state, Prefixes)
    rows = [f"{before} {WORDS.get(one, '')}".strip() for before, one in zip(state.rows, token.tolist(), strict=True)]
    logits = torch.full((len(rows), max(WORDS) + 1), -math.inf)  # (N, V)
    for row, words in enumerate(rows):
        chances = TABLE.get(words, {"■": 1.0})
        for one, name in WORDS.items():
            logits[row, one] = math.log(chances[name]) if name in chances else 2 * NEVER_SAID
    return logits, Prefixes(rows)


def name(ids: Sequence[int]) -> str:
    return " ".join(WORDS[one] for one in ids)


def describe(one: Hypothesis) -> dict[str, Any]:
    """A sentence with its probability, its tokens with the end, and its score."""
    return {"words": name(one.ids), "p": math.exp(one.log_probability), "log_p": one.log_probability,
            "tokens": len(one.ids), "score": one.score}  # fmt: skip


def search(width: int, alpha: float) -> Hypothesis:
    """What search finds with this beam width and length penalty."""
    options = SearchOptions(beam=width, length_penalty=alpha)
    if width == 1:
        return greedy(step, Prefixes([""]), [LONGEST], options)[0]
    return beam(step, Prefixes([""]), [LONGEST], options)[0][0]


def draw_tree() -> list[dict[str, Any]]:
    """Every continuation that a beam of DRAWN considers with the last of ALPHAS: parent, word, probability, fate."""
    graph = Graph()
    beam(step, Prefixes([""]), [LONGEST], SearchOptions(beam=DRAWN, length_penalty=ALPHAS[-1]), watch=graph.grow)
    nodes = graph.sentences[0]
    real = [place for place, node in enumerate(nodes) if node.log_probability > NEVER_SAID]
    index = {place: number for number, place in enumerate(real)}
    return [
        {"parent": index.get(nodes[place].parent, -1), "step": nodes[place].step, "word": WORDS[nodes[place].token],
         "gain": math.exp(nodes[place].gain), "p": math.exp(nodes[place].log_probability), "fate": nodes[place].fate}
        for place in real
    ]  # fmt: skip


def list_sentences(words: str = "", p: float = 1.0) -> list[tuple[str, float]]:
    """All sentences of the table with their probabilities, likeliest first."""
    sentences: list[tuple[str, float]] = []
    for word, chance in TABLE.get(words, {"■": 1.0}).items():
        longer = f"{words} {word}".strip()
        sentences += [(longer, p * chance)] if word == "■" else list_sentences(longer, p * chance)
    return sorted(sentences, key=lambda one: -one[1])


def compute() -> dict[str, Any]:
    results = {str(width): {str(alpha): describe(search(width, alpha)) for alpha in ALPHAS} for width in WIDTHS}
    best = [{"words": words, "p": p, "log_p": math.log(p), "tokens": len(words.split()),
             "scores": {str(alpha): penalize(math.log(p), len(words.split()), alpha) for alpha in ALPHAS},
             "divisors": {str(alpha): ((5 + len(words.split())) / 6) ** alpha for alpha in ALPHAS}}
            for words, p in list_sentences()[:3]]  # fmt: skip
    return {"table": TABLE, "widths": list(WIDTHS), "alphas": list(ALPHAS), "found": results, "best": best,
            "sentences": len(list_sentences()), "drawn": DRAWN, "tree": draw_tree()}  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    given = [[say("after"), *WORDS.values()]]
    for words, chances in numbers["table"].items():
        given.append([words or "–", *(f"{chances[one]:.2f}" if one in chances else "" for one in WORDS.values())])
    rows = [[say("width"), *(f"α = {alpha:.1f}" for alpha in numbers["alphas"])]]
    results: Mapping[str, Mapping[str, Mapping[str, Any]]] = numbers["found"]
    rows += [[width, *(f"{one['words']} ({one['p']:.3f})" for one in each.values())] for width, each in results.items()]
    best = [[say("sentence"), "P", "log P", *(f"α = {alpha:.1f}" for alpha in numbers["alphas"])]]
    for one in numbers["best"]:
        scores = [f"{score:.3f}" for score in one["scores"].values()]
        best.append([one["words"], f"{one['p']:.4f}", f"{one['log_p']:.3f}", *scores])
    return [Part(say("table"), given), Part(say("found"), rows), Part(say("scores"), best)]


EXAMPLE = Example(name="tree", compute=compute, show=show)
