"""Languages by their BCP 47 tags: canonical form, names, which tag another one means, and tags in names of files.

    canonical("zh_cn")                       "zh-CN"
    canonical("kor_Hang")                    "ko"
    describe("de")                           Language(tag="de", …, english="German", own="Deutsch", korean="독일어", …)
    find_match("en-GB", ["en", "de"])        "en"
    guess_from_files("train.en.gz", "train.de.gz")      ("en", "de")

A tag is a language, and optionally a script, a region and variants.  Extensions and private subtags are refused: no
model depends on them.
Not here: which language a text is in (detection.py), and the table of languages (language_table.py).
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import PurePosixPath

from jumok.errors import UsageError
from jumok.messages import Message
from jumok.text.language_table import LANGUAGES, Language
from jumok.text.scripts import CODES

Pair = tuple[str, str]  # the tags of source and target
TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(-(?P<script>[A-Z][a-z]{3}))?(-(?P<region>[A-Z]{2}|[0-9]{3}))?"
    r"(?P<variants>(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*)"
)
LONGEST = 35  # most characters of a tag
TEXTS = {  # suffixes after the language in names of text files
    ".txt", ".text", ".tok", ".bpe", ".sp", ".clean", ".raw", ".lc", ".tc", ".true", ".norm", ".tsv", ".jsonl",
    ".parquet", ".arrow",
}  # fmt: skip
# Codes besides those of the table: languages that were divided or renamed, and codes of countries that are often
# written for the language.  Countries whose code is also that of a language are not here.
OTHERS = {"sh": "sr-Latn", "zt": "zh-Hant", "jp": "ja", "cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "ua": "uk"}
TRADITIONAL, SIMPLIFIED = {"TW", "HK", "MO"}, {"CN", "SG", "MY"}  # regions by the Chinese script that they use
SAME = {"nb": "no", "fil": "tl"}  # languages that stand for each other where only one of them is there


@cache
def _aliases() -> dict[str, str]:
    """Return the tag that each other code means."""
    return {code: tag for tag, language in LANGUAGES.items() for code in language.codes} | OTHERS


def canonical(text: str) -> str:
    """Return the canonical form of a tag, or a `UsageError`: `en`, `pt-BR`, `zh-Hans`, `sr-Latn`.

    Case and underscores do not matter.  Three-letter and deprecated codes become the current ones, and a script that
    the language has anyway is left out.
    """
    tag = _normalize(text)
    if tag is None:
        raise UsageError("text.not_a_language", given=text[: 2 * LONGEST], advice=_advise(text))
    return tag


def is_canonical(text: str) -> bool:
    """Return whether a text is a tag in its canonical form."""
    return _normalize(text) == text


def _normalize(text: str) -> str | None:
    """Return the canonical form of a tag; None if it is not one."""
    if len(text) > LONGEST or not text.isascii():
        return None
    parts = text.strip().replace("_", "-").lower().split("-")
    if len(parts) > 1 and re.fullmatch("[a-z]{3}", parts[1]):  # zh-yue, zh-cmn: the second part alone is the language
        del parts[0]
    begin = _aliases().get(parts[0], parts[0]).split("-")
    spelled = [part.title() if re.fullmatch("[a-z]{4}", part) else part for part in parts[1:]]
    spelled = [part.upper() if len(part) == 2 else part for part in spelled]
    if len(begin) > 1 and spelled[:1] and spelled[0] in CODES:
        begin = begin[:1]  # the script that is given replaces the one that the code implies
    match = TAG.fullmatch("-".join([*begin, *spelled]))
    if match is None:
        return None
    language, script = match["language"], match["script"]
    usual = LANGUAGES[language].scripts[0] if language in LANGUAGES else None
    if script is not None and script not in ("Hans", "Hant") and CODES.get(script) == usual:
        return match[0].replace(f"-{script}", "", 1)
    return match[0]


def _advise(text: str) -> Message:
    """Return the tag of a language that was given by its name, or an example."""
    word = text.strip().casefold()
    for tag, language in LANGUAGES.items():
        if word in (language.english.casefold(), language.own.casefold(), language.korean):
            return Message("text.language_by_tag", {"tag": tag, "language": language.english})
    return Message("text.language_examples")


def describe(tag: str) -> Language:
    """Return names and scripts of a canonical tag; a language that is not in the table is named by its tag."""
    if (known := _simplify(tag) if tag.startswith("zh-") else tag) in LANGUAGES:
        return LANGUAGES[known]._replace(tag=tag)
    match = TAG.fullmatch(tag)
    base = match and LANGUAGES.get(match["language"])
    script = match and CODES.get(match["script"] or "")
    if not base or not match:
        return Language(tag, (), tag, tag, tag, (script,) if script else ())
    more = tag.removeprefix(f"{base.tag}-")
    english, own, korean = (f"{name} ({more})" for name in (base.english, base.own, base.korean))
    return Language(tag, (), english, own, korean, (script,) if script else base.scripts)


def _simplify(tag: str) -> str:
    """Return language and script of a tag: zh-TW and zh-Hant-HK become zh-Hant, en-GB becomes en."""
    match = TAG.fullmatch(tag)
    if match is None:
        return tag
    language, script, region = match["language"], match["script"], match["region"]
    if language == "zh" and script is None and region in TRADITIONAL | SIMPLIFIED:
        script = "Hant" if region in TRADITIONAL else "Hans"
    return f"{language}-{script}" if script else language


def find_match(asked: str, served: Iterable[str]) -> str | None:
    """Return the tag among canonical tags that a request means; None if there is none.

    It is the same tag, or else one of the same language and script in any region, or one of the same language if only
    one of the two names a script: en-GB finds en, zh-CN finds zh-Hans or zh, never zh-Hant.
    """
    tags, wanted = list(served), canonical(asked)
    if wanted in tags:
        return wanted
    simple = _simplify(wanted)
    for tag in tags:
        if _simplify(tag) == simple:
            return tag
    language = simple.split("-")[0]
    for tag in tags:
        other = _simplify(tag)
        same = SAME.get(other.split("-")[0], other.split("-")[0]) == SAME.get(language, language)
        if same and not ("-" in other and "-" in simple):
            return tag
    return None


def guess_from_files(source: str, target: str) -> Pair | None:
    """Return the languages in the names of two parallel files; None if the names do not say both.

    They are the last suffixes (train.en.gz), or else the only part in which the two names differ (en/1.txt, de/1.txt).
    """
    ours, theirs = (_strip(name) for name in (source, target))
    suffixes = [PurePosixPath(name).suffix[1:] for name in (ours, theirs)]
    return known_pair(suffixes) or _guess_from_difference(ours, theirs)


def guess_from_table(name: str, columns: Sequence[str] | None = None) -> Pair | None:
    """Return the languages of a table from its columns (`en`, `text.en`), or else its name (corpus.en-de.tsv)."""
    if columns is not None:
        first, second = columns
        fields = [column.rpartition(".")[2] for column in columns]
        return known_pair(fields) or _guess_from_difference(first, second)
    for part in reversed(re.split(r"[./]", _strip(name))):
        pair = re.fullmatch(r"([A-Za-z]{2,3})[-_]([A-Za-z]{2,3})", part)
        if pair and (known := known_pair(pair.groups())):
            return known
    return None


def _strip(name: str) -> str:
    """Return a name without the suffixes of packed and of plain text files."""
    from jumok.text.files import PACKED  # reads files, which a model that names its languages does not need

    path = PurePosixPath(name)
    while path.suffix.lower() in PACKED or path.suffix.lower() in TEXTS:
        path = path.with_suffix("")
    return str(path)


def _guess_from_difference(first: str, second: str) -> Pair | None:
    """Return the languages that two names differ in, if they differ in one part only."""
    ours, theirs = (re.split(r"[^A-Za-z0-9]+", name) for name in (first, second))
    if len(ours) != len(theirs):
        return None
    parts = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    return known_pair(parts[0]) if len(parts) == 1 else None


def known_pair(parts: Sequence[str]) -> Pair | None:
    """Return two tags if there are two parts and both are tags of languages in the table."""
    if len(parts) != 2:
        return None
    first, second = (_normalize(part) for part in parts)
    if first is None or second is None:
        return None
    listed = all(tag.split("-")[0] in LANGUAGES for tag in (first, second))
    return (first, second) if listed else None
