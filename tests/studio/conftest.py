"""The page as people use it: a server in its own process, and Debian's chromium driven by Playwright.

Tests read words and numbers, never pixels.  They are skipped, with a message, where the page was not built or where
there is no browser.
"""

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.running import Running

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "src" / "jumok" / "built"
PATIENCE = 30_000  # milliseconds for anything to appear; the machine may be busy
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def bundle():
    """The folder of the built page."""
    if not (BUILT / "studio.js").exists():
        pytest.skip("the studio's page was not built: python tools/studio.py --force")
    return BUILT


@pytest.fixture(scope="session")
def node_modules():
    """The packages of npm, with those that only tests need."""
    folder = ROOT / "studio" / "node_modules"
    if not (folder / "axe-core").exists():
        pytest.skip("packages of npm are missing: python tools/studio.py --tests")
    return folder


@pytest.fixture(scope="module")
def browser(bundle):
    """One chromium for the tests of a file: while one is open, no other test of the process can run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def served(micro, tmp_path_factory):
    """A server of the micro model under two names."""
    server = Running(tmp_path_factory.mktemp("studio"), {"en-de": micro, "twin": micro}, grace=0.1)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def warmed(served):
    """The same server, whose engine with torch has started."""
    for _ in range(60):
        status, answer, _ = served.request("/v1/inside/warm", {"model": "en-de"}, timeout=120)
        if status == 200:
            return served
        assert status in (429, 503), answer
        time.sleep(1)
    raise AssertionError(answer)


@contextmanager
def opened(browser, server, place="", *, width=1400, height=900, **options):
    """A page of the studio; leaving it checks that it asked no other host, logged no error and kept the policy."""
    context = browser.new_context(viewport={"width": width, "height": height}, locale="en-US", **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    foreign, complaints = [], []
    page.on("request", lambda one: foreign.append(one.url) if not is_own(one.url, server) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if is_complaint(line) else None)
    page.goto(f"{server.address}/{place}")
    try:
        yield page
        assert not foreign, foreign
        assert not complaints, complaints
    finally:
        context.close()


def is_complaint(line):
    """Whether a line of the console is an error; the server may say "later", and the page then asks again."""
    return line.type == "error" and not any(f"status of {code}" in line.text for code in (429, 503))


def is_own(address, server):
    return address.startswith((server.address, "data:", "blob:"))


def take_pictures():
    """The folder for screenshots, where somebody wants to look at them: JUMOK_PICTURES=FOLDER."""
    return os.environ.get("JUMOK_PICTURES")
