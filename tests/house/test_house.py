"""The house: imports point one way, torch waits until it is needed, names are few, comments are true."""

import ast
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch
import typer

import jumok as package
from jumok.cli import main
from jumok.config import presets
from jumok.kernels import library, ops, output
from jumok.models import build
from jumok.nn import attention, layers, loss, positions, variants
from tests.support.helpers import ShapeChecker, small, two_sentences

ROOT = Path(package.__file__).parent


def read_levels(page: str) -> dict[str, int]:
    """The level of every room, from the table in ARCHITECTURE.md: `nn/` is nn, `kernels/ops.py` is kernels.ops."""
    rows = re.findall(r"^\| (\d+) \| `([\w/]+?)(?:/|\.py)` \|", page, re.M)
    return {room.replace("/", "."): int(level) for level, room in rows}


LEVEL = read_levels((ROOT.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8"))
NO_TORCH = {
    "errors", "config", "text", "evaluation", "events", "reports", "keys", "machine", "disk", "interop", "translator",
    "cli", "server", "kernels.library", "kernels.pack", "kernels.layout", "storage.bundle", "storage.tensors",
    "translation", "documents", "engines.choose", "engines.native_engine", "service",
}  # fmt: skip


def room_of(module: str) -> str | None:
    """The room that a module (without `jumok.`) is in: the longest name in the table that it begins with."""
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in LEVEL), None)


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
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        here = room_of(module)
        if here is None:
            if module != "__init__":
                yield f"{path}: {module} has no place in the architecture"
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = {getattr(node, "lineno", 0) for node in tree.body}
        for name, line in imported(tree):
            there = room_of(name.removeprefix("jumok.")) if name.startswith("jumok.") else None
            if name.startswith("."):
                yield f"{path}:{line}: relative import {name}; write it in full"
            elif there and there != here and LEVEL[there] >= LEVEL[here]:
                yield f"{path}:{line}: {here} may not import {there}"
            elif here == "decoding" and there == "models" and not name.startswith("jumok.models.base"):
                yield f"{path}:{line}: decoding knows models.base only"
            elif (
                name.split(".")[0] == "torch"
                and line in top
                and any(module == unit or module.startswith(f"{unit}.") for unit in NO_TORCH)
            ):
                yield f"{path}:{line}: {here} must start without torch"


def test_imports_point_one_way():
    assert list(violations(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("nn/a.py", "from jumok.data import batches", "nn may not import data"),
        ("data/a.py", "def f():\n    from jumok.runs import experiment", "data may not import runs"),
        ("events.py", "from jumok.evaluation.metrics import bleu", "events may not import evaluation"),
        ("data/a.py", "from . import store", "relative import"),
        ("decoding/a.py", "from jumok.models.transformer import Transformer", "models.base only"),
        ("reports/attention.py", "import torch", "must start without torch"),
        ("utils.py", "", "utils has no place"),
    ],
)
def test_the_check_of_imports_finds_what_it_forbids(tmp_path, path, code, words):
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(code)
    found = list(violations(tmp_path))
    assert len(found) == 1
    assert words in found[0]


def test_the_model_knows_nothing_of_what_makes_it_fast():
    for path in [*(ROOT / "nn").glob("*.py"), *(ROOT / "models").glob("*.py")]:
        for name, line in imported(ast.parse(path.read_text(encoding="utf-8"))):
            assert not re.match(r"ctypes|jumok\.(kernels|engines)", name), f"{path}:{line}"


def entered(call: Callable[[], object]) -> set[Path]:
    """The files of jumok in which a function is called meanwhile."""
    files: set[Path] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(Path(frame.f_code.co_filename))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {path for path in files if path.is_relative_to(ROOT)}


def test_the_papers_model_is_read_in_one_sitting():
    """From embedding to loss: every file of models/ and nn/ that is entered, comments included."""
    model, (source, target) = build(presets.base().model, 23, 23).train(), two_sentences()

    def run() -> None:
        hidden = model.hidden(source, target).flatten(0, 1)
        loss.smoothed_cross_entropy(hidden, *model.output(), target.flatten(), smoothing=0.1)

    files = entered(run)
    lines = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(files)}
    print("\n".join(f"{count:5} {path}" for path, count in lines.items()), sum(lines.values()), sep="\n")
    assert {path.parts[0] for path in lines} == {"models", "nn"}
    assert sum(lines.values()) <= 700
    assert lines[Path("models/transformer.py")] <= 200


