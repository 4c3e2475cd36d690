"""The house: imports point one way, torch waits until it is needed, names are few, comments are true."""

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer

import jumok as package
from jumok import cli, native
from jumok.models import build
from jumok.nn import attention, fused, loss, positions
from tests.helpers import ShapeChecker, small

ROOT = Path(package.__file__).parent

# Every import in jumok points strictly down this table (bottom first).  To move a module, move it here first.
ARCHITECTURE = [
    {"errors", "caches", "processes", "machine"},
    {"native", "locks"},
    {"config", "text", "nn", "events", "metrics", "viz", "keys", "document"},
    {"models"},
    {"recipe"},
    {"bundle"},
    {"weights"},
    {"recipes", "data", "display", "positions"},
    {"checkpoint", "decoding", "interop"},
    {"training", "engines", "evaluate"},
    {"translator", "preparation", "validation", "beginning", "ending"},
    {"keeping"},
    {"experiment", "shell"},
    {"lab", "bench", "server", "demo", "doctor", "plan", "distillation", "race"},
    {"translating", "verbs"},
    {"cli"},
]
LEVEL = {unit: level for level, units in enumerate(ARCHITECTURE) for unit in units}
NO_TORCH = {
    "errors",
    "config",
    "recipe",
    "recipes",
    "text",
    "metrics",
    "events",
    "viz",
    "keys",
    "machine",
    "display",
    "bundle",
    "weights",
    "positions",
    "caches",
    "locks",
    "interop",
    "translator",
    "evaluate",
    "doctor",
    "shell",
    "translating",
    "verbs",
    "cli",
}


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (module, line) for every import in a file, also those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def violations(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        here = path.relative_to(root).parts[0].removesuffix(".py")
        if here not in LEVEL and here != "__init__":
            yield f"{path}: {here} has no place in the architecture"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = {getattr(node, "lineno", 0) for node in tree.body}
        for name, line in imported(tree):
            there = name.split(".")[1] if name.startswith("jumok.") else None
            there = None if there in ("__version__",) else there
            if name.startswith("."):
                yield f"{path}:{line}: relative import {name}; write it in full"
            elif there and there != here and LEVEL.get(there, 99) >= LEVEL.get(here, 99):
                yield f"{path}:{line}: {here} may not import {there}"
            elif here == "decoding" and there == "models" and not name.startswith("jumok.models.base"):
                yield f"{path}:{line}: decoding knows models.base only"
            elif name.split(".")[0] == "torch" and here in NO_TORCH and line in top:
                yield f"{path}:{line}: {here} must start without torch"


def test_imports_point_one_way():
    assert list(violations(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("nn/a.py", "from jumok.data import batches", "nn may not import data"),
        ("data/a.py", "def f():\n    from jumok import checkpoint", "data may not import checkpoint"),
        ("events.py", "from jumok.metrics import bleu", "events may not import metrics"),
        ("data/a.py", "from . import store", "relative import"),
        ("decoding/a.py", "from jumok.models.transformer import Transformer", "models.base only"),
        ("viz.py", "import torch", "must start without torch"),
        ("utils.py", "", "utils has no place"),
    ],
)
def test_the_check_of_imports_finds_what_it_forbids(tmp_path, path, code, words):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(code)
    found = list(violations(tmp_path))
    assert len(found) == 1
    assert words in found[0]


def test_no_file_is_a_drawer_for_odds_and_ends():
    names = {path.stem for path in ROOT.rglob("*.py")}
    assert not {
        name for name in names if re.fullmatch(r"utils|common|misc|helpers|base_.*|.*_(manager|v2|legacy)", name)
    }


def test_looking_at_recipes_text_and_help_does_not_load_torch():
    modules = [
        "jumok",
        "jumok.cli",
        "jumok.config",
        "jumok.recipe",
        "jumok.recipes",
        "jumok.models",
        "jumok.text.lines",
        "jumok.text.vocabulary",
    ]
    modules += ["jumok.metrics", "jumok.events", "jumok.viz", "jumok.display", "jumok.keys", "jumok.machine"]
    code = f"import sys, {', '.join(modules)}; jumok.Recipe; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names_resolve_and_nothing_else_is_promised():
    assert package.__all__ == ["JumokError", "Recipe", "Translator", "load", "train"]
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        package.trian  # noqa: B018


def test_help_answers_at_once():
    """Under 0.3 s of processor time; the best of five, because a neighbour may be busy."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = "import sys; sys.argv = ['jumok', '--help']; from jumok.cli import main; main()"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3


def verbs(command: object = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    command = command or typer.main.get_command(cli.app)
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, below in inner.items():
        yield from verbs(below, (*path, name))


def test_the_verbs_are_those_of_the_design():
    issue = "demo, train, translate, score, evaluate, look, data check, data stats, model info, model average, doctor"
    assert {" ".join(path) for path in verbs()} >= set(issue.split(", "))


@pytest.mark.parametrize("path", list(verbs()), ids=" ".join)
def test_the_help_of_every_verb_has_an_example_and_explains_every_option(jumok, path):
    answer = jumok(*path, "--help")
    assert answer.code == 0
    lines = [line.strip() for line in answer.out.split("\n")]
    assert any(line.startswith(f"jumok {' '.join(path)}") for line in lines)
    for option in (line for line in lines if line.startswith("--")):
        assert re.search(r"\s{2,}\S|^\S+ \S+$|^\S+$", option), f"{option} says nothing"


# ------------------------------------------------------------------------------------------ shape comments


def tokens(rows: int, length: int) -> torch.Tensor:
    """Real tokens with some padding at the end of the first row."""
    grid = torch.arange(rows * length).view(rows, length) % 11 + 8
    grid[0, -1] = 0
    return grid


def test_shape_comments_of_the_transformer_are_true():
    size = {"B": 2, "S": 5, "T": 7, "D": 16, "N": 6}
    checker = ShapeChecker(ROOT / "models" / "transformer.py")
    model = build(small(norm_place="pre"), 23, 23).eval()
    source, target = tokens(2, 5), tokens(2, 7)
    layers = r"(EncoderLayer|DecoderLayer|Transformer)\."
    with native.without():  # layer by layer
        checker.run(lambda: model.hidden(source, target), layers, **size)
    checker.run(lambda: model.target(target), r"Embedding\.", **size)
    state = model.start(source).select(torch.tensor([0, 0, 0, 1, 1, 1]))
    checker.run(lambda: model.step(torch.full((6,), 9), state), layers, **size)
    assert len(checker.wanted) > 10
    assert checker.complaints() == []


def test_shape_comments_of_attention_positions_and_loss_are_true():
    B, H, T, S, K, D, N, V = 2, 3, 4, 5, 6, 7, 8, 9
    q, k, v, mask = (
        torch.randn(B, H, T, K),
        torch.randn(B, H, S, K),
        torch.randn(B, H, S, K),
        torch.ones(B, H, T, S) > 0,
    )
    checker = ShapeChecker(ROOT / "nn" / "attention.py")
    checker.run(lambda: attention.attend(q @ k.mT, v, mask), "attend", B=B, H=H, T=T, S=S, K=K)
    checker.run(lambda: attention.Additive(H, K).scores(q, k), "Additive", B=B, H=H, T=T, S=S, K=K)
    found = checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "positions.py")
    checker.run(lambda: positions.sinusoid(0, T, D), "sinusoid", T=T, D=D)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "loss.py")
    x, weight, labels = torch.randn(N, D), torch.randn(V, D, requires_grad=True), torch.arange(N)
    entropy = loss.smoothed_cross_entropy
    with native.without():
        checker.run(lambda: entropy(x, weight, None, labels, smoothing=0.1), "FusedCrossEntropy", N=N, D=D, V=V)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "fused.py")
    with native.without():
        checker.run(lambda: fused.likeliest(torch.randn(N, V), 3, labels[:2]), "likeliest", N=N, C=3)
    assert found + checker.complaints() == []


def test_every_file_of_nn_with_shape_comments_is_among_those_checked():
    with_comments = {path.name for path in (ROOT / "nn").glob("*.py") if ShapeChecker(path).wanted}
    assert with_comments == {"attention.py", "positions.py", "loss.py", "fused.py"}


def test_a_false_shape_comment_and_one_that_is_never_reached_are_found(tmp_path):
    code = "def f(x):\n    y = x.T  # (A, B)\n    if y is None:\n        z = x  # (A,)\n    return y\n"
    path = tmp_path / "f.py"
    path.write_text(code)
    scope: dict[str, object] = {}
    exec(compile(code, str(path), "exec"), scope)
    checker = ShapeChecker(path)
    checker.run(lambda: scope["f"](torch.zeros(2, 3)), "f", A=2, B=3)
    assert checker.complaints() == ["f.py:2: y is (3, 2), comment says (A, B)", "f.py:4: never reached"]
