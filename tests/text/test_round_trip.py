"""Promise D1 inside the vocabulary: no text is lost between strings and ids, whatever is in it.

decode(encode(text)) == normalize(text), exactly, for every text that UTF-8 can hold; half a surrogate pair is no text.
"""

import random
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from jumok.errors import DataError
from jumok.text.vocabulary import SPECIALS, Vocabulary, normalize
from tests.text.test_vocabulary import ENGLISH, KINDS, KOREAN

PLANES = 17
BATCH = 1_000
COMBINING = [*range(0x300, 0x370), *range(0x1AB0, 0x1AFF), *range(0x20D0, 0x20F1), 0x1161, 0x11A8, 0x93C, 0x3099, 0x345]
EDGES = [
    0xD7FF,
    0xE000,
    0xFFFC,
    0xFFFD,
    0xFFFE,
    0xFFFF,
    0x10FFFF,
    *(n << 16 for n in range(1, PLANES)),
    0x7F,
    0x80,
    0x7FF,
    0x800,
]
EMOJI = [
    "👩‍👩‍👧‍👦",
    "🇰🇷",
    "👍🏽",
    "❤️",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "1️⃣",
    "\u200d",
    "\ufe0f",
]
LOOKS_SPECIAL = [
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<sep>",
    "<mask>",
    "<0x41>",
    "<0x",
    "▁",
    "▁▁",
    " ⁇ ",
    "⁇",
    "\ufffd",
    "\ufeff",
]
SPACES = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\v",
    "\f",
    "\x1c",
    "\x1f",
    "\x85",
    "\xa0",
    "\u1680",
    "\u2000",
    "\u2028",
    "\u202f",
    "\u3000",
]


def character(draw: random.Random, plane: int | None = None) -> str:
    """Any character of a plane, or of any, but no half of a surrogate pair."""
    code = (draw.randrange(PLANES) if plane is None else plane) << 16 | draw.randrange(1 << 16)
    return chr(code ^ 0x1000 if 0xD800 <= code < 0xE000 else code)


def known(draw: random.Random) -> str:
    """A piece of the text that the vocabulary was learnt from."""
    sentence = draw.choice(draw.choice((ENGLISH, KOREAN)))
    start = draw.randrange(len(sentence))
    return sentence[start : start + draw.randint(1, 9)]


PARTS: list[Callable[[random.Random], str]] = [
    known,
    character,
    lambda draw: character(draw, 0),
    lambda draw: chr(draw.choice(EDGES)),
    lambda draw: chr(draw.choice(COMBINING)),
    lambda draw: (
        draw.choice("aeouAE가ᄀ한<=") + "".join(chr(draw.choice(COMBINING)) for _ in range(draw.randint(1, 4)))
    ),
    lambda draw: draw.choice(EMOJI),
    lambda draw: draw.choice(LOOKS_SPECIAL),
    lambda draw: draw.choice(SPACES),
    lambda draw: chr(draw.randrange(0x20)),
    lambda draw: chr(draw.randrange(0x80, 0xA0)),
]


def texts() -> Iterator[str]:
    """Texts without end, always the same ones: edges, each plane in turn, mixtures; some have a huge word."""
    draw = random.Random(12)
    yield from map(chr, EDGES)
    for number in count(1):
        plane = number % (2 * PLANES)
        if plane < PLANES:
            text = "".join(character(draw, plane) for _ in range(draw.randint(1, 12)))
        else:
            text = "".join(draw.choice(PARTS)(draw) for _ in range(draw.randint(0, 16)))
        yield text if number % 400 else (text or "x") * 2_000


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request) -> Vocabulary:
    return Vocabulary.train(ENGLISH + KOREAN, size=400, kind=request.param)


def test_decoding_what_was_encoded_gives_the_text_in_all_planes_of_unicode(vocabulary, tries, kept):
    left = tries(500, 100_000)
    source = texts()
    while batch := list(islice(source, min(BATCH, left))):
        left -= len(batch)
        encoded = vocabulary.encode_all(batch)
        assert vocabulary.decode_all(encoded) == [normalize(text) for text in batch]
        assert all(SPECIALS <= i < len(vocabulary) for ids in encoded for i in ids)
    kept("D1", "decode(encode(text)) is the text, in all planes of Unicode")


def test_the_texts_cover_every_plane_and_every_edge():
    seen = set().union(*islice(texts(), 500))
    assert {ord(character) >> 16 for character in seen} == set(range(PLANES))
    assert {chr(code) for code in EDGES} <= seen
    assert not any("\ud800" <= character <= "\udfff" for character in seen)


@pytest.mark.parametrize("text", ["\ud800", "a\udc80b"], ids=ascii)
def test_half_a_surrogate_pair_is_no_text_and_is_told(vocabulary, text):
    for encode in (vocabulary.encode, lambda text: vocabulary.encode_all(["fine", text])):
        with pytest.raises(DataError, match="unpaired surrogate") as caught:
            encode(text)
        assert caught.value.where == f"in {text!a}"
        assert caught.value.hint.startswith("try: ")
