"""Sentences of a text, as spans; white space and what is not a sentence are between them.

    split_sentences("M. Dupont est là. Il dort.", "fr")  ->  [(0, 17), (18, 26)]

`sentencex` finds the ends of sentences; rules here join what it wrongly splits: titles (M. Dupont), ordinal numbers
and dates (3. října, im 19. Jahrhundert, 2020. 3. 5.), and what follows a quotation without a space (라고, と).

Lines    An empty line always ends a sentence.  A single line break may be a wrapped line of a paragraph or the end of
         an item.  With `newlines="auto"` lines are joined if they look wrapped: the paragraph is at least 45 columns
         wide, and the first word of the next line would not have fitted on the line; never before a list marker or
         after a colon.  "case" joins a line to one that begins with a small letter, or after a comma: for <br>, which
         somebody has written on purpose.  "break" ends a sentence at every line break, "join" at none.
Long     A sentence that does not fit is split after clauses, then between words, then, in scripts without spaces,
         between characters.  A word that does not fit is an error: nothing is cut.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jumok import extras
from jumok.documents.scripts import OBJECT
from jumok.errors import DataError, MissingPackage
from jumok.text.boundaries import SPACES, UNSPACED

Fits = int | Callable[[str], bool]  # most characters of a sentence, or whether the model can take it
Span = tuple[int, int]

LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
NARROWEST = 45  # columns of a paragraph whose lines may be wrapped
MARKER = re.compile(
    r"[ \t]*(?:(?:[-*+•‣◦▪·–—►→♪]|\#{1,6}|\d{1,3}[.)]|\(?[a-zA-Z]\)|\[[ xX]\])[ \t]+|(?:>[ \t]*)+)+(?=\S)"
)
NUMBER = re.compile(r"[ \t]*\d{1,3}\.[ \t]+$")
ORDINALS = frozenset(
    ("cs", "da", "de", "et", "fi", "hr", "hu", "lv", "nb", "no", "pl", "sk", "sl", "sr", "tr")
)  # 3. is third
QUOTED = re.compile(r"(?:\r\n|[\n\r])[ \t]*>[> \t]*")
MONTHS = (
    "Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|"
    "Jahrhundert|Jh|Weltkrieg|Auflage|Etage|Stock|Klasse|Platz|Lebensjahr|Geburtstag|Tag|Kapitel|Semester|Bundesliga"
)
ORDINAL = re.compile(r"(?:^|[^\d.,])\d{1,3}\.\s+$")
GERMAN = re.compile(rf"(?:{MONTHS})")
BEFORE_ORDINAL = re.compile(
    r"(?:^|\s)(?:am|im|der|die|das|den|dem|des|vom|zum|zur|bis|seit|ab|beim|ein|eine)\s\d{1,3}\.\s+$", re.I
)
DATE = re.compile(r"\d{1,4}\.\s*$")
FULL_DATE = re.compile(r"\d{1,4}\.\s?\d{1,2}\.(?:\s?\d{1,2}\.)?\s*$")
TITLES = {  # never the end of a sentence
    "fr": r"M|MM|Mme|Mmes|Mlle|Mlles|Dr|Drs|Pr|Me|Mgr|St|Ste|av|bd|boul|env|chap|fig|vol|éd|p|pp|art|n|no|cf",
    "en": r"Mr|Mrs|Ms|Dr|Prof|Rev|Hon|Gen|Col|Capt|Lt|Sgt|St|vs|No|Nos|Fig|Figs|pp|vol|ed|eds|cf|approx|e\.g|i\.e",
    "de": r"Hr|Hrn|Fr|Dr|Prof|Nr|Str|St|bzw|ca|evtl|ggf|inkl|vgl|z\.\s?B|"
    r"d\.\s?h|u\.\s?a|i\.\s?d\.\s?R|sog|Abb|Abs|Art|Bd|S",
    "es": r"Sr|Sra|Sres|Srta|Dr|Dra|D|Dña|Ud|Uds|pág|págs|núm|vol|cap|fig|av|aprox",
    "it": r"sig|sigg|sig\.ra|dott|dott\.ssa|prof|prof\.ssa|ing|avv|pag|pagg|fig|vol|cap|ecc",
    "cs": r"p|pí|sl|Dr|Ing|Mgr|Bc|MUDr|JUDr|PhDr|RNDr|prof|doc|např|tzv|tj|resp|č|str|ul|nám|sv|cca|r|stol",
    "ru": r"г|гг|в|вв|ул|пр|им|стр|рис|табл|см|ср|т|тов|проф|акад|др|руб|тыс|млн|млрд|напр",
    "pl": r"p|dr|prof|inż|mgr|np|tzn|tj|ul|nr|str|św|ok|m\.in",
}
QUOTE_END = re.compile(r"[\"'”’»」』》〉)）]$")
JAPANESE = re.compile(r"と|って|という|といっ|といわ|なんて|など|だ|です|の|を|に|は|が|も|、|。")
CLAUSE = re.compile(r"[;:,、，；：。！？!?.…—–]+[\"'”’»」』)）]*(?:\s+|(?<=[、，；：。！？])|$)|\s+[—–-]\s+")


@dataclass(frozen=True)
class Splitter:
    """How to split texts into sentences; called with a text, it returns their spans."""

    language: str = "en"  # of the text; a BCP 47 tag
    longest: Fits | None = None
    newlines: str = "auto"  # or "case", "break", "join"
    sentences: bool = True  # split at the ends of sentences

    def __call__(self, text: str) -> list[Span]:
        return split_sentences(
            text, self.language, longest=self.longest, newlines=self.newlines, sentences=self.sentences
        )


def split_sentences(
    text: str, language: str = "en", *, longest: Fits | None = None, newlines: str = "auto", sentences: bool = True
) -> list[Span]:
    """Return the spans of the sentences of a text, without the white space and the list markers around them."""
    language = re.split("[-_]", language.lower(), maxsplit=1)[0]
    spans = []
    for start, stop in join_lines(text, newlines):
        block = QUOTED.sub(lambda match: " " * len(match[0]), text[start:stop])
        if sentences:
            marker = skip_marker(block, language)
            ends = [marker + end for end in find_ends(block[marker:], language)]
        else:
            marker, ends = 0, [len(block)]
        for first, last in zip([marker, *ends], ends, strict=False):
            piece = text[start + first : start + last]
            if stripped := piece.strip():
                at = start + first + piece.index(stripped[0])
                spans += [(at + a, at + b) for a, b in divide(stripped, longest)]
    return spans


# ------------------------------------------------------------------------------------------ lines


def join_lines(text: str, newlines: str) -> list[Span]:
    """Return the spans of blocks: lines, joined where a line break is not the end of anything."""
    lines, position = list[Span](), 0
    for match in LINE_BREAK.finditer(text):
        lines.append((position, match.start()))
        position = match.end()
    lines.append((position, len(text)))
    blocks: list[Span] = []
    paragraph: list[Span] = []
    for start, stop in [*lines, (len(text), len(text))]:
        if text[start:stop].strip():
            paragraph.append((start, stop))
        elif paragraph:
            blocks += _join_paragraph(text, paragraph, newlines)
            paragraph = []
    return blocks


def _join_paragraph(text: str, lines: Sequence[Span], newlines: str) -> Iterator[Span]:
    """Yield the blocks of a paragraph, which has no empty lines."""
    contents = [text[start:stop].rstrip() for start, stop in lines]
    widths = [measure(line) for line in contents]
    widest = max(widths)
    first = lines[0][0]
    for number, (_, stop) in enumerate(lines):
        if number + 1 < len(lines):
            following = contents[number + 1]
            if newlines == "join" or (newlines == "case" and _continues_line(contents[number], following)):
                continue
            if newlines == "auto" and widest >= NARROWEST and not contents[number].endswith((":", "：")):
                quoted = re.match(r"[ \t]*(?:>[> \t]*)?", following)
                rest = following[quoted.end() if quoted else 0 :]
                word = SPACES.split(rest, maxsplit=1)[0]
                fills = 2 if UNSPACED.match(word) else 1 + measure(word)
                if widths[number] + fills > widest and not MARKER.match(rest):
                    continue
        yield first, stop
        if number + 1 < len(lines):
            first = lines[number + 1][0]


def _continues_line(line: str, following: str) -> bool:
    first = following.lstrip()[:1]
    return first.islower() or line.endswith((",", "，", "、"))


def measure(line: str) -> int:
    """Return the columns of a line: East Asian characters take two."""
    return len(line) if line.isascii() else sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def skip_marker(block: str, language: str) -> int:
    """Return where a block begins behind its list marker."""
    match = MARKER.match(block)
    if match is None:
        return 0
    rest = block[match.end() :]
    ordinal = language in ORDINALS and (rest[0].islower() or GERMAN.match(rest))
    if NUMBER.fullmatch(match[0]) and (ordinal or rest[0].isdigit()):
        return 0  # an ordinal number, or a date
    return match.end()


# ------------------------------------------------------------------------------------------ sentences


def find_ends(block: str, language: str) -> list[int]:
    """Return where the sentences of a block end."""
    try:
        import sentencex
    except ImportError as error:
        if extras.find_missing(error) is None:
            raise
        raise MissingPackage("documents.no_sentencex", advice=extras.hint("sentencex")) from None
    plain = re.sub("[\ud800-\udfff]", "\ufffd", LINE_BREAK.sub(lambda match: " " * len(match[0]), block))
    pieces = sentencex.segment(language, plain)
    if "".join(pieces) != plain:  # never seen; white space must be right whatever it does
        return [len(block)]
    ends, position, start = list[int](), 0, 0
    for number, piece in enumerate(pieces):
        position += len(piece)
        following = pieces[number + 1] if number + 1 < len(pieces) else ""
        if following and continues(plain[start:position], following, language):
            continue
        ends.append(position)
        start = position
    return ends


def continues(left: str, right: str, language: str) -> bool:
    """Return whether a sentence goes on where `sentencex` has ended it."""
    bare = left.rstrip()
    if not right.strip():
        return False
    if DATE.search(left) and right[0].isdigit():
        return True
    if language in ("ko", "ja", "zh") and FULL_DATE.search(left):
        return True
    if ORDINAL.search(left) and (right[0].islower() or (language == "de" and _is_ordinal(left, right))):
        return True
    titles = TITLES.get(language)
    if titles and bare.endswith(".") and re.search(rf"(?:^|[\s(\[«\"'„“’-])(?:{titles})\.$", bare):
        return True
    if bare == left and QUOTE_END.search(bare):  # no space after a quotation
        return bool(JAPANESE.match(right)) if language == "ja" else right[0].isalpha() and language != "zh"
    if QUOTE_END.search(bare) or bare.endswith(("...", "…")):
        return right[0].islower()
    return False


def _is_ordinal(left: str, right: str) -> bool:
    return GERMAN.match(right) is not None or (BEFORE_ORDINAL.search(left) is not None and right[0].isupper())


# ------------------------------------------------------------------------------------------ long sentences


def divide(sentence: str, longest: Fits | None) -> list[Span]:
    """Return the spans of the parts of a sentence that fit, as few as possible."""
    fits = _as_function(longest)
    if fits(sentence):
        return [(0, len(sentence))]
    spans, start = list[Span](), 0
    cuts = [
        sorted({match.end() for match in CLAUSE.finditer(sentence)}),
        [match.end() for match in SPACES.finditer(sentence)],
        [match.start() for match in UNSPACED.finditer(sentence) if match.start()],
    ]
    while not fits(sentence[start:].rstrip()):
        stop = next((cut for each in cuts if (cut := _find_cut(sentence, start, each, fits))), None)
        if stop is None:
            raise DataError("documents.word_too_long", beginning=sentence[start : start + 40])
        spans.append((start, start + len(sentence[start:stop].rstrip())))
        start = stop + len(sentence[stop:]) - len(sentence[stop:].lstrip())
    if start < len(sentence):
        spans.append((start, len(sentence)))
    return spans


def _as_function(longest: Fits | None) -> Callable[[str], bool]:
    if longest is None:
        return lambda text: True
    if isinstance(longest, int):
        most = longest
        return lambda text: len(text) - text.count(OBJECT) <= most
    return longest


def _find_cut(sentence: str, start: int, cuts: Sequence[int], fits: Callable[[str], bool]) -> int | None:
    """Return the last of the cuts that leaves a part that fits, by bisection."""
    from bisect import bisect_right

    low = bisect_right(cuts, start)
    high = len(cuts)
    best = None
    while low < high:
        middle = (low + high) // 2
        if fits(sentence[start : cuts[middle]].rstrip()):
            best, low = cuts[middle], middle + 1
        else:
            high = middle
    return best
