"""A server whose own process is the bottleneck notices it and refuses early."""

import asyncio
import time

import pytest

from jumok.server.front import CROWD, MOST_LAG
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
