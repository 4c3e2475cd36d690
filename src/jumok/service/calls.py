"""Calls besides plain translating: what each does in an engine process, and how its result travels in a frame.

`dispatch.needs_torch` says which of them may start the engine process with torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumok.config.search import SearchOptions
from jumok.documents.guards import find_faults
from jumok.errors import UnknownName
from jumok.service.admission import SENTENCE, count_units
from jumok.service.values import (
    WARM_TEXT,
    pack_attention,
    pack_options,
    pack_translation,
    unpack_attention,
    unpack_constraints,
    unpack_options,
    unpack_translation,
)
from jumok.text.known import FILE, KnownWords
from jumok.translation import Contents, Translation, Word

if TYPE_CHECKING:
    from jumok.translator import Translator

Arguments = Mapping[str, Any]
CHUNK = 8  # sentences that torch translates between two looks at the stop flag


class Stopped(Exception):
    """Nobody waits for the result any more."""


def pack_arguments(arguments: Arguments) -> dict[str, Any]:
    """Return the arguments of a call as plain values."""
    values = dict(arguments)
    if isinstance(options := values.get("options"), SearchOptions):
        values["options"] = pack_options(options)
    return values


def unpack_arguments(values: Arguments) -> dict[str, Any]:
    arguments = {name: value for name, value in values.items() if value is not None}
    if "options" in arguments:
        arguments["options"] = unpack_options(arguments["options"])
    return arguments


def run(
    translator: Translator, verb: str, values: Arguments, stopped: Callable[[], bool], report: Callable[[str], None]
) -> Any:
    """Run a call; return its result as plain values.  `report` gets the text so far of one that streams."""
    arguments = unpack_arguments(values)
    return RUN[verb](translator, arguments, stopped, report)


def _watch(parts: Iterator[str], stopped: Callable[[], bool], report: Callable[[str], None]) -> str:
    """Return the text of a stream, reporting its growth."""
    text = ""
    for part in parts:
        if stopped():
            raise Stopped
        text += part
        report(text)
    return text


def _translate(translator: Translator, given: dict[str, Any], stopped: Callable[[], bool], report: Any) -> Any:
    from jumok.storage.bundle import WEIGHTS, manifest

    texts, contents = given["texts"], Contents(*given["contents"])
    each = [unpack_constraints(values) for values in given["constraints"]]
    names = [name for name in ("prefix", "require", "forbid") if any(getattr(one, name) for one in each)]
    results: list[Translation] = []
    for start in range(0, len(texts), CHUNK):
        if stopped():
            raise Stopped
        part = slice(start, start + CHUNK)
        constraints: dict[str, Any] = {name: [getattr(one, name) for one in each[part]] for name in names}
        results += translator.lines(
            texts[part], chunk=CHUNK + 1, first=start, options=given["options"], **vars(contents), **constraints
        )
    digest = manifest(translator.folder)[WEIGHTS]["sha256"]
    return digest, [
        (pack_translation(one, text), find_faults(text, one.text, ended=one.tokens[-1:] != ()))
        for one, text in zip(results, texts, strict=True)
    ]


def _stream(translator: Translator, given: dict[str, Any], stopped: Callable[[], bool], report: Any) -> Any:
    options = replace(given["options"], beam=1, n_best=1)
    return _watch(translator.stream(given["text"], options=options), stopped, report)


def _generate(translator: Translator, given: dict[str, Any], stopped: Callable[[], bool], report: Any) -> Any:
    return _watch(translator.generate(**given), stopped, report)


def _alternatives(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    return [pack_translation(one, given["text"]) for one in translator.alternatives(**given)]


def _choices(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.engines.choices import find_choices

    vocabularies = translator.vocabularies
    target = vocabularies.target.find_ids(given["tokens"])
    engine: Any = translator.engines.forcing  # native or torch: both take prefixes
    is_native = getattr(engine, "name", "") == "native"
    decode = partial(engine.decode, threads=1) if is_native else engine.decode  # one call, one core
    words = find_choices(decode, vocabularies.target, vocabularies.source.encode(given["text"]), target, given["count"])
    return [[[word.text, word.probability] for word in some] for some in words]


def _unknown(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    known = _read_known_words(translator.folder)
    return None if known is None else [known.find_unknown(text) for text in given["texts"]]


@cache
def _read_known_words(folder: Path) -> KnownWords | None:
    """Return the words that a model has read; None where it does not say.  A process never sees another version."""
    from jumok.storage.bundle import manifest

    return KnownWords((folder / FILE).read_bytes()) if FILE in manifest(folder) else None


def _score(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    return [pack_translation(one) for one in translator.score(**given)]


def _align(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    return translator.align(**given)


def _graph(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    options: SearchOptions | None = given.pop("options", None)
    return translator.graph(**given, **({} if options is None else vars(options)))


def _attention(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    options: SearchOptions | None = given.pop("options", None)
    return pack_attention(translator.attention(**given, **({} if options is None else vars(options))))


def _count(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    """Return the number of subwords of each text: of sources, or of targets."""
    side = translator.vocabularies.source if given["side"] == "source" else translator.vocabularies.target
    return [len(side.encode(text)) if text else 0 for text in given["texts"]]


def _fill(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    return [[[word.text, word.probability] for word in words] for words in translator.fill(**given)]


def _warm(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.inside.inspector import find_inspector
    from jumok.inside.views import overview

    began = time.monotonic()
    if find_inspector(translator).outline.speaks:
        overview(translator, WARM_TEXT)
    return {"ready": True, "seconds": round(time.monotonic() - began, 3)}


def _inside(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.inside.views import overview

    return overview(translator, **_read_edits(given))


def _block(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.inside.views import block

    return block(translator, **_read_edits(given))


def _steps(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.inside.views import steps

    return steps(translator, **_read_edits(given))


def _break(translator: Translator, given: dict[str, Any], stopped: Any, report: Any) -> Any:
    from jumok.inside.breaking import compare

    return compare(translator, **_read_edits(given))


def _cost(translator: Translator, given: dict[str, Any], stopped: Callable[[], bool], report: Any) -> Any:
    from jumok.inside.scoring import score
    from jumok.inside.subject import read_validation

    def check() -> None:
        if stopped():
            raise Stopped

    edits, pairs = _read_edits(given)["edits"], read_validation(translator)
    return {"of": len(pairs)} | score(translator, pairs[: given["pairs"]], edits, check).to_json()


def _read_edits(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with its edits as their value."""
    from jumok.inside.edits import Edits

    return given | {"edits": Edits.of(given.get("edits") or {})}


