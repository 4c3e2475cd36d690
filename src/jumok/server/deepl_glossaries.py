"""DeepL's glossaries, versions 2 (one pair of languages) and 3 (several, also in our own API), over one store."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jumok.documents.glossary import Glossary
from jumok.documents.glossary_store import Dictionary, Entry
from jumok.errors import JumokError, UsageError
from jumok.server.deepl import API
from jumok.server.own import API as OWN
from jumok.server.refusals import Prescribed, Refusal
from jumok.server.routes import Answer, Call, Route
from jumok.text.languages import canonical

TSV = "text/tab-separated-values; charset=utf-8"


class Pair(BaseModel):
    model_config = ConfigDict(extra="ignore")

    source_lang: str
    target_lang: str


class GlossaryRequest(Pair):
    name: str = Field(min_length=1, max_length=1_024)
    entries: str
    entries_format: str = Field(default="tsv", json_schema_extra={"enum": ["tsv", "csv"]})


class DictionaryRequest(Pair):
    entries: str
    entries_format: str = Field(default="tsv", json_schema_extra={"enum": ["tsv", "csv"]})


class GlossaryRequest3(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=1_024)
    dictionaries: list[DictionaryRequest] = Field(min_length=1)


class GlossaryChange(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str | None = Field(default=None, min_length=1, max_length=1_024)
    dictionaries: list[DictionaryRequest] = Field(default_factory=list)


class GlossaryAnswer(Pair):
    glossary_id: str
    name: str
    ready: bool = True
    creation_time: str
    entry_count: int


class DictionaryAnswer(Pair):
    entry_count: int


class GlossaryAnswer3(BaseModel):
    glossary_id: str
    name: str
    dictionaries: list[DictionaryAnswer]
    creation_time: str


def to_language(code: str) -> str:
    """Return a language of a glossary: without region, in small letters, as DeepL has them."""
    try:
        return canonical(code).partition("-")[0]
    except UsageError:
        raise Prescribed(400, f"Language {code[:20]!r} is not supported.") from None


def to_dictionary(request: DictionaryRequest | GlossaryRequest) -> Dictionary:
    """Return the terms of one pair of languages."""
    if request.entries_format not in ("tsv", "csv"):
        raise Prescribed(400, "Value for 'entries_format' not supported.")
    try:
        glossary = Glossary.parse(request.entries, "csv" if request.entries_format == "csv" else "tsv")
    except JumokError as error:
        raise Refusal(400, "server.bad_glossary", reason=error.what) from None
    return Dictionary(to_language(request.source_lang), to_language(request.target_lang), glossary)


def to_answer(entry: Entry) -> GlossaryAnswer:
    """Return a glossary as version 2 shows it: its first dictionary."""
    source, target, count = (*entry.dictionaries, ("", "", 0))[0]
    return GlossaryAnswer(
        glossary_id=entry.id, name=entry.name, source_lang=source, target_lang=target,
        creation_time=entry.creation_time, entry_count=count,
    )  # fmt: skip


def to_answer_3(entry: Entry) -> GlossaryAnswer3:
    """Return a glossary as version 3 shows it."""
    rows = [DictionaryAnswer(source_lang=a, target_lang=b, entry_count=n) for a, b, n in entry.dictionaries]
    return GlossaryAnswer3(glossary_id=entry.id, name=entry.name, dictionaries=rows, creation_time=entry.creation_time)


def find(call: Call) -> Entry:
    """Return the glossary that the address names."""
    return check(call.front.state.glossaries.find(call.path["id"]))


def check(entry: Entry | None) -> Entry:
    """Refuse a glossary that does not exist."""
    if entry is None:
        raise Refusal(404, "server.no_such_glossary")
    return entry


async def list_pairs(call: Call) -> dict[str, Any]:
    pairs = dict.fromkeys(tuple(map(to_language, pair)) for pair in call.front.languages.pairs)
    return {"supported_languages": [{"source_lang": source, "target_lang": target} for source, target in pairs]}


async def create(call: Call) -> GlossaryAnswer:
    request = call.parse(GlossaryRequest)
    return to_answer(call.front.state.glossaries.create(request.name, [to_dictionary(request)]))


async def show_all(call: Call) -> dict[str, Any]:
    entries = call.front.state.glossaries.list_entries()
    return {"glossaries": [to_answer(entry).model_dump() for entry in entries if len(entry.dictionaries) == 1]}


async def show(call: Call) -> GlossaryAnswer:
    return to_answer(find(call))


async def delete(call: Call) -> None:
    check(call.front.state.glossaries.find(call.path["id"]))
    call.front.state.glossaries.delete(call.path["id"])


async def show_entries(call: Call) -> Answer:
    find(call)
    dictionaries = call.front.state.glossaries.load(call.path["id"])
    return Answer(200, dictionaries[0].glossary.to_tsv().encode() if dictionaries else b"", TSV)


async def create_3(call: Call) -> GlossaryAnswer3:
    request = call.parse(GlossaryRequest3)
    return to_answer_3(call.front.state.glossaries.create(request.name, [*map(to_dictionary, request.dictionaries)]))


async def show_all_3(call: Call) -> dict[str, Any]:
    entries = call.front.state.glossaries.list_entries()
    return {"glossaries": [to_answer_3(entry).model_dump() for entry in entries]}


async def show_3(call: Call) -> GlossaryAnswer3:
    return to_answer_3(find(call))


async def change_3(call: Call) -> GlossaryAnswer3:
    request = call.parse(GlossaryChange)
    new = [*map(to_dictionary, request.dictionaries)]
    return to_answer_3(check(call.front.state.glossaries.change(find(call).id, name=request.name, dictionaries=new)))


async def show_entries_3(call: Call) -> dict[str, Any]:
    request, entry = call.parse(Pair), find(call)
    source, target = to_language(request.source_lang), to_language(request.target_lang)
    glossary = call.front.state.glossaries.find_glossary(entry.id, source, target)
    if glossary is None:
        raise Refusal(404, "server.wrong_glossary", source=source, target=target)
    row = {"source_lang": source, "target_lang": target, "entries": glossary.to_tsv(), "entries_format": "tsv"}
    return {"dictionaries": [row]}


async def put_dictionary(call: Call) -> DictionaryAnswer:
    dictionary = to_dictionary(call.parse(DictionaryRequest))
    check(call.front.state.glossaries.put_dictionary(find(call).id, dictionary))
    count = len(dictionary.glossary.entries)
    return DictionaryAnswer(source_lang=dictionary.source, target_lang=dictionary.target, entry_count=count)


async def delete_dictionary(call: Call) -> None:
    request, entry = call.parse(Pair), find(call)
    source, target = to_language(request.source_lang), to_language(request.target_lang)
    if not call.front.state.glossaries.delete_dictionary(entry.id, source, target):
        raise Refusal(404, "server.wrong_glossary", source=source, target=target)


ONE, ONE_3 = "/v2/glossaries/{id}", "/v3/glossaries/{id}"
Anything = dict[str, Any]
VERSION_3 = [
    Route("POST", "/v3/glossaries", create_3, API, "Store a glossary.", GlossaryRequest3, GlossaryAnswer3, 201),
    Route("GET", "/v3/glossaries", show_all_3, API, "List glossaries.", None, Anything),
    Route("GET", ONE_3, show_3, API, "Describe a glossary.", None, GlossaryAnswer3),
    Route("PATCH", ONE_3, change_3, API, "Rename a glossary, or add entries.", GlossaryChange, GlossaryAnswer3),
    Route("DELETE", ONE_3, delete, API, "Delete a glossary.", None, None, 204),
    Route("GET", f"{ONE_3}/entries", show_entries_3, API, "The entries of a dictionary.", Pair, Anything),
    Route("PUT", f"{ONE_3}/dictionaries", put_dictionary, API, "Replace a dictionary.", DictionaryRequest,
          DictionaryAnswer),
    Route("DELETE", f"{ONE_3}/dictionaries", delete_dictionary, API, "Delete a dictionary.", Pair, None, 204),
]  # fmt: skip
ROUTES = [  # those of version 3 are also in our own API
    Route("GET", "/v2/glossary-language-pairs", list_pairs, API, "Languages of glossaries.", None, Anything),
    Route("POST", "/v2/glossaries", create, API, "Store a glossary.", GlossaryRequest, GlossaryAnswer, 201),
    Route("GET", "/v2/glossaries", show_all, API, "List glossaries.", None, Anything),
    Route("GET", ONE, show, API, "Describe a glossary.", None, GlossaryAnswer),
    Route("DELETE", ONE, delete, API, "Delete a glossary.", None, None, 204),
    Route("GET", f"{ONE}/entries", show_entries, API, "The entries of a glossary.", None, None,
          media_type="text/tab-separated-values"),
    *VERSION_3,
    *(
        Route(route.method, route.path.replace("/v3/", "/v1/"), route.handle, OWN, route.summary, route.request,
              route.answer, route.status)
        for route in VERSION_3
    ),
]  # fmt: skip
