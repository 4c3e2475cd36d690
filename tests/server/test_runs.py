"""Runs over HTTP: reading them, following one that is killed and continued, and starting, pausing and stopping."""

import asyncio
import json
import time
from threading import Thread

import pytest

from jumok.server import watching
from jumok.server.children import Children
from tests.support.logs import begin, event, step, validation, write_run
from tests.support.pretend import ask, pretend_server

HERE = {"host": "localhost:5000"}


@pytest.fixture
def work(tmp_path):
    """A workspace with two runs and texts."""
    folder = tmp_path / "work"
    write_run(folder / "runs" / "one", 50, more=validation(50, 21.5, sample="a b → A B"))
    write_run(folder / "runs" / "two", 20, recipe='seed = 7\n[data]\ncorpus = "copy"\n[training]\nsteps = 5\n')
    for name in ("train.en", "train.de", "pairs.tsv"):
        (folder / name).write_text("a\tb\n" * 3)
    return folder


@pytest.fixture
def server(work, tmp_path):
    front, app = pretend_server(workspace=work, state=tmp_path / "state")
    return front, app


def ids(app):
    return {run["name"]: run["id"] for run in ask(app, "GET", "/v1/runs").json["runs"]}


def test_runs_are_listed_with_their_state_and_newest_scores(server):
    rows = {run["name"]: run for run in ask(server[1], "GET", "/v1/runs").json["runs"]}
    assert set(rows) == {"runs/one", "runs/two"}
    assert rows["runs/one"]["state"] == "stopped"
    assert rows["runs/one"]["step"] == 50
    assert rows["runs/one"]["scores"]["bleu"] == 21.5


def test_curves_samples_recipe_and_differences_are_those_of_the_files(server):
    app, known = server[1], ids(server[1])
    one, two = known["runs/one"], known["runs/two"]
    drawn = ask(app, "GET", f"/v1/runs/{one}/curves?axis=tokens&points=100").json
    assert drawn["x"][-1] == 5_000
    assert drawn["series"]["loss"]["mean"][0] == 10.0
    assert ask(app, "GET", f"/v1/runs/{one}/curves?begin=10&end=19").json["step"] == list(range(10, 20))
    assert ask(app, "GET", f"/v1/runs/{one}/samples").json["samples"][0]["sample"] == "a b → A B"
    assert ask(app, "GET", f"/v1/runs/{two}/recipe").json["recipe"]["training.steps"] == 5
    rows = ask(app, "GET", f"/v1/runs/{one}/differences?other={two}").json["differences"]
    assert {row["key"]: (row["one"], row["two"]) for row in rows} == {"seed": (1, 7), "training.steps": (100_000, 5)}
    assert ask(app, "GET", f"/v1/runs/{one}").json["begin"]["recipe"] == "tiny"


def append(path, text):
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def follow(app, path, until, timeout=20.0, **headers):
    """Read a stream of events until one fits; returns all of them."""
    got, seen = [], asyncio.Event()

    async def run():
        read = False

        async def receive():
            nonlocal read
            if not read:
                read = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await seen.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            for block in message.get("body", b"").decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
                if "data" in fields:
                    got.append((fields["event"], fields["id"], json.loads(fields["data"])))
                    if until(got[-1]):
                        seen.set()

        plain, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "path": plain, "query_string": query.encode(),
            "scheme": "http", "server": ("127.0.0.1", 5000), "client": ("127.0.0.1", 1),
            "headers": [(b"host", b"localhost:5000"), *((k.encode(), v.encode()) for k, v in headers.items())],
        }  # fmt: skip
        async with asyncio.timeout(timeout):
            await app(scope, receive, send)

    asyncio.run(run())
    return got


