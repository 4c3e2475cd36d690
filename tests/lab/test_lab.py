"""The lab: claims are tried, judged by their numbers alone, can come out "no", and are told in two languages."""

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from jumok import lab as table
from jumok.errors import Resumable, UnknownName, UsageError
from jumok.lab import book, conduct, pages
from jumok.lab.claim import Check, Claim, Finding, Picture, Table, lines
from jumok.lab.claims import mask, order
from jumok.lab.laboratory import Lab, Trained, exact_share
from jumok.lab.standing import Standing
from jumok.lab.wording import LANGUAGES, Text, Words, flatten, korean
from jumok.reports.charts import bars_svg, field_svg

MICRO = {  # every run in about a second, whatever a claim asks for
    "data.pairs": 300,
    "vocabulary.size": 700,
    "vocabulary.at_most": True,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.d_model": 16,
    "model.d_ff": 32,
    "training.steps": 6,
    "training.validations": 1,
    "training.valid_pairs": 10,
    "decoding.extra_length": 5,
}


@pytest.fixture
def micro_lab(tmp_path) -> Lab:
    """A lab in which everything takes a moment and nothing is learnt."""
    return Lab(tmp_path / "lab", factor=0.02, common=MICRO)


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)", text))


# ------------------------------------------------------------------------------------------ words

FILES = sorted(path.name for path in resources.files("jumok").joinpath("lab/words").iterdir())


@pytest.mark.parametrize("name", FILES)
def test_both_languages_say_the_same_things_with_the_same_numbers(name):
    values = tomllib.loads(resources.files("jumok").joinpath(f"lab/words/{name}").read_text(encoding="utf-8"))
    english, korean = flatten(values["en"]), flatten(values["ko"])
    assert list(english) == list(korean)
    for key in english:
        assert placeholders(english[key]) == placeholders(korean[key]), key
        assert english[key].strip(), key
        assert korean[key].strip(), key


@pytest.mark.parametrize("name", FILES)
def test_korean_words_are_korean(name):
    values = tomllib.loads(resources.files("jumok").joinpath(f"lab/words/{name}").read_text(encoding="utf-8"))
    for key in ("title", "claim", "setup", "meaning", "next"):
        if key in values["ko"]:
            assert re.search("[가-힣]", values["ko"][key]), key


def test_every_claim_has_words_and_says_where_it_is_claimed():
    assert {f"{name}.toml" for name in (*table.NAMES, *table.PAPER)} == set(FILES) - {"pages.toml"}
    for name in (*table.NAMES, *table.PAPER):
        words = Words.read(name)
        assert words.paper
        for key in ("title", "claim", "setup", "meaning", "next"):
            assert words(key).en


def test_places_are_named_in_korean_and_no_english_word_is_left():
    assert korean("section 3.2.2; table 3, row A") == "3.2.2절; 표 3, A행"
    assert korean("002, lines 87 to 89 and 205; 003, line 7") == "002, 87~89행, 205행; 003, 7행"
    for name in (*table.NAMES, *table.PAPER):
        words = Words.read(name)
        assert not re.search("[a-z]", korean(words.paper) + korean(words.notes)), name
        assert len(words.source("ko")) == 1 + bool(words.notes)


@pytest.mark.parametrize("name", [*table.NAMES, *table.PAPER])
def test_every_claim_is_found_by_its_name(name):
    assert table.get(name).name == name


def test_an_unknown_claim_is_told_with_one_that_is_near():
    with pytest.raises(UnknownName, match="did you mean 'mask'"):
        table.get("masks")


# ------------------------------------------------------------------------------------------ findings


def coin(heads: float) -> Claim:
    """A claim about a coin that needs no model."""
    words = {
        "title": "Coin",
        "claim": "It is fair.",
        "setup": "a\n\nb",
        "meaning": "c",
        "next": "d",
        "half": "{share:.2f}",
    }
    return Claim(
        name="coin",
        words=Words({"paper": "nowhere", "en": words, "ko": words | {"claim": "공정합니다 <b>"}}),
        measure=lambda lab, share=heads: {"share": share},
        check=lambda numbers: [Check(Text("half", "절반"), abs(numbers["share"] - 0.5) < 0.1)],
        draw=lambda numbers, language: [
            Picture("coin", bars_svg({"heads": {"share": numbers["share"]}}), Text("a", "ㄱ"))
        ],
        stand=lambda numbers: Standing("none"),
        tabulate=lambda numbers: Table(
            [Text("side", "면"), Text("share", "몫")], [["heads", f"{numbers['share']:.2f}"]]
        ),
    )


