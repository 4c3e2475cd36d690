"""Sentence pairs from wherever they are: the user's own files, or a corpus that jumok makes itself.

A corpus can be walked any number of times and says by its digest whether it is still the same.  Which pairs train
and which validate is decided here; whether a pair is fit for training is decided in store.py.
"""

import glob
import hashlib
import io
import os
import select
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from jumok.config.sections import CorpusConfig, DataConfig
from jumok.data import passages
from jumok.errors import DataError, DiskError, JumokError, UnknownName, UsageError
from jumok.text import addresses, sources
from jumok.text.addresses import is_address, local_name, redact
from jumok.text.files import PACKED, blocks, must_be_file
from jumok.text.lines import digest as digest_files
from jumok.text.lines import is_table, read_lines, read_pairs, read_table
from jumok.text.tables import Columns, has_header, is_columnar, parse_columns, row_parser

LOOKED = 1 << 20  # bytes of a file that tell how long its lines are
PACKING = 3.0  # bytes of text in a packed byte, about
REMEMBERED = 100_000  # pairs of a corpus made here that are kept for the next walk


class Pair(NamedTuple):
    """A sentence, its translation, and the line (from 1) where they stand."""

    source: str
    target: str
    line: int


class Tail:
    """The end of a text, which validates: where it begins is known once the text has been read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._begin: int | None = None

    def lines(self) -> Iterator[str]:
        return read_lines(self.path)

    def begin(self, lines: Iterable[str] | None = None) -> int:
        """How many lines come before it; `lines` are those of the text, if somebody watches how they are read."""
        if self._begin is None:
            self._begin = passages.head(self.lines() if lines is None else lines)
        return self._begin


@dataclass(frozen=True)
class Corpus:
    """Pairs that can be read again and again; `digest` changes when any of them does."""

    name: str
    read: Callable[[], Iterator[tuple[str, str]]]
    identity: str | Callable[[str], str] = ""  # of what has no files; or a function of the digest of its files
    inputs: tuple[tuple[str, ...], ...] = ()  # its files: each a table, or two that go line by line
    is_text: bool = False  # stretches of one text, which do not end where they are cut, instead of sentences
    share: float | None = None  # of what is seen in training, among several corpora
    columns: Columns | None = None  # of its tables
    addresses: tuple[tuple[str, str], ...] = ()  # files that must be fetched first, and where they come from
    tail: Tail | None = None  # of a text that is cut in two: read once before the rest

    @cached_property
    def files(self) -> list[str]:
        return [path for paths in self.inputs for path in paths]

    @cached_property
    def digest(self) -> str:
        """A hash of all that can be read; files are read for it."""
        return self.digest_with(digest_files(self.files) if self.inputs else "")

    def digest_with(self, files: str) -> str:
        """The same where the digest of the files is known."""
        return self.identity(files) if callable(self.identity) else files or self.identity

    def __iter__(self) -> Iterator[Pair]:
        for line, (source, target) in enumerate(self.read(), start=1):
            yield Pair(source, target, line)


def from_files(source: str | Path, target: str | Path) -> Corpus:
    """Two files, line i of one is the translation of line i of the other."""
    return from_inputs(f"{source} + {target}", [(str(source), str(target))])


def from_table(path: str | Path, *, columns: Columns | None = None) -> Corpus:
    """One table with both sides: .tsv, .jsonl, Parquet or Arrow."""
    return from_inputs(str(path), [(str(path),)], columns=columns)


def from_inputs(
    name: str,
    inputs: Sequence[tuple[str, ...]],
    *,
    columns: Columns | None = None,
    addresses: Sequence[tuple[str, str]] = (),
) -> Corpus:
    """Several files as one corpus: tables, and pairs of files that go line by line."""
    for paths in inputs:
        if len(paths) == 1 and not is_columnar(paths[0]) and not has_header(paths[0], columns):
            row_parser(paths[0], columns=columns)  # a name that does not say its kind is refused now

    def read() -> Iterator[tuple[str, str]]:
        for paths in inputs:
            yield from read_pairs(*paths) if len(paths) == 2 else read_table(paths[0], columns=columns)

    return Corpus(name, read, inputs=tuple(inputs), columns=columns, addresses=tuple(addresses))


def from_text(
    path: str | Path,
    data: DataConfig,
    *,
    part: Callable[[], slice] = lambda: slice(None),
    tail: Tail | None = None,
) -> Corpus:
    """A text that is learnt itself, some lines of it, in stretches."""

    def read() -> Iterator[tuple[str, str]]:
        return passages.read(path, data.stretch, in_halves=data.halves, part=part())

    def identity(files: str) -> str:
        return _made(files, data.stretch, data.halves, part().start, part().stop)

    return Corpus(str(path), read, identity, ((str(path),),), is_text=True, tail=tail)


def stories(task: int, count: int, seed: int, split: str = "train") -> Corpus:
    """A story and a question, and its answer: a task in the manner of bAbI."""
    from jumok.data.made import stories as told

    def read() -> Iterator[tuple[str, str]]:
        return ((story.text, story.answer) for story in told.stories(task, count, seed=seed, split=split))

    return Corpus(f"babi-{task} {split}", read, _made("babi", task, count, seed, split))


def phrases(split: str, count: int, seed: int) -> Corpus:
    """The embedded English–Korean phrasebook."""
    from jumok.data.made import phrasebook  # its grammar takes a moment, and few need it

    def make() -> Iterator[tuple[str, str]]:
        return ((phrase.english, phrase.korean) for phrase in phrasebook.phrases(split, count, seed=seed))

    @cache
    def made() -> list[tuple[str, str]]:
        return list(make())

    def read() -> Iterator[tuple[str, str]]:
        return iter(made()) if count <= REMEMBERED else make()

    return Corpus(f"phrasebook {split}", read, _made("phrasebook", split, count, seed))


def task(name: str, count: int, seed: int) -> Corpus:
    """Copy, reverse or sort a few symbols: tasks that take seconds to learn."""
    from jumok.data.made import phrasebook

    return Corpus(name, lambda: iter(phrasebook.task(name, count, seed=seed)), _made("task", name, count, seed))


def _told(number: int, data: DataConfig, seed: int) -> tuple[Corpus, Corpus]:
    return stories(number, data.pairs, seed), stories(number, 1_000, seed, "validation")


BABI = (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 20)  # tasks of stories.py
MADE_HERE: dict[str, Callable[[DataConfig, int], tuple[Corpus, Corpus | None]]] = {
    "phrasebook": lambda data, seed: (phrases("train", data.pairs, seed), phrases("validation", 500, seed)),
    "copy": lambda data, seed: (task("copy", data.pairs, seed), None),
    "reverse": lambda data, seed: (task("reverse", data.pairs, seed), None),
    "sort": lambda data, seed: (task("sort", data.pairs, seed), None),
} | {f"babi-{number}": partial(_told, number) for number in BABI}

# What a corpus wants of a recipe where nobody chose otherwise.
STORIES: dict[str, Any] = {
    "data.pairs": 10_000,
    "data.longest": 1_024,
    "data.ratio": 1_000.0,
    "vocabulary.kind": "bpe",
    "vocabulary.at_most": True,
    "vocabulary.breaks": True,
    "vocabulary.sampling": 0.0,
    "training.word_dropout": 0.0,
}
TEXT: dict[str, Any] = {
    "data.longest": 4_096,
    "data.ratio": 1_000.0,
    "vocabulary.breaks": True,
    "vocabulary.sampling": 0.0,
    "training.word_dropout": 0.0,
    "training.label_smoothing": 0.0,
}


def usual(corpus: str | None, text: str | Path | None) -> dict[str, Any]:
    """Changes to a recipe that such a corpus wants."""
    if text is not None:
        return TEXT
    if corpus is None or corpus == "phrasebook":
        return {}
    return STORIES if corpus.startswith("babi-") else {"vocabulary.at_most": True}  # a task has few symbols


def resolve(data: DataConfig, seed: int) -> tuple[Corpus, Corpus | None]:
    """The training corpus a recipe names and its validation corpus, if it names one."""
    trained, validating = resolve_all(data, seed)
    if len(trained) > 1:
        raise UsageError("this takes one corpus, not several", where="in data.corpora", hint="try: one of them alone")
    return trained[0], validating[0] if validating else None


def resolve_all(data: DataConfig, seed: int, *, fetched: Path = Path("fetched")) -> tuple[list[Corpus], list[Corpus]]:
    """Every training corpus that a recipe names, and the validation corpora: one for each, one for all, or none.

    No text is read.  What is behind an address is to be fetched into the folder `fetched` (`fetch_all`).
    """
    columns = parse_columns(data.columns) if data.columns else None
    named_by = partial(_from_paths, columns=columns, fetched=fetched)
    named = (data.corpus, data.source or data.target, data.table, data.text, data.corpora)
    if sum(map(bool, named)) != 1:
        raise UsageError(
            "name the training text once: two files, one table, a text of its own, or a corpus made by jumok",
            where="in data",
            hint="try: jumok train --source train.en --target train.de   or: --corpus phrasebook",
        )
    if (data.valid_source or data.valid_target) and data.valid_table:
        raise UsageError("name the validation text once: two files, or one table", where="in data")
    if data.text is not None:
        first, last = _of_text(data, data.text)
        return [first], [last]
    valid: list[Corpus] = []
    if data.corpus is not None:
        if data.corpus not in MADE_HERE:
            raise UnknownName("corpus", data.corpus, MADE_HERE, where="in data.corpus")
        made, made_valid = MADE_HERE[data.corpus](data, seed)
        train, valid = [made], [] if made_valid is None else [made_valid]
    elif data.corpora:
        train = [_one_of_several(part, named_by) for part in data.corpora]
        valid = _valid_of_several(data.corpora, named_by)
    else:
        train = [named_by(data.source, data.target, data.table, "")]
    if data.valid_source or data.valid_target or data.valid_table:
        valid = [named_by(data.valid_source, data.valid_target, data.valid_table, "valid-")]
    return train, valid


def _one_of_several(part: CorpusConfig, named_by: Callable[..., Corpus]) -> Corpus:
    found = named_by(part.source, part.target, part.table, "")
    return replace(found, name=part.name or found.name, share=part.share)


def _valid_of_several(parts: Sequence[CorpusConfig], named_by: Callable[..., Corpus]) -> list[Corpus]:
    """The validation corpora of several corpora: all have one, or none has."""
    given = [bool(part.valid_source or part.valid_target or part.valid_table) for part in parts]
    if any(given) and not all(given):
        missing = parts[given.index(False)]
        what = f"{missing.name or missing.table or missing.source} has no validation text, and others have"
        raise UsageError(
            what, where="in data.corpora", hint="try: --valid-source and --valid-target for each, or for none"
        )
    return [named_by(p.valid_source, p.valid_target, p.valid_table, "valid-") for p in parts if any(given)]


def _of_text(data: DataConfig, path: str) -> tuple[Corpus, Corpus]:
    """A text but for its tail, and its tail; or all of it and another text."""
    if data.valid_text is not None:
        return from_text(path, data), from_text(data.valid_text, data)
    tail = Tail(path)
    first = from_text(path, data, part=lambda: slice(tail.begin()), tail=tail)
    return first, from_text(path, data, part=lambda: slice(tail.begin(), None), tail=tail)


def _from_paths(
    source: str | None,
    target: str | None,
    table: str | None,
    prefix: str,
    *,
    columns: Columns | None,
    fetched: Path,
) -> Corpus:
    """The corpus that two files, globs, folders or addresses name, or one for tables."""
    inputs: Sequence[tuple[str, ...]]
    if table:
        name, inputs = redact(table), [(path,) for path in _expand(table)]
    else:
        ours, theirs = _both(source, target, f"{prefix}source", f"{prefix}target")
        name = f"{redact(ours)} + {redact(theirs)}"
        inputs = [(ours, theirs)] if _is_plain(ours) and _is_plain(theirs) else sources.match(ours, theirs)
    local = {path: str(fetched / local_name(path)) for paths in inputs for path in paths if is_address(path)}
    here = [tuple(local.get(path, path) for path in paths) for paths in inputs]
    return from_inputs(name, here, columns=columns, addresses=[(to, at) for at, to in local.items()])


def _is_plain(spec: str) -> bool:
    """Whether this is the name of one file, there or not: a run that goes on does not need it any more."""
    return not (is_address(spec) or os.path.isdir(spec) or (glob.has_magic(spec) and not os.path.lexists(spec)))


def _expand(spec: str) -> list[str]:
    return [spec] if _is_plain(spec) else sources.expand(spec)


def fetch_all(corpora: Sequence[Corpus]) -> Iterator[tuple[int, int | None] | None]:
    """Fetch the files of corpora that are behind addresses and not here yet; yields how far each is, if it is known."""
    from jumok.text.remote import fetch_in_steps

    for corpus in corpora:
        for path, address in corpus.addresses:
            yield from fetch_in_steps(address, Path(path).parent)


def public(data: DataConfig) -> DataConfig:
    """The same data with addresses as they may be stored and shown: no user, no password, no signature."""

    def shown(value: object) -> object:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, CorpusConfig):
            return value.model_copy(update={name: shown(part) for name, part in value})
        return tuple(map(shown, value)) if isinstance(value, tuple) else value

    return data.model_copy(update={name: shown(value) for name, value in data})


def refuse_addresses(data: DataConfig, *, where: str) -> None:
    """Refuse data of a model that name an address: they may be a stranger's."""
    for section in (data, *data.corpora):
        addresses.refuse_addresses(section, where=where)


