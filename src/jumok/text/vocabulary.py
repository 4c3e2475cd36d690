"""Subwords: strings to ids and exactly back, by a SentencePiece model trained on the corpus itself.

Characters that the corpus did not contain are encoded as bytes, so nothing is ever unknown.  Eight ids are fixed:
PAD 0, UNKNOWN 1, START 2, END 3, SEPARATOR 4, and three that models put in place of words.  For every text that UTF-8
can represent, decode(encode(text)) == normalize(text); an unpaired surrogate is a DataError.  A vocabulary with
`breaks` separates the lines of a text by SEPARATOR; a byte vocabulary with `breaks` preserves a text exactly.
"""

import contextlib
import hashlib
import os
import re
import unicodedata
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sentencepiece

from jumok.errors import DataError, DiskError, ModelFileError
from jumok.text import protobuf
from jumok.text.boundaries import SPACE
from jumok.text.endings import find_forms
from jumok.text.symbols import END, MASK, PAD, SEPARATOR, SPECIALS, START, UNKNOWN

if TYPE_CHECKING:
    from jumok.text.sampling import Sampler
    from jumok.text.trainer import Counts

# A call of SentencePiece with a list starts threads, which takes as long as encoding about sixty sentences one by one.
FEW_CHARACTERS = 8_000  # with fewer characters to encode, one call per text is faster
FEW_TOKENS = 2_000  # with fewer tokens to decode, one call per text is faster

__all__ = [
    "END",
    "MASK",
    "PAD",
    "SEPARATOR",
    "SPECIALS",
    "START",
    "UNKNOWN",
    "Vocabularies",
    "Vocabulary",
    "normalize",
]


def normalize(text: str) -> str:
    """The text in Unicode NFC, with white space collapsed to single spaces: encoding changes nothing else."""
    return " ".join(unicodedata.normalize("NFC", text.replace(SPACE, " ")).split())


