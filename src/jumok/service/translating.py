"""The models of an engine process: from a group of waiting sentences to translations as plain values of a frame."""

from __future__ import annotations

import time
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.blocks import Block
from jumok.config.search import Constraints, SearchOptions
from jumok.decoding.hypothesis import Hypothesis
from jumok.engines.options import LONGEST_SOURCE, EngineOptions
from jumok.errors import JumokError
from jumok.service.faults import find_faults
from jumok.service.follow import find_newest
from jumok.service.values import WARM_TEXT, pack_translation
from jumok.storage import bundle as bundles
from jumok.text.vocabulary import END
from jumok.translation import Contents
from jumok.translator import Translator

ROWS = 48  # hypotheses that a thread works on at a time, as in the kernels
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

        The native process leaves those alone whose recipe alone would load torch; the process with `torch` loads only
        these, and any other when it is first used.
        """
        others = {name for name, entry in self.listed.items() if needs_torch(Path(entry["folder"]))}
        return [self._load(name) for name in self.listed if (name in others) == torch]

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
    languages = getattr(bundle, "languages", None)
    usual = translator.options()
    return {
        "digest": bundles.manifest(bundle.folder)[bundles.WEIGHTS]["sha256"],
        "card": bundle.card,
        "kind": bundle.recipe.model.kind,
        "languages": None if languages is None else list(map(str, languages)),
        "text": bundle.recipe.data.text is not None,
        "engine": None if fast is None else fast.description,
        "features": [] if fast is None else sorted(fast.supported),
        "calls": [] if fast is None else sorted(name for name in NATIVE_CALLS if hasattr(fast, name)),
        "options": [usual.beam, usual.length_penalty, usual.extra_length],
        "most": LONGEST_SOURCE,
    }


NATIVE_CALLS = ("align", "alternatives", "score")  # methods of the fast engine, where it has them


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


def translate(
    translator: Translator, texts: Sequence[str], asked: Sequence[Sentence], stops: Sequence[int]
) -> list[Reply]:
    """Return a reply for every text; all ask for the same options and contents.

    `stops` are the addresses of their stop flags.  A text whose error concerns it alone does not fail the others.
    """
    replies: list[Reply | None] = [find_too_long(translator, text) for text in texts]
    rows = [row for row, reply in enumerate(replies) if reply is None]
    if rows:
        try:
            good = _translate_block(
                translator, [texts[row] for row in rows], [asked[row] for row in rows], [stops[row] for row in rows]
            )
        except JumokError as error:
            if len(rows) == 1:
                good = [refuse(error)]
            else:  # one of them is the reason
                good = [translate(translator, [texts[row]], [asked[row]], [stops[row]])[0] for row in rows]
        except Exception:  # a bug must not end the thread
            traceback.print_exc()
            good = [["failed"]] * len(rows)
        for row, reply in zip(rows, good, strict=True):
            replies[row] = reply
    return [reply for reply in replies if reply is not None]


def find_too_long(translator: Translator, text: str) -> Reply | None:
    """Return the reply to a text with more subwords than are read; engines would cut it."""
    if BYTES * len(text) < LONGEST_SOURCE:
        return None
    tokens = len(translator.vocabularies.source.encode(text.encode("utf-8", "replace").decode()))
    return ["too_long", tokens, LONGEST_SOURCE] if tokens > LONGEST_SOURCE else None


def _translate_block(
    translator: Translator, texts: Sequence[str], asked: Sequence[Sentence], stops: Sequence[int]
) -> list[Reply]:
    options, contents = asked[0].options, asked[0].contents
    constraints: Any = {}
    if any(one.constraints for one in asked):
        each = [one.constraints for one in asked]
        constraints = {name: [getattr(one, name) for one in each] for name in ("prefix", "require", "forbid")}
        constraints = {name: values for name, values in constraints.items() if any(values)}
    block = Block(translator.vocabularies, texts, options, constraints, contents, first=0)
    ranked: dict[int, list[Hypothesis]] = {}
    hypotheses = []
    for group in block.groups:
        engine = translator.engines.choose(*group[1:])
        decoded = engine.decode(**block.list_arguments(group, _ignore))
        hypotheses.append(decoded)
        ranked.update(zip(group.rows, decoded, strict=True))
    translations = translator._finish(block, hypotheses)
    replies = []
    for row, (text, translation) in enumerate(zip(texts, translations, strict=True)):
        ended, tokens = True, 0
        if row in ranked:
            best = ranked[row][0] if block.is_bare else block.choose(row, ranked[row])[0]
            ended, tokens = best.ids[-1:] == (END,), len(best.ids)
        faults = find_faults(text, translation.text, ended=ended)
        replies.append(["ok", pack_translation(translation, text), faults, len(block.sources[row]), tokens])
    return replies


def refuse(error: JumokError) -> Reply:
    """Return the reply that says why the engine does not do what is asked."""
    return ["refused", type(error).__name__, error.what, error.where, error.hint]


def _ignore(count: int) -> None:
    """Progress is reported by the group."""
