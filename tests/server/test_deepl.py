"""DeepL's API: texts in JSON and forms, tags, languages, glossaries of both versions, usage."""

import pytest

from tests.support.pretend import ask, pretend_server

ASKED = {"text": ["a dog", "two cats"], "target_lang": "DE"}


@pytest.fixture(scope="module")
def server():
    return pretend_server()


@pytest.fixture(scope="module")
def app(server):
    return server[1]


def test_json_and_forms_of_both_clients_are_the_same(app):
    answers = [
        ask(app, "POST", "/v2/translate", ASKED | {"source_lang": "EN", "show_billed_characters": True}),
        ask(app, "POST", "/v2/translate", form=ASKED | {"source_lang": "en", "show_billed_characters": "1"}),
        ask(app, "POST", "/v2/translate", form=ASKED | {"target_lang": "de", "source_lang": "En"}),
    ]
    expected = [
        {"detected_source_language": "EN", "text": "A DOG", "billed_characters": 5},
        {"detected_source_language": "EN", "text": "TWO CATS", "billed_characters": 8},
    ]
    assert [answer.json for answer in answers] == [{"translations": expected}] * 3
    one = ask(app, "POST", "/v2/translate", form={"text": "a dog", "target_lang": "DE"})
    assert one.json["translations"][0]["text"] == "A DOG"


def test_targets_with_a_region_are_mapped_and_listed(app):
    for code in ("EN-US", "EN-GB", "en-us", "EN"):
        answer = ask(app, "POST", "/v2/translate", {"text": ["ein Hund"], "target_lang": code, "source_lang": "DE"})
        assert answer.json["translations"][0]["text"] == "EIN HUND"
    targets = ask(app, "GET", "/v2/languages", form={"type": "target"}).json  # the body of a GET
    assert targets == ask(app, "GET", "/v2/languages?type=target").json
    assert [row["language"] for row in targets] == ["DE", "EN-GB", "EN-US", "KO"]
    assert {row["supports_formality"] for row in targets} == {False}
    sources = ask(app, "GET", "/v2/languages").json
    assert sources == [{"language": "EN", "name": "English"}, {"language": "DE", "name": "German"}]
    assert ask(app, "GET", "/v2/languages?type=both").status == 400


def test_xml_tags_survive_and_ignored_ones_are_not_translated(app):
    given = {"text": ['a <x id="7"></x> dog <b>here</b>'], "target_lang": "DE", "source_lang": "EN"}
    answer = ask(app, "POST", "/v2/translate", given | {"tag_handling": "xml", "ignore_tags": ["x"]})
    assert answer.json["translations"][0]["text"] == 'A <x id="7"></x> DOG <b>HERE</b>'
    same = ask(app, "POST", "/v2/translate", form=given | {"tag_handling": "xml", "ignore_tags": "x,y"})
    assert same.json == answer.json
    html = ask(app, "POST", "/v2/translate", given | {"text": ["<p>a <i>dog</i></p>"], "tag_handling": "html"})
    assert html.json["translations"][0]["text"] == "<p>A <i>DOG</i></p>"


def test_sentences_are_split_as_asked(server, app):
    def sentences(how: str | None) -> list[str]:
        server[0].service.asked.clear()
        given = {"text": ["One dog. Two\ncats."], "target_lang": "DE", "source_lang": "EN"}
        assert ask(app, "POST", "/v2/translate", given | ({"split_sentences": how} if how else {})).status == 200
        return [one.text for one in server[0].service.asked]

    assert len(sentences(None)) >= 2
    assert len(sentences("nonewlines")) == 2
    assert len(sentences("0")) == 1
    wrong = ask(app, "POST", "/v2/translate", ASKED | {"split_sentences": "2"})
    assert (wrong.status, list(wrong.json)) == (400, ["message"])


def test_what_has_no_effect_is_accepted_and_named(app):
    answer = ask(
        app, "POST", "/v2/translate", ASKED | {"formality": "more", "context": "x", "model_type": "quality_optimized"}
    )
    assert answer.status == 200
    assert answer.headers["x-ignored"] == "formality, context, model_type"
    assert answer.json["translations"][0]["model_type_used"] == "quality_optimized"
    assert "x-ignored" not in ask(app, "POST", "/v2/translate", ASKED | {"formality": "default"}).headers


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 400),
        ({"text": ["a"]}, 400),
        ({"target_lang": "DE"}, 400),
        ({"text": ["a"], "target_lang": "XX"}, 400),
        ({"text": ["a"], "target_lang": "DE", "source_lang": "XX"}, 400),
        ({"text": ["a"], "target_lang": "KO", "source_lang": "DE"}, 400),
        ({"text": ["a"], "target_lang": "DE", "tag_handling": "pdf"}, 400),
        ({"text": ["a"], "target_lang": "DE", "glossary_id": "x"}, 400),
        ({"text": ["a"], "target_lang": "DE", "source_lang": "EN", "glossary_id": "../keys"}, 404),
        ({"text": ["a"] * 300, "target_lang": "DE"}, 413),
        ({"text": [["a"]], "target_lang": "DE"}, 400),
        ({"text": ["<!DOCTYPE x [<!ENTITY a 'b'>]><y>&a;</y>"], "target_lang": "DE", "tag_handling": "xml"}, 400),
    ],
)
def test_errors_have_deepls_shape(app, given, status):
    answer = ask(app, "POST", "/v2/translate", given)
    assert answer.status == status
    assert list(answer.json) == ["message"]


