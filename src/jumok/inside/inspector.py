"""What the views ask of a model, whoever computes it: the kernels (native_inspector.py) or torch (torch_inspector.py).

    inspector = find_inspector(translator)
    trace = inspector.read([*source, END], [START, *target])
    trace.blocks["encoder.0.attention"]["weights"]      # (H, T, S)

Both give the same names and shapes, and the same numbers up to rounding.  No torch.

Shapes   H heads · R rows of a map · C columns · T positions · D width · V vocabulary · N hypotheses · L layers
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from jumok.inside.edits import NOTHING, Edits, Sizes
from jumok.inside.places import Code

if TYPE_CHECKING:
    from jumok.decoding.hypothesis import Hypothesis
    from jumok.engines.native_engine import NativeEngine
    from jumok.inside.subject import Subject

Ids = Sequence[int]
Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Trace:
    """Everything that a model has made of one sentence, or what was asked for of it."""

    names: tuple[str, ...]  # of all blocks, in the order in which they are computed
    blocks: Mapping[str, Values]  # name of the block, then of the value
    tokens: Mapping[str, list[int]]  # ids of what the maps are over
    maps: Mapping[str, tuple[str, str]]  # kind of attention: tokens of rows and columns
    hidden: np.ndarray  # (T, D) what the model's own pass returns
    memory: np.ndarray | None = None  # (S, D) what cross-attention reads
    logits: np.ndarray | None = None  # (T, V)

    def weights(self, kind: str) -> np.ndarray:
        """The weights of a kind of attention (L, H, R, C); those of layers that are off are not among them."""
        ending = ".cross" if kind == "cross" else ".attention"
        stack = "decoder" if kind == "cross" else kind
        names = [name for name in self.names if name.startswith(f"{stack}.") and name.endswith(ending)]
        if not names:
            rows, columns = (len(self.tokens[side]) for side in self.maps[kind])
            return np.zeros((0, 1, rows, columns), np.float32)
        return np.stack([self.blocks[name]["weights"] for name in names])


class Outline(NamedTuple):
    """A model as the map of its blocks shows it."""

    config: Any
    sizes: Sizes
    blocks: Sequence[tuple[str, int | None]]  # in the order of the computation: name, and width of what it returns
    parameters: Mapping[str, int]  # of blocks; those that several blocks share count at the first
    total: int  # of all parameters
    code: Mapping[str, Code]  # the line of each type of block
    in_line: bool = False  # whether source and target are one line of tokens
    speaks: bool = True  # whether it can be searched
    fills: bool = False  # whether it fills in words that are missing

    @property
    def kind(self) -> str:
        return str(self.config.kind)


class Factor(NamedTuple):
    """A matrix that makes a value: value = matrix · input + bias."""

    weight: np.ndarray
    bias: np.ndarray | None
    blocks: Sequence[int]  # rows of each value that it makes
    heads: int = 1


class Steps(Protocol):
    """Hypotheses of a translation that go on, token by token."""

    def step(self, tokens: Ids) -> np.ndarray:
        """Read one more token of each hypothesis; return the logits (N, V) of the next."""
        ...

    def select(self, rows: Ids) -> Steps:
        """Branch off: hypothesis n of the branch continues hypothesis rows[n].  It ends before this one goes on."""
        ...


def go_on() -> None:
    """Check nothing."""


class Inspector(Protocol):
    """A model that can be looked at."""

    @property
    def outline(self) -> Outline: ...

    def read(self, source: Ids, target: Ids, edits: Edits = NOTHING, only: Collection[str] | None = None) -> Trace:
        """Read one pair teacher-forced: a source with its END, a target from START on.

        Where blocks are named, only these must be in the trace; weights are there in any case.
        """
        ...

    def translate(
        self, sources: Sequence[Ids], edits: Edits = NOTHING, check: Callable[[], None] = go_on
    ) -> list[Hypothesis]:
        """Return greedy translations of ids without END.  `check` may raise an exception to stop the work."""
        ...

    def open_steps(self, source: Ids, edits: Edits, *, rows: int, room: int) -> AbstractContextManager[Steps]:
        """Provide the steps of a source with its END: `rows` hypotheses of a branch and `room` positions at most."""
        ...

    def find_factor(self, block: str, name: str) -> Factor | None:
        """Return a matrix of a block, such as qkv, inner or outer; that of the block "output" has no name."""
        ...


def find_inspector(subject: Subject) -> Inspector:
    """Return what looks at a model: the kernels where they translate with it, else torch."""
    fast = subject.engines.fast
    if fast is not None and fast.name == "native":
        from jumok.inside.native_inspector import NativeInspector

        return NativeInspector(cast("NativeEngine", fast), subject.recipe.decoding)
    from jumok.inside.torch_inspector import TorchInspector

    return TorchInspector(subject)