def test_every_package_says_its_level_and_what_to_read_first():
    for path in sorted(ROOT.glob("*/__init__.py")):
        room, text = path.parent.name, ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert "Read first: " in text, path
        if room != "kernels":  # its modules have levels of their own
            assert f"Level {LEVEL[room]}." in text, path
        for name in re.findall(r"\b(\w+\.py)\b", text.partition("Read first: ")[2]):
            assert (path.parent / name).is_file(), (path, name)


def test_every_folder_with_python_files_is_a_package():
    assert all((folder / "__init__.py").is_file() for folder in {path.parent for path in ROOT.rglob("*.py")})


def test_there_are_few_files_beside_the_rooms():
    files = sorted(path.stem for path in ROOT.glob("*.py") if not path.stem.startswith("__"))
    assert len(files) <= 12, files


def test_no_file_is_a_drawer_for_odds_and_ends():
    names = {path.stem for path in ROOT.rglob("*.py")}
    assert not {
        name for name in names if re.fullmatch(r"utils|common|misc|helpers|base_.*|.*_(manager|v2|legacy)", name)
    }


def test_looking_at_recipes_text_and_help_does_not_load_torch():
    modules = [
        "jumok",
        "jumok.cli.main",
        "jumok.config.sections",
        "jumok.config.recipe",
        "jumok.config.presets",
        "jumok.models",
        "jumok.text.lines",
        "jumok.text.vocabulary",
    ]
    modules += [
        "jumok.evaluation.metrics",
        "jumok.events",
        "jumok.reports.attention",
        "jumok.cli.display",
        "jumok.keys",
        "jumok.machine",
        "jumok.documents",
    ]
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
        code = "import sys; sys.argv = ['jumok', '--help']; from jumok.cli.main import main; main()"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3


def verbs(command: object = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    command = command or typer.main.get_command(main.app)
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
    parts = r"(EncoderLayer|DecoderLayer|Transformer)\."
    checker.run(lambda: model.hidden(source, target), parts, **size)
    state = model.start(source).select(torch.tensor([0, 0, 0, 1, 1, 1]))
    checker.run(lambda: model.step(torch.full((6,), 9), state), parts, **size)
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
    checker.run(lambda: attention.attend(q, k, v, mask), "attend", B=B, H=H, T=T, S=S, K=K)
    found = checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "variants.py")
    checker.run(lambda: variants.Additive(H, K)(q, k), "Additive", B=B, H=H, T=T, S=S, K=K)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "layers.py")
    checker.run(lambda: layers.FeedForward(D, 11)(torch.randn(B, T, D)), "FeedForward", B=B, T=T, F=11)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "embedding.py")
    model = build(small(), 23, 23).eval()
    checker.run(lambda: model.target(tokens(B, T)), "Embedding", B=B, T=T, D=16)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "positions.py")
    checker.run(lambda: positions.sinusoid(0, T, D), "sinusoid", T=T, D=D)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "nn" / "loss.py")
    x, weight, labels = torch.randn(N, D), torch.randn(V, D, requires_grad=True), torch.arange(N)
    checker.run(lambda: loss.smoothed_cross_entropy(x, weight, None, labels, smoothing=0.1), "smoothed", N=N, V=V)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "kernels" / "output.py")
    entropy = output.smoothed_cross_entropy
    with library.without():
        checker.run(lambda: entropy(x, weight, None, labels, smoothing=0.1), "FusedCrossEntropy", N=N, D=D, V=V)
    found += checker.complaints()

    checker = ShapeChecker(ROOT / "kernels" / "ops.py")
    with library.without():
        checker.run(lambda: ops.likeliest(torch.randn(N, V), 3, labels[:2]), "likeliest", N=N, C=3)
    assert found + checker.complaints() == []


def test_every_file_of_nn_with_shape_comments_is_among_those_checked():
    with_comments = {path.name for path in (ROOT / "nn").glob("*.py") if ShapeChecker(path).wanted}
    assert with_comments == {"attention.py", "embedding.py", "layers.py", "loss.py", "positions.py", "variants.py"}


