"""The path of every API: texts to documents, documents to sentences, sentences to translations and back.

    results = await translate(front, Order(texts=("Hello.",), source="en", target="de"), deadline=…)

A text is translated sentence by sentence; what is between the sentences, tags and white space included, stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from jumok import documents
from jumok.config.search import LONGEST_SOURCE, Constraints, SearchOptions
from jumok.server.languages import Guess, pair_of
from jumok.server.refusals import Refusal
from jumok.service.values import TEXT, Answer, Ask
from jumok.translation import Contents, Translation

if TYPE_CHECKING:
    from jumok.documents.glossary import Glossary
    from jumok.server.front import Front
    from jumok.service.models import ServedModel

FREE = Constraints()
Form = Literal["text", "html", "xml", "sentence"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be translated, and how."""

    texts: Sequence[str]
    source: str | None  # None detects the language of each text
    target: str
    model: str | None = None  # by name; else by languages
    form: Form = "text"
    reading: Mapping[str, Any] = field(default_factory=dict)  # options of documents.read_xml
    options: Mapping[str, Any] = field(default_factory=dict)  # keywords of a search
    constraints: Constraints = FREE
    glossaries: Sequence[Glossary] = ()
    contents: Contents = TEXT
    alternatives: int = 0
    bulk: bool = False


@dataclass(frozen=True)
class Result:
    """One text and its translation."""

    text: str
    source: str  # language
    target: str
    confidence: float  # of the language, from 0 to 100; 100 where it was given
    answers: Sequence[Answer] = ()  # of its sentences
    alternatives: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """One text on its way: what it consists of, and who translates it."""

    guess: Guess
    model: ServedModel | None  # None where the text is in the target language already
    document: documents.Document
    asks: Sequence[Ask]


async def translate(front: Front, order: Order, *, deadline: float) -> list[Result]:
    """Translate the texts of an order; all models that it needs work at the same time."""
    check_sizes(front, order.texts)
    if order.source is None and order.model is None:
        await front.languages.warm_up(deadline)
    parts = [read(front, order, text) for text in order.texts]
    by_model: dict[str, list[Ask]] = {}
    for part in parts:
        if part.model is not None:
            by_model.setdefault(part.model.name, []).extend(part.asks)
    names = list(by_model)
    running = (front.service.translate(name, by_model[name], deadline=deadline, bulk=order.bulk) for name in names)
    answers = dict(zip(names, map(iter, await asyncio.gather(*running)), strict=True))
    results = []
    for text, part in zip(order.texts, parts, strict=True):
        if part.model is None:
            results.append(Result(text, part.guess.language, order.target, part.guess.confidence))
            continue
        own = [next(answers[part.model.name]) for _ in part.asks]
        results.append(render(order, part, own))
    return results


def check_sizes(front: Front, texts: Sequence[str]) -> None:
    """Refuse more than a request may hold."""
    limits = front.settings.limits
    if len(texts) > limits.texts:
        raise Refusal(400, "server.too_many_texts", texts=len(texts), limit=limits.texts)
    longest = max(map(len, texts), default=0)
    if longest > limits.characters:
        raise Refusal(400, "server.too_many_characters", characters=longest, limit=limits.characters)
    if (total := sum(map(len, texts))) > limits.total_characters:
        raise Refusal(400, "server.too_many_characters", characters=total, limit=limits.total_characters)


def read(front: Front, order: Order, text: str) -> Part:
    """Split a text into the sentences to translate."""
    guess, model = choose_model(front, order, text)
    document = read_document(order, text, guess.language)
    if model is None:
        return Part(guess, None, document, ())
    options = choose_options(front, model, order)
    return Part(
        guess, model, document, [ask_for(order, segment, options, guess.language) for segment in document.segments]
    )


