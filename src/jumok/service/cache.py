"""Answers that were given before, the least recently used dropped first; bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from jumok.service.values import Answer
from jumok.translation import Translation

FIXED = 1_200  # bytes of an entry besides its text: objects, keys, the table
PART = 120  # bytes of a token, a score or a word


class Cache:
    """Answers by everything that they depend on."""

    def __init__(self, most: int) -> None:
        """Hold at most so many bytes, as far as they can be estimated."""
        self.most, self.bytes = most, 0
        self._entries: OrderedDict[Hashable, tuple[Answer, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Answer | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, answer: Answer) -> None:
        size = measure(answer.translation)
        if size > self.most // 8 or key in self._entries:
            return
        self._entries[key] = (answer, size)
        self.bytes += size
        while self.bytes > self.most:
            _, (_, dropped) = self._entries.popitem(last=False)
            self.bytes -= dropped


def measure(translation: Translation) -> int:
    """Return about how many bytes a translation takes; a character takes at most four."""
    size = FIXED + 4 * (len(translation.source) + len(translation.text))
    size += PART * (2 * len(translation.tokens) + 2 * len(translation.words) + len(translation.alignment or ()))
    if translation.attention is not None:
        view = translation.attention
        size += sum(int(part.nbytes) for part in (view.encoder, view.decoder, view.cross))
    return size + sum(map(measure, translation.alternatives))
