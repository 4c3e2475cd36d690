"""The C sources of the kernels: names, warnings, formatting, allocations, structures and the id of a build."""

import ctypes
import importlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from jumok.kernels import library
from jumok.runs.checkpointing import is_same

compiled = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
ROOT = Path(__file__).parents[2]
FILES = [*library.HEADERS, *library.SOURCES]
WARNINGS = ["-Wall", "-Wextra", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wvla", "-Werror"]


def code_of(path: Path) -> str:
    """A source without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def defined_in(code: str) -> set[str]:
    """Every macro, type, enumeration constant and function that a source defines."""
    found = set(re.findall(r"^\s*#define (\w+)", code, re.MULTILINE))
    found |= set(re.findall(r"^} (\w+);", code, re.MULTILINE))
    found |= set(re.findall(r"^typedef [\w ]+ (\w+) __attribute__", code, re.MULTILINE))
    for tag, constants in re.findall(r"^enum (\w*) ?\{([^}]*)\}", code, re.MULTILINE):
        found |= {tag, *(constant.strip() for constant in constants.split(","))} - {""}
    return found | set(functions_in(code))


def functions_in(code: str) -> dict[str, str]:
    """Every function that a source defines, with what stands before its name."""
    return {name: before for before, name in re.findall(r"^(\w[\w *()]*?)\b(\w+)\([^;{}]*\) \{", code, re.MULTILINE)}


def test_the_definitions_of_a_source_are_found():
    code = "#define A 1\ntypedef struct {\n    int x;\n} box;\nenum kind { B, C };\n"
    code += "static inline int *f(int a,\n  int b) {\n}\n"
    assert defined_in(code) == {"A", "box", "kind", "B", "C", "f"}
    assert functions_in(code) == {"f": "static inline int *"}


def test_no_name_stands_for_two_things_in_the_c_sources():
    counts = Counter(name for path in FILES for name in defined_in(code_of(path)))
    assert len(counts) > 150
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_function_that_is_not_static_begins_with_jk():
    found = {name: before for path in FILES for name, before in functions_in(code_of(path)).items()}
    public = {name for name, before in found.items() if not before.startswith(("static", "INLINE"))}
    assert public >= set(library.SIGNATURES)
    assert {name for name in public if not name.startswith("jk_")} == set()
    assert {name for name in found if name not in public and name.startswith("jk_")} == set()


def test_every_function_that_python_calls_is_declared_as_exported_and_no_other():
    [header] = [path for path in FILES if path.name == "kernels.h"]
    assert set(re.findall(r"^JK_EXPORT [\w *]+\b(\w+)\(", code_of(header), re.MULTILINE)) == set(library.SIGNATURES)


@compiled
@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm on this machine")
def test_the_compiled_file_shows_only_what_python_calls():
    path = library.find_compiled()
    assert path is not None
    lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in lines.splitlines()} == set(library.SIGNATURES)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_sources_compile_without_a_warning(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    made = tmp_path / "kernels.so"
    quick = ["-O1", *library.FLAGS[1:]]  # finds the same in a third of the time
    command = [compiler, *quick, *WARNINGS, *map(str, library.SOURCES), "-o", str(made), "-lm"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not any(flag.startswith("-W") for flag in library.FLAGS)  # a newer compiler may warn of something else


def test_the_sources_are_formatted():
    wheel = pytest.importorskip("clang_format")
    command = [wheel.get_executable("clang-format"), "--dry-run", "-Werror", *map(str, FILES)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr + "\ntry: clang-format -i src/jumok/kernels/c/*.[ch]"


# ------------------------------------------------------------------------------------------------- allocations


def test_memory_is_allocated_in_one_header():
    calls = re.compile(r"\b(malloc|calloc|realloc|aligned_alloc|posix_memalign|memalign|strdup|alloca)\(")
    assert [path.name for path in FILES if calls.search(code_of(path))] == ["memory.h"]


ALLOCATE = {
    "before the threads start": """
        size = 1 << 16
        library.load().jk_linear(*[None] * 9, 1, size, size, 0.0, 0, 0, 0.0)
    """,
    "in every thread at once": """
        size = 1 << 16
        begins = (ctypes.c_int64 * 2)(0, size)
        task = AttentionTask(1, 1, size, size, ctypes.addressof(begins), ctypes.addressof(begins), None, None,
                             size, size, size, 0, 1 << 40, 1.0)
        library.load().jk_attention(*[None] * 5, ctypes.byref(task))
    """,
    "a size that overflows": """
        library.load().jk_linear(*[None] * 9, 1, 1 << 31, 1 << 31, 0.0, 0, 0, 0.0)
    """,
}


@compiled
@pytest.mark.parametrize("case", ALLOCATE)
def test_an_allocation_that_fails_is_told_in_one_line_and_ends_the_process_with_code_74(case):
    code = f"""
        import ctypes, resource
        from jumok.kernels import library
        from jumok.kernels.ops import AttentionTask

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        library.load()
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
{textwrap.indent(textwrap.dedent(ALLOCATE[case]).strip(), " " * 8)}
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "4"},
    )  # fmt: skip
    assert ended.returncode == 74, ended
    [line] = ended.stderr.splitlines()
    assert re.fullmatch(r"jumok: out of memory: the kernels could not allocate \d+ bytes; try: .*", line)