def test_a_false_shape_comment_and_one_that_is_never_reached_are_found(tmp_path):
    code = "def f(x):\n    y = x.T  # (A, B)\n    if y is None:\n        z = x  # (A,)\n    return y\n"
    path = tmp_path / "f.py"
    path.write_text(code)
    scope: dict[str, object] = {}
    exec(compile(code, str(path), "exec"), scope)
    checker = ShapeChecker(path)
    checker.run(lambda: scope["f"](torch.zeros(2, 3)), "f", A=2, B=3)
    assert checker.complaints() == ["f.py:2: y is (3, 2), comment says (A, B)", "f.py:4: never reached"]


def test_no_model_asks_which_kind_of_state_it_has():
    for path in sorted((ROOT / "models").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                assert "state" not in ast.unparse(node.args[0]), f"{path.name}:{node.lineno}"


# ------------------------------------------------------------------------------------------ sizes and names


def functions(root: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function with the name that the rules below know it by."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(root)}: {node.name}", node


def count_parameters(node: ast.FunctionDef) -> int:
    """How many a caller may give, without `self`, `cls` and the `ctx` of an autograd function."""
    given = node.args
    names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)} - {"self", "cls", "ctx"}
    return len(names) + (given.vararg is not None) + (given.kwarg is not None)


def too_long(root: Path) -> set[str]:
    return {name for name, node in functions(root) if (node.end_lineno or 0) - node.lineno >= 60}


def too_wide(root: Path) -> set[str]:
    """Functions of more than 8 parameters; a verb of the command line has as many as it has options."""
    return {name for name, node in functions(root) if count_parameters(node) > 8 and not name.startswith("cli/")}


def names_for_two_things(root: Path) -> set[str]:
    """Names that two classes of one package have."""
    seen: set[str] = set()
    twice: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                name = f"{path.parent.relative_to(root)}: {node.name}"
                (twice if name in seen else seen).add(name)
    return twice


def test_no_function_is_longer_than_a_screen():
    assert too_long(ROOT) == set()


def test_no_function_takes_more_than_eight_parameters():
    assert too_wide(ROOT) == set()


def test_no_class_name_stands_for_two_things_in_one_package():
    assert names_for_two_things(ROOT) == set()


def test_the_rules_of_size_and_names_find_what_they_forbid(tmp_path):
    (tmp_path / "cli").mkdir()
    (tmp_path / "a.py").write_text("class A: ...\ndef f(a, b, c, *, d, e, f, g, **h): ...\n")
    (tmp_path / "b.py").write_text("class A:\n    def g(self, a, b, c, d, e, f, *g, h, **i): ...\n")
    (tmp_path / "cli/c.py").write_text("def h(a, b, c, d, e, f, g, h, i):\n" + "    pass\n" * 60)
    (tmp_path / "cli/d.py").write_text("class A: ...\ndef i():\n" + "    pass\n" * 59)
    assert names_for_two_things(tmp_path) == {".: A"}
    assert too_wide(tmp_path) == {"b.py: g"}
    assert too_long(tmp_path) == {"cli/c.py: h"}


RETIRED = {  # names that docs/glossary.md replaces
    "beside", "draws", "everybody", "felt", "forth", "found", "hands", "happening", "judge", "judged", "kept",
    "nobody", "said", "somebody", "stretches", "tick", "told", "wish", "wishes",
}  # fmt: skip
AXES = {"bench/front.py", "reports/attention.py", "reports/curves.py"}  # a tick there is a mark on an axis


def retired_names(root: Path) -> set[str]:
    """Functions, classes, parameters, attributes and variables with a retired name."""
    names: set[str] = set()
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ""
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                name = node.attr
            word, file = name.strip("_").lower(), str(path.relative_to(root))
            if word in RETIRED and not (word == "tick" and file in AXES):
                names.add(f"{file}: {name}")
    return names


def test_retired_words_name_nothing():
    assert retired_names(ROOT) == set()


def test_the_rule_of_names_finds_what_it_forbids(tmp_path):
    lines = ["def told(wish): ...", "class Judge: ...", "found, fine = 1, 2", "def f(self): self._kept = 3", "tick = 4"]
    (tmp_path / "a.py").write_text("\n".join(lines))
    assert retired_names(tmp_path) == {f"a.py: {name}" for name in ("told", "wish", "Judge", "found", "_kept", "tick")}
