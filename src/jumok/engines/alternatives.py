"""Translations that continue a prefix in different ways, with any engine that takes prefixes; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from jumok.config.search import Ids, SearchOptions, TokenConstraints
from jumok.decoding.hypothesis import Hypothesis
from jumok.text.automata import Spelling
from jumok.text.vocabulary import END


class Decode(Protocol):
    """The search of an engine; `limits` bounds the outputs."""

    def __call__(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints],
        limits: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]: ...


def find_alternatives(
    decode: Decode,
    spelling: Spelling,
    source: Ids,
    beginnings: Sequence[TokenConstraints],
    count: int,
    options: SearchOptions,
) -> list[Hypothesis]:
    """Return the best translations after each of the `count` likeliest ways to go on, best first.

    A way to go on is one more token after a beginning, which must go beyond the text that the beginning is open to.
    `beginnings` are different divisions of the same text into tokens.
    """
    ways: dict[tuple[int, ...], float] = {}
    for begun in beginnings:
        width = count + len(begun.opening)  # at most len(opening) tokens end inside it
        wide = SearchOptions(
            beam=width, n_best=width, length_penalty=0.0, min_length=options.min_length, no_repeat=options.no_repeat
        )
        [several] = decode([source], wide, constraints=[begun], limits=[len(begun.prefix) + 1])
        for hypothesis in several:
            if hypothesis.ids[-1] == END or len(spelling.surfaces[hypothesis.ids[-1]]) > len(begun.opening):
                ways[hypothesis.ids] = hypothesis.log_probability
    likeliest = sorted(ways, key=lambda ids: -ways[ids])[:count]
    each = [TokenConstraints(prefix=ids) for ids in likeliest if ids[-1] != END]
    if not each:
        return []
    hypotheses = decode([source] * len(each), replace(options, n_best=1), constraints=each)
    ranked = sorted((several[0] for several in hypotheses if several), key=lambda h: -h.score)
    texts = {spelling.text(one.body).strip(): one for one in reversed(ranked)}  # the best of equal ones
    return [one for one in ranked if texts[spelling.text(one.body).strip()] is one]
