"""Inside a model and Break it: what the studio asks about one sentence, and what edits of a model cost.

Where the kernels know the model, the engine process without torch answers; otherwise that with torch, which
`/v1/inside/warm` starts, so that no click waits for it.
Layers, heads and positions count from 0; arrays are float32 in base 64 (inside/arrays.py).
"""

from __future__ import annotations

from time import monotonic
from typing import Annotated, Any, Literal

from pydantic import Field

from jumok.reports.terms import list_terms
from jumok.server.own import API, Closed, Where, choose_one
from jumok.server.refusals import Refusal
from jumok.server.routes import Call, Route
from jumok.server.translating import check_sizes
from jumok.service.models import ServedModel

Index = Annotated[int, Field(ge=0, le=1_000_000)]
Language = Literal["en", "ko"]
SECONDS = 60.0  # that scoring may take, where other requests have less
LOADING = 120.0  # seconds that warming may take


class EditedRow(Closed):
    """A row of attention, instead of what the softmax gives; it is divided by its sum."""

    kind: Literal["encoder", "decoder", "cross"]
    layer: Index
    head: Index
    query: Index
    weights: list[Annotated[float, Field(ge=0, le=1e6)]] = Field(min_length=1, max_length=4_096)


class EditsRequest(Closed):
    """What is switched off or changed in the model."""

    heads: list[tuple[Literal["encoder", "decoder", "cross"], Index, Index]] = Field(
        default_factory=list, max_length=4_096, description="Kind of attention, layer and head."
    )
    layers: list[tuple[Literal["encoder", "decoder"], Index]] = Field(default_factory=list, max_length=512)
    off: list[Literal["mask", "positions", "scale", "residual", "norm"]] = Field(default_factory=list, max_length=5)
    rows: list[EditedRow] = Field(default_factory=list, max_length=64)
    shuffle: int | None = Field(default=None, ge=0, lt=2**31, description="Seed of another order of the source words.")


class SentenceRequest(Where):
    text: str
    translation: str | list[Index] | None = Field(
        default=None, description="A text, or its ids; the model's greedy translation where it is not given."
    )
    edits: EditsRequest = Field(default_factory=EditsRequest)


class InsideRequest(SentenceRequest):
    lang: Language = "en"
    map: bool = Field(default=True, description="Whether to return the map of the model and its switches.")
    layer: Index | None = Field(default=None, description="The only layer whose weights are returned.")
    kind: Literal["encoder", "decoder", "cross"] | None = Field(default=None, description="The only kind of attention.")


class Cell(Closed):
    """One number of a block whose dot product is wanted."""

    value: str = Field(max_length=20)
    index: Index
    position: Index | None = None


class BlockRequest(SentenceRequest):
    block: str = Field(max_length=100)
    head: Index = 0
    at: Index | None = Field(default=None, description="Position; the last where it is not given.")
    cell: Cell | None = None


class StepRequest(SentenceRequest):
    at: Index | None = Field(default=None, description="One step; all where it is not given.")
    count: int = Field(default=5, ge=1, le=20, description="Words and subwords of each step.")


class BreakScoreRequest(Where):
    edits: EditsRequest = Field(default_factory=EditsRequest)
    pairs: int = Field(default=500, ge=2, le=500)


class TermsRequest(Closed):
    lang: Language = "en"


async def ask_engine(call: Call, model: ServedModel, verb: str, arguments: dict[str, Any], deadline: float) -> Any:
    """Return what an engine process answers."""
    call.headers["x-model"] = model.digest[:16]
    return await call.front.service.call(model.name, verb, arguments, deadline=deadline)


def choose_any(call: Call, where: Where) -> ServedModel:
    """Return the model of a request; it may also be one that continues texts."""
    if where.model is not None and (model := call.front.service.models.get(where.model)) is not None:
        return model
    models = call.front.service.models
    if where.model is None and where.source is None and where.target is None and len(models) == 1:
        return next(iter(models.values()))
    return choose_one(call, where)


async def ask_about_sentence(call: Call, verb: str, request: SentenceRequest, **arguments: Any) -> dict[str, Any]:
    """Return what is known about a sentence and its translation."""
    given = request.translation
    check_sizes(call.front, [request.text, given if isinstance(given, str) else " " * len(given or ())])
    if not request.text.strip():
        raise Refusal(400, "server.bad_parameter", parameter="text", reason="must not be blank")
    arguments |= {"text": request.text, "translation": request.translation, "edits": request.edits.model_dump()}
    call.texts, call.characters = 1, len(request.text)
    result: dict[str, Any] = await ask_engine(call, choose_any(call, request), verb, arguments, call.deadline)
    return result


async def warm(call: Call) -> dict[str, Any]:
    request = call.parse(Where)
    result: dict[str, Any] = await ask_engine(call, choose_any(call, request), "warm", {}, monotonic() + LOADING)
    return result


async def view_sentence(call: Call) -> dict[str, Any]:
    request = call.parse(InsideRequest)
    return await ask_about_sentence(
        call, "inside", request, language=request.lang, drawing=request.map, layer=request.layer, kind=request.kind
    )


async def view_block(call: Call) -> dict[str, Any]:
    request = call.parse(BlockRequest)
    cell = None if request.cell is None else [request.cell.value, request.cell.index, request.cell.position]
    return await ask_about_sentence(
        call, "block", request, name=request.block, head=request.head, at=request.at, cell=cell
    )


async def view_steps(call: Call) -> dict[str, Any]:
    request = call.parse(StepRequest)
    return await ask_about_sentence(call, "steps", request, at=request.at, count=request.count)


async def break_sentence(call: Call) -> dict[str, Any]:
    request = call.parse(SentenceRequest)
    return await ask_about_sentence(call, "break", request)


async def score_edits(call: Call) -> dict[str, Any]:
    request = call.parse(BreakScoreRequest)
    arguments = {"edits": request.edits.model_dump(), "pairs": request.pairs}
    deadline = max(call.deadline, monotonic() + SECONDS)
    result: dict[str, Any] = await ask_engine(call, choose_any(call, request), "cost", arguments, deadline)
    return result


async def list_words(call: Call) -> dict[str, Any]:
    return {"terms": list_terms(call.parse(TermsRequest).lang)}


ROUTES = [
    Route("POST", "/v1/inside", view_sentence, API, "Every attention weight of a sentence, and the map of its model.",
          InsideRequest, dict[str, Any], works=True),
    Route("POST", "/v1/inside/block", view_block, API, "The numbers of one block.", BlockRequest, dict[str, Any],
          works=True),
    Route("POST", "/v1/inside/step", view_steps, API, "Decoding step by step, with the likeliest words.", StepRequest,
          dict[str, Any], works=True),
    Route("POST", "/v1/inside/warm", warm, API, "Load what the other calls about a model need.", Where, dict[str, Any],
          works=True),
    Route("GET", "/v1/inside/terms", list_words, API, "The terms of the field in both languages.", TermsRequest,
          dict[str, Any]),
    Route("POST", "/v1/break", break_sentence, API, "A translation before and after parts are switched off.",
          SentenceRequest, dict[str, Any], works=True),
    Route("POST", "/v1/break/score", score_edits, API, "What switching parts off costs in BLEU.", BreakScoreRequest,
          dict[str, Any], works=True),
]  # fmt: skip
