"""The models of an engine process: from a group of waiting sentences to translations as plain values of a frame."""

from __future__ import annotations

import re
import time
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jumok.blocks import Block
from jumok.config.search import LONGEST_SOURCE, Constraints, EngineOptions, SearchOptions, silent
from jumok.config.sections import DataConfig
from jumok.decoding.hypothesis import Hypothesis
from jumok.documents.guards import find_faults
from jumok.engines.native_engine import NativeEngine
from jumok.errors import JumokError, MissingPackage
from jumok.service.follow import find_newest
from jumok.service.values import WARM_TEXT, pack_translation
from jumok.storage import bundle as bundles
from jumok.text.vocabulary import END
from jumok.translation import Contents
from jumok.translator import Translator

ROWS = 48  # hypotheses that a thread works on at a time, as in the kernels
WIDEST = 1 + 4 * LONGEST_SOURCE  # of the buffer for the tokens of a translation that is reported while it grows
NOTHING = Hypothesis((END,), 0.0, 0.0, (0.0,))  # of a sentence that was stopped
BYTES = 4  # most subwords of a character


@dataclass(frozen=True)
class Sentence:
    """What is asked of a sentence besides its text."""

    model: str
    options: SearchOptions
    contents: Contents
    constraints: Constraints
    live: bool = False  # report the translation while it is being made


class Models:
    """The models of a process, by name."""

    def __init__(self, listed: Sequence[Mapping[str, Any]], options: EngineOptions) -> None:
        self.options, self.listed = options, {str(entry["name"]): entry for entry in listed}
        self.translators: dict[str, Translator] = {}

    def load(self, *, torch: bool) -> list[dict[str, Any]]:
        """Load models; return what the front process needs to know of each.

        The native process leaves out those that only torch can run; the process with `torch` loads these at once, and
        any other when it is first used.
        """
        if torch:
            return [self._load(name) for name, entry in self.listed.items() if entry["eager"]]
        described = []
        for name, entry in self.listed.items():
            if not needs_torch(Path(entry["folder"])):
                with suppress(MissingPackage):
                    described.append(self._load(name))
        return described

    def _load(self, name: str) -> dict[str, Any]:
        entry = self.listed[name]
        folder = Path(entry["folder"])
        try:
            bundle = find_newest(folder) if entry["follow"] else bundles.read(folder)
        except JumokError:
            if entry["follow"]:  # the run has not saved a model yet
                return {"name": name, "digest": None}
            raise
        translator = self.translators[name] = Translator(bundle, options=self.options)
        return {"name": name, **describe(translator), "seconds": warm(translator)}

    def get(self, name: str) -> Translator:
        """Return a model, which is loaded now if it was not."""
        if name not in self.translators:
            self._load(name)
        return self.translators[name]


def describe(translator: Translator) -> dict[str, Any]:
    """Return what the front process needs to know of a model."""
    bundle, fast = translator.bundle, translator.fast
    usual = translator.options()
    return {
        "digest": bundles.manifest(bundle.folder)[bundles.WEIGHTS]["sha256"],
        "card": bundle.card,
        "kind": bundle.recipe.model.kind,
        "texts": name_texts(bundle.recipe.data),
        "languages": bundle.languages,
        "text": bundle.recipe.data.text is not None,
        "engine": None if fast is None else fast.description,
        "features": [] if fast is None else sorted(fast.supported),
        "calls": [] if fast is None else sorted(name for name, method in NATIVE_CALLS.items() if hasattr(fast, method)),
        "options": [usual.beam, usual.length_penalty, usual.extra_length],
        "most": LONGEST_SOURCE,
    }


def name_texts(data: DataConfig) -> list[str]:
    """Return the names of the texts that a model has learned from, without their folders."""
    some = (data.corpus, data.source, data.target, data.table, *(corpus.name for corpus in data.corpora))
    return [re.split(r"[/\\\\]", str(one))[-1] for one in some if one]


NATIVE_CALLS = {  # call -> attribute of the fast engine that it needs
    "align": "align",
    "alternatives": "alternatives",
    "block": "packed",
    "break": "packed",
    "choices": "alternatives",
    "cost": "packed",
    "count": "decode",
    "inside": "packed",
    "score": "score",
    "steps": "packed",
    "unknown": "decode",
    "warm": "packed",
}


def warm(translator: Translator) -> float:
    """Translate a sentence twice; return the seconds of the second time, 0 where torch would be needed."""
    if translator.fast is None or translator.recipe.data.text is not None:
        return 0.0
    translator.translate(WARM_TEXT, details=False)
    began = time.perf_counter()
    translator.translate(WARM_TEXT, details=False)
    return time.perf_counter() - began


def needs_torch(folder: Path) -> bool:
    """Return whether a model is of a kind whose recipe only torch can read; an unreadable one is not."""
    for path in (folder / "model", folder):
        try:
            content = tomllib.loads((path / "recipe.toml").read_text(encoding="utf-8"))
            return str(content["model"].get("kind", "transformer")) != "transformer"
        except (OSError, ValueError, KeyError, AttributeError):
            continue
    return False


