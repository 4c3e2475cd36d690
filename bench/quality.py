"""BLEU against minutes: jumok and OpenNMT-py, one after the other on the same cores, from the same text.

    bench/quality                                   train for 5, 15 and 40 minutes, score, write bench/quality.md
    bench/quality --minutes 15 --only jumok         one time, one side; the table includes existing results
    bench/quality --pair de-en --minutes 40 --out /tmp/de-en.md
    bench/quality --corpus tatoeba-en-fr --pair en-fr --recipe auto --minutes 30 --out /tmp/en-fr.md
    nohup bench/quality &                           logs are in runs/quality/…; the same command continues

Time is wall clock from two text files, start-up and vocabulary included.  jumok validates while it trains, and that
counts; the peer's checkpoints are scored after its training, and that does not count.  jumok trains once per number of
minutes; the peer, whose schedule does not depend on the end, trains once for the longest.  It has the recipe
published for Transformer-Tiny on Multi30k: 4 + 4 layers, width 128, feed-forward 256, 4 heads, dropout 0.3, smoothing
0.1, Adam (0.9, 0.98), peak rate 0.005 after 2,000 updates of 4,096 tokens, then falling with the inverse square root.
Both choose their final weights on validation; the test set is seen once by each, with beam 5.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.places import ROOT, Absent, corpus, our_python, peer_python, peers, say
from bench.quality_systems import BEAT, SYMBOLS, Jumok, OpenNMT, Point, Setting

TESTS = ("test2016", "test")  # names of test sets; the first that exists is used
MARKS = (20, 25, 30, 33, 35, 36, 37, 38, 39)
SYSTEMS = ("jumok", "onmt")


@dataclass(frozen=True)
class Trained:
    """One training in the report; the peer's single one has a final score for every number of minutes."""

    name: str
    curve: list[Point]
    finals: list[dict[str, Any]]


def minutes_until(curve: list[Point], bleu: float) -> float | None:
    """Minutes until validation BLEU first reached this value."""
    return next((point.minutes for point in curve if point.bleu >= bleu), None)