@pytest.fixture
def coins(monkeypatch):
    """The lab's table holds a coin, fair unless somebody says otherwise."""
    held = {"coin": coin(0.5)}
    monkeypatch.setattr(table, "get", lambda name: held[name])
    return held


def test_a_finding_is_kept_and_found_again_without_measuring(coins, tmp_path):
    lab = Lab(tmp_path)
    first = conduct.find("coin", lab)
    assert first.holds
    coins["coin"] = Claim(**{**vars(coin(0.5)), "measure": lambda lab: pytest.fail("measured again")})
    assert conduct.find("coin", lab).numbers == first.numbers
    assert conduct.find("coin", lab).seconds == pytest.approx(first.seconds, abs=0.05)


def test_a_finding_of_another_version_scale_seed_or_setting_is_not_taken(coins, tmp_path):
    conduct.find("coin", Lab(tmp_path))
    coins["coin"] = coin(0.9)
    assert conduct.find("coin", Lab(tmp_path)).holds
    assert not conduct.find("coin", Lab(tmp_path, seed=2)).holds
    assert not conduct.find("coin", Lab(tmp_path, scale="minutes")).holds
    assert not conduct.find("coin", Lab(tmp_path), again=True).holds
    assert conduct.find("coin", Lab(tmp_path), settings={"share": 0.45}).holds
    coins["coin"] = Claim(**{**vars(coin(0.5)), "version": 2})
    assert conduct.find("coin", Lab(tmp_path)).holds


def test_a_spoilt_finding_on_disk_is_measured_again(coins, tmp_path):
    conduct.find("coin", Lab(tmp_path))
    [kept] = (tmp_path / "findings").iterdir()
    for content in (b"{", b"[]", b'{"claim": "coin"}'):
        kept.write_bytes(content)
        assert conduct.find("coin", Lab(tmp_path)).holds


def test_a_knob_that_a_claim_does_not_have_is_told(coins, tmp_path):
    with pytest.raises(UnknownName, match="coin has no setting"):
        conduct.find("coin", Lab(tmp_path), settings={"shares": 1})


def test_the_verdict_needs_every_check_and_at_least_one():
    holds = {True: Check(Text("a", "a"), True), False: Check(Text("b", "b"), False)}
    for checks, verdict in (([True], True), ([True, False], False), ([False], False), ([], False)):
        claim = Claim(**{**vars(coin(0.5)), "check": lambda numbers, checks=checks: [holds[held] for held in checks]})
        assert Finding(claim, {"share": 0.5}, "quick", 1.0).holds is verdict


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_holds_everything_and_text_cannot_break_out(language, coins, tmp_path):
    finding = conduct.find("coin", Lab(tmp_path))
    page = pages.page(finding, language)
    assert "<b>" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert page.count("<svg") == 1
    assert f"lang='{language}'" in page
    assert "jumok lab coin" in page
    assert "<p>a</p><p>b</p>" in page
    assert "prefers-color-scheme:dark" in page


def test_a_report_has_a_page_for_each_and_an_index_and_goes_on_where_it_stopped(coins, tmp_path):
    coins["other"] = Claim(**{**vars(coin(0.9)), "name": "other"})
    heard = []
    asked = [False]

    def follow(number, name, finding):
        heard.append((name, finding is not None))
        asked[0] |= finding is not None  # somebody presses Ctrl-C

    other = Claim(**{**vars(coins["other"]), "measure": lambda lab: lab.stop.check() or {"share": 0.9}})
    coins["other"] = other
    lab = Lab(tmp_path, stop=lambda: asked[0])
    with pytest.raises(Resumable):
        conduct.report(["coin", "other"], lab, tmp_path / "out", follow=follow)
    assert (tmp_path / "out" / "coin.html").is_file()
    found = conduct.report(["coin", "other"], Lab(tmp_path), tmp_path / "out", language="ko")
    assert [one.holds for one in found] == [True, False]
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "coin.html" in index
    assert "other.html" in index
    assert "성립하지 않습니다" in index
    assert json.loads((tmp_path / "out" / "other.json").read_text())["holds"] is False


