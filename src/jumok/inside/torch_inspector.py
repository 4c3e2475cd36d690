"""A torch model that is looked at: its second reading (passes.py) as arrays, and searches on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from jumok.config.search import SearchOptions
from jumok.data.batches import pad
from jumok.decoding.ensemble import Ensemble
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.search import greedy
from jumok.errors import UsageError
from jumok.inside import surgery
from jumok.inside.edits import NOTHING, Edits, limit_length
from jumok.inside.inspector import Factor, Ids, Outline, Trace, go_on
from jumok.inside.kinds import Parts, find_parts
from jumok.inside.passes import Edited, Reading, find_sizes, read
from jumok.inside.places import find_code
from jumok.models.base import END, SPECIALS, START
from jumok.models.encoder import MaskedModel

if TYPE_CHECKING:
    from jumok.inside.subject import Subject

ROWS = 256  # sentences that are read together
AT_ONCE = 128  # sentences that the kernels translate between two checks


@contextmanager
def limit_threads() -> Iterator[None]:
    """Run torch on one thread: one sentence is too small for more, and threads that wait for each other are slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def outline(model: Any) -> Outline:
    """Return what the map of a model shows; which blocks there are is seen in the reading of a single token."""
    target = [SPECIALS] if not hasattr(model, "project") else [START]
    reading, parts = read(model, torch.tensor([[SPECIALS, END]]), torch.tensor([target])), find_parts(model)
    blocks: list[tuple[str, int | None]] = []
    for name, values in reading.blocks.items():
        last = values.get("output", values.get("scaled", values.get("weights")))
        blocks.append((name, None if last is None else last.shape[-1]))
    return Outline(
        model.config, find_sizes(model), blocks, parts.count(), sum(one.numel() for one in model.parameters()),
        find_code(_list_code(parts)), "line" in reading.tokens, hasattr(model, "start"), isinstance(model, MaskedModel),
    )  # fmt: skip


def _list_code(parts: Parts) -> list[tuple[str, str, str]]:
    """The code of a model's parts, by names."""
    code = list(parts.code)
    if hasattr(parts.model, "project"):
        code.insert(0, ("output", type(parts.model).project, "return"))
    return [
        (kind, f"{function.__module__.removeprefix('jumok.')}.{function.__qualname__}", words)
        for kind, function, words in code
    ]


def to_array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def to_trace(reading: Reading) -> Trace:
    """Return the reading of one sentence as arrays."""
    blocks = {
        name: {key: to_array(value if key == "position" else value[0]) for key, value in values.items()}
        for name, values in reading.blocks.items()
    }
    return Trace(
        names=tuple(blocks), blocks=blocks, tokens={side: ids[0].tolist() for side, ids in reading.tokens.items()},
        maps=reading.maps, hidden=to_array(reading.hidden[0]), memory=_find_memory(blocks),
        logits=None if reading.logits is None else to_array(reading.logits[0]),
    )  # fmt: skip


def _find_memory(blocks: dict[str, dict[str, np.ndarray]]) -> np.ndarray | None:
    """What the encoder returns; where all its layers are off, the vectors that it was given."""
    given = [name for name in blocks if name.startswith("source.")]
    ran = [name for name in blocks if name.startswith("encoder.")]
    last = next(iter([*given, *ran][::-1]), None)
    values = {} if last is None else blocks[last]
    return values.get("output", values.get("scaled"))


class TorchSteps:
    """Steps of a torch model, with or without edits."""

    def __init__(self, machine: Any, state: Any) -> None:
        self.machine, self.state = machine, state

    def step(self, tokens: Ids) -> np.ndarray:
        logits, self.state = self.machine.step(torch.tensor(list(tokens)), self.state)
        return to_array(logits.float())

    def select(self, rows: Ids) -> TorchSteps:
        return TorchSteps(self.machine, self.state.select(torch.tensor(list(rows))))


class TorchInspector:
    """Looks at the torch model of a subject; an ensemble has no inside of its own."""

    def __init__(self, subject: Subject) -> None:
        self.engine, self.decoding = subject.engines.torch, subject.recipe.decoding
        self.model: Any = self.engine.model
        if isinstance(self.model, Ensemble):
            raise UsageError("inside.ensemble")

    @cached_property
    def outline(self) -> Outline:
        return outline(self.model)

    def read(self, source: Ids, target: Ids, edits: Edits = NOTHING, only: Collection[str] | None = None) -> Trace:
        with limit_threads(), torch.inference_mode():
            return to_trace(read(self.model, torch.tensor([source]), torch.tensor([target]), edits.inner))

    def translate(
        self, sources: Sequence[Ids], edits: Edits = NOTHING, check: Callable[[], None] = go_on
    ) -> list[Hypothesis]:
        """Without edits, and where heads alone are off, the kernels translate; otherwise every step is a reading."""
        options = SearchOptions(beam=1, extra_length=self.decoding.extra_length)
        if not hasattr(self.model, "start"):
            raise UsageError("inside.says_nothing", kind=self.model.config.kind)
        if not edits.inner or edits.is_weights:
            results = []
            with surgery.change(self.model, edits.inner):
                for first in range(0, len(sources), AT_ONCE):
                    check()
                    results += self.engine.decode(sources[first : first + AT_ONCE], options)
            return [hypotheses[0] for hypotheses in results]
        with limit_threads():
            return _translate_in_batches(Edited(self.model, edits.inner), sources, options, check)

    @contextmanager
    def open_steps(self, source: Ids, edits: Edits, *, rows: int, room: int) -> Iterator[TorchSteps]:
        if not hasattr(self.model, "start"):
            raise UsageError("inside.says_nothing", kind=self.model.config.kind)
        machine: Any = Edited(self.model, edits.inner) if edits.inner else self.model
        with limit_threads(), torch.inference_mode():
            yield TorchSteps(machine, machine.start(torch.tensor([source])))

    @torch.no_grad()
    def find_factor(self, block: str, name: str) -> Factor | None:
        if block == "output":
            matrix, bias = self.model.output()
            return Factor(to_array(matrix), None if bias is None else to_array(bias), [len(matrix)])
        module = next(iter(find_parts(self.model).modules.get(block, [])), None)
        if module is None or not hasattr(module, name):
            return None
        linear = getattr(module, name)
        bias = None if linear.bias is None else to_array(linear.bias)
        return Factor(to_array(linear.weight), bias, linear.blocks, getattr(module, "heads", 1))


@torch.inference_mode()
def _translate_in_batches(
    edited: Edited, sources: Sequence[Ids], options: SearchOptions, check: Callable[[], None]
) -> list[Hypothesis]:
    """Greedy translations, sentences of similar length together."""
    results: dict[int, Hypothesis] = {}

    def step(token: Tensor, state: Any) -> tuple[Tensor, Any]:
        check()
        return edited.step(token, state)

    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    for first in range(0, len(order), ROWS):
        rows = order[first : first + ROWS]
        state = edited.start(pad([list(sources[row]) for row in rows], after=END))
        limits = [min(len(sources[row]) + options.extra_length, limit_length(len(sources[row]))) for row in rows]
        results |= zip(rows, greedy(step, state, limits, options), strict=True)
    return [results[row] for row in range(len(sources))]
