"""Moving by k positions is one matrix for all positions, a rotation of each sine-cosine pair (section 3.5)."""

from __future__ import annotations

from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.errors import UnknownName
from jumok.keys import key
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing
from jumok.lab.thresholds import Limits
from jumok.lab.toys import lookup
from jumok.lab.toys.fitting import fit as fit_module
from jumok.lab.wording import Text, Words
from jumok.nn.positions import sinusoid
from jumok.reports.charts import field_svg
from jumok.reports.curves import curves_svg

WORDS, LIMITS = Words.read("relative"), Limits.read("relative")
WIDTH = 16  # of a position vector: small enough to show the matrix
POSITIONS = 1_024  # half of them fit the matrix, half test it
OFFSETS = (1, 2, 5, 10, 20, 50, 100)
BACK = 3  # positions that the head built from a matrix looks back
SHARP = 12.0  # factor of that head's scores
LEARNED, SHIFT = 64, 2  # positions of a learned table, and the offset that is tested on it
SHOWN = 24  # positions of that head in the picture
DISTANCES = tuple(range(-64, 65))


def table_of(kind: str, seed: int) -> Tensor:
    """Vectors of positions 0, 1, … (T, D) in double: `sinusoidal`, or `random` ones of the same length on average."""
    if kind not in ("sinusoidal", "random"):
        raise UnknownName("lab.unknown_position_table", kind, ["sinusoidal", "random"])
    count = POSITIONS + max(OFFSETS)
    if kind == "sinusoidal":
        angles = torch.arange(count, dtype=torch.float64)[:, None] * frequencies()
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    draw = torch.Generator().manual_seed(key(seed, f"positions {kind}"))
    return torch.randn(count, WIDTH, generator=draw, dtype=torch.float64) * 0.5**0.5


def frequencies() -> Tensor:
    """Radians by which each pair rotates per position: (D / 2)."""
    return 10_000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)


def rotation(k: int) -> Tensor:
    """The matrix that turns pair i by k times its frequency: PE(pos + k) = M PE(pos), (D, D)."""
    cos, sin = (k * frequencies()).cos(), (k * frequencies()).sin()
    turns = torch.stack([torch.stack([cos, sin], dim=-1), torch.stack([-sin, cos], dim=-1)], dim=1)  # (D / 2, 2, 2)
    return torch.block_diag(*turns)


def fit(table: Tensor, rows: Tensor, k: int) -> Tensor:
    """The least-squares matrix that moves these rows by k positions."""
    matrix: Tensor = torch.linalg.lstsq(table[rows], table[rows + k], driver="gelsd").solution.T
    return matrix


def relative_error(table: Tensor, rows: Tensor, k: int, matrix: Tensor) -> float:
    """The error of the matrix on the vectors k positions on, relative to their norm."""
    wanted = table[rows + k]
    return float((table[rows] @ matrix.T - wanted).norm() / wanted.norm())


def head_weights(table: Tensor, rows: Tensor, matrix: Tensor) -> Tensor:
    """The weights of one head whose queries are positions times the matrix and whose keys are positions (rows, T)."""
    return (SHARP * (table[rows] @ matrix.T) @ table[:POSITIONS].T).softmax(dim=-1)


def products(table: Tensor) -> dict[str, list[float]]:
    """Mean, least and largest dot product of two positions at each distance, as a share of a vector's square."""
    pairs = (table[64 : POSITIONS - 64] @ table.T) / (WIDTH / 2)  # (positions, T)
    at = torch.arange(64, POSITIONS - 64)
    values = torch.stack([pairs[torch.arange(len(at)), at + distance] for distance in DISTANCES])  # (distances, at)
    return {
        "mean": values.mean(dim=1).tolist(),
        "least": values.amin(dim=1).tolist(),
        "most": values.amax(dim=1).tolist(),
        "spread": values.std(dim=1).tolist(),
    }


