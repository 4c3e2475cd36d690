"""A process with one translation system that answers requests, one JSON object per line.

    python -m jumok.bench.worker runs/tiny --engine ctranslate2 --precision int8

It loads the model and reports that it is ready, or in one line why it cannot be measured.  Then it answers the requests
on stdin on stdout:

    {"do": "warm", "beam": 5, "texts": […]}      {"settings": "…"}     may take long, may try settings
    {"do": "batch", "beam": 5, "texts": […]}     {"seconds": …, "texts": […], "source_tokens": …, "clean": …}
    {"do": "single", "beam": 5, "texts": […]}    {"milliseconds": […], "clean": …}     after a short warm-up
    {"do": "memory"}                             {"peak_memory": …}     largest resident bytes so far
    {"do": "leave"}                              {}     and exits

Time is measured from text to text: encoding and decoding of subwords are included, JSON is not.  The peers of
bench/peers/ use the same `serve`, which therefore imports only the standard library.  An answer is clean if other
processes left the machine idle (measure.py).
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
from jumok.bench.measure import is_undisturbed, read_clocks
from jumok.config.keywords import EngineKeywords
from jumok.errors import JumokError, UsageError
from jumok.machine import peak_memory

WARM = 5  # single sentences before the clock counts


class Unavailable(Exception):
    """A system that cannot be measured; the message is one line with the reason."""


class System(ABC):
    """A translation system."""

    version: str
    once: Sequence[str]  # arguments with which a new interpreter prints one translation; the text follows them

    @abstractmethod
    def translate(self, texts: list[str], beam: int) -> list[str]:
        """The best translation of each text."""

    @abstractmethod
    def tokens(self, texts: list[str]) -> int:
        """The number of subwords of the texts, without END."""

    def alone(self, text: str, beam: int) -> str:
        """Translate one sentence with low latency."""
        return self.translate([text], beam)[0]

    def warm(self, texts: list[str], beam: int) -> str:
        """Warm up for batches like this one; returns the chosen settings."""
        self.translate(texts, beam)
        return ""

    def warm_alone(self, texts: list[str], beam: int) -> None:
        """Warm up for single sentences like these."""
        for text in texts:
            self.alone(text, beam)


class Jumok(System):
    """Jumok, loaded as the command line does; without torch if the engine does not need it."""

    def __init__(self, model: str, engine: str, precision: str | None, shortlist: bool) -> None:
        chosen: EngineKeywords = {"engine": engine, "precision": precision, "shortlist": shortlist}
        self.translator = jumok.Translator.load(model, say=refuse, **chosen)
        self.translator.translate("1")  # creates the engine, or raises the reason why it cannot be created
        self.version, self.once = jumok.__version__, ["-m", "jumok", "translate", model, *flags(chosen)]

    def translate(self, texts: list[str], beam: int) -> list[str]:
        """Text without details, as `jumok translate` and the peers return it; word probabilities would cost more."""
        return [translation.text for translation in self.translator.translate(texts, beam=beam, details=False)]

    def tokens(self, texts: list[str]) -> int:
        return sum(map(len, self.translator.vocabularies.source.encode_all(texts)))


def refuse(text: str) -> None:
    """Refuse a fallback to another engine, which would be measured under a wrong name."""
    raise UsageError("bench.another_engine", description=text)


def flags(chosen: EngineKeywords) -> list[str]:
    """Keywords of a translator as options of the command line."""
    words = []
    for name, value in chosen.items():
        if value:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def serve(make: Callable[[], System]) -> None:
    """Answer requests until there are no more, or until asked to exit."""
    answers = redirect_stdout()

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    try:
        system = make()
    except (JumokError, Unavailable, ImportError) as error:
        say({"skipped": error.what if isinstance(error, JumokError) else str(error).split("\n")[0]})
        return
    say({"ready": True, "version": system.version, "once": list(system.once)})
    for line in sys.stdin:
        question = json.loads(line)
        say(answer(system, question))
        if question["do"] == "leave":
            return


def redirect_stdout() -> TextIO:
    """Reserve standard output for answers: other output of this process goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def answer(system: System, question: dict[str, Any]) -> dict[str, Any]:
    """The answer of a system to a request."""
    match question:
        case {"do": "warm", "beam": beam, "texts": texts}:
            return {"settings": system.warm(texts, beam)}
        case {"do": "batch", "beam": beam, "texts": texts}:
            (seconds, translations), clean = watch(lambda: time_call(system.translate, texts, beam))
            return {
                "seconds": seconds, "texts": translations, "source_tokens": system.tokens(texts), "clean": clean,
            }  # fmt: skip
        case {"do": "single", "beam": beam, "texts": texts}:
            system.warm_alone(texts[:WARM], beam)
            times, clean = watch(lambda: [time_call(system.alone, text, beam)[0] for text in texts])
            return {"milliseconds": [1e3 * seconds for seconds in times], "clean": clean}
        case {"do": "memory"}:
            return {"peak_memory": peak_memory()}
        case {"do": "leave"}:
            return {}
    raise ValueError(f"no such question: {question}")


def watch(call: Callable[[], Any]) -> tuple[Any, bool]:
    """The result of a call, and whether other processes left the machine idle meanwhile."""
    before = read_clocks()
    result = call()
    now = read_clocks()
    others = None if now.others is None or before.others is None else now.others - before.others
    return result, is_undisturbed(others, now.wall - before.wall)


def time_call(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """The seconds of a call, and its result."""
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
