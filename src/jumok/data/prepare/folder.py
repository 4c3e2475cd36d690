"""A prepared folder: the input of training, with a record of its origin.

    prepared.json     the files and settings it was made from, and counts of what was left out, by reason
    MANIFEST.json     sizes and hashes of the files
    source.ids …      the token store (store.py), with meta.json
    valid.jsonl       the pairs that validate
    vocabulary.model  or one for each side
    dropped           lines and reasons of pairs that do not train

A folder that was prepared from the same files with the same settings is used again.  Files are compared by sizes and
times, so that a resumed run does not have to read them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jumok.config.recipe import Recipe
from jumok.config.sections import DataConfig, VocabularyConfig
from jumok.data import resolve
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare.stage import Report, Stage
from jumok.data.store import Store
from jumok.errors import DiskError, ModelFileError
from jumok.messages import Message
from jumok.stopping import Stop
from jumok.storage import bundle
from jumok.text.files import must_be_file
from jumok.text.lines import digest as digest_files
from jumok.text.lines import hash_files as digest_in_steps
from jumok.text.vocabulary import Vocabularies, Vocabulary

FORMAT = 1
LISTED = np.dtype([("line", "<u8"), ("reason", "u1")])  # a pair that does not train
PREPARED, VALID = "prepared.json", "valid.jsonl"


@dataclass(frozen=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    summary: dict[str, Any]  # the content of prepared.json
    vocabularies: Vocabularies
    store: Store
    valid: list[Pair]
    labels: list[int]  # number of the corpus of each validation pair
    shortlist: Path | None = None  # the file of the shortlist, if the model can use one

    @cached_property
    def digest(self) -> str:
        return str(self.summary["digest"])

    @cached_property
    def name(self) -> str:
        return str(self.summary["name"])

    @cached_property
    def is_text(self) -> bool:
        return bool(self.summary["is_text"])

    @cached_property
    def corpora(self) -> list[str]:
        """The names of the corpora."""
        return [str(corpus["name"]) for corpus in self.summary["corpora"]]


def make_request(recipe: Recipe, given: Vocabularies | Vocabulary | None = None) -> dict[str, Any]:
    """All settings that a preparation depends on, as plain values; `given` are vocabularies that are not learned."""
    return {
        "format": FORMAT,
        "seed": recipe.seed,
        **_list_settings(resolve.redact_addresses(recipe.data), recipe.vocabulary),
        "given": None if given is None else given.digest,
    }


def _list_settings(data: DataConfig, vocabulary: VocabularyConfig) -> dict[str, Any]:
    return {
        "data": data.model_dump(mode="json", exclude={"tokens_per_batch", "prepared"}),
        "vocabulary": vocabulary.model_dump(mode="json", exclude={"sampling"}),
    }


def is_same_request(stored: Any, asked: dict[str, Any]) -> bool:
    """Whether a stored request is the one asked for; settings that did not exist when it was stored have defaults."""
    if stored == asked:
        return True
    try:
        data = DataConfig.model_validate(stored["data"])
        vocabulary = VocabularyConfig.model_validate(stored["vocabulary"])
    except (ValueError, TypeError, KeyError):
        return False
    return bool(stored | _list_settings(data, vocabulary) == asked)


def read_summary(folder: Path) -> dict[str, Any]:
    """The content of prepared.json."""
    try:
        summary = json.loads((folder / PREPARED).read_bytes())
        if not isinstance(summary, dict) or summary.get("format") != FORMAT:
            raise ValueError(Message("data.prepared_in_another_format", {"name": PREPARED}))
    except (OSError, ValueError) as error:
        raise ModelFileError("data.not_prepared", reason=error, folder=folder) from None
    return summary


def load(folder: Path, *, breaks: bool = False) -> Prepared:
    """A prepared folder, if it is complete; sizes are compared with its manifest, and the store is not read."""
    try:
        for name, entry in bundle.read_json(folder / bundle.MANIFEST).items():
            if (folder / name).stat().st_size != entry["size"]:
                raise ModelFileError("data.wrong_size", file=name, size=entry["size"], folder=folder)
        summary = read_summary(folder)
        rows = read_valid(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError("data.not_prepared", reason=error, folder=folder) from None
    valid = number_pairs(rows)
    vocabularies = Vocabularies.load(folder, breaks=breaks)
    return Prepared(folder, summary, vocabularies, Store(folder), valid, [int(row.get("corpus", 0)) for row in rows])


def read_valid(folder: Path) -> list[dict[str, Any]]:
    """The lines of valid.jsonl: source, target and number of the corpus."""
    return [json.loads(line) for line in (folder / VALID).read_bytes().split(b"\n") if line]


def number_pairs(rows: Sequence[dict[str, Any]]) -> list[Pair]:
    """Lines of valid.jsonl as pairs, numbered from 1."""
    return [Pair(row["source"], row["target"], number) for number, row in enumerate(rows, start=1)]


def list_dropped(folder: Path) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Files, line (from 1) and reason of every pair that does not train, in the order of the text."""
    summary, dropped = read_summary(folder), np.memmap(folder / "dropped", LISTED, mode="r")
    inputs, names = summary["inputs"], {int(code): name for code, name in summary["reasons"].items()}
    index = -1
    for line, code in zip(dropped["line"].tolist(), dropped["reason"].tolist(), strict=True):
        while index + 1 < len(inputs) and inputs[index + 1]["first"] <= line:
            index += 1
        if index < 0:
            yield (), line, names[code]
        else:
            yield tuple(inputs[index]["files"]), line - inputs[index]["first"] + 1, names[code]


