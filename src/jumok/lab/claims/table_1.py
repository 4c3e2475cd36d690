"""Table 1 measured: operations, dependent steps and the longest way of five kinds of layers (section 4).

Every layer takes (B, T, D) to (B, T, D), in plain torch, so that what is counted is what runs:

    operations   multiply-adds of the matrix products between positions, by torch's own counter
    chain        the longest chain of matrix products that wait for one another, in the graph that autograd keeps
    rounds       layers on top of each other until the last output feels the first input; steps of a recurrence
    seconds      one layer, forward

Shapes   B batch · H heads · T positions · D width · K width of a head · R positions in a window
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from jumok.kernels import library
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.wording import Text, Words
from jumok.models import bytenet, convs2s, rnn
from jumok.nn.attention import EVERYTHING, SelfAttention, merge_heads
from jumok.nn.variants import SCORES
from jumok.reports.attention import curves_svg

WORDS = Words.read("table-1")
HEADS, KERNEL, NEAR = 4, 5, 17  # heads of an attention, taps of a convolution, positions of a restricted attention
LANES = ("attention", "recurrent", "convolution", "dilated", "restricted")
FORMULAS = {  # the paper's: operations, dependent steps, longest way; and the exponents in n, d and the window
    "attention": ("n²·d", "1", "1", (2, 1, None)),
    "recurrent": ("n·d²", "n", "n", (1, 2, None)),
    "convolution": ("k·n·d²", "1", "n/k", (1, 2, 1)),
    "dilated": ("k·n·d²", "1", "log_k n", (1, 2, 1)),
    "restricted": ("r·n·d", "1", "n/r", (1, 1, 1)),
}
PRODUCTS = ("AddmmBackward0", "MmBackward0", "BmmBackward0")


# ------------------------------------------------------------------------------------------------------ layers


class Layer(nn.Module):
    """One layer of a kind: made of a width, a window (0 where it has none) and a depth in the stack."""

    mixes = "addmm"  # the products that bring positions together

    def begin(self, x: Tensor) -> Tensor:
        """What the first round is given."""
        return x

    def round(self, x: Tensor, y: Tensor) -> Tensor:
        """What one more round makes of (1, T, D)."""
        deeper: Tensor = self(y)
        return deeper


class Full(Layer):
    """Self-attention as equation 1 writes it: every position looks at every other."""

    mixes = "bmm"  # its projections bring nothing together; the table leaves them out

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = SelfAttention(d, HEADS, d // HEADS, d // HEADS, score=SCORES["scaled-dot"], bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, EVERYTHING)


class Restricted(Full):
    """The same, but a position has only the `window` around it, and no others are ever multiplied."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__(d, window)
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        half, inner = self.window // 2, self.inner
        q, *others = inner.split(x)
        keys, values = (F.pad(one, (0, 0, half, half)).unfold(2, self.window, 1) for one in others)  # (B, H, T, K, R)
        places = torch.arange(x.shape[1])[:, None] + torch.arange(-half, half + 1)  # (T, R)
        there = ((places >= 0) & (places < x.shape[1]))[:, None]  # (T, 1, R)
        scores = (q * (q.shape[-1] ** -0.5)).unsqueeze(-2) @ keys  # (B, H, T, 1, R)
        weights = scores.masked_fill(~there, -torch.inf).softmax(dim=-1)  # (B, H, T, 1, R)
        mixed = weights @ values.transpose(-2, -1)  # (B, H, T, 1, K)
        return inner.output(merge_heads(mixed.squeeze(-2)))


class Recurrent(Layer):
    """Gated recurrent units; a round takes every state one position further."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = rnn.GRU(d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner.whole(x)[0]

    def begin(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def round(self, x: Tensor, y: Tensor) -> Tensor:
        before = F.pad(y[:, :-1], (0, 0, 1, 0))  # the state that each position is handed
        return self.inner.whole(x.transpose(0, 1), before.contiguous())[0].transpose(0, 1)


class Windows(Layer):
    """The gated convolution of ConvS2S's decoder: `window` positions, the last of them its own."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = convs2s.GatedConvolution(convs2s.ConvS2SConfig(d_model=d, kernel=window, dropout=0.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, self.inner.gated.matrix(), before=self.inner.kernel - 1)