def _both(source: str | None, target: str | None, first: str, second: str) -> tuple[str, str]:
    """Both sides, or a `UsageError` that names the option that is missing."""
    if source and target:
        return source, target
    missing, given = (second, source) if source else (first, target)
    where = f"beside {given}" if given else ""
    raise UsageError(
        f"--{missing} is missing: a parallel text has two sides", where=where, hint=f"try: add --{missing} FILE"
    )


def estimate_pairs(data: DataConfig) -> int:
    """About how many pairs the data have, from the sizes of the files and their first lines; 0 if nobody can tell."""
    if data.corpus is not None:
        return data.pairs
    try:
        trained, _ = resolve_all(data, seed=1)
        return sum(_estimate(corpus) for corpus in trained)
    except (JumokError, OSError):  # whoever reads the text says what is wrong with it
        return 0


def _estimate(corpus: Corpus) -> int:
    if corpus.is_text or corpus.addresses:
        return 0
    total = 0
    for paths in corpus.inputs:
        for path in paths:
            must_be_file(path)  # a pipe would be waited for, and what was read of it would be gone
        if is_columnar(paths[0]):
            from jumok.text.columnar import units

            total += sum(unit.rows for unit in units(paths[0]))
            continue
        path = min(paths, key=os.path.getsize)
        content = next(blocks(path, LOOKED), b"")
        packed = PACKING if path.lower().endswith(tuple(PACKED)) else 1.0
        whole = os.path.getsize(path) * packed if len(content) >= LOOKED else len(content)
        total += round(content.count(b"\n") * whole / max(1, len(content)))
    return total


