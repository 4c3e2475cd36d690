"""The words of a token store: every distinct word of one side, read once in bounded memory.

Words are runs of tokens of which only the first begins with a space.  Each is hashed as numbers, and only words that
were not seen before are decoded, so that the time hardly depends on the length of the text.
"""

import numpy as np

from jumok.data.store import StoredSide
from jumok.text.known import MOST, hash_words, pack_words
from jumok.text.vocabulary import Vocabulary

ROWS = 1 << 15  # sentences that are read at a time
LONGEST = 64  # tokens of a word by which it is told from others
LONG = 24.0  # characters of a word, on average, from which on a language has no spaces between words


def find_known_words(side: StoredSide, count: int, vocabulary: Vocabulary) -> bytes | None:
    """Return the words of a side as `text.known.KnownWords` reads them; None where a text has no words in this sense.

    That is so for texts without spaces, such as Japanese, for vocabularies of bytes, and beyond two million words.
    """
    begins = np.array(vocabulary.begins())
    if not begins.any():
        return None
    seen, hashes, characters, words = np.zeros(0, np.uint64), set[int](), 0, 0
    for first in range(0, count, ROWS):
        ids, starts = _read(side, first, min(count, first + ROWS), begins)
        if not len(starts):
            continue
        keys, places = np.unique(_hash(ids, starts), return_index=True)
        new = ~np.isin(keys, seen, assume_unique=True)
        seen = np.concatenate([seen, keys[new]])
        stops = np.append(starts[1:], len(ids))
        texts = vocabulary.decode_all([ids[starts[place] : stops[place]].tolist() for place in places[new]])
        words, characters = words + len(texts), characters + sum(map(len, texts))
        hashes |= hash_words(texts)
        if len(hashes) > MOST or (words > 100 and characters > LONG * words):
            return None
    return pack_words(hashes) if hashes else None


def _read(side: StoredSide, first: int, stop: int, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of some sentences, and where their words start."""
    edges = side.begins[first : stop + 1].astype(np.int64)
    ids = np.asarray(side.ids[edges[0] : edges[-1]]).astype(np.int64)
    is_start = begins[ids]
    inner = edges[:-1] - edges[0]
    is_start[inner[inner < len(ids)]] = True
    return ids, np.flatnonzero(is_start)


def _hash(ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return a number for each word, which depends on its tokens and their order."""
    lengths = np.diff(np.append(starts, len(ids)))
    within = np.arange(len(ids)) - np.repeat(starts, lengths)  # the place of each token in its word
    factors = np.random.default_rng(1).integers(1, 2**63, LONGEST, dtype=np.uint64) | np.uint64(1)
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * factors[np.minimum(within, LONGEST - 1)]
    return np.add.reduceat(mixed, starts) if len(starts) else np.zeros(0, np.uint64)
