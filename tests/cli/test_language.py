"""The language of messages: --lang, JUMOK_LANG, the locale; what programs read does not depend on it."""

import json
import os
import re
import subprocess
import sys

import pytest

from jumok import messages
from jumok.cli.display import count_units, describe_progress, form_header
from jumok.cli.language import read_locale, take_language
from jumok.errors import UnknownName
from jumok.events import EventLog
from jumok.messages import Message
from jumok.reports.drawing import display_width
from jumok.runs.forecast import spell

HANGUL = re.compile("[가-힣]")
LOCALES = ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`jumok ARGUMENTS` in a process of its own, in a locale."""
    inherited = {name: value for name, value in os.environ.items() if name not in LOCALES}
    command = [sys.executable, "-m", "jumok", *arguments]
    return subprocess.run(
        command, env=inherited | environment, capture_output=True, text=True, encoding="utf-8", timeout=300
    )


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "ko_KR.UTF-8"}, "ko"),
        ({"LC_MESSAGES": "ko_KR.UTF-8", "LANG": "C"}, "ko"),
        ({"LC_ALL": "C.UTF-8", "LANG": "ko_KR.UTF-8"}, "en"),
        ({"LC_ALL": "", "LANG": "ko_KR.UTF-8"}, "ko"),
        ({"JUMOK_LANG": "en", "LC_ALL": "ko_KR.UTF-8"}, "en"),
        ({"JUMOK_LANG": "ko", "LC_ALL": "C"}, "ko"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
    ],
)
def test_the_first_variable_that_is_set_decides_and_an_unknown_language_is_english(environment, language):
    assert read_locale(environment) == language


@pytest.mark.parametrize(
    ("given", "kept", "language"),
    [
        (["--lang", "ko", "train", "--plan"], ["train", "--plan"], "ko"),
        (["train", "--lang=ko"], ["train"], "ko"),
        (["lab", "mask", "--lang", "ko"], ["lab", "mask", "--lang", "ko"], "ko"),
        (["--lang", "ko", "lab"], ["lab"], "ko"),
        (["translate", "runs/a", "--", "--lang", "ko"], ["translate", "runs/a", "--", "--lang", "ko"], "en"),
        (["--lang", "ko", "doctor", "--json"], ["doctor", "--json"], "en"),
        ([], [], "en"),
    ],
)
def test_the_option_may_stand_anywhere_and_verbs_that_have_one_get_it(given, kept, language):
    assert take_language(given, {}) == (kept, language)


def test_a_language_that_jumok_does_not_speak_is_refused():
    with pytest.raises(UnknownName, match="no language is called 'kr'"):
        take_language(["--lang", "kr", "train"], {})


def test_an_entry_that_a_language_lacks_is_shown_in_english(monkeypatch):
    monkeypatch.setattr(messages, "read_room", lambda room, language="en": {"a": "one"} if language == "en" else {})
    with messages.speaking("ko"):
        assert messages.text("room.a") == "one"


def test_a_process_whose_command_line_chooses_a_language_reports_errors_in_it():
    answer = run("--lang", "ko", "translate", "runs/nowhere", "a")
    assert answer.returncode != 0
    assert HANGUL.search(answer.stderr)


def test_exit_codes_do_not_depend_on_the_language(jumok):
    for arguments in (["translate", "runs/nowhere", "a"], ["train", "--recipe", "tinny"], ["lab", "masks"]):
        english, korean = jumok(*arguments), jumok("--lang", "ko", *arguments)
        assert english.code == korean.code != 0
        assert not HANGUL.search(english.err)
        assert HANGUL.search(korean.err)


def test_the_usual_mistakes_are_reported_in_the_language(jumok):
    for arguments, said in (
        (["train", "--minuts", "3"], "--minuts 옵션은 없습니다"),
        (["trian"], "trian 명령은 없습니다"),
        (["look"], "MODEL 값이 빠졌습니다"),
    ):
        english, korean = jumok(*arguments), jumok("--lang", "ko", *arguments)
        assert english.code == korean.code == 2
        assert said in korean.err
        assert not HANGUL.search(english.err)


def test_json_does_not_depend_on_the_language(jumok, micro, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n\ntwo \xff\n")
    for arguments in (["model", "info", micro, "--json"], ["data", "check", tmp_path / "a.txt", "--json"]):
        english, korean = jumok(*arguments), jumok("--lang", "ko", *arguments)
        assert json.loads(english.out.splitlines()[0]) == json.loads(korean.out.splitlines()[0])
        assert english.out == korean.out


def test_events_on_disk_are_english(tmp_path):
    heard = []
    log = EventLog(tmp_path / "events.jsonl", [heard.append])
    with messages.speaking("ko"):
        log("note", text=Message("cli.stage_reading"))
        log.close()
        assert str(heard[0]["text"]) == "글 읽기"
    [event] = map(json.loads, (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines())
    assert event["text"] == "Reading"


def test_progress_is_shown_in_the_language_and_columns_stay_aligned():
    event = {"stage": "reading", "text": "Reading", "share": 0.5, "count": 1_000, "unit": "pairs", "seconds": 2.0}
    assert describe_progress(event) == "Reading: 50 %, 1,000 pairs"
    assert count_units(3, "segments") == "3 segments"
    english = form_header(accuracy=False)
    with messages.speaking("ko"):
        assert describe_progress(event) == "글 읽기: 50 %, 1,000쌍"
        assert display_width(form_header(accuracy=False)) == display_width(english) == 65
        assert [spell(seconds) for seconds in (0.5, 42, 300, 10_000)] == ["0.50초", "42초", "5.0분", "2.8시간"]
    assert [spell(seconds) for seconds in (0.5, 300, 10_000)] == ["0.50 s", "5.0 minutes", "2.8 hours"]


def test_a_process_in_a_korean_locale_prints_korean_help_without_torch():
    shown = run("--help", LANG="ko_KR.UTF-8")
    assert shown.returncode == 0
    assert "논문의 주장을 실험으로 확인합니다." in shown.stdout
    code = (
        "import sys; sys.argv = ['jumok', '--lang', 'ko', 'train', '--help']\n"
        "from jumok.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: assert 'torch' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert told.returncode == 0, told.stderr
    assert "번역기를 학습합니다." in told.stdout


def test_a_process_prints_errors_in_its_locale():
    korean, english = (run("translate", "runs/nowhere", "a", LC_ALL=name) for name in ("ko_KR.UTF-8", "C"))
    assert korean.returncode == english.returncode
    assert "폴더가 없습니다" in korean.stderr
    assert "there is no folder" in english.stderr
