"""SentencePiece's trainer: counted words to a vocabulary's bytes, in a separate process where it must be stoppable.

The trainer gets every distinct word once, with its count, and the seeds from which unigram begins: parts of words that
repeat (seeds.py).  The result is the vocabulary that the sentences themselves would give, in half the time and a tenth
of the memory; the cost depends only on the number of distinct words.

The trainer is C++ and does not handle signals; a run that is asked to stop kills the separate process instead.  Text
reaches that process in files, never through a pipe.  The number of threads is fixed, because the trainer sums by
thread: with another number the last bits of the scores would differ.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import sentencepiece

from jumok.errors import DataError, DiskError, JumokError, UsageError
from jumok.processes import die_with_parent, module_command
from jumok.stopping import NEVER
from jumok.text.protobuf import remove_inputs
from jumok.text.symbols import END, PAD, RESERVED, SPECIALS, START, UNKNOWN

LONGEST = 4_096  # most characters of a word; SentencePiece would skip a longer one
CHARACTERS = 1_000_000  # most characters of all distinct words, the most frequent words first
SEEDS = 100_000  # seeds of unigram, or ten times the size of the vocabulary if that is more (docs/decisions/0013)
THREADS = 4
POLL = 0.1  # seconds between checks of the other process
PREFIX = "jumok-vocabulary-"  # of the temporary folder
WORDS, LOG, MODEL = "words.tsv", "log.txt", "model"  # files through which the two processes communicate

Counts = Mapping[str, int]
Learn = Callable[[Counts, int, str], Generator[float, None, bytes]]


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word occurs in normalised lines; an over-long word counts as several."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split(" "))
    del counts[""]
    for word in [word for word in counts if len(word) > LONGEST]:
        count = counts.pop(word)
        for start in range(0, len(word), LONGEST):
            counts[word[start : start + LONGEST]] += count
    return counts


def most_frequent(counts: Counts, characters: int = CHARACTERS) -> list[tuple[str, int]]:
    """The most frequent words, up to a number of characters in total; ties are broken by a hash of the word."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], zlib.crc32(item[0].encode("utf-8", "replace")), item))
    total = 0
    for index, (word, _) in enumerate(ordered):
        total += len(word)
        if total > characters and index:
            return ordered[:index]
    return ordered


def learn(counts: Counts, size: int, kind: str, *, at_most: bool = False, where: str = "") -> bytes:
    """The bytes of a vocabulary of `size` subwords; with `at_most`, of fewer if the text does not allow as many.

    Every character gets a symbol if that leaves most of the vocabulary free, else the rarest ones stay bytes.  In a
    vocabulary of kind "word", every word between spaces is a symbol, and `size` is only an upper limit.
    """
    return NEVER.finish(_learn_size(_learn_here, counts, size, kind, at_most, where))


def learn_apart(
    counts: Counts, size: int, kind: str, *, at_most: bool, where: str, folder: str | Path | None = None
) -> Generator[float, None, bytes]:
    """`learn` in another process: yields the share done several times per second; closing it kills the process.

    Its files are in a temporary folder inside `folder`, which no other process may use: what an attempt that was killed
    has left there is removed.  Without `folder`, they are in the temporary folder of the system.
    """
    return (yield from _learn_size(partial(_learn_apart, folder=folder), counts, size, kind, at_most, where))


def _learn_size(
    work: Learn, counts: Counts, size: int, kind: str, at_most: bool, where: str
) -> Generator[float, None, bytes]:
    """The bytes of a vocabulary of `size` subwords; with `at_most`, of fewer if the text does not allow as many."""
    if not counts:
        raise DataError("text.nothing_to_learn_from", origin=where)
    try:
        return (yield from work(counts, size, kind))
    except RuntimeError as error:
        explained, proposal = yield from _explain(error, work, counts, size, kind, where)
    if not at_most or proposal is None or proposal > size:
        raise explained
    return (yield from work(counts, proposal, kind))


def _explain(
    error: RuntimeError, work: Learn, counts: Counts, size: int, kind: str, where: str
) -> Generator[float, None, tuple[JumokError, int | None]]:
    """An error of SentencePiece's trainer as one of ours, and a size that the trainer would accept."""
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
        least = int(match[1])
        return UsageError("text.vocabulary_too_small", size=size, least=least, origin=where), least
    if not re.search(r"value <= (\d+)", str(error)):
        return DataError("text.cannot_learn_vocabulary", reason=error, origin=where), None
    proposal = size
    while match := re.search(r"value <= (\d+)", str(error)):
        proposal = int(match[1])  # with fewer symbols some characters may stay bytes, and then even fewer fit: try it
        try:
            yield from work(counts, proposal, kind)
            break
        except RuntimeError as another:
            error = another
    words = len(counts)
    return UsageError("text.too_few_words", size=size, words=words, proposal=proposal, origin=where), proposal


