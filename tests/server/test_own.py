"""Our own API, the smaller protocols, streams, completions, the page, and what every answer has in common."""

import gc
import json
import re
import time

import pytest

from jumok.service.errors import DeadlineExceeded, EngineLost, Overloaded, Poisoned
from tests.support.pretend import DIGEST, ask, pretend_server


@pytest.fixture(scope="module")
def server():
    return pretend_server(openai=True)


@pytest.fixture(scope="module")
def app(server):
    return server[1]


def test_everything_that_a_translator_can_do_is_asked_for_by_name(server, app):
    server[0].service.asked.clear()
    given = {
        "text": "One dog. Two cats.", "source": "en", "target": "de", "beam": 5, "n_best": 2, "length_penalty": 1.0,
        "no_repeat": 3, "min_length": 2, "forbid": ["Katze"], "details": True, "align": True,
        "glossary": {"dog": "Hund"},
    }  # fmt: skip
    answer = ask(app, "POST", "/v1/translate", given)
    assert answer.status == 200
    [result] = answer.json["translations"]
    assert result["text"] == "ONE DOG. Hund TWO CATS."
    first, second = result["sentences"]
    assert first["alignment"][0] == [0, 0]
    assert first["words"][0] == {"text": "ONE", "probability": 0.5}
    assert len(first["alternatives"]) == 1
    assert second["score"] == -1.0
    one, two = server[0].service.asked
    assert (one.options.beam, one.options.n_best, one.options.length_penalty, one.options.no_repeat) == (5, 2, 1.0, 3)
    assert (one.constraints.require, one.constraints.forbid) == (("Hund",), ("Katze",))
    assert two.constraints.require == ()
    assert answer.headers["x-model"] == DIGEST[:16]
    assert answer.headers["x-cache"] == "miss; 0/2"


