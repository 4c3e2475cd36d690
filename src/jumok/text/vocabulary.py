"""Subwords: strings to ids and exactly back, by a SentencePiece model trained on the corpus itself.

Bytes stand in for characters the corpus did not have, so nothing is ever unknown.  Eight ids are fixed for ever:
PAD 0, UNKNOWN 1, START 2, END 3, SEPARATOR 4, and three that models put in the place of words.  For all that UTF-8 can
hold, decode(encode(text)) == normalize(text); half a surrogate pair is a DataError.  A vocabulary with `breaks` keeps
the lines of a text apart, by SEPARATOR; one of bytes then keeps a text just as it is.
"""

import contextlib
import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sentencepiece

from jumok.errors import DataError, DiskError, JumokError, ModelFileError, UsageError
from jumok.stopping import NEVER
from jumok.text import protobuf
from jumok.text.boundaries import SPACE
from jumok.text.trainer import (
    END,
    MASK,
    PAD,
    RESERVED,
    SEPARATOR,
    SPECIALS,
    START,
    UNKNOWN,
    Counts,
    count_words,
    learn,
    learn_apart,
)

if TYPE_CHECKING:
    from jumok.text.sampling import Sampler

# A call of SentencePiece with a list starts threads, which takes as long as encoding some sixty sentences one by one.
FEW_CHARACTERS = 8_000  # to encode: with fewer, one call for each text is faster
FEW_TOKENS = 2_000  # to decode: likewise

__all__ = [
    "END",
    "MASK",
    "PAD",
    "RESERVED",
    "SEPARATOR",
    "SPECIALS",
    "START",
    "UNKNOWN",
    "Vocabularies",
    "Vocabulary",
    "normalize",
]
Learn = Callable[[Counts, int, str], Generator[float, None, bytes]]


def normalize(text: str) -> str:
    """Unicode NFC, white space collapsed to single spaces: all that encoding changes."""
    return " ".join(unicodedata.normalize("NFC", text.replace(SPACE, " ")).split())


