"""Parsing as translation into brackets (section 6.3, table 4): the same model, another target language.

The treebank is not part of jumok: `--data` names the folder with treebank-sample/{train,val,test}.mrg.gz, one bracketed
tree per line.  Findings contain nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jumok import messages
from jumok.config.search import SearchOptions
from jumok.errors import DataError
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.parsing.brackets import Brackets
from jumok.lab.parsing.drawing import tree_svg
from jumok.lab.parsing.rare import Familiar
from jumok.lab.parsing.trees import (
    Bracketing,
    Leaf,
    Naming,
    Tree,
    clean,
    compare,
    flat,
    leaves,
    linearise,
    name_words,
    read,
    restore,
    right_branching,
    spans,
)
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.charts import bars_svg
from jumok.reports.curves import curves_svg
from jumok.text.lines import write_lines
from jumok.translator import Translator

WORDS, LIMITS = Words.read("table-4"), Limits.read("table-4")
SPLITS = ("train", "val", "test")
PAPER = {"Vinyals et al. 2014": 88.3, "Petrov et al. 2006": 90.4, "Dyer et al. 2016": 91.7, "Transformer": 91.3}
BEAM, ALPHA, EXTRA = 21, 0.3, 300  # section 6.3
LEAST = 3  # occurrences in training from which a word is not replaced by its class
EDGES = (10, 20, 30, 40, 1_000)
EXAMPLE = (  # our own sentence, so that a page shows nothing of the treebank
    Leaf("DT", "The"), Leaf("NN", "company"), Leaf("VBD", "said"), Leaf("PRP", "it"), Leaf("MD", "will"),
    Leaf("VB", "sell"), Leaf("PRP$", "its"), Leaf("JJ", "small"), Leaf("NN", "business"), Leaf("IN", "in"),
    Leaf("NNP", "Korea"), Leaf(".", "."),
)  # fmt: skip

PARSER: dict[str, Any] = {
    "vocabulary.kind": "word",
    "vocabulary.size": 8_000,
    "vocabulary.joint": False,
    "model.tied": "target",
    "model.encoder_layers": 2,
    "model.decoder_layers": 2,
    "model.d_model": 128,
    "model.d_ff": 256,
    "model.heads": 4,
    "model.dropout": 0.1,
    "model.positions": "rotary",
    "data.longest": 140,
    "data.tokens_per_batch": 1_024,
    "training.tokens_per_update": 1_024,
    "training.optimizer": "muon",
    "training.peak": 1.6e-2,
    "training.warmup": 50,
    "training.validations": 2,
    "training.valid_pairs": 50,
    "decoding.extra_length": EXTRA,
}
STEPS = 2_000


@dataclass(frozen=True)
class Parser:
    """A model that translates words into brackets."""

    model: Translator
    familiar: Familiar
    symbols: Sequence[str]  # those that stand for words
    in_turn: bool  # whether these follow each other in order

    def parse(self, sentences: Sequence[Sequence[Leaf]], *, rule: bool, beam: int) -> list[Tree | None]:
        """The tree of each sentence, or None if the output is not a tree; tags are not read."""
        sources = [" ".join(self.familiar.words([leaf.word for leaf in words])) for words in sentences]
        target = self.model.vocabularies.target
        ruling = None
        if rule:
            brackets = Brackets(target.surfaces(), self.symbols, in_turn=self.in_turn)
            ruling = brackets.ruling([len(words) for words in sentences])
        options = SearchOptions(beam=beam, length_penalty=ALPHA, extra_length=EXTRA)
        hypotheses = self.model.engine.decode(
            self.model.vocabularies.source.encode_all(sources), options, ruling=ruling
        )
        outputs = target.decode_all([nbest[0].body for nbest in hypotheses])
        return [tree_of(symbols, words) for symbols, words in zip(outputs, sentences, strict=True)]


def tree_of(symbols: str, words: Sequence[Leaf]) -> Tree | None:
    try:
        return restore(symbols, words)
    except DataError:
        return None


def treebank(lab: Lab) -> dict[str, list[Tree]]:
    """The cleaned trees of each split."""
    folder = lab.corpus("treebank-sample")
    return {
        split: [tree for raw in read(folder / f"{split}.mrg.gz") if (tree := clean(raw)) is not None]
        for split in SPLITS
    }


def texts(lab: Lab, trees: dict[str, list[Tree]], familiar: Familiar, naming: Naming) -> dict[str, Any]:
    """Write words and symbols as parallel files into the lab's folder; returns the recipe changes that name them."""
    sides: dict[str, list[str]] = {}
    for split in ("train", "val"):
        words = [[leaf.word for leaf in leaves(tree)] for tree in trees[split]]
        sides[f"{split}.words"] = [" ".join(familiar.words(each)) for each in words]
        sides[f"{split}.brackets"] = [linearise(tree, words=naming) for tree in trees[split]]
    digest = hashlib.sha256(repr(sides).encode()).hexdigest()[:10]
    folder = lab.folder / "treebank" / digest
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in sides.items():
        write_lines(folder / f"{name}.txt", lines)
    keys = ("data.source", "data.target", "data.valid_source", "data.valid_target")
    files = {key: str(folder / f"{name}.txt") for key, name in zip(keys, sides, strict=True)}
    return {"data.corpus": None} | files


def train_parser(lab: Lab, trees: dict[str, list[Tree]], naming: Naming) -> Parser:
    """A parser trained on the training trees."""
    sentences = [leaves(tree) for tree in trees["train"]]
    familiar = Familiar.learn([[leaf.word for leaf in words] for words in sentences], LEAST)
    changes = PARSER | {"training.steps": lab.steps(STEPS)} | texts(lab, trees, familiar, naming)
    run = lab.train(f"parser {naming}", changes)
    symbols = dict.fromkeys(symbol for words in sentences for symbol in name_words(words, naming))
    return Parser(run.model, familiar, list(symbols), in_turn=naming == "places")