def _learn_here(counts: Counts, size: int, kind: str) -> Generator[float, None, bytes]:
    """Learn in one step in this process; an error of SentencePiece is a RuntimeError."""
    yield 0.0
    with TemporaryDirectory(prefix=PREFIX) as folder:
        return _learn(most_frequent(counts), size, kind, Path(folder), quiet=True)


def _learn(words: list[tuple[str, int]], size: int, kind: str, folder: Path, *, quiet: bool) -> bytes:
    characters = len(set().union(*(word for word, _ in words)))
    coverage = 1.0 if 2 * characters < size - SPECIALS - 256 else 0.9995
    more: dict[str, Any] = {}
    if kind == "unigram":
        from jumok.text.seeds import repeated_parts  # with numpy, which only learning needs

        most = max(SEEDS, 10 * size)
        seeds = repeated_parts([word for word, _ in words], [count for _, count in words], most=most)
        (folder / "seeds.tsv").write_bytes("".join(f"{part}\t{count}\n" for part, count in seeds).encode())
        more = {"seed_sentencepieces_file": str(folder / "seeds.tsv"), "seed_sentencepiece_size": most}
        if not quiet:
            print(f"seeds={len(seeds)}", file=sys.stderr, flush=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in words), input_format="tsv", model_writer=model,
        vocab_size=size, model_type=kind, character_coverage=coverage, byte_fallback=True,
        normalization_rule_name="identity", pad_id=PAD, unk_id=UNKNOWN, bos_id=START, eos_id=END,
        control_symbols=list(RESERVED), max_sentence_length=4 * LONGEST + 32, hard_vocab_limit=kind != "word",
        num_threads=THREADS, minloglevel=2 if quiet else 0, **more,
    )  # fmt: skip
    return remove_inputs(model.getvalue())


def _learn_apart(counts: Counts, size: int, kind: str, *, folder: str | Path | None) -> Generator[float, None, bytes]:
    """Learn in another process; an error of SentencePiece is a RuntimeError."""
    for leftover in Path(folder).glob(f"{PREFIX}*") if folder is not None else ():
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        temporary = TemporaryDirectory(prefix=PREFIX, dir=folder)
    except OSError as error:
        raise DiskError("text.cannot_write_words", reason=error.strerror, folder=folder or gettempdir()) from None
    with temporary as name:
        work = Path(name)
        try:
            lines = (f"{word}\t{count}\n" for word, count in most_frequent(counts))
            (work / WORDS).write_bytes("".join(lines).encode())
        except OSError as error:
            raise DiskError("text.cannot_write_words", reason=error.strerror, folder=work) from None
        command, environment = module_command("jumok.text.trainer")
        with open(work / LOG, "wb") as log:
            child = subprocess.Popen(
                [*command, str(work), str(size), kind, str(os.getpid())], env=environment, start_new_session=True,
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        assert child.stdin is not None  # nothing is sent: it ends when this process does
        try:
            while child.poll() is None:
                time.sleep(POLL)
                yield share_done((work / LOG).read_text(errors="replace"), size)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdin.close()
        if child.returncode:
            complaint = (work / LOG).read_text(errors="replace").strip()
            raise RuntimeError(complaint.rpartition("\n")[2] or f"exit status {child.returncode}")
        return (work / MODEL).read_bytes()


def share_done(log: str, size: int) -> float:
    """The share of the work done, by the trainer's log: unigram drops a quarter of its subwords at a time, BPE adds."""
    from math import log as ln

    if added := re.findall(r"Added: .* size=(\d+)", log):
        return min(1.0, int(added[-1]) / size)
    seeds, left = re.search(r"seeds=(\d+)", log), re.findall(r"EM sub_iter=\d+ size=(\d+)", log)
    if not seeds or not left or int(seeds[1]) <= size:
        return 0.0
    return max(0.0, min(1.0, ln(int(seeds[1]) / int(left[-1])) / ln(int(seeds[1]) / size)))


def main() -> None:
    """Learn from the words in a file of the folder, and write the vocabulary into another file there."""
    folder, size, kind, parent = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    die_with_parent(parent, pipe=sys.stdin.fileno())
    rows = (line.split("\t") for line in (folder / WORDS).read_bytes().decode().split("\n")[:-1])
    try:
        model = _learn([(word, int(count)) for word, count in rows], size, kind, folder, quiet=False)
    except RuntimeError as error:
        print(f"\n{str(error).replace(chr(10), ' ')}", file=sys.stderr)
        sys.exit(1)
    (folder / MODEL).write_bytes(model)


if __name__ == "__main__":
    main()