class Vocabulary:
    """One SentencePiece model."""

    def __init__(self, model: bytes, *, breaks: bool = False, where: str = "") -> None:
        self.model, self.breaks = model, breaks
        self.exact = breaks and model == protobuf.BYTE_LEVEL  # a text is its bytes, and nothing else happens to it
        self.digest = hashlib.sha256(model).hexdigest()
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            protobuf.check(model)
            self._processor.LoadFromSerializedProto(model)
        except (protobuf.BadPieces, RuntimeError) as error:
            raise ModelFileError(f"not a vocabulary made by jumok: {error}", where=where) from None

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        *,
        size: int,
        kind: Literal["unigram", "bpe", "word", "byte"] = "unigram",
        at_most: bool = False,
        breaks: bool = False,
        where: str = "",
    ) -> "Vocabulary":
        """Learn `size` subwords from the words of sentences; bytes are known already.

        A size that the text does not allow is a `UsageError` that proposes one that it does; with `at_most`, it is
        taken.
        """
        texts = (line for text in sentences for line in (text.split("\n") if breaks else [text]))
        counts = {} if kind == "byte" else count_words(map(normalize, texts))
        steps = cls.learn(counts, size=size, kind=kind, at_most=at_most, breaks=breaks, where=where, apart=False)
        return NEVER.finish(steps)

    @classmethod
    def learn(
        cls,
        counts: Counts,
        *,
        size: int,
        kind: Literal["unigram", "bpe", "word", "byte"] = "unigram",
        at_most: bool = False,
        breaks: bool = False,
        where: str = "",
        apart: bool = True,
    ) -> Generator[float, None, "Vocabulary"]:
        """The same from words that have been counted, in steps: yields the share of the work that is done.

        Another process does the work, which ends with the generator, unless it is not to be `apart`.
        """
        if kind == "byte":
            return cls(protobuf.BYTE_LEVEL, breaks=breaks)
        if not counts:
            raise DataError(
                "there is no text to learn a vocabulary from", where=where, hint="try: jumok data check FILES"
            )
        work: Learn = learn_apart if apart else _learn_here
        try:
            return cls((yield from work(counts, size, kind)), breaks=breaks)
        except RuntimeError as error:
            explained, proposal = yield from _explain(error, work, counts, size, kind, where)
        if not at_most or proposal is None or proposal > size:
            raise explained
        return cls((yield from work(counts, proposal, kind)), breaks=breaks)

    @classmethod
    def load(cls, path: str | Path, *, breaks: bool = False) -> "Vocabulary":
        """A vocabulary from a file of at most 32 MB, which must be there itself: no link to another."""
        path = Path(path)
        try:
            if path.is_symlink() or not path.is_file():
                raise ModelFileError(f"{path.name} is missing, or no file of its own", where=f"in {path.parent}")
            if path.stat().st_size > protobuf.LARGEST:
                raise ModelFileError("a vocabulary of more than 32 MB is not one of ours", where=f"in {path}")
            return cls(path.read_bytes(), breaks=breaks, where=f"in {path}")
        except OSError as error:
            raise ModelFileError(f"cannot read the vocabulary: {error.strerror}", where=f"in {path}") from None

    def encode(self, text: str) -> list[int]:
        """Ids of the best segmentation, without START and END."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many sentences at once, on all cores where there is enough to do."""
        if self.breaks and not self.exact:
            return [self._joined(text.split("\n")) for text in texts]
        clean = list(texts) if self.exact else [normalize(text) for text in texts]
        return self._encode(clean)

    def encode_tidy(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many sentences that are normalised already, on one core."""
        ids: list[list[int]] = self._processor.encode(list(texts), num_threads=1)
        return ids

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        with _whole_characters(texts):
            if sum(map(len, texts)) < FEW_CHARACTERS:
                return [self._processor.encode(text) for text in texts]
            ids: list[list[int]] = self._processor.encode(list(texts), num_threads=-1)
        return ids

    def _joined(self, lines: Sequence[str]) -> list[int]:
        """Lines with a SEPARATOR between each two."""
        first, *rest = self._encode([normalize(line) for line in lines])
        return [*first, *(token for line in rest for token in (SEPARATOR, *line))]

    def encode_parts(self, parts: Sequence[str], between: int) -> list[int]:
        """Parts of a text with a symbol between each two, as if it stood for a word or the rest of one."""
        ids = self.encode(parts[0])
        for part in parts[1:]:
            more = self.encode(part)
            if more and part[:1].strip():  # it goes on with the word
                piece = self._processor.id_to_piece(more[0])
                inner = self._processor.piece_to_id(piece.removeprefix(SPACE))
                more = [*([] if piece == SPACE else [inner if inner >= SPECIALS else more[0]]), *more[1:]]
            ids += [between, *more]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, on one line unless `breaks` are kept; specials leave no trace, an incomplete character
        becomes U+FFFD.

        A model may put bytes together to a line feed or spaces in a row: one space stands for them.
        """
        return self.decode_all([ids])[0]

    def decode_all(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """`decode` of many sentences at once."""
        if self.breaks and not self.exact:
            return ["\n".join(self._decode(_lines(ids))) for ids in sentences]
        return self._decode(sentences)

    def _decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        words = [[int(i) for i in ids if i >= SPECIALS] for ids in sentences]
        if sum(map(len, words)) < FEW_TOKENS:
            texts = [self._processor.decode(ids) for ids in words]
        else:
            texts = self._processor.decode(words, num_threads=-1)
        return [str(text) if self.exact else " ".join(str(text).split()) for text in texts]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords as SentencePiece writes them: ▁ begins a word."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def begins(self) -> list[bool]:
        """Of every symbol, whether a word begins with it."""
        return [
            number >= SPECIALS and piece.startswith(SPACE) for number, piece in enumerate(self.pieces(range(len(self))))
        ]

    def surfaces(self) -> list[str]:
        """Every symbol as text, words beginning with a space; specials are empty, a byte of a character is U+FFFD."""
        found = []
        for number, piece in enumerate(self.pieces(range(len(self)))):
            if self._processor.is_byte(number):
                value = int(piece[3:-1], 16)
                found.append(chr(value) if value < 0x80 else "\ufffd")
            else:
                found.append("" if number < SPECIALS else piece.replace(SPACE, " "))
        return found

    def sample(self, sentences: Sequence[Sequence[int]], *, strength: float, key: int) -> list[list[int]]:
        """Other segmentations of encoded sentences, drawn by `key`, in every process the same.

        `strength` near 0 stays with the best segmentation, 1 draws freely.
        """
        return self._sampler.draw(sentences, strength=strength, key=key)

    @cached_property
    def _sampler(self) -> "Sampler":
        from jumok.text.sampling import Sampler  # with numpy, which only training needs

        fixed = self._processor.is_byte
        pieces = [self._processor.id_to_piece(i) for i in range(len(self))]
        whole = [None if i < SPECIALS or fixed(i) else piece for i, piece in enumerate(pieces)]
        return Sampler(whole, [self._processor.get_score(i) for i in range(len(self))], bpe=self.kind == "bpe")

    @property
    def kind(self) -> str:
        """unigram or bpe: the scores of BPE pieces are their ranks, whole numbers; of bytes alone they are 0."""
        scores = [self._processor.get_score(i) for i in range(len(self) - 3, len(self))]
        return "bpe" if all(score == int(score) for score in scores) else "unigram"


@dataclass(frozen=True)
class Vocabularies:
    """The vocabulary of each side; the same object twice when it is joint."""

    source: Vocabulary
    target: Vocabulary

    @property
    def joint(self) -> bool:
        return self.source.digest == self.target.digest

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256((self.source.digest + self.target.digest).encode()).hexdigest()

    @classmethod
    def load(cls, folder: str | Path, *, breaks: bool = False) -> "Vocabularies":
        folder = Path(folder)
        if os.path.lexists(folder / "vocabulary.model"):
            joint = Vocabulary.load(folder / "vocabulary.model", breaks=breaks)
            return cls(joint, joint)
        sides = (folder / "vocabulary.source.model", folder / "vocabulary.target.model")
        return cls(*(Vocabulary.load(side, breaks=breaks) for side in sides))

    def files(self) -> dict[str, bytes]:
        """What `load` reads, by file name."""
        if self.joint:
            return {"vocabulary.model": self.source.model}
        return {"vocabulary.source.model": self.source.model, "vocabulary.target.model": self.target.model}

    def save(self, folder: str | Path) -> None:
        """Write the files into a folder, each whole or not at all."""
        for name, content in self.files().items():
            path = Path(folder) / name
            beside = path.with_name(path.name + ".tmp")
            try:
                with open(beside, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                beside.replace(path)
            except OSError as error:
                raise DiskError(f"cannot write the vocabulary: {error.strerror}", where=f"in {path}") from None


def _lines(ids: Sequence[int]) -> list[list[int]]:
    """Ids between separators."""
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == SEPARATOR:
            lines.append([])
        else:
            lines[-1].append(token)
    return lines


@contextlib.contextmanager
def _whole_characters(texts: Sequence[str]) -> Iterator[None]:
    """Say which text SentencePiece could not take: it takes all that UTF-8 can hold, and its own words are unclear."""
    try:
        yield
    except (RuntimeError, TypeError):
        broken = next((text for text in texts if re.search("[\ud800-\udfff]", text)), None)
        if broken is None:
            raise
        where, hint = f"in {ascii(broken)[:100]}", 'try: text.encode("utf-8", "replace").decode()'
        raise DataError("a text has half a surrogate pair in it", where=where, hint=hint) from None


def _learn_here(counts: Counts, size: int, kind: str) -> Generator[float, None, bytes]:
    """A vocabulary learnt in this process, in one step."""
    yield 0.0
    return learn(counts, size, kind)


def _explain(
    error: RuntimeError, work: Learn, counts: Counts, size: int, kind: str, where: str
) -> Generator[float, None, tuple[JumokError, int | None]]:
    """What SentencePiece's trainer complains of, as something to do, and a size that it would take."""
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        what = f"a vocabulary of {size:,} is too small for the characters of the text"
        return UsageError(what, where=where, hint=f"try: --set vocabulary.size={least[1]}, or more"), int(least[1])
    if not re.search(r"value <= (\d+)", str(error)):
        what = f"the vocabulary could not be learnt: {error}"
        return DataError(what, where=where, hint="try: jumok data check FILES"), None
    proposal = size
    while most := re.search(r"value <= (\d+)", str(error)):
        proposal = int(most[1])  # with fewer symbols some characters may stay bytes, and then even fewer fit: try it
        try:
            yield from work(counts, proposal, kind)
            break
        except RuntimeError as another:
            error = another
    what = f"a vocabulary of {size:,} is more than {len(counts):,} different words support"
    return UsageError(what, where=where, hint=f"try: --set vocabulary.size={proposal}"), proposal
