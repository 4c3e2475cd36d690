"""Clients that people use, each from its own public API against a running server."""

import io
import os
import subprocess

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_libretranslatepy(running):
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(running.address + "/", api_key="k")
    assert client.translate("a b c", "en", "de") == running.translate("a b c")
    assert {row["code"] for row in client.languages()} == {"en", "de", "ko"}
    assert client.detect("This is a sentence.")[0]["language"] == "en"


def test_deep_translator(running):
    from deep_translator import LibreTranslator

    client = LibreTranslator(source="en", target="de", api_key="k", custom_url=running.address + "/")
    assert client.translate("a b c") == running.translate("a b c")


@pytest.fixture(scope="module")
def deepl_client(running):
    import deepl

    return deepl.DeepLClient("key", server_url=running.address, send_platform_info=False)


def test_deepl_texts_languages_and_usage(running, deepl_client):
    import deepl

    result = deepl_client.translate_text(["a b c", "d e"], source_lang="EN", target_lang="DE")
    assert [one.text for one in result] == running.translate(["a b c", "d e"])
    assert result[0].billed_characters == 5
    assert result[0].detected_source_lang == "EN"
    american = deepl_client.translate_text("a b", source_lang="DE", target_lang="EN-US", formality="prefer_more")
    assert american.text == running.translate("a b", source="de", target="en")
    tagged = deepl_client.translate_text("a <x>b</x>", target_lang="DE", source_lang="EN", tag_handling="xml")
    assert tagged.text.count("<x>") == tagged.text.count("</x>") == 1
    assert {language.code for language in deepl_client.get_source_languages()} == {"EN", "DE"}
    assert {language.code for language in deepl_client.get_target_languages()} == {"DE", "EN-US", "EN-GB", "KO"}
    assert deepl_client.get_usage().character.count > 0
    assert not deepl_client.get_usage().any_limit_reached
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        deepl_client.translate_text("a", target_lang="FR")


def test_deepl_glossaries(deepl_client):
    import deepl

    made = deepl_client.create_glossary("letters", "EN", "DE", {"a": "b", "c": "d"})
    assert made.entry_count == 2
    assert deepl_client.get_glossary_entries(made) == {"a": "b", "c": "d"}
    assert made.glossary_id in [one.glossary_id for one in deepl_client.list_glossaries()]
    assert deepl_client.get_glossary_languages()
    result = deepl_client.translate_text("a e", source_lang="EN", target_lang="DE", glossary=made)
    assert "b" in result.text
    deepl_client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        deepl_client.get_glossary(made.glossary_id)
    several = deepl_client.create_multilingual_glossary(
        "letters", [deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"a": "b"})]
    )
    assert several.dictionaries[0].entry_count == 1
    deepl_client.update_multilingual_glossary_name(several.glossary_id, "other")
    assert deepl_client.get_multilingual_glossary(several.glossary_id).name == "other"
    deepl_client.delete_multilingual_glossary(several)


def test_deepl_documents(running, deepl_client):
    import deepl

    out = io.BytesIO()
    status = deepl_client.translate_document(
        b"a b c.\n\nd e.\n", out, source_lang="EN", target_lang="DE", filename="letters.txt"
    )
    assert status.done
    assert status.billed_characters > 0
    assert out.getvalue().decode() == running.translate("a b c.\n\nd e.\n")
    page = io.BytesIO()
    deepl_client.translate_document(b"<p>a <b>b</b></p>", page, target_lang="DE", filename="page.html")
    assert page.getvalue().startswith(b"<p>")
    with pytest.raises(deepl.DeepLException):
        deepl_client.translate_document(b"PK", io.BytesIO(), target_lang="DE", filename="a.docx")


def test_libretranslate_files(running):
    boundary = "xyz"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", "en"), ("target", "de"))
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="../../음식 é.txt"'
    file = f"{head}\r\n\r\na b c.\r\n--{boundary}--\r\n"
    kind = f"multipart/form-data; boundary={boundary}"
    status, value, _ = running.request("/translate_file", ("".join(parts) + file).encode(), content_type=kind)
    assert status == 200, value
    address = value["translatedFileUrl"]
    assert address.startswith(running.address + "/download_file/")
    path = address.removeprefix(running.address)
    assert running.request(path, method="HEAD")[0] == 200
    status, content, headers = running.request(path)
    assert (status, content.decode()) == (200, running.translate("a b c."))
    assert headers["content-disposition"].startswith("attachment")
    assert running.request(path)[0] == 404  # it is deleted once it is downloaded
    refused = file.replace(".txt", ".exe")
    status, value, _ = running.request("/translate_file", ("".join(parts) + refused).encode(), content_type=kind)
    assert status == 400


def test_curl(running):
    command = ["curl", "-s", "-X", "POST", f"{running.address}/translate", "-d"]
    for data in ('{"q":"a b","source":"en","target":"de"}', "q=a b&source=en&target=de"):
        answer = subprocess.run([*command, data], check=True, capture_output=True, text=True, env=os.environ)
        assert running.translate("a b") in answer.stdout
    form = ["-F", "q=a b", "-F", "source=en", "-F", "target=de"]
    answer = subprocess.run([*command[:-1], *form], check=True, capture_output=True, text=True)
    assert running.translate("a b") in answer.stdout
