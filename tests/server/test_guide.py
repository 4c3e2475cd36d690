"""The examples of docs/guide/serve.md, run against a server."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from jumok.server.settings import Limits, Settings

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGE = (GUIDE / "serve.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


@pytest.mark.parametrize("page", ["serve.md", "serve.ko.md"])
def test_the_calls_with_curl(running, page):
    found = blocks("console", (GUIDE / page).read_text(encoding="utf-8"))
    assert found
    for block in found:
        command = block.partition('{"translatedText')[0].removeprefix("$ ").replace("\\\n", " ")
        words = shlex.split(command.replace("http://127.0.0.1:5000", running.address))
        answer = subprocess.run([*words, "-sf"], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, (words, answer.stdout)
        assert "translat" in answer.stdout


def test_the_example_in_python(running):
    [code] = blocks("py")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "serve.md", "exec"), {"ADDRESS": running.address})
    assert out.getvalue().startswith("[")


def test_the_example_in_javascript(running, tmp_path):
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    [code] = blocks("js")
    (tmp_path / "a.mjs").write_text(f'const ADDRESS = "{running.address}";\n{code}')
    answer = subprocess.run(["node", str(tmp_path / "a.mjs")], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()


def test_the_settings_in_the_guide_are_the_defaults():
    [text] = blocks("toml")
    given = tomllib.loads(text)
    settings = Settings.of(given, place="serve.md")
    defaults = Limits()
    assert {name: getattr(defaults, name) for name in given["limits"]} == given["limits"]
    assert settings.models == {"en-de": "/srv/models/tiny"}
