"""Constituency trees: reading, cleaning, conversion to target symbols and back, and scores as EVALB computes them.

    [tree] = map(clean, [parse("((S (NP-SBJ (PRP It)) (VP (VBZ works)) (. .)))")])
    linearise(tree)                       # (S (NP XX )NP (VP XX )VP XX )S
    restore("(S XX XX XX )S", leaves(tree))
    compare([tree], [tree]).f1            # 100.0

A parser that translates reads words and generates brackets ("Grammar as a Foreign Language", Vinyals et al. 2015):
each bracket with its label is one symbol, and so is each word: the same symbol for all words, or its part-of-speech
tag, or its position in the sentence, from which the model knows how many words are left.

Roots    Every tree has a root TOP: the unlabelled outer bracket of a line of a treebank.  It becomes symbols only if it
         contains anything but a single phrase.
Scores   As the program EVALB computes them with Collins' settings, over all sentences: labelled spans of phrases, as
         a multiset; TOP and punctuation do not count, and ADVP and PRT are equal.
Not here the constraint that keeps outputs well-formed (lab/parsing/brackets.py), rare words (rare.py).
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
DEEPEST = 200  # nested brackets at most; real trees have about 30


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part of speech."""

    tag: str
    word: str

    def __str__(self) -> str:
        return f"({self.tag} {self.word})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A phrase: its label and its parts."""

    label: str
    children: tuple[Tree | Leaf, ...]

    def __str__(self) -> str:
        return f"({self.label} {' '.join(map(str, self.children))})"


# ------------------------------------------------------------------------------------------ text to trees


def read(path: str | Path) -> Iterator[Tree]:
    """The trees of a file, one per line, not cleaned; a line that is not a tree raises `DataError` with its number."""
    for number, line in enumerate(read_lines(path), start=1):
        yield parse(line, position=Message("lab.line_of_file", {"file": path, "line": number}))


def parse(text: str, *, position: Message | str = "") -> Tree:
    """The tree of a line of brackets, with a root TOP whether or not the line has an outer bracket."""

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
    phrases = tuple(item for item in inner if not isinstance(item, str))
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
    """The tree on which parsers are scored: without traces and phrases that contain only traces, with bare labels.

    NP-SBJ-1 and NP=2 become NP, ADVP|PRT becomes ADVP.  None if no word is left.
    """
    children: list[Tree | Leaf] = []
    for child in tree.children:
        if isinstance(child, Tree):
            if (inner := clean(child)) is not None:
                children.append(inner)
        elif child.tag != TRACE:
            children.append(Leaf(bare(child.tag), child.word))
    return Tree(bare(tree.label), tuple(children)) if children else None


def bare(label: str) -> str:
    """A label without function tags and indices; one that begins with a dash, such as -LRB-, is not changed."""
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0] or label


def leaves(tree: Tree) -> list[Leaf]:
    """The words of a tree with their tags, from left to right."""
    return [
        leaf for child in tree.children for leaf in (leaves(child) if isinstance(child, Tree) else [child])
    ]  # fmt: skip


def _unfinished(brackets: int) -> Message:
    """Why a text that ended with so many open brackets is not a tree."""
    return Message("lab.unclosed_brackets", {"brackets": brackets}) if brackets else Message("lab.no_brackets")


# ------------------------------------------------------------------------------------------ trees to symbols and back


def linearise(tree: Tree, *, words: Naming = "same") -> str:
    """The symbols of a tree: (S opens, )S closes, and a word is XX, its tag, or its position, counted from 1.

    Positions start again after `PLACES` words.  A root TOP over a single phrase is omitted.
    """
    [*rest] = tree.children
    inner = rest[0] if len(rest) == 1 else None
    understood = tree.label == TOP and isinstance(inner, Tree) and inner.label != TOP
    names = iter(name_words(leaves(tree), words))
    return " ".join(_symbols(inner if understood and isinstance(inner, Tree) else tree, names))


