"""Constituency trees: read, cleaned, written as the target of a translation and read back, and compared as EVALB does.

    [tree] = map(clean, [parse("((S (NP-SBJ (PRP It)) (VP (VBZ works)) (. .)))")])
    linearise(tree)                       # (S (NP XX )NP (VP XX )VP XX )S
    restore("(S XX XX XX )S", leaves(tree))
    compare([tree], [tree]).f1            # 100.0

A parser that translates reads words and says brackets ("Grammar as a Foreign Language", Vinyals et al. 2015): every
bracket, with its label, is one symbol, and every word is one symbol: the same for all, or its part-of-speech tag, or
its place in the sentence, which tells the model how far it has come.

Roots    Every tree has a root TOP: the nameless outer bracket of a treebank's line.  It is said only where it holds
         something else than one phrase.
Scores   As the program EVALB gives them with the settings of Collins, of all sentences together: labelled spans of
         phrases, as a multiset; TOP and punctuation do not count, and ADVP and PRT are the same.
Not here how outputs are kept well-formed (lab/parsing/brackets.py), rare words (rare.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jumok.errors import DataError, UsageError
from jumok.messages import Message
from jumok.text.lines import read_lines

TOP, TRACE, WORD = "TOP", "-NONE-", "XX"
PUNCTUATION = frozenset((",", ":", "``", "''", "."))  # tags of words that EVALB leaves out
UNCOUNTED = PUNCTUATION | {TOP, TRACE}
ALIKE = {"PRT": "ADVP"}
PLACES = 64
Naming = Literal["same", "tags", "places"]
DEEPEST = 200  # brackets in each other; real trees have some 30


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part of speech."""

    tag: str
    word: str

    def __str__(self) -> str:
        return f"({self.tag} {self.word})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A phrase: its label and what it consists of."""

    label: str
    children: tuple[Tree | Leaf, ...]

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"


# ------------------------------------------------------------------------------------------ text to trees


def read(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, one a line, as they stand there; one that is no tree is a DataError that says where."""
    for number, line in enumerate(read_lines(path), start=1):
        yield parse(line, position=Message("lab.line_of_file", {"file": path, "line": number}))


def parse(text: str, *, position: Message | str = "") -> Tree:
    """The tree that a line of brackets is, with a root TOP whether or not the line has an outer bracket."""

    def wrong(reason: Message) -> DataError:
        return DataError("lab.not_a_tree", reason=reason, position=position)

    open_: list[list[str | Tree | Leaf]] = []
    whole: Tree | Leaf | None = None
    for token in re.findall(r"[()]|[^\s()]+", text):
        if whole is not None:
            raise wrong(Message("lab.after_last_bracket", {"symbol": token}))
        if token == "(":
            open_.append([])
            if len(open_) > DEEPEST:
                raise wrong(Message("lab.too_deep", {"deepest": DEEPEST}))
        elif not open_:
            raise wrong(Message("lab.outside_brackets", {"symbol": token}))
        elif token != ")":
            open_[-1].append(token)
        else:
            try:
                node = _build(open_.pop(), outer=not open_)
            except _NotANode as error:
                raise wrong(error.reason) from None
            if open_:
                open_[-1].append(node)
            else:
                whole = node
    if whole is None:
        raise wrong(_unfinished(len(open_)))
    return whole if isinstance(whole, Tree) and whole.label == TOP else Tree(TOP, (whole,))


class _NotANode(Exception):
    """A bracket whose content is neither a phrase nor a word."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _build(items: list[str | Tree | Leaf], *, outer: bool) -> Tree | Leaf:
    """The node of a bracket with these items; `_NotANode` gives the reason where there is none."""
    label, inner = (str(items[0]), items[1:]) if items and isinstance(items[0], str) else ("", items)
    phrases = tuple(one for one in inner if not isinstance(one, str))
    if not inner:
        raise _NotANode(Message("lab.nothing_in_bracket", {"label": label}))
    if not label and not outer:
        raise _NotANode(Message("lab.no_label"))
    if len(phrases) == len(inner):
        return Tree(label or TOP, phrases)
    if len(inner) > 1:
        raise _NotANode(Message("lab.word_and_more", {"label": label}))
    return Leaf(label, str(inner[0]))


def clean(tree: Tree) -> Tree | None:
    """The tree as parsers are scored on: without traces, without what they alone were in, with bare labels.

    NP-SBJ-1 and NP=2 become NP, ADVP|PRT becomes ADVP.  None where no word is left.
    """
    kept: list[Tree | Leaf] = []
    for child in tree.children:
        if isinstance(child, Tree):
            if (inner := clean(child)) is not None:
                kept.append(inner)
        elif child.tag != TRACE:
            kept.append(Leaf(bare(child.tag), child.word))
    return Tree(bare(tree.label), tuple(kept)) if kept else None


def bare(label: str) -> str:
    """A label without function tags and indices; one that begins with a dash, such as -LRB-, is whole."""
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0] or label


def leaves(tree: Tree) -> list[Leaf]:
    """The words of a tree with their tags, from left to right."""
    return [
        one for child in tree.children for one in (leaves(child) if isinstance(child, Tree) else [child])
    ]  # fmt: skip


def _unfinished(brackets: int) -> Message:
    """Why a text that ended with so many open brackets is not a tree."""
    return Message("lab.unclosed_brackets", {"brackets": brackets}) if brackets else Message("lab.no_brackets")


# ------------------------------------------------------------------------------------------ trees to symbols and back


