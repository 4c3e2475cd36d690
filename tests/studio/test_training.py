"""Training, lab, errors and the class on the page: words and numbers are those of the files."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jumok.config import presets
from tests.conftest import MICRO
from tests.studio.conftest import opened, take_pictures
from tests.support.logs import validation, write_run
from tests.support.running import Running

FINDINGS = Path(__file__).parents[2] / "docs" / "lab"
STEPS = 1_200
LOSS = "document.querySelector('[aria-label=\"Training loss\"]')"
STATE = "document.querySelector('[data-testid=state]')?.textContent"


@pytest.fixture(scope="module")
def workspace(micro, tmp_path_factory):
    """A workspace with a finished run, one that was stopped, a finding, a race and texts."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copytree(micro, folder / "runs" / "micro")
    recipe = 'seed = 7\n[data]\ncorpus = "copy"\n'
    write_run(folder / "runs" / "other", 300, recipe=recipe, more=validation(300, 21.5, sample="a dog → ein Hund"))
    (folder / "runs" / "lab" / "findings").mkdir(parents=True)
    shutil.copy(FINDINGS / "mask.json", folder / "runs" / "lab" / "findings" / "mask-quick-1.json")
    race = folder / "runs" / "race"
    race.mkdir()
    row = {"name": "transformer", "scores": {"bleu": {"value": 31.5}}, "parameters": 9}
    (race / "report.json").write_text(json.dumps({"race": "0.1", "budget": "15 minutes", "contenders": [row]}))
    (race / "report.html").write_text("<!doctype html><html lang='en'><title>r</title><h1>Race of one</h1>")
    for name in ("train.en", "train.de"):
        (folder / name).write_text("a b\n" * 10)
    return folder


@pytest.fixture(scope="module")
def server(workspace, micro, tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("serving"), {"en-de": micro}, grace=0.1, workspace=str(workspace))
    yield running
    assert running.stop() == 0


def picture(page, name):
    if folder := take_pictures():
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def choose(page, name):
    page.get_by_role("button", name=name).first.click()


def test_curves_are_read_in_numbers_and_two_runs_are_compared(browser, server, workspace):
    with opened(browser, server, "#/training") as page:
        choose(page, "runs/other")
        loss = page.get_by_role("slider", name="Training loss")
        loss.wait_for()
        assert "step 300: runs/other 0.03333" in loss.get_attribute("aria-valuetext")
        loss.focus()
        page.keyboard.press("Home")
        assert "step 1: runs/other 10" in loss.get_attribute("aria-valuetext")
        page.get_by_role("combobox", name="By").select_option("tokens")
        page.wait_for_function(f"() => {LOSS}?.getAttribute('aria-valuemax') === '30000'")
        assert page.get_by_text("a dog → ein Hund").is_visible()
        score = page.get_by_role("slider", name="Validation score (BLEU)")
        assert "21.5" in score.get_attribute("aria-valuetext")
        page.get_by_label("draw it too").first.check()
        page.get_by_role("heading", name="How the recipes differ").wait_for()
        assert page.get_by_role("rowheader", name="seed", exact=True).is_visible()
        with page.expect_download() as download:
            page.get_by_role("button", name="Curves as CSV").click()
        lines = Path(download.value.path()).read_text().split("\n")
        assert lines[0] == "step,tokens,loss,loss_low,loss_high,rate,norm"
        assert lines[1].split(",")[:3] == ["1", "100", "10"]
        assert len(lines) == 302
        picture(page, "training")
        page.wait_for_url("**over=**")  # the address follows within a quarter of a second
        place = page.url
    with opened(browser, server, "#" + place.partition("#")[2]) as page:
        page.get_by_role("heading", name="How the recipes differ").wait_for()  # the view is in the link


def test_the_list_of_texts_is_offered_to_start_a_run_and_nothing_is_typed(browser, server):
    with opened(browser, server, "#/training") as page:
        page.get_by_text("Start a run").click()
        options = page.get_by_label("Source text").locator("option")
        page.wait_for_function("() => document.querySelectorAll('select[name=source] option').length > 1")
        assert [one.get_attribute("value") or "" for one in options.all()] == ["", "train.de", "train.en"]
        assert page.locator(".fields input[type=text], .fields input:not([type])").count() == 1, "only the name"


@pytest.mark.slow
def test_a_film_shows_what_every_snapshot_says(browser, server):
    with opened(browser, server, "#/training?film=a+b+c") as page:
        page.set_default_timeout(180_000)
        choose(page, "runs/micro")
        page.get_by_role("button", name="Make the film").click()
        page.wait_for_function("() => document.querySelectorAll('.frames li').length === 7")
        assert page.locator(".frames b").all_inner_texts() == ["1", "2", "3", "4", "5", "6", "Finished model"]
        weights = [float(cell) for cell in page.locator(".heat tbody tr").first.locator("td span").all_inner_texts()]
        assert sum(weights) == pytest.approx(1, abs=0.05)
        picture(page, "film")


