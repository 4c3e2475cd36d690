"""CTranslate2 used directly: SentencePiece and `translate_batch`, as in its documentation.

    python -m bench.peers.decode_ct2 EXPORT BUNDLE --precision int8

EXPORT is the output of `jumok export ctranslate2`, BUNDLE the model folder with the vocabulary.  Answers requests of
jumok.bench.worker.  The warm-up finds the fastest numbers of workers and threads and batch sizes, for batches and for
single sentences; the length penalty is CTranslate2's default.  OMP_NUM_THREADS, if set, is the total number of threads.
"""

import argparse
import os
from pathlib import Path

import ctranslate2
import sentencepiece

from jumok.bench.worker import System, serve, time_call
from jumok.machine import cores

SIZES = (512, 1024, 2048)  # tokens per batch
SAMPLE = 256  # sentences for choosing batch sizes; a quarter of them for workers and threads
TASTE = 8  # sentences that show whether a setting is worth measuring
FIRST = (1, 1, 1024)  # workers, threads of each, tokens per batch, before any measurement

Settings = tuple[int, int, int]


class CTranslate2(System):
    """The engine with one model; only one translator exists at a time."""

    def __init__(self, export: str, bundle: str, precision: str) -> None:
        self.version = ctranslate2.__version__
        self.once = ["-m", "bench.peers.decode_ct2", export, bundle, "--precision", precision, "--once"]
        self.export, self.precision = export, precision
        self.source, self.target = (processor(Path(bundle), side) for side in ("source", "target"))
        self.cores = int(os.environ.get("OMP_NUM_THREADS", cores()))
        self.layout = (0, 0)
        self.best: dict[tuple[int, bool], Settings] = {}  # by beam and whether sentences are single

    def translator(self, workers: int, threads: int) -> ctranslate2.Translator:
        if self.layout != (workers, threads):
            self.engine = None  # free the old one first
            self.engine = ctranslate2.Translator(
                self.export, compute_type=self.precision, inter_threads=workers, intra_threads=threads
            )
            self.layout = (workers, threads)
        return self.engine

    def run(self, texts: list[str], beam: int, settings: Settings) -> list[str]:
        workers, threads, size = settings
        pieces = self.source.encode(texts, out_type=str)
        results = self.translator(workers, threads).translate_batch(
            pieces, beam_size=beam, max_batch_size=size, batch_type="tokens"
        )
        return self.target.decode([result.hypotheses[0] for result in results])

    def translate(self, texts: list[str], beam: int) -> list[str]:
        return self.run(texts, beam, self.best.get((beam, False), FIRST))

    def alone(self, text: str, beam: int) -> str:
        return self.run([text], beam, self.best.get((beam, True), FIRST))[0]

    def tokens(self, texts: list[str]) -> int:
        return sum(map(len, self.source.encode(texts)))

    @property
    def threads(self) -> list[int]:
        """Numbers of threads per worker: with several, int8 mostly waits (about twenty times slower)."""
        return [1] if self.precision == "int8" else sorted({1, self.cores})

    def warm(self, texts: list[str], beam: int) -> str:
        few = texts[:: max(1, len(texts) // SAMPLE)]
        layouts = [(self.cores // threads, threads, SIZES[0] // 2) for threads in self.threads]
        workers, threads, _ = self.choose_fastest([few[::4]], beam, layouts)
        settings = self.best[beam, False] = self.choose_fastest(
            [few], beam, [(workers, threads, size) for size in SIZES]
        )
        self.translate(texts, beam)
        return f"workers × threads {workers} × {threads}, batches of {settings[2]:,} tokens"

    def warm_alone(self, texts: list[str], beam: int) -> None:
        layouts = [(1, threads, SIZES[0]) for threads in self.threads]
        self.best[beam, True] = self.choose_fastest([[text] for text in texts], beam, layouts)
        super().warm_alone(texts, beam)

    def choose_fastest(self, batches: list[list[str]], beam: int, known: list[Settings]) -> Settings:
        """The settings with which these batches take the least time.

        A few sentences come first: a setting that takes longer for these than another for all is skipped.
        """
        best, least = known[0], float("inf")
        for settings in known if len(known) > 1 else ():
            if time_call(self.run, batches[0][:TASTE], beam, settings)[0] < least:
                seconds = sum(time_call(self.run, batch, beam, settings)[0] for batch in batches)
                best, least = (settings, seconds) if seconds < least else (best, least)
        return best


def processor(bundle: Path, side: str) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary of a side, joint or separate."""
    joint, own = bundle / "vocabulary.model", bundle / f"vocabulary.{side}.model"
    return sentencepiece.SentencePieceProcessor(model_file=str(joint if joint.exists() else own))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.decode_ct2", description=__doc__)
    parser.add_argument("export")
    parser.add_argument("bundle")
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--once", action="store_true", help="print the translation of one text and exit")
    parser.add_argument("text", nargs="?")
    given = parser.parse_intermixed_args()
    if given.once:
        print(CTranslate2(given.export, given.bundle, given.precision).alone(given.text, given.beam), flush=True)
    else:
        serve(lambda: CTranslate2(given.export, given.bundle, given.precision))


if __name__ == "__main__":
    main()
