"""Table 1 measured: operations, sequential steps and longest paths of five kinds of layers (section 4).

Every layer takes (B, T, D) to (B, T, D), in plain torch, so that what is counted is what runs:

    operations   multiply-adds of the matrix products between positions, by torch's own counter
    chain        the longest chain of dependent matrix products in the graph of autograd
    rounds       layers needed until the last output depends on the first input; steps of a recurrence
    seconds      the forward pass of one layer

Shapes   B batch · H heads · T positions · D width · K width of a head · R positions in a window
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from jumok import messages
from jumok.kernels import library
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.layers import KERNEL, KINDS, NEAR, Dilated, Layer, Restricted
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("table-1"), Limits.read("table-1")
LANES = ("attention", "recurrent", "convolution", "dilated", "restricted")
FORMULAS = {  # the paper's operations, sequential steps and longest path; exponents of n, d, window
    "attention": ("n²·d", "1", "1", (2, 1, None)),
    "recurrent": ("n·d²", "n", "n", (1, 2, None)),
    "convolution": ("k·n·d²", "1", "n/k", (1, 2, 1)),
    "dilated": ("k·n·d²", "1", "log_k n", (1, 2, 1)),
    "restricted": ("r·n·d", "1", "n/r", (1, 1, 1)),
}
PRODUCTS = ("AddmmBackward0", "MmBackward0", "BmmBackward0")


# ---------------------------------------------------------------------------------------------------- counting

TIMED = 7  # passes of each layer and length


def operations(layer: Layer, x: Tensor) -> tuple[int, int]:
    """Multiply-adds of the products between positions, and of all products."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(x)
    counts = {str(name): flops // 2 for name, flops in counter.get_flop_counts()["Global"].items()}
    return counts[f"aten.{layer.mixes}"], sum(counts.values())


def chain(output: Tensor) -> int:
    """The length of the longest chain of dependent matrix products of an output."""
    longest: dict[Any, int] = {}
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        if rest := [parent for parent in before if parent not in longest]:
            waiting += rest
            continue
        waiting.pop()
        longest[node] = max((longest[parent] for parent in before), default=0) + (type(node).__name__ in PRODUCTS)
    return longest[output.grad_fn]


def rounds(stack: Callable[[int], Layer], n: int, d: int) -> int:
    """Rounds until the last output depends on the first input; n + 1 if n are not enough."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(1, n, d, dtype=torch.float64, generator=generator).requires_grad_()
    direction = torch.randn(d, dtype=torch.float64, generator=generator)

    def depends(count: int) -> bool:
        y = stack(0).begin(x)
        for depth in range(count):
            y = stack(depth).round(x, y)
        [gradient] = torch.autograd.grad(y[0, -1] @ direction, x)
        return bool(gradient[0, 0].any())

    return bisect_left(range(1, n + 1), True, key=depends) + 1


def seconds(layer: Layer, x: Tensor, repeats: int) -> list[float]:
    """Seconds of several forward passes."""
    taken = []
    with torch.no_grad():
        layer(x)
        for _ in range(repeats):
            began = time.perf_counter()
            layer(x)
            taken.append(time.perf_counter() - began)
    return taken


def exponent(points: Sequence[Sequence[float]]) -> float:
    """The slope of a line through points on logarithmic scales."""
    a, b = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(a, b, 1)[0])


def crossing(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float | None:
    """The length from which the first stays above the second, interpolated on logarithmic scales; None if never."""
    over = [math.log(b / c) for (_, b), (_, c) in zip(first, second, strict=True)]
    if over[-1] < 0:
        return None
    last = max((at for at, value in enumerate(over) if value < 0), default=-1)
    if last < 0:
        return float(first[0][0])
    share = -over[last] / (over[last + 1] - over[last])
    return float(first[last][0] * (first[last + 1][0] / first[last][0]) ** share)


# ------------------------------------------------------------------------------------------------------- claim


def count_operations(kind: type[Layer], window: int, lengths: Sequence[int], d: int) -> dict[str, Any]:
    """Operations and chains of one kind by length, width and window."""
    by_n, whole, chains = [], [], []
    for n in lengths:
        layer, x = kind(d, window), torch.randn(1, n, d)
        between, everything = operations(layer, x)
        by_n.append([n, between])
        whole.append([n, everything])
        chains.append([n, chain(layer(x))])
    by_d = [[width, operations(kind(width, window), torch.randn(1, 32, width))[0]] for width in (16, 32, 64, 128)]
    sizes = (5, 9, 17, 33) if window else ()
    by_window = [[size, operations(kind(16, size), torch.randn(1, 64, 16))[0]] for size in sizes]
    return {
        "operations": by_n,
        "whole": whole,
        "chain": chains,
        "exponents": [exponent(by_n), exponent(by_d), exponent(by_window) if window else None],
        "chain_exponent": exponent(chains),
    }


def path_lengths(kind: type[Layer], window: int, lengths: Sequence[int]) -> list[list[int]]:
    """Rounds from the first to the last position of one kind, by length."""
    paths = []
    for n in lengths:
        layers: dict[int, Layer] = {}

        def stack(depth: int, layers: dict[int, Layer] = layers) -> Layer:
            depth = depth if kind is Dilated else 0  # others are the same at every depth
            if depth not in layers:
                layers[depth] = kind(16, window, depth).double()
            return layers[depth]

        paths.append([n, rounds(stack, n, 16)])
    return paths


def measure(lab: Lab, *, window: int = 0, width: int = 64, longest: int = 2048, batch: int = 1) -> dict[str, Any]:
    """`window`: positions that self-attention may see, 0 for all; `width`: d; `batch`: sentences at a time."""
    torch.manual_seed(lab.seed)
    lengths = [2**power for power in range(3, 1 + int(math.log2(longest)))]
    kinds = KINDS | ({"attention": (Restricted, window)} if window else {})
    results: dict[str, Any] = {}
    with library.without():
        for name, (kind, size) in kinds.items():
            lab.stop.check()
            lab.say(messages.text("lab.counting_layer", layer=name))
            results[name] = count_operations(kind, size, lengths, width)
            results[name]["rounds"] = path_lengths(kind, size, [n for n in lengths if n <= 256])
        for name, (kind, size) in kinds.items():
            lab.stop.check()
            layer = kind(width, size)
            taken = [[n, seconds(layer, torch.randn(batch, n, width), TIMED)] for n in lengths]
            results[name]["timings"] = taken
            results[name]["seconds"] = [[n, median(each)] for n, each in taken]
    first, second = results["attention"], results["recurrent"]
    crossings = {key: crossing(first[key], second[key]) for key in ("whole", "seconds")}
    clocks = [crossing(*([[n, each[row]] for n, each in lane["timings"]] for lane in (first, second)))
              for row in range(TIMED)]  # fmt: skip
    return {
        "lanes": results,
        "d": width,
        "k": KERNEL,
        "r": NEAR,
        "batch": batch,
        "crossings": crossings,
        "clocks": clocks,
    }


def check(numbers: Numbers) -> list[Check]:
    lanes, d, crossings = numbers["lanes"], numbers["d"], numbers["crossings"]
    grows = {name: lanes[name]["exponents"] for name in LANES}
    as_claimed = all(
        abs(measured - wanted) < LIMITS["exponent"]
        for name in LANES
        for measured, wanted in zip(grows[name], FORMULAS[name][3], strict=True)
        if measured is not None and wanted is not None
    )
    chains = {name: [steps for _, steps in lanes[name]["chain"]] for name in LANES}
    constant = all(len(set(chains[name])) == 1 for name in LANES if name != "recurrent")
    straight = abs(exponent(lanes["recurrent"]["chain"]) - 1) < LIMITS["growth"]
    short, long = lanes["recurrent"]["chain"][0][0], lanes["recurrent"]["chain"][-1][0]
    faster = all(
        a < b
        for (n, a), (_, b) in zip(lanes["attention"]["seconds"], lanes["recurrent"]["seconds"], strict=True)
        if n <= d
    )
    exponents = {f"{name}_{letter}": value for name in LANES for letter, value in _label_exponents(grows[name])}
    single = {name: chains[name][-1] for name in ("attention", "convolution")}
    steps = {"first": chains["recurrent"][0], "last": chains["recurrent"][-1]}
    far = {"n": lanes["attention"]["rounds"][-1][0]} | {name: lanes[name]["rounds"][-1][1] for name in LANES}
    return [
        Check(WORDS("checks.operations", **exponents), as_claimed),
        Check(WORDS("checks.chain", short=short, long=long, **single, **steps), constant and straight),
        Check(WORDS("checks.rounds", **far), _paths_hold(numbers)),
        _check_crossing(
            "whole", numbers, crossings["whole"] is not None and abs(crossings["whole"] / d - 1) < LIMITS["crossing"]
        ),
        _check_crossing("seconds", numbers, faster),
    ]


def _label_exponents(exponents: Sequence[float | None]) -> list[tuple[str, float]]:
    return [(name, value) for name, value in zip(("n", "d", "w"), exponents, strict=True) if value is not None]


def _paths_hold(numbers: Numbers) -> bool:
    """Whether paths grow as the table claims."""
    rounds = {name: numbers["lanes"][name]["rounds"] for name in LANES}
    return (
        all(count == 1 for _, count in rounds["attention"])
        and all(count == n for n, count in rounds["recurrent"])
        and all(abs(exponent(rounds[name]) - 1) < LIMITS["growth"] for name in ("convolution", "restricted"))
        and all(1 < count <= math.log(n, numbers["k"]) + 1 for n, count in rounds["dilated"])
    )


def _check_crossing(key: str, numbers: Numbers, holds: bool) -> Check:
    """Check from which length self-attention costs more than a recurrent layer."""
    lanes, where = numbers["lanes"], numbers["crossings"][key]
    first, second = (dict(map(tuple, lanes[name][key])) for name in ("attention", "recurrent"))
    at = max(n for n in first if n <= max(numbers["d"], min(first)))
    crossed = sorted(clock for clock in numbers.get("clocks", ()) if clock is not None) or [0.0]
    values = {
        "low": crossed[0],
        "high": crossed[-1],
        "d": numbers["d"],
        "n": at,
        "ratio": second[at] / first[at],
        "longest": max(first),
    }
    if where is None:
        return Check(WORDS(f"checks.{key}_never", **values), holds)
    return Check(WORDS(f"checks.{key}", where=where, **values), holds)


def stand(numbers: Numbers) -> Standing:
    return Standing("none")


def draw(numbers: Numbers, language: str) -> list[Picture]:
    n = WORDS("picture.n").of(language)
    names = {name: WORDS(f"picture.{name}").of(language) for name in LANES}

    def curves(key: str, factor: float = 1.0, more: Mapping[str, Any] | None = None) -> str:
        series = {names[name]: [(a, factor * b) for a, b in numbers["lanes"][name][key]] for name in LANES}
        return curves_svg(series | dict(more or {}), x=n, y=WORDS(f"picture.{key}").of(language), log=True)

    whole = {
        WORDS("picture.projected").of(language): [tuple(point) for point in numbers["lanes"]["attention"]["whole"]]
    }
    sizes = {key: numbers[key] for key in ("d", "k", "r")}
    return [
        Picture("table-1-operations", curves("operations", more=whole), WORDS("picture.operations_seen", **sizes)),
        Picture("table-1-chain", curves("chain"), WORDS("picture.chain_seen")),
        Picture("table-1-rounds", curves("rounds"), WORDS("picture.rounds_seen")),
        Picture("table-1-seconds", curves("seconds", 1000), WORDS("picture.seconds_seen", batch=numbers["batch"])),
    ]


def tell_timings(taken: Sequence[float]) -> str:
    """The median of several timings and their range, in milliseconds."""
    low, middle, high = (1000 * each for each in (min(taken), median(taken), max(taken)))
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


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
        lane, letters = lanes[name], ("n", "d", "k" if name in ("convolution", "dilated") else "r")
        grows = " ".join(f"{a}^{b:.2f}" for a, b in zip(letters, lane["exponents"], strict=True) if b is not None)
        chains = f"{lane['chain'][0][1]} → {lane['chain'][-1][1]}"
        formula = ", ".join(FORMULAS[name][:3])
        cells = [formula, grows, chains, str(lane["rounds"][-1][1]), tell_timings(lane["timings"][-1][1])]
        rows.append([WORDS(f"picture.{name}"), *cells])
    return Table(titles, rows)


CLAIM = Claim(
    name="table-1", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
