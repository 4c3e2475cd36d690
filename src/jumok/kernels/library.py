"""Kernels in C for what torch does in many passes: compiled once per machine and loaded with ctypes.

`load()` returns them, or None where there is no compiler, and `find_problem()` then says why; callers fall back to
plain torch, which gives the same numbers up to rounding.  The compiled file is in the user's cache under a hash of the
sources, the compiler's flags and the processor, so that it is never stale and never another machine's.

Not here the functions that call the kernels (kernels/ops.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from jumok.disk import user_cache
from jumok.messages import Message

SOURCES = sorted((Path(__file__).parent / "c").glob("*.c"))
HEADERS = sorted((Path(__file__).parent / "c").glob("*.h"))
FLAGS = (
    "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC",
    "-fvisibility=hidden",
)  # fmt: skip
PORTABLE = Path(__file__).parent / "portable"  # kernels that were compiled for a family of processors (portable.py)
FAMILIES = {"x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"}}  # what a processor of each must have
PATIENCE = 1_800.0  # seconds after which compiling is given up; it takes 10, many more on an emulated machine
POLL = 0.2  # seconds between two looks at the compiler
POINTER, LONG, FLOAT, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_double
KEY, FLAG, TEXT = ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "jk_struct_size": (LONG, [TEXT]),
    "jk_compiler": (TEXT, []),
    "jk_dropout": (None, [*[POINTER] * 2, LONG, KEY, FLOAT]),
    "jk_embed": (None, [*[POINTER] * 5, *[LONG] * 2, FLOAT, KEY, FLOAT]),
    "jk_embed_backward": (None, [*[POINTER] * 3, *[LONG] * 2, FLOAT, KEY, FLOAT]),
    "jk_linear": (None, [*[POINTER] * 9, *[LONG] * 3, FLOAT, FLAG, KEY, FLOAT]),
    "jk_linear_backward": (None, [*[POINTER] * 14, *[LONG] * 3, KEY, FLOAT]),
    "jk_output_packed_size": (LONG, [LONG] * 2),
    "jk_output_pack": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "jk_output_scratch_size": (LONG, [LONG] * 2),
    "jk_output_loss": (DOUBLE, [*[POINTER] * 8, *[LONG] * 3, FLOAT]),
    "jk_attention": (None, [POINTER] * 6),
    "jk_attention_backward": (None, [POINTER] * 10),
    "jk_attention_saved_size": (LONG, [POINTER]),
    "jk_pass_size": (LONG, [POINTER]),
    "jk_pass_forward": (None, [POINTER] * 3),
    "jk_pass_backward": (None, [POINTER] * 3),
    "jk_decode_step": (None, [POINTER] * 3),
    "jk_encode": (None, [*[POINTER] * 4, *[LONG] * 2, POINTER]),
    "jk_search": (None, [POINTER] * 3),
    "jk_force": (None, [POINTER] * 3),
    "jk_find_bad_edit": (LONG, [POINTER] * 3),
    "jk_read": (LONG, [POINTER] * 3),
    "jk_read_rows": (None, [*[POINTER] * 3, *[LONG] * 2]),
    "jk_packed_size": (LONG, [LONG] * 2),
    "jk_pack_weight": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "jk_candidates": (None, [*[POINTER] * 4, *[LONG] * 4]),
    "jk_log_sum_exp": (None, [*[POINTER] * 2, *[LONG] * 2]),
    "jk_reduce_gradients": (DOUBLE, [*[POINTER] * 3, *[LONG] * 4]),
    "jk_muon": (None, [*[POINTER] * 5, LONG, *[FLOAT] * 5, LONG, POINTER, *[LONG] * 2]),
    "jk_adam": (None, [*[POINTER] * 5, LONG, *[DOUBLE] * 7, *[LONG] * 2]),
}


class _Switch:
    """Whether the kernels are used; `without()` turns them off temporarily."""

    on = True


class Unavailable(Exception):
    """There are no kernels on this machine; `reason` says why."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


def load() -> ctypes.CDLL | None:
    """Return the compiled kernels, or None where they are switched off or cannot be compiled."""
    return _open()[0] if _Switch.on else None


def find_problem() -> Message | None:
    """Return why this machine has no kernels; None where it has them."""
    return _open()[1]


def build_id() -> str | None:
    """Return a digest of the compiled code and of the C library it calls; None without kernels.

    Two builds with one id compute the same bits.  It changes with the sources, the flags, the compiler and the
    instruction set, but not with a comment in the sources.
    """
    return None if load() is None else _hash_build()


