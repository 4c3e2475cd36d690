"""Glossaries on disk, each with one or more dictionaries (DeepL v3), one file each: whole or ignored after a crash.

    STATE/glossaries/ID.glossary     a line of JSON: name, time, dictionaries with their numbers of entries, a hash;
                                     then the entries, source and target separated by a tab

A file whose first line, size or hash is wrong is ignored.  Ids are made here; one that is not known names no file.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Any

from jumok.documents.glossary import MOST_BYTES, Glossary
from jumok.documents.storing import make_folder, write_whole
from jumok.errors import UsageError

MOST = 1_000  # glossaries
MOST_DICTIONARIES = 100  # of one glossary
LONGEST_NAME = 1_024
IN_MEMORY = 32  # glossaries whose entries are kept
HEADER = 1_000_000  # most bytes of the first line


@dataclass(frozen=True)
class Dictionary:
    """The terms of one pair of languages."""

    source: str
    target: str
    glossary: Glossary

    @property
    def pair(self) -> tuple[str, str]:
        return primary(self.source), primary(self.target)


@dataclass(frozen=True)
class Entry:
    """What is known of a glossary without its terms."""

    id: str
    name: str
    created: float
    dictionaries: tuple[tuple[str, str, int], ...]  # source language, target language, number of entries

    @property
    def creation_time(self) -> str:
        """The time in the form of DeepL: 2021-08-03T14:16:18.329Z."""
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.created))
        return f"{whole}.{int(self.created * 1000) % 1000:03d}Z"


def primary(language: str) -> str:
    """Return the language of a tag, without region: EN-US and en are one."""
    return language.replace("_", "-").partition("-")[0].lower()


class GlossaryStore:
    """The glossaries in a folder.  May be used from several threads, and by one process at a time."""

    def __init__(self, folder: str | Path, *, now: Callable[[], float] = time.time) -> None:
        self.folder, self.now = make_folder(Path(folder)), now
        self.lock = RLock()
        self.entries: dict[str, Entry] = {}
        self.memory: OrderedDict[str, tuple[Dictionary, ...]] = OrderedDict()
        for path in sorted(self.folder.glob("*.glossary")):
            entry = _read_entry(path)
            if entry is not None:
                self.entries[entry.id] = entry
        for leftover in self.folder.glob(".*.partial"):
            leftover.unlink(missing_ok=True)

    def create(self, name: str, dictionaries: Sequence[Dictionary]) -> Entry:
        """Store a new glossary."""
        with self.lock:
            if len(self.entries) >= MOST:
                raise UsageError("documents.too_many_glossaries", most=MOST)
            return self._save(Entry(str(uuid.uuid4()), name, self.now(), ()), dictionaries)

    def list_entries(self) -> list[Entry]:
        """Return all glossaries, the oldest first."""
        with self.lock:
            return sorted(self.entries.values(), key=lambda entry: (entry.created, entry.id))

    def find(self, id: str) -> Entry | None:
        """Return what is known of a glossary; None if there is none with this id."""
        return self.entries.get(id)

    def load(self, id: str) -> tuple[Dictionary, ...]:
        """Return the dictionaries of a glossary with their terms; none if it does not exist or its file is broken."""
        with self.lock:
            if id in self.entries and id not in self.memory:
                self.memory[id] = _read_dictionaries(self._path(id), self.entries[id])
                while len(self.memory) > IN_MEMORY:
                    self.memory.popitem(last=False)
            if id in self.memory:
                self.memory.move_to_end(id)
            return self.memory.get(id, ())

    def find_glossary(self, id: str, source: str, target: str) -> Glossary | None:
        """Return the terms of a glossary for a pair of languages."""
        pair = primary(source), primary(target)
        return next((each.glossary for each in self.load(id) if each.pair == pair), None)

    def change(self, id: str, *, name: str | None = None, dictionaries: Sequence[Dictionary] = ()) -> Entry | None:
        """Rename a glossary, and merge entries into its dictionaries, as PATCH of DeepL v3 does."""
        with self.lock:
            if (entry := self.entries.get(id)) is None:
                return None
            merged = {each.pair: each for each in self.load(id)}
            for new in dictionaries:
                old = merged.get(new.pair)
                terms = dict(old.glossary.entries if old else ()) | dict(new.glossary.entries)
                merged[new.pair] = replace(new, glossary=Glossary(tuple(terms.items())))
            return self._save(replace(entry, name=entry.name if name is None else name), list(merged.values()))

    def put_dictionary(self, id: str, dictionary: Dictionary) -> Entry | None:
        """Replace the dictionary of a pair of languages, or add it."""
        with self.lock:
            if (entry := self.entries.get(id)) is None:
                return None
            others = [each for each in self.load(id) if each.pair != dictionary.pair]
            return self._save(entry, [*others, dictionary])

    def delete_dictionary(self, id: str, source: str, target: str) -> bool:
        """Remove the dictionary of a pair of languages; False if there is none."""
        with self.lock:
            pair = primary(source), primary(target)
            rest = [each for each in self.load(id) if each.pair != pair]
            if id not in self.entries or len(rest) == len(self.load(id)):
                return False
            self._save(self.entries[id], rest)
            return True

    def delete(self, id: str) -> bool:
        """Remove a glossary; False if there is none."""
        with self.lock:
            if self.entries.pop(id, None) is None:
                return False
            self.memory.pop(id, None)
            self._path(id).unlink(missing_ok=True)
            return True

    def _path(self, id: str) -> Path:
        return self.folder / f"{id}.glossary"

    def _save(self, entry: Entry, dictionaries: Sequence[Dictionary]) -> Entry:
        if not entry.name.strip() or len(entry.name) > LONGEST_NAME:
            raise UsageError("documents.glossary_name", longest=LONGEST_NAME)
        if len({each.pair for each in dictionaries}) < len(dictionaries) or len(dictionaries) > MOST_DICTIONARIES:
            raise UsageError("documents.dictionary_twice", most=MOST_DICTIONARIES)
        body = "".join(f"{each.glossary.to_tsv()}\n" for each in dictionaries).encode("utf-8", "replace")
        if len(body) > MOST_BYTES:
            raise UsageError("documents.glossary_too_large", most=MOST_BYTES)
        counts = tuple((each.source, each.target, len(each.glossary.entries)) for each in dictionaries)
        entry = replace(entry, dictionaries=counts)
        header = {"id": entry.id, "name": entry.name, "created": entry.created, "dictionaries": counts,
                  "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}  # fmt: skip
        write_whole(self._path(entry.id), json.dumps(header).encode() + b"\n" + body)
        self.entries[entry.id] = entry
        self.memory[entry.id] = tuple(dictionaries)
        return entry


def _read_header(path: Path) -> tuple[Entry, dict[str, Any]] | None:
    try:
        with open(path, "rb") as file:
            values = json.loads(file.readline(HEADER))
            whole = file.tell() + values["bytes"] == path.stat().st_size and values["id"] == path.stem
        counts = tuple((str(a), str(b), int(count)) for a, b, count in values["dictionaries"])
        return (Entry(values["id"], str(values["name"]), float(values["created"]), counts), values) if whole else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_entry(path: Path) -> Entry | None:
    """Return what a file says of its glossary; None if it is not whole."""
    header = _read_header(path)
    return header[0] if header else None


def _read_dictionaries(path: Path, entry: Entry) -> tuple[Dictionary, ...]:
    """Return the dictionaries of a file; none if it is broken."""
    header = _read_header(path)
    if header is None:
        return ()
    body = path.read_bytes().partition(b"\n")[2]
    if hashlib.sha256(body).hexdigest() != header[1]["sha256"]:
        return ()
    lines = body.decode("utf-8").split("\n")
    dictionaries, position = list[Dictionary](), 0
    for source, target, count in entry.dictionaries:
        pairs = tuple((a, b) for a, _, b in (line.partition("\t") for line in lines[position : position + count]))
        dictionaries.append(Dictionary(source, target, Glossary(pairs)))
        position += count
    return tuple(dictionaries)
