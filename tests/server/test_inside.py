"""Inside and Break it over HTTP: what is asked is passed on, what makes no sense is refused, real answers are right."""

import base64
import json
import random
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from jumok.inside import breaking, views
from jumok.inside.edits import Edits
from jumok.translator import Translator
from tests.support.pretend import DIGEST, ask, pretend_server

SENTENCE = {"text": "One dog.", "model": "en-de"}
EDITS = {
    "heads": [["cross", 0, 1]], "layers": [["encoder", 1]], "off": ["mask"], "shuffle": 3,
    "rows": [{"kind": "cross", "layer": 0, "head": 1, "query": 2, "weights": [0.5, 0.5]}],
}  # fmt: skip
PATHS = {"/v1/inside": "inside", "/v1/inside/block": "block", "/v1/inside/step": "steps", "/v1/break": "break"}
ALLOWED = {200, 400, 404, 413, 422, 429, 503}


@pytest.fixture(scope="module")
def server():
    return pretend_server()


@pytest.fixture(scope="module")
def app(server):
    return server[1]


@pytest.mark.parametrize(("path", "verb"), PATHS.items())
def test_what_is_asked_about_a_sentence_reaches_the_engine(app, path, verb):
    given = SENTENCE | {"translation": "Ein Hund.", "edits": EDITS}
    given |= {"block": "encoder.0.attention", "head": 1, "at": 2} if verb == "block" else {}
    answer = ask(app, "POST", path, given)
    assert answer.status == 200, answer.json
    told = answer.json
    assert (told["verb"], told["model"], told["text"], told["translation"]) == (verb, "en-de", "One dog.", "Ein Hund.")
    assert Edits.of(told["edits"]) == Edits.of(EDITS)
    assert answer.headers["x-model"] == DIGEST[:16]
    if verb == "block":
        assert (told["name"], told["head"], told["at"]) == ("encoder.0.attention", 1, 2)


def test_a_translation_is_a_text_or_ids(app):
    assert ask(app, "POST", "/v1/inside", SENTENCE | {"translation": [12, 13]}).json["translation"] == [12, 13]
    for wrong in ([-1], ["a"], {"a": 1}, 3):
        assert ask(app, "POST", "/v1/inside", SENTENCE | {"translation": wrong}).status == 400


