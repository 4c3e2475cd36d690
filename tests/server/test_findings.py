"""The lab's findings, races and errors over HTTP: what is on disk, and pages that run no scripts."""

import json
import shutil
import time
from pathlib import Path

import pytest

from jumok.lab import NAMES, PAPER
from jumok.server.findings import read_finding
from jumok.server.frames import MOST, Frames
from jumok.server.keys import KeyFile
from tests.server.test_runs import Recorded
from tests.support.pretend import ask, pretend_server
from tests.support.running import Running

FINDINGS = Path(__file__).parents[2] / "docs" / "lab"


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    (folder / "runs" / "lab" / "findings").mkdir(parents=True)
    shutil.copy(FINDINGS / "mask.json", folder / "runs" / "lab" / "findings" / "mask-quick-1.json")
    (folder / "report").mkdir()
    shutil.copy(FINDINGS / "mask.json", folder / "report" / "mask.json")  # the same again
    (folder / "report" / "heads.json").write_text("[" * 9_000)
    race = folder / "runs" / "race"
    race.mkdir()
    row = {"name": "transformer", "scores": {"bleu": {"value": 31.5}}, "parameters": 9}
    (race / "report.json").write_text(json.dumps({"race": "0.1", "budget": "15 minutes", "contenders": [row]}))
    (race / "report.html").write_text("<h1>Race</h1><script>alert(1)</script>")
    return folder


@pytest.fixture
def server(work, tmp_path):
    return pretend_server(workspace=work, state=tmp_path / "state")


def test_claims_are_listed_in_both_languages_with_the_verdicts_on_disk(server):
    claims = {one["name"]: one for one in ask(server[1], "GET", "/v1/lab").json["claims"]}
    assert set(claims) == {*NAMES, *PAPER}
    stored = json.loads((FINDINGS / "mask.json").read_bytes())
    (finding,) = claims["mask"]["findings"]
    assert (finding["holds"], finding["date"], len(finding["checks"])) == (
        stored["holds"], stored["date"], len(stored["checks"]),
    )  # fmt: skip
    assert finding["verdict"] == stored["verdict"]
    assert claims["mask"]["title"] == {"en": "The mask", "ko": claims["mask"]["title"]["ko"]}
    assert claims["heads"]["findings"] == []
    assert "path" not in finding


def test_a_verdict_may_be_open_and_findings_of_the_first_format_have_one(tmp_path):
    stored = json.loads((FINDINGS / "smoothing.json").read_bytes())
    (tmp_path / "new.json").write_text(json.dumps(stored))
    assert read_finding(tmp_path / "new.json")["verdict"] == "untestable"
    assert [check["holds"] for check in read_finding(tmp_path / "new.json")["checks"]] == [True, True, None]
    first = {name: value for name, value in stored.items() if name not in ("format", "verdict", "parts")}
    for holds, verdict in ((True, "holds"), (False, "fails")):
        (tmp_path / "old.json").write_text(json.dumps(first | {"holds": holds}))
        assert read_finding(tmp_path / "old.json")["verdict"] == verdict


def test_a_claim_is_started_with_a_list_of_arguments_and_once(server, work, monkeypatch):
    recorded = Recorded(monkeypatch)
    assert ask(server[1], "POST", "/v1/lab/mask/start", {"scale": "quick", "language": "ko"}).status == 200
    folder = str(work / "runs" / "lab")
    assert recorded.calls[0][0] == ["lab", "mask", "--scale", "quick", "--lang", "ko", "--runs", folder]
    assert recorded.calls[0][2] is False, "it ends with the server"
    assert ask(server[1], "POST", "/v1/lab/mask/start", {}).status == 409
    for name, body in (("../mask", {}), ("all", {}), ("none", {}), ("heads", {"scale": "; rm"}), ("heads", {"x": 1})):
        assert ask(server[1], "POST", f"/v1/lab/{name}/start", body).status in (400, 404)
    assert len(recorded.calls) == 1
    claims = {one["name"]: one for one in ask(server[1], "GET", "/v1/lab").json["claims"]}
    assert claims["mask"]["task"] is not None


def test_the_report_of_a_race_is_shown_in_a_frame_without_scripts(server):
    (race,) = ask(server[1], "GET", "/v1/races").json["races"]
    assert race["contenders"] == [{"name": "transformer", "bleu": 31.5, "parameters": 9}]
    page = ask(server[1], "GET", f"/v1/races/{race['id']}/page")
    assert page.text.startswith("<h1>Race")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert "frame-ancestors 'self'" in policy
    assert ask(server[1], "GET", "/v1/races/0000/page").status == 404


def test_a_frame_opens_with_its_address_alone_and_only_for_a_minute(work, tmp_path, monkeypatch):
    keys = KeyFile(tmp_path / "keys.json")
    admin, user = ({"authorization": f"Bearer {keys.add(name, admin=name == 'a', created='x')}"} for name in "ab")
    app = pretend_server(workspace=work, state=tmp_path / "state", host="0.0.0.0", keys=tmp_path / "keys.json")[1]
    (race,) = ask(app, "GET", "/v1/races", headers=admin).json["races"]
    path = f"/v1/races/{race['id']}"
    assert ask(app, "GET", f"{path}/page").status == 401, "a frame cannot send a key"
    for headers, status in (({}, 401), (user, 403)):
        assert ask(app, "POST", f"{path}/address", {}, headers=headers).status == status
    lent = ask(app, "POST", f"{path}/address", {}, headers=admin).json
    page = ask(app, "GET", lent["address"])
    assert (page.status, page.text[:8]) == (200, "<h1>Race")
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    assert ask(app, "GET", lent["address"][:-1] + "x").status == 404
    assert ask(app, "POST", f"{path}/address", {}, headers=admin).json["address"] != lent["address"]
    later = time.monotonic() + lent["seconds"] + 1
    monkeypatch.setattr("jumok.server.frames.monotonic", lambda: later)
    assert ask(app, "GET", lent["address"]).status == 404


