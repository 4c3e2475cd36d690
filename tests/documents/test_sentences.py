"""Where sentences end, in the languages that people send; what is too long is split, never cut."""

import pytest

from jumok.documents import read_text
from jumok.documents.sentences import divide, split_sentences
from jumok.errors import DataError, MissingPackage
from tests.cli.test_extras import Hiding
from tests.documents.support import same, shout, translate


def sentences(text: str, language: str, **options: object) -> list[str]:
    return [text[start:stop] for start, stop in split_sentences(text, language, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("fr", ["M. Dupont est là.", "Il dort."]),
        ("fr", ["Mme. Curie et Dr. Petit arrivent.", "Cf. p. 5 du vol. 2."]),
        ("cs", ["Dne 3. října 2020 přišel.", "Odešel."]),
        ("cs", ["Pan Ing. Novák bydlí na ul. Dlouhé.", "Má psa."]),
        ("de", ["Am 3. Oktober gehen wir.", "Gut."]),
        ("de", ["Er lebte im 19. Jahrhundert.", "Der 2. Weltkrieg begann am 1. September.", "Schlimm."]),
        ("de", ["Prof. Dr. Müller kommt z. B. heute.", "Sie bzw. er geht."]),
        ("en", ["Dr. Smith went to the U.S. on Jan. 5.", "He left."]),
        ("en", ["Well... maybe.", "See Fig. 3 on pp. 4 and 5.", "Is it No. 5?", "Yes!"]),
        ("en", ["“Is that so?” he asked.", "“It is.”"]),
        ("en", ["hello.", "how are you.", "it costs 3.50."]),
        ("ko", ["2020. 3. 5. 출발했다.", '그는 "간다."라고 말했다.', "끝."]),
        ("ko", ["안녕하세요.", "저는 민지예요!", "가격은 3.5%입니다."]),
        ("ja", ["「行く。」と言った。", "終わり。"]),
        ("ja", ["「すごい！」", "彼は言った。", "本当？", "うん（笑）。"]),
        ("zh", ["你好。", "再见！"]),
        ("th", ["สวัสดีครับ ผมชื่อสมชาย"]),
        ("ru", ["А. С. Пушкин жил на ул. Мойке.", "Потом ушёл."]),
        ("es", ["El Sr. López vino.", "¿Qué tal?", "¡Bien!"]),
    ],
)
def test_sentences_end_where_they_do(language, expected):
    space = "" if language in ("ja", "zh") else " "
    assert sentences(space.join(expected), language) == expected


def test_a_region_does_not_change_the_rules():
    assert sentences("M. Dupont est là. Il dort.", "fr-CA") == ["M. Dupont est là.", "Il dort."]


WRAPPED = """Dear all, this is an ordinary letter whose lines
are wrapped by a mail program, as they were for
many years. It has a second sentence.

> A quotation, whose lines have a mark each and are
> wrapped as well.
Short line
"""


def test_wrapped_lines_are_joined_and_the_breaks_keep_their_share():
    document = read_text(WRAPPED, "en")
    assert [segment.text for segment in document.segments] == [
        "Dear all, this is an ordinary letter whose lines are wrapped by a mail program, as they were for many years.",
        "It has a second sentence.",
        "A quotation, whose lines have a mark each and are wrapped as well.",
        "Short line",
    ]
    out = translate(document, shout)
    assert out.count("\n") == WRAPPED.count("\n")
    assert "\n> WRAPPED AS WELL" in out
    assert translate(document, same) == WRAPPED


@pytest.mark.parametrize(
    "text",
    [
        "milk\nbread\ntwo eggs",
        "- a first item that is long enough to be a wrapped line\n- a second item that is long enough too",
        "The following are needed for the dinner of tomorrow:\nbread from the shop at the corner of the street",
        "1. Open the door of the house and go into the kitchen\n2. Close the door behind you, and wait there",
    ],
)
def test_lines_that_are_items_are_not_joined(text):
    assert len(sentences(text, "en")) == len(text.split("\n"))


def test_list_markers_are_not_read_by_the_model():
    assert sentences("- one thing\n* another\n1. third\n## Heading\n> quoted", "en") == [
        "one thing",
        "another",
        "third",
        "Heading",
        "quoted",
    ]
    assert sentences("3. října přišel.", "cs") == ["3. října přišel."]
    assert sentences("1. Mai ist ein Feiertag.", "de") == ["1. Mai ist ein Feiertag."]


def test_the_caller_decides_about_line_breaks_and_sentences():
    text = "one line\nand another. A sentence."
    assert sentences(text, "en", newlines="break") == ["one line", "and another.", "A sentence."]
    assert sentences(text, "en", newlines="join") == ["one line\nand another.", "A sentence."]
    assert sentences(text, "en", newlines="join", sentences=False) == [text]


def test_chinese_lines_are_joined_without_a_space():
    line = "这是一个很长的句子它被电子邮件程序换行了所以我们必须把它"
    [segment] = read_text(f"{line}\n重新连接起来。", "zh").segments
    assert segment.text == f"{line}重新连接起来。"


# ------------------------------------------------------------------------------------------ long sentences


def test_a_long_sentence_is_split_after_clauses_then_between_words():
    text = "When it rained, we stayed at home; when it did not, we went out " + "and walked " * 12 + "home."
    parts = [text[start:stop] for start, stop in divide(text, 60)]
    assert " ".join(parts) == text
    assert max(map(len, parts)) <= 60
    assert parts[0] == "When it rained, we stayed at home; when it did not,"


def test_what_fits_may_be_a_function_of_the_text():
    text = "one two three four five six seven eight"
    parts = [text[start:stop] for start, stop in divide(text, lambda part: len(part.split()) <= 3)]
    assert parts == ["one two three", "four five six", "seven eight"]


def test_scripts_without_spaces_are_split_between_characters():
    text = "我" * 95
    assert [stop - start for start, stop in divide(text, 30)] == [30, 30, 30, 5]


def test_a_word_that_does_not_fit_is_refused_and_not_cut():
    with pytest.raises(DataError, match="a word is too long"):
        split_sentences("short words and " + "x" * 500, "en", longest=100)


def test_a_long_address_is_no_long_word():
    [segment] = read_text(f"See https://example.org/{'x' * 500} for more.", "en", longest=60).segments
    assert segment.text == "See for more."


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "sentencex", raising=False)
    monkeypatch.delitem(sys.modules, "sentencex.sentencex", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Hiding(finder, "sentencex") for finder in sys.meta_path])
    with pytest.raises(MissingPackage) as raised:
        split_sentences("One. Two.", "en")
    assert raised.value.hint == "try: pip install 'jumok[serve]'"
