"""The languages of a training text: from names of files and columns, or from the first row of a table; no torch."""

from pathlib import Path

from jumok.config.sections import DataConfig
from jumok.data.prepare import folder
from jumok.errors import JumokError
from jumok.storage.languages import guess_languages
from jumok.text.addresses import is_address
from jumok.text.files import must_be_file
from jumok.text.languages import Pair, known_pair
from jumok.text.lines import read_lines
from jumok.text.tables import kind_of, list_languages


def find_languages(data: DataConfig) -> Pair | None:
    """Return the languages of the corpora that a data section names; None if they are unknown.

    Of a prepared folder, they are those of the text that it was prepared from.  At most one line of a file is read.
    """
    if data.prepared is None:
        return guess_languages(data) or _read_table(data)
    try:
        prepared_from = folder.read_summary(Path(data.prepared))["request"]["data"]
        return guess_languages(DataConfig.model_validate(prepared_from))
    except (JumokError, KeyError, ValueError):  # reported when the folder is read
        return None


def _read_table(data: DataConfig) -> Pair | None:
    """Return the languages of the first row of a jsonl table, `{"translation": {"en": …, "de": …}}`."""
    if data.table is None or data.columns is not None or kind_of(data.table) != "jsonl" or is_address(data.table):
        return None
    try:
        must_be_file(data.table)  # a line that was read from a pipe would be missing later
        line = next(read_lines(data.table), "")
        return known_pair(list_languages(line))
    except (JumokError, OSError):  # reported when the text is read
        return None
