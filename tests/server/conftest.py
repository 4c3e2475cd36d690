"""One running server for all tests that only ask it."""

import pytest

from tests.support.running import Running


@pytest.fixture(scope="session")
def running(micro, tmp_path_factory):
    """A server over the micro model under three pairs of languages, with short patience for slow clients."""
    limits = {
        "header_seconds": 1.0,
        "body_seconds": 1.5,
        "send_seconds": 2.0,
        "keep_alive_seconds": 3.0,
        "body_bytes": 4_000_000,
    }
    models = {"en-de": micro, "de-en": micro, "en-ko": micro}
    server = Running(tmp_path_factory.mktemp("serve"), models, limits=limits, grace=0.1)
    yield server
    assert server.stop() == 0
