"""What the tests of the service share: a running service over the micro model, and its sentences."""

import asyncio
import faulthandler
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jumok.config.search import SearchOptions
from jumok.service.service import Service, ServiceOptions
from jumok.service.values import Ask

SOON = 60.0  # seconds that a test waits for anything, on a busy machine


def soon(seconds: float = SOON) -> float:
    """A deadline."""
    return time.monotonic() + seconds


def sentences(count: int, *, words: int = 12) -> list[str]:
    """Distinct sentences of different lengths."""
    letters = "abcdefghij"
    return [
        " ".join(letters[(number // 10**place + place) % 10] for place in range(1 + number % words)) + f" {number}"
        for number in range(count)
    ]


def asks(texts: list[str], **options: Any) -> list[Ask]:
    return [Ask(text, SearchOptions(**{"beam": 4, "extra_length": 5, **options})) for text in texts]


@asynccontextmanager
async def serve(*models: object, grace: float = 5.0, **keywords: Any) -> AsyncIterator[Service]:
    """A service that has started; its processes have ended afterwards."""
    options = ServiceOptions(**{"threads": 2, **keywords.pop("options", {})})
    service = Service([str(model) for model in models], options=options, **keywords)
    try:
        await service.start()
        yield service
    finally:
        await service.close(grace)
        assert not service.native.handles
        assert not service.torch.handles


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A test that hangs ends the run, and says where it hung."""
    faulthandler.dump_traceback_later(300.0, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    return request.param


def run(work: Coroutine[Any, Any, Any], loop_name: str = "asyncio") -> Any:
    """Run a coroutine with an event loop of its own."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if loop_name == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has exited and is not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