def test_a_run_is_followed_through_a_kill_and_its_continuation(server, work, monkeypatch):
    monkeypatch.setattr(watching, "EVERY", 0.01)
    app, run = server[1], work / "runs" / "one"
    known, log = ids(app)["runs/one"], run / "events.jsonl"
    happenings = [
        lambda: (run / ".lock").write_text("1 elsewhere 5"),  # a holder without a lock: killed
        lambda: append(log, '{"event": "step", "st'),
        lambda: append(log, "\n" + begin(30) + "".join(step(n) for n in range(31, 61))),
        lambda: (run / ".lock").write_text(""),
        lambda: append(log, event("finished", step=60, bleu=33.0)),
    ]

    def happen():
        for one in happenings:
            time.sleep(0.3)
            one()

    thread = Thread(target=happen)
    thread.start()
    got = follow(app, f"/v1/runs/{known}/events", lambda one: one[2].get("state") == "finished")
    thread.join()
    states = [one[2]["state"] for one in got if one[0] == "state"]
    assert states[0] == "stopped"
    assert states[-1] == "finished"
    assert "killed" in states
    steps = [one["step"] for _, _, data in got for one in data.get("events", []) if one["event"] == "step"]
    assert steps == list(range(31, 61)), "steps go back to the checkpoint"
    kinds = [one["event"] for _, _, data in got for one in data.get("events", [])]
    assert kinds[0] == "begin"
    again = follow(app, f"/v1/runs/{known}/events", lambda one: one[0] == "events", **{"last-event-id": got[0][1]})
    assert any(one["event"] == "begin" for _, _, data in again for one in data.get("events", []))


def test_a_client_far_behind_is_told_to_begin_again(server, work, monkeypatch):
    monkeypatch.setattr(watching, "MOST", 1_000)
    got = follow(server[1], f"/v1/runs/{ids(server[1])['runs/one']}/events?from=0", lambda one: one[0] == "events")
    assert got[0][0] == "reset"
    assert got[1][2]["events"][-1]["event"] == "validation"


class Recorded:
    """Processes that are not started: what would have been."""

    def __init__(self, monkeypatch):
        self.calls = []

        async def launch(children, arguments, *, stdin, stdout, folder=None, detached=False):
            self.calls.append((list(arguments), folder, detached))
            return type("Process", (), {"returncode": None, "pid": 1})()

        monkeypatch.setattr(Children, "launch", launch)


def start(app, **values):
    body = {"name": "new", "source": "train.en", "target": "train.de", "recipe": "tiny", "minutes": 2.5} | values
    return ask(app, "POST", "/v1/runs", {key: value for key, value in body.items() if value is not None})


def test_a_run_is_started_from_listed_texts_with_a_list_of_arguments(server, work, monkeypatch):
    recorded = Recorded(monkeypatch)
    assert start(server[1]).status == 200
    arguments, folder, detached = recorded.calls[0]
    assert arguments == [
        "train", "--recipe", "tiny", "--minutes", "2.5", "--source", str(work / "train.en"), "--target",
        str(work / "train.de"), "--out", str(work / "runs" / "new"),
    ]  # fmt: skip
    assert (folder, detached) == (work, True)
    assert start(server[1], source=None, target=None, table="pairs.tsv").status == 200
    listed = ask(server[1], "GET", "/v1/tasks").json["tasks"]
    assert [task["kind"] for task in listed] == ["train", "train"]


@pytest.mark.parametrize(
    "values",
    [
        {"source": "../secret.en"}, {"source": "/etc/passwd"}, {"source": "runs/one/events.jsonl"},
        {"source": "none.en"}, {"source": "link.en"}, {"source": "train.en\x00"}, {"source": "./train.en"},
        {"source": "-h"}, {"source": ""}, {"name": "../out"}, {"name": "-rf"}, {"name": "a b"}, {"name": ""},
        {"name": "one"}, {"name": "a/b"}, {"name": "."}, {"recipe": "/etc/passwd"}, {"recipe": "../x.toml"},
        {"recipe": "--help"}, {"minutes": -1}, {"minutes": "1e999"}, {"minutes": None}, {"target": None},
        {"table": "pairs.tsv"}, {"shell": "rm -rf /"},
    ],
)  # fmt: skip
def test_paths_links_options_and_taken_names_start_nothing(server, work, tmp_path, monkeypatch, values):
    recorded = Recorded(monkeypatch)
    (tmp_path / "secret.en").write_text("secret\n")
    (work / "link.en").symlink_to(tmp_path / "secret.en")
    answer = start(server[1], **values)
    assert answer.status in (400, 404, 409)
    assert recorded.calls == []
    assert str(tmp_path) not in answer.text


def test_a_run_continues_by_its_own_recipe_unless_it_runs_or_is_finished(server, work, monkeypatch):
    recorded = Recorded(monkeypatch)
    known = ids(server[1])["runs/one"]
    assert ask(server[1], "POST", f"/v1/runs/{known}/continue").status == 200
    folder = work / "runs" / "one"
    assert recorded.calls[0][0] == ["train", "--recipe", str(folder / "recipe.toml"), "--out", str(folder)]
    with (folder / "events.jsonl").open("a") as file:
        file.write(event("finished", step=60))
    assert ask(server[1], "POST", f"/v1/runs/{known}/continue").status == 409
    for verb in ("pause", "stop"):
        assert ask(server[1], "POST", f"/v1/runs/{known}/{verb}").status == 409, "nothing is running"


