"""The search as data: every continuation that a beam considered, its parent and its fate.

graph = Graph()
beam(step, state, limits, SearchOptions(beam=5), watch=graph.grow)
graph.sentences[0]          # nodes, parents before their children
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Fate = Literal["living", "ended", "pruned"]
ROOT = -1


class Node(NamedTuple):
    """One continuation: `parent` is the index of the node before it in the list, ROOT for the first token."""

    parent: int
    step: int
    token: int
    gain: float  # log-probability of the token
    log_probability: float  # of all tokens so far
    fate: Fate


class Expansion(NamedTuple):
    """What a beam did with one sentence at one step: candidates best first, and which of them became rows 0, 1, …"""

    sentence: int
    step: int
    origin: list[int]  # the row that each candidate continues
    tokens: list[int]
    gains: list[float]
    totals: list[float]
    ended: list[bool]
    continued: list[int]  # the candidates that the beam continues, in the order of their rows


@dataclass
class Graph:
    """All nodes of every sentence."""

    sentences: dict[int, list[Node]] = field(default_factory=dict)
    rows: dict[int, list[int]] = field(default_factory=dict)  # the node of each row

    def grow(self, now: Expansion) -> None:
        """Add the nodes of one step of a sentence."""
        nodes = self.sentences.setdefault(now.sentence, [])
        rows = self.rows.get(now.sentence) or [ROOT] * (1 + max(now.origin, default=0))
        first = len(nodes)
        for index, (origin, token, gain, total) in enumerate(
            zip(now.origin, now.tokens, now.gains, now.totals, strict=True)
        ):
            fate: Fate = "ended" if now.ended[index] else "living" if index in now.continued else "pruned"
            nodes.append(Node(rows[origin], now.step, token, gain, total, fate))
        self.rows[now.sentence] = [first + index for index in now.continued]

    def path(self, sentence: int, node: int) -> list[int]:
        """Return the tokens from the first to this node's."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.sentences[sentence][node].token)
            node = self.sentences[sentence][node].parent
        return tokens[::-1]
