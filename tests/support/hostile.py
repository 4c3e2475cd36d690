"""Files as a forger makes them: mutated by seed, with a manifest that fits; and a process that reads them.

    python -m tests.support.hostile read KIND SEED FIRST COUNT RUN FOLDER
    python -m tests.support.hostile watch KIND SEED FIRST COUNT RUN FOLDER

read COUNT mutations of a run's files in FOLDER and print, before each, its number: what kills the process is the last
one named.  Mutation N of a seed is always the same bytes.  `read` allows no more than a gigabyte of memory; `watch`
tells what Python's audit hooks saw besides the reading of files in FOLDER.
"""

import copy
import hashlib
import json
import os
import random
import resource
import shutil
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jumok import messages
from jumok.data.store import Store
from jumok.disk import user_cache
from jumok.errors import JumokError
from jumok.runs import finished
from jumok.storage import bundle, checkpoint
from jumok.translator import Translator

DEEP = 5_000
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**4000, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), float("-inf"), "", "a", "\0", "\x1b[2J", "x" * 10_000, "../x", "/etc/passwd", "\ud800", "가", [], {},
    [0], [None] * 50, {"a": {"b": {}}}, "1", "true", "nan",
]  # fmt: skip

Mutation = Callable[[random.Random, bytes], bytes]


def odd(chance: random.Random) -> Any:
    """A value that nobody expects, to be changed further."""
    return copy.deepcopy(chance.choice(ODD))


# ------------------------------------------------------------------------------------------ bytes


def garble(chance: random.Random, content: bytes) -> bytes:
    """Flipped bits, cuts, insertions, repetitions, zeros: what a bad disk or a blind forger does."""
    made, at = bytearray(content), chance.randrange(len(content) + 1)
    stop = min(len(made), at + chance.choice([1, 4, 30, 500]))
    kind = chance.randrange(7)
    if kind == 0:
        for _ in range(chance.choice([1, 1, 3, 20])):
            made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del made[at:]
    elif kind == 2:
        del made[at:stop]
    elif kind == 3:
        made[at:at] = chance.randbytes(chance.choice([1, 2, 8, 100]))
    elif kind == 4:
        made[at:at] = made[at:stop]
    elif kind == 5:
        made[at:stop] = bytes(stop - at)
    else:
        made[at:stop] = bytes([255]) * (stop - at)
    return bytes(made)


# ------------------------------------------------------------------------------------------ JSON


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of a JSON value are."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def altered(chance: random.Random, value: Any) -> Any:
    """A JSON value with one part replaced, dropped, renamed or doubled."""
    path = chance.choice(list(places(value)))
    if not path:
        return odd(chance)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    kind, last = chance.randrange(4), path[-1]
    if kind == 0 or isinstance(inner, list):
        inner[last] = odd(chance)
    elif kind == 1:
        del inner[last]
    elif kind == 2:
        inner[str(odd(chance))[:300]] = inner.pop(last)
    else:
        inner[str(odd(chance))[:300]] = odd(chance)
    return value


def dumped(chance: random.Random, value: Any) -> bytes:
    """JSON that may say a name twice, go deep, or be in another encoding."""
    sys.set_int_max_str_digits(0)
    text = json.dumps(value, ensure_ascii=chance.random() < 0.9)
    sys.set_int_max_str_digits(4_300)
    kind = chance.randrange(20)
    if kind == 0 and isinstance(value, dict) and text != "{}":
        text = text[:-1] + ", " + text[1:]
    elif kind == 1:
        deep = chance.choice(["[", '{"a":', "[[],"]) * chance.choice([100, 900, DEEP, 100 * DEEP])
        text = text.replace(": ", ": " + deep, 1)
    return text.encode(chance.choice(["utf-8"] * 20 + ["utf-16", "utf-32"]), "surrogatepass")