READING = ["/v1/runs", "/v1/texts", "/v1/runs/ID", "/v1/runs/ID/curves", "/v1/runs/ID/samples", "/v1/runs/ID/recipe",
           "/v1/runs/ID/differences?other=ID", "/v1/runs/ID/events", "/v1/runs/ID/errors", "/v1/tasks", "/v1/lab",
           "/v1/races", "/v1/tasks/x/events", "/v1/findings/x/page", "/v1/races/x/page"]  # fmt: skip
CHANGING = ["/v1/runs", "/v1/runs/ID/pause", "/v1/runs/ID/continue", "/v1/runs/ID/stop", "/v1/runs/ID/film",
            "/v1/tasks/x/stop", "/v1/lab/mask/start", "/v1/class/view", "/v1/races", "/v1/findings/x/address",
            "/v1/races/x/address"]  # fmt: skip
FOREIGN = [
    {"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:9999"},
    {"origin": "http://127.0.0.1:8000"}, {"origin": "chrome-extension://amkbmndfnliijdhojkpoglbnaaahippg"},
    {"origin": "https://friend.example"}, {"origin": "http://localhost:5000.evil.example"},
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"host": "evil.example"},
    {"host": "localhost:5000", "origin": "https://localhost.evil:5000"},
]  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_origin_can_neither_read_nor_change_a_run(work, tmp_path, monkeypatch, headers):
    recorded = Recorded(monkeypatch)
    app = pretend_server(workspace=work, state=tmp_path / "state", allow_origin=["https://friend.example"])[1]
    known = ids(app)["runs/one"]
    tried = [("GET", path) for path in READING] + [("POST", path) for path in CHANGING]
    for method, path in tried:
        for body in ({}, None, b"name=x"):
            answer = ask(app, method, path.replace("ID", known), body if method == "POST" else None, headers=headers)
            assert answer.status == 403, (method, path, answer.status)
            assert "access-control-allow-origin" not in answer.headers
            assert "runs/one" not in answer.text
    assert recorded.calls == []


def test_every_route_about_runs_is_for_administrators(server):
    ours = [route for route in server[1].table.routes if route.api.name in ("runs", "findings")]
    assert len(ours) >= 20
    assert {route.who for route in ours} == {"admins"}
    paths = {route.path for route in ours}
    listed = {path.partition("?")[0].replace("ID", "{id}") for path in (*READING, *CHANGING)}
    fixed = {"/v1/tasks/x/events", "/v1/findings/x/page", "/v1/races/x/page", "/v1/tasks/x/stop", "/v1/lab/mask/start",
             "/v1/findings/x/address", "/v1/races/x/address"}  # fmt: skip
    names = {path.replace("/x/", "/{id}/").replace("/mask/", "/{name}/") for path in fixed}
    assert paths <= (listed - fixed) | names, "a new route belongs into the lists of this test"


def test_beyond_this_machine_runs_need_an_administrators_key(work, tmp_path):
    from jumok.server.keys import KeyFile

    keys = KeyFile(tmp_path / "keys.json")
    admin, user = keys.add("a", admin=True, created="x"), keys.add("b", created="x")
    app = pretend_server(workspace=work, state=tmp_path / "state", host="0.0.0.0", keys=tmp_path / "keys.json")[1]
    for given, status in ((admin, 200), (user, 403), ("wrong", 403)):
        assert ask(app, "GET", "/v1/runs", headers={"authorization": f"Bearer {given}"}).status == status
    assert ask(app, "GET", "/v1/runs").status == 401
    app = pretend_server(workspace=work, state=tmp_path / "state", host="0.0.0.0", without_keys=True)[1]
    assert ask(app, "GET", "/v1/runs").status == 403


def test_without_a_workspace_there_is_nothing_to_start(tmp_path):
    app = pretend_server(state=tmp_path / "state")[1]
    assert ask(app, "GET", "/v1/runs").json == {
        "runs": [],
        "can_start": False,
        "recipes": ["auto", "demo", "tiny", "small", "base", "big"],
    }
    assert start(app).status == 404
    assert ask(app, "GET", "/v1/texts").status == 404
    assert ask(app, "GET", "/v1/runs/0123456789abcdef").status == 404
