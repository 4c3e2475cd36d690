"""One system that translates, in a process of its own, asked by lines of JSON.

    python -m jumok.bench.worker runs/tiny --engine ctranslate2 --precision int8

It loads the model and says that it is ready, or in one line why it cannot be measured.  Then it answers on stdout what
it is asked on stdin:

    {"do": "warm", "beam": 5, "texts": […]}      {"settings": "…"}     takes its time, may try settings
    {"do": "batch", "beam": 5, "texts": […]}     {"seconds": …, "texts": […], "source_tokens": …, "clean": …}
    {"do": "single", "beam": 5, "texts": […]}    {"milliseconds": […], "clean": …}     after a few that do not count
    {"do": "memory"}                             {"peak_memory": …}     resident bytes at most, so far
    {"do": "leave"}                              {}     and ends

Time is text to text: cutting into subwords and putting them together is included, JSON is not.  The peers of
bench/peers/ answer through the same `serve`, which therefore needs the standard library alone.  An answer is clean
when other processes left the machine alone meanwhile (measure.py).
"""

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import jumok
from jumok.bench.measure import read_clocks, undisturbed
from jumok.engines.options import EngineKeywords
from jumok.errors import JumokError, UsageError
from jumok.machine import peak_memory

WARM = 5  # single sentences before the clock counts


class System(ABC):
    """Something that translates."""

    version: str
    once: Sequence[str]  # arguments with which the same interpreter, started anew, prints a translation; text excepted

    @abstractmethod
    def translate(self, texts: list[str], beam: int) -> list[str]:
        """The best translation of each text."""

    @abstractmethod
    def tokens(self, texts: list[str]) -> int:
        """Subwords of the texts, END not counted."""

    def alone(self, text: str, beam: int) -> str:
        """One sentence, for somebody who waits for it."""
        return self.translate([text], beam)[0]

    def warm(self, texts: list[str], beam: int) -> str:
        """Get ready for batches like this one; says with which settings."""
        self.translate(texts, beam)
        return ""

    def warm_alone(self, texts: list[str], beam: int) -> None:
        """Get ready for single sentences like these."""
        for text in texts:
            self.alone(text, beam)


class Jumok(System):
    """Our own, loaded as the command line does; without torch where the engine needs none."""

    def __init__(self, model: str, engine: str, precision: str | None, shortlist: bool) -> None:
        chosen: EngineKeywords = {"engine": engine, "precision": precision, "shortlist": shortlist}
        self.translator = jumok.Translator.load(model, say=refuse, **chosen)
        self.translator.translate("1")  # the engine is made now, or says why it cannot be
        self.version, self.once = jumok.__version__, ["-m", "jumok", "translate", model, *flags(chosen)]

    def translate(self, texts: list[str], beam: int) -> list[str]:
        """Text alone, as `jumok translate` gives it and the peers do; probabilities of words would cost more."""
        return [one.text for one in self.translator.translate(texts, beam=beam, details=False)]

    def tokens(self, texts: list[str]) -> int:
        return sum(map(len, self.translator.vocabularies.source.encode_all(texts)))


def refuse(text: str) -> None:
    """Another engine would take over, and be measured under a false name."""
    raise UsageError("bench.another_engine", description=text)


def flags(chosen: EngineKeywords) -> list[str]:
    """Choices of a translator as options of the command line."""
    words = []
    for name, value in chosen.items():
        if value:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def serve(make: Callable[[], System]) -> None:
    """Answer questions until there are no more, or until asked to leave."""
    answers = own_stdout()

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        system = make()
    except (JumokError, ImportError) as error:
        say({"skipped": error.what if isinstance(error, JumokError) else str(error).split("\n")[0]})
        return
    say({"ready": True, "version": system.version, "once": list(system.once)})
    for line in sys.stdin:
        question = json.loads(line)
        say(answer(system, question))
        if question["do"] == "leave":
            return


def own_stdout() -> TextIO:
    """Standard output for answers alone: whatever else is printed in this process goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def answer(system: System, question: dict[str, Any]) -> dict[str, Any]:
    """What a system says to a question."""
    match question:
        case {"do": "warm", "beam": beam, "texts": texts}:
            return {"settings": system.warm(texts, beam)}
        case {"do": "batch", "beam": beam, "texts": texts}:
            (seconds, translations), clean = watched(lambda: timed(system.translate, texts, beam))
            return {
                "seconds": seconds, "texts": translations, "source_tokens": system.tokens(texts), "clean": clean,
            }  # fmt: skip
        case {"do": "single", "beam": beam, "texts": texts}:
            system.warm_alone(texts[:WARM], beam)
            times, clean = watched(lambda: [timed(system.alone, text, beam)[0] for text in texts])
            return {"milliseconds": [1e3 * seconds for seconds in times], "clean": clean}
        case {"do": "memory"}:
            return {"peak_memory": peak_memory()}
        case {"do": "leave"}:
            return {}
    raise ValueError(f"no such question: {question}")


def watched(call: Callable[[], Any]) -> tuple[Any, bool]:
    """What a call gave, and whether other processes left the machine alone meanwhile."""
    before = read_clocks()
    result = call()
    now = read_clocks()
    others = None if now.others is None or before.others is None else now.others - before.others
    return result, undisturbed(others, now.wall - before.wall)


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """The seconds of a call, and what it gave."""
    began = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - began, result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m jumok.bench.worker", description="Answers jumok bench decode.")
    parser.add_argument("model")
    parser.add_argument("--engine", choices=("torch", "native", "ctranslate2"), default="torch")
    parser.add_argument("--precision", choices=("float32", "int8"))
    parser.add_argument("--shortlist", action="store_true")
    given = parser.parse_args(arguments)
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the command line does
    serve(lambda: Jumok(given.model, given.engine, given.precision, given.shortlist))


if __name__ == "__main__":
    main()
