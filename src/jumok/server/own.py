"""Our own API, /v1: everything that a translator can do.

Texts come as `text` (one) or `texts` (a list); languages as `source` and `target`, or a model by `model`.  Which calls
may start the engine process with torch is in SLOW: the first of them takes a few seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jumok.config.search import Constraints, SearchOptions
from jumok.documents.glossary import Glossary
from jumok.errors import UsageError
from jumok.server.languages import AUTO, name_in, pair_of
from jumok.server.refusals import Refusal, own_shape
from jumok.server.routes import Api, Call, Route
from jumok.server.translating import Form, Order, Result, check_sizes, choose_options, describe, translate
from jumok.service.models import ServedModel
from jumok.service.values import Answer
from jumok.translation import Contents, Translation

API = Api("own", "Jumok", own_shape)
SLOW = ("sample", "mbr", "coverage", "groups", "attention", "graph", "alternatives after a prefix")


class Closed(BaseModel):
    """An unknown parameter is an error: a misspelt option is never ignored."""

    model_config = ConfigDict(extra="forbid")


class Search(Closed):
    """Options of a search; those that are not given are the model's."""

    beam: int | None = Field(default=None, ge=1)
    length_penalty: float | None = Field(default=None, ge=0, le=10)
    n_best: int | None = Field(default=None, ge=1, description="Translations of each sentence.")
    min_length: int | None = Field(default=None, ge=0, le=10_000)
    extra_length: int | None = Field(default=None, ge=1, le=10_000)
    no_repeat: int | None = Field(default=None, ge=0, le=100, description="Length of n-grams that are never repeated.")
    groups: int | None = Field(default=None, ge=1)
    diversity: float | None = Field(default=None, ge=0, le=100)
    coverage: float | None = Field(default=None, ge=0, le=100)
    exact: bool | None = None
    sample: bool | None = None
    temperature: float | None = Field(default=None, ge=0, le=100)
    top_k: int | None = Field(default=None, ge=0, le=1_000_000)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    mbr: int | None = Field(default=None, ge=0)


class Where(Closed):
    """Which model answers."""

    model: str | None = Field(default=None, description="Name of a model; else the languages choose one.")
    source: str | None = Field(default=None, description="Language of the text; auto or nothing detects it.")
    target: str | None = None


class TranslateRequest(Where, Search):
    text: str | None = None
    texts: list[str] | None = None
    format: Literal["text", "html", "sentence"] = Field(default="text", description="sentence does not split the text.")
    prefix: str = Field(default="", description="How every translation begins; needs format sentence.")
    require: list[str] = Field(default_factory=list, description="Words or phrases that the translation contains.")
    forbid: list[str] = Field(default_factory=list, description="Words or phrases that it does not contain.")
    glossary: dict[str, str] = Field(default_factory=dict, description="Terms and their translations.")
    glossary_id: str | None = None
    details: bool = Field(default=False, description="Whether to return words and tokens with their probabilities.")
    align: bool = Field(default=False, description="Whether to return the alignment of the words.")


class OwnWord(BaseModel):
    text: str
    probability: float


class Sentence(BaseModel):
    """One sentence: its translation, and what is known about it."""

    source: str
    text: str
    score: float | None = None
    log_probability: float | None = None
    words: list[OwnWord] | None = None
    tokens: list[str] | None = None
    token_scores: list[float] | None = None
    alignment: list[tuple[int, int]] | None = None
    flags: list[str] | None = Field(
        default=None, description="limit, repeats or copies, where the translation is doubtful."
    )
    alternatives: list[Sentence] | None = None


class OwnTranslation(BaseModel):
    text: str
    source: str
    target: str
    confidence: float = Field(description="Of the detected language; 100 where it was given.")
    sentences: list[Sentence]


class TranslateAnswer(BaseModel):
    translations: list[OwnTranslation]


class AlternativesRequest(Where, Search):
    text: str
    prefix: str = Field(default="", description="Beginning of the translation that is kept.")
    count: int = Field(default=5, ge=1)


class SearchRequest(Where, Search):
    text: str


class GraphRequest(SearchRequest):
    tokens: list[str] = Field(default_factory=list, description="Tokens that the translation begins with.")


class AttentionRequest(SearchRequest):
    translation: str | None = Field(default=None, description="The model's best translation where it is not given.")


class ScoreRequest(Where):
    sources: list[str]
    targets: list[str]


class DetectRequest(Closed):
    text: str | None = None
    texts: list[str] | None = None


def finite(value: float) -> float | None:
    """Return a number that JSON can write."""
    return value if value - value == 0 else None


def list_texts(text: str | None, texts: list[str] | None) -> list[str]:
    """Return the texts of a request: one of the two parameters."""
    if (text is None) == (texts is None):
        raise Refusal(400, "server.text_or_texts")
    return [text] if text is not None else list(texts or ())