class Dilated(Layer):
    """The convolution of ByteNet's decoder, whose taps stand `window` times further apart in each layer."""

    def __init__(self, d: int, window: int, depth: int = 0) -> None:
        super().__init__()
        self.inner = bytenet.DilatedConvolution(d, bytenet.back(window, window**depth))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


KINDS: dict[str, tuple[type[Layer], int]] = {
    "attention": (Full, 0),
    "recurrent": (Recurrent, 0),
    "convolution": (Windows, KERNEL),
    "dilated": (Dilated, KERNEL),
    "restricted": (Restricted, NEAR),
}


# ---------------------------------------------------------------------------------------------------- counting


def operations(layer: Layer, x: Tensor) -> tuple[int, int]:
    """Multiply-adds of the products between positions, and of all products."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(x)
    counts = {str(name): flops // 2 for name, flops in counter.get_flop_counts()["Global"].items()}
    return counts[f"aten.{layer.mixes}"], sum(counts.values())


def chain(output: Tensor) -> int:
    """The longest chain of matrix products that wait for one another on the way to an output."""
    longest: dict[Any, int] = {}
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [one for one, _ in node.next_functions if one is not None]
        if rest := [one for one in before if one not in longest]:
            waiting += rest
            continue
        waiting.pop()
        longest[node] = max((longest[one] for one in before), default=0) + (type(node).__name__ in PRODUCTS)
    return longest[output.grad_fn]


def rounds(stack: Callable[[int], Layer], n: int, d: int) -> int:
    """How many rounds until the last output feels the first input; n + 1 if n are not enough."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(1, n, d, dtype=torch.float64, generator=generator).requires_grad_()
    direction = torch.randn(d, dtype=torch.float64, generator=generator)

    def feels(count: int) -> bool:
        y = stack(0).begin(x)
        for depth in range(count):
            y = stack(depth).round(x, y)
        [gradient] = torch.autograd.grad(y[0, -1] @ direction, x)
        return bool(gradient[0, 0].any())

    return bisect_left(range(1, n + 1), True, key=feels) + 1


def seconds(layer: Layer, x: Tensor, repeats: int) -> float:
    """The best of several."""
    taken = []
    with torch.no_grad():
        layer(x)
        for _ in range(repeats):
            began = time.perf_counter()
            layer(x)
            taken.append(time.perf_counter() - began)
    return min(taken)


def exponent(points: Sequence[Sequence[float]]) -> float:
    """The slope of a line through points on logarithmic scales."""
    a, b = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(a, b, 1)[0])


