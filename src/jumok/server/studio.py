"""What the studio asks besides translations: a model's card, sentences of a text, unknown words, words to choose from.

    GET  /v1/models/en-de/card     what it has learned from, how good it is, sentences to try
    POST /v1/segments              {"model": …, "texts": […]}  ->  the sentences of each text, and what is between them
    POST /v1/unknown               {"model": …, "texts": […]}  ->  where words are that its training text did not have
    POST /v1/choices               {"model": …, "text": …, "tokens": […]}  ->  the likeliest words at every word

What a model does not say about itself is null: runs of earlier versions stored neither examples nor words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from jumok.documents.sentences import split_sentences
from jumok.server.languages import name_in
from jumok.server.own import API, Where, call_engine, choose_one, finite
from jumok.server.refusals import Refusal
from jumok.server.routes import Call, Route
from jumok.server.translating import check_sizes, fits
from jumok.service.models import ServedModel

TOLD = (
    "name",
    "made",
    "by",
    "ended_by",
    "steps",
    "epochs",
    "minutes",
    "wall_minutes",
    "pairs",
    "valid_pairs",
    "machine",
)
SCORES = ("bleu", "chrf", "accuracy", "perplexity", "loss", "doubt")
LONGEST_PIECE = 200  # characters


class TextsRequest(Where):
    texts: list[str]


class ChoicesRequest(Where):
    text: str
    tokens: list[str] = Field(description="Tokens of a translation of the text, as /v1/translate gives them.")
    count: int = Field(default=5, ge=1, le=10)


async def show_card(call: Call) -> dict[str, Any]:
    model = call.front.service.models.get(call.path["name"])
    if model is None:
        raise Refusal(404, "server.no_such_model")
    return describe_card(model)


def describe_card(model: ServedModel) -> dict[str, Any]:
    """Return what a model says about itself; None for what it does not."""
    card: Mapping[str, Any] = model.card or {}
    valid = card.get("valid")
    scores = valid.get(card.get("weights")) if isinstance(valid, Mapping) else None
    scores = scores if isinstance(scores, Mapping) else {}
    examples = card.get("examples")
    return {
        "id": model.name,
        "kind": model.kind,
        "source": model.source,
        "target": model.target,
        "names": {
            tag: [name_in(one, tag) if one else None for one in (model.source, model.target)] for tag in ("en", "ko")
        },
        "texts": list(model.texts),
        "search": {"beam": model.options.beam, "length_penalty": model.options.length_penalty},
        "examples": [str(one) for one in examples][:8] if isinstance(examples, list) else None,
        "scores": {name: finite(float(value)) for name in SCORES if isinstance(value := scores.get(name), int | float)},
    } | {name: value if isinstance(value := card.get(name), str | int | float) else None for name in TOLD}


async def split_texts(call: Call) -> dict[str, Any]:
    request = call.parse(TextsRequest)
    check_sizes(call.front, request.texts)
    language = choose_one(call, request).source or "und"
    return {"segments": [split_text(text, language) for text in request.texts]}


def split_text(text: str, language: str) -> dict[str, list[str]]:
    """Return the sentences of a text, and what is before, between and after them: together they are the text."""
    spans = split_sentences(text, language, longest=fits)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    between = [text[start:stop] for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    return {"sentences": [text[start:stop] for start, stop in spans], "between": between}


async def find_unknown(call: Call) -> dict[str, Any]:
    request = call.parse(TextsRequest)
    check_sizes(call.front, request.texts)
    arguments = {"texts": request.texts}
    return {"unknown": await call_engine(call, choose_one(call, request), "unknown", None, arguments)}


async def list_choices(call: Call) -> dict[str, Any]:
    request = call.parse(ChoicesRequest)
    check_sizes(call.front, [request.text])
    limits = call.front.settings.limits
    if len(request.tokens) > limits.generated_tokens or any(len(one) > LONGEST_PIECE for one in request.tokens):
        raise Refusal(400, "server.bad_parameter", parameter="tokens", reason="too many or too long")
    arguments = {"text": request.text, "tokens": request.tokens, "count": request.count}
    words = await call_engine(call, choose_one(call, request), "choices", None, arguments)
    rows = [[{"text": word.text, "probability": finite(word.probability)} for word in some] for some in words]
    return {"choices": rows}


ROUTES = [
    Route("GET", "/v1/models/{name}/card", show_card, API, "What a model says about itself.", None, dict[str, Any]),
    Route("POST", "/v1/segments", split_texts, API, "The sentences of texts.", TextsRequest, dict[str, Any]),
    Route("POST", "/v1/unknown", find_unknown, API, "Words that the training text did not have.", TextsRequest,
          dict[str, Any], works=True),
    Route("POST", "/v1/choices", list_choices, API, "The likeliest words at every word of a translation.",
          ChoicesRequest, dict[str, Any], works=True),
]  # fmt: skip