def choose(call: Call, where: Where, *, generates: bool = False) -> tuple[ServedModel | None, str | None, str]:
    """Return the model that a request names, and the languages: the source is None where it is to be detected."""
    front, served = call.front, call.front.languages
    if where.model is not None:
        model = front.service.models.get(where.model)
        if model is None or model.generates != generates:
            raise Refusal(404, "server.no_such_model")
        return model, model.source, model.target or "und"
    automatic = where.source is None or where.source.lower() == AUTO
    source = None if automatic else served.find(where.source or "", served.sources)
    targets = served.targets_of(source) if source else served.targets
    target = served.find(where.target, targets) if where.target else (targets[0] if len(targets) == 1 else None)
    unnamed = [one for one in front.service.models.values() if pair_of(one) is None and not one.generates]
    if where.source is None and where.target is None and not targets and len(unnamed) == 1:
        return unnamed[0], "und", "und"  # the only model, which does not know its languages
    if target is None or (source is None and not automatic):
        raise Refusal(400, "server.unknown_pair", source=str(where.source)[:40], target=str(where.target)[:40])
    return None, source, target


def choose_one(call: Call, where: Where) -> ServedModel:
    """Return the one model of a call about a sentence; languages that are not given are the first model's."""
    model, source, target = choose(call, where)
    if model is not None:
        return model
    for one in call.front.service.models.values():
        if one.target == target and source in (None, one.source) and not one.generates:
            return one
    raise Refusal(400, "server.unknown_pair", source=str(source), target=target)


def search_keywords(call: Call, search: Search) -> dict[str, Any]:
    """Return the options that are given, within the limits of the server."""
    limits = call.front.settings.limits
    bounds = {"beam": limits.beam, "n_best": limits.alternatives + 1, "mbr": limits.samples, "groups": limits.beam}
    for name, most in bounds.items():
        if (getattr(search, name) or 0) > most:
            raise Refusal(400, "server.bad_parameter", parameter=name, reason=f"must be at most {most}")
    names = {field.name for field in fields(SearchOptions)} & set(Search.model_fields)
    return {name: value for name in names if (value := getattr(search, name)) is not None}


def constraints_of(call: Call, request: TranslateRequest) -> Constraints:
    """Return what the translations must and must not contain."""
    most = call.front.settings.limits.phrases
    if max(len(request.require), len(request.forbid)) > most:
        raise Refusal(400, "server.too_many_phrases", limit=most)
    if any(len(phrase) > 500 for phrase in (*request.require, *request.forbid)) or len(request.prefix) > 5_000:
        raise Refusal(400, "server.phrase_too_long")
    if request.prefix and request.format != "sentence":
        raise Refusal(400, "server.prefix_needs_sentence")
    return Constraints(request.prefix, tuple(request.require), tuple(request.forbid))


async def translate_texts(call: Call) -> TranslateAnswer:
    request = call.parse(TranslateRequest)
    texts = list_texts(request.text, request.texts)
    model, source, target = choose(call, request)
    keywords, constraints = search_keywords(call, request), constraints_of(call, request)
    glossaries = list(find_glossaries(call, request, source, target))
    form: Form = request.format
    order = Order(
        texts=texts, source=source, target=target, model=model.name if model else None, form=form, options=keywords,
        constraints=constraints, glossaries=glossaries, contents=Contents(details=request.details, align=request.align),
    )  # fmt: skip
    try:
        results = await translate(call.front, order, deadline=call.deadline)
    except UsageError as error:
        raise Refusal(400, "server.bad_option", reason=error.what) from None
    call.texts, call.characters = len(texts), sum(map(len, texts))
    call.headers |= describe(results)
    return TranslateAnswer(translations=[to_translation(request, result) for result in results])


def find_glossaries(call: Call, request: TranslateRequest, source: str | None, target: str) -> Sequence[Glossary]:
    """Return the glossary in the request and the one it names."""
    glossaries = list[Glossary]()
    if request.glossary:
        if len(request.glossary) > 10_000:
            raise Refusal(400, "server.too_many_phrases", limit=10_000)
        glossaries.append(Glossary.make(enumerate(request.glossary.items(), start=1)))
    if request.glossary_id is not None:
        if source is None:
            raise Refusal(400, "server.glossary_needs_source")
        glossaries.append(call.front.find_glossary(request.glossary_id, source, target))
    return glossaries


def to_translation(request: TranslateRequest, result: Result) -> OwnTranslation:
    """Return the translation of a text as it is answered."""
    sentences = [to_sentence(request, answer.translation, answer) for answer in result.answers]
    return OwnTranslation(
        text=result.text, source=result.source, target=result.target, confidence=round(result.confidence, 1),
        sentences=sentences,
    )  # fmt: skip


def to_sentence(request: TranslateRequest | None, one: Translation, answer: Answer | None = None) -> Sentence:
    """Return the translation of a sentence as it is answered."""
    details = request is None or request.details
    sentence = Sentence(
        source=one.source, text=one.text, score=finite(one.score), log_probability=finite(one.log_probability)
    )
    if details and one.tokens:
        sentence.tokens, sentence.token_scores = list(one.tokens), list(one.token_scores)
        sentence.words = [OwnWord(text=word.text, probability=word.probability) for word in one.words]
    if one.alignment is not None and (request is None or request.align):
        sentence.alignment = list(one.alignment)
    if answer is not None and answer.flags:
        sentence.flags = list(answer.flags)
    if one.alternatives:
        sentence.alternatives = [to_sentence(request, other) for other in one.alternatives]
    return sentence


