"""Rules about the text of an output as automata, which read it one unit at a time; no torch.

A unit is a character, or a byte of a character that the vocabulary spells in bytes.  Both engines use the same tables:
torch through `Automaton.exclude`, the kernels directly (c/rules.c).  What the rules mean is in boundaries.py.

State 0 is dead (the text is not allowed), state 1 is free (every text is allowed from there on).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from jumok.text.boundaries import SPACE, list_endings
from jumok.text.endings import KOREAN, STACKED

DEAD, FREE = 0, 1
MAY_END_TOKEN, MAY_END_OUTPUT = 1, 2  # flags of a state: whether a token, and whether the output, may end in it
Key = Any  # a state before it has a number; hashable


class Spelling:
    """The text of every token as numbers of units; specials have no text."""

    def __init__(self, surfaces: Sequence[str]) -> None:
        """`surfaces` are those of `Vocabulary.surfaces`: bytes of characters are surrogate escapes."""
        self.surfaces = list(surfaces)
        self.units = sorted(set("".join(self.surfaces)))
        self.number = {unit: number for number, unit in enumerate(self.units)}
        self.begins = np.concatenate([[0], np.cumsum([len(text) for text in self.surfaces])]).astype(np.int64)
        self.numbers = np.array([self.number[unit] for text in self.surfaces for unit in text], np.int32)
        self.letters = np.array([unit.isalnum() for unit in self.units], bool)

    def __len__(self) -> int:
        return len(self.surfaces)

    def text(self, tokens: Iterable[int]) -> str:
        """Return tokens as text, in which bytes are surrogate escapes."""
        return "".join(self.surfaces[token] for token in tokens)


class Automaton:
    """A deterministic automaton over units."""

    def __init__(
        self, spelling: Spelling, symbols: np.ndarray, table: np.ndarray, flags: np.ndarray, starts: Sequence[int]
    ) -> None:
        """`symbols` (units,) are those of units, `table` (states, symbols) the next states, `flags` those of states."""
        self.spelling, self.starts = spelling, tuple(starts)
        self.symbols, self.table, self.flags = symbols, table, flags
        self.exclude = lru_cache(maxsize=256)(self._exclude)

    @property
    def start(self) -> int:
        return self.starts[0]

    def read(self, state: int, token: int) -> int:
        """Return the state after a token."""
        spelling = self.spelling
        for unit in spelling.numbers[spelling.begins[token] : spelling.begins[token + 1]].tolist():
            if state <= FREE:
                break
            state = int(self.table[state, self.symbols[unit]])
        return state

    def is_allowed(self, state: int) -> bool:
        """Return whether a token may end in this state."""
        return state != DEAD and bool(self.flags[state] & MAY_END_TOKEN)

    def follow(self, state: int, token: int) -> int:
        """Return the state after a token; after one that is not allowed, what came before it is forgotten.

        Such a token is part of a prefix, which comes before all other rules.
        """
        after = self.read(state, token)
        if self.is_allowed(after):
            return after
        last = self.spelling.surfaces[token][-1:]
        if last:
            after = int(self.table[self.start, self.symbols[self.spelling.number[last]]])
        return after if last and self.is_allowed(after) else self.start

    def _exclude(self, state: int, end: int) -> np.ndarray:
        """Return the tokens (V,) that are not allowed in a state, END among them."""
        spelling = self.spelling
        lengths = np.diff(spelling.begins)
        states = np.full(len(spelling), state, np.int32)
        for position in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero((lengths > position) & (states > FREE))
            units = spelling.numbers[spelling.begins[rows] + position]
            states[rows] = self.table[states[rows], self.symbols[units]]
        excluded: np.ndarray = (states == DEAD) | ((self.flags[states] & MAY_END_TOKEN) == 0)
        excluded[end] = not self.flags[state] & MAY_END_OUTPUT
        return excluded


class Graph:
    """Texts as paths through nodes; several edges of a node may have the same unit."""

    def __init__(self, whole: Container[str] = ()) -> None:
        """Characters in `whole` are not spelt in bytes."""
        self.whole = whole
        self.edges: list[dict[str, set[int]]] = []
        self.complete: list[bool] = []  # whether a text ends at a node
        self.letter: list[bool] = []  # whether that text ends with a letter or digit
        self.children: dict[tuple[int, str], int] = {}

    def copy(self) -> Graph:
        """Return a graph with the same nodes, to which others can be added."""
        other = Graph(self.whole)
        other.edges, other.complete, other.letter = list(self.edges), list(self.complete), list(self.letter)
        other.children = dict(self.children)
        return other

    def add(self) -> int:
        """Add a node."""
        self.edges.append({})
        self.complete.append(False)
        self.letter.append(True)
        return len(self.edges) - 1

    def write(self, node: int, text: str) -> int:
        """Add a path with a text that begins at a node; return its last node.  Common beginnings are shared."""
        for character in text:
            after = self.children.get((node, character))
            if after is None:
                after = self.children[node, character] = self.add()
                for spelt in [character] if character in self.whole else spell(character):
                    at = node
                    for unit in spelt[:-1]:
                        self.edges[at].setdefault(unit, set()).add(middle := self.add())
                        at = middle
                    self.edges[at].setdefault(spelt[-1], set()).add(after)
            node = after
        return node

    def write_all(self, texts: Iterable[str], repeats: int = 1) -> int:
        """Add texts, each followed by up to `repeats` - 1 others of them; return the node where they begin."""
        follow: int | None = None
        for _ in range(repeats):
            root = self.add()
            ends = [self.write(root, text) for text in texts]
            for end in ends:
                self.complete[end] = True
                if follow is not None:
                    self.join(end, follow)
            follow = root
        assert follow is not None
        return follow

    def join(self, node: int, other: int) -> None:
        """Let everything that begins at another node also begin at this one."""
        for unit, nodes in self.edges[other].items():
            self.edges[node].setdefault(unit, set()).update(nodes)

    def after(self, nodes: Iterable[int], unit: str) -> frozenset[int]:
        """Return the nodes that a unit leads to."""
        return frozenset(after for node in nodes for after in self.edges[node].get(unit, ()))

    def units(self, nodes: Iterable[int]) -> set[str]:
        """Return the units that lead anywhere."""
        return {unit for node in nodes for unit in self.edges[node]}


def spell(character: str) -> list[str]:
    """Return the spellings of a character: itself, and its bytes."""
    spelt = SPACE if character == " " else character
    if spelt.isascii() or "\udc80" <= character <= "\udcff":
        return [character]
    return [character, "".join(chr(0xDC00 + byte) for byte in spelt.encode("utf-8", "replace"))]


class Template(NamedTuple):
    """States that many automata have: their numbers, and where they lead unless `again` says otherwise."""

    numbers: dict[Key, int]
    columns: dict[str, int]
    table: np.ndarray
    flags: list[int]
    again: Callable[[Key], set[str]] = lambda key: set()  # units for which a state of it is to be computed again


EMPTY = Template(
    {"dead": DEAD, "free": FREE}, {}, np.array([[DEAD, DEAD], [FREE, FREE]], np.int32),
    [0, MAY_END_TOKEN | MAY_END_OUTPUT],
)  # fmt: skip


class Compiler:
    """Makes automata from a step function.

    `step` gets a state, a unit and whether it is a letter or digit; the unit is "" for all that `watch` does not name.
    It returns the next state, None where that is dead.  The state "free" is the free one.
    """

    def __init__(
        self,
        spelling: Spelling,
        step: Callable[[Key, str, bool], Key | None],
        watch: Callable[[Key], set[str]],
        mark: Callable[[Key], int],
        template: Template = EMPTY,
    ) -> None:
        self.spelling, self.step, self.watch, self.mark, self.template = spelling, step, watch, mark, template
        self.numbers = dict(template.numbers)
        self.waiting: list[Key] = []
        self.special: list[tuple[int, str, int]] = []
        self.flags = dict(enumerate(template.flags))

    def find(self, key: Key | None) -> int:
        """Return the number of a state."""
        key = "dead" if key is None else key
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.waiting.append(key)
        return self.numbers[key]

    def grow(self, starts: Sequence[Key]) -> Template:
        """Compute all states that can be reached, and return them."""
        known = self.spelling.number.keys()
        for start in starts:
            self.find(start)
        for key in self.template.numbers:
            for unit in self.template.again(key) & known:
                self.special.append((self.numbers[key], unit, self.find(self.step(key, unit, unit.isalnum()))))
        usual: dict[int, tuple[int, int]] = {}  # of new states, by whether a unit is a letter
        while self.waiting:
            key = self.waiting.pop()
            state = self.numbers[key]
            self.flags[state] = self.mark(key)
            usual[state] = self.find(self.step(key, "", False)), self.find(self.step(key, "", True))
            for unit in self.watch(key) & known:
                self.special.append((state, unit, self.find(self.step(key, unit, unit.isalnum()))))
        watched = sorted({*self.template.columns, *(unit for _, unit, _ in self.special)})
        columns = {unit: 2 + column for column, unit in enumerate(watched)}
        classes = [0, 1, *(int(unit.isalnum()) for unit in watched)]
        before = [0, 1, *(self.template.columns.get(unit, int(unit.isalnum())) for unit in watched)]
        new = np.array([usual[state] for state in sorted(usual)], np.int32).reshape(-1, 2)[:, classes]
        table = np.concatenate([self.template.table[:, before], new])
        for state, unit, after in self.special:
            table[state, columns[unit]] = after
        return Template(self.numbers, columns, table, [self.flags[state] for state in range(len(table))])

    def compile(self, starts: Sequence[Key]) -> Automaton:
        """Return the automaton with these starts."""
        numbers, columns, table, flags, _ = self.grow(starts)
        symbols = self.spelling.letters.astype(np.int32)  # 0 and 1: other units, by whether they are letters
        symbols[[self.spelling.number[unit] for unit in columns]] = list(columns.values())
        marks, first = np.array(flags, np.uint8), [numbers[start] for start in starts]
        return Automaton(self.spelling, symbols, np.ascontiguousarray(table), marks, first)


class WordGraph(NamedTuple):
    """Words whose last characters lead to particles; where they begin, and where the particles do."""

    graph: Graph
    root: int
    particles: int

    def step(self, key: Key, unit: str, letter: bool) -> Key | None:
        """Return the nodes after a unit and whether it was a letter; None where a word was complete and ends."""
        (nodes, inside), graph = key, self.graph
        if any(graph.complete[node] and not (graph.letter[node] and letter) for node in nodes):
            return None
        return graph.after(nodes if inside and letter else (*nodes, self.root), unit), letter

    def watch(self, key: Key) -> set[str]:
        return self.graph.units((*key[0], self.root))

    def mark(self, key: Key) -> int:
        ends = any(self.graph.complete[node] for node in key[0])
        return MAY_END_OUTPUT if ends else MAY_END_TOKEN | MAY_END_OUTPUT


class Forbidder:
    """Makes automata of forbidden words, which share the states of particles."""

    def __init__(self, spelling: Spelling) -> None:
        graph = Graph(spelling.number.keys())  # a model does not spell in bytes what it has a subword for
        self.spelling, self.base = spelling, WordGraph(graph, graph.add(), graph.write_all(KOREAN, STACKED))
        begun = (frozenset([self.base.particles]), True)
        compiler = Compiler(spelling, self.base.step, self.base.watch, self.base.mark)
        self.template = compiler.grow([(frozenset(), False), (frozenset(), True), begun])

    def forbid(self, words: Sequence[str]) -> Automaton:
        """Return the automaton that is dead where a text contains one of the words (`boundaries.contains_word`).

        A token may not end where a word is complete, even if the next token could make it another word: after "dog"
        the search would be forced to go on with letters.
        """
        graph = self.base.graph.copy()
        made = WordGraph(graph, graph.add(), self.base.particles)
        for word in words:
            end = graph.write(made.root, word)
            graph.complete[end], graph.letter[end] = True, word[-1].isalnum()
        for word in words:
            if word[-1].isalnum():
                graph.join(graph.write(made.root, word), made.particles)
        first = graph.units([made.root])
        other = {unit for unit in first if not unit.isalnum()}

        def again(key: Key) -> set[str]:
            """After a particle a letter begins no word, so that only other first characters lead elsewhere."""
            if key in ("dead", "free"):
                return set()
            return first if not key[1] or not key[0] else other

        compiler = Compiler(self.spelling, made.step, made.watch, made.mark, self.template._replace(again=again))
        return compiler.compile([(frozenset(), False)])


def open_with(spelling: Spelling, text: str) -> Automaton:
    """Return the automaton of outputs that begin with a text, in any division into tokens."""
    graph = Graph()
    root = graph.add()
    end = graph.write(root, text)

    def step(key: Key, unit: str, letter: bool) -> Key | None:
        for node in graph.after([key], unit):
            return "free" if node == end else node
        return None

    return Compiler(spelling, step, lambda key: graph.units([key]), lambda key: MAY_END_TOKEN).compile([root])


def end_phrases(spelling: Spelling) -> Automaton:
    """Return the automaton of what may follow a required phrase (`boundaries.contains_phrase`).

    It starts in starts[0] after a letter that takes inflectional endings and in starts[1] after another letter or
    digit; after any other character every text may follow.
    """
    graph = Graph(spelling.number.keys())
    particles = graph.write_all(KOREAN, STACKED)
    latin = graph.write_all(list_endings("a"))
    graph.join(latin, particles)
    begun = {particles, latin}

    def is_complete(key: Key) -> bool:
        return any(graph.complete[node] or node in begun for node in key)

    def step(key: Key, unit: str, letter: bool) -> Key | None:
        if not letter:
            return "free" if is_complete(key) else None
        return graph.after(key, unit) or None

    def mark(key: Key) -> int:
        return MAY_END_TOKEN | (MAY_END_OUTPUT if is_complete(key) else 0)

    return Compiler(spelling, step, graph.units, mark).compile([frozenset([latin]), frozenset([particles])])


class TextRules:
    """The automata of a vocabulary, each made once."""

    def __init__(self, surfaces: Callable[[], Sequence[str]]) -> None:
        self._surfaces = surfaces
        self.open_with = lru_cache(maxsize=256)(lambda text: open_with(self.spelling, text))
        self.forbid = lru_cache(maxsize=256)(lambda words: self._forbidder.forbid(words))

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self._surfaces())

    @cached_property
    def _forbidder(self) -> Forbidder:
        return Forbidder(self.spelling)

    @cached_property
    def ending(self) -> Automaton:
        return end_phrases(self.spelling)

    def begin_ending(self, phrase: Sequence[int]) -> int:
        """Return the state of `ending` after a phrase."""
        last = self.spelling.text(phrase)[-1:]
        return self.ending.starts[0 if list_endings(last) else 1] if last.isalnum() else FREE
