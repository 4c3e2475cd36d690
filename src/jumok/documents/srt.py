"""Subtitles in SRT: the words of the cues are translated, numbers and times stay byte for byte.

A sentence that goes on in the next cue is translated as one and divided again by the time that each cue is shown, near
the end of a clause where there is one.  A cue goes on if it does not end like a sentence, the next one follows within
two seconds and does not begin with a dash or a note, and most cues of the file end with punctuation at all.
Markup: <i>, <b>, <font …> and {\\an8}.
"""

import re
from itertools import pairwise
from typing import NamedTuple

from jumok.documents.building import Builder
from jumok.documents.items import CLOSE, MARK, OPEN, Item, make_mark, make_text
from jumok.documents.segments import Document
from jumok.documents.sentences import Fits, Splitter
from jumok.errors import DataError

TIME = r"(\d{1,3}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
HEADER = re.compile(rf"^(?:[ \t]*\d+[ \t]*\r?\n)?[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}[^\n]*(?:\n|\Z)", re.M)
MARKUP = re.compile(r"(<[^<>\n]{1,200}>|\{\\[^{}\n]{0,200}\}|\r?\n)")
TAG = re.compile(r"</?([A-Za-z]+)")
ENDED = re.compile(r"[.!?…。！？♪♫\])）」』\"”:：—–-]\s*$")
SPEAKS = re.compile(r"\s*(?:<[^<>]*>|\{\\[^{}]*\})*\s*[-–—♪♫\[(（]")
PAUSE = 2.0  # seconds between cues of one sentence
MOST = 6  # cues of one sentence
PUNCTUATED = 0.3  # least share of cues that end with punctuation, in a file whose cues are joined


class Cue(NamedTuple):
    """A subtitle: its text, when it is shown, and what is written before and after the text."""

    header: str
    text: str
    rest: str  # empty lines behind it
    start: float
    stop: float

    @property
    def pace(self) -> float:
        """Seconds for each character."""
        return max(self.stop - self.start, 0.001) / max(1, len("".join(MARKUP.sub("", self.text).split())))


def read_srt(text: str, language: str, *, longest: Fits | None = None) -> Document:
    """Return subtitles as a document."""
    cues = list_cues(text)
    if not cues:
        raise DataError("documents.no_cues")
    builder = Builder(Splitter(language, longest, "join"), escape=str, hollow=("i", "b", "u", "font"))
    builder.write(text[: text.index(cues[0].header)])
    ended = [ENDED.search(MARKUP.sub(" ", cue.text)) is not None for cue in cues if cue.text.strip()]
    joins = sum(ended) >= PUNCTUATED * len(ended)
    count = 0
    builder.write(cues[0].header)
    for cue, following in pairwise([*cues, None]):
        assert cue is not None
        _add_lines(builder, cue)
        if following is None:
            builder.end()
            builder.write(cue.rest)
            break
        count += 1
        if joins and count < MOST and continues(cue, following):
            raw = cue.rest + following.header
            builder.add(Item(MARK, "\n", raw, "line", (cue.pace, following.pace)))
        else:
            count = 0
            builder.end()
            builder.write(cue.rest + following.header)
    return builder.finish()


def list_cues(text: str) -> list[Cue]:
    """Return the cues of a file in their order."""
    headers = list(HEADER.finditer(text))
    cues = []
    for number, match in enumerate(headers):
        stop = headers[number + 1].start() if number + 1 < len(headers) else len(text)
        body = text[match.end() : stop]
        words = body.rstrip()
        times = [float(value) for value in match.groups()]
        start, end = (times[i] * 3600 + times[i + 1] * 60 + times[i + 2] + times[i + 3] / 1000 for i in (0, 4))
        cues.append(Cue(match[0], words, body[len(words) :], start, end))
    return cues


def continues(cue: Cue, following: Cue) -> bool:
    """Return whether a sentence of this cue goes on in the next."""
    words, more = MARKUP.sub(" ", cue.text).strip(), MARKUP.sub(" ", following.text).strip()
    if not words or not more or following.start - cue.stop > PAUSE or SPEAKS.match(following.text):
        return False
    if words.endswith(("...", "…")):
        return more[0].islower() or more.startswith(("...", "…"))
    return not ENDED.search(words)


def _add_lines(builder: Builder, cue: Cue) -> None:
    """Add the lines of a cue; a line with a dash is another speaker's."""
    pieces = MARKUP.split(cue.text)
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            if piece:
                builder.add(make_text(piece))
        elif piece.endswith("\n") and SPEAKS.match(pieces[number + 1]):
            builder.end()
            builder.write(piece)
        elif piece.endswith("\n"):
            builder.add(Item(MARK, "\n", piece, "line", (cue.pace, cue.pace)))
        elif (tag := TAG.match(piece)) is not None:
            builder.add(Item(CLOSE if piece.startswith("</") else OPEN, "", piece, tag[1].lower()))
        else:
            builder.add(make_mark(piece, "", "thin"))
