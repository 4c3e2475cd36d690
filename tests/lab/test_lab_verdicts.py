"""Verdicts with three values, parts of claims, thresholds, judging seeds, and how good the models are."""

import ast
import json
import math
import re
from importlib import import_module, resources
from pathlib import Path
from statistics import mean, stdev

import pytest

from jumok import lab as table
from jumok.lab import book, conduct, judging, pages, thresholds
from jumok.lab.claim import Check, Claim, Finding, Part, Table, combine, lines, tell_checks, tell_verdict
from jumok.lab.laboratory import Lab, grade_outputs
from jumok.lab.remarks import tell_judging, tell_version
from jumok.lab.standing import Standing, of_share, over_seeds
from jumok.lab.thresholds import Limits
from jumok.lab.verdicts import UNTESTABLE, Verdict
from jumok.lab.wording import LANGUAGES, Text, Words
from tests.lab.test_lab import coin

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "src" / "jumok" / "lab" / "claims"
HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.FAILS, Verdict.UNTESTABLE
DECIDE = Text("A corpus of 9 sentences would decide it: 2 hours.", "9문장이면 판정할 수 있고 2시간이 듭니다.")


def divided(*holds: bool | None) -> Claim:
    """A claim with a part for each of these checks."""
    words = {f"parts.p{number}": f"part {number}" for number in range(len(holds))}
    plain = vars(coin(0.5)) | {"words": Words({"en": vars(coin(0.5))["words"].languages["en"] | words,
                                               "ko": vars(coin(0.5))["words"].languages["ko"] | words})}  # fmt: skip
    checks = [
        Check(Text(f"c{number}", f"ㄷ{number}"), one, f"p{number}", DECIDE if one is None else None)
        for number, one in enumerate(holds)
    ]
    return Claim(**{**plain, "check": lambda numbers: checks})


def finding_of(*holds: bool | None) -> Finding:
    return Finding(divided(*holds), {"share": 0.5}, "quick", 1.0, command="jumok lab coin")


@pytest.fixture
def coins(monkeypatch):
    held = {"coin": coin(0.5)}
    monkeypatch.setattr(table, "get", lambda name: held[name])
    return held


# ------------------------------------------------------------------------------------------ three verdicts


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [((True, True), HOLDS), ((True, None), OPEN), ((True, False, None), FAILS), ((None,), OPEN), ((), FAILS)],
)
def test_a_claim_holds_with_all_its_parts_and_is_open_if_a_part_is(holds, verdict):
    finding = finding_of(*holds)
    assert finding.verdict is verdict
    assert [part.verdict for part in finding.parts] == [Verdict.of(one) for one in holds]
    assert finding.holds is (verdict is HOLDS)


