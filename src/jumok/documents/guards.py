"""Answers that are probably wrong: they repeat themselves, copy their source, or ended at their limit."""

import re
import unicodedata

REPEATS, COPIES, LIMIT = "repeats", "copies", "limit"
TIMES = 3  # of a phrase in a row
LONGEST_PHRASE = 20  # words
FEWEST_WORDS, FEWEST_CHARACTERS = 3, 12  # shorter answers may equal their source, such as names


def flag(source: str, answer: str, *, tokens: int | None = None, limit: int | None = None) -> tuple[str, ...]:
    """Return what is wrong with a translation: "limit", "repeats", "copies", in this order.

    `tokens` is its length in subwords without the end, and `limit` the most that the search allowed.
    """
    flags = [LIMIT] if tokens is not None and limit is not None and tokens >= limit else []
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
    ours, theirs = _letters(source), _letters(answer)
    if ours != theirs:
        return False
    return len(source.split()) >= FEWEST_WORDS or len(ours) >= FEWEST_CHARACTERS


def _letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())