def json_like(chance: random.Random, content: bytes) -> bytes:
    """A JSON file of a forger who knows JSON."""
    if chance.random() < 0.3:
        return garble(chance, content)
    value = json.loads(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        value = altered(chance, value)
    return dumped(chance, value)


# ------------------------------------------------------------------------------------------ TOML

NUMBERS = [
    "0", "-1", "1", "2", "7", "8", "16", "256", "257", "1000", "65536", "65537", "1000000000", "10" * 30, "9" * 5000,
    "0x" + "f" * 5000, "1e308", "1e999", "nan", "inf", "-inf", "0.5", "0.999999", "true", '""', '"x"', "[]", "[1]",
    "{}", "{a = 1}", "1979-05-27", "07:32:00", '"' + "x" * 20_000 + '"', '"\\u0000"', '"\\u001b[2J"', "'''\n'''",
    "[" * 2000, "{a=" * 300, '"none"', '"learned"', '"rotary"', '"sinusoidal"', '"post"', '"pre"', '"rms"',
    '"additive"', '"swiglu"', '"concatenate"', '"appended"', '"target"', '"all"', '"bpe"', '"/dev/zero"', "false",
]  # fmt: skip
LINES = [
    "[model]", "[x]", "[[model]]", "[" + "a." * 40 + "a]", "a" + ".a" * 90 + " = 1", "a" + ".a" * 20_000 + " = 1",
    "x = 1", "model.d_model = 4", '"" = 1', "=", "\0", "\x85", "﻿", "[training]\nsteps = 1",
]  # fmt: skip


def toml_like(chance: random.Random, content: bytes) -> bytes:
    """A recipe of a forger who knows TOML."""
    if chance.random() < 0.3:
        return garble(chance, content)
    lines = content.decode().split("\n")
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        row = chance.randrange(len(lines))
        name, equals, _value = lines[row].partition("=")
        if equals and chance.random() < 0.8:
            lines[row] = f"{name}= {chance.choice(NUMBERS)}"
        else:
            lines.insert(row, chance.choice(LINES))
    return "\n".join(lines).encode()


# ------------------------------------------------------------------------------------------ safetensors

SHAPES = [
    [],
    [0],
    [1],
    [-1],
    [2**63],
    [2**64 - 1],
    [2**32, 2**32],
    [0, 2**63],
    [16, 16],
    [285, 16],
    [1] * 200,
    "x",
    [1.5],
]
TYPES = ["F64", "F32", "F16", "BF16", "I64", "I8", "U8", "BOOL", "F8_E4M3", "F4", "C64", "", "x", None, 5]
FLOATS = [float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e-45, 0.0]


def tensor_like(chance: random.Random, content: bytes) -> bytes:
    """A safetensors file of a forger who knows the format."""
    kind = chance.randrange(10)
    if kind < 2:
        return garble(chance, content)
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    if kind == 2:
        wrong = chance.choice(
            [0, 1, length - 1, length + 1, len(content), 10**8, 10**9, 2**31, 2**32, 2**63, 2**64 - 1]
        )
        return struct.pack("<Q", wrong) + content[8:]
    if kind == 3:
        return content[: 8 + length] + values(chance, data)
    if kind == 4:
        data = data + bytes(chance.choice([1, 4, 10_000]))
    for _ in range(chance.choice([1, 1, 2])):
        outline(chance, header)
    text = dumped(chance, header)
    return struct.pack("<Q", len(text)) + text + data


def outline(chance: random.Random, header: dict[str, Any]) -> None:
    """Change names, shapes, types or places of tensors."""
    names = [name for name in header if isinstance(header[name], dict) and "shape" in header[name]]
    if not names:
        return
    one, other = chance.choice(names), chance.choice(names)
    told = header[one].get("data_offsets")
    begin, end = told if isinstance(told, list) and [type(place) for place in told] == [int, int] else (0, 64)
    kind = chance.randrange(7)
    if kind == 0:
        header[one]["shape"] = chance.choice(SHAPES)
    elif kind == 1:
        header[one]["dtype"] = chance.choice(TYPES)
    elif kind == 2:
        wrong = [[begin, end - 1], [begin + 4, end + 4], [end, begin], [0, 2**63], [-1, 4], [0], "x", [0, 2**64]]
        header[one]["data_offsets"] = chance.choice(wrong)
    elif kind == 3:
        header[one], header[other] = header[other], header[one]
    elif kind == 4:
        header[chance.choice(["x", "", "\0", "x" * 100_000, "__metadata__", "\x1b[2J"])] = dict(header[one])
    elif kind == 5:
        del header[one]
    else:
        altered(chance, header)


def values(chance: random.Random, data: bytes) -> bytes:
    """Weights that are no numbers, or endless, or as large as they come; or numbers of other types."""
    made = bytearray(data)
    wrong = struct.pack("<f", chance.choice(FLOATS))
    for _ in range(chance.choice([1, 10, len(made) // 8])):
        at = chance.randrange(len(made) // 4) * 4
        made[at : at + 4] = wrong if chance.random() < 0.8 else chance.randbytes(4)
    return bytes(made)


# ------------------------------------------------------------------------------------------ vocabularies


def varint(value: int) -> bytes:
    made = b""
    while value > 127:
        made, value = made + bytes([value & 127 | 128]), value >> 7
    return made + bytes([value])


def piece(text: bytes, score: float, kind: int | None = None) -> bytes:
    """A piece of a SentencePiece model."""
    body = b"\x0a" + varint(len(text)) + text + b"\x15" + struct.pack("<f", score)
    body += b"" if kind is None else b"\x18" + varint(kind)
    return b"\x0a" + varint(len(body)) + body


def end_of_pieces(content: bytes) -> int:
    at = 0
    while content[at] == 0x0A:
        at += 2 + content[at + 1]
    return at


def vocabulary_like(chance: random.Random, content: bytes) -> bytes:
    """A vocabulary of a forger who knows SentencePiece's protobuf."""
    kind, end = chance.randrange(8), end_of_pieces(content)
    if kind < 3:
        return garble(chance, content)
    if kind == 3:  # a table for normalising
        table = chance.randbytes(chance.choice([1, 4, 40, 1000]))
        table = struct.pack("<I", chance.choice([0, 4, 8, 400, len(table), 2**31, 2**32 - 1])) + table
        body = b"\x0a\x08identity\x12" + varint(len(table)) + table
        return content[: content.rindex(b"\x1a")] + b"\x1a" + varint(len(body)) + body
    if kind == 4:  # another score somewhere
        at = content.rindex(b"\x15", 0, chance.randrange(100, end))
        return content[: at + 1] + struct.pack("<f", chance.choice(FLOATS)) + content[at + 5 :]
    if kind == 5:  # other pieces
        texts = [
            b"",
            b"x",
            b"hello",
            "▁".encode(),
            "▁x".encode(),
            b"\xff",
            b"a b",
            b"\0",
            b"<0x41>",
            b"<pad>",
            b"\n",
            b"y" * 200,
        ]
        scores = [-1.0, 0.0, *FLOATS]
        more = [
            piece(chance.choice(texts), chance.choice(scores), chance.choice([None, None, 1, 2, 3, 4, 5, 6, 7, 2**40]))
            for _ in range(chance.choice([1, 3, 300]))
        ]
        at = chance.choice([0, end, end, end])
        return content[:at] + b"".join(more) + content[at:]
    if kind == 6:  # a field of the trainer's or the normaliser's part
        field = varint(chance.randrange(1, 60) << 3 | chance.choice([0, 2, 5, 1, 3])) + chance.randbytes(
            chance.choice([1, 4, 9])
        )
        number = chance.choice([b"\x12", b"\x1a", b"\x22", b"\x2a", b"\x0a"])
        return content + number + varint(len(field)) + field
    length = chance.choice([b"\xff" * 4 + b"\x7f", b"\xff" * 9 + b"\x01", b"\xff" * 20, varint(2**31), varint(2**20)])
    return content[:end] + chance.choice([b"\x0a", b"\x12", b"\x1a"]) + length + content[end:]


# ------------------------------------------------------------------------------------------ manifests


def manifest_like(chance: random.Random, content: bytes) -> bytes:
    """A manifest of a forger."""
    if chance.random() < 0.5:
        return json_like(chance, content)
    listed = json.loads(content)
    names = [
        "../recipe.toml",
        "/etc/hostname",
        "a/b",
        "..",
        ".",
        "",
        "\0",
        "x" * 300,
        "가" * 90,
        "\ud800",
        "missing",
        "a\nb",
    ]
    sizes = [0, -1, 2**63, 10**4000, True, None, "0", 1e400, 5.0]
    for _ in range(chance.choice([1, 1, 2, 100])):
        name = chance.choice([*names, *listed, f"file-{chance.randrange(1000)}"])
        told = {"size": chance.choice(sizes), "sha256": chance.choice(["", "0" * 64, None, 5])}
        listed[name] = chance.choice([told, told, *ODD])
    return dumped(chance, listed)


# ------------------------------------------------------------------------------------------ whole folders

BUNDLE: dict[str, Mutation] = {
    "recipe.toml": toml_like,
    "card.json": json_like,
    "MANIFEST.json": manifest_like,
    "model.safetensors": tensor_like,
    "vocabulary.model": vocabulary_like,
    "shortlist.safetensors": tensor_like,
}
CHECKPOINT: dict[str, Mutation] = {
    "state.json": json_like,
    "MANIFEST.json": manifest_like,
    "model.safetensors": tensor_like,
    "optimizer.safetensors": tensor_like,
}
STORE: dict[str, Mutation] = {"meta.json": json_like, "source.begins": garble, "lines": garble}
KINDS = {
    "model files": [
        ("bundle", "model.safetensors"), ("bundle", "vocabulary.model"), ("bundle", "shortlist.safetensors"),
    ],
    "told files": [
        ("bundle", "recipe.toml"), ("bundle", "recipe.toml"), ("bundle", "card.json"), ("bundle", "MANIFEST.json"),
        ("checkpoint", "state.json"), ("checkpoint", "MANIFEST.json"), ("store", "meta.json"),
    ],
    "other files": [
        ("checkpoint", "model.safetensors"), ("checkpoint", "optimizer.safetensors"), ("store", "source.begins"),
        ("store", "lines"),
    ],
}  # fmt: skip
MUTATIONS = {"bundle": BUNDLE, "checkpoint": CHECKPOINT, "store": STORE}


def relist(folder: Path, *, vocabulary: bool = False) -> None:
    """Make a manifest that fits the files as they are now; with `vocabulary`, the card names the one that is there."""
    if vocabulary:
        one = hashlib.sha256((folder / "vocabulary.model").read_bytes()).hexdigest()
        card = json.loads((folder / "card.json").read_bytes())
        card["vocabulary"] = hashlib.sha256((one + one).encode()).hexdigest()
        (folder / "card.json").write_text(json.dumps(card))
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "MANIFEST.json")
    listed = {
        path.name: {"size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in files
    }
    (folder / "MANIFEST.json").write_text(json.dumps(listed, indent=1))


class Forgery:
    """Copies of a run's bundle, newest checkpoint and token store, one file of which is forged at a time."""

    expected: Any = None  # the weights that the recipe implies

    def __init__(self, run: Path, folder: Path) -> None:
        steps, stores = sorted((run / "checkpoints").iterdir()), sorted((run / "data").iterdir())
        self.run = folder / "run"
        sources = {"bundle": run / "model", "checkpoint": steps[-1], "store": stores[0]}
        self.folders = {"bundle": self.run / "model", "checkpoint": self.run / "checkpoints" / steps[-1].name}
        self.folders["store"] = self.run / "data" / stores[0].name
        for name, source in sources.items():
            shutil.copytree(source, self.folders[name])
        self.good = {
            name: {path.name: path.read_bytes() for path in sources[name].iterdir() if path.is_file()}
            for name in sources
        }

    def make(self, where: str, name: str, seed: int, number: int) -> None:
        """Mutation `number` of a file, and a manifest that fits unless it is the manifest that is forged."""
        folder = self.folders[where]
        chance = random.Random(f"{seed}:{name}:{number}")
        (folder / name).write_bytes(MUTATIONS[where][name](chance, self.good[where][name]))
        if where != "store" and name != "MANIFEST.json":
            relist(folder, vocabulary=name == "vocabulary.model" and chance.random() < 0.95)

    def all(self, kind: str, seed: int, first: int, count: int) -> Iterator[tuple[int, str, str]]:
        """Make mutations one after the other, saying each one's number."""
        for number in range(first, first + count):
            where, name = KINDS[kind][number % len(KINDS[kind])]
            print(number, where, name, flush=True)
            self.make(where, name, seed, number)
            yield number, where, name
            self.write(where)

    def write(self, where: str) -> None:
        """Put the good files back."""
        for name, content in self.good[where].items():
            (self.folders[where] / name).write_bytes(content)


def use(forgery: Forgery, where: str, number: int, *, export: bool = True) -> None:
    """Load what was forged, and do with it what one does; some with every engine."""
    if where == "bundle":
        found = bundle.read(forgery.folders["bundle"])
        for engine in ("auto", "torch") if number % 4 == 0 else ("auto",):
            made = Translator(found, engine=engine, shortlist=engine == "auto" and number % 2 == 1)
            made.translate("hello gzz 가").to_json()
        if export and number % 50 == 7:
            Translator(found, engine="ctranslate2", shortlist=True).translate("hello gzz 가")
    elif where == "checkpoint":
        run = checkpoint.RunFolder(forgery.run)
        finished.find_finished(run)
        newest, refused = run.newest()
        if newest is None:
            raise refused[0]
        finished.read_progress(newest)
        newest.tensors("model.safetensors", forgery.expected)
        newest.tensors("optimizer.safetensors")
    else:
        store = Store(forgery.folders["store"])
        for row in range(0, len(store), 100):
            _ = store.source[row], store.target[row], store.lines[row]


def ready(run: str, folder: str) -> Forgery:
    """Copies of the run, and everything that reading good ones loads is loaded."""
    real, exports = user_cache.own, Path(folder) / "exports"
    exports.mkdir()
    user_cache.own = lambda name: exports if name == "ctranslate2" else real(name)
    forgery = Forgery(Path(run), Path(folder))
    forgery.expected = checkpoint.weights(checkpoint.load(forgery.folders["bundle"]).model)
    for where in forgery.folders:
        for number in range(4):
            use(forgery, where, number)
    return forgery


def limit_memory(more: int) -> None:
    """From now on the process gets no more than this."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def read(kind: str, seed: int, first: int, count: int, run: str, folder: str) -> None:
    """Read mutations, naming each before it is read; at the end, what came of them as JSON."""
    forgery = ready(run, folder)
    limit_memory(1 << 30)
    came, slowest, strange = Counter[str](), (0.0, 0), list[str]()
    for number, where, name in forgery.all(kind, seed, first, count):
        began = time.perf_counter()
        try:
            use(forgery, where, number)
            came["loaded"] += 1
        except JumokError as error:
            came[type(error).__name__] += 1
            if len(str(error).split("\n")) > 3 or not str(error).replace("\n", "").isprintable():
                strange.append(f"{number} {where} {name}: {error!r}"[:300])
        except Exception as error:
            strange.append(f"{number} {where} {name}: {type(error).__name__}: {error}"[:300])
        slowest = max(slowest, (time.perf_counter() - began, number))
    print(json.dumps({"came": came, "slowest": slowest, "strange": strange}), flush=True)


HARMLESS = {  # looking at what is there already
    "_thread.start_new_thread", "builtins.id", "ctypes.addressof", "ctypes.cdata/buffer", "mmap.__new__",
    "object.__getattr__", "object.__setattr__", "os.listdir", "os.scandir", "pathlib.Path.glob", "sys._getframe",
}  # fmt: skip


def watch(kind: str, seed: int, first: int, count: int, run: str, folder: str) -> None:
    """Read mutations under an audit hook; at the end, what else Python did than read files of the folder, as JSON."""
    forgery = ready(run, folder)
    for path in (messages.FOLDER / messages.ENGLISH).glob("*.toml"):  # else the first error reads its text
        messages.read_room(path.stem, messages.ENGLISH)
    seen, watching, opened = Counter[str](), [False], [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching[0] or event in HARMLESS:
            return
        if event == "open" and is_reading(arguments) and inside(arguments[0], forgery.run):
            opened[0] += 1
        else:
            seen[f"{event} {arguments!r:.200}"] += 1

    for room in (messages.FOLDER / messages.ENGLISH).glob("*.toml"):
        messages.read_room(room.stem, messages.ENGLISH)  # read once per process
    sys.addaudithook(hook)
    came = Counter[str]()
    watching[0] = True
    for where in forgery.folders:  # good ones first
        use(forgery, where, 0)
    watching[0] = False
    for number, where, _ in forgery.all(kind, seed, first, count):
        watching[0] = True
        try:
            use(forgery, where, number, export=False)
            came["loaded"] += 1
        except JumokError as error:
            came[type(error).__name__] += 1
        finally:
            watching[0] = False
    print(json.dumps({"came": came, "seen": seen, "opened": opened[0]}), flush=True)


def is_reading(arguments: tuple[Any, ...]) -> bool:
    mode, flags = arguments[1], arguments[2]
    return not set(mode or "") & set("wax+") and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def inside(path: Any, folder: Path) -> bool:
    """Whether a file is really in a folder; links are followed."""
    return isinstance(path, str | bytes | os.PathLike) and Path(os.path.realpath(os.fsdecode(path))).is_relative_to(
        folder.resolve()
    )


if __name__ == "__main__":
    {"read": read, "watch": watch}[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:6]), *sys.argv[6:8])