# -------------------------------------------------------------------------------------------------- structures


def list_structures() -> dict[str, type[ctypes.Structure]]:
    """The structures of all modules by their names in C: LayerWeights is layer_weights."""
    for module in sorted((ROOT / "src" / "jumok" / "kernels").glob("*.py")):
        importlib.import_module(f"jumok.kernels.{module.stem}")
    classes = [one for one in ctypes.Structure.__subclasses__() if one.__module__.startswith("jumok.kernels.")]
    others = {"AutomatonTable": "automaton", "EditTable": "edit"}
    return {others.get(one.__name__, re.sub(r"(?<!^)([A-Z])", r"_\1", one.__name__).lower()): one for one in classes}


STRUCTURES = list_structures()


@compiled
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_is_as_large_as_in_c(name):
    lib = library.load()
    assert lib is not None
    assert lib.jk_struct_size(name.encode()) == ctypes.sizeof(STRUCTURES[name])
    assert lib.jk_struct_size(b"nothing") == -1


def test_every_structure_of_the_header_is_in_one_module():
    [header] = [path for path in FILES if path.name == "kernels.h"]
    assert sorted(re.findall(r"^} (\w+);", code_of(header), re.MULTILINE)) == sorted(STRUCTURES)
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert {path.parent.name for path in sources if "(ctypes.Structure)" in path.read_text()} == {"kernels"}


def test_fields_are_in_the_order_of_c():
    """By kind and number of elements: a pointer, an integer or a float, one after the other."""
    [header] = [path for path in FILES if path.name == "kernels.h"]
    code = code_of(header)
    for name, structure in STRUCTURES.items():
        body = re.search(rf"typedef struct \{{([^}}]*)\}} {name};", code)
        assert body is not None
        wanted = []
        for line in filter(None, (one.strip() for one in body[1].split(";"))):
            base, names = re.fullmatch(r"((?:const )?\w+)\s+(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]
            for declared in names.split(","):
                count = int((re.search(r"\[(\d)\]", declared) or [0, 1])[1])
                wanted.append(("pointer" if "*" in declared else base, count))
        assert [kind_of(kind) for _, kind in structure._fields_] == wanted, name  # type: ignore[misc]


def kind_of(kind: type) -> tuple[str, int]:
    """What C calls the type of a field, and how many there are."""
    if issubclass(kind, ctypes.Array):
        return kind_of(kind._type_)[0], kind._length_
    named = {one: name for name, one in STRUCTURES.items()}
    named |= {library.LONG: "int64_t", library.FLOAT: "float", library.DOUBLE: "double"}
    return named.get(kind, "pointer"), 1


# ---------------------------------------------------------------------------------------------- id of the build


@compiled
def test_the_id_of_a_build_changes_with_the_flags_and_is_none_without_kernels(monkeypatch):
    first = library.build_id()
    assert first is not None
    with library.without():
        assert library.build_id() is None
    monkeypatch.setattr(library, "FLAGS", ("-O1", *library.FLAGS[1:]))
    library._hash_build.cache_clear()
    try:
        assert library.build_id() not in (None, first)
    finally:
        monkeypatch.undo()
        library._hash_build.cache_clear()
    assert library.build_id() == first


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (True, "a1", True),
        (False, False, True),
        (True, False, False),
        (False, "a1", False),
        ("a1", "a1", True),
        ("a1", "b2", False),
        ("a1", False, False),
        (2, 2, True),
        (2, 1, False),
    ],
)
def test_a_run_resumes_with_the_same_kernels_or_with_any_where_it_only_knows_that_there_were_some(before, now, same):
    assert is_same(before, now) is same
