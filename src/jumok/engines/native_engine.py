"""Our own engine: ids to hypotheses with the C kernels, encoder and search in one call; no torch.

It reads the bundle's own weights, in floats, and finds what the torch engine finds, hypothesis by hypothesis.  With a
shortlist it chooses among the tokens that the source may turn into, probabilities are shares of what is on the list,
and hypotheses that are far behind are given up.  `why_not` says what it cannot do; the torch engine can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any

import numpy as np

from jumok import native, positions
from jumok import weights as stored
from jumok.bundle import Bundle
from jumok.config import ModelConfig, TransformerConfig, transformer
from jumok.decoding.hypothesis import NEVER, Hypothesis, ranked
from jumok.engines.options import AT_ONCE, LONGEST_SOURCE, Options, Wish, features
from jumok.errors import UsageError
from jumok.native.searching import Dense, Layer, Norming, Search, Shortlist, Stack, at, search
from jumok.text.vocabulary import END, START
from jumok.weights import Tensors

MARGIN = 2.0  # with a shortlist: a hypothesis e^2 times less likely than its sentence's best is given up (LOG.md)


def obstacle(model: ModelConfig) -> str | None:
    """Why a model cannot run here; None if it can."""
    if not isinstance(model, TransformerConfig):
        return f"there are no kernels for {model.kind} models"
    reasons = {
        f"norm={model.norm!r}": model.norm != "layer",
        f"join={model.join!r}": model.join != "add",
        f"score={model.score!r}": model.score == "additive",
        f"activation={model.activation!r}": model.activation != "relu",
        "residual=false": not model.residual,
        "d_k or d_v that is not a multiple of 8": model.key_width % 8 != 0 or model.value_width % 8 != 0,
    }
    reason = next((f"the kernels have no {name}" for name, true in reasons.items() if true), None)
    return reason or ("there is no compiler for the kernels" if native.library() is None else None)


class NativeEngine:
    """Decodes with the kernels."""

    def __init__(self, found: Bundle, *, shortlist: bool = False) -> None:
        model, self.symbols = transformer(found.recipe.model, "the native engine"), found.sizes[0]
        self.weights = stored.read(found)
        self.library = native.library()
        packer = Packer(self.library, self.weights, model)
        self.matrix = self.weights.take("matrix", found.sizes[1], model.d_model)
        self.encoder = packer.stack("encoder", packer.table("source", found.sizes[0], self.matrix))
        self.decoder = packer.stack("decoder", packer.table("target", found.sizes[1], self.matrix))
        self.decoder.output = packer.dense(self.matrix, None)
        self.model, self.kept = model, packer.kept
        self.lists = listed(self.matrix, found) if shortlist else None
        self.background = ThreadPoolExecutor(1)

    @property
    def shortlist(self) -> bool:
        return self.lists is not None

    @staticmethod
    def why_not(options: Options, wishes: Sequence[Wish] = ()) -> str | None:
        """What of a request only the torch engine can do; None if this one can do all of it."""
        return next((name for name in features(options, wishes) if name != "exact search"), None)

    def submit(
        self,
        sources: Sequence[Sequence[int]],
        options: Options,
        *,
        progress: Callable[[int], None] = lambda sentences: None,
        **_: Any,
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Begin to decode in the background; the result is what the function gives, which waits for it."""
        waiting = self.background.submit(self.decode, sources, options)

        def collect() -> list[list[Hypothesis]]:
            found = waiting.result()
            progress(len(found))
            return found

        return collect

    def decode(self, sources: Sequence[Sequence[int]], options: Options) -> list[list[Hypothesis]]:
        """Hypotheses of every source (ids without END), best first, in the order given."""
        read = [[*ids[:LONGEST_SOURCE], END] for ids in sources]
        limits = [len(ids) - 1 + options.extra_length for ids in read]
        margin = MARGIN if self.lists is not None and not options.exact and options.best == 1 else inf
        how = Search(options.beam, options.length_penalty, options.best, options.exact, margin)
        some = max(1, AT_ONCE // (options.best * max(limits, default=1)))
        results: list[list[Hypothesis]] = []
        for start in range(0, len(read), some):
            block = slice(start, start + some)
            results += [ranked(one, options.length_penalty) for one in self._run(read[block], limits[block], how)]
        return results

    def _run(self, read: list[list[int]], limits: list[int], how: Search) -> list[list[Any]]:
        longest = max(map(len, read)), max(limits)
        encoder, decoder = Stack.from_buffer_copy(self.encoder), Stack.from_buffer_copy(self.decoder)
        vectors = [
            positions.added(self.weights, self.model, *side) for side in zip(("source", "target"), longest, strict=True)
        ]
        turns = positions.turns(self.model, max(longest))
        encoder.turns = decoder.turns = None if turns is None else at(turns)
        first, second = (None if table is None else at(table) for table in vectors)
        return search(
            self.library, encoder, decoder, read, limits, how, ends=(START, END), never=NEVER,
            positions=(first, second), shortlist=self.lists,
        )  # fmt: skip


def listed(matrix: np.ndarray, found: Bundle) -> Shortlist:
    """The bundle's shortlist as the search reads it; a token that both sides know may turn into itself."""
    from jumok.data.lexicon import shortlist_of  # with all that makes one, which most models are loaded without

    lexicon = shortlist_of(found)
    if lexicon is None:
        hint = "try: jumok model shortlist RUN"
        raise UsageError("this model has no shortlist", where=f"in {found.folder}", hint=hint)
    arrays = (np.ascontiguousarray(one, np.int64) for one in (lexicon.begins, lexicon.targets, lexicon.common))
    return Shortlist(at(matrix), found.vocabularies.joint, *arrays)


class Packer:
    """Packs the weights of a bundle for the kernels; what they have addresses of is in `kept`."""

    def __init__(self, library: Any, weights: Tensors, model: TransformerConfig) -> None:
        self.library, self.weights, self.model, self.kept = library, weights, model, list[Any]()

    def table(self, side: str, symbols: int, shared: np.ndarray) -> np.ndarray:
        name = f"{side}.weight"
        return self.weights.take(name, symbols, self.model.d_model) if name in self.weights else shared

    def dense(self, weight: np.ndarray, bias: np.ndarray | None) -> Dense:
        height, width = weight.shape
        packed = np.empty(self.library.packed_size(width, height), np.float32)
        self.library.pack_weight(at(packed), at(weight), width, height)
        self.kept += [packed, bias]
        return Dense(at(packed), None if bias is None else at(bias), width, height)

    def linear(self, name: str, rows: int, columns: int) -> Dense:
        bias = self.weights.take(f"{name}.bias", rows) if f"{name}.bias" in self.weights else None
        return self.dense(self.weights.take(f"{name}.weight", rows, columns), bias)

    def norm(self, name: str) -> Norming:
        parts = [self.weights.take(f"{name}.{part}", self.model.d_model) for part in ("weight", "bias")]
        self.kept += parts
        return Norming(*map(at, parts))

    def layer(self, name: str, *, decoder: bool) -> Layer:
        model, width = self.model, self.model.d_model
        keys, values = model.heads * model.key_width, model.heads * model.value_width
        matrices = {
            "qkv": ("attention.qkv", 2 * keys + values, width),
            "own": ("attention.output", width, values),
            "inner": ("feed_forward.inner", model.d_ff, width),
            "outer": ("feed_forward.outer", width, model.d_ff),
        }
        if decoder:
            matrices |= {
                "query": ("cross.query", keys, width),
                "remember": ("cross.memory", keys + values, width),
                "other": ("cross.output", width, values),
            }
        paths = ("attention_path", "cross_path" if decoder else "", "feed_forward_path")
        norms = (Norming * 3)(*(self.norm(f"{name}.{path}.norm") if path else Norming() for path in paths))
        made = {part: self.linear(f"{name}.{where}", *shape) for part, (where, *shape) in matrices.items()}
        return Layer(**made, norms=norms)

    def stack(self, side: str, table: np.ndarray) -> Stack:
        model = self.model
        count = model.encoder_layers if side == "encoder" else model.decoder_layers
        each = (Layer * count)(*(self.layer(f"{side}.{n}", decoder=side == "decoder") for n in range(count)))
        self.kept += [each, table]
        factor = 1.0 if model.score == "dot" else model.key_width**-0.5
        return Stack(
            layers=count, d_model=model.d_model, heads=model.heads, d_k=model.key_width, d_v=model.value_width,
            pre=model.norm_place == "pre", table=at(table), each=each, factor=factor, scale=model.d_model**0.5,
            eps=1e-5, last=self.norm(f"{side}_norm") if model.norm_place == "pre" else Norming(),
        )  # fmt: skip
