"""XML fragments with DeepL's options, subtitles, and files by extension."""

import codecs
import time

import pytest

from jumok.documents import FORMATS, read_file, read_text, read_xml
from jumok.documents.formats import read_srt
from jumok.errors import DataError, UsageError
from jumok.translation import Translation
from tests.documents.support import backwards, same, shout, translate


def texts(fragment: str, **options: object) -> list[str]:
    return [segment.text for segment in read_xml(fragment, "en", **options).segments]  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ XML


def test_the_placeholders_of_weblate_stay_in_their_place():
    text = 'Hello <x id="7"></x>, you have <x id="9"></x> messages'
    document = read_xml(text, "en", ignore_tags=["x"])
    assert [segment.text for segment in document.segments] == ["Hello, you have messages"]
    assert translate(document, shout).startswith('HELLO <x id="7"></x>, YOU HAVE <x id="9"></x> MESSAGES')
    moved = translate(document, backwards)
    assert moved == '<x id="9"></x> messages have you Hello <x id="7"></x>,'


def test_what_ignored_tags_enclose_is_not_read():
    assert texts("Press <k>Control <b>C</b></k> twice", ignore_tags=["k"]) == ["Press twice"]


def test_elements_beside_text_are_inline_and_others_split():
    assert texts("<doc><t>A title</t><p>Some <i>text</i> here.</p></doc>") == ["A title", "Some text here."]


def test_without_outline_only_splitting_tags_split():
    fragment = "<doc><t>a title</t><p>some text</p></doc>"
    assert texts(fragment, outline=False) == ["a titlesome text"]
    assert texts(fragment, outline=False, splitting_tags=["p"]) == ["a title", "some text"]
    assert texts(fragment, non_splitting_tags=["t", "p", "doc"]) == ["a titlesome text"]


def test_line_breaks_in_xml_are_space():
    assert texts("<p>one\n   two</p>") == ["one two"]


@pytest.mark.parametrize(
    "bomb",
    [
        '<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><lolz>&lol2;</lolz>',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        "<!doctype x>",
        "text <!DOCTYPE x [",
    ],
)
def test_definitions_of_entities_are_refused(bomb):
    with pytest.raises(DataError, match="document type or entities"):
        read_xml(bomb, "en")


def test_unknown_entities_and_sections_are_left_alone():
    text = "See &foo; and <![CDATA[a < b]]> now<!-- c --><?pi x?>"
    document = read_xml(text, "en")
    assert [segment.text for segment in document.segments] == ["See and now"]
    assert translate(document, same) == text
    assert "&foo; AND <![CDATA[a < b]]> NOW" in translate(document, shout)


@pytest.mark.parametrize(
    "text", ["<a>" * 100_000, "<a><b>" * 50_000 + "</a>" * 50_000, "<" * 500_000, "<x>a" * 50_000, "x<a/>" * 50_000]
)
def test_hostile_fragments_come_back_in_bounded_time(text):
    before = time.process_time()
    assert translate(read_xml(text, "en", ignore_tags=["q"]), same) == text
    assert time.process_time() - before < 10


# ------------------------------------------------------------------------------------------ subtitles

SRT = """1
00:00:01,000 --> 00:00:03,000
{\\an8}<i>Hello there, my friend,
I was just about</i>

2
00:00:03,100 --> 00:00:04,000  X1:10
to leave the house.

3
00:00:09,000 --> 00:00:10,000
- Who is it?
- Me.

4
00:00:11,000 --> 00:00:12,000
♪ A song ♪
"""


def test_a_sentence_over_several_cues_is_one():
    assert [segment.text for segment in read_srt(SRT, "en").segments] == [
        "Hello there, my friend, I was just about to leave the house.",
        "Who is it?",
        "Me.",
        "A song ♪",
    ]


def test_it_is_divided_again_by_time_near_the_end_of_a_clause():
    german = "Hallo, mein Freund, ich wollte gerade das Haus verlassen."
    document = read_srt(SRT, "en")
    texts = [german, "Wer?", "Ich.", "Ein Lied ♪"]
    out = document.render([Translation(s.text, text, 0, 0) for s, text in zip(document.segments, texts, strict=True)])
    first, second = out.split("\n\n")[:2]
    assert first.split("\n")[2:] == ["{\\an8}<i>Hallo, mein Freund,", "ich wollte gerade das</i>"]
    assert second == "2\n00:00:03,100 --> 00:00:04,000  X1:10\nHaus verlassen."
    assert "- Wer?\n- Ich." in out


def test_numbers_and_times_are_untouched():
    for source in (SRT, SRT.replace("\n", "\r\n"), "\n\n" + SRT.strip()):
        out = translate(read_srt(source, "en"), shout)
        lines = [line.strip("\r") for line in source.split("\n")]
        kept_lines = [line for line in lines if "-->" in line or line.isdigit()]
        assert [line for line in (line.strip("\r") for line in out.split("\n")) if line in kept_lines] == kept_lines
        assert translate(read_srt(source, "en"), same) == source


