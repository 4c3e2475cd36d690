"""The bytes of a vocabulary, read by rule before SentencePiece sees them; nothing but what its trainer writes for us.

A model of SentencePiece is a protobuf message: pieces (field 1: text, score, kind), how it was trained (2), how text is
normalised (3).  SentencePiece believes what it reads: tables for normalising, for one, are jumps in memory.  Ours have
none, and the eight specials and 256 bytes that every vocabulary begins with are the same bytes for ever.
"""

FIRST = ("<pad>", "<unk>", "<s>", "</s>", "<sep>", "<cls>", "<mask>", "<extra>")
UNKNOWN, CONTROL, BYTE = 2, 3, 6  # kinds of pieces; all others are NORMAL, 1
MOST = 256_000  # pieces, as in the largest recipe
LARGEST = 32_000_000  # bytes of a file
LARGE_FLOATS = frozenset(byte for byte in range(256) if byte & 0x7F > 0x4B)  # how floats from 2^25 on end
TRAINER = {3, 4, 10, 16, 18, 30, 33, 35, 40, 41, 42, 43}  # fields that our training sets
KIND, BYTES = 3, 35


class BadPieces(ValueError):
    """What is wrong with the bytes of a vocabulary."""


def _piece(text: str, kind: int) -> bytes:
    """A piece with score 0 as SentencePiece writes it."""
    body = b"\x0a" + bytes([len(text)]) + text.encode() + b"\x15" + bytes(4) + bytes([0x18, kind])
    return b"\x0a" + bytes([len(body)]) + body


HEAD = b"".join(
    [_piece(text, UNKNOWN if text == "<unk>" else CONTROL) for text in FIRST]
    + [_piece(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
)


# The 264 symbols alone: every text is its bytes, and nothing about it is changed (no field 3, 4, 5 of the normaliser).
# How it was trained: BPE, 264 pieces, bytes for what is unknown, ids of <unk>, <s>, </s>, <pad>.
BYTE_LEVEL = (
    HEAD
    + b"\x12\x14\x18\x02\x20\x88\x02\x98\x02\x01\xc0\x02\x01\xc8\x02\x02\xd0\x02\x03\xd8\x02\x00"
    + b"\x1a\x10\x0a\x08identity\x18\x00\x20\x00\x28\x00"
)


def check(model: bytes) -> None:
    """Refuse, as `BadPieces`, what SentencePiece's trainer would not have written."""
    if model == BYTE_LEVEL:
        return
    if not model.startswith(HEAD):
        raise BadPieces(f"it does not begin with {', '.join(FIRST)} and 256 bytes")
    try:
        end = _check_pieces(model)
        _check_rest(model, end)
    except (IndexError, UnicodeDecodeError):
        raise BadPieces("it is cut short or garbled") from None


def _check_pieces(model: bytes) -> int:
    """Where the pieces end; each is 0A size 0A length text 15 score, its kind NORMAL and therefore not said.

    Pieces of one size lie side by side, so that a byte of all of them is one slice: a vocabulary loads in no time.
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
        beside, count = b"".join(group), len(group)
        outline = b"\x0a" * count, bytes([max(0, size - 7)]) * count, b"\x15" * count
        if count and (size < 8 or (beside[::size], beside[1::size], beside[size - 5 :: size]) != outline):
            raise BadPieces("a piece is not one of ours")
        if not LARGE_FLOATS.isdisjoint(beside[size - 1 :: size] if count else b""):
            raise BadPieces("a score is not a number that a trainer gives")
        texts += [piece[2:-5] for piece in group]
    whole = b"\n".join(texts).decode()
    plain = "\n".join(whole.split()) == whole and "\0" not in whole
    if not plain or whole.count("\n") != len(texts) - 1:
        raise BadPieces("a piece has a space in it")
    if len(set(texts)) != len(texts) or len(texts) > MOST:
        raise BadPieces("a piece is there twice, or there are too many")
    return at


def _check_rest(model: bytes, at: int) -> None:
    """How it was trained (its kind, bytes for what is unknown) and how it normalises, which is not at all."""
    parts = list(_fields(model, at))
    if [number for number, _ in parts] != [2, 3]:
        raise BadPieces("it is not made of pieces, a trainer's and a normaliser's part")
    trainer, normaliser = (list(_fields(part, 0)) if isinstance(part, bytes) else [] for _, part in parts)
    told = dict(trainer)
    if not {number for number, _ in trainer} <= TRAINER or told.get(KIND) not in (1, 2, 3) or told.get(BYTES) != 1:
        raise BadPieces("it was not trained as jumok trains")
    if any(value not in ((1, b"identity"), (2, b""), (3, 1), (4, 1), (5, 1)) for value in normaliser):
        raise BadPieces("it changes text before it is cut")


def without_inputs(model: bytes) -> bytes:
    """The same vocabulary without the names and formats of the files it was trained from, which change nothing."""
    at = model.index(b"\x12", _pieces_end(model))
    size, begins = _number(model, at + 1)
    trainer, rest = model[begins : begins + size], model[begins + size :]
    spans = zip(_places(trainer), [*_places(trainer)[1:], len(trainer)], strict=True)
    kept = b"".join(trainer[start:stop] for start, stop in spans if _number(trainer, start)[0] >> 3 in TRAINER)
    return model[: at + 1] + _varint(len(kept)) + kept + rest


def _pieces_end(model: bytes) -> int:
    at = 0
    while model[at] == 0x0A:
        size, begins = _number(model, at + 1)
        at = begins + size
    return at


def _places(message: bytes) -> list[int]:
    """Where each field of a message begins."""
    found, at = [], 0
    while at < len(message):
        found.append(at)
        (_, _), at = _field(message, at)
    return found


def _varint(value: int) -> bytes:
    content = b""
    while value >= 0x80:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])


def _fields(message: bytes, at: int) -> list[tuple[int, int | bytes]]:
    """Number and value of every field of a message: whole numbers, and bytes of what is longer."""
    found: list[tuple[int, int | bytes]] = []
    while at < len(message):
        field, at = _field(message, at)
        found.append(field)
    return found


def _field(message: bytes, at: int) -> tuple[tuple[int, int | bytes], int]:
    """Number and value of the field at a place, and where it ends."""
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
        raise BadPieces(f"field {key >> 3} is of a kind that no vocabulary has")
    return (key >> 3, value), at


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A whole number of at most 35 bits, seven in a byte, and where it ends."""
    value = 0
    for place in range(5):
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise BadPieces("a number is too large")
