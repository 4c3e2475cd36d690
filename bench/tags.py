"""How exactly inline tags are placed in a translation.

    bench/tags runs/demo                                 # 500 test phrases of the phrasebook, which have gold links
    bench/tags runs/demo runs/demo-2 --split validation --seed 2
    bench/tags --gold                                    # gold links instead of a model's: what placement can do
    bench/tags runs/tiny --source test2016.en.gz         # no gold: tags balanced, none empty, no text lost

**With gold.** The English of a phrase gets tags, a model aligns it with the phrasebook's Korean, and the words that
each tag encloses are compared with those that gold links to the tagged words.  A tag is *exact* if both sets are
equal: one word too few or too many is wrong.  Every word is tagged once, whatever it is, and counts once; a word
without a gold link is not counted, and the table says how many there are.  Function words (articles, prepositions,
auxiliaries, pronouns of a question: `FUNCTION`) are also shown apart, but the first row counts them.

Several words: exact of all stretches, and of those whose translation is in one piece; a tag that stays one piece
cannot be exact for the others.  Two and three tags, and one in another: of one random choice for each phrase, where
each translation is in one piece and no word translates two of the tagged stretches.

**Without gold.** Sentences of a file get up to three random tags, some of them nested, and are translated.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

NAMES = "biu"
FUNCTION = re.compile(
    "(an?|the|of|to|at|in|on|for|with|by|from|than|as|is|are|am|was|were|be|been|do|does|did|has|have|had|will|would|can|"
    "could|may|shall|cannot|(do|does|did|wo|ca|is|are|was|were)n't|let's|there|it|he|she|you|not|but|and|or|so|because|if|that)[.,?!]*",
    re.IGNORECASE,
)
Span = tuple[int, int]  # first word, last word + 1


@dataclass
class Tally:
    """Right ones of several."""

    right: int = 0
    count: int = 0

    def add(self, right: bool) -> None:
        self.right, self.count = self.right + right, self.count + 1

    def __str__(self) -> str:
        return f"{self.right / self.count:7.1%} of {self.count:,}" if self.count else "      –"


def tag(sentence: str, spans: Sequence[Span]) -> str:
    """Return a sentence with a tag around each span, the punctuation at its ends outside; spans may be nested."""
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", sentence)]
    inserted: list[tuple[int, int, str]] = []  # place, order at the same place, tag
    for name, (start, stop) in zip(NAMES, spans, strict=False):
        first, last = words[start][0], words[stop - 1][1]
        core = re.search(r"\w.*\w|\w", sentence[first:last], re.S)
        begin, end = (first + core.start(), first + core.end()) if core else (first, last)
        inserted += [(begin, -(stop - start), f"<{name}>"), (end, stop - start - 100, f"</{name}>")]
    written, position = "", 0
    for place_, _, each in sorted(inserted):
        written += sentence[position:place_] + each
        position = place_
    return written + sentence[position:]


def find_words(rendered: str) -> dict[str, set[int]]:
    """Return the words that each tag encloses, counted from 0."""
    open_, found = set[str](), dict[str, set[int]]()
    word = 0
    for token in re.findall(r"</?[biu]>| |[^< ]+", rendered):
        if token == " ":
            word += 1
        elif token.startswith("</"):
            open_.discard(token[2])
        elif token.startswith("<"):
            open_.add(token[1])
            found[token[1]] = set()
        else:
            for name in open_:
                found[name].add(word)
    return found


def place(source: str, spans: Sequence[Span], target: str, links: Any) -> tuple[str, dict[str, set[int]]]:
    """Return a translation with the tags of its source, and the words in each of them."""
    from jumok import documents
    from jumok.translation import Translation

    document = documents.read_html(tag(source, spans), "en")
    [segment] = document.segments
    assert segment.text == source, (segment.text, source)
    rendered = document.render([Translation(source, target, 0.0, 0.0, alignment=tuple(links))])
    return rendered, find_words(rendered)


def draw(count: int, words: int, random: Random) -> list[Span]:
    """Return so many stretches of one to three words, apart from each other; fewer in a short sentence."""
    spans: list[Span] = []
    for _ in range(8 * count):
        start = random.randrange(words)
        stop = min(words, start + random.randint(1, 3))
        if len(spans) < count and all(stop <= first or start >= last for first, last in spans):
            spans.append((start, stop))
    return spans


def is_one_piece(words: set[int]) -> bool:
    """Whether words stand together."""
    return max(words) - min(words) + 1 == len(words)


class Phrasebook:
    """Phrases with gold links, and the tallies of how tags were placed by others."""

    def __init__(self, phrases: Sequence[Any], seed: int) -> None:
        self.phrases, self.random = phrases, Random(f"tags/{seed}")
        self.rows: dict[str, Tally] = {}
        self.without = 0

    def measure(self, links: Sequence[Any]) -> Iterator[tuple[str, str]]:
        """Yield the rows of the table for the links of each phrase."""
        for phrase, linked in zip(self.phrases, links, strict=True):
            words = phrase.english.split(" ")
            for size in (1, 2, 3):
                for start in range(len(words) - size + 1):
                    self._tag_once(phrase, linked, (start, start + size))
            for count in (2, 3):
                spans = draw(count, len(words), self.random)
                if len(spans) == count:
                    self._tag_several(phrase, linked, spans, [f"each of {count} tags"] * count)
            start = self.random.randrange(len(words) - 2)
            inner = start + self.random.randrange(3)
            self._tag_several(phrase, linked, [(start, start + 3), (inner, inner + 1)], ["outer tag", "tag in a tag"])
        yield from ((row, str(tally)) for row, tally in self.rows.items())
        yield "words without a gold link, not counted", f"{self.without}"

    def _tag_once(self, phrase: Any, linked: Any, span: Span) -> None:
        wanted, size = find_gold(phrase, span), span[1] - span[0]
        if not wanted:
            self.without += size == 1
            return
        right = place(phrase.english, [span], phrase.korean, linked)[1]["b"] == wanted
        self._score("one word" if size == 1 else f"{size} words", right)
        if size == 1:
            is_function = FUNCTION.fullmatch(phrase.english.split(" ")[span[0]])
            self._score("  function words" if is_function else "  other words", right)
        elif is_one_piece(wanted):
            self._score(f"  {size} words, translation in one piece", right)

    def _tag_several(self, phrase: Any, linked: Any, spans: Sequence[Span], rows: Sequence[str]) -> None:
        wanted = [find_gold(phrase, span) for span in spans]
        nested = spans[0][0] <= spans[1][0] < spans[0][1]
        apart = sum(map(len, wanted)) == len(set[int]().union(*wanted))
        if (nested or apart) and all(each and is_one_piece(each) for each in wanted):
            found = place(phrase.english, spans, phrase.korean, linked)[1]
            for name, row, each in zip(NAMES, rows, wanted, strict=False):
                self._score(row, found[name] == each)

    def _score(self, row: str, right: bool) -> None:
        self.rows.setdefault(row, Tally()).add(right)


def find_gold(phrase: Any, span: Span) -> set[int]:
    """Return the Korean words that gold links to some English ones."""
    return {target for source, target in phrase.alignment if span[0] <= source < span[1]}


def check(model: Any, sentences: Sequence[str], seed: int) -> Iterator[tuple[str, str]]:
    """Yield the rows for sentences without gold: what must always hold, and the order of tags."""
    rows = {
        name: Tally() for name in ("tags balanced", "tag pairs not empty", "no text lost", "order as in the source")
    }
    random = Random(f"tags/{seed}")
    for one in model.translate(list(sentences), align=True):
        words = one.source.split(" ")
        spans = draw(random.randint(1, 3), len(words), random)
        if len(spans) < 3 and spans[0][1] - spans[0][0] > 1 and random.random() < 0.5:
            spans.append((spans[0][0], spans[0][0] + 1))
        rendered, found = place(one.source, spans, one.text, one.alignment)
        tags = re.findall(r"<(/?)([biu])>", rendered)
        stack: list[str] = []
        balanced = sorted(tags) == sorted(
            [("", n) for n in NAMES[: len(spans)]] + [("/", n) for n in NAMES[: len(spans)]]
        )
        for close, name in tags:
            balanced = balanced and (not close or stack.pop() == name)
            stack += [] if close else [name]
        rows["tags balanced"].add(balanced)
        rows["no text lost"].add(re.sub("</?[biu]>", "", rendered) == one.text)
        for name, _ in zip(NAMES, spans, strict=False):
            rows["tag pairs not empty"].add(bool(found.get(name)))
        if len(spans) == 2 and (spans[0][1] <= spans[1][0] or spans[1][1] <= spans[0][0]) and all(found.values()):
            rows["order as in the source"].add((spans[0] < spans[1]) == (min(found["b"]) < min(found["i"])))
    yield from ((row, str(tally)) for row, tally in rows.items())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/tags", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", help="folders of runs or models, English to Korean unless --source is given"
    )
    parser.add_argument("--gold", action="store_true", help="place by gold links")
    parser.add_argument("--split", choices=["validation", "test"], default="test")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the phrasebook, and of the tags that are drawn")
    parser.add_argument("--source", help="a file of sentences without gold, which are translated")
    given = parser.parse_args(arguments)
    import jumok
    from jumok.data.made.phrasebook import phrases
    from jumok.evaluation.alignment import alignment_error_rate
    from jumok.text.lines import read_lines

    texts = phrases(given.split, given.sentences, seed=given.seed) if not given.source else []
    if given.gold:
        print("gold links")
        for row, value in Phrasebook(texts, given.seed).measure([phrase.alignment for phrase in texts]):
            print(f"  {row:42}{value}")
    for folder in given.models:
        print(folder, flush=True)
        model = jumok.load(folder)
        if given.source:
            lines = [line for line, _ in zip(read_lines(given.source), range(given.sentences), strict=False)]
            rows = check(model, [" ".join(line.split()) for line in lines], given.seed)
        else:
            links = model.align([phrase.english for phrase in texts], [phrase.korean for phrase in texts])
            errors = alignment_error_rate(list(map(set, links)), [set(phrase.alignment) for phrase in texts])
            print(f"  {'alignment error rate':42}{errors:7.1%}")
            rows = Phrasebook(texts, given.seed).measure(links)
        for row, value in rows:
            print(f"  {row:42}{value}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