def test_a_glossary_of_version_2_is_stored_used_and_deleted(app, server):
    pairs = ask(app, "GET", "/v2/glossary-language-pairs").json["supported_languages"]
    assert {"source_lang": "en", "target_lang": "de"} in pairs
    made = ask(app, "POST", "/v2/glossaries", {
        "name": "animals", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund\ncat\tKatze",
        "entries_format": "tsv",
    })  # fmt: skip
    assert made.status == 201
    assert made.json["entry_count"] == 2
    assert made.json["ready"] is True
    name = made.json["glossary_id"]
    assert ask(app, "GET", f"/v2/glossaries/{name}").json == made.json
    assert made.json in ask(app, "GET", "/v2/glossaries").json["glossaries"]
    entries = ask(app, "GET", f"/v2/glossaries/{name}/entries", headers={"accept": "text/tab-separated-values"})
    assert entries.text == "dog\tHund\ncat\tKatze"
    given = {"text": ["A dog runs.", "A horse."], "target_lang": "DE", "source_lang": "EN", "glossary_id": name}
    answer = ask(app, "POST", "/v2/translate", given)
    assert [row["text"] for row in answer.json["translations"]] == ["A DOG RUNS. Hund", "A HORSE."]
    assert ask(app, "POST", "/v2/translate", given | {"target_lang": "KO"}).status == 400
    assert ask(app, "DELETE", f"/v2/glossaries/{name}").status == 204
    assert ask(app, "GET", f"/v2/glossaries/{name}").status == 404
    assert ask(app, "DELETE", f"/v2/glossaries/{name}").status == 404


def test_a_glossary_of_version_3_has_several_dictionaries(app):
    german = {"source_lang": "en", "target_lang": "de", "entries": "dog\tHund", "entries_format": "tsv"}
    korean = {"source_lang": "en", "target_lang": "ko", "entries": "dog,개", "entries_format": "csv"}
    made = ask(app, "POST", "/v3/glossaries", {"name": "animals", "dictionaries": [german, korean]})
    assert made.status == 201
    path = f"/v3/glossaries/{made.json['glossary_id']}"
    assert ask(app, "GET", path.replace("/v3/", "/v1/")).json == made.json
    assert ask(app, "GET", "/v1/glossaries/nothing").json["error"]["code"] == "no_such_glossary"
    assert [row["entry_count"] for row in made.json["dictionaries"]] == [1, 1]
    more = german | {"entries": "cat\tKatze"}
    changed = ask(app, "PATCH", path, {"name": "pets", "dictionaries": [more]})
    assert changed.json["name"] == "pets"
    assert sorted(row["entry_count"] for row in changed.json["dictionaries"]) == [1, 2]
    put = ask(app, "PUT", f"{path}/dictionaries", german | {"entries": "horse\tPferd"})
    assert put.json == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    entries = ask(app, "GET", f"{path}/entries?source_lang=en&target_lang=de").json["dictionaries"]
    assert entries == [german | {"entries": "horse\tPferd"}]
    assert ask(app, "DELETE", f"{path}/dictionaries?source_lang=en&target_lang=ko").status == 204
    assert ask(app, "GET", f"{path}/entries?source_lang=en&target_lang=ko").status == 404
    assert len(ask(app, "GET", path).json["dictionaries"]) == 1
    assert ask(app, "DELETE", path).status == 204


@pytest.mark.parametrize("entries", ["", "dog", "dog\t", "dog\tHund\ndog\tKöter", "a\tb\tc", "dog\t" + "x" * 2_000])
def test_a_glossary_that_cannot_be_read_is_refused(app, entries):
    made = ask(
        app, "POST", "/v2/glossaries", {"name": "x", "source_lang": "en", "target_lang": "de", "entries": entries}
    )
    assert made.status == 400


def test_usage_counts_the_characters_of_this_api():
    _, app = pretend_server()
    ask(app, "POST", "/v2/translate", ASKED)
    usage = ask(app, "GET", "/v2/usage").json
    assert usage["character_count"] == 13
    assert usage["character_limit"] > 10**9
