"""The rooms of models: no class name stands for two things, and functions and files have readable sizes."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import jumok

ROOT = Path(jumok.__file__).parent
ROOMS = ("models", "nn", "kernels")


def trees(room: str) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / room).glob("*.py"))}


@pytest.mark.parametrize("room", ROOMS)
def test_no_class_name_stands_for_two_things(room):
    classes = [node.name for tree in trees(room).values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert len(classes) > 5
    assert [name for name, count in Counter(classes).items() if count > 1] == []


@pytest.mark.parametrize("room", ROOMS)
def test_functions_have_at_most_60_lines_and_8_parameters_and_files_less_than_400_lines(room):
    for path, tree in trees(room).items():
        assert len(path.read_text(encoding="utf-8").splitlines()) < 400, path
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                parameters = [name for name in given if name not in ("self", "cls", "ctx")]
                assert len(parameters) <= 8, f"{path}:{node.lineno}: {node.name} has {len(parameters)} parameters"
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}:{node.lineno}: {node.name} is too long"
