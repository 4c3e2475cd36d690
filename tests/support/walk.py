"""How far a command walks through the house: python tests/support/walk.py translate RUN "text" prints JSON.

A hop is a call from one file of src/jumok into another; each pair of functions counts once.  It goes `up` if the file
that is called is waiting below for its caller to return.  Class bodies that run because a module is imported inside a
function are counted apart.  C kernels and other processes are not seen.
"""

import inspect
import json
import os
import sys
import threading
from types import CodeType, FrameType

import jumok
from jumok.cli import main as cli

ROOT = os.path.dirname(jumok.__file__) + os.sep
Function = tuple[str, str]

files: set[str] = set()
hops: dict[tuple[CodeType, CodeType], tuple[Function, Function]] = {}
bodies: dict[tuple[CodeType, CodeType], tuple[Function, Function]] = {}
up: set[tuple[Function, Function]] = set()


def place(code: CodeType) -> Function | None:
    """The file and the name of a function of jumok; None of anything else, of modules and of comprehensions."""
    inside = code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")
    return (code.co_filename.removeprefix(ROOT), code.co_name) if inside else None


def below(frame: FrameType | None) -> list[CodeType]:
    """The functions of jumok that wait for this one, the nearest first."""
    waiting = []
    while frame is not None:
        if place(frame.f_code) is not None:
            waiting.append(frame.f_code)
        frame = frame.f_back
    return waiting


def profile(frame: FrameType, event: str, argument: object) -> None:
    if event != "call" or (callee := place(frame.f_code)) is None:
        return
    files.add(callee[0])
    caller = frame.f_back
    while caller is not None and place(caller.f_code) is None:
        caller = caller.f_back
    if caller is None or caller.f_code.co_filename == frame.f_code.co_filename:
        return
    pair = (caller.f_code, frame.f_code)
    if pair in hops or pair in bodies:
        return
    edge = (place(caller.f_code) or ("", ""), callee)
    (hops if frame.f_code.co_flags & inspect.CO_OPTIMIZED else bodies)[pair] = edge
    if any(code.co_filename == frame.f_code.co_filename for code in below(caller)):
        up.add(edge)


if __name__ == "__main__":
    threading.setprofile(profile)
    sys.setprofile(profile)
    code = cli.run()
    sys.setprofile(None)
    threading.setprofile(None)
    counts = {"code": code, "files": len(files), "hops": len(hops), "bodies": len(bodies), "up": sorted(map(str, up))}
    counts["entered"] = sorted(files)
    print(json.dumps(counts))
