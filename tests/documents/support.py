"""Translators for the tests of documents: functions of a text, with the alignment that they really have."""

from collections.abc import Callable
from random import Random

from jumok.documents.segments import Document
from jumok.translation import Translation

Answer = tuple[str, tuple[tuple[int, int], ...] | None]


def same(text: str) -> Answer:
    return text, None


def shout(text: str) -> Answer:
    """Every word in capitals, in its place."""
    return text.upper() + " \u0416", tuple((number, number) for number in range(len(text.split())))


def backwards(text: str) -> Answer:
    """The words in the opposite order."""
    words = text.split()
    return " ".join(reversed(words)), tuple((number, len(words) - 1 - number) for number in range(len(words)))


def scramble(seed: int) -> Callable[[str], Answer]:
    """Other words, of another number, with links at random, some of them beyond the sentence."""

    def answer(text: str) -> Answer:
        draw = Random(f"{seed}/{text!r}")
        words = [
            draw.choice(["ein", "Wort,", "(und)", "noch", "어떤", "“es”", "...", "字"])
            for _ in range(draw.randint(1, 9))
        ]
        count = len(text.split())
        links = {(draw.randint(0, count), draw.randint(0, len(words))) for _ in range(draw.randint(0, 12))}
        return " ".join(words), tuple(sorted(links))

    return answer


def translate(document: Document, answer: Callable[[str], Answer]) -> str:
    """The document with what `answer` makes of its sentences."""
    answers = [(segment.text, *answer(segment.text)) for segment in document.segments]
    return document.render([Translation(source, text, 0.0, 0.0, alignment=links) for source, text, links in answers])
