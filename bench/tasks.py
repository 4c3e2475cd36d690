"""Test that every model that generates text learns to copy and to reverse four to ten letters.

    bench/tasks --steps 1200

For each model and task an ordinary run with the model's usual training; reports the share of unseen strings whose
greedy output is exactly right.  Exits with code 1 if any is below 98 %.
"""

from __future__ import annotations

import argparse
import sys
import time

from bench.places import say
from jumok.data.made import phrasebook
from jumok.runs.experiment import train
from jumok.translator import Translator

MODELS = ("transformer", "rnn", "convs2s", "bytenet", "memory", "gpt")
EXTRA = {  # further changes: the memory network has the sizes of its paper's language model, and needs longer
    "memory": {"model.tying": "layer-wise", "model.nonlinear": "half", "model.hops": 6, "model.d_model": 128}
    | {"training.peak": 3e-3},
}
WANTED = 0.98
CHANGES = {  # small updates and no dropout, since these tasks have no noise
    "data.pairs": 20_000,
    "vocabulary.size": 285,
    "model.dropout": 0.0,
    "training.tokens_per_update": 512,
    "training.dropout_epochs": 0,
    "training.word_dropout": 0.0,
    "training.validations": 4,
    "training.valid_pairs": 200,
}


def unseen_strings(task: str, count: int) -> list[tuple[str, str]]:
    """Strings of all lengths that are not in the training data."""
    seen = {source for source, _ in phrasebook.task(task, int(CHANGES["data.pairs"]), seed=1)}
    drawn = phrasebook.task(task, 10 * count, seed=10_007)
    return [pair for pair in drawn if pair[0] not in seen][:count]


def exact_share(model: Translator, task: str, count: int) -> float:
    """The share of unseen strings whose output is exactly right."""
    pairs = unseen_strings(task, count)
    answers = model.translate([source for source, _ in pairs], beam=1, details=False)
    return sum(answer.text == target for answer, (_, target) in zip(answers, pairs, strict=True)) / count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/tasks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tasks", default="copy,reverse")
    parser.add_argument("--steps", type=int, default=1_200, help="updates of each run; default: %(default)s")
    parser.add_argument("--strings", type=int, default=1_000, help="unseen strings; default: %(default)s")
    parser.add_argument("--out", default="runs/tasks")
    given = parser.parse_args(arguments)
    tasks, short = given.tasks.split(","), 0
    print(f"| model | {' | '.join(f'{task}, exactly exact_share | seconds' for task in tasks)} |")
    print("|---" * (1 + 2 * len(tasks)) + "|")
    for name in given.models.split(","):
        cells = []
        for task in tasks:
            say(f"{name}, {task}")
            began = time.monotonic()
            run = train(
                corpus=task,
                model=name,
                steps=given.steps,
                changes=CHANGES | EXTRA.get(name, {}),
                out=f"{given.out}/{name}-{task}",
            )
            share = exact_share(Translator.load(run.folder), task, given.strings)
            short += share < WANTED
            cells += [f"{share:.1%}", f"{time.monotonic() - began:.0f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
