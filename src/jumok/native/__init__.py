"""Kernels in C for what torch does in many passes: compiled on the machine they run on, once, and loaded by ctypes.

`library()` gives them, or None where there is no compiler; every caller then takes its plain torch path, which gives
the same numbers up to rounding, and `problem()` says why.  The compiled file lives in the user's cache under a name
made of the source, the compiler's flags and the processor, so that it is never stale and never the wrong one.

Not here the functions that call the kernels (nn/fused.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path

from jumok import caches

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")
PATIENCE = 1_800.0  # seconds to compile; usually 10, many times that on an emulated or overloaded machine
POINTER, LONG, FLOAT, DOUBLE, KEY, FLAG = (
    ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double, ctypes.c_uint64, ctypes.c_int,
)  # fmt: skip
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "drop": (None, [*[POINTER] * 2, LONG, KEY, FLOAT]),
    "embed": (None, [*[POINTER] * 5, *[LONG] * 2, FLOAT, KEY, FLOAT]),
    "embed_backward": (None, [*[POINTER] * 3, *[LONG] * 2, FLOAT, KEY, FLOAT]),
    "norm": (None, [*[POINTER] * 6, *[LONG] * 2, FLOAT]),
    "norm_backward": (None, [*[POINTER] * 8, *[LONG] * 2]),
    "linear": (None, [*[POINTER] * 9, *[LONG] * 3, FLOAT, FLAG, KEY, FLOAT]),
    "linear_backward": (None, [*[POINTER] * 14, *[LONG] * 3, KEY, FLOAT]),
    "output_packed_size": (LONG, [LONG] * 2),
    "output_pack": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "output_scratch": (LONG, [LONG] * 2),
    "output_loss": (DOUBLE, [*[POINTER] * 8, *[LONG] * 3, FLOAT]),
    "attention": (None, [POINTER] * 6),
    "attention_backward": (None, [POINTER] * 10),
    "attention_kept": (LONG, [POINTER]),
    "pass_size": (LONG, [POINTER]),
    "pass_forward": (None, [POINTER] * 3),
    "pass_backward": (None, [POINTER] * 3),
    "decoder_step": (None, [POINTER] * 3),
    "encoder_run": (None, [*[POINTER] * 4, *[LONG] * 2, POINTER]),
    "search_run": (None, [POINTER] * 3),
    "packed_size": (LONG, [LONG] * 2),
    "pack_weight": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "candidates": (None, [*[POINTER] * 4, *[LONG] * 4]),
    "normalizers": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "gather": (DOUBLE, [*[POINTER] * 3, *[LONG] * 4]),
    "muon": (None, [*[POINTER] * 5, LONG, *[FLOAT] * 5, LONG, POINTER, *[LONG] * 2]),
    "adam": (None, [*[POINTER] * 5, LONG, *[DOUBLE] * 7, *[LONG] * 2]),
}


class _Switch:
    """Whether the kernels are used; `without()` turns them off for a while."""

    on = True


class Unavailable(Exception):
    """There are no kernels here; the message says why."""


def library() -> ctypes.CDLL | None:
    """The compiled kernels, or None: switched off, or not to be had on this machine."""
    return _load()[0] if _Switch.on else None


def problem() -> str | None:
    """Why this machine has no kernels, in a few words; None where it has them."""
    return _load()[1]


@contextmanager
def without() -> Iterator[None]:
    """Plain torch inside: how the kernels are compared with what they replace."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


@cache
def _load() -> tuple[ctypes.CDLL | None, str | None]:
    """The kernels, or why there are none."""
    try:
        kernels = ctypes.CDLL(str(_compile()))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(kernels, name)
            function.restype, function.argtypes = result, arguments
    except Unavailable as error:
        return None, str(error)
    except (OSError, AttributeError) as error:
        return None, f"the compiled kernels cannot be loaded ({error})"
    return kernels, None


def compiled() -> Path | None:
    """The compiled file, made now if it is not there yet; None where that cannot be done."""
    try:
        return _compile()
    except Unavailable:
        return None


def _compile() -> Path:
    """The compiled file, made now if it is not there yet."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    folder = caches.own("native")
    name = f"kernels-{_digest()}.so"
    if platform.system() != "Linux":
        raise Unavailable(f"they are not made for {platform.system()}")
    if folder is None:
        raise Unavailable("there is no cache folder to compile them into")
    if _trusted(folder / name):
        return folder / name
    if compiler is None:
        raise Unavailable("no C compiler was found (cc, gcc or clang)")
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / name
            _run([compiler, *FLAGS, *map(str, SOURCES), "-o", str(made), "-lm"])
            made.replace(folder / name)
    except OSError as error:
        raise Unavailable(f"they could not be compiled ({error.strerror or error})") from None
    return folder / name


def _run(command: list[str]) -> None:
    """Run the compiler; one that takes too long is stopped with all the processes it started."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=PATIENCE)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Unavailable(f"compiling them took more than {PATIENCE / 60:g} minutes") from None
            raise
    if process.returncode != 0:
        lines = said.decode(errors="replace").split("\n")
        first = next((line.strip() for line in lines if "error" in line), f"exit code {process.returncode}")
        raise Unavailable(f"{Path(command[0]).name} could not compile them: {first[:200]}")


def _trusted(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _digest() -> str:
    """Changes with the source, the flags and the processor."""
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    seed = [*texts, *FLAGS, platform.machine(), platform.libc_ver()[1]]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
        seed += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        pass
    return blake2b("\n".join(seed).encode(), digest_size=8).hexdigest()