RUN: dict[str, Callable[[Translator, dict[str, Any], Callable[[], bool], Callable[[str], None]], Any]] = {
    "translate": _translate,
    "stream": _stream,
    "generate": _generate,
    "alternatives": _alternatives,
    "choices": _choices,
    "unknown": _unknown,
    "score": _score,
    "align": _align,
    "graph": _graph,
    "attention": _attention,
    "count": _count,
    "fill": _fill,
    "warm": _warm,
    "inside": _inside,
    "block": _block,
    "steps": _steps,
    "break": _break,
    "cost": _cost,
}
PUBLIC = (
    "align", "alternatives", "attention", "block", "break", "choices", "cost", "count", "fill", "generate", "graph",
    "inside", "score", "steps", "unknown", "warm",
)  # fmt: skip  # verbs of `Service.call`
EFFORT = {"block": 4, "break": 6, "inside": 5, "steps": 20}  # times the work of a translation, where it is more
PAIR = 2 * (60 + SENTENCE)  # units of a pair that is scored with and without edits


def count_work(verb: str, arguments: Arguments) -> int:
    """Return the units of work of a call (admission.py); 0 where it tells nothing about the speed."""
    if verb == "warm":
        return 0
    if verb == "cost":
        return PAIR * int(arguments["pairs"])
    return EFFORT.get(verb, 1) * count_units(_list_texts(arguments))


def _list_texts(arguments: Arguments) -> list[str]:
    """Return the strings among the arguments of a call."""
    texts = []
    for value in arguments.values():
        several = value if isinstance(value, list) else [value]
        texts += [one for one in several if isinstance(one, str)]
    return texts


def check_verb(verb: str) -> None:
    """Refuse a verb that is not in the table."""
    if verb not in PUBLIC:
        raise UnknownName("service.unknown_verb", verb, PUBLIC)


def unpack_result(verb: str, result: Any, arguments: Arguments) -> Any:
    """Return the result of a call as the values that Python programs get from `Translator`."""
    if verb in ("alternatives", "score"):
        return [unpack_translation(one, arguments.get("text", "")) for one in result]
    if verb == "align":
        return [tuple((link[0], link[1]) for link in links) for links in result]
    if verb == "attention":
        return unpack_attention(result)
    if verb in ("choices", "fill"):
        return [[Word(*word) for word in words] for words in result]
    return result
