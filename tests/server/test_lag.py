"""A server whose own process is the bottleneck notices it and refuses early."""

import asyncio
import time

import pytest

from jumok.server.front import CROWD, MOST_LAG, MOST_WAIT, ROUNDS
from jumok.server.lag import Lag
from jumok.server.refusals import Refusal
from tests.support.pretend import pretend_server


def test_a_long_round_of_the_event_loop_is_noticed_and_forgotten() -> None:
    async def run() -> tuple[float, float]:
        lag = Lag()
        lag.start()
        await asyncio.sleep(0.05)
        time.sleep(0.3)  # as a thousand requests in one round would
        await asyncio.sleep(0.02)
        during = lag.seconds
        until = time.monotonic() + 20.0
        while lag.seconds > during / 2 and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return during, lag.seconds

    during, after = asyncio.run(run())
    assert during > 0.15
    assert after <= during / 2


def test_in_a_crowd_work_is_refused_with_429_while_rounds_are_long() -> None:
    front, _ = pretend_server()
    front.active = CROWD + 1
    front.check_load(time.monotonic() + 10.0)
    front.lag.seconds = 2 * MOST_LAG
    front.active = 1  # a busy machine is no reason to refuse the only client
    front.check_load(time.monotonic() + 10.0)
    front.active = CROWD + 1
    with pytest.raises(Refusal) as refusal:
        front.check_load(time.monotonic() + 10.0)
    assert refusal.value.status == 429
    assert int(refusal.value.headers["retry-after"]) >= 1


def test_in_a_crowd_the_queue_of_a_model_is_shorter_by_what_rounds_take() -> None:
    front, _ = pretend_server()
    front.active, front.lag.seconds = CROWD + 1, 0.8 * MOST_LAG
    left = MOST_WAIT - ROUNDS * front.lag.seconds
    assert 0.0 < left < MOST_WAIT / 2
    front.service.wait = 0.9 * left
    front.check_load(time.monotonic() + 10.0)
    front.service.wait = 1.1 * left
    with pytest.raises(Refusal):
        front.check_load(time.monotonic() + 10.0)
    front.lag.seconds, front.service.wait = 0.001, 5.0  # the service itself decides
    front.check_load(time.monotonic() + 10.0)
    front.active, front.lag.seconds = 1, 0.8 * MOST_LAG
    front.check_load(time.monotonic() + 10.0)
