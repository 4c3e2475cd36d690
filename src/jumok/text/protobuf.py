"""The bytes of a vocabulary, checked before SentencePiece reads them: only what its trainer writes for jumok passes.

A model of SentencePiece is a protobuf message: pieces (field 1: text, score, kind), how it was trained (2), how text is
normalised (3).  SentencePiece trusts what it reads: a table for normalising, for example, contains offsets into memory.
Our vocabularies have none, and all of them begin with the same eight specials and 256 bytes.
"""

from jumok.messages import Message
from jumok.text.symbols import RESERVED

FIRST = ("<pad>", "<unk>", "<s>", "</s>", *RESERVED)
UNKNOWN, CONTROL, BYTE = 2, 3, 6  # kinds of pieces; all others are NORMAL, 1
MOST = 256_000  # most pieces, as in the largest recipe
LARGEST = 32_000_000  # most bytes of a file
LARGE_FLOATS = frozenset(byte for byte in range(256) if byte & 0x7F > 0x4B)  # last bytes of floats from 2^25 on
TRAINER = {3, 4, 10, 16, 18, 30, 33, 35, 40, 41, 42, 43}  # fields that our training sets
KIND, BYTES = 3, 35


class BadPieces(ValueError):
    """A problem in the bytes of a vocabulary."""

    def __init__(self, problem: Message) -> None:
        self.problem = problem
        super().__init__(problem)


# The specials and the bytes as SentencePiece writes them: size, length of the text, text, score 0, kind.
HEAD = b"".join(
    b"\x0a" + bytes([len(text) + 9, 0x0A, len(text)]) + text.encode() + b"\x15\0\0\0\0\x18" + bytes([kind])
    for text, kind in [
        *((text, UNKNOWN if text == "<unk>" else CONTROL) for text in FIRST),
        *((f"<0x{byte:02X}>", BYTE) for byte in range(256)),
    ]
)


# The 264 symbols alone: a text is encoded as its bytes, without normalisation (no field 3, 4, 5 of the normaliser).
# Fields of the trainer: BPE, 264 pieces, byte fallback, ids of <unk>, <s>, </s>, <pad>.
BYTE_LEVEL = (
    HEAD
    + b"\x12\x14\x18\x02\x20\x88\x02\x98\x02\x01\xc0\x02\x01\xc8\x02\x02\xd0\x02\x03\xd8\x02\x00"
    + b"\x1a\x10\x0a\x08identity\x18\x00\x20\x00\x28\x00"
)


def check(model: bytes) -> None:
    """Raise `BadPieces` for bytes that SentencePiece's trainer would not have written."""
    if model == BYTE_LEVEL:
        return
    if not model.startswith(HEAD):
        raise BadPieces(Message("text.pieces_begin_otherwise", {"pieces": ", ".join(FIRST)}))
    try:
        end = _check_pieces(model)
        _check_rest(model, end)
    except (IndexError, UnicodeDecodeError):
        raise BadPieces(Message("text.pieces_cut_off")) from None


def _check_pieces(model: bytes) -> int:
    """The offset where the pieces end; each is 0A size 0A length text 15 score, its kind NORMAL and therefore omitted.

    Pieces of one size are joined, so that the same byte of all of them is one slice, which is fast.
    """
    groups: list[list[bytes]] = [[] for _ in range(128)]
    at = len(HEAD)
    while model[at] == 0x0A:
        size = model[at + 1]
        stop = at + 2 + size
        groups[size].append(model[at + 2 : stop])
        at = stop
    texts: list[bytes] = []
    for size, group in enumerate(groups):
        joined, count = b"".join(group), len(group)
        outline = b"\x0a" * count, bytes([max(0, size - 7)]) * count, b"\x15" * count
        if count and (size < 8 or (joined[::size], joined[1::size], joined[size - 5 :: size]) != outline):
            raise BadPieces(Message("text.foreign_piece"))
        if not LARGE_FLOATS.isdisjoint(joined[size - 1 :: size] if count else b""):
            raise BadPieces(Message("text.impossible_score"))
        texts += [piece[2:-5] for piece in group]
    whole = b"\n".join(texts).decode()
    plain = "\n".join(whole.split()) == whole and "\0" not in whole
    if not plain or whole.count("\n") != len(texts) - 1:
        raise BadPieces(Message("text.space_in_piece"))
    if len(set(texts)) != len(texts) or len(texts) > MOST:
        raise BadPieces(Message("text.repeated_pieces"))
    return at


def _check_rest(model: bytes, at: int) -> None:
    """Check how the vocabulary was trained (its kind, byte fallback) and that it does not normalise."""
    parts = list(_fields(model, at))
    if [number for number, _ in parts] != [2, 3]:
        raise BadPieces(Message("text.other_parts"))
    trainer, normaliser = (list(_fields(part, 0)) if isinstance(part, bytes) else [] for _, part in parts)
    settings = dict(trainer)
    if not settings.keys() <= TRAINER or settings.get(KIND) not in (1, 2, 3) or settings.get(BYTES) != 1:
        raise BadPieces(Message("text.trained_otherwise"))
    if any(value not in ((1, b"identity"), (2, b""), (3, 1), (4, 1), (5, 1)) for value in normaliser):
        raise BadPieces(Message("text.normalises"))


def remove_inputs(model: bytes) -> bytes:
    """The vocabulary without the names and formats of the files it was trained from, which have no effect."""
    at = model.index(b"\x12", _pieces_end(model))
    size, begins = _number(model, at + 1)
    trainer, rest = model[begins : begins + size], model[begins + size :]
    spans = zip(_offsets(trainer), [*_offsets(trainer)[1:], len(trainer)], strict=True)
    retained = b"".join(trainer[start:stop] for start, stop in spans if _number(trainer, start)[0] >> 3 in TRAINER)
    return model[: at + 1] + _varint(len(retained)) + retained + rest


def _pieces_end(model: bytes) -> int:
    at = 0
    while model[at] == 0x0A:
        size, begins = _number(model, at + 1)
        at = begins + size
    return at


def _offsets(message: bytes) -> list[int]:
    """The offset of each field of a message."""
    offsets, at = [], 0
    while at < len(message):
        offsets.append(at)
        (_, _), at = _field(message, at)
    return offsets


def _varint(value: int) -> bytes:
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def _fields(message: bytes, at: int) -> list[tuple[int, int | bytes]]:
    """Number and value of every field of a message: an integer, or the bytes of a longer value."""
    fields: list[tuple[int, int | bytes]] = []
    while at < len(message):
        field, at = _field(message, at)
        fields.append(field)
    return fields


def _field(message: bytes, at: int) -> tuple[tuple[int, int | bytes], int]:
    """Number and value of the field at an offset, and the offset where it ends."""
    key, at = _number(message, at)
    if key & 7 == 0:
        value: int | bytes
        value, at = _number(message, at)
    elif key & 7 in (2, 5):
        size, at = (4, at) if key & 7 == 5 else _number(message, at)
        value, at = message[at : at + size], at + size
        if at > len(message):
            raise IndexError
    else:
        raise BadPieces(Message("text.unknown_field", {"number": key >> 3}))
    return (key >> 3, value), at


def _number(message: bytes, at: int) -> tuple[int, int]:
    """An integer of at most 35 bits, seven per byte, and the offset where it ends."""
    value = 0
    for index in range(5):
        byte = message[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise BadPieces(Message("text.number_too_large"))
