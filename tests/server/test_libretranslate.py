"""LibreTranslate's API: every encoding that its clients use, lists, HTML, alternatives, and the words of its errors."""

import json
import os

import pytest

from tests.support.pretend import ask, pretend_server

ASKED = {"q": "a dog", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def server():
    return pretend_server(characters=100, texts=3, alternatives=2)


@pytest.fixture(scope="module")
def app(server):
    return server[1]


def test_json_form_query_string_and_multipart_are_the_same_request(app):
    multipart = "".join(
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in ASKED.items()
    )
    kind = {"content-type": "multipart/form-data; boundary=xyz"}
    answers = [
        ask(app, "POST", "/translate", ASKED),
        ask(app, "POST", "/translate", form=ASKED),
        ask(app, "POST", "/translate?q=a%20dog&source=en&target=de&format=text&api_key=k"),
        ask(app, "POST", "/translate", f"{multipart}--xyz--\r\n".encode(), headers=kind),
        ask(app, "POST", "/translate", json.dumps(ASKED).encode()),  # no content type
        ask(app, "POST", "/translate", json.dumps(ASKED).encode(), headers={"content-type": "text/plain"}),
        ask(app, "POST", "/translate?q=no", ASKED),  # the body wins
    ]
    assert [answer.status for answer in answers] == [200] * len(answers)
    assert [answer.json for answer in answers] == [{"translatedText": "A DOG"}] * len(answers)


def test_a_list_is_answered_by_a_list_of_the_same_length(app):
    answer = ask(
        app, "POST", "/translate", ASKED | {"q": ["a dog", "", "two cats"], "source": "auto", "alternatives": 1}
    )
    assert answer.json["translatedText"] == ["A DOG", "", "TWO CATS"]
    assert len(answer.json["detectedLanguage"]) == 3
    assert answer.json["alternatives"] == [["A DOG 1"], [], ["TWO CATS 1"]]


def test_alternatives_are_those_of_the_whole_text_without_repetitions(app):
    answer = ask(app, "POST", "/translate", ASKED | {"q": "A dog. A cat.", "alternatives": 2})
    assert answer.json == {
        "translatedText": "A DOG. A CAT.",
        "alternatives": ["A DOG. 1 A CAT. 1", "A DOG. 2 A CAT. 2"],
    }


def test_html_keeps_its_tags_and_has_no_alternatives(app):
    answer = ask(app, "POST", "/translate", ASKED | {"q": "<p>a <b>dog</b></p>", "format": "html", "alternatives": 1})
    assert answer.json == {"translatedText": "<p>A <b>DOG</b></p>", "alternatives": []}


def test_a_language_translates_into_itself_unchanged(app):
    assert ask(app, "POST", "/translate", ASKED | {"target": "en"}).json == {"translatedText": "a dog"}


def test_null_is_absent_and_unknown_fields_are_ignored(app):
    given = ASKED | {"api_key": None, "format": None, "alternatives": None, "secret": "x"}
    assert ask(app, "POST", "/translate", given).json == {"translatedText": "A DOG"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "xx"}, "xx is not supported"),
        ({"source": "de", "target": "ko"}, "Korean (ko) is not available as a target language from German (de)"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"q": "a" * 101}, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["a"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
        ({"alternatives": 3}, "alternatives parameter must be <= 2"),
        ({"alternatives": "many"}, "alternatives parameter is not a number"),
        ({"alternatives": -1}, "alternatives parameter is not a number"),
    ],
)
def test_errors_have_the_words_that_clients_know(app, change, text):
    given = {name: value for name, value in (ASKED | change).items() if value is not None}
    answer = ask(app, "POST", "/translate", given)
    assert (answer.status, answer.json) == (400, {"error": text})


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/translate"), ("GET", "/detect"), ("POST", "/languages"), ("POST", "/health"), ("PUT", "/translate")],
)
def test_other_methods_are_405(app, method, path):
    answer = ask(app, method, path)
    assert answer.status == 405
    assert "OPTIONS" in answer.headers["allow"]