def choose_model(front: Front, order: Order, text: str) -> tuple[Guess, ServedModel | None]:
    """Return the language of a text and the model that translates it; none where it is in the target language."""
    if order.model is not None:
        model = front.service.models[order.model]
        return Guess(order.source or model.source or "und", 100.0), model
    guess = Guess(order.source, 100.0) if order.source is not None else guess_source(front, text, order.target)
    return guess, None if guess.language == order.target else find_model(front, guess.language, order.target)


def guess_source(front: Front, text: str, target: str) -> Guess:
    """Return the language of a text that is to be translated; the first model's where nothing tells."""
    served = front.languages
    among = list(dict.fromkeys([*(one for one, other in served.pairs if other == target), target]))
    guess = next(iter(served.detect(text, among)), Guess(among[0], 0.0))
    return guess if guess.confidence else Guess(among[0], 0.0)


def find_model(front: Front, source: str, target: str) -> ServedModel:
    """Return the first model of a pair of languages."""
    for model in front.service.models.values():
        if pair_of(model) == (source, target):
            return model
    raise Refusal(400, "server.unknown_pair", source=source, target=target)


def read_document(order: Order, text: str, language: str) -> documents.Document:
    """Return a text as a document of its form."""
    if order.form == "html":
        return documents.read_html(text, language, longest=fits)
    if order.form == "xml":
        return documents.read_xml(text, language, longest=fits, **order.reading)
    if order.form == "sentence":
        return documents.read_text(text, language, sentences=False, newlines="join")
    return documents.read_text(text, language, longest=fits, **order.reading)


def fits(sentence: str) -> bool:
    """Whether any model can read a sentence as a whole: a subword has at least one byte."""
    return len(sentence.encode("utf-8", "replace")) + sentence.count(" ") < LONGEST_SOURCE


def choose_options(front: Front, model: ServedModel, order: Order) -> SearchOptions:
    """Return how to search: the model's own way, changed by the server's settings and then by the order."""
    usual = front.settings
    options = model.options.change(beam=usual.beam, length_penalty=usual.length_penalty)
    given = dict(order.options)
    if order.alternatives:
        given["n_best"] = max(order.alternatives + 1, given.get("n_best") or 1)
    return options.change(**given)


def ask_for(order: Order, segment: documents.Segment, options: SearchOptions, language: str) -> Ask:
    """Return one sentence with what is asked of it; terms of a glossary are required."""
    terms = tuple(term.target for glossary in order.glossaries for term in glossary.find(segment.text, language))
    constraints = order.constraints
    if terms:
        constraints = replace(constraints, require=tuple(dict.fromkeys((*constraints.require, *terms))))
    contents = replace(order.contents, align=True) if segment.align else order.contents
    return Ask(segment.text, options, constraints, contents)


def render(order: Order, part: Part, answers: Sequence[Answer]) -> Result:
    """Return the translation of a text from those of its sentences."""
    best = [answer.translation for answer in answers]
    text = part.document.render(best)
    others = list[str]()
    if order.form in ("text", "sentence"):
        for number in range(order.alternatives):
            if any(len(one.alternatives) > number for one in best):
                others.append(part.document.render([pick(one, number) for one in best]))
    distinct = [other for other in dict.fromkeys(others) if other and other != text]
    return Result(text, part.guess.language, order.target, part.guess.confidence, answers, distinct)


def pick(translation: Translation, number: int) -> Translation:
    """Return an alternative of a sentence, or the best where there are not so many."""
    return translation.alternatives[number] if number < len(translation.alternatives) else translation


def describe(results: Sequence[Result]) -> dict[str, str]:
    """Return the headers that say which model answered, and whether all of it came from the cache."""
    answers = [answer for result in results for answer in result.answers]
    if not answers:
        return {}
    digests = dict.fromkeys(answer.digest[:16] for answer in answers)
    cached = sum(answer.cached for answer in answers)
    share = f"{'hit' if cached == len(answers) else 'miss'}; {cached}/{len(answers)}"
    return {"x-model": ",".join(digests), "x-cache": share}
