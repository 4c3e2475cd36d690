"""Server-sent events: a translation while it is being made.

    POST /v1/translate/stream   event: partial   data: {"sentence": 0, "text": "Ein Hund"}
                                event: sentence  data: {"sentence": 0, "text": "Ein Hund läuft.", …}
                                event: done      data: {"text": "Ein Hund läuft.", …}

With a beam, a partial text is what all living hypotheses begin with: it only ever grows.  Every event has an id; a
client that reconnects with Last-Event-ID gets what it has not seen.  A comment every ten seconds keeps proxies awake.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from jumok.errors import JumokError
from jumok.server.own import (
    API,
    OwnTranslation,
    TranslateRequest,
    choose,
    constraints_of,
    find_glossaries,
    list_texts,
    search_keywords,
    to_sentence,
)
from jumok.server.refusals import Refusal, explain, own_shape
from jumok.server.routes import Answer, Call, Route
from jumok.server.translating import Order, Part, check_sizes, describe, read, render
from jumok.service.values import Answer as SentenceAnswer
from jumok.translation import Contents

T = TypeVar("T")
HEARTBEAT = 10.0  # seconds
EVENTS = "text/event-stream"


def write_event(kind: str, number: str, value: Any) -> bytes:
    """Return one event."""
    data = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode()


async def beat(events: AsyncIterator[bytes], every: float = HEARTBEAT) -> AsyncIterator[bytes]:
    """Yield the events, and a comment whenever there was none for a while."""
    waiting = asyncio.ensure_future(_next(events))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=every)
            if not done:
                yield b": waiting\n\n"
                continue
            event = waiting.result()
            if event is None:
                return
            yield event
            waiting = asyncio.ensure_future(_next(events))
    finally:
        waiting.cancel()


async def _next(events: AsyncIterator[bytes]) -> bytes | None:
    return await anext(events, None)


async def stream(call: Call) -> Answer:
    request = call.parse(TranslateRequest)
    texts = list_texts(request.text, request.texts)
    if len(texts) != 1:
        raise Refusal(400, "server.one_text_only")
    check_sizes(call.front, texts)
    model, source, target = choose(call, request)
    order = Order(
        texts=texts, source=source, target=target, model=model.name if model else None, form=request.format,
        options=search_keywords(call, request), constraints=constraints_of(call, request),
        glossaries=list(find_glossaries(call, request, source, target)),
        contents=Contents(details=request.details, align=request.align),
    )  # fmt: skip
    if source is None and model is None:
        await call.front.languages.warm_up(call.deadline)
    part = read(call.front, order, texts[0])
    call.texts, call.characters = 1, len(texts[0])
    if part.model is not None:
        call.headers["x-model"] = part.model.digest[:16]
    seen = call.exchange.headers.get("last-event-id", "")
    return Answer(200, beat(_skip_seen(_write(call, request, order, part), seen)), EVENTS, {"x-accel-buffering": "no"})


async def _skip_seen(events: AsyncIterator[bytes], seen: str) -> AsyncIterator[bytes]:
    """Yield the events after the one that a client has seen last; the same request makes the same events."""
    yield b"retry: 1000\n\n"
    skipping = bool(seen)
    begin = f"id: {seen}\n".encode()
    held = list[bytes]()
    async for event in events:
        if not skipping:
            yield event
        elif event.startswith(begin):
            skipping = False
            held.clear()
        else:
            held.append(event)
    for event in held:  # an id of another request: nothing is left out
        yield event


async def _write(call: Call, request: TranslateRequest, order: Order, part: Part) -> AsyncIterator[bytes]:
    """Yield the events of a translation; a failure is the last event."""
    try:
        answers = list[SentenceAnswer]()
        for number, ask in enumerate(part.asks):
            assert part.model is not None
            async for partial in call.front.service.stream(part.model.name, ask, deadline=call.deadline):
                place = f"{number}.{len(partial.text)}"
                if partial.answer is None:
                    yield write_event("partial", place, {"sentence": number, "text": partial.text})
                    continue
                answers.append(partial.answer)
                sentence = to_sentence(request, partial.answer.translation, partial.answer)
                value = {"sentence": number} | sentence.model_dump(exclude_none=True)
                yield write_event("sentence", f"{number}.end", value)
        result = render(order, part, answers)
        whole = OwnTranslation(
            text=result.text if part.model else order.texts[0], source=result.source, target=result.target,
            confidence=round(result.confidence, 1), sentences=[],
        )  # fmt: skip
        yield write_event("done", "end", whole.model_dump(exclude={"sentences"}) | describe([result]))
    except (Refusal, JumokError) as error:
        yield write_event("error", "error", own_shape(explain(error), call.id))


ROUTES = [
    Route("POST", "/v1/translate/stream", stream, API, "Translate one text, as server-sent events.",
          TranslateRequest, None, media_type=EVENTS, works=True),
]  # fmt: skip