def measure_table(kind: str, seed: int) -> dict[str, Any]:
    """Test one table of positions: matrices are fitted on half of the positions and tested on the others."""
    table = table_of(kind, seed)
    order = torch.randperm(POSITIONS, generator=torch.Generator().manual_seed(seed))
    seen, unseen = order[: POSITIONS // 2], order[POSITIONS // 2 :].sort().values
    matrices = {k: fit(table, seen, k) for k in OFFSETS}
    back = fit(table, seen[seen >= BACK], -BACK)
    rows = unseen[unseen >= BACK]
    weights = head_weights(table, rows, back)
    return {
        "table": kind,
        "offsets": list(OFFSETS),
        "fitted": [relative_error(table, unseen, k, matrices[k]) for k in OFFSETS],
        "rotated": [relative_error(table, unseen, k, rotation(k)) for k in OFFSETS],
        "apart": [float((matrices[k] - rotation(k)).abs().max()) for k in OFFSETS],
        "matrix": matrices[10].tolist(),
        "hits": float((weights.argmax(dim=-1) == rows - BACK).double().mean()),
        "head": head_weights(table, torch.arange(SHOWN), back)[:, :SHOWN].tolist(),
        "products": products(table),
    }


def measure_learned(lab: Lab) -> dict[str, Any]:
    """Tables of positions that were learned on a task in which only the distance counts, and sinusoids of that length.

    For every seed the error of the best matrix that moves by `SHIFT` positions, fitted on half of the positions.
    """
    errors: dict[str, list[float]] = {"fitted": [], "sinusoids": []}
    for seed in lab.toy_seeds():
        module = fit_module(
            lambda: lookup.LookUp("learned", norm=False, longest=LEARNED),
            lambda generator: lookup.strings(generator, lookup.BATCH, LEARNED),
            steps=lab.steps(lookup.STEPS), seed=seed, check=lab.stop.check,
        )  # fmt: skip
        table = module.learned(LEARNED)
        order = torch.randperm(LEARNED - SHIFT, generator=torch.Generator().manual_seed(seed))
        seen, unseen = order[: len(order) // 2], order[len(order) // 2 :]
        for name, one in (("fitted", table), ("sinusoids", table_of("sinusoidal", seed)[:LEARNED])):
            errors[name].append(relative_error(one, unseen, SHIFT, fit(one, seen, SHIFT)))
    return errors


def measure(lab: Lab, *, table: str = "sinusoidal", other: str = "random") -> dict[str, Any]:
    """`table`: the positions that the claim is about; `other`: those it is compared with."""
    results = {"claimed": measure_table(table, lab.seed), "other": measure_table(other, lab.seed)}
    ours = sinusoid(0, POSITIONS, WIDTH).double() - table_of("sinusoidal", lab.seed)[:POSITIONS]
    results["learned"] = measure_learned(lab)
    return results | {"rounding": float(ours.abs().max()), "distances": list(DISTANCES), "back": BACK}


def check(numbers: Numbers) -> list[Check]:
    claimed, other = numbers["claimed"], numbers["other"]
    worst, least = max(claimed["fitted"]), min(other["fitted"])
    apart, rotated = max(claimed["apart"]), max(claimed["rotated"])
    learned = numbers["learned"]["fitted"]
    spread, loose = max(claimed["products"]["spread"]), max(other["products"]["spread"])
    return [
        Check(WORDS("checks.map", count=POSITIONS // 2, worst=worst), worst < LIMITS["exact"]),
        Check(
            WORDS("checks.rotation", apart=apart, rotated=rotated),
            apart < LIMITS["exact"] and rotated < LIMITS["rounding"],
        ),
        Check(WORDS("checks.other", least=least), least > LIMITS["random"]),
        Check(
            WORDS("checks.distance", spread=spread, loose=loose),
            spread < LIMITS["rounding"] and loose > LIMITS["loose"],
        ),
        Check(
            WORDS("checks.head", back=BACK, hits=claimed["hits"], other=other["hits"]),
            claimed["hits"] >= LIMITS["hits"],
        ),
        Check(WORDS("checks.learned", learned=mean(learned), places=LEARNED), mean(learned) > LIMITS["random"]),
    ]


def stand(numbers: Numbers) -> Standing:
    return Standing("toy", seeds=len(numbers["learned"]["fitted"]))


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(name: str) -> str:
        return WORDS(f"picture.{name}").of(language)

    claimed, other = numbers["claimed"], numbers["other"]
    curves = {}
    for result in (claimed, other):
        for part in ("most", "least"):
            name = f"{word(result['table'])}, {word(part)}"
            curves[name] = list(zip(numbers["distances"], result["products"][part], strict=True))
    matrix = field_svg(np.array(claimed["matrix"]), x=word("from"), y=word("to"))
    head = field_svg(np.array(claimed["head"]), x=word("looked"), y=word("looks"))
    return [
        Picture("relative-matrix", matrix, WORDS("picture.matrix")),
        Picture("relative-products", curves_svg(curves, x=word("distance"), y=word("product")), WORDS("picture.dots")),
        Picture("relative-head", head, WORDS("picture.head", back=numbers["back"])),
    ]


def tabulate(numbers: Numbers) -> Table:
    claimed, other = numbers["claimed"], numbers["other"]
    titles = [WORDS("table.offset"), WORDS("table.fitted"), WORDS("table.rotated"), WORDS("table.other")]
    columns = zip(claimed["offsets"], claimed["fitted"], claimed["rotated"], other["fitted"], strict=True)
    rows: list[list[str | Text]] = [[str(k), f"{a:.1e}", f"{b:.1e}", f"{c:.2f}"] for k, a, b, c in columns]
    learned = numbers["learned"]
    rows.append([WORDS("table.learned", places=LEARNED, shift=SHIFT), f"{mean(learned['sinusoids']):.1e}", "–",
                 f"{mean(learned['fitted']):.2f}"])  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="relative", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