def report(results: list[Trained], setting: Setting, budgets: list[float], machine: str) -> list[str]:
    """The lines of bench/quality.md."""
    asked = ",".join(f"{minutes:g}" for minutes in budgets)
    asked += "" if setting.text.name == "multi30k" else f" --corpus {setting.text.name}"
    asked += "" if setting.alpha is None else f" --length-penalty {setting.alpha:g}"
    lines = [
        f"# Minutes to a translator: {setting.text.name} {setting.source} → {setting.target}",
        "",
        f"Written by `bench/quality --minutes {asked}` on {time.strftime('%Y-%m-%d')}; {machine}. Wall "
        f"clock from two text files, start-up and vocabulary included. jumok: `--recipe {setting.recipe}`. OpenNMT-py: "
        f"the published Transformer-Tiny recipe with {SYMBOLS:,} joint subwords (see bench/quality.py).",
        "",
        f"## {setting.test}, beam 5, weights chosen on validation",
        "",
        "| | sacreBLEU, cased raw text (13a) | BLEU, lower-cased Moses tokens | chrF | minutes | weights |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for result in results:
        for f in result.finals:
            cells = f"{f['bleu']:.2f} | {f['bleu_moses']:.2f} | {f['chrf']:.2f} | {f['minutes']:.1f} | {f['weights']}"
            lines.append(f"| {result.name} | {cells} |")
    header = f"| {' | '.join(result.name for result in results)} |\n|---:|{'---:|' * len(results)}"
    lines += ["", "## Minutes until validation BLEU (greedy, cased, raw text)", "", *f"| BLEU {header}".split("\n")]
    for mark in MARKS:
        times = [minutes_until(result.curve, mark) for result in results]
        if any(minutes is not None for minutes in times):
            cells = " | ".join("–" if minutes is None else f"{minutes:.1f}" for minutes in times)
            lines.append(f"| {mark} | {cells} |")
    for result in results:
        lines += [
            "",
            f"## {result.name}: every validation",
            "",
            "| minutes | updates | BLEU | pairs |",
            "|---:|---:|---:|---:|",
        ]
        for point in result.curve:
            lines.append(f"| {point.minutes:.1f} | {point.step:,} | {point.bleu:.2f} | {point.pairs or 'all'} |")
    return lines


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", default="5,15,40", help="of training, one or several; default: %(default)s")
    parser.add_argument("--only", choices=SYSTEMS, help="train this one; the report includes existing results")
    parser.add_argument("--train-only", action="store_true", help="train jumok; score later, once choices are made")
    parser.add_argument("--corpus", default="multi30k", help="folder with train, val and test; default: %(default)s")
    parser.add_argument("--pair", default="en-de", help="languages of the corpus; default: %(default)s")
    parser.add_argument("--recipe", default="tiny", help="jumok's; default: %(default)s")
    parser.add_argument("--length-penalty", type=float, dest="alpha", help="of jumok's test; default: the recipe's")
    parser.add_argument("--every", type=int, default=100, help="the peer's updates between checkpoints")
    parser.add_argument("--threads", type=int, help="default: torch's choice")
    parser.add_argument("--data", help="folder with the corpus; default: JUMOK_DATA, else ../shared/data")
    parser.add_argument("--peers", help="of the peers' environments; default: JUMOK_PEERS, else ~/.cache/jumok/peers")
    parser.add_argument("--python", help="the interpreter that has jumok; default: .venv/bin/python")
    parser.add_argument("--folder", default=str(ROOT / "runs" / "quality"), help="of the runs; default: runs/quality")
    parser.add_argument("--out", default=str(ROOT / "bench" / "quality.md"))
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs `finally`, so that no training is left running
    source, target = given.pair.split("-")
    budgets = sorted({float(minutes) for minutes in given.minutes.split(",")})
    try:
        text, python, home = corpus(given.data, given.corpus), our_python(given.python), peers(given.peers)
        peer_python(home, "plain"), peer_python(home, "onmt")
    except Absent as error:
        say(f"skipped: {error}")
        return 0
    home_of_runs = Path(given.folder).resolve() / ("" if given.corpus == "multi30k" else given.corpus)
    test = next((name for name in TESTS if (text / f"{name}.{source}.gz").is_file()), TESTS[0])
    longest = Setting(
        text=text, source=source, target=target, minutes=budgets[-1], folder=home_of_runs / f"{given.pair}-onmt",
        python=python, peers=home, threads=given.threads, recipe=given.recipe, every=given.every, alpha=given.alpha,
        test=test,
    )  # fmt: skip
    jobs: list[tuple[str, Callable[[], Trained | None]]] = []
    for minutes in budgets:
        setting = replace(longest, minutes=minutes, folder=home_of_runs / f"{given.pair}-{given.recipe}-{minutes:g}")
        jobs.append(("jumok", partial(train_jumok, setting, given.only, not given.train_only)))
    if not given.train_only:
        jobs.append(("OpenNMT-py", partial(train_peer, longest, given.only, budgets)))
    results, failed = [], False
    for name, job in jobs:
        try:
            if trained := job():
                results.append(trained)
        except RuntimeError as error:
            say(f"{name} is left out: {error}")
            failed = True
    if not results:
        return int(failed or not given.train_only)
    here = longest.run("machine", [python, "-c", "from jumok import machine; print(machine.describe())"]).strip()
    lines = report(results, longest, budgets, here)
    Path(given.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines[:20]))
    return 0


def train_jumok(setting: Setting, only: str | None, score: bool) -> Trained | None:
    """Train jumok for these minutes, and score it if `score` is set."""
    system = Jumok(setting)
    if only in (None, "jumok"):
        say(f"training jumok for {setting.minutes:g} minutes")
        system.train()
    if not system.sessions.spans or not score:
        return None
    say("scoring jumok")
    return Trained(f"jumok, {setting.minutes:g} minutes", system.curve(), [system.final()])


def train_peer(setting: Setting, only: str | None, budgets: list[float]) -> Trained | None:
    """Train OpenNMT-py for the longest time, and score it after every budget."""
    system = OpenNMT(setting)
    if only in (None, "onmt"):
        say(f"training {system.name} for {setting.minutes:g} minutes")
        system.train()
    if not system.sessions.spans:
        return None
    say(f"scoring {system.name}")
    trained = [minutes for minutes in budgets if minutes * 60 <= system.sessions.seconds + 2 * BEAT]
    return Trained(system.name, system.curve(), [system.final(minutes) for minutes in trained])


if __name__ == "__main__":
    sys.exit(main())