class Vocabulary:
    """One SentencePiece model."""

    def __init__(self, model: bytes, *, breaks: bool = False, where: str = "") -> None:
        self.model, self.breaks = model, breaks
        self.exact = breaks and model == protobuf.BYTE_LEVEL  # a text is encoded as its bytes, without normalisation
        self.digest = hashlib.sha256(model).hexdigest()
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            protobuf.check(model)
            self._processor.LoadFromSerializedProto(model)
        except protobuf.BadPieces as error:
            raise ModelFileError("text.not_our_vocabulary", reason=error.problem, origin=where) from None
        except RuntimeError as error:
            raise ModelFileError("text.not_our_vocabulary", reason=error, origin=where) from None

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
        """Learn a vocabulary of `size` subwords, bytes included, from sentences.

        A size that the text does not allow is a `UsageError` that proposes one; with `at_most`, the proposal is used.
        """
        from jumok.text import trainer

        if kind == "byte":
            return cls(protobuf.BYTE_LEVEL, breaks=breaks)
        texts = (line for text in sentences for line in (text.split("\n") if breaks else [text]))
        counts = trainer.count_words(map(normalize, texts))
        return cls(trainer.learn(counts, size, kind, at_most=at_most, where=where), breaks=breaks)

    @classmethod
    def learn(
        cls,
        counts: "Counts",
        *,
        size: int,
        kind: Literal["unigram", "bpe", "word", "byte"] = "unigram",
        at_most: bool = False,
        breaks: bool = False,
        where: str = "",
        folder: str | Path | None = None,
    ) -> Generator[float, None, "Vocabulary"]:
        """`train` from counted words, in steps: yields the share of the work that is done.

        Another process does the work; it is killed if the generator is closed.  Its files are in `folder`, which must
        not be shared with other processes, or in the temporary folder of the system.
        """
        from jumok.text import trainer

        if kind == "byte":
            return cls(protobuf.BYTE_LEVEL, breaks=breaks)
        steps = trainer.learn_apart(counts, size, kind, at_most=at_most, where=where, folder=folder)
        return cls((yield from steps), breaks=breaks)

    @classmethod
    def load(cls, path: str | Path, *, breaks: bool = False) -> "Vocabulary":
        """A vocabulary from a file of at most 32 MB, which must not be a link."""
        path = Path(path)
        try:
            if path.is_symlink() or not path.is_file():
                raise ModelFileError("text.no_vocabulary", file=path.name, folder=path.parent)
            if path.stat().st_size > protobuf.LARGEST:
                raise ModelFileError("text.vocabulary_too_large", file=path)
            return cls(path.read_bytes(), breaks=breaks, where=f"in {path}")
        except OSError as error:
            raise ModelFileError("text.cannot_read_vocabulary", reason=error.strerror, file=path) from None

    def encode(self, text: str) -> list[int]:
        """Ids of the best segmentation, without START and END."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many sentences at once, on all cores if there are enough of them."""
        if self.breaks and not self.exact:
            return [self._encode_joined(text.split("\n")) for text in texts]
        clean = list(texts) if self.exact else [normalize(text) for text in texts]
        return self._encode(clean)

    def encode_normalized(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many sentences that are already normalised, on one core."""
        ids: list[list[int]] = self._processor.encode(list(texts), num_threads=1)
        return ids

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        with _explain_surrogates(texts):
            if sum(map(len, texts)) < FEW_CHARACTERS:
                return [self._processor.encode(text) for text in texts]
            ids: list[list[int]] = self._processor.encode(list(texts), num_threads=-1)
        return ids

    def _encode_joined(self, lines: Sequence[str]) -> list[int]:
        """Ids of lines, with SEPARATOR between them."""
        first, *rest = self._encode([normalize(line) for line in lines])
        return [*first, *(token for line in rest for token in (SEPARATOR, *line))]

    def split_prefix(self, text: str) -> tuple[list[int], str]:
        """The ids of the complete words of a text that others continue, and the rest of the text.

        The last word is not complete unless a space follows it: more letters may follow, and its subwords are open.
        """
        if self.breaks:
            return self.encode(text), ""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError("text.surrogate", text=ascii(text)[:100]) from None
        clean = normalize(text)
        complete, _, last = (clean, "", "") if text[-1:].isspace() else clean.rpartition(" ")
        return self.encode(complete), f" {last}" if clean else ""

    def encode_parts(self, parts: Sequence[str], between: int) -> list[int]:
        """Ids of the parts of a text with a symbol between them, which takes the place of a word or the rest of one."""
        ids = self.encode(parts[0])
        for part in parts[1:]:
            more = self.encode(part)
            if more and part[:1].strip():  # the part continues a word
                piece = self._processor.id_to_piece(more[0])
                inner = self._processor.piece_to_id(piece.removeprefix(SPACE))
                more = [*([] if piece == SPACE else [inner if inner >= SPECIALS else more[0]]), *more[1:]]
            ids += [between, *more]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, on one line unless the vocabulary has `breaks`.

        Specials are skipped, and an incomplete character becomes U+FFFD.  A model may generate bytes that form a line
        feed or several spaces: they become one space.
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
        """The subwords as SentencePiece writes them, ▁ at the beginning of a word."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def find_ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of subwords as `pieces` writes them, END left out; one that does not exist is a DataError."""
        ids = [self._processor.piece_to_id(piece) for piece in pieces]
        for piece, number in zip(pieces, ids, strict=True):
            if number < SPECIALS and number != END:
                raise DataError("text.unknown_piece", piece=piece[:100])
        return [number for number in ids if number != END]

    @cached_property
    def forms(self) -> dict[int, list[int]]:
        """For each subword that is a Korean word with a particle, the same word with others; see endings.py."""
        return find_forms(self.pieces(range(len(self))))

    def begins(self) -> list[bool]:
        """For every symbol, whether it begins a word."""
        return [
            number >= SPECIALS and piece.startswith(SPACE) for number, piece in enumerate(self.pieces(range(len(self))))
        ]

    def surfaces(self) -> list[str]:
        """Every symbol as text, words beginning with a space.

        Specials are empty, and a byte of a character is the surrogate by which Python escapes it.
        """
        texts = []
        for number, piece in enumerate(self.pieces(range(len(self)))):
            if self._processor.is_byte(number):
                value = int(piece[3:-1], 16)
                texts.append(chr(value) if value < 0x80 else chr(0xDC00 + value))
            else:
                texts.append("" if number < SPECIALS else piece.replace(SPACE, " "))
        return texts

    def sample(self, sentences: Sequence[Sequence[int]], *, strength: float, key: int) -> list[list[int]]:
        """Other segmentations of encoded sentences, sampled by `key`, the same in every process.

        `strength` near 0 gives the best segmentation almost always, 1 samples freely.
        """
        return self._sampler.sample(sentences, strength=strength, key=key)

    @cached_property
    def _sampler(self) -> "Sampler":
        from jumok.text.sampling import Sampler  # imports numpy, which only training needs

        fixed = self._processor.is_byte
        pieces = [self._processor.id_to_piece(i) for i in range(len(self))]
        whole = [None if i < SPECIALS or fixed(i) else piece for i, piece in enumerate(pieces)]
        return Sampler(whole, [self._processor.get_score(i) for i in range(len(self))], bpe=self.kind == "bpe")

    @property
    def kind(self) -> str:
        """unigram or bpe: the scores of BPE pieces are their ranks, which are integers; those of bytes are 0."""
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
        """The content of the files that `load` reads, by file name."""
        if self.joint:
            return {"vocabulary.model": self.source.model}
        return {"vocabulary.source.model": self.source.model, "vocabulary.target.model": self.target.model}

    def save(self, folder: str | Path) -> None:
        """Write the files into a folder; an interrupted call leaves no incomplete file."""
        for name, content in self.files().items():
            path = Path(folder) / name
            draft = path.with_name(path.name + ".tmp")
            try:
                with open(draft, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
            except OSError as error:
                raise DiskError("text.cannot_write_vocabulary", reason=error.strerror, file=path) from None


def _lines(ids: Sequence[int]) -> list[list[int]]:
    """The ids of each line, without the separators."""
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == SEPARATOR:
            lines.append([])
        else:
            lines[-1].append(token)
    return lines


@contextlib.contextmanager
def _explain_surrogates(texts: Sequence[str]) -> Iterator[None]:
    """Turn SentencePiece's unclear error about a text that UTF-8 cannot represent into one that shows the text."""
    try:
        yield
    except (RuntimeError, TypeError):
        broken = next((text for text in texts if re.search("[\ud800-\udfff]", text)), None)
        if broken is None:
            raise
        raise DataError("text.surrogate", text=ascii(broken)[:100]) from None