def test_addresses_of_frames_are_bounded(tmp_path):
    lent = Frames()
    made = [lent.lend(tmp_path / "page.html")["address"].rpartition("/")[2] for _ in range(MOST + 5)]
    assert len(lent.pages) == MOST
    assert lent.find(made[0]) is None
    assert lent.find(made[-1]) == tmp_path / "page.html"


RACE = {"name": "fast", "models": ["transformer", "rnn"], "source": "train.en", "target": "train.de", "minutes": 2.5}


def test_a_race_is_started_from_listed_texts_and_one_at_a_time(server, work, monkeypatch):
    recorded = Recorded(monkeypatch)
    for name in ("train.en", "train.de"):
        (work / name).write_text("a b\n")
    listed = ask(server[1], "GET", "/v1/races").json
    assert listed["can_start"]
    assert listed["task"] is None
    wrong = [
        {"models": []},
        {"models": ["rnn", "rnn"]},
        {"models": ["gpt"]},
        {"models": ["rnn --out /"]},
        {"name": "../x"},
        {"name": "--help"},
        {"source": "/etc/passwd"},
        {"target": None},
        {"recipe": "x"},
        {"minutes": 0},
        {"x": 1},
    ]
    for change in wrong:  # fmt: skip
        assert ask(server[1], "POST", "/v1/races", RACE | change).status in (400, 404), change
    assert ask(server[1], "POST", "/v1/races", RACE | {"name": "race"}).status == 409, "its folder exists"
    assert recorded.calls == []
    task = ask(server[1], "POST", "/v1/races", RACE).json
    assert recorded.calls[0][0] == [
        "race", "--models", "transformer,rnn", "--source", str(work / "train.en"), "--target", str(work / "train.de"),
        "--recipe", "auto", "--minutes", "2.5", "--out", str(work / "runs" / "fast"),
    ]  # fmt: skip
    assert recorded.calls[0][2] is True, "trainings outlive the server"
    assert ask(server[1], "GET", "/v1/races").json["task"] == task["id"]
    assert ask(server[1], "POST", "/v1/races", RACE | {"name": "second"}).status == 409


@pytest.mark.slow
def test_pages_errors_and_a_film_are_made_by_processes_of_their_own(work, micro, tmp_path):
    shutil.copytree(micro, work / "runs" / "micro")
    server = Running(tmp_path, {"en-de": micro}, grace=0.1, workspace=str(work))
    try:
        claims = server.request("/v1/lab")[1]["claims"]
        finding = next(one for one in claims if one["name"] == "mask")["findings"][0]
        for language, word in (("en", "The mask"), ("ko", "규모")):
            status, page, headers = server.request(
                f"/v1/findings/{finding['id']}/page?language={language}", timeout=300
            )
            assert status == 200
            assert word in page.decode()
            assert "sandbox" in headers["content-security-policy"]
        runs = {run["name"]: run["id"] for run in server.request("/v1/runs")[1]["runs"]}
        path = f"/v1/runs/{runs['runs/micro']}"
        until = time.monotonic() + 300
        while not (answer := server.request(f"{path}/errors?order=chrf")[1])["ready"]:
            assert time.monotonic() < until
            time.sleep(1)
        assert answer["pairs"] == (micro / "data" / "prepared" / "valid.jsonl").read_bytes().count(b"\n")
        scores = [one["chrf"] for one in answer["errors"]]
        assert scores == sorted(scores)
        ratios = [one["ratio"] for one in server.request(f"{path}/errors?order=long&most=5")[1]["errors"]]
        assert ratios == sorted(ratios, reverse=True)
        assert len(ratios) == 5
        status, stream, _ = server.request(f"{path}/film", {"text": "a b c"}, timeout=300)
        frames = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: ")]
        assert [frame.get("step") for frame in frames[:-1]] == [1, 2, 3, 4, 5, 6, None]
        assert frames[-1] == {"frames": 7}
        for frame in frames[:-1]:
            assert len(frame["attention"]) == len(frame["target"])
            assert all(sum(row) == pytest.approx(1, abs=0.01) for row in frame["attention"])
        began = time.monotonic()
        again = server.request(f"{path}/film", {"text": "a b c"}, timeout=60)[1].decode().split("\n")
        assert [json.loads(line[6:]) for line in again if line.startswith("data: ")] == frames
        assert time.monotonic() - began < 5, "a film is remembered"
        assert server.is_alive()
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(("language", "title"), [("en", "The notes, checked"), ("ko", "노트를 확인해 보았습니다")])
def test_the_page_about_the_notes_is_shown_in_a_frame_in_both_languages(server, language, title):
    page = ask(server[1], "GET", f"/v1/notes/page?language={language}")
    assert title in page.text
    assert "jumok example cross" in page.text
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    lent = ask(server[1], "POST", "/v1/notes/address", {"language": language}).json
    assert ask(server[1], "GET", lent["address"]).text == page.text
    assert ask(server[1], "POST", "/v1/notes/address", {"language": "fr"}).status == 400
