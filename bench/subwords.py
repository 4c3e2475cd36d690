"""Text for a peer: learn joint subwords, cut files into them, put them together again.

    python -m bench.subwords learn SIZE FOLDER TRAIN.SOURCE.gz TRAIN.TARGET.gz    vocabulary.model, vocabulary.txt
    python -m bench.subwords cut FOLDER FILE.gz OUT                               subwords, one sentence per line
    python -m bench.subwords join FOLDER FILE OUT

Runs in the peers' base environment.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

SPECIALS = 3  # <unk>, <s>, </s>; a toolkit has its own


def lines(path: str) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
        for line in file:
            yield line.strip()


def processor(folder: str) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(Path(folder) / "vocabulary.model"))


def write(path: str | Path, texts: Iterator[str]) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(text + "\n" for text in texts)


def learn(size: str, folder: str, *paths: str) -> None:
    with open(Path(folder) / "vocabulary.model", "wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for path in paths for line in lines(path)), model_writer=model,
            vocab_size=int(size), model_type="bpe", character_coverage=1.0, minloglevel=2,
        )  # fmt: skip
    model = processor(folder)
    pieces = (model.id_to_piece(i) for i in range(SPECIALS, model.get_piece_size()))
    write(Path(folder) / "vocabulary.txt", pieces)


def cut(folder: str, path: str, out: str) -> None:
    model = processor(folder)
    write(out, (" ".join(model.encode(line, out_type=str)) for line in lines(path)))


def join(folder: str, path: str, out: str) -> None:
    model = processor(folder)
    write(out, (model.decode(line.split(" ")) for line in lines(path)))


if __name__ == "__main__":
    {"learn": learn, "cut": cut, "join": join}[sys.argv[1]](*sys.argv[2:])
