"""Text to text: the facade everyone uses.

>>> model = jumok.load("runs/tiny")
>>> model.translate("A man rides a bike.").text
>>> best = model.translate(["…", "…"], beam=4, attention=True)
>>> best[0].score, best[0].attention.cross.shape          # (layers, heads, target, source)
>>> for word in model.stream("A dog runs."): print(word, end="", flush=True)
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from jumok import checkpoint
from jumok.decoding.search import Hypothesis
from jumok.engines.torch_engine import Options, TorchEngine
from jumok.errors import UsageError
from jumok.evaluate import Evaluation, evaluate
from jumok.text.vocabulary import END, START
from jumok.viz import AttentionView

CHUNK = 1_024  # lines that are sorted and decoded together


@dataclass(frozen=True)
class Translation:
    """One translation; `alternatives` are the next best, `attention` only where it was asked for."""

    source: str
    text: str
    score: float  # log-probability over the length penalty
    log_probability: float
    tokens: tuple[str, ...] = ()
    token_scores: tuple[float, ...] = ()
    alternatives: tuple["Translation", ...] = ()
    attention: AttentionView | None = None

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Plain values, attention left out."""
        values = asdict(self) | {"alternatives": [other.to_json() for other in self.alternatives]}
        del values["attention"]
        return values


class Translator:
    """A model, its vocabularies and an engine."""

    def __init__(self, bundle: checkpoint.Bundle, *, device: str | torch.device = "cpu") -> None:
        self.recipe, self.card, self.folder = bundle.recipe, bundle.card, bundle.folder
        self.vocabularies = bundle.vocabularies
        self.model = bundle.model.to(device).eval()
        self.engine = TorchEngine(self.model, device=device)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> "Translator":
        """The model of a run folder or of an exported bundle."""
        return cls(checkpoint.load(path), device=device)

    def options(self, **chosen: Any) -> Options:
        """Search options: the recipe's, overridden by what is given and not None."""
        decoding = self.recipe.decoding
        defaults = {
            "beam": decoding.beam,
            "length_penalty": decoding.length_penalty,
            "extra_length": decoding.extra_length,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        unknown = set(given) - set(Options.__dataclass_fields__)
        if unknown:
            raise UsageError(f"translate has no option {sorted(unknown)[0]!r}")
        merged = defaults | given
        if not given.get("sample"):
            merged["beam"] = max(merged["beam"], given.get("best", 1)) if "beam" not in given else merged["beam"]
        return Options(**merged)

    @overload
    def translate(self, text: str, *, attention: bool = False, **options: Any) -> Translation: ...
    @overload
    def translate(self, text: Sequence[str], *, attention: bool = False, **options: Any) -> list[Translation]: ...

    def translate(
        self, text: str | Sequence[str], *, attention: bool = False, **options: Any
    ) -> Translation | list[Translation]:
        """Translate a sentence or a list of them.

        Options: beam, length_penalty, extra_length, best (how many), sample, temperature, top_k, top_p, seed, exact.
        """
        texts = [text] if isinstance(text, str) else list(text)
        done = self._translate(texts, self.options(**options), attention=attention)
        return done[0] if isinstance(text, str) else done

    def _translate(
        self,
        texts: Sequence[str],
        options: Options,
        *,
        attention: bool = False,
        first: int = 0,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> list[Translation]:
        sources = self.vocabularies.source.encode_all(texts)
        full = [row for row, ids in enumerate(sources) if ids]
        found = self.engine.decode([sources[row] for row in full], options, first=first, progress=progress)
        results = [Translation(text, "", 0.0, 0.0) for text in texts]  # a blank line stays blank
        for row, hypotheses in zip(full, found, strict=True):
            made = [self._translation(texts[row], sources[row], h, attention) for h in hypotheses]
            results[row] = Translation(**{**vars(made[0]), "alternatives": tuple(made[1:])})
        return results

    def _translation(self, text: str, source: list[int], hypothesis: Hypothesis, attention: bool) -> Translation:
        vocabulary = self.vocabularies.target
        return Translation(
            source=text,
            text=vocabulary.decode(hypothesis.body),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(vocabulary.pieces(hypothesis.ids)),
            token_scores=hypothesis.token_scores,
            attention=self._view(text, source, list(hypothesis.body)) if attention else None,
        )

    def lines(
        self,
        texts: Iterable[str],
        *,
        chunk: int = CHUNK,
        progress: Callable[[int], None] = lambda sentences: None,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translate a stream of lines in order, in bounded memory."""
        walk, first, chosen = iter(texts), 0, self.options(**options)
        while block := list(islice(walk, chunk)):
            yield from self._translate(block, chosen, first=first, progress=progress)
            first += len(block)

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """The translation piece by piece as it is made, greedily (or sampled with sample=True)."""
        source = self.vocabularies.source.encode(text)
        if not source:
            return
        said, ids = "", []
        for token in self.engine.stream(source, self.options(**{"beam": 1, **options})):
            ids.append(token)
            now = self.vocabularies.target.decode(ids)
            if now.startswith(said) and not now.endswith("\ufffd"):  # wait while a character is incomplete
                yield now[len(said) :]
                said = now
        yield self.vocabularies.target.decode(ids)[len(said) :]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """The model's score of given translations."""
        pairs = [
            (self.vocabularies.source.encode(source), self.vocabularies.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        scored = self.engine.score(pairs, alpha=self.recipe.decoding.length_penalty)
        pieces = self.vocabularies.target.pieces
        return [
            Translation(source, target, h.score, h.log_probability, tuple(pieces(h.ids)), h.token_scores)
            for source, target, h in zip(sources, targets, scored, strict=True)
        ]

    def attention(self, text: str, translation: str | None = None, **options: Any) -> AttentionView:
        """Attention of every layer and head for a sentence and its translation (its own best, unless given)."""
        source = self.vocabularies.source.encode(text)
        if translation is None:
            hypothesis = self.engine.decode([source], self.options(**options))[0][0]
            return self._view(text, source, list(hypothesis.body))
        return self._view(text, source, self.vocabularies.target.encode(translation))

    def _view(self, text: str, source: list[int], target: list[int]) -> AttentionView:
        maps = self.engine.attention(source, target)
        vocabulary = self.vocabularies.target
        encoder, decoder, cross = (m.float().cpu().numpy().astype(np.float32) for m in vars(maps).values())
        return AttentionView(
            source=tuple(self.vocabularies.source.pieces([*source, END])),
            target=tuple(vocabulary.pieces([*target, END])),
            encoder=encoder,
            decoder=decoder,
            cross=cross,
            fed=tuple(vocabulary.pieces([START, *target])),
            text=text,
            translation=vocabulary.decode(target),
        )

    def evaluate(self, source: str | Path, target: str | Path, **options: Any) -> Evaluation:
        """BLEU, chrF and TER with their signatures on a test set of two files."""
        return evaluate(self, str(source), str(target), **options)