def find(
    folder: Path,
    recipe: Recipe,
    trained: Sequence[Corpus],
    others: Sequence[str],
    given: Vocabularies | Vocabulary | None,
) -> Prepared | None:
    """The prepared folder `folder`, if it was made for this recipe from these texts and they have not changed.

    `others` are further files that it depends on: those of the validation set, and those that must not be trained on.
    """
    try:
        summary = json.loads((folder / PREPARED).read_bytes())
    except (OSError, ValueError):
        return None
    paths = [path for corpus in trained for path in corpus.files]
    same = _are_unchanged(summary.get("files", []), paths) and _are_unchanged(summary.get("beside", []), others)
    if not same or not is_same_request(summary.get("request"), make_request(recipe, given)):
        return None
    return load(folder, breaks=recipe.vocabulary.breaks)


def find_unchanged(
    folder: Path,
    recipe: Recipe,
    trained: Sequence[Corpus],
    others: Sequence[str],
    given: Vocabularies | Vocabulary | None,
    *,
    stop: Stop,
    report: Report,
) -> Prepared | None:
    """`find`, after files that have another time than the folder knows were compared with what it was made from."""
    paths = [path for corpus in trained for path in corpus.files]
    changed = _restamp(folder, [*paths, *others], stop=stop, report=report)
    return None if changed else find(folder, recipe, trained, others, given)


def stamp(path: str) -> dict[str, Any]:
    """The name, size and time of a file, by which a later run recognises it."""
    must_be_file(path)
    status = os.stat(path)
    return {"path": path, "size": status.st_size, "mtime": status.st_mtime_ns}


def _are_unchanged(entries: Sequence[dict[str, Any]], paths: Sequence[str]) -> bool:
    """Whether the files are those of the entries; a file that was deleted counts as unchanged.

    Sizes and times are compared first; files with another time are read and compared by their digests.
    """
    known = {entry["path"]: entry for entry in entries}
    if sorted(known) != sorted(set(paths)):
        return False
    touched = []
    for path, entry in known.items():
        try:
            status = os.stat(path)
        except OSError:
            continue
        if status.st_size != entry["size"]:
            return False
        touched += [path] if status.st_mtime_ns != entry["mtime"] else []
    return all(digest_files([path]) == known[path].get("sha256") for path in touched)


def _restamp(folder: Path, paths: Sequence[str], *, stop: Stop, report: Report) -> bool:
    """Read the files of a prepared folder that have another time than it knows; returns whether any has changed.

    The times of those that have not changed are recorded, so that later runs and other processes need not read them.
    """
    try:
        summary = json.loads((folder / PREPARED).read_bytes())
        entries = [*summary["files"], *summary["beside"]]
        touched = {entry["path"]: entry["sha256"] for entry in entries if _is_touched(entry)}
        known = {entry["path"] for entry in entries}
    except (OSError, ValueError, KeyError, TypeError):
        return False  # not a prepared folder, which `find` notices
    if not touched or known != set(paths):
        return False
    stamps = {path: stamp(path) for path in touched}
    size, done = sum(now["size"] for now in stamps.values()), 0
    stage = Stage(report, "comparing", "Comparing texts that have another time", unit="bytes")
    for path, digest in touched.items():
        if stop.finish(stage.count_up(digest_in_steps([path]), size, before=done)) != digest:
            return True
        done += stamps[path]["size"]
    for entry in entries:
        entry.update(stamps.get(entry["path"], {}))
    with suppress(DiskError, OSError):  # a folder that may only be read
        bundle.write_file(folder / PREPARED, json.dumps(summary, indent=1, ensure_ascii=False).encode())
    return False


def _is_touched(entry: dict[str, Any]) -> bool:
    """Whether a file has the size that is known, but another time."""
    try:
        now = os.stat(entry["path"])
    except OSError:
        return False
    return bool(now.st_size == entry["size"] and now.st_mtime_ns != entry["mtime"])