def group_size(options: SearchOptions) -> int:
    """Return how many sentences a thread takes at a time."""
    return max(1, ROWS // options.beam)


Reply = list[Any]  # how a sentence ended, and what is said about it


class Desk(Protocol):
    """What a thread works on, as others see it."""

    def find_flags(self, rows: Sequence[int]) -> list[int]:
        """Return the addresses of the stop flags of these sentences of the group."""
        ...

    def is_stopped(self, row: int) -> bool:
        """Return whether a sentence of the group was given up."""
        ...

    def show(self, ids: np.ndarray, decode: Callable[[Sequence[int]], str]) -> AbstractContextManager[None]:
        """Report the text of a sentence while the search writes its ids."""
        ...


def translate(translator: Translator, texts: Sequence[str], asked: Sequence[Sentence], desk: Desk) -> list[Reply]:
    """Return a reply for every text; all ask for the same model, options, contents and kinds of constraints.

    A text whose error concerns it alone does not fail the others.
    """
    replies = {row: reply for row, text in enumerate(texts) if (reply := find_too_long(translator, text)) is not None}
    rows = [row for row in range(len(texts)) if row not in replies]
    try:
        if rows:
            replies |= _translate_rows(translator, texts, asked, rows, desk)
    except JumokError as error:
        if len(rows) == 1:
            replies[rows[0]] = refuse(error)
        else:  # one of them is the reason
            for row in rows:
                replies |= _translate_one(translator, texts, asked, row, desk)
    except Exception:  # a bug must not end the thread
        traceback.print_exc()
        replies |= {row: ["failed"] for row in rows}
    return [replies[row] for row in range(len(texts))]


def _translate_one(
    translator: Translator, texts: Sequence[str], asked: Sequence[Sentence], row: int, desk: Desk
) -> dict[int, Reply]:
    try:
        return _translate_rows(translator, texts, asked, [row], desk)
    except JumokError as error:
        return {row: refuse(error)}


def find_too_long(translator: Translator, text: str) -> Reply | None:
    """Return the reply to a text with more subwords than are read; engines would cut it."""
    if BYTES * len(text) < LONGEST_SOURCE:
        return None
    tokens = len(translator.vocabularies.source.encode(text.encode("utf-8", "replace").decode()))
    return ["too_long", tokens, LONGEST_SOURCE] if tokens > LONGEST_SOURCE else None


def make_block(translator: Translator, texts: Sequence[str], asked: Sequence[Sentence]) -> Block:
    """Return texts with what is asked of them, ready to be searched."""
    each = [one.constraints for one in asked]
    values = {name: [getattr(one, name) for one in each] for name in ("prefix", "require", "forbid")}
    constraints: Any = {name: some for name, some in values.items() if any(some)}
    return Block(translator.vocabularies, texts, asked[0].options, constraints, asked[0].contents, first=0)


def _translate_rows(
    translator: Translator, texts: Sequence[str], asked: Sequence[Sentence], rows: Sequence[int], desk: Desk
) -> dict[int, Reply]:
    """Translate some of the texts together."""
    engine = translator.fast
    assert isinstance(engine, NativeEngine)
    block = make_block(translator, [texts[row] for row in rows], [asked[row] for row in rows])
    replies: dict[int, Reply] = {}
    hypotheses, best = [], dict[int, list[Hypothesis]]()
    for group in block.groups:
        stops = desk.find_flags([rows[row] for row in group.rows])
        arguments = block.list_arguments(group, silent) | {"threads": 1, "stops": stops}
        if asked[rows[0]].live:
            arguments["live"] = live = np.zeros((1, WIDEST), np.int64)
            with desk.show(live[0], translator.vocabularies.target.decode):
                decoded = engine.decode(**arguments)
        else:
            decoded = engine.decode(**arguments)
        for number, row in enumerate(group.rows):
            if not decoded[number] and desk.is_stopped(rows[row]):
                replies[rows[row]], decoded[number] = ["stopped"], [NOTHING]
        hypotheses.append(decoded)
        best |= zip(group.rows, decoded, strict=True)
    for row, translation in enumerate(translator.finish(block, hypotheses)):
        text, ended, tokens = texts[rows[row]], True, 0
        if row in best:
            chosen = best[row][0] if block.is_bare else block.choose(row, best[row])[0]
            ended, tokens = chosen.ended, len(chosen.ids)
        faults = find_faults(text, translation.text, ended=ended)
        answer = ["ok", pack_translation(translation, text), faults, len(block.sources[row]), tokens]
        replies.setdefault(rows[row], answer)
    return replies


def refuse(error: JumokError) -> Reply:
    """Return the reply that says why the engine does not do what is asked."""
    return ["refused", type(error).__name__, error.what, error.where, error.hint]