def without_stdin(data: DataConfig, folder: Path) -> DataConfig:
    """The same data with standard input (`-`), which can be read only once, named as a copy in `folder`."""
    sides = ("source", "target", "table", "text", "valid_source", "valid_target", "valid_table", "valid_text")
    fields = [side for side in sides if getattr(data, side) == "-"]
    if len(fields) > 1:
        raise UsageError(
            f"standard input can be one file only, not {' and '.join(fields)}",
            where="in data",
            hint="try: save one of them to a file first",
        )
    copies = {field: str(folder / ("stdin.tsv" if field.endswith("table") else "stdin.txt")) for field in fields}
    return data.model_copy(update=copies)


def keep_stdin(data: DataConfig, copied: DataConfig) -> Generator[None, None, None]:
    """Write standard input to where `copied` says it is, if `data` names it at all; yields while it comes."""
    for field, path in copied:
        if getattr(data, field) != "-":
            continue
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                for block in _blocks(sys.stdin.buffer):
                    file.write(block)
                    yield
        except OSError as error:
            raise DiskError(
                f"cannot keep standard input: {error.strerror}", where=f"in {path}", hint="try: df -h"
            ) from None


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """What comes in, as it comes, or nothing every half second, for somebody who types slowly."""
    try:
        pipe = select.select([stream], [], [], 0)
    except (OSError, ValueError, TypeError):  # not one that can be waited for
        pipe = None
    while True:
        if pipe is not None and not select.select([stream], [], [], 0.5)[0]:
            yield b""
            continue
        block = stream.read1(1 << 20) if isinstance(stream, io.BufferedReader) else stream.read(1 << 20)
        if not block:
            return
        yield block


