"""Korean texts of the project: one term for one thing (reports/terms.toml), and sentences that end as sentences."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import jumok
from jumok.reports.terms import find_term, list_avoided, read_terms

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(jumok.__file__).parent
HANGUL = re.compile("[가-힣]")
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.ko.md"),
        *ROOT.glob("docs/**/*.ko.md"),
        *ROOT.glob("docs/lab/ko/*.svg"),
        *ROOT.glob("docs/class/ko/*"),
    ]
)
SCRIPTS = sorted([*ROOT.glob("studio/src/strings/ko/*.ts"), PACKAGE / "reports/assets/attention.html"])
SCRIPTS += [PACKAGE / "server/page.py", PACKAGE / "lab/claim.py"]
NOTES = [PACKAGE / "lab" / "notes" / name for name in ("statements.toml", "figures.toml")]
NOTES += [PACKAGE / "lab" / "course" / name for name in ("worksheets.toml", "quiz.toml", "slides.toml")]
TABLES = sorted([*PACKAGE.glob("lab/words/*.toml"), *PACKAGE.glob("inside/words/*.toml")])
TABLES += [PACKAGE / "lab/examples/words/examples.toml", PACKAGE / "lab/notes/notes.toml"]
CATALOGUE = sorted(PACKAGE.glob("messages/ko/*.toml"))


def walk(values: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every string in nested tables, with its dotted name."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from walk(value, f"{name}.{key}" if name else str(key))
    elif isinstance(values, str):
        yield name, values


def texts() -> Iterator[tuple[str, str]]:
    """Every Korean text with its place: words of pages, messages, documents, pictures, strings of the studio."""
    for path in (*DOCUMENTS, *SCRIPTS, *NOTES):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if HANGUL.search(line):
                yield f"{path.relative_to(ROOT)}:{number}", line
    for path in (*TABLES, *CATALOGUE):
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        for name, text in walk(values.get("ko", values)):
            yield f"{path.relative_to(ROOT)}: {name}", text
    for key, term in read_terms().items():
        yield f"terms.toml: {key}", f"{term.ko}: {term.says_ko}"


TEXTS = list(texts())


def find_avoided(text: str) -> list[str]:
    """The words of a text for which another one is to be used."""
    return [
        f"{found[0]!r} instead of {instead!r}"
        for pattern, instead in list_avoided().items()
        if (found := re.search(pattern, text)) is not None
    ]


def test_every_kind_of_text_is_read():
    places = " ".join(place for place, _ in TEXTS)
    for name in ("README.ko.md", "docs/lab.ko.md", "guide/studio.ko.md", "lab/ko/", "strings/ko/inside.ts"):
        assert name in places
    for name in ("attention.html", "lab/words/mask.toml", "inside/words/inside.toml", "terms.toml: key"):
        assert name in places


def test_one_thing_has_one_name_in_all_texts():
    wrong = [f"{place}: {', '.join(found)}" for place, text in TEXTS if (found := find_avoided(text))]
    assert wrong == []


def test_a_word_that_is_avoided_is_found_and_its_term_is_not():
    assert find_avoided("교차 어텐션의 헤드") == ["'교차 어텐션' instead of '크로스 어텐션(인코더-디코더 어텐션)'"]
    assert find_avoided("300번 업데이트 뒤")
    assert find_avoided("헤드의 너비")
    assert not find_avoided("크로스 어텐션의 헤드, 300스텝 뒤, 빔 너비 4, 파라미터를 업데이트합니다, 서브레이어")


def test_no_term_avoids_itself_and_patterns_are_valid():
    for term in read_terms().values():
        assert find_avoided(f"{term.ko} {term.says_ko}") == [], term.ko
    assert len(list_avoided()) > 60


@pytest.mark.parametrize(
    ("key", "korean"),
    [
        ("cross-attention", "크로스 어텐션"), ("inference", "추론"), ("sub-layer", "서브레이어"), ("step", "스텝"),
        ("greedy", "그리디 서치"), ("additive-attention", "바다나우"), ("dimension", "차원"), ("parameter", "파라미터"),
        ("attention-weight", "어텐션 가중치"), ("attention-score", "어텐션 스코어"), ("baseline", "기준선"),
        ("confidence", "확신도"), ("coreference", "지시 대상"),
    ],
)  # fmt: skip
def test_terms_are_those_that_students_use(key, korean):
    assert korean in find_term(key).ko
