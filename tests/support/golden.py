"""Golden models: what they are asked, by which engines, and what they answered when they were made.

    tests/golden/0.1/paper/model/…           a bundle of a few kB, as `jumok train` made it
    tests/golden/0.1/paper/expected.json     questions, and the answers that it gives for ever

`tools/golden.py` makes them; tests/models/test_golden.py asks them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from jumok.kernels import library
from jumok.translator import Translator

FOLDER = Path(__file__).parents[1] / "golden"
RUN = "run"  # the folder of a version that is a whole run, stopped in the middle
ENGINES: dict[str, dict[str, Any]] = {
    "plain": {"engine": "torch"},  # without kernels
    "torch": {"engine": "torch"},
    "native": {"engine": "native"},
    "ctranslate2": {"engine": "ctranslate2", "precision": "float32"},
}
FAST = ("native", "ctranslate2")  # of the engines, those that only translate


class Answer(NamedTuple):
    """What stays exactly, and what stays to 1e-4."""

    text: str
    numbers: tuple[float, ...] = ()


def folders() -> list[Path]:
    """Every golden model of every version."""
    return sorted(path.parent for path in FOLDER.glob("*/*/expected.json") if path.parent.name != RUN)


def runs() -> list[Path]:
    return sorted(FOLDER.glob(f"*/{RUN}"))


def read_expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return found


@contextmanager
def loaded(folder: Path, engine: str) -> Iterator[Translator]:
    """The model of a folder on one of `ENGINES`."""
    with library.without() if engine == "plain" else nullcontext():
        yield Translator.load(folder, **ENGINES[engine])


def suits(question: dict[str, Any], engine: str) -> bool:
    """Whether an engine is asked this: the fast ones translate, and ctranslate2 ranks a beam by a rule of its own."""
    if engine == "ctranslate2":
        return question["ask"] == "translate" and question["beam"] == 1
    return engine not in FAST or question["ask"] == "translate"


def ask(model: Translator, question: dict[str, Any]) -> list[Answer]:
    """Put a question of expected.json to a model."""
    match question["ask"]:
        case "translate":
            found = model.translate(question["texts"], beam=question["beam"])
            return [Answer(one.text, (one.score, one.log_probability)) for one in found]
        case "score":
            found = model.score(question["texts"], question["targets"])
            return [Answer(one.text, (one.score, one.log_probability, *one.token_scores)) for one in found]
        case "generate":
            length = question["length"]
            return [Answer("".join(model.generate(one, length=length, temperature=0.0))) for one in question["texts"]]
        case "fill":
            holes = [hole for text in question["texts"] for hole in model.fill(text, n_best=question["n_best"])]
            return [
                Answer(" ".join(word.text for word in hole), tuple(word.probability for word in hole)) for hole in holes
            ]
    raise ValueError(question["ask"])
