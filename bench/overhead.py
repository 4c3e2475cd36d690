"""What a translation costs besides the search.

    bench/overhead --model runs/tiny --source test.en --target test.de

Measures, each as a median over rounds that alternate: the seconds from `import jumok` to the first translation in a new
Python process; one sentence text to text (as `translate` returns it, with words and probabilities, and with
`details=False`) against the search of its ids alone; and the seconds of `jumok evaluate` against those of
`jumok translate` on the same lines, both as new processes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from bench.places import environment, say
from jumok.text.lines import read_lines, write_lines

FIRST = """
import time
began = time.perf_counter()
import jumok
translator = jumok.load({model!r})
translator.translate({text!r})
print(time.perf_counter() - began)
"""


def time_call(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def time_first(model: str, text: str) -> float:
    """Seconds from the import to the first translation in a new process."""
    code = FIRST.format(model=model, text=text)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment())
    return float(done.stdout)


def compare_sentences(model: str, texts: Sequence[str], rounds: int) -> dict[str, float]:
    """Seconds per sentence of the search alone and of two kinds of translation, and their ratios."""
    import jumok

    translator = jumok.load(model)
    options, engine = translator.options(), translator.fast
    assert engine is not None, "the fast engine does not know this model"
    source = translator.vocabularies.source

    def search(text: str) -> Callable[[], object]:
        ids = [source.encode(text)]
        return lambda: engine.decode(ids, options)

    ways: dict[str, Callable[[str], Callable[[], object]]] = {
        "search": search,
        "text to text": lambda text: lambda: translator.translate(text),
        "without details": lambda text: lambda: translator.translate(text, details=False),
    }
    calls = {name: [make(text) for text in texts] for name, make in ways.items()}
    totals: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, every in calls.items():
            seconds = sum(time_call(call) for call in every) / len(texts)
            if number:  # the first round warms up
                totals[name].append(seconds)
    result = {f"{name}, ms": round(1e3 * statistics.median(values), 3) for name, values in totals.items()}
    for name in ("text to text", "without details"):
        ratios = [one / other for one, other in zip(totals[name], totals["search"], strict=True)]
        result[f"{name} / search"] = round(statistics.median(ratios), 3)
    return result


def compare_commands(model: str, source: Path, target: Path, rounds: int) -> dict[str, float]:
    """Seconds of `jumok translate` and `jumok evaluate` on the same lines, and their ratio."""
    jumok = [sys.executable, "-m", "jumok"]
    commands = {
        "translate": [*jumok, "translate", model, "--input", str(source), "--output", str(source) + ".out"],
        "evaluate": [*jumok, "evaluate", model, "--source", str(source), "--target", str(target)],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in sorted(commands, reverse=number % 2 == 0):
            began = time.perf_counter()
            subprocess.run(commands[name], check=True, capture_output=True, env=environment())
            times[name].append(time.perf_counter() - began)
    ratios = [one / other for one, other in zip(times["evaluate"], times["translate"], strict=True)]
    medians = {f"{name}, s": round(statistics.median(values), 2) for name, values in times.items()}
    return medians | {"evaluate / translate": round(statistics.median(ratios), 3)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench/overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", required=True, help="a run folder or an exported model")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate; .gz is fine")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--lines", type=int, default=2_000, help="of the commands; default: %(default)s")
    parser.add_argument("--sentences", type=int, default=200, help="one by one; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sides = {}
        for name, path in (("source", given.source), ("target", given.target)):
            lines = list(islice(read_lines(path), given.lines))
            while len(lines) < given.lines:  # repeated where the file is shorter
                lines += lines[: given.lines - len(lines)]
            write_lines(sides.setdefault(name, Path(folder, name)), lines)
        texts = list(islice(read_lines(given.source), given.sentences))
        say("first translations")
        firsts = [time_first(given.model, texts[0]) for _ in range(given.rounds)]
        say("single sentences")
        result: dict[str, float] = {"first translation after import, s": round(statistics.median(firsts), 3)}
        result |= compare_sentences(given.model, texts, given.rounds)
        say("commands")
        result |= compare_commands(given.model, sides["source"], sides["target"], given.rounds)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
