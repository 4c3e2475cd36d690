"""LibreTranslate's API: texts, HTML, files, detection and suggestions.

Parameters come as JSON, form, multipart or in the query string; `q` may be a list.  The words of errors are those that
clients of LibreTranslate know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jumok import documents
from jumok.server import files
from jumok.server.bodies import Upload
from jumok.server.languages import AUTO, Guess, name_in
from jumok.server.refusals import Prescribed, Refusal, libretranslate_shape
from jumok.server.routes import Answer, Api, Call, Route
from jumok.server.translating import Form, Order, Result, describe, translate

API = Api(
    "libretranslate", "LibreTranslate", libretranslate_shape, key_in=("api_key", "apiKey"),
    no_key=(400, "Please contact the server operator to get an API key"), wrong_key=(403, "Invalid API key"),
    too_fast="Slowdown: {rate} per 1 minute",
)  # fmt: skip
FORMATS: dict[str, Form] = {"text": "text", "html": "html"}
ACCEPTED = re.compile(r"[A-Za-z]{2,3}")


class Lenient(BaseModel):
    """Unknown parameters are ignored, numbers are accepted as text."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, populate_by_name=True)


class LibreRequest(Lenient):
    q: str | list[str] = Field(description="Text or texts to translate.", examples=["Hello!"])
    source: str = Field(description="Language code of the text, or auto.", examples=["en"])
    target: str = Field(description="Language code to translate to.", examples=["de"])
    format: str = Field(default="text", description="text or html.", json_schema_extra={"enum": ["text", "html"]})
    alternatives: int = Field(default=0, description="How many other translations to return.", ge=0)
    api_key: str = Field(default="", description="API key, where the server needs one.")


class LibreGuess(BaseModel):
    confidence: float = Field(description="From 0, nothing tells, to 100.")
    language: str


class LibreAnswer(BaseModel):
    translatedText: str | list[str]  # noqa: N815, the protocol's name
    detectedLanguage: LibreGuess | list[LibreGuess] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class LibreDetectRequest(Lenient):
    q: str = Field(description="Text whose language to detect.", examples=["Hello!"])
    api_key: str = ""


class ServedLanguage(BaseModel):
    code: str
    name: str
    targets: list[str]


class FileRequest(Lenient):
    file: Any = Field(description="The file.", json_schema_extra={"type": "string", "format": "binary"})
    source: str
    target: str
    api_key: str = ""


class FileAnswer(BaseModel):
    translatedFileUrl: str  # noqa: N815


class SuggestRequest(Lenient):
    q: str = Field(description="The text.")
    s: str = Field(description="Its better translation.")
    source: str
    target: str


class Success(BaseModel):
    success: bool = True


class Health(BaseModel):
    status: str = "ok"


def need(call: Call, *names: str) -> None:
    """Refuse a request that lacks a parameter."""
    for name in names:
        if not call.values.get(name):
            raise Prescribed(400, f"Invalid request: missing {name} parameter")


def find_language(call: Call, code: str) -> str:
    """Return the served language of a code."""
    tag = call.front.languages.find(code)
    if tag is None:
        raise Prescribed(400, f"{code[:40]} is not supported")
    return tag


def check_pair(call: Call, source: str, target: str) -> None:
    """Refuse a pair that no model translates; a language translates into itself."""
    if source != target and target not in call.front.languages.targets_of(source):
        raise Prescribed(
            400,
            f"{name_in(target)} ({target}) is not available as a target language from {name_in(source)} ({source})",
        )