def test_a_part_has_the_verdict_of_its_checks():
    assert combine([HOLDS, OPEN, FAILS]) is FAILS
    assert combine([HOLDS, OPEN]) is OPEN
    assert finding_of(True).parts == [Part(Text("part 0", "part 0"), HOLDS)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_pages_tell_the_verdict_of_each_part_and_what_would_decide_an_open_one(language, tmp_path):
    finding = finding_of(True, None)
    told = {"en": "part 1: not testable here", "ko": "part 1: 여기서는 확인할 수 없음"}[language]
    decide, [*_, (verdict, check)] = DECIDE.of(language), tell_checks(finding, language)
    assert verdict is OPEN
    assert check.endswith(decide)
    path = book.write([finding], tmp_path / "lab.md", language)
    texts = [
        "\n".join(lines(finding, language)), pages.page(finding, language), pages.contents([finding], language),
        path.read_text(encoding="utf-8"), tell_verdict(finding, language),
    ]  # fmt: skip
    assert all(told in text for text in texts)
    assert all(decide in text for text in (texts[0], texts[1], texts[3]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_check_that_fails_says_that_it_was_expected_otherwise(language):
    [(_, fails)] = tell_checks(finding_of(False), language)
    assert fails.startswith({"en": "not as expected: c0", "ko": "예상과 다름: ㄷ0"}[language])
    [(_, holds)] = tell_checks(finding_of(True), language)
    assert holds == {"en": "c0", "ko": "ㄷ0"}[language]


def test_json_has_the_verdict_of_each_part_and_a_finding_of_the_first_format_is_still_read(coins, tmp_path):
    values = finding_of(True, None).to_json()
    assert (values["format"], values["verdict"], values["holds"]) == (2, "untestable", False)
    assert values["parts"] == [
        {"part": "part 0", "verdict": "holds"}, {"part": "part 1", "verdict": "untestable"},
    ]  # fmt: skip
    assert [check["holds"] for check in values["checks"]] == [True, None]
    first = {name: value for name, value in values.items() if name not in ("format", "verdict", "parts")}
    (tmp_path / "old.json").write_text(json.dumps(first | {"holds": True}))
    old = conduct.read(tmp_path / "old.json")
    assert old is not None
    assert old.holds


def test_a_finding_of_a_version_that_is_understood_is_shown_with_its_version_and_not_reused(coins, tmp_path):
    lab = Lab(tmp_path)
    conduct.find("coin", lab)
    [path] = (tmp_path / "findings").iterdir()
    coins["coin"] = Claim(**{**vars(coin(0.5)), "version": 2})
    assert conduct.read(path) is None
    coins["coin"] = Claim(**{**vars(coin(0.5)), "version": 2, "understands": (1,)})
    old = conduct.read(path)
    assert old is not None
    assert tell_version(old, "en") == ["Measured by version 1 of this claim; the code is at version 2."]
    assert tell_version(conduct.find("coin", lab), "en") == [], "measured again"


def test_the_summary_of_claims_names_parts_in_the_language_that_was_asked_for(coins, jumok, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "NAMES", ("coin",))
    coins["coin"] = divided(True, None)
    conduct.write(finding_of(True, None), tmp_path / "report")
    for language, told in (("en", "part 1: not testable here"), ("ko", "part 1: 여기서는 확인할 수 없음")):
        answer = jumok("lab", tmp_path / "report", "--lang", language)
        assert answer.code == 0, answer.err
        assert answer.out.startswith("? coin")
        assert told in answer.out


def words_of_claim(name: str) -> list[str]:
    return [key for key in Words.read(name).languages["en"] if key.startswith("decide.")]


def test_at_most_four_claims_may_leave_a_part_open_and_each_says_what_would_decide_it_and_the_cost():
    open_ = [name for name in (*table.NAMES, *table.PAPER) if words_of_claim(name)]
    assert sorted(open_) == sorted(UNTESTABLE)
    assert len(open_) <= 4
    sources = {path.stem.replace("_", "-"): path.read_text(encoding="utf-8") for path in CLAIMS.glob("*.py")}
    assert sorted(name for name, source in sources.items() if 'WORDS("decide' in source) == sorted(UNTESTABLE)
    for name in open_:
        for key in words_of_claim(name):
            text = Words.read(name).languages["en"][key]
            assert re.search("would decide|would be decided", text), key
            assert re.search(r"\bhours?\b|\bminutes?\b|as long as", text), key


@pytest.mark.parametrize("name", [*table.NAMES, *table.PAPER])
def test_the_published_findings_leave_nothing_open_but_what_may_be_open(name):
    finding = conduct.read(ROOT / "docs" / "lab" / f"{name}.json")
    assert finding is not None
    for check in finding.checks:
        assert (check.holds is None) is (check.decide is not None)
        assert check.holds is not None or name in UNTESTABLE


# ------------------------------------------------------------------------------------------ thresholds


def claims_by_file() -> dict[str, str]:
    names = (*table.NAMES, *table.PAPER)
    return {name: (CLAIMS / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8") for name in names}


def test_every_threshold_has_a_reason_and_is_read_by_its_claim_and_none_is_missing():
    sources = claims_by_file()
    assert set(thresholds.read_all()) == {name for name, source in sources.items() if "LIMITS[" in source}
    for name, source in sources.items():
        used, limits = set(re.findall(r'LIMITS\["(\w+)"\]', source)), Limits.read(name)
        assert used == set(limits.values), name
        assert all(len(reason) > 10 for reason in limits.reasons.values()), name


def test_no_claim_has_a_threshold_between_its_lines():
    """In `check` and what it compares, the only numbers are 0, 1 and 2, factors of units, and indices."""
    free = {0, 1, 2, 100, -1}
    for name, source in claims_by_file().items():
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef) or not function.name.startswith(
                ("check", "is_found", "ends_soon")
            ):
                continue
            for compare in (node for node in ast.walk(function) if isinstance(node, ast.Compare)):
                numbers = {node.value for node in ast.walk(compare) if isinstance(node, ast.Constant)
                           and isinstance(node.value, int | float)}  # fmt: skip
                assert numbers <= free, f"{name}: {ast.unparse(compare)}"


def test_the_digest_changes_with_a_value_and_not_with_a_reason():
    one = Limits({"a": {"value": 1, "why": "x"}})
    assert one.digest == Limits({"a": {"value": 1, "why": "y"}}).digest
    assert one.digest != Limits({"a": {"value": 2, "why": "x"}}).digest


# ------------------------------------------------------------------------------------------ judging


def test_judging_runs_its_seeds_and_counts_those_with_the_same_verdict(coins, tmp_path):
    shares = {11: 0.5, 12: 0.9, 13: 0.5, 14: 0.5, 15: 0.9}
    coins["coin"] = Claim(**{**vars(coin(0.5)), "measure": lambda lab: {"share": shares.get(lab.seed, 0.5)}})
    seen = []
    finding = conduct.run_judging("coin", Lab(tmp_path), follow=lambda seed, one: seen.append(seed))
    assert seen == list(judging.SEEDS)
    assert judging.count_equal(finding) == (3, 5)
    assert "equal on 3 of 5 judging seeds" in tell_judging(finding, "en")[0]
    assert "5개 가운데 3개" in tell_judging(finding, "ko")[0]
    assert conduct.find("coin", Lab(tmp_path)).record == finding.record, "the next report has it as well"
    conduct.write(finding, tmp_path / "out")
    again = conduct.read(tmp_path / "out" / "coin.json")
    assert again is not None
    assert again.record == finding.record


def test_a_judging_with_other_thresholds_is_told_to_be_old(coins, tmp_path, monkeypatch):
    finding = conduct.run_judging("coin", Lab(tmp_path))
    assert len(tell_judging(finding, "en")) == 1
    monkeypatch.setattr(Limits, "digest", "other")
    assert "changed" in tell_judging(finding, "en")[1]


def test_the_shell_judges_one_claim_and_says_the_verdict_of_each_seed(coins, jumok, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "NAMES", ("coin",))
    answer = jumok("lab", "coin", "--judge", "--runs", tmp_path / "runs", "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    assert answer.err.count("holds here") == len(judging.SEEDS)
    assert "equal on 5 of 5 judging seeds" in answer.out
    for refused in (["all"], ["coin", "--seed", "2"], ["coin", "--set", "share=0.4"]):
        assert jumok("lab", *refused, "--judge", "--runs", tmp_path / "runs").code == 2


def test_no_two_seeds_of_the_lab_share_a_seed_of_a_toy_task():
    drawn = [seed for lab in range(1, 40) for seed in Lab(seed=lab).toy_seeds()]
    assert len(set(drawn)) == len(drawn)


# ------------------------------------------------------------------------------------------ how good the models are


@pytest.mark.parametrize("name", [*table.NAMES, *table.PAPER])
def test_every_page_says_how_good_its_models_are_of_how_many_seeds_and_at_which_scale(name):
    finding = conduct.read(ROOT / "docs" / "lab" / f"{name}.json")
    assert finding is not None
    standing = finding.claim.stand(finding.numbers)
    for language, seeds, possible in (("en", "seed", "possible"), ("ko", "시드", "가능한")):
        told = " ".join(standing.tell(finding.scale, language))
        assert seeds in told
        assert finding.scale in told
        assert (possible in told) is (standing.reached is not None)
        assert told in pages.page(finding, language).replace("&#x27;", "'")


def test_the_interval_over_seeds_is_that_of_students_t():
    """Its distribution has a closed form for two and three values: 1 and 2 degrees of freedom."""
    for values in ([0.5, 0.8], [0.5, 0.7, 0.8]):
        low, high = over_seeds(values)
        assert (low + high) / 2 == pytest.approx(mean(values))
        t = (high - low) / 2 / (stdev(values) / math.sqrt(len(values)))
        below = 0.5 + (math.atan(t) / math.pi if len(values) == 2 else t / (2 * math.sqrt(2 + t * t)))
        assert below == pytest.approx(0.975, abs=1e-4)
    assert over_seeds([0.5]) is None


def test_the_interval_of_a_share_is_wilsons():
    assert of_share(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    low, high = of_share(0.0, 50)
    assert low == pytest.approx(0.0, abs=1e-12)
    assert high > 0.05


def test_a_bleu_lies_in_its_interval_which_is_narrower_with_more_sentences():
    few = grade_outputs(["a b c d e", "a x c d f"] * 10, ["a b c d e", "a b c d f"] * 10)
    many = grade_outputs(["a b c d e", "a x c d f"] * 80, ["a b c d e", "a b c d f"] * 80)
    assert few["exact"] == 0.5
    for graded in (few, many):
        assert graded["interval"][0] < graded["bleu"] < graded["interval"][1]
    assert many["interval"][1] - many["interval"][0] < few["interval"][1] - few["interval"][0]


def test_a_share_that_is_above_what_is_possible_is_not_printed():
    told = " ".join(Standing("toy", "right", 1.0, 3, (0.9, 1.1), "seeds").tell("quick", "en"))
    assert "90% to 100%" in told


# ------------------------------------------------------------------------------------------ tables


def rows_of_tables(text: str) -> list[list[list[str]]]:
    """The cells of every Markdown table outside code."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).split("\n"):
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
            tables = [*tables, []] if not inside else tables
            tables[-1].append(cells)
        inside = line.startswith("|")
    return tables


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_row_of_every_table_in_the_documents_has_as_many_cells_as_its_head(path):
    for head, *rows in rows_of_tables(path.read_text(encoding="utf-8")):
        assert rows, head
        assert all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in rows[0]), head
        assert {len(row) for row in rows} == {len(head)}, head


def test_a_bar_in_a_title_does_not_begin_another_cell(tmp_path):
    barred = Claim(**{**vars(coin(0.5)), "tabulate": lambda numbers: table_under("a|b")})
    path = book.write([Finding(barred, {"share": 0.5}, "quick", 1.0)], tmp_path / "lab.md")
    widths = [{len(row) for row in rows} for rows in rows_of_tables(path.read_text(encoding="utf-8"))]
    assert all(len(width) == 1 for width in widths)


def table_under(title: str) -> Table:
    return Table([Text(title, title), Text("c", "c")], [["x|y", "1"]])


@pytest.mark.parametrize("name", [*table.NAMES, *table.PAPER])
def test_heads_and_rows_of_korean_tables_are_korean_where_the_english_ones_are_words(name):
    finding = conduct.read(ROOT / "docs" / "lab" / f"{name}.json")
    assert finding is not None
    english, korean = (finding.claim.tabulate(finding.numbers).cells(language) for language in LANGUAGES)
    same = [a for row, other in zip(english, korean, strict=True) for a, b in zip(row, other, strict=True) if a == b]
    known = re.compile(
        r"BLEU|F1|ReLU|WSJ|Penn|h = |d_|P_drop|N × |ε_ls|alpha|AER|rotary|ALiBi|big|base|n²|O\(|n\^|Zhu|Dyer|Vinyals"
        r"|Petrov|McClosky|Huang|Luong|single|Transformer|ms|MB"
    )
    words = [cell for cell in same if re.search("[a-z]{4}", cell) and not known.search(cell)]
    assert words == []


def test_claims_import_their_thresholds_and_can_be_loaded():
    for name in (*table.NAMES, *table.PAPER):
        module = import_module(f"jumok.lab.claims.{name.replace('-', '_')}")
        assert module.LIMITS.digest == Limits.read(name).digest
    assert resources.files("jumok").joinpath("lab/thresholds.toml").is_file()
