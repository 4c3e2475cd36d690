"""OpenAI's completions for language models (GPT), and, where the operator asks for it, chat with a translator.

A translator understands no instructions: with `--openai`, the last message of a chat is the text, and it is translated.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jumok.errors import JumokError
from jumok.server.refusals import Refusal, explain, openai_shape
from jumok.server.routes import Answer, Api, Call, Route
from jumok.server.streaming import EVENTS
from jumok.server.translating import Order, check_sizes, describe, translate
from jumok.service.models import ServedModel

API = Api("openai", "OpenAI", openai_shape)


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class CompletionRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str = Field(description="Name of a language model.")
    prompt: str | list[str] = ""
    max_tokens: int = Field(default=16, ge=0)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    n: int = Field(default=1, ge=1, le=8)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    echo: bool = False


class Message(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]]

    def read(self) -> str:
        """Return the text of a message, which may come in parts."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")


class ChatRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[Message] = Field(min_length=1)
    stream: Literal[False] = False


def find_model(call: Call, name: str, *, generates: bool) -> ServedModel:
    """Return a model of a kind by its name."""
    model = call.front.service.models.get(name)
    if model is None or model.generates != generates:
        raise Refusal(404, "server.no_such_model")
    return model


async def complete(call: Call) -> Any:
    request = call.parse(CompletionRequest)
    model = find_model(call, request.model, generates=True)
    prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    check_sizes(call.front, prompts)
    if request.max_tokens > (most := call.front.settings.limits.generated_tokens):
        raise Refusal(400, "server.bad_parameter", parameter="max_tokens", reason=f"must be at most {most}")
    if len(prompts) * request.n > 32:
        raise Refusal(400, "server.bad_parameter", parameter="n", reason="at most 32 completions per request")
    call.texts, call.characters = len(prompts), sum(map(len, prompts))
    call.headers["x-model"] = model.digest[:16]
    if request.stream:
        if len(prompts) != 1 or request.n != 1:
            raise Refusal(400, "server.one_text_only")
        return Answer(200, stream_completion(call, request, model, prompts[0]), EVENTS, {"x-accel-buffering": "no"})
    choices, made = list[dict[str, Any]](), list[tuple[str, str]]()
    for prompt in prompts:
        for number in range(request.n):
            text, reason = await generate(call, request, model, prompt, number)
            made.append((text, reason))
            whole = prompt + text if request.echo else text
            choices.append({"text": whole, "index": len(choices), "logprobs": None, "finish_reason": reason})
    return frame(call, model, choices) | {"usage": await count_tokens(call, request, model, prompts, made)}


async def count_tokens(
    call: Call, request: CompletionRequest, model: ServedModel, prompts: list[str], made: list[tuple[str, str]]
) -> dict[str, int]:
    """Return how many subwords were read and made; a completion that was not stopped has all that were asked for."""
    stopped = [text for text, reason in made if reason == "stop"]
    arguments = {"texts": [*prompts, *stopped], "side": "target"}
    counts = await call.front.service.call(model.name, "count", arguments, deadline=call.deadline)
    whole = request.max_tokens * (len(made) - len(stopped))
    return describe_usage(sum(counts[: len(prompts)]), sum(counts[len(prompts) :]) + whole)