def check_length(call: Call, texts: Sequence[str]) -> None:
    """Refuse too many texts and too long ones, in the protocol's words."""
    limits = call.front.settings.limits
    sizes = [(len(texts), limits.texts), (max(map(len, texts)), limits.characters)]
    for size, limit in (*sizes, (sum(map(len, texts)), limits.total_characters)):
        if size > limit:
            raise Prescribed(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


async def translate_texts(call: Call) -> LibreAnswer:
    need(call, "q", "source", "target")
    count = call.values.get("alternatives", 0)
    if not re.fullmatch(r"\s*\d{1,9}\s*", str(count)) or isinstance(count, bool):
        raise Prescribed(400, "alternatives parameter is not a number")
    request = call.parse(LibreRequest)
    texts = [request.q] if isinstance(request.q, str) else request.q
    check_length(call, texts)
    source = None if request.source.strip().lower() == AUTO else find_language(call, request.source)
    target = find_language(call, request.target)
    if source is not None:
        check_pair(call, source, target)
    elif target not in call.front.languages.targets:
        raise Prescribed(400, f"{name_in(target)} ({target}) is not available as a target language")
    if request.format not in FORMATS:
        raise Prescribed(400, f"{request.format[:40]} format is not supported")
    if request.alternatives > (most := call.front.settings.limits.alternatives):
        raise Prescribed(400, f"alternatives parameter must be <= {most}")
    form = FORMATS[request.format]
    order = Order(
        texts=texts, source=source, target=target, form=form, alternatives=request.alternatives if form == "text" else 0
    )
    results = await translate(call.front, order, deadline=call.deadline)
    call.texts, call.characters = len(texts), sum(map(len, texts))
    call.headers |= describe(results)
    return answer_with(request, results, batch=not isinstance(request.q, str))


def answer_with(request: LibreRequest, results: Sequence[Result], *, batch: bool) -> LibreAnswer:
    """Return the answer: of lists, or of single values where one text was given."""
    answer = LibreAnswer(translatedText=[result.text for result in results] if batch else results[0].text)
    if request.source.strip().lower() == AUTO:
        guesses = [LibreGuess(confidence=round(one.confidence, 1), language=one.source) for one in results]
        answer.detectedLanguage = guesses if batch else guesses[0]
    if request.alternatives:
        others = [list(result.alternatives) for result in results]
        answer.alternatives = others if batch else others[0]
    return answer


async def detect(call: Call) -> list[LibreGuess]:
    need(call, "q")
    request = call.parse(LibreDetectRequest)
    check_length(call, [request.q])
    await call.front.languages.warm_up(call.deadline)
    guesses: list[Guess] = call.front.languages.detect(request.q)[:3]
    return [LibreGuess(confidence=round(one.confidence, 1), language=one.language) for one in guesses]


async def list_languages(call: Call) -> list[ServedLanguage]:
    """Languages with their names in the caller's language; each translates into itself too."""
    served, interface = call.front.languages, interface_language(call)
    return [
        ServedLanguage(code=tag, name=name_in(tag, interface), targets=sorted({tag, *served.targets_of(tag)}))
        for tag in served.all
    ]


def interface_language(call: Call) -> str:
    """Return the language in which the caller reads names: en or ko."""
    headers = call.exchange.headers
    cookie = re.search(r"(?:^|;\s*)preferred_lang=([A-Za-z-]+)", headers.get("cookie", ""))
    wanted = [str(call.values.get("lang", "")), cookie[1] if cookie else ""]
    accepted = headers.get("x-override-accept-language") or headers.get("accept-language", "")
    for code in (*wanted, *accepted.split(",")):
        if (match := ACCEPTED.match(code.strip())) and match[0].lower() in ("en", "ko"):
            return match[0].lower()
    return "en"


async def translate_file(call: Call) -> FileAnswer:
    upload = call.values.get("file")
    if not isinstance(upload, Upload) or not upload.name:
        raise Prescribed(400, "Invalid request: missing file parameter")
    need(call, "source", "target")
    if files.suffix_of(upload.name) not in documents.FORMATS:
        raise Prescribed(400, "Invalid request: file format not supported")
    request = call.parse(FileRequest)
    automatic = request.source.strip().lower() == AUTO
    source = None if automatic else find_language(call, request.source)
    target = find_language(call, request.target)
    if source is not None:
        check_pair(call, source, target)
    job = await files.translate_now(call, upload, source, target)
    return FileAnswer(translatedFileUrl=call.front.access.build_url(call.exchange, f"/download_file/{job}"))


async def download_file(call: Call) -> Answer:
    name, content = files.read_result(call, call.path["name"])
    return files.attach(name, content)


async def suggest(call: Call) -> Success:
    if not call.front.settings.suggestions:
        raise Prescribed(403, "Suggestions are disabled on this server.")
    need(call, "q", "s", "source", "target")
    request = call.parse(SuggestRequest)
    check_length(call, [request.q, request.s])
    source, target = find_language(call, request.source), find_language(call, request.target)
    if "\0" in request.q + request.s:
        raise Refusal(400, "server.bad_parameter", parameter="q", reason="must not contain NUL")
    call.front.state.corrections.add(request.q, request.s, source_language=source, target_language=target)
    return Success()


async def settings(call: Call) -> dict[str, Any]:
    """What LibreTranslate's page asks for when it is opened."""
    limits, keys, interface = call.front.settings.limits, bool(call.front.keys), interface_language(call)
    source, target = (call.front.languages.pairs or [("en", "en")])[0]
    return {
        "charLimit": limits.characters,
        "frontendTimeout": 500,
        "apiKeys": keys,
        "keyRequired": keys,
        "suggestions": call.front.settings.suggestions,
        "filesTranslation": True,
        "supportedFilesFormat": sorted(documents.FORMATS),
        "language": {
            "source": {"code": source, "name": name_in(source, interface)},
            "target": {"code": target, "name": name_in(target, interface)},
        },
    }


async def health(call: Call) -> Health:
    return Health()


ROUTES = [
    Route("POST", "/translate", translate_texts, API, "Translate a text or a list of texts.",
          LibreRequest, LibreAnswer, works=True),
    Route("POST", "/detect", detect, API, "Detect the language of a text.", LibreDetectRequest, list[LibreGuess]),
    Route("GET", "/languages", list_languages, API, "List the languages served.", None, list[ServedLanguage],
          who="everyone"),
    Route("POST", "/translate_file", translate_file, API, "Translate a file.", FileRequest, FileAnswer,
          works=True, uploads=True),
    Route("GET", "/download_file/{name}", download_file, API, "Download a translated file.", None, None,
          media_type="application/octet-stream", who="everyone"),
    Route("POST", "/suggest", suggest, API, "Suggest a better translation.", SuggestRequest, Success),
    Route("GET", "/frontend/settings", settings, API, "Settings of the page.", None, dict[str, Any], who="everyone"),
    Route("GET", "/health", health, API, "Whether the process is alive.", None, Health, who="everyone"),
]  # fmt: skip
