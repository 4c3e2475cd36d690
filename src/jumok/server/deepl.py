"""DeepL's API, version 2: texts with tags and glossaries, languages and usage.

JSON and forms, language codes in any case.  What a model has no use for (formality, context, style) is accepted, and
the header `x-ignored` names it.  `billed_characters` is always there: DeepL's own client fails without it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jumok.documents.glossary import Glossary
from jumok.server.languages import name_in
from jumok.server.refusals import Prescribed, deepl_shape
from jumok.server.routes import Api, Call, Route
from jumok.server.translating import Form, Order, describe, translate

API = Api(
    "deepl", "DeepL", deepl_shape, key_in=("auth_key",),
    no_key=(403, "Authorization failure, check auth_key"), wrong_key=(403, "Authorization failure, check auth_key"),
    too_fast="Too many requests",
)  # fmt: skip
IGNORED = (
    "formality", "context", "style_id", "translation_memory_id", "translation_memory_threshold", "custom_instructions",
    "preserve_formatting", "model_type",
)  # fmt: skip
WITHOUT_EFFECT = {"formality": ("", "default"), "preserve_formatting": ("", "0", False, "false")}
REGIONS = {  # languages that DeepL offers as targets only with a region
    "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
    "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
}
UNLIMITED = 10**12  # characters
GLOSSARIES = 5  # most of a request


def split_names(value: Any) -> Any:
    """Return a list from names that a form separates by commas."""
    if isinstance(value, str):
        return [name for name in value.split(",") if name]
    return value


def to_list(value: Any) -> Any:
    """Return a list from a single text."""
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(split_names)]
Flag = Annotated[bool, BeforeValidator(lambda value: value in (True, 1, "1", "true", "True"))]


class DeeplRequest(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    text: Annotated[list[str], BeforeValidator(to_list)] = Field(examples=[["Hello!"]])
    target_lang: str = Field(examples=["DE"])
    source_lang: str = ""
    split_sentences: str = Field(default="", json_schema_extra={"enum": ["", "0", "1", "nonewlines"]})
    tag_handling: str = Field(default="", json_schema_extra={"enum": ["", "xml", "html"]})
    tag_handling_version: str = ""
    outline_detection: Flag = True
    splitting_tags: Names = Field(default_factory=list)
    non_splitting_tags: Names = Field(default_factory=list)
    ignore_tags: Names = Field(default_factory=list)
    glossary_id: str = ""
    glossary_ids: Names = Field(default_factory=list)
    formality: str = Field(default="default", description="Accepted and ignored; the header x-ignored says so.")
    show_billed_characters: Flag = True
    model_type: str = ""


class DeeplTranslation(BaseModel):
    detected_source_language: str
    text: str
    billed_characters: int
    model_type_used: str | None = None
    tag_handling_version: str | None = None


class DeeplAnswer(BaseModel):
    translations: list[DeeplTranslation]


class LanguagesRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: str = Field(default="source", json_schema_extra={"enum": ["source", "target"]})


class DeeplLanguage(BaseModel):
    language: str
    name: str
    supports_formality: bool | None = None


class Usage(BaseModel):
    character_count: int
    character_limit: int


def find_target(call: Call, code: str) -> str:
    """Return the served language of a code."""
    tag = call.front.languages.find(code, call.front.languages.targets)
    if tag is None:
        raise Prescribed(400, "Value for 'target_lang' not supported.")
    return tag


def find_source(call: Call, code: str) -> str:
    """Return the served language of a code."""
    tag = call.front.languages.find(code, call.front.languages.sources)
    if tag is None:
        raise Prescribed(400, "Value for 'source_lang' not supported.")
    return tag


def check_pair(call: Call, source: str, target: str) -> None:
    """Refuse a pair that no model translates."""
    if source != target and target not in call.front.languages.targets_of(source):
        raise Prescribed(400, f"Translation from {to_code(source)} to {to_code(target)} is not supported.")


def to_code(tag: str, *, source: bool = False) -> str:
    """Return a language as DeepL writes it; sources have no region."""
    return (tag.partition("-")[0] if source else tag).upper()


async def translate_texts(call: Call) -> DeeplAnswer:
    if "text" not in call.values:
        raise Prescribed(400, "Parameter 'text' not specified.")
    if "target_lang" not in call.values:
        raise Prescribed(400, "Value for 'target_lang' not supported.")
    request = call.parse(DeeplRequest)
    if len(request.text) > call.front.settings.limits.texts:
        raise Prescribed(413, "Too many texts in one request.")
    target = find_target(call, request.target_lang)
    source = find_source(call, request.source_lang) if request.source_lang else None
    if source is not None:
        check_pair(call, source, target)
    form, reading = choose_form(request)
    order = Order(
        texts=request.text, source=source, target=target, form=form, reading=reading,
        glossaries=find_glossaries(call, request, source, target),
    )  # fmt: skip
    results = await translate(call.front, order, deadline=call.deadline)
    call.texts, call.characters = len(order.texts), sum(map(len, order.texts))
    call.headers |= describe(results) | say_ignored(call.values)
    return DeeplAnswer(
        translations=[
            DeeplTranslation(
                detected_source_language=to_code(result.source, source=True), text=result.text,
                billed_characters=len(text), model_type_used=request.model_type or None,
                tag_handling_version=request.tag_handling_version or None,
            )
            for text, result in zip(request.text, results, strict=True)
        ]
    )  # fmt: skip


def choose_form(request: DeeplRequest) -> tuple[Form, dict[str, Any]]:
    """Return how the texts are read: as text, HTML or XML, in sentences or as a whole."""
    if request.split_sentences not in ("", "0", "1", "nonewlines"):
        raise Prescribed(400, "Value for 'split_sentences' not supported.")
    if request.tag_handling not in ("", "xml", "html"):
        raise Prescribed(400, "Value for 'tag_handling' not supported.")
    if request.tag_handling == "html":
        return "html", {}
    if request.tag_handling == "xml":
        tags = {name: tuple(getattr(request, name)) for name in ("ignore_tags", "splitting_tags", "non_splitting_tags")}
        return "xml", tags | {"outline": request.outline_detection}
    if request.split_sentences == "0":
        return "sentence", {}
    return "text", {"newlines": "join"} if request.split_sentences == "nonewlines" else {}


def find_glossaries(call: Call, request: DeeplRequest, source: str | None, target: str) -> list[Glossary]:
    """Return the glossaries that a request names."""
    names = [*request.glossary_ids, *([request.glossary_id] if request.glossary_id else [])]
    if not names:
        return []
    if source is None:
        raise Prescribed(400, "Parameter 'source_lang' is required when using a glossary.")
    if len(names) > GLOSSARIES:
        raise Prescribed(400, f"At most {GLOSSARIES} glossaries can be used in one request.")
    return [call.front.find_glossary(name, source, target) for name in names]


def say_ignored(values: dict[str, Any]) -> dict[str, str]:
    """Return the header that names the parameters without an effect."""
    ignored = [name for name in IGNORED if values.get(name) not in (None, *WITHOUT_EFFECT.get(name, ("",)))]
    return {"x-ignored": ", ".join(ignored)} if ignored else {}


async def list_languages(call: Call) -> list[DeeplLanguage]:
    request = call.parse(LanguagesRequest)
    served = call.front.languages
    if request.type == "source":
        codes = dict.fromkeys(to_code(tag, source=True) for tag in served.sources)
        return [DeeplLanguage(language=code, name=name_in(code.lower())) for code in codes]
    if request.type != "target":
        raise Prescribed(400, "Value for 'type' not supported.")
    rows = []
    for tag in served.targets:
        regions = REGIONS.get(tag, ((to_code(tag), name_in(tag)),))
        rows += [DeeplLanguage(language=code, name=name, supports_formality=False) for code, name in regions]
    return rows


async def usage(call: Call) -> Usage:
    """Characters since the start; there is no quota."""
    counted = int(call.front.metrics.characters.total(api="deepl"))
    return Usage(character_count=counted, character_limit=UNLIMITED)


ROUTES = [
    Route("POST", "/v2/translate", translate_texts, API, "Translate texts.", DeeplRequest, DeeplAnswer, works=True),
    Route("GET", "/v2/languages", list_languages, API, "List languages.", LanguagesRequest, list[DeeplLanguage]),
    Route("POST", "/v2/languages", list_languages, API, "List languages.", LanguagesRequest, list[DeeplLanguage]),
    Route("GET", "/v2/usage", usage, API, "Characters translated.", None, Usage),
    Route("POST", "/v2/usage", usage, API, "Characters translated.", None, Usage, described=False),
]  # fmt: skip
