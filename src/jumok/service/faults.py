"""What is suspicious about a translation, without a reference: it is as long as allowed, repeats itself, or copies."""

import re

REPEATS = 3  # times that a phrase stands in a row
WORDS = 8  # words of the longest phrase
LETTERS = re.compile(r"[^\W\d_]+")
RUN = re.compile(r"(\S{2,24}?)\1{2,}")  # for scripts without spaces
LEAST_WORDS, LEAST_LETTERS = 3, 12  # names and numbers are copied rightly


def find_faults(source: str, text: str, *, ended: bool) -> tuple[str, ...]:
    """Return the names of the faults; `ended` says whether the model ended the sentence by itself."""
    faults = []
    if not ended:
        faults.append("limit")
    if repeats(text) and not repeats(source):
        faults.append("repeats")
    if copies(source, text):
        faults.append("copies")
    return tuple(faults)


def repeats(text: str) -> bool:
    """Return whether a phrase stands three times in a row."""
    words = text.casefold().split()
    for size in range(1, min(WORDS, len(words) // REPEATS) + 1):
        same = 0  # consecutive words that equal the word `size` before
        for before, word in zip(words, words[size:], strict=False):
            same = same + 1 if word == before else 0
            if same >= (REPEATS - 1) * size and any(LETTERS.search(one) for one in (before, word)):
                return True
    return any(LETTERS.search(match[1]) for match in RUN.finditer(text))


def copies(source: str, text: str) -> bool:
    """Return whether a translation is its source, which is longer than a name."""
    words = LETTERS.findall(source.casefold())
    long = len(words) >= LEAST_WORDS and sum(map(len, words)) >= LEAST_LETTERS
    return long and words == LETTERS.findall(text.casefold())
