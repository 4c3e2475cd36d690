"""The search as data: every continuation that a beam considered, its parent and its fate.

graph = Graph()
beam(step, state, limits, SearchOptions(beam=5), watch=graph.grow)
graph.sentences[0]          # nodes, parents before their children
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jumok.decoding.hypothesis import penalize
from jumok.text.symbols import END

Fate = Literal["living", "ended", "pruned"]
Reason = Literal[
    "crowded_out",  # other candidates of the step were likelier, and the beam was full
    "ended_too_low",  # it would have ended the sentence, which only candidates within the beam width may
    "no_heirs",  # it was continued, but none of its continuations was among the candidates of the next step
    "bounded",  # the search stopped: it could not have beaten the hypotheses that had ended, however it went on
]
ROOT = -1


class Node(NamedTuple):
    """One continuation: `parent` is the index of the node before it in the list, ROOT for the first token."""

    parent: int
    step: int
    token: int
    gain: float  # log-probability of the token
    log_probability: float  # of all tokens so far
    fate: Fate


class Verdict(NamedTuple):
    """What the beam made of a continuation, and why."""

    rank: int  # among the candidates of its step, from 1
    margin: float | None  # log-probability above that of the last candidate that was continued; None if none was
    score: float | None  # of a hypothesis that ended: what the search ranks by
    reason: Reason | None  # why nothing follows; None where something does, or the hypothesis has ended


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

    def explain(self, sentence: int, length_penalty: float) -> list[Verdict]:
        """Return what the beam made of every node of a sentence, in the order of the nodes."""
        nodes = self.sentences.get(sentence, [])
        parents = {node.parent for node in nodes}
        last = max((node.step for node in nodes), default=0)
        places: dict[int, int] = {}  # candidates of each step so far
        bars: dict[int, float] = {}  # log-probability of the last candidate that was continued at each step
        for node in nodes:
            if node.fate == "living":
                bars[node.step] = min(node.log_probability, bars.get(node.step, node.log_probability))
        verdicts = []
        for number, node in enumerate(nodes):
            rank = places[node.step] = places.get(node.step, 0) + 1
            bar = bars.get(node.step)
            score = penalize(node.log_probability, node.step + 1, length_penalty) if node.fate == "ended" else None
            margin = None if bar is None else node.log_probability - bar
            verdicts.append(Verdict(rank, margin, score, _find_reason(node, number in parents, last)))
        return verdicts

    def path(self, sentence: int, node: int) -> list[int]:
        """Return the tokens from the first to this node's."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.sentences[sentence][node].token)
            node = self.sentences[sentence][node].parent
        return tokens[::-1]


def _find_reason(node: Node, has_children: bool, last: int) -> Reason | None:
    """Return why a hypothesis was not continued; `last` is the last step of the search."""
    if node.fate == "ended" or has_children:
        return None
    if node.fate == "pruned":
        return "ended_too_low" if node.token == END else "crowded_out"
    return "bounded" if node.step == last else "no_heirs"