def test_a_report_leaves_out_a_claim_whose_text_is_not_here_and_says_so(coins, tmp_path):
    coins["other"] = Claim(**{**vars(coin(0.9)), "name": "other", "measure": lambda lab: lab.corpus("treebank")})
    said = []
    found = conduct.report(["other", "coin"], Lab(tmp_path, say=said.append), tmp_path / "out")
    assert [one.claim.name for one in found] == ["coin"]
    assert "other.html" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    [line] = said
    assert line.startswith("other is left out: treebank is needed, and it is not part of jumok")
    with pytest.raises(UsageError, match="treebank is needed"):
        conduct.find("other", Lab(tmp_path))


def test_a_page_names_the_command_that_made_it(coins, jumok, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "NAMES", ("coin",))
    told = ["--runs", tmp_path / "runs", "--out", tmp_path / "out", "--seed", 2, "--scale", "minutes"]
    answer = jumok("lab", "all", *told, "--book", tmp_path / "lab.md")
    assert answer.code == 0
    assert "[1/1] coin" in answer.err
    page = (tmp_path / "out" / "coin.html").read_text(encoding="utf-8")
    assert "jumok lab coin --scale minutes --seed 2" in page
    book = (tmp_path / "lab.md").read_text(encoding="utf-8")
    assert re.search(r"!\[Coin: .+\]\(lab/en/coin\.svg\)", book)
    assert (tmp_path / "lab" / "en" / "coin.svg").is_file()
    assert "| heads | 0.50 |" in book
    one = jumok("lab", "coin", *told, "--set", "share=0.9", "--json")
    assert json.loads(one.out)["holds"] is False
    assert json.loads(one.out)["command"] == "jumok lab coin --set share=0.9 --scale minutes --seed 2"
    assert jumok("lab", "all", "--set", "share=1", "--runs", tmp_path).code == 2


def test_the_findings_of_a_folder_are_told_again_without_measuring(coins, jumok, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "NAMES", ("coin",))
    monkeypatch.setattr(table, "PAPER", ("missing",))
    coins["missing"] = coin(0.9)
    report, pages_, book = tmp_path / "report", tmp_path / "pages", tmp_path / "lab.ko.md"
    assert jumok("lab", "coin", "--runs", tmp_path / "runs", "--out", report).code == 0
    coins["coin"] = Claim(**{**vars(coin(0.5)), "measure": None})
    answer = jumok("lab", report, "--lang", "ko", "--out", pages_, "--book", book)
    assert answer.code == 0
    assert answer.out.splitlines() == ["✓ coin         Coin", str(pages_ / "index.html"), str(book)]
    assert "공정합니다" in book.read_text(encoding="utf-8")
    assert "공정합니다" in (pages_ / "coin.html").read_text(encoding="utf-8")
    assert jumok("lab", report, "--again").code == 2
    (tmp_path / "empty").mkdir()
    nothing = jumok("lab", tmp_path / "empty")
    assert nothing.code == 2
    assert "there are no findings of this version" in nothing.err


def test_the_claims_are_listed_in_both_languages(jumok):
    for language, word in (("en", "bag of words"), ("ko", "셀프 어텐션")):
        answer = jumok("lab", "--lang", language)
        assert answer.code == 0
        assert word in answer.out
        assert len(answer.out.strip().split("\n")) == len(table.NAMES) + len(table.PAPER)
    assert "did you mean 'ko'" in jumok("lab", "--lang", "kor").err


def test_a_finding_for_the_terminal_aligns_korean(coins, tmp_path):
    told = lines(conduct.find("coin", Lab(tmp_path)), "ko")
    assert told[0].endswith("성립합니다")
    assert told[-2:] == ["  면       몫", "  heads  0.50"]


# ------------------------------------------------------------------------------------------ laboratory


def test_two_claims_that_ask_for_the_same_model_share_it(micro_lab):
    first = micro_lab.train("one", {"model.heads": 2})
    second = micro_lab.train("another name", {"model.heads": 2})
    third = micro_lab.train("other heads", {"model.heads": 4})
    assert first.folder == second.folder != third.folder
    assert len(first.losses) == 6
    assert {"loss", "bleu"} <= first.scores.keys()
    assert 0.0 <= exact_share(first.model, micro_lab.pairs(500)[:5]) <= 1.0