@pytest.mark.parametrize(
    "change",
    [
        {"beem": 4}, {"beam": 0}, {"beam": 99}, {"n_best": 50}, {"beam": "wide"}, {"temperature": -1}, {"mbr": 1_000},
        {"groups": 3, "beam": 4}, {"format": "pdf"}, {"text": None}, {"texts": ["a"]}, {"target": "fr"},
        {"source": "zz"}, {"prefix": "a"}, {"require": ["a"] * 65}, {"forbid": ["a" * 501]}, {"glossary_id": "x"},
        {"seed": -1},
        {"glossary": {"": "x"}}, {"length_penalty": float("inf")},
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_a_code_and_a_reason(app, change):
    given = {
        name: value
        for name, value in ({"text": "a", "target": "de", "source": "en"} | change).items()
        if value is not None
    }
    answer = ask(app, "POST", "/v1/translate", given)
    assert answer.status in (400, 404)
    assert {"code", "message", "request_id"} == answer.json["error"].keys()


def test_a_model_is_chosen_by_name_or_by_languages_and_never_by_path(app):
    for given in ({"model": "en-ko"}, {"source": "en", "target": "ko"}, {"target": "KO"}):
        answer = ask(app, "POST", "/v1/translate", {"text": "This is a dog."} | given)
        assert answer.json["translations"][0]["target"] == "ko", answer.json
    for name in ("/etc/passwd", "../en-de", "runs/tiny", "poet", ""):
        assert ask(app, "POST", "/v1/translate", {"text": "a", "model": name}).status == 404


def test_calls_that_are_not_plain_translating(server, app):
    assert (
        ask(app, "POST", "/v1/alternatives", {"text": "a", "target": "de", "prefix": "Ein "}).json["alternatives"][0][
            "text"
        ]
        == "Ein X"
    )
    scores = ask(app, "POST", "/v1/score", {"sources": ["a"], "targets": ["b"], "target": "de"}).json["scores"]
    assert scores == [{"source": "a", "text": "b", "score": -1.0, "log_probability": -2.0}]
    nodes = ask(app, "POST", "/v1/graph", {"text": "a", "target": "de", "beam": 3}).json["nodes"]
    assert nodes[0]["score"] is None  # JSON has no NaN
    assert server[0].service.calls[-1][2]["options"].beam == 3
    assert ask(app, "POST", "/v1/score", {"sources": ["a"], "targets": [], "target": "de"}).status == 400
    assert (
        ask(app, "POST", "/v1/detect", {"text": "Guten Morgen, wie geht es dir?"}).json["detections"][0][0]["language"]
        == "de"
    )
    assert [row["id"] for row in ask(app, "GET", "/v1/models").json["data"]] == ["en-de", "de-en", "en-ko", "poet"]


def events(raw: bytes) -> list[tuple[str, str, dict]]:
    found = []
    for block in raw.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def test_a_stream_grows_and_ends_with_the_translation(app):
    given = {"text": "one small dog. two cats.", "source": "en", "target": "de"}
    answer = ask(app, "POST", "/v1/translate/stream", given)
    assert answer.headers["content-type"] == "text/event-stream"
    got = events(answer.body)
    kinds = [kind for _, kind, _ in got]
    assert kinds == ["partial", "partial", "sentence", "partial", "sentence", "done"]
    assert got[1][2]["text"].startswith(got[0][2]["text"])
    assert got[-1][2]["text"] == "ONE SMALL DOG. TWO CATS."
    assert b"retry: " in answer.body
    seen = got[2][0]
    again = ask(app, "POST", "/v1/translate/stream", given, headers={"last-event-id": seen})
    assert events(again.body) == got[3:]


def test_a_failure_in_a_stream_is_its_last_event(server, app):
    server[0].service.error = EngineLost("service.engine_lost")
    try:
        answer = ask(app, "POST", "/v1/translate/stream", {"text": "a", "source": "en", "target": "de"})
    finally:
        server[0].service.error = None
    assert [kind for _, kind, _ in events(answer.body)] == ["error"]


def test_a_silent_stream_has_a_heartbeat(monkeypatch):
    from jumok.server import streaming

    front, app = pretend_server()
    front.service.delay = 0.12
    monkeypatch.setattr(streaming.beat, "__defaults__", (0.02,))
    answer = ask(app, "POST", "/v1/translate/stream", {"text": "a", "source": "en", "target": "de"})
    assert answer.body.count(b": waiting\n\n") >= 2


def test_immersive_translate_and_google(app):
    given = {"source_lang": "auto", "target_lang": "de", "text_list": ["This is a dog.", "Das ist ein Hund."]}
    answer = ask(app, "POST", "/imme?token=x", given, headers={"origin": "chrome-extension://abc"})
    assert answer.json == {
        "translations": [
            {"detected_source_lang": "en", "text": "THIS IS A DOG."},
            {"detected_source_lang": "de", "text": "Das ist ein Hund."},
        ]
    }
    google = ask(app, "POST", "/language/translate/v2?key=k", {"q": ["a <b>dog</b>"], "source": "en", "target": "de"})
    assert google.json == {"data": {"translations": [{"translatedText": "A <b>DOG</b>"}]}}
    got = ask(app, "GET", "/language/translate/v2?q=one&q=two&source=en&target=de&format=text")
    assert [row["translatedText"] for row in got.json["data"]["translations"]] == ["ONE", "TWO"]
    refused = ask(app, "POST", "/language/translate/v2", {"q": "a", "target": "xx"})
    assert (refused.status, refused.json["error"]["code"]) == (400, 400)
    listed = ask(app, "GET", "/language/translate/v2/languages?target=ko").json["data"]["languages"]
    assert listed[0] == {"language": "de", "name": "독일어"}


def test_completions_of_language_models_only(app):
    given = {"model": "poet", "prompt": "Once", "max_tokens": 3, "temperature": 0}
    answer = ask(app, "POST", "/v1/completions", given)
    assert answer.json["choices"][0]["text"] == " and then and then and then"
    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert answer.json["usage"] == {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
    stopped = ask(app, "POST", "/v1/completions", given | {"stop": " then", "echo": True})
    assert stopped.json["usage"] == {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    assert stopped.json["choices"][0] == {"text": "Once and", "index": 0, "logprobs": None, "finish_reason": "stop"}
    assert ask(app, "POST", "/v1/completions", given | {"model": "en-de"}).status == 404
    assert ask(app, "POST", "/v1/completions", given | {"max_tokens": 10_000}).status == 400
    stream = ask(app, "POST", "/v1/completions", given | {"stream": True})
    pieces = [json.loads(line[6:]) for line in stream.text.split("\n") if line.startswith("data: {")]
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == " and then and then and then"
    assert stream.text.endswith("data: [DONE]\n\n")
    told = ask(app, "POST", "/v1/completions", given | {"stream": True, "stream_options": {"include_usage": True}})
    last = json.loads(told.text.split("\n\n")[-3].removeprefix("data: "))
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 4)
    chat = {"model": "en-de", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "a dog"}]}
    spoken = ask(app, "POST", "/v1/chat/completions", chat).json
    assert spoken["choices"][0]["message"]["content"] == "A DOG"
    assert spoken["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
    assert ask(pretend_server()[1], "POST", "/v1/chat/completions", chat).status == 404


# ------------------------------------------------------------------------------------------ what all have in common


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (Overloaded("service.overloaded", wait=3.2, retry_after=3.2), 429, "4"),
        (DeadlineExceeded("service.deadline"), 503, "1"),
        (EngineLost("service.engine_lost"), 503, "1"),
        (Poisoned("service.poisoned"), 422, None),
        (RuntimeError("secret /etc/passwd"), 503, "1"),
        (MemoryError(), 503, "1"),
    ],
)
def test_faults_are_429_422_or_503_in_every_protocol_and_show_nothing(error, status, retry):
    front, app = pretend_server()
    front.service.error = error
    asked = {
        "/translate": {"q": "a", "source": "en", "target": "de"},
        "/v2/translate": {"text": ["a"], "target_lang": "DE"},
        "/imme": {"text_list": ["a"], "target_lang": "de"},
        "/language/translate/v2": {"q": "a", "target": "de"},
        "/v1/translate": {"text": "a", "target": "de"},
        "/v1/score": {"sources": ["a"], "targets": ["b"], "target": "de"},
    }
    for path, given in asked.items():
        answer = ask(app, "POST", path, given)
        assert answer.status == status
        assert answer.headers.get("retry-after") == retry
        assert "secret" not in answer.text


