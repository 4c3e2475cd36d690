"""Requests made from the OpenAPI description, right and wrong ones: never 500, never a dead process (schemathesis)."""

import warnings

import hypothesis
import pytest

ALLOWED = {200, 201, 204, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 422, 429, 431, 503}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_every_operation_answers_whatever_it_is_sent(running, tries, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 40
    each = max(2, tries(100, 20_000) // len(operations))
    slow = (  # these start torch or another engine
        "/v1/graph", "/v1/attention", "/v1/models/{name}/reload", "/v1/inside", "/v1/inside/block", "/v1/inside/step",
        "/v1/inside/warm", "/v1/break", "/v1/break/score",
    )  # fmt: skip
    checked = 0
    for operation in operations:
        if operation.path in slow:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            checked += _check(operation, mode, each // 2 or 1)
    assert running.is_alive()
    assert running.metric("jumok_faults_total") == 0
    kept("S1", "requests made from the OpenAPI description", count=checked)


def _check(operation, mode, count: int) -> int:
    """Send some requests of one operation; returns how many."""
    sent = 0

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    def send(case) -> None:
        nonlocal sent
        answer = case.call(timeout=30)
        assert answer.status_code in ALLOWED, (case.method, case.path, answer.status_code, answer.text[:300])
        sent += 1

    try:
        send()
    except (hypothesis.errors.Unsatisfiable, hypothesis.errors.InvalidArgument):
        return sent  # an operation without parameters has no wrong ones
    return sent