@contextmanager
def without() -> Iterator[None]:
    """Use plain torch while the body runs, as tests do that compare the kernels with what they replace."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


@cache
def _open() -> tuple[ctypes.CDLL | None, Message | None]:
    """Return the kernels, or why there are none."""
    try:
        kernels = ctypes.CDLL(str(_compile()))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(kernels, name)
            function.restype, function.argtypes = result, arguments
    except Unavailable as error:
        return None, error.reason
    except (OSError, AttributeError) as error:
        return None, Message("kernels.cannot_load", {"reason": error})
    return kernels, None


@cache
def _hash_build() -> str:
    code = _compile().read_bytes()
    return blake2b(code + platform.libc_ver()[1].encode(), digest_size=8).hexdigest()


def find_compiled() -> Path | None:
    """Return the compiled file, compiled now if necessary; None where that is impossible."""
    try:
        return _compile()
    except Unavailable:
        return None


def compile_in_steps() -> Generator[None, None, None]:
    """Compile the kernels now if necessary, in steps of a fraction of a second, so that the caller can stop it.

    Where they cannot be compiled, `find_problem` says why.
    """
    with suppress(Unavailable):
        yield from _compile_in_steps()


def _compile() -> Path:
    """Return the compiled file, compiled now if necessary."""
    path = _find_file()
    if path is None:
        for _ in _compile_in_steps():
            pass
        path = _find_file()
    if path is None:
        raise Unavailable(Message("kernels.no_cache"))
    return path


def _find_file() -> Path | None:
    """Return the file with the kernels of these sources; None if they must be compiled first."""
    folder = user_cache.own("native")
    path = None if folder is None else folder / _name_file()
    return path if path is not None and _is_own(path) else find_portable()


def _name_file() -> str:
    return f"kernels-{_hash_sources()}.so"


def _compile_in_steps() -> Iterator[None]:
    """Compile the kernels if there is no file with them; yields while the compiler works."""
    if platform.system() != "Linux":
        raise Unavailable(Message("kernels.not_for_system", {"system": platform.system()}))
    if _find_file() is not None:
        return
    if (folder := user_cache.own("native")) is None:
        raise Unavailable(Message("kernels.no_cache"))
    compiler, name = find_compiler(), _name_file()
    from tempfile import TemporaryDirectory  # imported here, because the file nearly always exists

    try:
        with TemporaryDirectory(dir=folder) as scratch:
            path = Path(scratch) / name
            yield from run_in_steps([compiler, *FLAGS, *map(str, SOURCES), "-o", str(path), "-lm"])
            path.replace(folder / name)
    except OSError as error:
        raise Unavailable(Message("kernels.cannot_compile", {"reason": error.strerror or error})) from None


def find_compiler() -> str:
    """Return the C compiler of this machine."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise Unavailable(Message("kernels.no_compiler"))
    return compiler


def find_portable() -> Path | None:
    """Return kernels that were installed for this processor's family and made of these sources; None without any."""
    flags: set[str] | None = None
    for family, needed in FAMILIES.items():
        path = PORTABLE / name_portable(family)
        if path.is_file():
            flags = _read_processor_flags() if flags is None else flags
            if needed <= flags:
                return path
    return None


def name_portable(family: str) -> str:
    """Return the name of the file with kernels for a family of processors."""
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    digest = blake2b("\n".join([*texts, *FLAGS]).encode(), digest_size=8).hexdigest()
    return f"kernels-{family}-{digest}.so"


def _read_processor_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


def run_compiler(command: list[str]) -> None:
    """Run the compiler; one that takes too long is stopped with all the processes it started."""
    for _ in run_in_steps(command):
        pass


def run_in_steps(command: list[str]) -> Iterator[None]:
    """`run_compiler` in steps; the compiler is stopped if the generator is closed."""
    deadline = time.monotonic() + PATIENCE
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            while True:
                try:
                    _, errors = process.communicate(timeout=POLL)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > deadline:
                        late = Message("kernels.compiling_takes_too_long", {"minutes": PATIENCE / 60})
                        raise Unavailable(late) from None
                yield
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        lines = errors.decode(errors="replace").split("\n")
        first = next((line.strip() for line in lines if "error" in line), f"exit code {process.returncode}")
        values = {"compiler": Path(command[0]).name, "reason": first[:200]}
        raise Unavailable(Message("kernels.compiler_error", values))


def _is_own(path: Path) -> bool:
    """Whether the file exists and belongs to this user."""
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _hash_sources() -> str:
    """Return a digest that changes with the sources, the flags and the processor."""
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    seed = [*texts, *FLAGS, platform.machine(), platform.libc_ver()[1]]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
        seed += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        pass
    return blake2b("\n".join(seed).encode(), digest_size=8).hexdigest()