def test_languages_are_named_in_the_callers_language_and_a_body_is_tolerated(app):
    answer = ask(app, "GET", "/languages", form={"api_key": "k"})
    assert answer.json == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en", "ko"]},
        {"code": "ko", "name": "Korean", "targets": ["ko"]},
    ]
    korean = [
        ask(app, "GET", "/languages", headers={"accept-language": "ko-KR,ko;q=0.9,en;q=0.8"}),
        ask(app, "GET", "/languages?lang=ko", headers={"accept-language": "en"}),
        ask(app, "GET", "/languages", headers={"cookie": "a=b; preferred_lang=ko"}),
        ask(app, "GET", "/languages", headers={"x-override-accept-language": "ko", "accept-language": "en"}),
    ]
    assert {answer.json[0]["name"] for answer in korean} == {"독일어"}
    empty_json = ask(app, "GET", "/languages", headers={"content-type": "application/json"})
    assert empty_json.status == 200


def test_detect_gives_at_most_three_languages_best_first(app):
    answer = ask(app, "POST", "/detect", {"q": "Ein Hund läuft über die Straße.", "format": "text"})
    assert answer.status == 200
    assert 1 <= len(answer.json) <= 3
    assert answer.json == sorted(answer.json, key=lambda one: -one["confidence"])
    assert ask(app, "POST", "/detect", {}).json == {"error": "Invalid request: missing q parameter"}


def test_the_source_is_detected_for_each_text(app):
    given = ASKED | {"q": ["Das ist ein schöner Hund.", "This is a lovely dog."], "source": "auto", "target": "de"}
    answer = ask(app, "POST", "/translate", given)
    assert [one["language"] for one in answer.json["detectedLanguage"]] == ["de", "en"]
    assert answer.json["translatedText"] == ["Das ist ein schöner Hund.", "THIS IS A LOVELY DOG."]


def test_suggestions_become_lines_that_training_reads(app, server, tmp_path):
    from jumok.text.lines import read_table

    _, app = pretend_server(state=tmp_path)
    for better in ("Ein Hund.", "Zwei\nZeilen."):
        answer = ask(app, "POST", "/suggest", {"q": "A dog.", "s": better, "source": "en", "target": "de"})
        assert answer.json == {"success": True}
    with (tmp_path / "corrections" / "en-de.jsonl").open("ab") as file:
        file.write(b'{"source": "cut o')
    _, app = pretend_server(state=tmp_path)  # another server continues after the last whole line
    assert (
        ask(app, "POST", "/suggest", {"q": "A cat.", "s": "Eine Katze.", "source": "en", "target": "de"}).status == 200
    )
    rows = list(read_table(tmp_path / "corrections" / "en-de.jsonl"))
    assert [tuple(row)[:2] for row in rows] == [
        ("A dog.", "Ein Hund."),
        ("A dog.", "Zwei Zeilen."),
        ("A cat.", "Eine Katze."),
    ]
    assert ask(app, "POST", "/suggest", {"q": "A", "source": "en", "target": "de"}).json == {
        "error": "Invalid request: missing s parameter"
    }
    _, closed = pretend_server(suggestions=False)
    assert ask(closed, "POST", "/suggest", {"q": "A", "s": "B", "source": "en", "target": "de"}).status == 403


def test_the_settings_of_the_page_are_what_the_server_enforces(app):
    settings = ask(app, "GET", "/frontend/settings").json
    assert settings["charLimit"] == 100
    assert settings["keyRequired"] is False
    assert settings["supportedFilesFormat"] == [".htm", ".html", ".srt", ".txt"]
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert ask(app, "GET", "/health").json == {"status": "ok"}


def test_files_are_translated_however_many_results_nobody_fetched(tries, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # of seven files for each upload
    front, app = pretend_server()
    front.state.jobs.most_jobs = 2  # that are waiting or in work
    fields = "".join(
        f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", "en"), ("target", "de"))
    )
    begin = f'{fields}--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    results = []
    for number in range(tries(30, 1_000)):
        body = f"{begin}a dog {number}\r\n--xyz--\r\n".encode()
        headers = {"content-type": "multipart/form-data; boundary=xyz"}
        answer = ask(app, "POST", "/translate_file", body, headers=headers)
        assert answer.status == 200, answer.text
        results.append(answer.json["translatedFileUrl"].partition("/download_file/")[2])
    for number, name in enumerate(results):
        assert ask(app, "GET", f"/download_file/{name}").text == f"A DOG {number}"
    assert not front.state.jobs.jobs