def test_a_model_that_was_changed_by_hand_is_never_shared_with_one_that_was_not(micro_lab):
    plain = micro_lab.train("plain", {})
    changed = micro_lab.train("plain", {}, surgery=lambda model: model.matrix.data.zero_())
    assert plain.folder != changed.folder
    assert plain.losses[0] != changed.losses[0]


def test_a_training_that_was_stopped_goes_on(tmp_path):
    calls = [0]

    def soon() -> bool:
        calls[0] += 1
        return calls[0] > 12

    with pytest.raises(Resumable):
        Lab(tmp_path, common=MICRO | {"training.steps": 40}, stop=soon).train("one")
    whole = Lab(tmp_path, common=MICRO | {"training.steps": 40}).train("one")
    other = Lab(tmp_path / "other", common=MICRO | {"training.steps": 40}).train("one")
    assert isinstance(whole, Trained)
    assert whole.losses == other.losses


def test_scales_count_updates():
    assert Lab(scale="quick").steps(100) == 100
    assert Lab(scale="minutes").steps(100) == 400
    with pytest.raises(UnknownName, match="did you mean 'minutes'"):
        Lab(scale="minute")


# ------------------------------------------------------------------------------------------ charts


def test_bars_and_fields_are_xml_without_nan_whatever_they_are_given():
    nasty = "<script>&\x00'\""
    for svg in (
        bars_svg({nasty: {nasty: 1.0, "b": float("nan")}, "c": {"b": -3.0}}, x=nasty, title=nasty),
        bars_svg({"a": {"b": 0.0}}),
        field_svg(np.array([[1.0, np.nan], [-2.0, np.inf]]), x=nasty, y=nasty, title=nasty, form="{:.1f}"),
        field_svg(np.zeros((40, 60)), rows=[], columns=[]),
        field_svg(np.eye(2), rows=["a", nasty], columns=[nasty, "b"]),
    ):
        ElementTree.fromstring(svg)
        assert "nan" not in svg
        assert "script>" not in svg


def test_a_longer_bar_is_a_larger_number():
    svg = bars_svg({"a": {"x": 1.0}, "b": {"x": 3.0}})
    widths = [float(rect.get("width")) for rect in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.02)


# ------------------------------------------------------------------------------------------ verdicts that come out "no"


def test_order_does_not_hold_of_a_model_that_has_positions(micro_lab):
    numbers = order.measure(micro_lab, without="sinusoidal")
    assert not order.check(numbers)[1].holds
    assert not Finding(order.CLAIM, numbers, "quick", 1.0).holds
    assert order.check(order.measure(micro_lab))[1].holds


def test_the_mask_claim_does_not_hold_where_both_models_have_the_mask(micro_lab):
    numbers = mask.measure(micro_lab, masks=(True, True))
    assert [check.holds for check in mask.check(numbers)] == [False] * 4
    assert mask.check(mask.measure(micro_lab))[2].holds


@pytest.mark.parametrize("name", [*table.NAMES, *table.PAPER])
def test_the_claim_can_be_judged_drawn_and_told_in_both_languages(name, tmp_path):
    """On the numbers of a real run, which docs/lab holds."""
    kept = Path(__file__).parents[2] / "docs" / "lab" / f"{name}.json"
    if not kept.is_file():
        pytest.skip(f"no finding of {name} in docs/lab yet")
    finding = conduct.read(kept)
    assert finding is not None
    for language in LANGUAGES:
        assert conduct.write(finding, tmp_path / language, language=language)
        for picture in finding.claim.draw(finding.numbers, language):
            ElementTree.fromstring(picture.svg)
        assert lines(finding, language)


@pytest.mark.parametrize("file", ["lab.md", "lab.ko.md"])
def test_the_books_in_docs_say_what_the_findings_there_say(file, tmp_path):
    """jumok lab docs/lab --book docs/lab.md, and with --lang ko docs/lab.ko.md, after any change of words."""
    docs = Path(__file__).parents[2] / "docs"
    language = "ko" if ".ko." in file else "en"
    book.write(conduct.collect(docs / "lab"), tmp_path / file, language)
    assert (docs / file).read_text(encoding="utf-8") == (tmp_path / file).read_text(encoding="utf-8")
    drawn = sorted(path.name for path in (tmp_path / "lab" / language).iterdir())
    assert sorted(path.name for path in (docs / "lab" / language).iterdir()) == drawn
