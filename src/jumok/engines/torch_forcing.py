"""Given translations with torch: the model's scores of them, and their attention.

Shapes   B sentences · H heads · S source · T target
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.config.search import Ids, check_lengths
from jumok.data.batches import pad
from jumok.decoding.hypothesis import Hypothesis
from jumok.errors import UsageError
from jumok.models.base import END, PAD, START, Attention, Seq2Seq

ROWS = 64  # pairs whose attention is in memory at once
SCORED = 512  # positions whose logits are in memory at once when translations are scored


class TorchForcing:
    """The part of the torch engine that takes translations instead of making them."""

    model: Seq2Seq
    fast: Any
    device: torch.device
    batch_tokens: int
    deterministic: bool

    @contextmanager
    def _limit_threads(self) -> Iterator[None]:
        """Use one thread where the engine is deterministic: the last bits of a sum depend on how threads divide it."""
        before = torch.get_num_threads()
        try:
            if self.deterministic:
                torch.set_num_threads(1)
            yield
        finally:
            if self.deterministic:
                torch.set_num_threads(before)

    @torch.inference_mode()
    def align(
        self, pairs: Sequence[tuple[Ids, Ids]], layer: int | None = None, head: int | None = None
    ) -> list[np.ndarray]:
        """Return the attention of each output over its source (T, S), END included.

        It is that of one head of a layer, or the mean of all its heads; the last layer but one unless given.
        """
        results: list[np.ndarray] = []
        for start in range(0, len(pairs), ROWS):
            some = pairs[start : start + ROWS]
            source, target, _ = self._force_pairs(some)
            cross = self.model.attention(source, target).cross  # (B, L, H, T, S)
            if cross.shape[1] == 0:
                raise UsageError("engines.no_attention_over_source")
            heads = cross[:, max(0, cross.shape[1] - 2) if layer is None else layer]  # (B, H, T, S)
            means = heads.mean(dim=1) if head is None else heads[:, head]  # (B, T, S)
            means = means if means.dtype == torch.float64 else means.float()
            results += [
                weights[: len(body) + 1, : len(read) + 1]
                for weights, (read, body) in zip(means.cpu().numpy(), some, strict=True)
            ]
        return results

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Ids, Ids]], *, length_penalty: float = 0.6) -> list[Hypothesis]:
        """Return the model's scores of given translations (force-scoring), in the order given."""
        if self.deterministic and len(pairs) > 1:
            return [h for pair in pairs for h in self.score([pair], length_penalty=length_penalty)]
        results: list[Hypothesis | None] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]) - len(pairs[row][1]))
        start = 0
        while start < len(order):
            longest = max(map(len, pairs[order[start]])) + 1
            rows = order[start : start + max(1, self.batch_tokens // longest)]
            source, target, labels = self._force_pairs([pairs[row] for row in rows])
            with self._limit_threads():
                gains = self._score_labels(self.fast.hidden(source, target), labels)  # (B, T)
            for row, gain in zip(rows, gains.tolist(), strict=True):
                ids = (*pairs[row][1], END)
                results[row] = Hypothesis.scored_by(ids, gain[: len(ids)], length_penalty)
            start += len(rows)
        return [result for result in results if result is not None]

    def _score_labels(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the log-probabilities (B, T) of labels; logits of only some positions are held at a time."""
        parts = zip(hidden.flatten(0, 1).split(SCORED), labels.flatten().split(SCORED), strict=True)
        gains = [self.fast.project(h).log_softmax(dim=-1).gather(1, label[:, None]) for h, label in parts]
        return torch.cat(gains).view(labels.shape)  # (B, T)

    @torch.inference_mode()
    def attention(self, source: Ids, target: Ids) -> Attention:
        """Return all maps of one sentence and its translation (ids with or without END): (L, H, ·, ·) each."""
        body = [i for i in target if i != END]
        read, fed, _ = self._force_pairs([(source, body)])
        maps = self.model.attention(read, fed)
        return Attention(maps.encoder[0], maps.decoder[0], maps.cross[0])

    def _force_pairs(self, pairs: Sequence[tuple[Ids, Ids]]) -> tuple[Tensor, Tensor, Tensor]:
        """Return source, decoder input and labels of given translations."""
        check_lengths([source for source, _ in pairs])
        source = pad([s for s, _ in pairs], after=END)
        labels = pad([t for _, t in pairs], after=END)
        target = torch.full_like(labels, PAD)
        target[:, 0] = START
        target[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == END, PAD)
        return source.to(self.device), target.to(self.device), labels.to(self.device)