def test_scores_warming_and_terms(app):
    told = ask(app, "POST", "/v1/break/score", {"model": "en-de", "edits": {"off": ["norm"]}, "pairs": 100}).json
    assert (told["verb"], told["pairs"], told["edits"]["off"]) == ("cost", 100, ["norm"])
    assert ask(app, "POST", "/v1/inside/warm", {"model": "en-ko"}).json["verb"] == "warm"
    assert ask(app, "POST", "/v1/inside/warm", {"model": "poet"}).json["model"] == "poet"
    terms = {one["key"]: one for one in ask(app, "GET", "/v1/inside/terms?lang=ko").json["terms"]}
    assert terms["cross-attention"]["ko"].startswith("크로스 어텐션")
    assert terms["mask"]["says"].endswith("다.")


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""}, {"text": " "}, {"text": None}, {"text": "a" * 20_001}, {"edits": {"off": ["masks"]}},
        {"edits": {"heads": [["cross", 0]]}}, {"edits": {"heads": [["memory", 0, 0]]}},
        {"edits": {"layers": [["cross", 0]]}}, {"edits": {"of": []}}, {"edits": {"shuffle": -1}}, {"edits": 3},
        {"edits": {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": []}]}},
        {"edits": {"rows": [{"kind": "cross", "layer": 0, "head": 0, "query": 0, "weights": [-1]}]}},
        {"edits": {"heads": [["cross", 0, -1]]}}, {"lang": "de"}, {"layer": -1}, {"map": "maybe"}, {"beem": 1},
        {"model": "none"}, {"model": "../tiny"},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(app, change):
    given = {name: value for name, value in (SENTENCE | change).items() if value is not None}
    answer = ask(app, "POST", "/v1/inside", given)
    assert answer.status in (400, 404), answer.json
    assert {"code", "message", "request_id"} == answer.json["error"].keys()


def test_other_bounds(app):
    for path, given in (
        ("/v1/inside/step", {"count": 0}), ("/v1/inside/step", {"count": 99}), ("/v1/inside/block", {}),
        ("/v1/inside/block", {"block": "a" * 200}), ("/v1/break/score", {"pairs": 501}),
        ("/v1/break/score", {"pairs": 1}), ("/v1/break/score", {"text": "a"}),
    ):  # fmt: skip
        base = {"model": "en-de"} if path.endswith("score") else SENTENCE
        assert ask(app, "POST", path, base | given).status == 400, (path, given)


def test_the_description_has_the_endpoints_with_their_schemas(app):
    paths = ask(app, "GET", "/openapi.json").json["paths"]
    for path in (*PATHS, "/v1/break/score", "/v1/inside/warm", "/v1/inside/terms"):
        assert path in paths


# ------------------------------------------------------------------------------------------- a real server


def post(address: str, path: str, given: dict) -> tuple[int, dict]:
    request = urllib.request.Request(address + path, json.dumps(given).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=150) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def insist(address: str, path: str, given: dict) -> dict:
    """Ask until the server has time; a machine under load refuses or is late."""
    until = time.monotonic() + 240
    while True:
        status, told = post(address, path, given)
        if status not in (429, 503, 504) or time.monotonic() > until:
            assert status == 200, told
            return told
        time.sleep(1)


@pytest.mark.slow
def test_a_real_server_answers_with_the_numbers_of_the_model(running, micro):
    where, model = {"model": "en-de"}, Translator.load(micro)  # the kernels, as in the server
    assert insist(running.address, "/v1/inside/warm", where)["ready"]
    told = insist(running.address, "/v1/inside", where | {"text": "a b c", "lang": "ko"})
    expected = views.overview(model, "a b c", language="ko")
    assert told == json.loads(json.dumps(expected))
    weights = told["maps"]["cross"]["weights"]
    array = np.frombuffer(base64.b64decode(weights["data"]), "<f4").reshape(weights["shape"])
    np.testing.assert_allclose(array.sum(axis=-1), 1.0, rtol=1e-5)
    given = {"text": "a b c", "translation": told["translation"]}
    block = insist(running.address, "/v1/inside/block", where | given | {"block": "decoder.0.cross", "at": 1})
    assert block == json.loads(json.dumps(views.block(model, "a b c", "decoder.0.cross", given["translation"], at=1)))
    steps = insist(running.address, "/v1/inside/step", where | given)
    assert [step["out"]["id"] for step in steps["steps"]] == [token["id"] for token in told["output"]]
    edits = {"off": ["residual"]}
    broken = insist(running.address, "/v1/break", where | {"text": "a b c", "edits": edits})
    assert broken["after"]["text"] == breaking.compare(model, "a b c", Edits.of(edits))["after"]["text"]
    cost = insist(running.address, "/v1/break/score", where | {"edits": edits, "pairs": 10})
    assert cost["pairs"] == 10 <= cost["of"]
    assert cost["interval"][0] <= cost["difference"] <= cost["interval"][1]
    status, told = post(running.address, "/v1/inside", where | {"text": "a", "edits": {"heads": [["cross", 9, 9]]}})
    assert status == 400
    assert "head 9" in told["error"]["message"]


@pytest.mark.slow
def test_random_requests_never_break_the_server(running, tries, kept):
    draw, sent = random.Random(24), 0
    insist(running.address, "/v1/inside/warm", {"model": "en-de"})
    for _ in range(tries(60, 10_000)):
        path = draw.choice([*PATHS, "/v1/break/score"])
        given = {"model": draw.choice(["en-de", "en-ko", "?"])}
        if path == "/v1/break/score":
            given["pairs"] = draw.choice([2, 5, 1_000, "x"])
        else:
            given["text"] = draw.choice(["a b", "", "다 나", "\ud800x", "a " * draw.choice([30, 700]), 5])
        if draw.random() < 0.3:
            given["translation"] = draw.choice(["b a", "", "z" * 700])
        if path.endswith("block"):
            given |= {"block": draw.choice(["output", "encoder.0.attention", "x"]), "at": draw.choice([0, 1, 99])}
            given["cell"] = draw.choice([None, {"value": "q", "index": draw.choice([0, 10**5])}])
        given["edits"] = draw.choice([{}, {"off": ["norm", "residual"]}, {"off": ["mask"]}, {"shuffle": 1}, EDITS, []])
        status, told = post(running.address, path, given)
        assert status in ALLOWED, (path, given, status, told)
        sent += 1
    assert running.is_alive()
    assert running.metric("jumok_faults_total") == 0
    kept("S1", "random requests to the endpoints of the studio", count=sent)
