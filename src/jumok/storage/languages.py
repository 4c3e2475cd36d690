"""The languages of a model that names none: from the names of the files that it was trained on; no torch."""

from collections.abc import Sequence

from jumok.config.sections import CorpusConfig, DataConfig
from jumok.text.languages import Pair, guess_from_files, guess_from_table

GENERATED = {"phrasebook": ("en", "ko"), "phrasebook-several": ("en", "ko")}  # of corpora that jumok generates


def guess_languages(data: DataConfig) -> Pair | None:
    """Return the languages that a data section names, from names of files and columns; no file is read.

    Several corpora name the same languages, or none is known.
    """
    if data.corpus is not None:
        return GENERATED.get(data.corpus)
    columns = [name.strip() for name in data.columns.split(",")] if data.columns else None
    if columns is not None and len(columns) != 2:  # an error when the table is read
        return None
    pairs = {_guess_part(part, columns) for part in (data.corpora or (data,))}
    return pairs.pop() if len(pairs) == 1 else None


def _guess_part(part: DataConfig | CorpusConfig, columns: Sequence[str] | None) -> Pair | None:
    if part.source is not None and part.target is not None:
        return guess_from_files(part.source, part.target)
    return None if part.table is None else guess_from_table(part.table, columns)