def name_words(words: Sequence[Leaf], naming: Naming) -> list[str]:
    """The symbols that stand for words."""
    if naming == "places":
        return [str(index % PLACES + 1) for index in range(len(words))]
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
    """The tree of these symbols over the words of the sentence; `DataError` if they do not form one."""

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
            phrase = Tree(label, tuple(children))
            if open_:
                open_[-1][1].append(phrase)
            else:
                whole = phrase
        elif (word := next(waiting, None)) is not None:
            open_[-1][1].append(word)
        else:
            raise wrong(Message("lab.too_many_words", {"words": len(words)}))
    if whole is None:
        raise wrong(_unfinished(len(open_)))
    if (missing := len(list(waiting))) > 0:
        raise wrong(Message("lab.missing_words", {"missing": missing, "words": len(words)}))
    return whole if whole.label == TOP else Tree(TOP, (whole,))


# ------------------------------------------------------------------------------------------ baselines


def flat(words: Sequence[Leaf], label: str = "S") -> Tree:
    """A tree with one phrase of all words."""
    return Tree(TOP, (Tree(label, tuple(words)),))


def right_branching(words: Sequence[Leaf], label: str, root: str = "S") -> Tree:
    """A phrase from each word to the last; none begins at punctuation or at the last word."""
    words_that_count = [index for index, leaf in enumerate(words) if leaf.tag not in PUNCTUATION]
    starts = set(words_that_count[1:-1])
    children: list[Tree | Leaf] = []
    for index in reversed(range(len(words))):
        children.insert(0, words[index])
        if index in starts:
            children = [Tree(label, tuple(children))]
    return Tree(TOP, (Tree(root, tuple(children)),))


# ------------------------------------------------------------------------------------------ scores


@dataclass(frozen=True)
class Bracketing:
    """Counts of phrases over all sentences, and the percentages that follow from them."""

    matched: int
    gold: int
    predicted: int
    complete: int  # sentences with exactly the right phrases
    sentences: int

    @property
    def recall(self) -> float:
        return 100.0 * self.matched / max(1, self.gold)

    @property
    def precision(self) -> float:
        return 100.0 * self.matched / max(1, self.predicted)

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        both = self.recall + self.precision
        return 2.0 * self.recall * self.precision / both if both else 0.0

    @property
    def complete_match(self) -> float:
        return 100.0 * self.complete / max(1, self.sentences)


def compare(gold: Sequence[Tree], outputs: Sequence[Tree | None]) -> Bracketing:
    """The scores of trees against gold trees; None, a sentence without a tree, counts as a tree without phrases.

    EVALB skips such sentences, which would favour parsers that fail on the hard ones.  As in EVALB, sentences that
    consist of punctuation are skipped.
    """
    matched = wanted = given = complete = sentences = 0
    for true, tree in zip(gold, outputs, strict=True):
        if not (words := words_that_count(true)):
            continue
        if tree is not None and words_that_count(tree) != words:
            raise UsageError("lab.different_words", output=" ".join(words_that_count(tree)), reference=" ".join(words))
        expected, actual = spans(true), Counter() if tree is None else spans(tree)
        both = (expected & actual).total()
        matched, wanted, given = matched + both, wanted + expected.total(), given + actual.total()
        complete += both == expected.total() == actual.total()
        sentences += 1
    return Bracketing(matched, wanted, given, complete, sentences)


def words_that_count(tree: Tree) -> list[str]:
    """The words that are not punctuation."""
    return [leaf.word for leaf in leaves(tree) if leaf.tag not in UNCOUNTED]


def spans(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Counts of phrases as (label, first word, word after the last); punctuation is not counted as words."""
    counts: Counter[tuple[str, int, int]] = Counter()

    def walk(node: Tree | Leaf, start: int) -> int:
        if isinstance(node, Leaf):
            return start + (node.tag not in UNCOUNTED)
        end = start
        for child in node.children:
            end = walk(child, end)
        label = bare(node.label)
        if end > start and label not in UNCOUNTED:
            counts[ALIKE.get(label, label), start, end] += 1
        return end

    walk(tree, 0)
    return counts
