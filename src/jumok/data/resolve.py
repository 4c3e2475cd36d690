"""The data section of a recipe: the corpora that it names, and the settings that suit them.

    trained, validating = resolve_all(recipe.data, recipe.seed)

A section names two parallel files, a table, a text, several corpora, or one that jumok generates; files may be globs,
folders or addresses.
"""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from jumok.config.sections import CorpusConfig, DataConfig
from jumok.data import generated
from jumok.data.corpora import Corpus, Tail, from_inputs, from_text, require_both
from jumok.errors import UsageError
from jumok.text import addresses, sources
from jumok.text.addresses import is_address, local_name, redact
from jumok.text.tables import Columns, parse_columns

PACKING = 3.0  # typical bytes of text per compressed byte

# Changes to a recipe that suit a kind of corpus; settings chosen by the user win over them.
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


def suggest_settings(corpus: str | None, text: str | Path | None) -> dict[str, Any]:
    """Changes to a recipe that suit a generated corpus or a text."""
    if text is not None:
        return TEXT
    if corpus is None or corpus.startswith("phrasebook"):
        return {}
    return STORIES if corpus.startswith("babi-") else {"vocabulary.at_most": True}  # a task has few symbols


def resolve_one(data: DataConfig, seed: int) -> tuple[Corpus, Corpus | None]:
    """The only training corpus that a section names, and its validation corpus, if it names one."""
    trained, validating = resolve_all(data, seed)
    if len(trained) > 1:
        raise UsageError("data.several_corpora")
    return trained[0], validating[0] if validating else None


def resolve_all(data: DataConfig, seed: int, *, fetched: Path = Path("fetched")) -> tuple[list[Corpus], list[Corpus]]:
    """Every training corpus that a section names, and the validation corpora: one for each, one for all, or none.

    No text is read.  Files at an address are to be fetched into the folder `fetched` (`fetch_all`).
    """
    columns = parse_columns(data.columns) if data.columns else None
    open_corpus = partial(_from_section, columns=columns, fetched=fetched)
    named = (data.corpus, data.source or data.target, data.table, data.text, data.corpora)
    if sum(map(bool, named)) != 1:
        raise UsageError("data.name_one_training_text")
    if (data.valid_source or data.valid_target) and data.valid_table:
        raise UsageError("data.two_validation_texts")
    if data.text is not None:
        first, last = _split_text(data, data.text)
        return [first], [last]
    valid: list[Corpus] = []
    if data.corpus is not None:
        only, only_valid = generated.generate(data.corpus, data, seed)
        train, valid = [only], [] if only_valid is None else [only_valid]
    elif data.corpora:
        train = [_open_part(part, open_corpus) for part in data.corpora]
        valid = _open_validation(data.corpora, open_corpus)
    else:
        train = [open_corpus(data.source, data.target, data.table, "")]
    if data.valid_source or data.valid_target or data.valid_table:
        valid = [open_corpus(data.valid_source, data.valid_target, data.valid_table, "valid-")]
    return train, valid


def _open_part(part: CorpusConfig, open_corpus: Callable[..., Corpus]) -> Corpus:
    corpus = open_corpus(part.source, part.target, part.table, "")
    return replace(corpus, name=part.name or corpus.name, share=part.share)


def _open_validation(parts: Sequence[CorpusConfig], open_corpus: Callable[..., Corpus]) -> list[Corpus]:
    """The validation corpora of several corpora: all of them have one, or none has."""
    given = [bool(part.valid_source or part.valid_target or part.valid_table) for part in parts]
    if any(given) and not all(given):
        missing = parts[given.index(False)]
        raise UsageError("data.validation_missing", corpus=missing.name or missing.table or missing.source)
    return [open_corpus(p.valid_source, p.valid_target, p.valid_table, "valid-") for p in parts if any(given)]


def _split_text(data: DataConfig, path: str) -> tuple[Corpus, Corpus]:
    """A text without its tail, and the tail; or the whole text and a separate validation text."""
    if data.valid_text is not None:
        return from_text(path, data), from_text(data.valid_text, data)
    tail = Tail(path)
    first = from_text(path, data, part=lambda: slice(tail.find_start()), tail=tail)
    return first, from_text(path, data, part=lambda: slice(tail.find_start(), None), tail=tail)


def _from_section(
    source: str | None,
    target: str | None,
    table: str | None,
    prefix: str,
    *,
    columns: Columns | None,
    fetched: Path,
) -> Corpus:
    """The corpus of two specifications (files, globs, folders or addresses), or of one for tables."""
    inputs: Sequence[tuple[str, ...]]
    if table:
        name, inputs = redact(table), [(path,) for path in _expand(table)]
    else:
        ours, theirs = require_both(source, target, f"{prefix}source", f"{prefix}target")
        name = f"{redact(ours)} + {redact(theirs)}"
        inputs = [(ours, theirs)] if _is_plain(ours) and _is_plain(theirs) else sources.match(ours, theirs)
    local = {path: str(fetched / local_name(path)) for paths in inputs for path in paths if is_address(path)}
    files = [tuple(local.get(path, path) for path in paths) for paths in inputs]
    return from_inputs(name, files, columns=columns, addresses=[(path, address) for address, path in local.items()])


def _is_plain(spec: str) -> bool:
    """Whether this is the name of one file.  The file may be missing: a resumed run no longer needs it."""
    return not (is_address(spec) or os.path.isdir(spec) or (glob.has_magic(spec) and not os.path.lexists(spec)))


def _expand(spec: str) -> list[str]:
    return [spec] if _is_plain(spec) else sources.expand(spec)


def fetch_all(corpora: Sequence[Corpus]) -> Iterator[tuple[int, int | None] | None]:
    """Fetch the files of corpora at addresses unless they are present; yields bytes so far and in all, if known."""
    from jumok.text.remote import fetch_in_steps

    for corpus in corpora:
        for path, address in corpus.addresses:
            yield from fetch_in_steps(address, Path(path).parent)


def redact_addresses(data: DataConfig) -> DataConfig:
    """The same section with addresses that may be stored and shown: without user, password and signature."""

    def redact_value(value: object) -> object:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, CorpusConfig):
            return value.model_copy(update={name: redact_value(part) for name, part in value})
        return tuple(map(redact_value, value)) if isinstance(value, tuple) else value

    return data.model_copy(update={name: redact_value(value) for name, value in data})


def refuse_addresses(data: DataConfig, *, where: str) -> None:
    """Refuse the data section of a model if it names an address: the model may come from a stranger."""
    for section in (data, *data.corpora):
        addresses.refuse_addresses(section, where=where)
