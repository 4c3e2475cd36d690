"""The files that a user names as a corpus: a file, a glob, a folder, or addresses.

    expand("news/*.en")                      ["news/1.en", "news/2.en", "news/10.en"]
    match("news/*.en", "news/*.de")          [("news/1.en", "news/1.de"), ...]

Order    natural and the same on every machine: 2 before 10, independent of the order in the file system
Not here contents: no file is opened.  Addresses are checked and listed by remote.py, and stay addresses.
"""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from jumok.errors import DataError
from jumok.messages import Message
from jumok.text.addresses import is_address, redact
from jumok.text.files import PACKED, attempt, must_be_file, nearest

# Suffixes of files in corpus folders that contain no sentences.  All others count as text, because the suffix of a
# parallel file is often a language (.pt is Portuguese, .sh Serbo-Croatian).
NOT_TEXT = re.compile(
    r"\.(7z|avi|bin|bmp|bz2|cfg|crc|csv|css|db|docx?|fetching|gif|gitattributes|html?|ini|ipynb|jpe?g|js|json|lock|log|md"
    r"|md5|model|mp[34]|np[yz]|od[st]|ogg|onnx|part|pdf|pickle|pkl|png|pth|pyc?|rar|rst|rtf|safetensors|sha1|sha256|sqlite"
    r"|svg|tar|tbz2|tgz|tmp|toml|txz|vocab|wav|xlsx?|xml|ya?ml|zip)",
    re.IGNORECASE,
)
ABOUT = re.compile(r"(readme|licen[cs]e|copying|changelog|citation|authors|sha256sums|md5sums)\b.*", re.IGNORECASE)


def expand(spec: str) -> list[str]:
    """The files that `spec` stands for, in natural order; a DataError if there are none.

    A name that exists is that file or folder, even if it looks like a glob.  A folder stands for the text files and
    tables directly in it, without hidden files and files whose name says that they are not text.  A glob (`*`, `?`,
    `[...]`, `**` for folders at any depth) stands for the files it matches.  `-` is standard input.
    """
    if spec == "-":
        return [spec]
    if is_address(spec):
        from jumok.text.remote import expand_address

        return sorted(expand_address(spec), key=natural)
    if os.path.isdir(spec):
        return _list_folder(spec)
    if os.path.lexists(spec) or not glob.has_magic(spec):
        must_be_file(spec)
        return [spec]
    matches = {path for path in glob.iglob(spec, recursive=True) if os.path.isfile(path)}
    if not matches:
        raise DataError("text.no_match", pattern=spec, folder=os.getcwd(), advice=_hint_for_glob(spec))
    return sorted(matches, key=natural)


def match(source: str, target: str) -> list[tuple[str, str]]:
    """Pairs of files of a parallel corpus: the n-th source file with the n-th target file.

    Different numbers of files, or the same names in another order, are a DataError that shows the first difference.
    """
    left, right = expand(source), expand(target)
    ours, theirs = _keys(left), _keys(right)
    if len(left) == len(right) and (ours == theirs or sorted(ours) != sorted(theirs)):
        return list(zip(left, right, strict=True))
    shorter = min(len(left), len(right))
    # A single name says nothing about the order.
    pairs = enumerate(zip(ours, theirs, strict=False)) if shorter > 1 else ()
    position = next((n for n, (mine, other) in pairs if mine != other), shorter)
    first, second = (
        redact(side[position]) if position < len(side) else Message("text.nothing") for side in (left, right)
    )
    source, target = redact(source), redact(target)
    if len(left) == len(right):
        raise DataError(
            "text.different_orders", source=source, target=target, number=position + 1, first=first, second=second
        )
    raise DataError(
        "text.unequal_files",
        source_files=_count_files(left), source=source, target_files=_count_files(right), target=target,
        number=position + 1, first=first, second=second,
    )  # fmt: skip


def natural(path: str) -> tuple[list[list[tuple[str, int]]], str]:
    """A sort key that compares numbers in names as numbers: a2 before a10."""
    parts = path.split("/")
    return [
        [(text, int(digits or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", part)] for part in parts
    ], path


def _list_folder(spec: str) -> list[str]:
    """The text files and tables in a folder."""
    names = os.listdir(spec)
    paths = [os.path.join(spec, name) for name in names if _holds_text(name)]
    files = [path for path in paths if os.path.isfile(path)]
    if not files:
        nested = any(os.path.isdir(os.path.join(spec, name)) for name in names)
        advice = attempt(os.path.join(spec, "*", "*")) if nested else attempt("ls -la", spec)
        raise DataError("text.no_text_in_folder", folder=spec, path=Path(spec).absolute(), advice=advice)
    return sorted(files, key=natural)


def _holds_text(name: str) -> bool:
    """Whether a file of this name may contain sentences; caches of Hugging Face's datasets only repeat them."""
    bare = Path(name).stem if Path(name).suffix.lower() in PACKED else name
    hidden = name.startswith(".") or name.endswith("~") or ABOUT.fullmatch(name)
    return not (hidden or NOT_TEXT.fullmatch(Path(bare).suffix) or re.fullmatch(r"(cache|tmp)-?\w*\.arrow", name))


def _keys(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """What distinguishes the files of one side: the parts of their names that not all of them share."""
    parts = [tuple(re.split(r"[^\w]+|_|(?<=\d)(?=\D)|(?<=\D)(?=\d)", path)) for path in paths]
    common = set(parts[0]).intersection(*parts) if len(parts) > 1 else set()
    return [tuple(part for part in name if part not in common) for name in parts]


def _hint_for_glob(spec: str) -> Message:
    """The hint for a glob without a match: the folder that is missing, or a file with a similar name."""
    folder = Path(spec)
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return nearest(folder)
    return nearest(folder / re.sub(r"[*?\[\]]", "", Path(spec).name))


def _count_files(paths: Sequence[str]) -> Message:
    return Message("text.one_file") if len(paths) == 1 else Message("text.files", {"count": len(paths)})