def describe_usage(read: int, made: int) -> dict[str, int]:
    """Return numbers of tokens in the shape that clients read."""
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def frame(call: Call, model: ServedModel, choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return choices in the shape that clients read."""
    return {
        "id": f"cmpl-{call.id}", "object": "text_completion", "created": int(time.time()), "model": model.name,
        "choices": choices,
    }  # fmt: skip


def arguments_for(request: CompletionRequest, prompt: str, number: int) -> dict[str, Any]:
    """Return the arguments of `Translator.generate`."""
    arguments: dict[str, Any] = {
        "prompt": prompt, "length": request.max_tokens, "temperature": request.temperature, "top_p": request.top_p,
        "seed": (request.seed if request.seed is not None else time.time_ns() % 2**31) + number,
    }  # fmt: skip
    return arguments


async def generate(
    call: Call, request: CompletionRequest, model: ServedModel, prompt: str, number: int
) -> tuple[str, str]:
    """Return one completion and why it ended."""
    if request.max_tokens == 0:
        return "", "length"
    arguments = arguments_for(request, prompt, number)
    text = str(await call.front.service.call(model.name, "generate", arguments, deadline=call.deadline))
    text, stopped = cut(text, request.stop)
    return text, "stop" if stopped else "length"


def cut(text: str, stop: str | list[str] | None) -> tuple[str, bool]:
    """Return a text up to the first of some words, and whether there was one."""
    words = [stop] if isinstance(stop, str) else stop or []
    places = [place for word in words if word and (place := text.find(word)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


async def stream_completion(
    call: Call, request: CompletionRequest, model: ServedModel, prompt: str
) -> AsyncIterator[bytes]:
    """Yield a completion as it grows; what could be the beginning of a stop word is held back."""
    written, reason = 0, "length"
    words = [request.stop] if isinstance(request.stop, str) else request.stop or []
    held = max((len(word) for word in words), default=1) - 1
    try:
        parts = call.front.service.stream_call(
            model.name, "generate", arguments_for(request, prompt, 0), deadline=call.deadline
        )
        text = whole = ""
        async for text in parts:
            whole, stopped = cut(text, request.stop)
            safe = len(whole) if stopped else max(written, len(whole) - held)
            if safe > written:
                yield piece(call, model, whole[written:safe], None)
                written = safe
            if stopped:
                reason = "stop"
                break
        else:
            if len(text) > written:
                yield piece(call, model, text[written:], None)
        yield piece(call, model, "", reason)
        if request.stream_options is not None and request.stream_options.include_usage:
            used = await count_tokens(call, request, model, [prompt], [(whole, reason)])
            yield write_data(frame(call, model, []) | {"usage": used})
        yield b"data: [DONE]\n\n"
    except (Refusal, JumokError) as error:
        yield write_data(openai_shape(explain(error), call.id))


def piece(call: Call, model: ServedModel, text: str, reason: str | None) -> bytes:
    """Return one event of a stream."""
    return write_data(frame(call, model, [{"text": text, "index": 0, "logprobs": None, "finish_reason": reason}]))


def write_data(value: Any) -> bytes:
    """Return a value as an event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


async def chat(call: Call) -> dict[str, Any]:
    """Translate the last message, line by line; instructions are not understood."""
    if not call.front.settings.openai:
        raise Refusal(404, "server.no_such_path")
    request = call.parse(ChatRequest)
    model = find_model(call, request.model, generates=False)
    order = Order(
        texts=[request.messages[-1].read()], source=model.source or "und", target=model.target or "und",
        model=model.name,
    )  # fmt: skip
    results = await translate(call.front, order, deadline=call.deadline)
    call.texts, call.characters = 1, len(order.texts[0])
    call.headers |= describe(results)
    message = {"role": "assistant", "content": results[0].text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    shape = frame(call, model, [choice]) | {"id": f"chatcmpl-{call.id}", "object": "chat.completion"}
    counts = [
        await call.front.service.call(model.name, "count", {"texts": [text], "side": side}, deadline=call.deadline)
        for side, text in (("source", order.texts[0]), ("target", results[0].text))
    ]
    return shape | {"usage": describe_usage(sum(counts[0]), sum(counts[1]))}


ROUTES = [
    Route("POST", "/v1/completions", complete, API, "Continue a prompt with a language model.", CompletionRequest,
          dict[str, Any], works=True),
    Route("POST", "/v1/chat/completions", chat, API, "Translate the last message of a chat; only with --openai.",
          ChatRequest, dict[str, Any], works=True, described=False),
]  # fmt: skip
