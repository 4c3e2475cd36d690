"""Kernels for a family of processors instead of this one, for images that run elsewhere without a compiler.

    python -m jumok.kernels.portable x86-64-v3

The file is written into the installed package, beside this module; `library.py` takes it where the processor has what
the family needs and the sources are the same.  On your own machine you do not need it: kernels for exactly this
processor are compiled when they are first used, and are faster.
"""

import sys

from jumok.errors import UnknownName
from jumok.kernels import library


def build(family: str) -> str:
    """Compile the kernels for a family of processors; returns the file."""
    if family not in library.FAMILIES:
        raise UnknownName("kernels.unknown_family", family, library.FAMILIES)
    library.PORTABLE.mkdir(exist_ok=True)
    path = library.PORTABLE / library.name_portable(family)
    flags = [f"-march={family}" if flag == "-march=native" else flag for flag in library.FLAGS]
    library.run_compiler([library.find_compiler(), *flags, *map(str, library.SOURCES), "-o", str(path), "-lm"])
    return str(path)


if __name__ == "__main__":
    print(build(sys.argv[1] if len(sys.argv) > 1 else "x86-64-v3"))