def linearise(tree: Tree, *, words: Naming = "same") -> str:
    """The symbols of a tree: (S opens, )S closes, and a word is XX, its tag, or the number of its place from 1.

    Numbers begin anew after `PLACES` words.  A root TOP over a single phrase is understood.
    """
    [*rest] = tree.children
    inner = rest[0] if len(rest) == 1 else None
    understood = tree.label == TOP and isinstance(inner, Tree) and inner.label != TOP
    said = iter(named(leaves(tree), words))
    return " ".join(_symbols(inner if understood and isinstance(inner, Tree) else tree, said))


def named(words: Sequence[Leaf], naming: Naming) -> list[str]:
    """The symbols of words."""
    if naming == "places":
        return [str(place % PLACES + 1) for place in range(len(words))]
    return [leaf.tag if naming == "tags" else WORD for leaf in words]


def _symbols(node: Tree | Leaf, words: Iterator[str]) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield next(words)
        return
    yield f"({node.label}"
    for child in node.children:
        yield from _symbols(child, words)
    yield f"){node.label}"


def restore(symbols: str, words: Sequence[Leaf]) -> Tree:
    """The tree that symbols and the words of the sentence are together; a DataError where they are none."""

    def wrong(reason: Message) -> DataError:
        return DataError("lab.symbols_not_a_tree", reason=reason, symbols=symbols[:200])

    open_: list[tuple[str, list[Tree | Leaf]]] = []
    whole: Tree | None = None
    waiting = iter(words)
    for symbol in symbols.split():
        if whole is not None:
            raise wrong(Message("lab.after_last_bracket", {"symbol": symbol}))
        if symbol.startswith("(") and len(symbol) > 1:
            open_.append((symbol[1:], []))
            if len(open_) > DEEPEST:
                raise wrong(Message("lab.too_deep", {"deepest": DEEPEST}))
        elif not open_:
            raise wrong(Message("lab.outside_brackets", {"symbol": symbol}))
        elif symbol.startswith(")") and len(symbol) > 1:
            label, children = open_.pop()
            if label != symbol[1:]:
                raise wrong(Message("lab.wrong_label", {"symbol": symbol, "label": label}))
            if not children:
                raise wrong(Message("lab.empty_phrase", {"label": label}))
            made = Tree(label, tuple(children))
            if open_:
                open_[-1][1].append(made)
            else:
                whole = made
        elif (word := next(waiting, None)) is not None:
            open_[-1][1].append(word)
        else:
            raise wrong(Message("lab.too_many_words", {"words": len(words)}))
    if whole is None:
        raise wrong(_unfinished(len(open_)))
    if (missing := len(list(waiting))) > 0:
        raise wrong(Message("lab.missing_words", {"missing": missing, "words": len(words)}))
    return whole if whole.label == TOP else Tree(TOP, (whole,))


# ------------------------------------------------------------------------------------------ trees that know nothing


def flat(words: Sequence[Leaf], label: str = "S") -> Tree:
    """One phrase of all words."""
    return Tree(TOP, (Tree(label, tuple(words)),))


def right_branching(words: Sequence[Leaf], label: str, root: str = "S") -> Tree:
    """A phrase from each word to the last; punctuation begins none, and the last word alone is none."""
    counted = [place for place, leaf in enumerate(words) if leaf.tag not in PUNCTUATION]
    starts = set(counted[1:-1])
    children: list[Tree | Leaf] = []
    for place in reversed(range(len(words))):
        children.insert(0, words[place])
        if place in starts:
            children = [Tree(label, tuple(children))]
    return Tree(TOP, (Tree(root, tuple(children)),))


# ------------------------------------------------------------------------------------------ scores


@dataclass(frozen=True)
class Bracketing:
    """Phrases that are right, of how many; percentages of all sentences together."""

    matched: int
    gold: int
    found: int
    complete: int  # sentences with all phrases right and none besides
    sentences: int

    @property
    def recall(self) -> float:
        return 100.0 * self.matched / max(1, self.gold)

    @property
    def precision(self) -> float:
        return 100.0 * self.matched / max(1, self.found)

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        both = self.recall + self.precision
        return 2.0 * self.recall * self.precision / both if both else 0.0

    @property
    def complete_match(self) -> float:
        return 100.0 * self.complete / max(1, self.sentences)


def compare(gold: Sequence[Tree], found: Sequence[Tree | None]) -> Bracketing:
    """How near trees are to the true ones; None, where somebody gave no tree, has no phrase at all.

    EVALB leaves such sentences out of the count, which would favour whoever fails on the hard ones.  Like EVALB,
    sentences without any word but punctuation are not counted.
    """
    matched = wanted = given = complete = sentences = 0
    for true, tree in zip(gold, found, strict=True):
        if not (words := counted(true)):
            continue
        if tree is not None and counted(tree) != words:
            raise UsageError("lab.different_words", output=" ".join(counted(tree)), reference=" ".join(words))
        one, other = spans(true), Counter() if tree is None else spans(tree)
        both = (one & other).total()
        matched, wanted, given = matched + both, wanted + one.total(), given + other.total()
        complete += both == one.total() == other.total()
        sentences += 1
    return Bracketing(matched, wanted, given, complete, sentences)


def counted(tree: Tree) -> list[str]:
    """The words that are not punctuation."""
    return [leaf.word for leaf in leaves(tree) if leaf.tag not in UNCOUNTED]


def spans(tree: Tree) -> Counter[tuple[str, int, int]]:
    """How often each phrase is there: label, first word, and the word behind it; punctuation takes no place."""
    found: Counter[tuple[str, int, int]] = Counter()

    def walk(node: Tree | Leaf, start: int) -> int:
        if isinstance(node, Leaf):
            return start + (node.tag not in UNCOUNTED)
        end = start
        for child in node.children:
            end = walk(child, end)
        label = bare(node.label)
        if end > start and label not in UNCOUNTED:
            found[ALIKE.get(label, label), start, end] += 1
        return end

    walk(tree, 0)
    return found
