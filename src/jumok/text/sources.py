"""What a user types for a corpus, as a list of files: a file, a glob, a folder, or addresses.

    expand("news/*.en")                      ["news/1.en", "news/2.en", "news/10.en"]
    match("news/*.en", "news/*.de")          [("news/1.en", "news/1.de"), ...]

Order    natural and the same on every machine: 2 before 10, whatever the file system lists first
Not here contents: no file is opened.  Addresses are checked and listed by remote.py, and stay addresses.
"""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from jumok.errors import DataError
from jumok.text.addresses import is_address, redact
from jumok.text.files import PACKED, attempt, must_be_file, nearest

# Files that lie in corpus folders and hold no sentences.  What is not listed here counts as text, because the suffix of
# a parallel file is a language as often as not (.pt is Portuguese, .sh Serbo-Croatian).
NOT_TEXT = re.compile(
    r"\.(7z|avi|bin|bmp|bz2|cfg|crc|csv|css|db|docx?|fetching|gif|gitattributes|html?|ini|ipynb|jpe?g|js|json|lock|log|md"
    r"|md5|model|mp[34]|np[yz]|od[st]|ogg|onnx|part|pdf|pickle|pkl|png|pth|pyc?|rar|rst|rtf|safetensors|sha1|sha256|sqlite"
    r"|svg|tar|tbz2|tgz|tmp|toml|txz|vocab|wav|xlsx?|xml|ya?ml|zip)",
    re.IGNORECASE,
)
ABOUT = re.compile(r"(readme|licen[cs]e|copying|changelog|citation|authors|sha256sums|md5sums)\b.*", re.IGNORECASE)


def expand(spec: str) -> list[str]:
    """Return the files that `spec` stands for, in natural order; a DataError if there are none.

    A name that exists is that file or folder, even if it looks like a glob.  A folder stands for the text files and
    tables directly in it, without hidden files and what by its name is no text.  A glob (`*`, `?`, `[...]`, `**` for
    folders at any depth) stands for the files it matches.  `-` is standard input.
    """
    if spec == "-":
        return [spec]
    if is_address(spec):
        from jumok.text.remote import expand_address

        return sorted(expand_address(spec), key=natural)
    if os.path.isdir(spec):
        return _folder(spec)
    if os.path.lexists(spec) or not glob.has_magic(spec):
        must_be_file(spec)
        return [spec]
    found = [path for path in glob.iglob(spec, recursive=True) if os.path.isfile(path)]
    if not found:
        raise DataError(f"no file matches {spec}", where=os.getcwd(), hint=_near_glob(spec))
    return sorted(set(found), key=natural)


def match(source: str, target: str) -> list[tuple[str, str]]:
    """Return the files of both sides of a parallel corpus, the n-th of one beside the n-th of the other.

    Different numbers of files, or the same names in another order, are a DataError that shows where they part.
    """
    left, right = expand(source), expand(target)
    ours, theirs = _keys(left), _keys(right)
    if len(left) == len(right) and (ours == theirs or sorted(ours) != sorted(theirs)):
        return list(zip(left, right, strict=True))
    shorter = min(len(left), len(right))
    pairs = enumerate(zip(ours, theirs, strict=False)) if shorter > 1 else ()  # one name alone tells nothing
    place = next((n for n, (one, other) in pairs if one != other), shorter)
    first, second = (redact(side[place]) if place < len(side) else "nothing" for side in (left, right))
    raise DataError(
        f"{_count(left)} match {redact(source)} but {_count(right)} match {redact(target)}"
        if len(left) != len(right)
        else f"the files of {redact(source)} and {redact(target)} come in different orders",
        where=f"number {place + 1} is {first} on the source side and {second} on the target side",
        hint="name files that come in pairs: the n-th source file is the translation of the n-th target file",
    )


def natural(path: str) -> tuple[list[list[tuple[str, int]]], str]:
    """Return a sort key with which numbers in names count as numbers: a2 before a10."""
    parts = path.split("/")
    return [
        [(text, int(digits or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", part)] for part in parts
    ], path


def _folder(spec: str) -> list[str]:
    """Return the text files and tables in a folder."""
    names = os.listdir(spec)
    paths = [os.path.join(spec, name) for name in names if _holds_text(name)]
    found = [path for path in paths if os.path.isfile(path)]
    if not found:
        folders = sorted((name for name in names if os.path.isdir(os.path.join(spec, name))), key=natural)
        hint = f"try: {os.path.join(spec, '*', '*')}" if folders else attempt("ls -la", spec)
        raise DataError(f"there is no text in the folder {spec}", where=str(Path(spec).absolute()), hint=hint)
    return sorted(found, key=natural)


def _holds_text(name: str) -> bool:
    """Whether a file of this name may hold sentences; the caches of Hugging Face's datasets hold them again."""
    bare = Path(name).stem if Path(name).suffix.lower() in PACKED else name
    hidden = name.startswith(".") or name.endswith("~") or ABOUT.fullmatch(name)
    return not (hidden or NOT_TEXT.fullmatch(Path(bare).suffix) or re.fullmatch(r"(cache|tmp)-?\w*\.arrow", name))


def _keys(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what tells the files of one side apart: the parts of their names that not all of them have."""
    parts = [tuple(re.split(r"[^\w]+|_|(?<=\d)(?=\D)|(?<=\D)(?=\d)", path)) for path in paths]
    common = set(parts[0]).intersection(*parts) if len(parts) > 1 else set()
    return [tuple(part for part in one if part not in common) for one in parts]


def _near_glob(spec: str) -> str:
    """A hint for a glob without a match: the folder that is missing, or a file with a similar name."""
    folder = Path(spec)
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return nearest(folder)
    return nearest(folder / re.sub(r"[*?\[\]]", "", Path(spec).name))


def _count(paths: Sequence[str]) -> str:
    return f"{len(paths):,} file" + "s" * (len(paths) != 1)