async def list_alternatives(call: Call) -> dict[str, Any]:
    request = call.parse(AlternativesRequest)
    check_sizes(call.front, [request.text])
    if request.count > (most := call.front.settings.limits.alternatives):
        raise Refusal(400, "server.bad_parameter", parameter="count", reason=f"must be at most {most}")
    model = choose_one(call, request)
    arguments = {"text": request.text, "prefix": request.prefix, "count": request.count}
    result = await call_engine(call, model, "alternatives", request, arguments)
    return {"alternatives": [to_sentence(None, one).model_dump(exclude_none=True) for one in result]}


async def draw_graph(call: Call) -> dict[str, Any]:
    request = call.parse(GraphRequest)
    check_sizes(call.front, [request.text])
    if len(request.tokens) > call.front.settings.limits.generated_tokens:
        raise Refusal(400, "server.bad_parameter", parameter="tokens", reason="too many")
    arguments = {"text": request.text, "tokens": request.tokens}
    nodes = await call_engine(call, choose_one(call, request), "graph", request, arguments)
    return {"nodes": [{name: _plain(value) for name, value in node.items()} for node in nodes]}


async def look(call: Call) -> dict[str, Any]:
    request = call.parse(AttentionRequest)
    check_sizes(call.front, [request.text])
    arguments = {"text": request.text, "translation": request.translation}
    view = await call_engine(call, choose_one(call, request), "attention", request, arguments)
    maps = {kind: getattr(view, kind).round(5).tolist() for kind in ("encoder", "decoder", "cross")}
    return {"source": list(view.source), "target": list(view.target), "fed": list(view.fed)} | maps


async def score(call: Call) -> dict[str, Any]:
    request = call.parse(ScoreRequest)
    if len(request.sources) != len(request.targets):
        raise Refusal(400, "server.unequal_lists", sources=len(request.sources), targets=len(request.targets))
    check_sizes(call.front, [*request.sources, *request.targets])
    arguments = {"sources": request.sources, "targets": request.targets}
    model = choose_one(call, request)
    result = await call_engine(call, model, "score", None, arguments) if request.sources else []
    return {"scores": [to_sentence(None, one).model_dump(exclude_none=True) for one in result]}


async def call_engine(
    call: Call, model: ServedModel, verb: str, search: Search | None, arguments: dict[str, Any]
) -> Any:
    """Return the result of a call that is not plain translating."""
    call.headers["x-model"] = model.digest[:16]
    if search is not None:
        try:
            keywords = search_keywords(call, search)
            order = Order(texts=(), source=None, target="", options=keywords)
            arguments["options"] = choose_options(call.front, model, order)
        except UsageError as error:
            raise Refusal(400, "server.bad_option", reason=error.what) from None
    return await call.front.service.call(model.name, verb, arguments, deadline=call.deadline)


def _plain(value: Any) -> Any:
    return finite(value) if isinstance(value, float) else value


async def detect(call: Call) -> dict[str, Any]:
    request = call.parse(DetectRequest)
    texts = list_texts(request.text, request.texts)
    check_sizes(call.front, texts)
    await call.front.languages.warm_up(call.deadline)
    rows = [
        [{"language": one.language, "confidence": one.confidence} for one in call.front.languages.detect(text)[:3]]
        for text in texts
    ]
    return {"detections": rows}


async def list_models(call: Call) -> dict[str, Any]:
    """The models, also in the shape that OpenAI's clients read."""
    rows = []
    for model in call.front.service.models.values():
        names = [name_in(tag) if tag else None for tag in (model.source, model.target)]
        rows.append({
            "id": model.name, "object": "model", "created": 0, "owned_by": "jumok", "source": model.source,
            "target": model.target, "names": names, "kind": model.kind, "generates": model.generates,
            "digest": model.digest, "engine": model.engine or "torch", "ready": model.ready,
        })  # fmt: skip
    return {"object": "list", "data": rows}


ROUTES = [
    Route("POST", "/v1/translate", translate_texts, API, "Translate, with everything that a translator can do.",
          TranslateRequest, TranslateAnswer, works=True),
    Route("POST", "/v1/alternatives", list_alternatives, API, "Other ways to continue a translation.",
          AlternativesRequest, dict[str, Any], works=True),
    Route("POST", "/v1/graph", draw_graph, API, "Every continuation that the beam considered.", GraphRequest,
          dict[str, Any], works=True),
    Route("POST", "/v1/attention", look, API, "The attention of every layer and head.", AttentionRequest,
          dict[str, Any], works=True),
    Route("POST", "/v1/score", score, API, "The model's scores of given translations.", ScoreRequest, dict[str, Any],
          works=True),
    Route("POST", "/v1/detect", detect, API, "Detect the language of texts.", DetectRequest, dict[str, Any]),
    Route("GET", "/v1/models", list_models, API, "List the models.", None, dict[str, Any]),
]  # fmt: skip
