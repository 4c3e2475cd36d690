"""Tags of languages: one canonical form, names for people, and tags in the names of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.config.sections import LanguagesConfig
from jumok.errors import UsageError
from jumok.text.language_table import LANGUAGES
from jumok.text.languages import (
    canonical,
    describe,
    find_match,
    guess_from_files,
    guess_from_table,
)
from jumok.text.scripts import RANGES, script_of


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("en", "en"), ("EN", "en"), ("en-us", "en-US"), ("pt_br", "pt-BR"), ("zh_CN", "zh-CN"), ("zh-hans", "zh-Hans"),
        ("ZH-HANT-hk", "zh-Hant-HK"), ("es-419", "es-419"), ("deu", "de"), ("ger", "de"), ("eng_Latn", "en"),
        ("kor_Hang", "ko"), ("jpn_Jpan", "ja"), ("zho_Hans", "zh-Hans"), ("iw", "he"), ("in", "id"), ("sh", "sr-Latn"),
        ("sr-Cyrl", "sr"), ("sr_latn_rs", "sr-Latn-RS"), ("zh-cmn-Hans-CN", "zh-Hans-CN"), ("zh-yue", "yue"),
        ("zt", "zh-Hant"), ("de-1996", "de-1996"), ("ca-valencia", "ca-valencia"), ("gsw", "gsw"), (" ko ", "ko"),
    ],
)  # fmt: skip
def test_a_tag_has_one_canonical_form_which_a_recipe_accepts(given, tag):
    assert canonical(given) == canonical(tag) == tag
    assert LanguagesConfig(source=tag).source == tag


@pytest.mark.parametrize(
    "given", ["", "e", "english", "en-", "-", "en--US", "de-DE-u-co-phonebk", "x-mine", "en us", "é"]
)
def test_what_is_not_a_tag_is_refused(given):
    with pytest.raises(UsageError, match="not a BCP 47 language tag"):
        canonical(given)


def test_a_language_given_by_its_name_is_refused_with_its_tag():
    for name in ("German", "deutsch", "독일어"):
        with pytest.raises(UsageError) as error:
            canonical(name)
        assert error.value.hint == "try: de for German"


@given(st.text(max_size=40))
def test_any_text_is_a_tag_that_stays_as_it_is_or_an_error(text):
    try:
        tag = canonical(text)
    except UsageError:
        return
    assert canonical(tag) == tag == LanguagesConfig(source=tag).source
    assert describe(tag).english


def test_every_language_of_the_table_has_names_in_its_scripts_and_codes_of_its_own():
    codes = [code for language in LANGUAGES.values() for code in language.codes]
    assert len(LANGUAGES) >= 100
    assert len(set(codes)) == len(codes)
    for tag, language in LANGUAGES.items():
        assert canonical(tag) == tag
        assert all(canonical(code) == tag for code in language.codes if code != tag)
        assert set(language.scripts) <= RANGES.keys()
        assert {script_of(letter) for letter in language.korean if letter.isalpha()} == {"Hangul"}
        written = {script_of(letter) for letter in language.own} - {None}
        assert written & {*language.scripts, "Han"}, language


def test_names_of_a_tag_with_a_region_say_the_region():
    assert describe("pt-BR").english == "Portuguese (BR)"
    assert describe("zh-TW").own == "繁體中文"
    assert describe("sr-Latn").scripts == ("Latin",)
    assert describe("gsw").english == "gsw"


@pytest.mark.parametrize(
    ("asked", "served", "found"),
    [
        ("EN-GB", ["de", "en"], "en"), ("en", ["en-US"], "en-US"), ("en-GB", ["en-US", "en-GB"], "en-GB"),
        ("zh-CN", ["zh-Hant", "zh-Hans"], "zh-Hans"), ("zh-TW", ["zh-Hans"], None), ("zh-TW", ["zh"], "zh"),
        ("zh", ["zh-Hant"], "zh-Hant"), ("no", ["nb"], "nb"), ("nb", ["no"], "no"), ("fr", ["en", "de"], None),
        ("sr-Latn", ["sr"], "sr"),
    ],
)  # fmt: skip
def test_a_request_finds_the_tag_that_means_the_same_language(asked, served, found):
    assert find_match(asked, served) == found


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [
        ("train.en", "train.de", ("en", "de")), ("data/train.en.gz", "data/train.ko.zst", ("en", "ko")),
        ("corpus.en-de.de", "corpus.en-de.en", ("de", "en")), ("news/*.en", "news/*.fr", ("en", "fr")),
        ("train.en.txt", "train.de.txt", ("en", "de")), ("train.tok.en", "train.tok.de", ("en", "de")),
        ("en.txt", "de.txt", ("en", "de")), ("en/1.txt", "de/1.txt", ("en", "de")),
        ("a_en.txt", "a_ko.txt", ("en", "ko")),
        ("x.pt_BR", "x.zh-Hans", ("pt-BR", "zh-Hans")), ("x.eng", "x.kor", ("en", "ko")),
        ("train.src", "train.tgt", None), ("train.en", "train.txt", None), ("a.txt", "b.txt", None),
        ("-", "train.de", None),
        ("in.txt", "out.txt", None), ("https://example.org/a.en.gz", "https://example.org/a.de.gz", ("en", "de")),
    ],
)  # fmt: skip
def test_names_of_parallel_files_say_their_languages_or_nothing(source, target, pair):
    assert guess_from_files(source, target) == pair


@pytest.mark.parametrize(
    ("table", "columns", "pair"),
    [
        ("a.tsv", ("en", "de"), ("en", "de")), ("a.parquet", ("translation.en", "translation.ko"), ("en", "ko")),
        ("a.tsv", ("text_en", "text_de"), ("en", "de")), ("a.tsv", ("1", "2"), None), ("a.en-de.tsv", ("1", "2"), None),
        ("a.en-de.tsv.gz", None, ("en", "de")), ("deu-eng.tsv", None, ("de", "en")), ("a.tsv", None, None),
        ("built-in.tsv", None, None),
    ],
)  # fmt: skip
def test_columns_and_names_of_tables_say_their_languages_or_nothing(table, columns, pair):
    assert guess_from_table(table, columns) == pair
