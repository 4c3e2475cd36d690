"""What is in deploy/ agrees with the server: settings, probes, options, and kernels without a compiler."""

import configparser
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from jumok.kernels import library, portable
from jumok.server.settings import Settings
from jumok.server.table import list_routes

DEPLOY = Path(__file__).parents[2] / "deploy"


def manifests() -> dict[str, dict]:
    text = (DEPLOY / "kubernetes" / "jumok-serve.yaml").read_text()
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def test_the_manifests_fit_each_other_and_the_server():
    found = manifests()
    settings = Settings.of(tomllib.loads(found["ConfigMap"]["data"]["serve.toml"]), place="the ConfigMap")
    pod = found["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["ports"][0]["containerPort"] == settings.port
    paths = {route.path for route in list_routes()}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in paths
    assert pod["terminationGracePeriodSeconds"] > settings.grace + settings.drain
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_the_manifests_fit_the_schemas_of_kubernetes():
    """Of an older and of the newest version that the package knows; in strict mode unknown keys are errors."""
    checker = pytest.importorskip("kubernetes_validate", reason="needs its schemas: pip install kubernetes-validate")
    found = manifests()
    for version in ("1.25", checker.latest_version()):
        for one in found.values():
            checker.validate(one, version, strict=True)
    for change in ({"replicas": "two"}, {"replicaz": 2}):
        broken = found["Deployment"] | {"spec": found["Deployment"]["spec"] | change}
        with pytest.raises(checker.ValidationError):
            checker.validate(broken, "1.25", strict=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_every_line_of_the_unit(tmp_path):
    text = (DEPLOY / "systemd" / "jumok-serve.service").read_text()
    command = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)[1]
    unit = tmp_path / "jumok-serve.service"

    def verify(content: str) -> str:
        unit.write_text(content)
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode == 0 else done.stderr or "refused"

    there = text.replace(command, sys.executable)  # the program is not installed there on this machine
    assert verify(there) == ""
    assert "MisspeltKey" in verify(there.replace("[Service]\n", "[Service]\nMisspeltKey=yes\n"))


def test_the_unit_waits_longer_than_the_server_takes_to_drain():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "systemd" / "jumok-serve.service")
    settings = Settings()
    assert int(unit["Service"]["TimeoutStopSec"]) > settings.grace + settings.drain
    assert "jumok serve --config" in unit["Service"]["ExecStart"]


def test_the_image_has_no_torch_and_compiles_kernels_by_an_explicit_flag():
    text = (DEPLOY / "container" / "Containerfile").read_text()
    assert '".[serve]"' in text
    assert "torch" not in re.sub(r"#.*", "", text).replace("pytorch", "")
    family = re.search(r"jumok\.kernels\.portable (\S+)", text)[1]
    assert family in library.FAMILIES


@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels for x86-64")
def test_portable_kernels_are_used_where_there_is_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "PORTABLE", tmp_path)
    if not library.FAMILIES["x86-64-v3"] <= library._read_processor_flags():
        pytest.skip("this processor has no AVX2")
    path = Path(portable.build("x86-64-v3"))
    monkeypatch.setattr(library.user_cache, "own", lambda name: None)
    monkeypatch.setattr(library.shutil, "which", lambda name: None)
    assert library._compile() == path
    monkeypatch.setattr(library, "_read_processor_flags", lambda: {"sse2"})
    with pytest.raises(library.Unavailable):
        library._compile()
