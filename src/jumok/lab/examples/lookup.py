"""Hard against soft look-up: a map returns one value, attention a mixture that follows the content of the keys."""

from __future__ import annotations

from typing import Any

import torch

from jumok.lab.examples.example import Example, Numbers, Part, Say, to_cells
from jumok.nn.attention import attend

QUERY = [1.8, 1.0]
KEYS = [[-1.0, 1.0], [2.0, 0.0], [1.0, 2.0], [0.0, -1.0]]
VALUES = [10.0, 20.0, 30.0, 40.0]
SHARPNESS = (1.0, 4.0, 16.0)
SWAP = [1, 0, 2, 3]  # the first two change places


def compute() -> dict[str, Any]:
    q, k, v = torch.tensor([QUERY]), torch.tensor(KEYS), torch.tensor(VALUES)[:, None]
    scores = (q @ k.T)[0]
    soft = {}
    for sharpness in SHARPNESS:
        mixed, weights = attend(q * sharpness, k, v)
        soft[f"{sharpness:g}"] = {"weights": weights[0].tolist(), "result": float(mixed)}
    before = attend(q, k, v)[1][0]
    values_moved = attend(q, k, v[SWAP])[1][0]
    keys_moved = attend(q, k[SWAP], v)[1][0]
    return {
        "scores": scores.tolist(), "hard": float(v[scores.argmax()]), "soft": soft, "keys": len(KEYS),
        "largest": float(before.max()), "result": soft["1"]["result"],
        "after_values": float((values_moved - before).abs().max()),
        "after_keys": float((keys_moved - before).abs().max()),
        "follows_keys": float((keys_moved[SWAP] - before).abs().max()),
    }  # fmt: skip


def show(numbers: Numbers, say: Say) -> list[Part]:
    rows = [[say("times"), *(f"v={value:.0f}" for value in VALUES), say("result")]]
    for sharpness, one in numbers["soft"].items():
        rows.append([sharpness, *to_cells([one["weights"]])[0], f"{one['result']:.2f}"])
    rows.append(
        [say("hard"), *("1" if value == numbers["hard"] else "0" for value in VALUES), f"{numbers['hard']:.2f}"]
    )
    moved = {key: numbers[key] for key in ("after_values", "after_keys", "follows_keys")}
    return [Part(say("table"), rows), Part(say("moved", **moved))]


EXAMPLE = Example(name="lookup", compute=compute, show=show)