@pytest.mark.parametrize(
    ("first", "second", "pause", "joined"),
    [
        ("and then we", "went home.", 0.1, True),
        ("We went home.", "Then we slept.", 0.1, False),
        ("and then we", "went home.", 5.0, False),
        ("and then we", "- Who?", 0.1, False),
        ("I think...", "that you know.", 0.1, True),
        ("I think...", "You know.", 0.1, False),
    ],
)
def test_cues_are_joined_only_if_the_sentence_goes_on(first, second, pause, joined):
    start = 2 + pause
    text = f"1\n00:00:01,000 --> 00:00:02,000\n{first}\n\n2\n00:00:{start:06.3f} --> 00:00:09,000\n{second}\n"
    text = text.replace(f"{start:06.3f}", f"{start:06.3f}".replace(".", ","))
    assert (len(read_srt(text, "en").segments) == 1) == joined


def test_a_file_without_cues_is_refused():
    with pytest.raises(DataError, match="no subtitles"):
        read_srt("just text", "en")


# ------------------------------------------------------------------------------------------ files


def write(name: str, content: bytes, text: str | None = None) -> bytes:
    file = read_file(name, content, "en")
    return file.write([Translation(s.text, s.text if text is None else text, 0, 0) for s in file.segments])


@pytest.mark.parametrize(
    "content",
    [
        "Grüße. Und mehr.\r\n".encode(),
        codecs.BOM_UTF8 + "Grüße.".encode(),
        codecs.BOM_UTF16_LE + "Grüße. Zwei.".encode("utf-16-le"),
        codecs.BOM_UTF32_BE + "Grüße.".encode("utf-32-be"),
    ],
)
def test_files_of_text_come_back_byte_for_byte(content):
    assert write("a.txt", content) == content


def test_a_page_keeps_the_encoding_that_it_declares():
    page = '<meta charset="windows-1252"><p>Grüße</p>'.encode("cp1252")
    assert write("A.HTML", page) == page
    assert write("a.htm", page, "안녕") == b'<meta charset="windows-1252"><p>&#50504;&#45397;</p>'


def test_a_file_that_is_not_text_is_refused():
    with pytest.raises(DataError, match="not UTF-8: byte 3"):
        read_file("a.txt", b"abc\xff\xfe", "en")


@pytest.mark.parametrize("name", ["a.pdf", "a", "", ".txt/../x", "a.txt.exe", "a.docx"])
def test_other_files_are_refused_with_a_list(name):
    with pytest.raises(UsageError, match="cannot be translated") as raised:
        read_file(name, b"", "en")
    assert all(extension in raised.value.hint for extension in FORMATS)


# ------------------------------------------------------------------------------------------ placeholders


TOKENS = (
    "{name} {0} {count,number} {{user.name}} ${x} %d %s %1$s %-5.2f %(count)s %{name} %1 %@ {%url%} $NAME$ &nbsp; <x/> "
    'https://a.org/b?c=d&e=f#g www.a.org/b kim@a.org @kim :smile: #{id} {a}/{b} {n}% "{name}" ({x})'
)


@pytest.mark.parametrize("token", [*TOKENS.split(" "), '<x id="1"/>', "{{ user }}", "{% if x %}"])
def test_placeholders_and_addresses_are_unharmed_and_not_read(token):
    document = read_text(f"Hello {token}, you have new messages.", "en")
    [segment] = document.segments
    assert segment.text == "Hello, you have new messages."
    assert translate(document, shout).startswith(f"HELLO {token}, YOU HAVE NEW MESSAGES.")


@pytest.mark.parametrize("text", ["100 % sure", "5% of it", "a { x } b", "and/or", "10:30 today", "is 3 < 4"])
def test_ordinary_text_is_no_placeholder(text):
    [segment] = read_text(text, "en").segments
    assert segment.text == text


def test_placeholders_stay_in_their_clauses_and_follow_the_alignment():
    document = read_text("Hello {name}, you have %d messages", "en")
    links = ((0, 0), (3, 1), (2, 2))
    out = document.render([Translation("", "안녕하세요, 메시지가 있습니다.", 0, 0, alignment=links)])
    assert out == "안녕하세요 {name}, %d 메시지가 있습니다."
    assert document.segments[0].align


def test_the_order_of_placeholders_follows_the_alignment():
    document = read_text("copy %1 files to %2 folders", "en")
    assert document.segments[0].text == "copy files to folders"
    out = document.render([Translation("", "폴더로 파일을 복사합니다", 0, 0, alignment=((0, 2), (1, 1), (3, 0)))])
    assert out == "%2 폴더로 %1 파일을 복사합니다"
