"""The CTranslate2 engine: ids to hypotheses, in 8-bit integers or in floats; no torch.

A model is exported when it is first used.  The export is cached under a hash of the weights, so that it is never stale.

CTranslate2 divides log P by n^alpha; its hypotheses are ranked here by the paper's ((5 + n) / 6)^alpha.  Its beam
selects by log P alone, so the result is the same as if it had searched with the paper's formula.  With a shortlist,
probabilities are relative to the shortlist.

The scores of a sentence depend on its batch, in floats by the last bits and in integers by more, and on the number of
threads.  `deterministic` gives every sentence a separate batch and every worker one thread.

Probabilities cost a pass over the vocabulary at every step, and so does forbidding special tokens.  Where only text is
asked for, greedy search does neither and finds the same text; where a special token was the likeliest, the sentence is
searched again with special tokens forbidden.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path
from typing import Any

from jumok import machine
from jumok.config.search import (
    UNCONSTRAINED,
    Count,
    Feature,
    Ids,
    SearchOptions,
    TokenConstraints,
    check_lengths,
    check_request,
    silent,
)
from jumok.decoding.hypothesis import Hypothesis, penalize
from jumok.disk import user_cache
from jumok.errors import DiskError, MissingPackage, ModelFileError, UnknownName, Unsupported, UsageError
from jumok.interop import ctranslate2_library as interop
from jumok.messages import Message
from jumok.storage import bundle as bundles
from jumok.storage.bundle import Bundle
from jumok.text.symbols import NEVER
from jumok.text.vocabulary import END

FORMAT = 1  # version of the exported models in the cache
CACHED = 24  # most exported models in the cache
PRECISIONS = ("int8", "float32")
BATCH = 512  # source tokens per batch of a greedy search
BEAM_BATCH = 256  # source tokens per batch of a beam search
SHORT_BATCH = 256  # source tokens per batch with a shortlist, which grows with the batch


def find_obstacle(bundle: Bundle) -> Message | None:
    """Return why CTranslate2 cannot run a model; None if it can.  Raises `MissingPackage` if it is not installed."""
    if (reason := interop.find_obstacle(bundle.recipe.model)) is not None:
        return reason
    try:
        interop.load_library()
    except MissingPackage:
        raise
    except ImportError as error:
        return Message("engines.cannot_import_ctranslate2", {"reason": error})
    return None


class CTranslate2Engine:
    """Decodes with a model in CTranslate2's format."""

    name = "CTranslate2"
    supported = frozenset({Feature.MIN_LENGTH, Feature.NO_REPEAT, Feature.PREFIX})

    def __init__(
        self, bundle: Bundle, *, precision: str = "int8", shortlist: bool = False, deterministic: bool = False
    ) -> None:
        if (reason := find_obstacle(bundle)) is not None:
            raise Unsupported("engines.unsupported_model", reason=reason, folder=bundle.folder)
        if precision not in PRECISIONS:
            raise UnknownName("engines.unknown_precision", precision, PRECISIONS)
        self.vocabularies = bundle.vocabularies
        self.precision = precision
        self.folder = export_to_cache(bundle, precision)
        self.shortlist, self.deterministic = shortlist, deterministic
        if shortlist and not (self.folder / interop.VOCABULARY_MAP).is_file():
            raise UsageError("engines.no_shortlist", folder=bundle.folder)
        shape = (machine.cores(), 1) if deterministic else choose_layout(self.folder, self._start)
        self.translator = self._start(*shape)
        vocabularies, (sources, targets) = bundle.vocabularies, bundle.sizes
        self.source = vocabularies.source.pieces(range(sources))
        self.target = self.source if vocabularies.joint else vocabularies.target.pieces(range(targets))
        self.number = {piece: number for number, piece in enumerate(self.target)}
        self.never = [[self.target[token]] for token in NEVER]
        self.special = frozenset(piece for (piece,) in self.never)

    def _list_prefix(self, bound: TokenConstraints) -> list[str]:
        """Return the pieces that a translation begins with; an incomplete word has its likeliest division."""
        return [self.target[i] for i in (*bound.prefix, *self.vocabularies.target.encode(bound.opening))]

    def _start(self, workers: int, threads: int) -> Any:
        torch = sys.modules.get("torch")  # CTranslate2 changes its number of threads
        before = torch.get_num_threads() if torch is not None else 0
        chosen = {"compute_type": self.precision, "inter_threads": workers, "intra_threads": threads}
        try:
            return interop.load_library().Translator(str(self.folder), "cpu", **chosen)
        except (RuntimeError, ValueError) as error:
            raise ModelFileError("engines.ctranslate2_cannot_read", reason=error, folder=self.folder) from None
        finally:
            if torch is not None:
                torch.set_num_threads(before)

    @property
    def description(self) -> str:
        return f"ctranslate2 {self.precision}{' with shortlist' if self.shortlist else ''}"

    def decode(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints] | None = None,
        numbers: Sequence[int] | None = None,
        details: bool = True,
        progress: Count = silent,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of every source (ids without END), best first, in the order given.

        `details` are the log-probabilities of the tokens, for which the hypotheses are scored again.  Without them
        greedy search gives no scores at all: they are nan.  There is no sampling, so `numbers` are for errors alone.
        """
        return self.submit(
            sources, options, constraints=constraints, numbers=numbers, details=details, progress=progress
        )()

    def submit(
        self,
        sources: Sequence[Ids],
        options: SearchOptions,
        *,
        constraints: Sequence[TokenConstraints] | None = None,
        numbers: Sequence[int] | None = None,
        details: bool = True,
        progress: Count = silent,
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Begin to decode in the background; the function waits for what `decode` returns."""
        check_request(self.name, self.supported, sources, options, constraints, numbers)
        bare = options.beam == 1 and not details
        rows = [[self.source[i] for i in ids] for ids in sources]
        prefixes = [self._list_prefix(bound) for bound in constraints or [UNCONSTRAINED] * len(rows)]
        limits = [len(row) + len(prefix) + options.extra_length for row, prefix in zip(rows, prefixes, strict=True)]
        if self.deterministic:
            each = zip(rows, prefixes, limits, strict=True)
            waiting = [self._search([row], [prefix], limit, options, bare)[0] for row, prefix, limit in each]
        else:
            waiting = self._search(rows, prefixes, max(limits, default=1), options, bare)

        def collect() -> list[list[Hypothesis]]:
            hypotheses = []
            for row, prefix, limit, running in zip(rows, prefixes, limits, waiting, strict=True):
                result = running.result()
                too_long = max(map(len, result.hypotheses)) > limit  # the limit of its batch is that of the longest
                if too_long or (bare and not self.special.isdisjoint(result.hypotheses[0])):
                    result = self._search([row], [prefix], limit, options)[0].result()
                hypotheses.append(self._rank(result, options))
                progress(1)
            return self._add_details(sources, hypotheses, options) if details else hypotheses

        return collect

    def _search(
        self, rows: list[list[str]], prefixes: list[list[str]], limit: int, options: SearchOptions, bare: bool = False
    ) -> list[Any]:
        """Begin a search; a `bare` one is without scores and allows every token."""
        running: list[Any] = self.translator.translate_batch(
            rows,
            target_prefix=prefixes if any(prefixes) else None,
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=1.0 if options.beam > 1 else 0.0,
            max_decoding_length=limit,
            min_decoding_length=options.min_length,
            no_repeat_ngram_size=options.no_repeat,
            max_batch_size=SHORT_BATCH if self.shortlist else BATCH if options.beam == 1 else BEAM_BATCH,
            batch_type="tokens",
            max_input_length=0,
            suppress_sequences=None if bare else self.never,
            use_vmap=self.shortlist,
            return_scores=not bare,
            return_end_token=True,
            asynchronous=True,
        )
        return running

    def _rank(self, result: Any, options: SearchOptions) -> list[Hypothesis]:
        """Return the hypotheses of one sentence by the paper's score."""
        if not result.scores:
            return [Hypothesis(tuple([self.number[piece] for piece in result.hypotheses[0]]), nan, nan, scored=False)]
        hypotheses = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            ids = tuple([self.number[piece] for piece in pieces])
            total = score * len(ids) if options.beam > 1 else score
            hypotheses.append(Hypothesis(ids, penalize(total, len(ids), options.length_penalty), total))
        return sorted(hypotheses, key=lambda h: -h.score)[: options.n_best]

    def _add_details(
        self, sources: Sequence[Ids], hypotheses: list[list[Hypothesis]], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """Add the log-probability of every token, over the whole vocabulary."""
        pairs = [(source, h.body) for source, several in zip(sources, hypotheses, strict=True) for h in several]
        scored = iter(self.score(pairs, length_penalty=options.length_penalty))
        return [
            sorted((match_end(next(scored), h, options.length_penalty) for h in several), key=lambda h: -h.score)
            for several in hypotheses
        ]

    def score(self, pairs: Sequence[tuple[Ids, Ids]], *, length_penalty: float = 0.6) -> list[Hypothesis]:
        """Return the model's scores of given translations, in the order given."""
        if not pairs:
            return []
        check_lengths([source for source, _ in pairs])
        results = self.translator.score_batch(
            [[self.source[i] for i in source] for source, _ in pairs],
            [[self.target[i] for i in target] for _, target in pairs],
            max_batch_size=1 if self.deterministic else BATCH,
            batch_type="examples" if self.deterministic else "tokens", max_input_length=0,
        )  # fmt: skip
        return [
            Hypothesis.scored_by((*target, END), result.log_probs, length_penalty)
            for (_, target), result in zip(pairs, results, strict=True)
        ]


def match_end(scored: Hypothesis, hypothesis: Hypothesis, length_penalty: float) -> Hypothesis:
    """Return a scored hypothesis, without its END if the search reached its limit before it."""
    if hypothesis.ended:
        return scored
    return Hypothesis.scored_by(hypothesis.ids, scored.token_scores[: len(hypothesis.ids)], length_penalty)


def export_to_cache(bundle: Bundle, precision: str) -> Path:
    """Return the folder of the model in CTranslate2's format, exported into the user's cache if it is not there."""
    cache = user_cache.own("ctranslate2")
    if cache is None:
        raise DiskError("engines.no_cache")
    manifest = (bundle.folder / bundles.MANIFEST).read_bytes()  # it has the hash of the weights
    version = f"{FORMAT} {interop.load_library().__version__} {precision} ".encode()
    folder = cache / hashlib.sha256(version + manifest).hexdigest()[:32]
    try:
        bundles.verify(folder, ("model.bin",))
        os.utime(folder)
    except (ModelFileError, OSError):
        export(bundle, folder, precision)
        user_cache.prune(cache, keep=CACHED)
    return folder


def export(bundle: Bundle, folder: Path, precision: str) -> None:
    """Export a model into a folder that is complete or absent."""
    from jumok.interop.ctranslate2 import export_bundle  # imports numpy, which this engine does not need

    with bundles.replace_folder(folder) as draft:
        export_bundle(bundle, draft, precision=precision)


def choose_layout(folder: Path, start: Callable[[int, int], Any]) -> tuple[int, int]:
    """Return the numbers of workers and of threads per worker that are fastest on this machine; measured once."""
    cores = machine.cores()
    file = folder / f"layout-{cores}.json"
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
        return int(saved["workers"]), int(saved["threads"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if cores == 1:
        return 1, 1
    seconds = {shape: probe(start(*shape)) for shape in list_layouts(cores)}
    workers, threads = min(seconds, key=seconds.__getitem__)
    with contextlib.suppress(OSError):  # it is measured again next time
        file.write_text(json.dumps({"workers": workers, "threads": threads}), encoding="utf-8")
    return workers, threads


def list_layouts(cores: int) -> list[tuple[int, int]]:
    """List the numbers of workers and threads that divide the cores, those with one thread per worker first."""
    return [(cores // threads, threads) for threads in sorted({1, 2, cores}) if cores // threads]


def probe(translator: Any, *, sentences: int = 24, length: int = 12) -> float:
    """Return the seconds for sentences of unknown words, all of one length; the better of two runs."""
    rows = [["<unk>"] * length] * sentences
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        translator.translate_batch(
            rows, beam_size=1, min_decoding_length=length, max_decoding_length=length, max_batch_size=length * 6,
            batch_type="tokens",
        )  # fmt: skip
        seconds.append(time.perf_counter() - began)
    return min(seconds)