def test_overload_is_refused_before_the_body_is_read(kept):
    front, app = pretend_server()
    front.service.wait = 60.0
    answer = ask(app, "POST", "/translate", b"{this is not even JSON", headers={"content-length": "1000000"})
    assert answer.status == 429
    assert answer.headers["retry-after"] == "60"
    assert ask(app, "GET", "/languages").status == 200
    front.service.wait = 0.5
    asked = {"q": "a", "source": "en", "target": "de"}
    assert ask(app, "POST", "/translate", asked, headers={"x-timeout-ms": "100"}).status == 429
    assert ask(app, "POST", "/translate", asked, headers={"x-timeout-ms": "2000"}).status == 200
    assert ask(app, "POST", "/translate", asked, headers={"x-timeout-ms": "soon"}).status == 400
    kept("S2", "overload refused before the body is read")


def test_a_client_that_leaves_cancels_its_work_at_once():
    front, app = pretend_server()
    front.service.delay = 30.0
    began = time.monotonic()
    answer = ask(app, "POST", "/translate", {"q": "a", "source": "en", "target": "de"}, leaves_after=0.05)
    assert time.monotonic() - began < 5
    assert answer.status == 0
    assert front.service.cancelled == 1
    assert front.metrics.cancelled.total() == 1


def test_every_answer_has_an_id_and_no_answer_can_be_sniffed(app):
    own = ask(app, "GET", "/languages", headers={"x-request-id": "trace-1"})
    assert own.headers["x-request-id"] == "trace-1"
    for bad in ("a b", "x" * 65, "<script>"):
        assert ask(app, "GET", "/nowhere", headers={"x-request-id": bad}).headers["x-request-id"] != bad
    assert own.headers["x-content-type-options"] == "nosniff"


