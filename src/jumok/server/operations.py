"""For operators: health, readiness, metrics, the description of the API, and the administration of models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jumok.errors import JumokError
from jumok.server import openapi
from jumok.server.metrics import head, write_labels
from jumok.server.refusals import Refusal, explain, own_shape
from jumok.server.routes import Answer, Api, Call, Route

if TYPE_CHECKING:
    from jumok.server.front import Front
    from jumok.service.metrics import Histogram

API = Api("operations", "Operations", own_shape)


async def live(call: Call) -> Answer:
    return Answer(200, b"ok\n", "text/plain; charset=utf-8")


async def ready(call: Call) -> Answer:
    if call.front.ready:
        return Answer(200, b"ready\n", "text/plain; charset=utf-8")
    state = b"closing\n" if call.front.closing else b"loading\n"
    return Answer(503, state, "text/plain; charset=utf-8", {"retry-after": "1"})


async def metrics(call: Call) -> Answer:
    lines = [*call.front.metrics.lines(), *describe_service(call)]
    return Answer(200, ("\n".join(lines) + "\n").encode(), "text/plain; version=0.0.4; charset=utf-8")


def describe_service(call: Call) -> list[str]:
    """Return what the service counts, and which models it serves."""
    front = call.front
    lines = list(head("jumok_active_requests", "gauge", "Requests that are being answered."))
    lines.append(f"jumok_active_requests {front.active}")
    lines += head("jumok_ready", "gauge", "Whether the server is ready.")
    lines.append(f"jumok_ready {int(front.ready)}")
    lines += head("jumok_expected_wait_seconds", "gauge", "Seconds until a request that arrives now is begun.")
    for name in front.service.models:
        wait = front.service.expected_wait(name)
        lines.append(f"jumok_expected_wait_seconds{write_labels([('model', name)])} {wait:.4f}")
    return [*lines, *write_counts(front)]


def write_counts(front: Front) -> Iterator[str]:
    """Yield the counters, gauges and histograms of the service."""
    counts = front.service.metrics
    for kind, several in (("counter", counts.counters()), ("gauge", front.service.gauges())):
        for name, samples in several:
            yield from head(f"jumok_{name}", kind, name.replace("_", " ").removesuffix(" total"))
            for sample in samples:
                yield f"jumok_{name}{write_labels(sample.labels.items())} {sample.value:g}"
    yield from head("jumok_batch_sentences", "histogram", "sentences that were searched together")
    yield from write_histogram("jumok_batch_sentences", [], counts.batch_sentences)
    yield from head("jumok_stage_seconds", "histogram", "seconds in the queue, of the search, and in all")
    for stage, histogram in counts.seconds.items():
        yield from write_histogram("jumok_stage_seconds", [("stage", stage)], histogram)


def write_histogram(name: str, labels: list[tuple[str, str]], histogram: Histogram) -> Iterator[str]:
    """Yield the lines of one histogram."""
    for bound, count in histogram.cumulative():
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f"{name}_bucket{write_labels([*labels, ('le', edge)])} {count}"
    yield f"{name}_sum{write_labels(labels)} {histogram.sum:.6f}"
    yield f"{name}_count{write_labels(labels)} {histogram.count}"


async def reload(call: Call) -> dict[str, Any]:
    name = call.path["name"]
    if name not in call.front.service.models:
        raise Refusal(404, "server.no_such_model")
    before = call.front.service.models[name].digest
    try:
        await call.front.service.reload(name)
    except JumokError as error:
        call.front.log.write("reload_failed", level="error", model=name, reason=error.what)
        raise explain(error) from None
    after = call.front.service.models[name].digest
    call.front.log.write("reload", model=name, digest=after)
    return {"model": name, "digest": after, "changed": after != before}


def make_routes(others: list[Route]) -> list[Route]:
    """Return the routes for operators; the description is made of all others, and of these."""
    described: dict[str, Any] = {}

    async def describe(call: Call) -> dict[str, Any]:
        if not described:
            described.update(openapi.describe([*others, *own], root_path=call.front.settings.root_path))
        return described

    own = [
        Route("GET", "/healthz", live, API, "Whether the process is alive.", media_type="text/plain", who="everyone"),
        Route("GET", "/readyz", ready, API, "Whether requests should be sent here.", media_type="text/plain",
              who="everyone"),
        Route("GET", "/metrics", metrics, API, "Metrics for Prometheus.", media_type="text/plain"),
        Route("GET", "/openapi.json", describe, API, "This description.", None, dict[str, Any], who="everyone"),
        Route("GET", "/spec", describe, API, "This description, where LibreTranslate has its own.", None,
              dict[str, Any], who="everyone"),
        Route("POST", "/v1/models/{name}/reload", reload, API, "Load a newer version of a model.", None,
              dict[str, Any], who="admins"),
    ]  # fmt: skip
    return own
