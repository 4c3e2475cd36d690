"""The reference engine: ids to hypotheses with torch; every feature, any model of models/.

Sentences are sorted by length and decoded in batches up to a token budget; results come back in the order given.

Shapes   B sentences · S source · T target
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.data.batches import pad
from jumok.decoding.search import Choose, Hypothesis, beam, drawn, greedy, length_penalty, tokens_one_by_one
from jumok.errors import UsageError
from jumok.keys import generator
from jumok.models.base import END, PAD, START, Attention, Seq2Seq

LONGEST_SOURCE = 2_048  # subwords; what is beyond is cut, so that an absurd line cannot take the machine down


@dataclass(frozen=True)
class Options:
    """How to search; the defaults are the paper's."""

    beam: int = 4
    length_penalty: float = 0.6
    extra_length: int = 50
    best: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    exact: bool = False

    def __post_init__(self) -> None:
        checks = {
            "beam": 1 <= self.beam <= 1_000,
            "n-best": 1 <= self.best <= (1_000 if self.sample else self.beam),
            "temperature": 0.0 <= self.temperature <= 100.0,
            "top-k": self.top_k >= 0,
            "top-p": 0.0 < self.top_p <= 1.0,
            "length penalty": 0.0 <= self.length_penalty <= 10.0,
            "extra length": 1 <= self.extra_length <= 10_000,
        }
        for name, fine in checks.items():
            if not fine:
                hint = (
                    "the n best of a beam are at most its width" if name == "n-best" else "see: jumok translate --help"
                )
                raise UsageError(f"{name} is out of range", where=f"in {self}", hint=hint)


class TorchEngine:
    """Decodes with a torch model."""

    def __init__(self, model: Any, *, device: torch.device | str = "cpu", batch_tokens: int = 4_096) -> None:
        self.device = torch.device(device)
        self.model: Seq2Seq = model
        self.batch_tokens = batch_tokens

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        options: Options,
        *,
        first: int = 0,
        limits: Sequence[int] | None = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of every source (ids without END), best first, in the order given.

        `first` is the number of sources[0] in the user's file: sampling of a sentence depends on it, not on the batch.
        `limits` are the longest outputs, where they are to be shorter than the options allow.
        """
        results: list[list[Hypothesis]] = [[] for _ in sources]
        for rows in self.batches(sources, options):
            cut = [list(sources[row])[:LONGEST_SOURCE] for row in rows]
            longest = [len(ids) + options.extra_length for ids in cut]
            if limits is not None:
                longest = [min(most, limits[row]) for most, row in zip(longest, rows, strict=True)]
            found = self._search(cut, options, longest, [first + row for row in rows])
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
            progress(len(rows))
        return results

    def batches(self, sources: Sequence[Sequence[int]], options: Options) -> Iterator[list[int]]:
        """Rows of like length together, at most `batch_tokens` source tokens times the beam's share at once."""
        order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
        budget = max(1, self.batch_tokens * 4 // (3 + (options.best if options.sample else options.beam)))
        start = 0
        while start < len(order):
            longest = min(LONGEST_SOURCE, len(sources[order[start]])) + 1
            stop = start + max(1, budget // longest)
            yield order[start:stop]
            start = stop

    def _search(
        self, sources: list[list[int]], options: Options, limits: list[int], numbers: list[int]
    ) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            state = self.model.start(pad(sources, after=END).to(self.device))
        step = self.model.step
        if not options.sample:
            return beam(
                step, state, limits, width=options.beam, alpha=options.length_penalty, best=options.best,
                exact=options.exact, device=self.device,
            )  # fmt: skip
        copies = torch.arange(len(sources), device=self.device).repeat_interleave(options.best)
        choose = self._draw(options, numbers, max(limits))
        flat = greedy(
            step, state.select(copies), [limits[int(i)] for i in copies], choose=choose,
            alpha=options.length_penalty, device=self.device,
        )  # fmt: skip
        each = options.best
        return [sorted(flat[i : i + each], key=lambda h: -h.score) for i in range(0, len(flat), each)]

    def _draw(self, options: Options, numbers: list[int], limit: int) -> Choose:
        rows = [
            generator(options.seed, "sample", number, copy).random(limit, dtype=np.float32)
            for number in numbers
            for copy in range(options.best)
        ]
        uniforms = torch.from_numpy(np.stack(rows)).to(self.device)
        return drawn(uniforms, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)

    def stream(self, source: Sequence[int], options: Options) -> Iterator[int]:
        """Tokens of one translation as they are made, greedily or sampled; END is not given out."""
        ids = list(source)[:LONGEST_SOURCE]
        limits = [len(ids) + options.extra_length]
        with torch.inference_mode():
            state = self.model.start(pad([ids], after=END).to(self.device))
        temperature = options.temperature if options.sample else 0.0
        choose = self._draw(Options(**{**vars(options), "temperature": temperature, "best": 1}), [0], limits[0])
        for extended in tokens_one_by_one(self.model.step, state, limits, choose, device=self.device):
            token = extended[0][1]
            if token != END:
                yield token

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, alpha: float = 0.6) -> list[Hypothesis]:
        """The model's own score of given translations (force-decoding), in the order given."""
        results: list[Hypothesis | None] = [None] * len(pairs)
        order = sorted(range(len(pairs)), key=lambda row: -len(pairs[row][0]) - len(pairs[row][1]))
        start = 0
        while start < len(order):
            longest = max(map(len, pairs[order[start]])) + 1
            rows = order[start : start + max(1, self.batch_tokens // longest)]
            source, target, labels = self._forced([pairs[row] for row in rows])
            logits = self.model.project(self.model.hidden(source, target))  # (B, T, V)
            gains = logits.log_softmax(dim=-1).gather(2, labels[:, :, None]).squeeze(2)  # (B, T)
            for row, gain in zip(rows, gains.tolist(), strict=True):
                ids = (*pairs[row][1], END)
                kept = gain[: len(ids)]
                total = sum(kept)
                results[row] = Hypothesis(ids, total / float(length_penalty(len(ids), alpha)), total, tuple(kept))
            start += len(rows)
        return [result for result in results if result is not None]

    @torch.inference_mode()
    def attention(self, source: Sequence[int], target: Sequence[int]) -> Attention:
        """All maps of one sentence and its translation (ids with or without END): (L, H, ·, ·) each."""
        body = [i for i in target if i != END]
        read, fed, _ = self._forced([(source, body)])
        maps = self.model.attention(read, fed)
        return Attention(maps.encoder[0], maps.decoder[0], maps.cross[0])

    def _forced(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[Tensor, Tensor, Tensor]:
        source = pad([list(s)[:LONGEST_SOURCE] for s, _ in pairs], after=END)
        labels = pad([t for _, t in pairs], after=END)
        target = torch.full_like(labels, PAD)
        target[:, 0] = START
        target[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == END, PAD)
        return source.to(self.device), target.to(self.device), labels.to(self.device)