def crossing(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float | None:
    """Where the first begins to be above the second and stays there, between lengths by a straight line on logs."""
    over = [math.log(b / c) for (_, b), (_, c) in zip(first, second, strict=True)]
    if over[-1] < 0:
        return None
    last = max((at for at, value in enumerate(over) if value < 0), default=-1)
    if last < 0:
        return float(first[0][0])
    share = -over[last] / (over[last + 1] - over[last])
    return float(first[last][0] * (first[last + 1][0] / first[last][0]) ** share)


# ------------------------------------------------------------------------------------------------------- claim


def counted(kind: type[Layer], window: int, lengths: Sequence[int], d: int) -> dict[str, Any]:
    """Operations and chains of one kind as the length, the width and the window grow."""
    by_n, whole, chains = [], [], []
    for n in lengths:
        layer, x = kind(d, window), torch.randn(1, n, d)
        between, everything = operations(layer, x)
        by_n.append([n, between])
        whole.append([n, everything])
        chains.append([n, chain(layer(x))])
    by_d = [[one, operations(kind(one, window), torch.randn(1, 32, one))[0]] for one in (16, 32, 64, 128)]
    sizes = (5, 9, 17, 33) if window else ()
    by_window = [[one, operations(kind(16, one), torch.randn(1, 64, 16))[0]] for one in sizes]
    return {
        "operations": by_n,
        "whole": whole,
        "chain": chains,
        "exponents": [exponent(by_n), exponent(by_d), exponent(by_window) if window else None],
        "chain_exponent": exponent(chains),
    }


def ways(kind: type[Layer], window: int, lengths: Sequence[int]) -> list[list[int]]:
    """Rounds from end to end of one kind, by length."""
    found = []
    for n in lengths:
        made: dict[int, Layer] = {}

        def stack(depth: int, made: dict[int, Layer] = made) -> Layer:
            depth = depth if kind is Dilated else 0  # others are the same at every depth
            if depth not in made:
                made[depth] = kind(16, window, depth).double()
            return made[depth]

        found.append([n, rounds(stack, n, 16)])
    return found


def measure(lab: Lab, *, window: int = 0, width: int = 64, longest: int = 2048, batch: int = 1) -> dict[str, Any]:
    """`window`: what self-attention is allowed to see, 0 for everything; `width`: d; `batch`: sentences at a time."""
    torch.manual_seed(lab.seed)
    lengths = [2**power for power in range(3, 1 + int(math.log2(longest)))]
    kinds = KINDS | ({"attention": (Restricted, window)} if window else {})
    found: dict[str, Any] = {}
    with library.without():
        for name, (kind, size) in kinds.items():
            lab.stop.check()
            lab.say(f"table 1: {name}")
            found[name] = counted(kind, size, lengths, width)
            found[name]["rounds"] = ways(kind, size, [n for n in lengths if n <= 256])
        for name, (kind, size) in kinds.items():
            lab.stop.check()
            layer = kind(width, size)
            found[name]["seconds"] = [[n, seconds(layer, torch.randn(batch, n, width), 7)] for n in lengths]
    first, second = found["attention"], found["recurrent"]
    crossings = {key: crossing(first[key], second[key]) for key in ("whole", "seconds")}
    return {"lanes": found, "d": width, "k": KERNEL, "r": NEAR, "batch": batch, "crossings": crossings}


def judge(numbers: Numbers) -> list[Check]:
    lanes, d, crossings = numbers["lanes"], numbers["d"], numbers["crossings"]
    grows = {name: lanes[name]["exponents"] for name in LANES}
    as_told = all(
        abs(found - wanted) < 0.05
        for name in LANES
        for found, wanted in zip(grows[name], FORMULAS[name][3], strict=True)
        if found is not None and wanted is not None
    )
    chains = {name: [steps for _, steps in lanes[name]["chain"]] for name in LANES}
    constant = all(len(set(chains[name])) == 1 for name in LANES if name != "recurrent")
    straight = abs(exponent(lanes["recurrent"]["chain"]) - 1) < 0.1
    short, long = lanes["recurrent"]["chain"][0][0], lanes["recurrent"]["chain"][-1][0]
    faster = all(
        a < b
        for (n, a), (_, b) in zip(lanes["attention"]["seconds"], lanes["recurrent"]["seconds"], strict=True)
        if n <= d
    )
    exponents = {f"{name}_{letter}": value for name in LANES for letter, value in _named(grows[name])}
    one = {name: chains[name][-1] for name in ("attention", "convolution")}
    steps = {"first": chains["recurrent"][0], "last": chains["recurrent"][-1]}
    far = {"n": lanes["attention"]["rounds"][-1][0]} | {name: lanes[name]["rounds"][-1][1] for name in LANES}
    return [
        Check(WORDS("checks.operations", **exponents), as_told),
        Check(WORDS("checks.chain", short=short, long=long, **one, **steps), constant and straight),
        Check(WORDS("checks.rounds", **far), _ways_hold(numbers)),
        _crossed("whole", numbers, crossings["whole"] is not None and abs(crossings["whole"] / d - 1) < 0.1),
        _crossed("seconds", numbers, faster),
    ]


def _named(exponents: Sequence[float | None]) -> list[tuple[str, float]]:
    return [(name, value) for name, value in zip(("n", "d", "w"), exponents, strict=True) if value is not None]


def _ways_hold(numbers: Numbers) -> bool:
    """Whether ways grow as the table says."""
    found = {name: numbers["lanes"][name]["rounds"] for name in LANES}
    return (
        all(count == 1 for _, count in found["attention"])
        and all(count == n for n, count in found["recurrent"])
        and all(abs(exponent(found[name]) - 1) < 0.1 for name in ("convolution", "restricted"))
        and all(1 < count <= math.log(n, numbers["k"]) + 1 for n, count in found["dilated"])
    )


def _crossed(key: str, numbers: Numbers, holds: bool) -> Check:
    """Where self-attention begins to cost more than a recurrent layer, if it does."""
    lanes, where = numbers["lanes"], numbers["crossings"][key]
    first, second = (dict(map(tuple, lanes[name][key])) for name in ("attention", "recurrent"))
    at = max(n for n in first if n <= max(numbers["d"], min(first)))
    values = {"d": numbers["d"], "n": at, "ratio": second[at] / first[at], "longest": max(first)}
    if where is None:
        return Check(WORDS(f"checks.{key}_never", **values), holds)
    return Check(WORDS(f"checks.{key}", where=where, **values), holds)


def draw(numbers: Numbers, language: str) -> list[Picture]:
    n = WORDS("picture.n").of(language)
    names = {name: WORDS(f"picture.{name}").of(language) for name in LANES}

    def curves(key: str, factor: float = 1.0, more: Mapping[str, Any] | None = None) -> str:
        series = {names[name]: [(a, factor * b) for a, b in numbers["lanes"][name][key]] for name in LANES}
        return curves_svg(series | dict(more or {}), x=n, y=WORDS(f"picture.{key}").of(language), log=True)

    whole = {WORDS("picture.projected").of(language): [tuple(one) for one in numbers["lanes"]["attention"]["whole"]]}
    sizes = {key: numbers[key] for key in ("d", "k", "r")}
    return [
        Picture("table-1-operations", curves("operations", more=whole), WORDS("picture.operations_seen", **sizes)),
        Picture("table-1-chain", curves("chain"), WORDS("picture.chain_seen")),
        Picture("table-1-rounds", curves("rounds"), WORDS("picture.rounds_seen")),
        Picture("table-1-seconds", curves("seconds", 1000), WORDS("picture.seconds_seen", batch=numbers["batch"])),
    ]


def tabulate(numbers: Numbers) -> Table:
    lanes = numbers["lanes"]
    ends = {key: (lanes["attention"][key][0][0], lanes["attention"][key][-1][0]) for key in ("chain", "rounds")}
    last = lanes["attention"]["seconds"][-1][0]
    titles = [
        WORDS("table.layer"), WORDS("table.formula"), WORDS("table.operations"),
        WORDS("table.chain", short=ends["chain"][0], long=ends["chain"][1]),
        WORDS("table.rounds", n=ends["rounds"][1]), WORDS("table.seconds", n=last),
    ]  # fmt: skip
    rows: list[list[str | Text]] = []
    for name in LANES:
        one, letters = lanes[name], ("n", "d", "k" if name in ("convolution", "dilated") else "r")
        grows = " ".join(f"{a}^{b:.2f}" for a, b in zip(letters, one["exponents"], strict=True) if b is not None)
        chains = f"{one['chain'][0][1]} → {one['chain'][-1][1]}"
        formula = " | ".join(FORMULAS[name][:3])
        cells = [formula, grows, chains, str(one["rounds"][-1][1]), f"{1000 * one['seconds'][-1][1]:.2f}"]
        rows.append([WORDS(f"picture.{name}"), *cells])
    return Table(titles, rows)


CLAIM = Claim(name="table-1", words=WORDS, measure=measure, judge=judge, draw=draw, tabulate=tabulate)
