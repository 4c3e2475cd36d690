"""The first texts whose language is detected: nobody else waits for the statistics, and nobody beyond the deadline."""

import asyncio
import threading
import time
from time import monotonic

import pytest

from jumok.server.languages import Languages
from jumok.server.refusals import Refusal
from tests.support.pretend import PretendService, ask, pretend_server


class SlowLanguages(Languages):
    """Languages whose statistics are loaded when somebody allows it."""

    def __init__(self) -> None:
        super().__init__(PretendService())
        self.allowed, self.loads = threading.Event(), 0

    def _load(self, served: tuple[str, ...]) -> None:
        self.loads += 1
        assert self.allowed.wait(30.0)
        super()._load(served)


def test_all_requests_wait_for_one_loading_and_the_event_loop_goes_on():
    async def run() -> SlowLanguages:
        languages = SlowLanguages()
        waiting = [asyncio.create_task(languages.warm_up(monotonic() + 60.0)) for _ in range(3)]
        await asyncio.sleep(0.01)
        late = asyncio.create_task(languages.warm_up(monotonic() + 60.0))  # while it is being loaded
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in (*waiting, late))
        languages.allowed.set()
        await asyncio.gather(*waiting, late)
        await languages.warm_up(monotonic() - 1.0)  # loaded: no deadline matters
        return languages

    languages = asyncio.run(run())
    assert languages.loads == 1
    assert languages.detect("ein Hund und eine Katze")[0].language == "de"


def test_a_request_is_refused_at_its_deadline_and_loading_goes_on():
    async def run() -> SlowLanguages:
        languages = SlowLanguages()
        began = time.monotonic()
        with pytest.raises(Refusal) as refusal:
            await languages.warm_up(monotonic() + 0.05)
        assert time.monotonic() - began < 10.0
        assert (refusal.value.status, refusal.value.headers["retry-after"]) == (503, "1")
        languages.allowed.set()
        await languages.warm_up(monotonic() + 60.0)
        return languages

    assert asyncio.run(run()).loads == 1


def test_a_client_hears_of_its_deadline_while_statistics_are_loaded():
    front, app = pretend_server()
    front.languages = slow = SlowLanguages()
    threading.Timer(0.5, slow.allowed.set).start()  # the event loop of the test ends with its threads
    value = {"q": "a dog", "source": "auto", "target": "de"}
    answer = ask(app, "POST", "/translate", value, headers={"x-timeout-ms": "50"})
    assert answer.status == 503
    assert "languages" in answer.json["error"]
