"""Parsing is translating into brackets (section 6.3, table 4): the same model, another target language.

The treebank is not part of jumok: `--data` names the folder that holds treebank-sample/{train,val,test}.mrg.gz, one
bracketed tree a line.  Nothing of it is kept in a finding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    named,
    read,
    restore,
    right_branching,
    spans,
)
from jumok.lab.wording import Text, Words
from jumok.reports.attention import curves_svg
from jumok.reports.charts import bars_svg
from jumok.text.lines import write_lines
from jumok.translator import Translator

WORDS = Words.read("table-4")
SPLITS = ("train", "val", "test")
PAPER = {"Vinyals et al. 2014": 88.3, "Petrov et al. 2006": 90.4, "Dyer et al. 2016": 91.7, "Transformer": 91.3}
BEAM, ALPHA, EXTRA = 21, 0.3, 300  # section 6.3
LEAST = 3  # times that a word is met in training to stay itself
EDGES = (10, 20, 30, 40, 1_000)
MARGIN = 20.0  # points of F1 above the best of the trees that know nothing
EXAMPLE = (  # a sentence of our own, so that a page shows nothing of the treebank
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
    symbols: Sequence[str]  # that stand for a word
    in_turn: bool  # each in its place

    def parse(self, sentences: Sequence[Sequence[Leaf]], *, rule: bool, beam: int) -> list[Tree | None]:
        """The tree of each sentence, or None where what the model said is none; tags are read by nobody."""
        sources = [" ".join(self.familiar.words([leaf.word for leaf in words])) for words in sentences]
        target = self.model.vocabularies.target
        ruling = None
        if rule:
            brackets = Brackets(target.surfaces(), self.symbols, in_turn=self.in_turn)
            ruling = brackets.ruling([len(words) for words in sentences])
        options = SearchOptions(beam=beam, length_penalty=ALPHA, extra_length=EXTRA)
        found = self.model.engine.decode(self.model.vocabularies.source.encode_all(sources), options, ruling=ruling)
        said = target.decode_all([hypotheses[0].body for hypotheses in found])
        return [tree_of(symbols, words) for symbols, words in zip(said, sentences, strict=True)]


def tree_of(symbols: str, words: Sequence[Leaf]) -> Tree | None:
    try:
        return restore(symbols, words)
    except DataError:
        return None


def treebank(lab: Lab) -> dict[str, list[Tree]]:
    """The cleaned trees of each split."""
    folder = lab.corpus("treebank-sample")
    return {
        split: [tree for found in read(folder / f"{split}.mrg.gz") if (tree := clean(found)) is not None]
        for split in SPLITS
    }


def texts(lab: Lab, trees: dict[str, list[Tree]], familiar: Familiar, naming: Naming) -> dict[str, Any]:
    """Words and symbols as parallel files in the lab's folder, and the changes to a recipe that name them."""
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


def learnt(lab: Lab, trees: dict[str, list[Tree]], naming: Naming) -> Parser:
    """A parser of the training trees."""
    sentences = [leaves(tree) for tree in trees["train"]]
    familiar = Familiar.learn([[leaf.word for leaf in words] for words in sentences], LEAST)
    changes = PARSER | {"training.steps": lab.steps(STEPS)} | texts(lab, trees, familiar, naming)
    run = lab.train(f"parser {naming}", changes)
    symbols = dict.fromkeys(symbol for words in sentences for symbol in named(words, naming))
    return Parser(run.model, familiar, list(symbols), in_turn=naming == "places")


def measure(lab: Lab, *, rule: bool = True, words: Naming = "tags", beam: int = BEAM) -> dict[str, Any]:
    """`rule`: brackets are kept well-formed; `words`: their symbols are places, tags, or all the same."""
    trees = treebank(lab)
    parser = learnt(lab, trees, words)
    lab.say("parsing")
    gold, sentences = trees["test"], [leaves(tree) for tree in trees["test"]]
    found = parser.parse(sentences, rule=rule, beam=beam)
    lab.stop.check()
    freely = parser.parse(sentences, rule=False, beam=beam)
    lab.stop.check()
    blind = best_right_branching(trees["train"])
    guesses: dict[str, Sequence[Tree | None]] = {
        "model": found,
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
        "sentences": {split: len(found) for split, found in trees.items()},
        "parameters": sum(one.numel() for one in parser.model.model.parameters()),
        "scores": {name: told(compare(gold, guess)) for name, guess in guesses.items()},
        "trees": {name: sum(tree is not None for tree in guesses[name]) for name in ("model", "free")},
        "val": told(compare(trees["val"], validated)),
        "label": blind,
        "lengths": by_length(gold, {name: guesses[name] for name in ("model", "right")}),
        "example": None if example is None else linearise(example),
    }


def told(score: Bracketing) -> dict[str, float]:
    return {"f1": score.f1, "recall": score.recall, "precision": score.precision, "complete": score.complete_match}


def best_right_branching(trees: Sequence[Tree]) -> str:
    """The label with which right-branching trees score best on some trees."""
    some = list(trees)[:400]
    labels = sorted({label for tree in some for label, _, _ in spans(tree)})
    return max(labels, key=lambda label: compare(some, [right_branching(leaves(tree), label) for tree in some]).f1)


def by_length(gold: Sequence[Tree], guesses: dict[str, Sequence[Tree | None]]) -> list[dict[str, Any]]:
    """F1 of sentences of like length: up to 10 words, up to 20, …"""
    rows, before = [], 0
    for edge in EDGES:
        chosen = [place for place, tree in enumerate(gold) if before < len(leaves(tree)) <= edge]
        before = edge
        if chosen:
            true = [gold[place] for place in chosen]
            scores = {name: compare(true, [found[place] for place in chosen]).f1 for name, found in guesses.items()}
            words = sum(len(leaves(tree)) for tree in true) / len(true)
            rows.append({"words": words, "sentences": len(chosen)} | scores)
    return rows


def judge(numbers: Numbers) -> list[Check]:
    scores, trees, count = numbers["scores"], numbers["trees"], numbers["sentences"]["test"]
    blind = max(scores["right"]["f1"], scores["flat"]["f1"])
    f1 = scores["model"]["f1"]
    return [
        Check(WORDS("checks.trees", trees=trees["model"], count=count), trees["model"] == count),
        Check(WORDS("checks.better", f1=f1, blind=blind, margin=MARGIN), f1 >= blind + MARGIN),
        Check(
            WORDS("checks.needed", broken=count - trees["free"], count=count, f1=scores["free"]["f1"]),
            trees["free"] < count,
        ),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str) -> str:
        return WORDS(f"picture.{key}").of(language)

    scores = numbers["scores"]
    bars = {word(name): {"F1": scores[name]["f1"]} for name in ("flat", "right", "free", "model")}
    bars |= {f"{name} ({word('paper')})": {"F1": f1} for name, f1 in PAPER.items()}
    lengths = {
        word(name): [(one["words"], one[name]) for one in numbers["lengths"]] for name in ("model", "right")
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
        one = numbers["scores"][name]
        rows.append(
            [WORDS(f"picture.{name}"), *(f"{one[key]:.1f}" for key in ("f1", "recall", "precision", "complete"))]
        )
    one = numbers["val"]
    rows.append([WORDS("table.val"), *(f"{one[key]:.1f}" for key in ("f1", "recall", "precision", "complete"))])
    rows += [[f"{name} · WSJ 23", f"{f1:.1f}", "", "", ""] for name, f1 in PAPER.items()]
    return Table(titles, rows)


CLAIM = Claim(name="table-4", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
