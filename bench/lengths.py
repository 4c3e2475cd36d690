"""Training speed and memory by length of sentence.

    bench/lengths                                        # tiny: 32 … 1,024 subwords
    bench/lengths --recipe base --rounds 2
    bench/lengths --recipe base --lengths 32 --symbols 32000

Every measurement runs in a separate process, so that peak memory is measured per length.  It makes updates of the
recipe's size from sentences that all have the same number of random subwords on both sides (without END, as
`data.longest` counts), with the recipe's model, dropout, optimiser and workers.  A round measures every length once;
rates are medians over the rounds, a ratio is the median of the ratios within each round.  If other programs are busy,
compare the rates per second of processor time; `disturbed` is the share of updates during which they were.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bench.places import environment, say

LENGTHS = (32, 64, 128, 192, 256, 320, 512, 1_024)


def make_batches(length: int, symbols: int, *, tokens: int, seed: int = 1) -> Iterator[Any]:
    """Endless batches of at most `tokens` tokens per side, divided as in training."""
    import torch

    from jumok.data.batches import Batch, plan, teacher_force
    from jumok.text.vocabulary import SPECIALS

    rng = np.random.default_rng(seed)
    while True:
        sizes = np.full(max(1, 4 * tokens // length), length)
        for rows in plan(sizes, sizes, tokens=tokens, rng=rng):
            drawn = rng.integers(SPECIALS, symbols, (2, len(rows), length))
            source, target, labels = teacher_force(list(drawn[0]), list(drawn[1]))
            yield Batch(source, target, labels, torch.from_numpy(rows), labels.numel())


def measure(
    name: str, length: int, *, symbols: int | None, tokens: int | None, warmup: int, seconds: float
) -> dict[str, Any]:
    """Rate, memory and time of updates with sentences of one length, in this process."""
    import torch

    from jumok import machine
    from jumok.bench.measure import Watch, Work
    from jumok.config import presets
    from jumok.models import build
    from jumok.training.objectives import objective_of
    from jumok.training.optim import Optimizer
    from jumok.training.update import Team, replicate

    machine.keep_memory()
    recipe = presets.get(name)
    training, size = recipe.training, symbols or recipe.vocabulary.size
    update = tokens or training.tokens_per_update
    each = min(recipe.data.tokens_per_batch, update)
    torch.manual_seed(1)
    model = build(recipe.model, size, size)
    replicas = replicate(model, torch.get_num_threads())
    objectives = [objective_of(one, smoothing=training.label_smoothing) for one in replicas]
    team = Team(model, replicas, objectives, Optimizer(model, training))
    feed, step = make_batches(length, size, tokens=each), 0
    watch = Watch(warmup=warmup, updates=10**9)
    while len(watch.timed) < 2 or sum(one.seconds for one in watch.timed) < seconds:
        batches = [next(feed) for _ in range(max(1, round(update / each)))]
        watch.resume()
        loss, _, target = team.update(
            batches, [step * 1_000 + i for i in range(len(batches))], rate=1e-4, largest_gradient=training.clip
        )
        source = sum(batch.source.numel() for batch in batches)
        watch.update(Work(source, target, source + target, sum(len(batch.rows) for batch in batches), loss=loss))
        step += 1
    figures = watch.figures()
    return {
        "length": length,
        "tokens_per_second": figures["target_tokens_per_second_median"],
        "tokens_per_core_second": statistics.median(u.work.target / (u.user + u.system) for u in watch.sample),
        "seconds_per_update": figures["seconds_per_update_median"],
        "updates": len(watch.timed),
        "disturbed": len(watch.timed) - len(watch.clean),
        "peak_memory": machine.peak_memory(),
        "loss": loss,
    }


def measure_apart(length: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run `measure` in a separate process."""
    command = [sys.executable, "-m", "bench.lengths", "--one", str(length), "--recipe", given.recipe]
    for option in ("symbols", "tokens", "warmup", "seconds"):
        if (value := getattr(given, option)) is not None:
            command += [f"--{option}", str(value)]
    done = subprocess.run(command, env=environment(threads=given.threads), stdout=subprocess.PIPE, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def table(rounds: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    """Medians over the rounds as a Markdown table; every round has the same lengths, the first is the reference."""
    lines = ["| subwords | target tokens/s | of the first | per second of a core | of the first | seconds per update "]
    lines[0] += "| peak memory | disturbed |"
    lines.append("|---:" * 8 + "|")
    for index, first in enumerate(rounds[0]):
        results, cells = [each[index] for each in rounds], []
        for rate in ("tokens_per_second", "tokens_per_core_second"):
            ratio = statistics.median(each[index][rate] / each[0][rate] for each in rounds)
            cells += [f"{statistics.median(result[rate] for result in results):,.0f}", f"{ratio:.0%}"]
        seconds = statistics.median(result["seconds_per_update"] for result in results)
        memory = max(result["peak_memory"] for result in results) / 1e9
        disturbed = sum(result["disturbed"] for result in results) / sum(result["updates"] for result in results)
        cells += [f"{seconds:.3f}", f"{memory:.2f} GB", f"{disturbed:.0%}"]
        lines.append(f"| {first['length']:,} | {' | '.join(cells)} |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/lengths", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="tiny")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="subwords; default: %(default)s")
    parser.add_argument("--symbols", type=int, help="size of the vocabulary; default: the recipe's")
    parser.add_argument("--tokens", type=int, help="tokens per update; default: the recipe's")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--warmup", type=int, default=2, help="updates that do not count; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=4.0, help="of updates that count; default: %(default)s")
    parser.add_argument("--threads", type=int, help="cores; default: all")
    parser.add_argument("--one", type=int, metavar="LENGTH", help="one length in this process, as JSON")
    given = parser.parse_args(arguments)
    if given.one is not None:
        figures = measure(
            given.recipe, given.one, symbols=given.symbols, tokens=given.tokens, warmup=given.warmup,
            seconds=given.seconds,
        )  # fmt: skip
        print(json.dumps(figures))
        return 0
    rounds = []
    for number in range(given.rounds):
        say(f"round {number + 1} of {given.rounds}")
        rounds.append([measure_apart(length, given) for length in map(int, given.lengths.split(","))])
    print("\n".join(table(rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
