"""What translations must and must not contain, as the kernels read it (c/rules.c); no torch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jumok.config.search import SearchOptions
from jumok.kernels.library import LONG, POINTER
from jumok.text.automata import Automaton, Spelling


class AutomatonTable(ctypes.Structure):
    """An automaton over the text of an output."""

    _fields_ = [
        *((name, LONG) for name in ("states", "width", "start")),
        *((name, POINTER) for name in ("symbols", "next", "flags")),
    ]


class SearchRules(ctypes.Structure):
    """What translations must and must not contain."""

    _fields_ = [
        ("min_length", LONG),
        ("no_repeat", LONG),
        *((name, POINTER) for name in ("prefix_begins", "prefixes")),
        *((name, POINTER) for name in ("phrase_begins", "phrase_offsets", "phrase_tokens", "phrase_states")),
        *((name, POINTER) for name in ("openings", "forbidding")),
        ("ending", LONG),
        *((name, POINTER) for name in ("automata", "unit_begins", "units")),
    ]


class SentenceRules(NamedTuple):
    """The rules of one sentence; `phrases` are tokens and the state of `Rules.ending` after them."""

    prefix: Sequence[int] = ()
    opening: Automaton | None = None  # of the text after the prefix
    forbidding: Automaton | None = None
    phrases: Sequence[tuple[Sequence[int], int]] = ()

    @property
    def required(self) -> int:
        """The number of tokens of all phrases."""
        return sum(len(tokens) for tokens, _ in self.phrases)


class Rules(NamedTuple):
    """The rules of every sentence of a search."""

    each: Sequence[SentenceRules]
    spelling: Spelling | None = None
    ending: Automaton | None = None  # of the text after a phrase


def pack(rules: Rules | None, order: Sequence[int], options: SearchOptions) -> tuple[SearchRules, list[Any]]:
    """Return the rules of options and sentences in the order of the search, and what must stay alive with them."""
    packed, alive = SearchRules(min_length=options.min_length, no_repeat=options.no_repeat, ending=-1), list[Any]()

    def store(numbers: Iterable[int]) -> int:
        alive.append(np.fromiter(numbers, np.int64))
        return int(alive[-1].ctypes.data)

    if rules is None:
        return packed, alive
    each = [rules.each[row] for row in order]
    automata: dict[Automaton, int] = {}

    def number(automaton: Automaton | None) -> int:
        return -1 if automaton is None else automata.setdefault(automaton, len(automata))

    if any(one.prefix for one in each):
        packed.prefix_begins = store(_count(len(one.prefix) for one in each))
        packed.prefixes = store(chain.from_iterable(one.prefix for one in each))
    if any(one.opening for one in each):
        packed.openings = store([number(one.opening) for one in each])
    if any(one.forbidding for one in each):
        packed.forbidding = store([number(one.forbidding) for one in each])
    phrases = [phrase for one in each for phrase in one.phrases]
    if phrases:
        packed.phrase_begins = store(_count(len(one.phrases) for one in each))
        packed.phrase_offsets = store(_count(len(tokens) for tokens, _ in phrases))
        packed.phrase_tokens = store(chain.from_iterable(tokens for tokens, _ in phrases))
        packed.phrase_states = store(state for _, state in phrases)
        packed.ending = number(rules.ending)
    tables = (AutomatonTable * len(automata))(*map(_describe, automata))
    alive += [tables, each, rules]
    if automata:
        assert rules.spelling is not None
        packed.automata = ctypes.addressof(tables)
        packed.unit_begins, packed.units = rules.spelling.begins.ctypes.data, rules.spelling.numbers.ctypes.data
    return packed, alive


def _count(sizes: Iterable[int]) -> list[int]:
    """Return where each part begins, and where the last one ends."""
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + size)
    return begins


def _describe(automaton: Automaton) -> AutomatonTable:
    arrays = (automaton.symbols, automaton.table, automaton.flags)
    return AutomatonTable(*automaton.table.shape, automaton.start, *(array.ctypes.data for array in arrays))
