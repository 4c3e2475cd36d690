"""Answers that are probably wrong: they repeat themselves, copy their source, or ended at their limit."""

import re
import unicodedata

REPEATS, COPIES, LIMIT = "repeats", "copies", "limit"
TIMES = 3  # of a phrase in a row
LONGEST_PHRASE = 20  # words
FEWEST_WORDS, FEWEST_LETTERS = 3, 8  # shorter answers may equal their source, such as names and numbers
MANY_LETTERS = 24  # of one or two words


def find_faults(source: str, answer: str, *, ended: bool = True) -> tuple[str, ...]:
    """Return what is wrong with a translation: "limit", "repeats", "copies", in this order.

    `ended` says whether the model ended the sentence by itself, and not because it was as long as allowed.
    """
    flags = [] if ended else [LIMIT]
    flags += [REPEATS] if repeats(answer) and not repeats(source) else []
    flags += [COPIES] if copies(source, answer) else []
    return tuple(flags)


def repeats(text: str) -> bool:
    """Return whether a phrase of up to 20 words, or of up to 20 characters, follows itself three times in a row.

    Single characters may: "hmmm", "1000", "…".
    """
    words = text.casefold().split()
    bare = [word.strip(".,;:!?…、。") or word for word in words]
    if any(_repeats_with(bare, size) for size in range(1, min(LONGEST_PHRASE, len(bare) // TIMES) + 1)):
        return True
    return any(_is_long_run(word) for word in words if len(word) >= 2 * TIMES)


def _repeats_with(words: list[str], size: int) -> bool:
    """Return whether `size` words follow themselves often enough: each equals the one `size` places before it."""
    run = 0
    for number in range(size, len(words)):
        run = run + 1 if words[number] == words[number - size] else 0
        if run == size * (TIMES - 1):
            phrase = words[number - size + 1 : number + 1]
            if any(map(str.isalpha, "".join(phrase))):
                return True
    return False


def _is_long_run(word: str) -> bool:
    """Return whether two or more letters follow themselves often inside of a word, as in scripts without spaces."""
    match = re.search(r"(\w{2,20}?)\1{2,}", word[:2_000])
    return match is not None and len(set(match[1])) > 1 and any(map(str.isalpha, match[1]))


def copies(source: str, answer: str) -> bool:
    """Return whether a translation is its source, apart from case, space and punctuation."""
    ours = _simplify(source)
    if ours != _simplify(answer):
        return False
    letters = sum(map(str.isalpha, ours))
    return letters >= MANY_LETTERS or (letters >= FEWEST_LETTERS and len(source.split()) >= FEWEST_WORDS)


def _simplify(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())
