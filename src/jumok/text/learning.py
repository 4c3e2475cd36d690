"""SentencePiece's trainer: sentences to a vocabulary's bytes; if wanted in a process of its own, which can be left.

The trainer is C++ and hears no signal until it is done; a run that is asked to stop ends the other process instead.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import sentencepiece

PAD, UNKNOWN, START, END = 0, 1, 2, 3
RESERVED = ("<sep>", "<cls>", "<mask>", "<extra>")  # ids 4 … 7
SEPARATOR, CLASS, MASK = 4, 5, 6
SPECIALS = 4 + len(RESERVED)
LONGEST = 4_096  # characters SentencePiece learns from at once; it would pass over a longer line in silence
LOOK = 0.2  # seconds between looks at who asks to stop


def learn(lines: Sequence[str], size: int, kind: str) -> bytes:
    """SentencePiece's trainer; what it complains of is a RuntimeError.

    Every character gets a symbol where they leave most of the vocabulary free, else the rarest ones stay bytes.  Words
    between spaces are whole symbols in a vocabulary of kind "word", which has no more than there are.
    """
    characters = len(set().union(*lines))
    coverage = 1.0 if 2 * characters < size - SPECIALS - 256 else 0.9995
    slices = (line[start : start + LONGEST] for line in lines for start in range(0, len(line), LONGEST))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=slices, model_writer=model, vocab_size=size, model_type=kind,
        character_coverage=coverage, byte_fallback=True, normalization_rule_name="identity",
        pad_id=PAD, unk_id=UNKNOWN, bos_id=START, eos_id=END, control_symbols=list(RESERVED),
        max_sentence_length=4 * LONGEST, hard_vocab_limit=kind != "word", num_threads=4, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def learn_apart(lines: Sequence[str], size: int, kind: str, tick: Callable[[], None]) -> bytes:
    """The same in another process; `tick` is called while it works and may end it by an exception of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "jumok.text.learning", str(size), kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as child:
        try:
            text: bytes | None = "\n".join(lines).encode()
            while True:
                try:
                    model, complaint = child.communicate(text, timeout=LOOK)
                    break
                except subprocess.TimeoutExpired:
                    text = None  # it is on its way
                    tick()
        finally:
            if child.poll() is None:
                child.kill()
    if child.returncode:
        raise RuntimeError(complaint.decode(errors="replace").strip() or f"it ended with {child.returncode}")
    return model


def main() -> None:
    """Sentences from standard input, the vocabulary to standard output."""
    try:
        lines = sys.stdin.buffer.read().decode().split("\n")
        sys.stdout.buffer.write(learn(lines, int(sys.argv[1]), sys.argv[2]))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
