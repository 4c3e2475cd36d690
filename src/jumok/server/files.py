"""Files: translated at once for LibreTranslate, as jobs for DeepL; both by the same path as texts.

An upload is a job on disk from its first byte on (documents/jobs.py).  A job that was interrupted by the end of the
server is begun again by the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jumok import documents
from jumok.documents.jobs import Job
from jumok.errors import JumokError
from jumok.server.bodies import Upload
from jumok.server.refusals import Refusal, explain
from jumok.server.routes import Answer, Call
from jumok.server.translating import Order, ask_for, choose_options, find_model, fits, guess_source
from jumok.service.errors import EngineLost, Overloaded
from jumok.translation import Translation

if TYPE_CHECKING:
    from jumok.server.front import Front

CHUNK = 128  # sentences that are asked for together
AT_ONCE = 2  # jobs in work
PATIENCE = 120.0  # seconds for a chunk of a job
RETRIES = 20  # of a chunk that the service refuses for load, or loses
SAMPLE = 4_000  # characters that the language of a file is detected by
Progress = Callable[[float], None]


def suffix_of(name: str) -> str:
    """Return the extension of a file name, in small letters."""
    return PurePosixPath(name.replace("\\", "/")).suffix.lower()


async def translate_content(
    front: Front, name: str, content: bytes, options: Mapping[str, Any], *, deadline: float | None, progress: Progress
) -> tuple[bytes, int]:
    """Return a file in another language, and its characters; `options` are source, target and glossary."""
    source, target = options.get("source"), options["target"]
    file = await asyncio.to_thread(documents.read_file, name, content, source or target, longest=fits)
    if source is None:
        sample = " ".join(segment.text for segment in file.segments[:200])[:SAMPLE]
        await front.languages.warm_up(deadline)
        source = guess_source(front, sample, target).language
        file = await asyncio.to_thread(documents.read_file, name, content, source, longest=fits)
    characters = sum(len(segment.text) for segment in file.segments)
    if source == target:
        return content, characters
    glossary = options.get("glossary")
    glossaries = [front.find_glossary(glossary, source, target)] if glossary else []
    order = Order(texts=(), source=source, target=target, glossaries=glossaries, bulk=True)
    model = find_model(front, source, target)
    search = choose_options(front, model, order)
    asks = [ask_for(order, segment, search, source) for segment in file.segments]
    translations = list[Translation]()
    for start in range(0, len(asks), CHUNK):
        translations += await _translate_chunk(front, model.name, asks[start : start + CHUNK], deadline)
        progress(len(translations) / len(asks))
    return await asyncio.to_thread(file.write, translations), characters


async def _translate_chunk(front: Front, model: str, asks: list[Any], deadline: float | None) -> list[Translation]:
    """Translate some sentences; a job waits where the service is busy, a request gives up at its deadline."""
    for attempt in range(RETRIES):
        until = deadline if deadline is not None else monotonic() + PATIENCE
        try:
            answers = await front.service.translate(model, asks, deadline=until, bulk=True)
            return [answer.translation for answer in answers]
        except (Overloaded, EngineLost) as error:
            wait = error.retry_after if isinstance(error, Overloaded) else 0.5
            if attempt == RETRIES - 1 or monotonic() + wait > until:
                raise
            await asyncio.sleep(min(wait, 5.0))
    raise AssertionError("unreachable")


async def translate_now(call: Call, upload: Upload, source: str | None, target: str) -> str:
    """Translate an upload; returns the last part of the address of the result."""
    jobs = call.front.state.jobs
    options = {"source": source, "target": target}
    job, _ = await asyncio.to_thread(jobs.create, upload.name, upload.content, options)
    try:
        jobs.start(job.id)
        result, characters = await translate_content(
            call.front, job.name, upload.content, options, deadline=call.deadline, progress=lambda share: None
        )
        await asyncio.to_thread(jobs.finish, job.id, result, characters=characters)
    except BaseException:  # also a client that leaves
        jobs.delete(job.id)
        raise
    call.texts, call.characters = 1, characters
    return f"{job.id}.{quote(job.name)}"


def read_result(call: Call, given: str) -> tuple[str, bytes]:
    """Return name and content of a result, which is then deleted; a HEAD request only looks."""
    jobs = call.front.state.jobs
    name, _, label = given.partition(".")
    job = jobs.find(name)
    if job is None or job.name != label:
        raise Refusal(404, "server.no_such_document")
    content = jobs.read_result(name) if call.exchange.method == "HEAD" else jobs.take_result(name)
    if content is None:
        raise Refusal(404, "server.no_such_document")
    return job.name, content


def attach(name: str, content: bytes) -> Answer:
    """Return a file as an attachment; it is never shown as a page of this server."""
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_ ") else "_" for c in stem)
    kind = documents.FORMATS[suffix.lower()].media_type if suffix.lower() in documents.FORMATS else ""
    headers = {
        "content-disposition": f"attachment; filename=\"{plain}{suffix}\"; filename*=UTF-8''{quote(name)}",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return Answer(200, content, kind or "application/octet-stream", headers)


class JobRunner:
    """Works on the jobs of a server, a few at a time."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.places = asyncio.Semaphore(AT_ONCE)

    def resume(self) -> None:
        """Begin the jobs that an earlier server left."""
        for job in self.front.state.jobs.list_waiting():
            self.begin(job)

    def begin(self, job: Job) -> None:
        """Work on a job as soon as there is a place."""
        task = asyncio.get_running_loop().create_task(self._run(job))
        self.tasks[job.id] = task
        task.add_done_callback(lambda _: self.tasks.pop(job.id, None))

    def close(self) -> None:
        """Stop all work; the next server begins it again."""
        for task in list(self.tasks.values()):
            task.cancel()

    async def _run(self, job: Job) -> None:
        jobs = self.front.state.jobs
        async with self.places:
            try:
                content = await asyncio.to_thread(jobs.start, job.id)
                if content is None:
                    return
                result, characters = await translate_content(
                    self.front, job.name, content, job.options, deadline=None,
                    progress=lambda share: jobs.set_progress(job.id, share),
                )  # fmt: skip
                await asyncio.to_thread(jobs.finish, job.id, result, characters=characters)
                self.front.metrics.texts.add(api="deepl")
                self.front.metrics.characters.add(characters, api="deepl")
            except (JumokError, Refusal) as error:
                jobs.fail(job.id, explain(error).text)
            except Exception as error:
                self.front.log.write_fault(error, job=job.id)
                jobs.fail(job.id, "the document could not be translated")