def test_a_head_request_and_a_trailing_slash_are_understood(app):
    assert ask(app, "HEAD", "/languages").status == 200
    assert ask(app, "GET", "/languages/").status == 200
    assert ask(app, "GET", "/v1/nothing").json["error"]["code"] == "no_such_path"
    assert ask(app, "GET", "/v2/nothing").json == {"message": "there is nothing at this address"}


def test_the_small_page_is_in_two_languages_and_loads_nothing_from_elsewhere():
    _, app = pretend_server(studio=False)
    english = ask(app, "GET", "/")
    korean = ask(app, "GET", "/", headers={"accept-language": "ko"})
    assert 'lang="en"' in english.text
    assert "번역할 글" in korean.text
    policy = english.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    script, style = (ask(app, "GET", f"/assets/{name}").text for name in ("page.js", "page.css"))
    for page in (english.text, korean.text, script, style):
        assert not re.search(r"https?://", page)
    assert not re.search(r"\son\w+=|<script>|style=", english.text)
    assert not re.search(r"\{\w+\}", english.text)
    assert ask(app, "GET", "/assets/app.py").status == 404


def test_metrics_are_in_the_text_format_of_prometheus(app):
    ask(app, "POST", "/translate", {"q": "a", "source": "en", "target": "de"})
    page = ask(app, "GET", "/metrics").text
    names = set()
    for line in page.rstrip("\n").split("\n"):
        if line.startswith("# TYPE "):
            name = line.split(" ")[2]
            assert name not in names
            names.add(name)
        elif not line.startswith("#"):
            assert re.fullmatch(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+', line), line
    assert 'jumok_requests_total{api="libretranslate",code="200"}' in page
    assert {"jumok_request_seconds", "jumok_stopped_total", "jumok_stage_seconds"} <= names
    assert [name for name in names if "cancelled" in name] == ["jumok_requests_cancelled_total"]


def test_the_openapi_description_names_every_route_and_what_it_takes(app):
    description = ask(app, "GET", "/openapi.json").json
    assert description == ask(app, "GET", "/spec").json
    paths = description["paths"]
    assert {
        "/translate",
        "/v2/translate",
        "/v3/glossaries/{id}",
        "/v1/translate",
        "/imme",
        "/v1/completions",
    } <= paths.keys()
    body = paths["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = description["components"]["schemas"][body.rpartition("/")[2]]
    assert {"q", "source", "target", "format", "alternatives"} <= schema["properties"].keys()
    assert schema["required"] == ["q", "source", "target"]
    text = json.dumps(description)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in description["components"]["schemas"]
    names = [one["operationId"] for path in paths.values() for one in path.values()]
    assert len(set(names)) == len(names)


def test_requests_of_all_kinds_leave_no_objects_behind(tries):
    """What grows with the number of requests would be seen here after some hundred of them, not after weeks."""
    front, app = pretend_server()

    def send(count: int) -> int:
        pair = {"source": "en", "target": "de"}
        for number in range(count):
            ask(app, "POST", "/translate", {"q": f"one {number}", **pair})
            ask(app, "POST", "/translate", {"q": f"<p>one <b>{number}</b></p>", "format": "html", **pair})
            ask(
                app,
                "POST",
                "/v2/translate",
                {"text": [f"<i>{number}</i> two"], "target_lang": "DE", "source_lang": "EN"},
            )
            ask(app, "POST", "/v1/translate/stream", {"text": f"three {number}", **pair})
            ask(app, "POST", "/translate", {"q": f"four {number}", "source": "xx", "target": "de"})
            front.service.delay = 0.01
            ask(app, "POST", "/translate", {"q": f"five {number}", **pair}, leaves_after=0.0)
            front.service.delay = 0.0
        front.service.asked.clear()
        gc.collect()
        return len(gc.get_objects())

    send(20)  # tables that are made once
    before, rounds = send(20), tries(60, 2_000)
    assert send(rounds) - before < rounds / 2  # of six requests in every round
    assert front.active == 0
    assert front.metrics.cancelled.total() == 40 + rounds
