"""The catalogue: every key that the code names exists with the same values, every entry is used, languages agree."""

import ast
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import jumok
from jumok import errors, messages

ROOT = Path(jumok.__file__).parent
PARTS = {"what", "where", "hint"}
HELP = {"short", "long", "examples"}  # of a verb; a group of verbs has no examples
GIVEN = {"UnknownName": {"name", "guess"}}  # values that the class itself adds
LANGUAGES = sorted(path.name for path in messages.FOLDER.iterdir() if path.is_dir() and not path.name.startswith("_"))
CLASSES = {
    name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.JumokError)
} | {
    "NotFinite", "Absent", "Closing", "DeadlineExceeded", "EngineLost", "ModelRefused", "Overloaded",
    "Poisoned", "Refused", "TooLong", "UnknownModel", "UnknownPair",
}  # fmt: skip
CALLERS = ("jumok/errors.py", "jumok/cli/options.py", "jumok/server/refusals.py")  # there a key is a parameter
POSITION = {"option": 1, "flag": 1, "Refusal": 1}  # of the key among the arguments, where it is not the first
ASKS = CLASSES | {"Refusal", "text", "Message", "verb", "option", "flag", "argument"}


@dataclass(frozen=True)
class Use:
    """A place in the code that names an entry: its key if it is a literal, and the names of its values."""

    place: str
    function: str
    key: str | None
    values: frozenset[str] | None  # None where they are passed on as a mapping


def uses(path: Path) -> Iterator[Use]:
    """Every error that a file makes and every text that it asks for."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in ASKS or (name == "text" and not _is_catalogue(node.func)):
            continue
        first = node.args[POSITION.get(name, 0)] if len(node.args) > POSITION.get(name, 0) else None
        key = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        values: frozenset[str] | None = frozenset(word.arg for word in node.keywords if word.arg) - {"name", "known"}
        if name in ("verb", "option", "flag", "argument"):
            values = frozenset()
        if name == "Message":
            values = _keys(node.args[1]) if len(node.args) > 1 else frozenset()
        if any(word.arg is None for word in node.keywords):
            values = None
        yield Use(f"{path.relative_to(ROOT.parent)}:{node.lineno}", name, key, values)


def _is_catalogue(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "messages"


def _keys(node: ast.expr) -> frozenset[str] | None:
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return frozenset(str(key.value) for key in node.keys if isinstance(key, ast.Constant))
    return None


def names_in(entry: messages.Entry) -> set[str]:
    """The names of the values that an entry shows."""
    templates = [entry] if isinstance(entry, str) else list(entry.values())
    parsed = (field for template in templates for _, field, _, _ in string.Formatter().parse(template))
    return {field.split(".")[0].split("[")[0] for field in parsed if field is not None}


def entries(language: str) -> dict[str, messages.Entry]:
    return {
        f"{path.stem}.{name}": entry
        for path in sorted((messages.FOLDER / language).glob("*.toml"))
        for name, entry in messages.read_room(path.stem, language).items()
    }


ENGLISH = entries("en")
USES = [use for path in sorted(ROOT.rglob("*.py")) if path.parent != messages.FOLDER for use in uses(path)]


def test_an_entry_is_a_text_an_error_with_what_where_and_hint_or_the_help_of_a_verb():
    for key, entry in ENGLISH.items():
        assert messages.is_key(key), key
        if isinstance(entry, dict):
            if key.startswith("help."):
                assert {"short", "long"} <= entry.keys() <= HELP, key
            else:
                assert "what" in entry, key
                assert entry.keys() <= PARTS, key
            assert all(isinstance(line, str) and line.strip() == line and line for line in entry.values()), key
        else:
            assert isinstance(entry, str), key


def test_every_key_in_the_code_exists_with_the_values_it_is_given():
    wrong = []
    for use in USES:
        if use.key is None and use.place.startswith(CALLERS):  # a caller's key
            continue
        if use.key is None or use.key not in ENGLISH:
            wrong.append(f"{use.place}: {use.function} names no entry of the catalogue")
            continue
        if use.values is not None:
            needed = names_in(ENGLISH[use.key]) - GIVEN.get(use.function, set())
            if needed != use.values - GIVEN.get(use.function, set()):
                wrong.append(f"{use.place}: {use.key} needs {sorted(needed)}, is given {sorted(use.values)}")
    assert wrong == []


def test_errors_texts_and_verbs_name_entries_of_their_kind():
    for use in USES:
        if use.key in ENGLISH:
            entry = ENGLISH[use.key]
            if use.function == "verb":
                assert isinstance(entry, dict), use
                assert "short" in entry, use
            elif use.function in CLASSES:
                assert isinstance(entry, dict), use
                assert "what" in entry, use
            else:
                assert isinstance(entry, str), use


def test_no_help_is_written_in_the_code():
    for path in sorted((ROOT / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in ("help", "short_help", "epilog"):
                assert not isinstance(node.value, ast.Constant | ast.JoinedStr), f"{path.name}:{node.value.lineno}"


def test_every_entry_is_used():
    used = {use.key for use in USES}
    assert sorted(key for key in ENGLISH if key not in used) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_entries_with_the_same_values(language):
    other = entries(language)
    assert other.keys() == ENGLISH.keys()
    for key, entry in other.items():
        assert isinstance(entry, str) == isinstance(ENGLISH[key], str), key
        assert names_in(entry) == names_in(ENGLISH[key]), key
        if isinstance(entry, dict):
            assert entry.keys() == ENGLISH[key].keys(), key
            assert entry.get("examples") == ENGLISH[key].get("examples"), key


def ends_as_a_sentence(text: str) -> bool:
    """Whether a Korean text ends with a verb in polite speech; what is in brackets or behind a colon is left out."""
    bare = re.sub(r"\([^()]*\)", "", text)
    bare = re.sub(r"\. [가-힣 ]+: ?\{[^{}]*\}$", "", bare)
    bare = re.sub(r":? ?\{[^{}]*\}…?$", "", bare).strip().rstrip(".")
    return not re.search("[가-힣]", bare) or bare.endswith(("니다", "세요", "나요?", "까요?"))


def test_korean_errors_and_explanations_of_verbs_are_whole_sentences():
    for key, entry in entries("ko").items():
        if isinstance(entry, dict):
            first = [entry[part] for part in ("what", "long") if part in entry]
            assert all(map(ends_as_a_sentence, first)), f"{key}: {first}"
        elif key.startswith("help.") and key != "help.jumok_epilog":
            assert entry.endswith((".", "…", ")")), key
            assert ends_as_a_sentence(entry) or ": " in entry, key


def test_a_sentence_without_its_end_is_found():
    assert ends_as_a_sentence("파일을 읽을 수 없습니다: {reason}")
    assert ends_as_a_sentence("이름이 {name!r}인 모델은 없습니다. {guess}")
    assert not ends_as_a_sentence("파일을 읽을 수 없음")
    assert not ends_as_a_sentence("{file} 파일이 없는데")


def test_an_error_keeps_its_key_and_values_and_prints_three_lines():
    error = errors.DiskError("disk.in_use", folder_kind="the run", holder="process 7", folder="runs/a", advice="wait")
    assert error.key == "disk.in_use"
    assert error.values["holder"] == "process 7"
    assert str(error) == "the run is in use by process 7\nin runs/a\nwait, or use another folder"


def test_a_message_is_rendered_when_it_is_shown():
    guess = messages.Message("errors.did_you_mean", {"name": "tiny"})
    assert f"{guess:>25}" == "     did you mean 'tiny'?"
