"""Google's Translation API, version 2: translate, detect and languages, by POST and by GET."""

from __future__ import annotations

from html import escape
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jumok.server.languages import name_in
from jumok.server.refusals import Refusal, google_shape
from jumok.server.routes import Api, Call, Route
from jumok.server.translating import Order, check_sizes, describe, translate

API = Api(
    "google", "Google v2", google_shape, key_in=("key",),
    no_key=(403, "The request is missing a valid API key."),
    wrong_key=(400, "API key not valid. Please pass a valid API key."),
)  # fmt: skip
Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class GoogleRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    q: Texts = Field(description="Text or texts to translate.", examples=[["Hello!"]])
    target: str = Field(examples=["de"])
    source: str = Field(default="", description="Language code; detected where it is not given.")
    format: str = Field(
        default="html", description="html (the default) or text.", json_schema_extra={"enum": ["html", "text"]}
    )


class GoogleTranslation(BaseModel):
    translatedText: str  # noqa: N815, the protocol's name
    detectedSourceLanguage: str | None = None  # noqa: N815


class GoogleTranslations(BaseModel):
    translations: list[GoogleTranslation]


class GoogleAnswer(BaseModel):
    data: GoogleTranslations


class GoogleDetectRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    q: Texts


class GoogleLanguagesRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    target: str = Field(default="", description="Language of the names.")


async def translate_texts(call: Call) -> GoogleAnswer:
    request = call.parse(GoogleRequest)
    if request.format not in ("html", "text"):
        raise Refusal(400, "server.bad_parameter", parameter="format", reason="must be html or text")
    served = call.front.languages
    source = served.find(request.source, served.sources) if request.source else None
    target = served.find(request.target, served.targets)
    if target is None or (request.source and source is None):
        raise Refusal(400, "server.unknown_pair", source=request.source[:40] or "auto", target=request.target[:40])
    order = Order(texts=request.q, source=source, target=target, form="html" if request.format == "html" else "text")
    results = await translate(call.front, order, deadline=call.deadline)
    call.texts, call.characters = len(order.texts), sum(map(len, order.texts))
    call.headers |= describe(results)
    rows = [
        GoogleTranslation(translatedText=one.text, detectedSourceLanguage=None if source else one.source)
        for one in results
    ]
    return GoogleAnswer(data=GoogleTranslations(translations=rows))


async def detect(call: Call) -> dict[str, Any]:
    request = call.parse(GoogleDetectRequest)
    check_sizes(call.front, request.q)
    await call.front.languages.warm_up(call.deadline)
    rows = []
    for text in request.q:
        guesses = call.front.languages.detect(text)[:1]
        rows.append([
            {"language": one.language, "confidence": one.confidence / 100, "isReliable": one.confidence >= 50}
            for one in guesses
        ])  # fmt: skip
    return {"data": {"detections": rows}}


async def list_languages(call: Call) -> dict[str, Any]:
    request = call.parse(GoogleLanguagesRequest)
    rows: list[dict[str, str]] = [{"language": tag} for tag in call.front.languages.all]
    if request.target:
        rows = [row | {"name": escape(name_in(row["language"], request.target[:2].lower()))} for row in rows]
    return {"data": {"languages": rows}}


PATH = "/language/translate/v2"
ROUTES = [
    route
    for method in ("POST", "GET")
    for route in (
        Route(method, PATH, translate_texts, API, "Translate texts.", GoogleRequest, GoogleAnswer, works=True),
        Route(method, f"{PATH}/detect", detect, API, "Detect languages.", GoogleDetectRequest, dict[str, Any]),
        Route(method, f"{PATH}/languages", list_languages, API, "List languages.", GoogleLanguagesRequest,
              dict[str, Any], who="everyone"),
    )
]  # fmt: skip
