"""Anything sent to the endpoints of runs, findings and the class gives 2xx or 4xx, and never an unexpected error."""

import json
import random

from jumok.server import classroom, watching
from jumok.server.children import Children
from tests.server.test_runs import CHANGING, READING, Recorded
from tests.support.logs import validation, write_run
from tests.support.pretend import ask, pretend_server

PATHS = [*READING, *CHANGING, "/v1/class", "/v1/class/join", "/v1/class/code", "/v1/class/events"]
VALUES = [
    None, True, 0, -1, 7, 10**30, 1e308, float("inf"), "", "a", "chrf", "step", "tokens", "train.en", "../..", "\x00",
    "é" * 300, "#/lab", "#/" + "a" * 9_000, [], ["x"], {}, {"a": {}}, "0" * 40, "ko", "quick", "９", "\ud800", "%2e%2e",
]  # fmt: skip
NAMES = ["axis", "begin", "end", "points", "most", "other", "from", "text", "name", "source", "target", "table",
         "recipe", "minutes", "scale", "language", "again", "order", "code", "view", "junk"]  # fmt: skip
HEADERS = [
    {}, {"origin": "http://localhost:5000"}, {"origin": "https://evil.example"}, {"last-event-id": "12"},
    {"last-event-id": "x" * 50}, {"cookie": "jumok_class=zzz"}, {"x-class": "é"}, {"authorization": "Bearer x"},
    {"content-type": "text/plain"}, {"x-timeout-ms": "-1"}, {"sec-fetch-site": "cross-site"},
]  # fmt: skip
ALLOWED = {200, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431}


def spoil(chance, text):
    """A text with one character changed."""
    place = chance.randrange(len(text) + 1)
    return text[:place] + chance.choice(["", "/", "%", "{", "\x00", "é", "..", "0"]) + text[place + 1 :]


def make(chance, known):
    """A request: method, path, body, headers."""
    path = chance.choice(PATHS).replace("ID", chance.choice(known)).partition("?")[0]
    if chance.random() < 0.15:
        path = spoil(chance, path)
    method = chance.choice(["GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"])
    values = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(5))}
    if chance.random() < 0.5:
        plain = [(name, value) for name, value in values.items() if isinstance(value, str) and value.isascii()]
        path += "?" + "&".join(f"{name}={value}" for name, value in plain if "\x00" not in value)
    body = chance.choice([None, json.dumps(values).encode(), b"{", b"\xff\xfe", b"[]", b"a=b&a=c", b"{" * 2_000])
    return method, path, body if method != "GET" or chance.random() < 0.3 else None, chance.choice(HEADERS)


def test_no_request_makes_an_unexpected_error(tmp_path, monkeypatch, tries, kept):
    Recorded(monkeypatch)

    async def read(children, arguments, *, stdin=""):
        yield json.dumps({"step": 1, "text": stdin})

    monkeypatch.setattr(Children, "read", read)
    monkeypatch.setattr(watching, "EVERY", 0.001)
    monkeypatch.setattr(classroom, "TRIES", 10**6)
    monkeypatch.setattr(classroom, "ALL_TRIES", 10**6)
    work = tmp_path / "work"
    for name in ("one", "two"):
        write_run(work / "runs" / name, 30, more=validation(30, 5.0))
    (work / "runs" / "one" / "snapshots" / "step-00000001").mkdir(parents=True)
    (work / "train.en").write_text("a\n")
    servers = [
        pretend_server(workspace=work, state=tmp_path / "a"),
        pretend_server(workspace=work, state=tmp_path / "b", classroom=True, host="0.0.0.0"),
        pretend_server(state=tmp_path / "c"),
    ]
    rows = ask(servers[0][1], "GET", "/v1/runs").json["runs"]
    known = [*(row["id"] for row in rows), "0123456789abcdef", "..", "x"]
    chance, count, seen = random.Random(7), tries(300, 10_000), set()
    for number in range(count):
        front, app = servers[number % 3]
        method, path, body, headers = make(chance, known)
        scope = {"client": (chance.choice(["127.0.0.1", "192.168.0.9"]), 40_000)}
        answer = ask(
            app, method, path, body, headers=headers, scope=scope, leaves_after=0.02 if "events" in path else None
        )  # fmt: skip
        assert answer.status in ALLOWED, (method, path, body, headers, answer.status, answer.body)
        assert list(front.metrics.faults.lines())[2:] in ([], ["jumok_faults_total 0"]), (method, path, body)
        assert str(tmp_path) not in answer.body.decode("utf-8", "replace") or "recipe" in path, path
        seen.add(answer.status)
        for task in list(front.workspace.children.tasks.values()):
            task.process.returncode = 0
    assert {200, 400, 403, 404, 405} <= seen
    kept("S1", "fuzzed requests to the endpoints of runs, findings and the class", figures=f"{count:,} × no 500")
