"""Requests made from the OpenAPI description, right and wrong ones: never 500, never a dead process (schemathesis)."""

import warnings
from collections import Counter

import hypothesis
import pytest
import requests

ALLOWED = {200, 201, 204, 400, 401, 403, 404, 405, 408, 411, 413, 414, 415, 422, 429, 431, 503}
SLOW = {  # most requests: they need torch, or a new engine
    "/v1/graph": 40, "/v1/attention": 40, "/v1/models/{name}/reload": 10, "/v1/inside": 40, "/v1/inside/block": 40,
    "/v1/inside/step": 40, "/v1/inside/warm": 10, "/v1/break": 40, "/v1/break/score": 10,
}  # fmt: skip
MOST = 25  # requests of one operation in a round; some have fewer that differ
ROUNDS = 100
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_every_operation_answers_whatever_it_is_sent(running, tries, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) > 40
    wanted, statuses = tries(80, 20_000), Counter[int]()
    is_long = wanted > 1_000
    with requests.Session() as session:
        for round_ in range(ROUNDS):
            each = min(MOST, max(1, -(-(wanted - statuses.total()) // (2 * len(operations)))))
            for operation in operations:
                if operation.path in SLOW and (round_ or not is_long):
                    continue
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    count = min(each, SLOW.get(operation.path, each))
                    statuses += _check(operation, mode, count, round_, session)
            if statuses.total() >= wanted:
                break
    assert running.is_alive()
    assert running.metric("jumok_faults_total") == 0
    assert running.metric("jumok_engine_restarts_total") == 0
    described = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    kept("S1", "requests made from the OpenAPI description", count=statuses.total(), figures=described)


def _check(operation, mode, count: int, seed: int, session: requests.Session) -> Counter[int]:
    """Send some requests of one operation; returns how often each status was the answer."""
    statuses = Counter[int]()

    @hypothesis.seed(seed)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    @hypothesis.settings(
        max_examples=count, deadline=None, database=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    def send(case) -> None:
        answer = case.call(session=session, timeout=60)
        assert answer.status_code in ALLOWED, (case.method, case.path, answer.status_code, answer.text[:300])
        statuses[answer.status_code] += 1

    try:
        send()
    except (hypothesis.errors.Unsatisfiable, hypothesis.errors.InvalidArgument):
        return statuses  # an operation without parameters has no wrong ones
    return statuses