def measure(lab: Lab, *, rule: bool = True, words: Naming = "tags", beam: int = BEAM) -> dict[str, Any]:
    """`rule`: constrain search to well-formed brackets; `words`: symbols of words are places, tags, or all the same."""
    trees = treebank(lab)
    parser = train_parser(lab, trees, words)
    lab.say(messages.text("lab.parsing"))
    gold, sentences = trees["test"], [leaves(tree) for tree in trees["test"]]
    parsed = parser.parse(sentences, rule=rule, beam=beam)
    lab.stop.check()
    freely = parser.parse(sentences, rule=False, beam=beam)
    lab.stop.check()
    blind = choose_label(trees["train"])
    guesses: dict[str, Sequence[Tree | None]] = {
        "model": parsed,
        "free": freely,
        "right": [right_branching(each, blind) for each in sentences],
        "flat": [flat(each) for each in sentences],
    }
    validated = parser.parse([leaves(tree) for tree in trees["val"]], rule=rule, beam=beam)
    [example] = parser.parse([EXAMPLE], rule=rule, beam=beam)
    return {
        "rule": rule,
        "words": words,
        "beam": beam,
        "sentences": {split: len(split_trees) for split, split_trees in trees.items()},
        "parameters": sum(parameter.numel() for parameter in parser.model.model.parameters()),
        "scores": {name: to_values(compare(gold, guess)) for name, guess in guesses.items()},
        "trees": {name: sum(tree is not None for tree in guesses[name]) for name in ("model", "free")},
        "val": to_values(compare(trees["val"], validated)),
        "label": blind,
        "lengths": by_length(gold, {name: guesses[name] for name in ("model", "right")}),
        "example": None if example is None else linearise(example),
    }


def to_values(score: Bracketing) -> dict[str, float]:
    return {"f1": score.f1, "recall": score.recall, "precision": score.precision, "complete": score.complete_match}


def choose_label(trees: Sequence[Tree]) -> str:
    """The label with which right-branching trees score best on a sample of the trees."""
    some = list(trees)[:400]
    labels = sorted({label for tree in some for label, _, _ in spans(tree)})
    return max(labels, key=lambda label: compare(some, [right_branching(leaves(tree), label) for tree in some]).f1)


def by_length(gold: Sequence[Tree], guesses: dict[str, Sequence[Tree | None]]) -> list[dict[str, Any]]:
    """F1 by length of the sentence: up to 10 words, up to 20, …"""
    rows, before = [], 0
    for edge in EDGES:
        chosen = [row for row, tree in enumerate(gold) if before < len(leaves(tree)) <= edge]
        before = edge
        if chosen:
            true = [gold[row] for row in chosen]
            scores = {name: compare(true, [guess[row] for row in chosen]).f1 for name, guess in guesses.items()}
            words = sum(len(leaves(tree)) for tree in true) / len(true)
            rows.append({"words": words, "sentences": len(chosen)} | scores)
    return rows


def check(numbers: Numbers) -> list[Check]:
    scores, trees, count = numbers["scores"], numbers["trees"], numbers["sentences"]["test"]
    blind = max(scores["right"]["f1"], scores["flat"]["f1"])
    f1 = scores["model"]["f1"]
    return [
        Check(WORDS("checks.trees", trees=trees["model"], count=count), trees["model"] == count),
        Check(WORDS("checks.better", f1=f1, blind=blind, margin=LIMITS["margin"]), f1 >= blind + LIMITS["margin"]),
        Check(
            WORDS("checks.needed", broken=count - trees["free"], count=count, f1=scores["free"]["f1"]),
            trees["free"] < count,
        ),
    ]


def stand(numbers: Numbers) -> Standing:
    return Standing("real", "f1", numbers["scores"]["model"]["f1"])


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    scores = numbers["scores"]
    bars = {word(name): {"F1": scores[name]["f1"]} for name in ("flat", "right", "free", "model")}
    bars |= {f"{name} ({word('paper')})": {"F1": f1} for name, f1 in PAPER.items()}
    lengths = {
        word(name): [(group["words"], group[name]) for group in numbers["lengths"]] for name in ("model", "right")
    }  # fmt: skip
    pictures = [
        Picture("table-4", bars_svg(bars, x="F1", form="{:.1f}"), WORDS("picture.bars")),
        Picture("table-4-length", curves_svg(lengths, x=word("words"), y="F1"), WORDS("picture.lengths")),
    ]
    if numbers["example"] is not None:
        tree = restore(numbers["example"], EXAMPLE)
        pictures.append(Picture("table-4-tree", tree_svg(tree), WORDS("picture.tree")))
    return pictures


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS("table.who"), *(WORDS(f"table.{key}") for key in ("f1", "recall", "precision", "complete"))]
    rows: list[list[str | Text]] = []
    for name in ("flat", "right", "free", "model"):
        scores = numbers["scores"][name]
        rows.append(
            [WORDS(f"picture.{name}"), *(f"{scores[key]:.1f}" for key in ("f1", "recall", "precision", "complete"))]
        )
    scores = numbers["val"]
    rows.append([WORDS("table.val"), *(f"{scores[key]:.1f}" for key in ("f1", "recall", "precision", "complete"))])
    rows += [[f"{name} · WSJ 23", f"{f1:.1f}", "", "", ""] for name, f1 in PAPER.items()]
    return Table(titles, rows)


CLAIM = Claim(
    name="table-4", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=1
)
