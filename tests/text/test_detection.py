"""Which of the languages served a text is in: the script first, then statistics of characters, else confidence 0."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.text import detection
from jumok.text.detection import Detected, Detector
from jumok.text.lines import read_lines

DATA = Path(__file__).parents[3] / "shared" / "data"
SENTENCES = {  # written for this test
    "en": "Where is the next station? / My sister reads a book. / We will be there at noon. / The soup is still hot.",
    "de": "Wo ist der nächste Bahnhof? / Meine Schwester liest ein Buch. / Die Suppe ist noch heiß.",
    "fr": "Où est la prochaine gare ? / Ma sœur lit un livre. / La soupe est encore chaude. / Demain il va pleuvoir.",
    "es": "¿Dónde está la estación? / Mi hermana lee un libro. / La sopa todavía está caliente. / Mañana va a llover.",
    "it": "Dov'è la prossima stazione? / Mia sorella legge un libro. / La zuppa è ancora calda.",
    "nl": "Waar is het volgende station? / Mijn zus leest een boek. / De soep is nog heet. / Morgen gaat het regenen.",
    "pt": "Onde fica a próxima estação? / Minha irmã lê um livro. / A sopa ainda está quente.",
    "sv": "Var ligger nästa station? / Min syster läser en bok. / Soppan är fortfarande varm.",
    "pl": "Gdzie jest następna stacja? / Moja siostra czyta książkę. / Zupa jest jeszcze gorąca. / Jutro będzie padać.",
    "tr": "En yakın istasyon nerede? / Kız kardeşim kitap okuyor. / Çorba hâlâ sıcak. / Yarın yağmur yağacak.",
    "ru": "Где следующая станция? / Моя сестра читает книгу. / Суп ещё горячий. / Завтра будет дождь.",
    "uk": "Де наступна станція? / Моя сестра читає книгу. / Суп ще гарячий. / Завтра йтиме дощ.",
    "ko": "다음 역이 어디예요? / 언니가 책을 읽어요. / 국이 아직 뜨거워요. / 내일 비가 와요.",
    "ja": "次の駅はどこですか。 / 姉は本を読みます。 / スープはまだ熱いです。 / 明日は雨が降ります。",
    "zh": "下一个车站在哪里？ / 我姐姐在看书。 / 汤还很热。 / 明天会下雨。",
    "ar": "أين المحطة التالية؟ / أختي تقرأ كتابا. / الحساء لا يزال ساخنا. / غدا ستمطر.",
    "el": "Πού είναι ο επόμενος σταθμός; / Η αδερφή μου διαβάζει ένα βιβλίο. / Η σούπα είναι ακόμα ζεστή.",
}


@pytest.fixture(scope="module")
def all_of_them() -> Detector:
    return Detector(SENTENCES)


@pytest.mark.parametrize("language", SENTENCES)
def test_a_short_sentence_is_recognised_among_seventeen_languages(all_of_them, language):
    guesses = [all_of_them.detect(sentence) for sentence in SENTENCES[language].split(" / ")]
    assert [guess.language for guess in guesses] == [language] * len(guesses)
    assert all(guess.confidence >= detection.LEAST for guess in guesses)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "12:30",
        "😀😀",
        "?!…",
        "+49 30 1234",
        "안녕하세요",
        "Привет",
        "https://example.org/guten-tag",
        "a@b.org",
        "\ud800",
    ],
)
def test_confidence_is_0_where_a_text_does_not_say(text):
    assert Detector(["en", "de"]).rank(text) == [Detected("en", 0.0), Detected("de", 0.0)]


def test_words_of_two_languages_of_one_script_are_not_guessed():
    detector = Detector(["de", "en"])
    assert {detector.detect(word).confidence for word in ("OK", "bike", "Tom", "I")} == {0.0}
    assert detector.detect("danke").language == "de"


def test_scripts_decide_without_statistics_and_confidence_is_the_share_of_letters(monkeypatch):
    monkeypatch.setattr(detection, "is_installed", lambda name: pytest.fail("statistics are not needed"))
    detector = Detector(["en", "ko"])
    assert detector.detect("다음 역이 어디예요?") == Detected("ko", 100.0)
    assert detector.detect("Where is the station?") == Detected("en", 100.0)
    mixed = detector.detect("나는 Windows를 좋아해")
    assert mixed.language == "ko"
    assert 50.0 < mixed.confidence < 100.0
    assert detector.detect("漢字").confidence == 0.0


def test_without_the_library_languages_of_one_script_are_unknown(monkeypatch):
    monkeypatch.setattr(detection, "is_installed", lambda name: False)
    detector = Detector(["de", "en", "ko"])
    assert detector.detect("Where is the station?") == Detected("de", 0.0)
    assert detector.detect("역이 어디예요?") == Detected("ko", 100.0)


def test_chinese_and_japanese_are_told_apart_by_kana_and_the_two_scripts_of_chinese_by_their_characters():
    detector = Detector(["ja", "zh"])
    assert detector.detect("これは本です") == Detected("ja", 100.0)
    assert detector.rank("東京大学") == [Detected("zh", 70.0), Detected("ja", 30.0)]
    assert detector.detect("我最喜欢的の是北京的冬天和春天下雨的早上").language == "zh"
    chinese = Detector(["zh-Hans", "zh-TW"])
    assert chinese.detect("我们学习") == Detected("zh-Hans", 100.0)
    assert chinese.detect("我們學習") == Detected("zh-TW", 100.0)
    assert chinese.detect("人").confidence == 0.0


def test_a_tag_with_a_region_is_detected_by_its_language_and_the_first_of_several_wins():
    assert Detector(["pt-BR", "en-US", "en-GB"]).detect("Where is the next station?").language == "en-US"
    assert Detector(["nb", "de"]).detect("Hvor er den neste stasjonen?").language == "nb"
    assert Detector(["en"]).detect("Where?") == Detected("en", 100.0)


def test_a_language_without_statistics_leaves_its_neighbours_unknown():
    assert Detector(["en", "gsw"]).detect("Where is the next station?").confidence == 0.0


@given(st.text(max_size=80), st.lists(st.sampled_from(sorted(SENTENCES)), min_size=1, max_size=5))
def test_any_text_has_one_confidence_from_0_to_100_for_each_language(text, languages):
    ranked = Detector(languages).rank(text)
    assert sorted(one.language for one in ranked) == sorted(set(languages))
    confidences = [one.confidence for one in ranked]
    assert confidences == sorted(confidences, reverse=True)
    assert all(value == 0.0 or detection.LEAST <= value <= 100.0 for value in confidences)


def test_a_long_text_costs_no_more_than_its_beginning():
    detector = Detector(["en", "de"])
    assert detector.detect("Where is the next station? " * 100_000) == detector.detect(
        "Where is the next station? " * 100
    )


# ------------------------------------------------------------------------------------------ corpora

FILES = {
    "en": ["tatoeba-en-de/val.en.gz", "multi30k/val.en.gz", "korean-english/news.val.en.gz"],
    "de": ["tatoeba-en-de/val.de.gz", "multi30k/val.de.gz", "libreoffice-help/en-de.val.de.gz"],
    "fr": ["tatoeba-en-fr/val.fr.gz", "multi30k/val.fr.gz", "libreoffice-help/en-fr.val.fr.gz"],
    "ko": ["korean-english/tatoeba.val.ko.gz", "korean-english/news.val.ko.gz", "libreoffice-help/en-ko.val.ko.gz"],
    "ja": ["small-parallel-enja/dev.ja.gz"],
}


def pick(language: str) -> list[str]:
    """300 sentences of three to eight words, of Japanese six to thirty characters."""
    lines = [line for name in FILES[language] for line in read_lines(DATA / name)]
    short = [line for line in lines if (6 <= len(line) <= 30 if language == "ja" else 3 <= len(line.split()) <= 8)]
    return random.Random(1).sample(sorted(set(short)), 300)


@pytest.mark.shared
@pytest.mark.skipif(not DATA.is_dir(), reason=f"needs the corpora in {DATA}")
@pytest.mark.parametrize("languages", ["en de", "en fr", "en ko", "en ja", "en de fr ko ja"])
def test_97_of_100_short_sentences_of_real_text_are_recognised(languages):
    detector = Detector(languages.split())
    for language in languages.split():
        sentences = pick(language)
        right = sum(detector.detect(sentence).language == language for sentence in sentences)
        assert right >= 0.97 * len(sentences), language
