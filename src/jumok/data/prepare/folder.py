"""A prepared folder: what training starts from, and all that is known of where it came from.

    prepared.json     what it was made from, and what was left out, by reason
    MANIFEST.json     sizes and hashes of the files
    source.ids …      the token store (store.py), with meta.json
    valid.jsonl       the pairs that validate
    vocabulary.model  or one for each side
    dropped           lines and reasons of what does not train

A folder that was prepared from the same files in the same way is used again.  Whether the files are the same is told by
their sizes and times, so that a run which is resumed reads none of them.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jumok.config.recipe import Recipe
from jumok.data import resolve
from jumok.data.corpora import Corpus, Pair
from jumok.data.store import Store
from jumok.errors import ModelFileError
from jumok.storage import bundle
from jumok.text.lines import digest as digest_files
from jumok.text.vocabulary import Vocabularies, Vocabulary

FORMAT = 1
LISTED = np.dtype([("line", "<u8"), ("reason", "u1")])  # a pair that was left out
PREPARED, VALID = "prepared.json", "valid.jsonl"


@dataclass(frozen=True)
class Prepared:
    """A prepared folder."""

    folder: Path
    told: dict[str, Any]
    vocabularies: Vocabularies
    store: Store
    valid: list[Pair]
    labels: list[int]  # the corpus of each validation pair
    shortlist: Path | None = None  # the file of what translates into what, where a model can use one

    @cached_property
    def digest(self) -> str:
        return str(self.told["digest"])

    @cached_property
    def name(self) -> str:
        return str(self.told["name"])

    @cached_property
    def is_text(self) -> bool:
        return bool(self.told["is_text"])

    @cached_property
    def corpora(self) -> list[str]:
        """The names of the corpora."""
        return [str(one["name"]) for one in self.told["corpora"]]


def request(recipe: Recipe, given: Vocabularies | Vocabulary | None = None) -> dict[str, Any]:
    """All of a recipe that a preparation depends on, as plain values."""
    data = resolve.redact_addresses(recipe.data).model_dump(mode="json", exclude={"tokens_per_batch", "prepared"})
    known = None if given is None else given.digest
    return {
        "format": FORMAT,
        "seed": recipe.seed,
        "data": data,
        "vocabulary": recipe.vocabulary.model_dump(mode="json", exclude={"sampling"}),
        "given": known,
    }


def read_told(folder: Path) -> dict[str, Any]:
    """What a prepared folder says of itself."""
    try:
        told = json.loads((folder / PREPARED).read_bytes())
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ValueError(f"{PREPARED} has another format")
    except (OSError, ValueError) as error:
        what, hint = f"this is no prepared folder: {error}", "try: jumok data prepare --help"
        raise ModelFileError(what, where=f"in {folder}", hint=hint) from None
    return told


def load(folder: Path, *, breaks: bool = False) -> Prepared:
    """A prepared folder, if it is whole; sizes are compared with its manifest, and nothing of the text is read."""
    try:
        listed = bundle.read_json(folder / bundle.MANIFEST)
        for name, entry in listed.items():
            if (folder / name).stat().st_size != entry["size"]:
                raise ModelFileError(f"{name} does not have {entry['size']:,} bytes", where=f"in {folder}")
        told = read_told(folder)
        rows = [json.loads(line) for line in (folder / VALID).read_bytes().split(b"\n") if line]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(
            f"this is no prepared folder: {error}", where=f"in {folder}", hint="try: jumok data prepare --help"
        ) from None
    valid = [Pair(row["source"], row["target"], number) for number, row in enumerate(rows, start=1)]
    vocabularies = Vocabularies.load(folder, breaks=breaks)
    return Prepared(folder, told, vocabularies, Store(folder), valid, [int(row.get("corpus", 0)) for row in rows])


def list_dropped(folder: Path) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """Files, line (from 1) and reason of every pair that does not train, in the order of the text."""
    told, found = read_told(folder), np.memmap(folder / "dropped", LISTED, mode="r")
    inputs, names = told["inputs"], {int(code): name for code, name in told["reasons"].items()}
    at = -1
    for line, code in zip(found["line"].tolist(), found["reason"].tolist(), strict=True):
        while at + 1 < len(inputs) and inputs[at + 1]["first"] <= line:
            at += 1
        if at < 0:
            yield (), line, names[code]
        else:
            yield tuple(inputs[at]["files"]), line - inputs[at]["first"] + 1, names[code]


def find(
    place: Path,
    recipe: Recipe,
    trained: Sequence[Corpus],
    beside: Sequence[str],
    given: Vocabularies | Vocabulary | None,
) -> Prepared | None:
    """What was prepared for this recipe from these texts before, if it is there and the texts have not changed.

    `beside` are other files that it depends on: those of the validation set, and those that must not be trained on.
    """
    try:
        told = json.loads((place / PREPARED).read_bytes())
    except (OSError, ValueError):
        return None
    paths = [path for corpus in trained for path in corpus.files]
    same = _same_files(told.get("files", []), paths) and _same_files(told.get("beside", []), beside)
    if not same or told.get("request") != request(recipe, given):
        return None
    return load(place, breaks=recipe.vocabulary.breaks)


def _same_files(entries: Sequence[dict[str, Any]], paths: Sequence[str]) -> bool:
    """Whether the files are those that were read; a file that is gone was not changed.

    Sizes and times say so without reading; where times differ the files are read and compared by their digests.
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
