"""Clients from npm, each from its own public API against a running server; skipped where npm cannot install them."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import jumok
from jumok.disk import user_cache
from tests.support.running import Running

CLIENTS = Path(__file__).parent / "clients"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the packages, kept in the user's cache because installing takes longer than the tests."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    wanted = (CLIENTS / "package.json").read_bytes()
    cache = user_cache.own("test-clients") or tmp_path_factory.mktemp("clients")
    folder = cache / hashlib.sha256(wanted).hexdigest()[:16]
    if not (folder / "ready").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_bytes(wanted)
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
        try:
            done = subprocess.run(
                ["npm", "install", *options], cwd=folder, capture_output=True, check=False, timeout=300
            )
        except subprocess.TimeoutExpired:
            pytest.skip("npm did not answer")
        if done.returncode:
            pytest.skip("npm cannot install the clients")
        (folder / "ready").touch()
    shutil.copy(CLIENTS / "run.mjs", folder / "run.mjs")
    return folder


@pytest.fixture
def run(installed):
    def start(name: str, address: str):
        command = ["node", "run.mjs", name, address]
        done = subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return start


def test_npm_libretranslate(running, run):
    assert run("libretranslate", running.address) == running.translate("a b c")


def test_npm_libretranslate_ts(running, run):
    got = run("libretranslate-ts", running.address)
    assert got["text"] == running.translate("a b c")
    assert isinstance(got["others"], list)
    assert got["languages"] == 3
    assert got["detected"]["language"] == "en"


def test_npm_translate(running, run):
    assert run("translate", running.address) == running.translate("a b c")


def test_npm_deepl_node(running, run):
    got = run("deepl-node", running.address)
    assert got["texts"] == running.translate(["a b c", "d e"])
    assert got["billed"] == 5
    assert "b" in got["bound"]
    assert got["document"] == running.translate("a b c.")
    assert {"de", "en-US", "en-GB", "ko"} == set(got["targets"])
    assert got["limited"] is False


GPT = Path(__file__).parents[1] / "golden" / "0.1" / "gpt-text"


@pytest.fixture(scope="module")
def poet(tmp_path_factory):
    """A server of a language model, which needs torch: the deadline leaves time to load it."""
    limits = {"deadline_seconds": 60.0}
    server = Running(tmp_path_factory.mktemp("poet"), {"poet": GPT}, limits=limits, grace=0.0)
    yield server
    assert server.stop() == 0


def test_python_openai(poet):
    import openai

    client = openai.OpenAI(base_url=f"{poet.address}/v1", api_key="k", timeout=60)
    assert [model.id for model in client.models.list()] == ["poet"]
    asked = {"model": "poet", "prompt": "a b", "max_tokens": 5, "temperature": 0}
    answer = client.completions.create(**asked)
    whole, usage = answer.choices[0].text, answer.usage
    assert whole
    read = len(jumok.load(GPT).vocabularies.target.encode("a b"))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (read, 5, read + 5)
    assert "".join(part.choices[0].text for part in client.completions.create(**asked, stream=True)) == whole
    with pytest.raises(openai.NotFoundError):
        client.completions.create(**(asked | {"model": "nobody"}))
    client.close()


def test_npm_openai(poet, run):
    got = run("openai", poet.address)
    assert got["models"] == ["poet"]
    assert got["text"] == got["streamed"] != ""
