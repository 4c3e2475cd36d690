"""What the machine allows: memory of control groups and of address space."""

import subprocess
import sys
from pathlib import Path

from jumok import machine


def written(folder: Path, **values: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / f"memory.{name}").write_text(f"{value}\n")


def test_memory_is_bounded_by_every_group_above_a_process(tmp_path):
    listed = tmp_path / "cgroup"
    listed.write_text("0::/user.slice/app.scope\n")
    written(tmp_path / "sys" / "user.slice" / "app.scope", max="max", current=50)
    written(tmp_path / "sys" / "user.slice", max=1_000, current=400)
    written(tmp_path / "sys", max=5_000, current=500)
    assert min(machine._group_limits(listed, tmp_path / "sys")) == 600


def test_memory_is_bounded_by_groups_of_version_1_and_in_containers(tmp_path):
    listed = tmp_path / "cgroup"
    listed.write_text("12:cpu,cpuacct:/a\n11:memory:/docker/abc\n")
    written(tmp_path / "sys" / "cpu" / "a", limit_in_bytes=1, usage_in_bytes=0)
    written(tmp_path / "sys" / "memory", limit_in_bytes=900, usage_in_bytes=200)  # in a container, the root is its own
    assert machine._group_limits(listed, tmp_path / "sys") == [700]
    assert machine._group_limits(tmp_path / "absent", tmp_path / "sys") == []


def test_memory_is_bounded_by_the_limit_of_addresses():
    code = """
import resource
from jumok import machine
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)
print(machine.available_memory())
"""
    found = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 200_000_000 < found <= 300_000_000