@pytest.mark.slow
def test_an_engineer_follows_a_run_that_is_killed_and_continued(browser, server, workspace, tmp_path):
    out, recipe = workspace / "runs" / "engineer", tmp_path / "recipe.toml"
    changes = {"training.steps": STEPS, "training.validate_every": 150, "name": "engineer"}
    recipe.write_text(presets.tiny().change(MICRO | changes).to_toml())
    command = [sys.executable, "-m", "jumok", "train", "--recipe", str(recipe), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 240
        while not list(out.glob("checkpoints/step-*")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        with opened(browser, server, "#/training") as page:
            page.set_default_timeout(600_000)  # the run itself takes a while on a busy machine
            choose(page, "runs/engineer")
            state = page.get_by_test_id("state")
            page.wait_for_function(f"() => {STATE} === 'running'")
            process.send_signal(signal.SIGKILL)
            process.wait()
            page.wait_for_function(f"() => {STATE} === 'killed'")
            shown = page.locator(".run[aria-current=true]").inner_text().partition("step ")[2]
            before = int(shown.split()[0].replace(",", ""))
            page.get_by_role("button", name="Continue").click()
            page.wait_for_function(f"() => {STATE} === 'finished'")
            assert state.inner_text() == "finished"
            page.wait_for_function(f"() => {LOSS}.getAttribute('aria-valuemax') === '{STEPS}'")
            last = float((out / "losses.tsv").read_text().split("\n")[-2].split("\t")[2])
            loss = page.get_by_role("slider", name="Training loss")
            page.get_by_label("Smoothing").fill("0")
            shown = float(loss.get_attribute("aria-valuetext").rpartition(" ")[2])
            assert shown == pytest.approx(last, rel=0.5), "a bucket of a few updates at the end"
            assert before < STEPS
        events = [json.loads(line) for line in (out / "events.jsonl").read_text().split("\n") if line.startswith("{")]
        begins = [event["step"] for event in events if event["event"] == "begin"]
        assert len(begins) == 2
        assert 0 < begins[1] <= before + 150
    finally:
        process.kill()
        process.wait()


def test_a_claim_has_its_verdict_and_its_page_inside_the_studio(browser, server):
    with opened(browser, server, "#/lab?claim=mask&lang=ko") as page:
        page.set_default_timeout(180_000)
        page.get_by_text("여기서 확인하기").wait_for()
        frame = page.frame_locator("iframe")
        frame.locator("h1").wait_for()
        assert json.loads((FINDINGS / "mask.json").read_bytes())["date"] in frame.locator("body").inner_text()
        picture(page, "lab")
        choose(page, "runs/race")
        frame.get_by_role("heading", name="Race of one").wait_for()


@pytest.mark.slow
def test_the_worst_sentences_come_first_and_open_inside(browser, server, workspace):
    with opened(browser, server, "#/errors") as page:
        page.set_default_timeout(180_000)
        page.locator(".errors li").first.wait_for()
        scores = [float(one) for one in page.locator(".measures span:first-child b").all_inner_texts()]
        assert len(scores) == (workspace / "runs/micro/data/prepared/valid.jsonl").read_bytes().count(b"\n")
        assert scores == sorted(scores)
        page.get_by_role("button", name="Too long").click()
        page.wait_for_function("() => location.hash.includes('order=long')")
        page.locator(".errors li").first.wait_for()
        source = page.locator(".errors dd").first.inner_text()
        target = page.get_by_role("link", name="Look inside").first.get_attribute("href")
        assert target.startswith("#/inside?")
        assert source.replace(" ", "+") in target
        picture(page, "errors")


@pytest.fixture(scope="module")
def classroom(micro, workspace, tmp_path_factory):
    running = Running(
        tmp_path_factory.mktemp("class"), {"en-de": micro}, grace=0.1, workspace=str(workspace), classroom=True,
        host="0.0.0.0", trust_proxy=["127.0.0.1"],
    )  # fmt: skip
    yield running
    assert running.stop() == 0


def test_students_join_translate_and_follow_the_teacher(browser, classroom):
    """The browser of a student is behind a proxy, which is how one machine can be both."""
    far = {"extra_http_headers": {"X-Forwarded-For": "192.168.0.20"}}
    code = classroom.request("/v1/class")[1]["code"]
    with opened(browser, classroom, **far) as page:
        page.get_by_label("Code").fill(code.lower())
        page.get_by_role("button", name="Join").click()
        page.get_by_label("Follow the teacher").wait_for()
        page.wait_for_timeout(500)
        with opened(browser, classroom, "#/errors") as teacher:
            teacher.get_by_role("button", name="Class").click()
            teacher.get_by_text("1 student is here").wait_for()
            assert teacher.locator(".class-code b").inner_text() == code
            picture(teacher, "class")
            teacher.get_by_role("button", name="Send everybody to this view").click()
            page.get_by_text("The errors of a model are for the teacher.").wait_for()
        assert page.request.get(f"{classroom.address}/v1/models").status == 200
        assert page.request.get(f"{classroom.address}/v1/runs").status == 403


def test_a_link_with_the_code_joins_at_once_and_the_code_leaves_the_address(browser, classroom):
    far = {"extra_http_headers": {"X-Forwarded-For": "192.168.0.21"}}
    code = classroom.request("/v1/class")[1]["code"]
    with opened(browser, classroom, f"#/translate?join={code}", **far) as page:
        page.get_by_label("Follow the teacher").wait_for()
        page.wait_for_url(lambda address: code not in address)
