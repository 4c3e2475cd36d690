"""Word order by hand: what self-attention returns when three words change places, with and without positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from jumok.lab.examples.example import Example, Numbers, Part, Say, seeded
from jumok.nn.attention import EVERYTHING, SelfAttention
from jumok.nn.positions import sinusoid
from jumok.nn.variants import SCORES

WIDTH = 16
ENGLISH = (("Minsu", "likes", "Jisu"), ("Jisu", "likes", "Minsu"))
MOVED = (("민수가", "지수를", "좋아해"), ("지수를", "민수가", "좋아해"))  # Korean in another order: the same meaning
PARTICLES = (("민수가", "지수를", "좋아해"), ("민수를", "지수가", "좋아해"))  # the particles exchanged: another meaning


def compute() -> dict[str, Any]:
    words = sorted({word for pair in (ENGLISH, MOVED, PARTICLES) for one in pair for word in one})
    with seeded(1), torch.no_grad():
        table = dict(zip(words, torch.randn(len(words), WIDTH, dtype=torch.float64), strict=True))
        module = SelfAttention(WIDTH, 1, WIDTH, WIDTH, score=SCORES["scaled-dot"], bias=False).double()

        def read(sentence: tuple[str, ...], positions: bool) -> Tensor:
            x = torch.stack([table[word] for word in sentence])[None]  # (1, T, D)
            output: Tensor = module(x + sinusoid(0, len(sentence), WIDTH).double() * positions, EVERYTHING)[0]
            return output

        def move(pair: tuple[tuple[str, ...], tuple[str, ...]], positions: bool) -> float:
            """By how much the vector of the verb changes between two sentences, relative to its length."""
            verb = next(word for word in pair[0] if word in ("likes", "좋아해"))
            one, other = (read(sentence, positions)[sentence.index(verb)] for sentence in pair)
            return float((one - other).norm() / one.norm())

        pairs = {"english": ENGLISH, "moved": MOVED, "particles": PARTICLES}
        changes = {key: {"without": move(pair, False), "with": move(pair, True)} for key, pair in pairs.items()}
    return {"d_model": WIDTH, "pairs": {key: [" ".join(one) for one in pair] for key, pair in pairs.items()}, **changes}


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("pair"), say("without"), say("with")]]
    for key, (one, other) in numbers["pairs"].items():
        rows.append([f"{one} → {other}", f"{numbers[key]['without']:.3f}", f"{numbers[key]['with']:.3f}"])
    return [Part(say("table", d_model=numbers["d_model"]), rows), Part(say("bag"))]


EXAMPLE = Example(name="shuffle", compute=compute, show=show)