def held_out(source: str, share: float) -> bool:
    """Whether a pair is kept for validation: decided by its source sentence alone, so duplicates stay together."""
    digest = hashlib.blake2b(" ".join(source.lower().split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def sentences_of(path: str) -> Iterator[list[str]]:
    """The sentences of a text, or of both sides of a table, thousands at a time."""
    texts = (text for pair in read_table(path) for text in pair) if is_table(path) else read_lines(path)
    while chunk := list(islice(texts, 8_192)):
        yield chunk


def test_set(path_source: str | None, path_target: str | None, path_table: str | None) -> list[Pair]:
    """All pairs of a test set, which must not be empty; read once, so one side may be standard input."""
    if path_table and (path_source or path_target):
        raise UsageError("name the test set once: two files, or one table")
    if path_table:
        rows, name = read_table(path_table), path_table
    else:
        source, target = _both(path_source, path_target, "source", "target")
        rows, name = read_pairs(source, target), f"{source} + {target}"
    pairs = [Pair(source, target, line) for line, (source, target) in enumerate(rows, start=1)]
    if not pairs:
        raise DataError("the test set is empty", where=f"in {name}", hint="try: jumok data check FILES")
    return pairs


def table_or_files(paths: list[str]) -> Corpus:
    """One table or two parallel files, by their number and names."""
    if len(paths) == 1 and is_table(paths[0]):
        return from_table(paths[0])
    if len(paths) == 2:
        return from_files(paths[0], paths[1])
    raise UsageError(
        "give two parallel text files, or one .tsv or .jsonl",
        where=f"got {', '.join(paths)}",
        hint="try: jumok data stats train.en train.de",
    )


def _made(*parts: object) -> str:
    return hashlib.sha256(":".join(map(str, parts)).encode()).hexdigest()
