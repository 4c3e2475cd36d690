"""DeepL's documents: upload, ask how far it is, fetch the result once."""

from __future__ import annotations

import asyncio
from time import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jumok import documents
from jumok.documents.jobs import DONE, ERROR, Job
from jumok.server import files
from jumok.server.bodies import Upload
from jumok.server.deepl import API, check_pair, find_source, find_target, say_ignored
from jumok.server.refusals import Prescribed, Refusal
from jumok.server.routes import Answer, Call, Route


class DocumentRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    file: Any = Field(description="The document.", json_schema_extra={"type": "string", "format": "binary"})
    target_lang: str = Field(examples=["DE"])
    source_lang: str = ""
    filename: str = ""
    formality: str = ""
    glossary_id: str = ""
    output_format: str = ""


class DocumentHandle(BaseModel):
    document_id: str
    document_key: str


class DocumentKey(BaseModel):
    model_config = ConfigDict(extra="ignore")

    document_key: str


class DocumentStatus(BaseModel):
    document_id: str
    status: str = Field(description="queued, translating, done or error.")
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


async def upload(call: Call) -> DocumentHandle:
    given = call.values.get("file")
    if not isinstance(given, Upload):
        raise Prescribed(400, "Parameter 'file' not specified.")
    if "target_lang" not in call.values:
        raise Prescribed(400, "Value for 'target_lang' not supported.")
    request = call.parse(DocumentRequest)
    name = request.filename or given.name
    suffix = files.suffix_of(name)
    if suffix not in documents.FORMATS:
        raise Prescribed(400, f"Invalid file type: known are {', '.join(documents.FORMATS)}.")
    if request.output_format and request.output_format.lower() != suffix[1:]:
        raise Prescribed(400, "Value for 'output_format' not supported.")
    target = find_target(call, request.target_lang)
    source = find_source(call, request.source_lang) if request.source_lang else None
    if source is not None:
        check_pair(call, source, target)
    options: dict[str, Any] = {"source": source, "target": target}
    if request.glossary_id:
        if source is None:
            raise Prescribed(400, "Parameter 'source_lang' is required when using a glossary.")
        call.front.find_glossary(request.glossary_id, source, target)
        options["glossary"] = request.glossary_id
    job, key = await asyncio.to_thread(call.front.state.jobs.create, name, given.content, options)
    call.front.jobs.begin(job)
    call.headers |= say_ignored(call.values)
    return DocumentHandle(document_id=job.id, document_key=key)


def find_job(call: Call) -> Job:
    """Return the job of a request; an id without its key is the same as none."""
    job = call.front.state.jobs.find(call.path["id"], call.parse(DocumentKey).document_key)
    if job is None:
        raise Refusal(404, "server.no_such_document")
    return job


async def status(call: Call) -> DocumentStatus:
    job = find_job(call)
    answer = DocumentStatus(document_id=job.id, status=job.status)
    if job.status == DONE:
        answer.billed_characters = job.characters
    elif job.status == ERROR:
        answer.error_message = job.message
    else:
        spent = time() - job.created
        answer.seconds_remaining = (
            max(1, min(3_600, int(spent / job.progress * (1 - job.progress)))) if job.progress else 1
        )
    return answer


async def result(call: Call) -> Answer:
    job = find_job(call)
    if job.status == ERROR:
        raise Prescribed(404, "Document translation failed.")
    if job.status != DONE:
        raise Refusal(503, "server.not_ready").retry_after(1)
    content = call.front.state.jobs.take_result(job.id)
    if content is None:
        raise Refusal(404, "server.no_such_document")
    return files.attach(job.name, content)


ROUTES = [
    Route("POST", "/v2/document", upload, API, "Upload a document.", DocumentRequest, DocumentHandle, uploads=True),
    Route("POST", "/v2/document/{id}", status, API, "How far a document is.", DocumentKey, DocumentStatus),
    Route("POST", "/v2/document/{id}/result", result, API, "Fetch a translated document, once.", DocumentKey, None,
          media_type="application/octet-stream"),
]  # fmt: skip
