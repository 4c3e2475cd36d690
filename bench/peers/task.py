"""The work of every peer: sizes, and the text in subwords, as `prepare` wrote them into a folder.

    train.source, train.target   the pairs jumok trains on, subwords between spaces
    vocabulary.txt               every symbol in the order of its id, specials first
    task.json                    sizes of the model, dropout, smoothing, tokens per update

A peer is started as `python -m bench.peers.run_NAME FOLDER RESULT WARMUP UPDATES`.
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAD, UNKNOWN, START, END = 0, 1, 2, 3
SPECIALS = 8

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Task:
    """Sizes, the folder of the text, and how long to measure."""

    folder: Path
    result: Path
    warmup: int
    updates: int
    encoder_layers: int
    decoder_layers: int
    d_model: int
    d_ff: int
    heads: int
    dropout: float
    label_smoothing: float
    beta1: float
    beta2: float
    epsilon: float
    tokens: int
    symbols: int

    @classmethod
    def from_arguments(cls, arguments: list[str] | None = None) -> "Task":
        folder, result, warmup, updates = sys.argv[1:5] if arguments is None else arguments
        sizes: dict[str, Any] = json.loads((Path(folder) / "task.json").read_text())
        return cls(Path(folder), Path(result), int(warmup), int(updates), **sizes)

    def pairs(self) -> list[Pair]:
        """The training text as ids."""
        symbols = (self.folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        ids = {symbol: i for i, symbol in enumerate(symbols)}
        sides = []
        for name in ("train.source", "train.target"):
            lines = (self.folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
            sides.append([[ids[piece] for piece in line.split(" ")] for line in lines])
        return list(zip(*sides, strict=True))

    def batches(self, pairs: list[Pair], seed: int = 1) -> Iterator[list[Pair]]:
        """Endless batches of similar lengths, up to the tokens of an update, in random order; divided as jumok does."""
        draw = random.Random(seed)
        order = sorted(pairs, key=lambda pair: (len(pair[1]), (-1) ** len(pair[1]) * len(pair[0])))
        batches: list[list[Pair]] = [[]]
        longest = 0
        for pair in order:
            longest = max(longest, 1 + max(map(len, pair)))
            if batches[-1] and (len(batches[-1]) + 1) * longest > self.tokens:
                batches.append([])
                longest = 1 + max(map(len, pair))
            batches[-1].append(pair)
        while True:
            draw.shuffle(batches)
            yield from batches


def pad(sentences: list[list[int]]) -> list[list[int]]:
    """Sentences padded to the longest."""
    longest = max(map(len, sentences))
    return [sentence + [PAD] * (longest - len(sentence)) for sentence in sentences]
