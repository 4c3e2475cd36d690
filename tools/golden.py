"""Make golden models: one of every kind, a few kB each, whose answers are compared for ever.

    python tools/golden.py 0.2                        # all, in tests/golden/0.2/
    python tools/golden.py 0.2 --only rnn,run
    python tools/golden.py 0.2 --only rnn --replace   # what stands there is lost

A folder that exists is not overwritten without `--replace`: that the models of a version go on giving the same answers
is what they are for.  A new format, or a new kind of model, adds a folder.  Questions are chosen so that rounding does
not decide an answer: it stays the same when every weight is changed by a random thousandth, and the best hypothesis of
a beam is better than the second by 0.01.
"""

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import jumok
from jumok.config.kinds import KINDS
from jumok.config.sections import UNCLEANED
from jumok.data.generated import stories, task
from jumok.errors import JumokError, Resumable
from jumok.kernels import library
from tests.support import golden
from tests.support.golden import ENGINES, FAST, RUN, ask, loaded, suits

MARGIN, CHANGE, TRIES = 0.01, 1e-3, 5
TEXTS, DIFFERENT = 6, 2  # of a question, and different answers to it at least
WHO, DOES, WHAT = ("a man", "a dog", "she"), ("sees", "has", "likes"), ("tea", "a hat", "the sea", "a boat")
LINES = [f"{who} {does} {what}." for who in WHO for does in DOES for what in WHAT]
VERBS = dict.fromkeys(DOES, "VERB")
COMMON: dict[str, Any] = {
    **UNCLEANED,
    "vocabulary.size": 294,
    "vocabulary.at_most": True,
    "vocabulary.sampling": 0.0,
    "data.hold_out": 20,
    "data.tokens_per_batch": 512,
    "decoding.extra_length": 5,
    "model.d_model": 8,
    "model.dropout": 0.0,
    "training.tokens_per_update": 512,
    "training.validations": 2,
    "training.valid_pairs": 20,
    "training.average": 1,
    "training.schedule": "linear",
    "training.warmup": 20,
    "training.word_dropout": 0.0,
    "training.dropout_epochs": 0,
}
STACK = {"model.d_model": 16, "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_ff": 16, "model.heads": 2}
HEADS = {"model.layers": 2, "model.d_ff": 16, "model.heads": 2}
OWN = {
    "model.norm": "rms", "model.positions": "learned", "model.longest": 32, "model.activation": "swiglu",
    "model.score": "additive", "model.tied": "target",
}  # fmt: skip
TRANSLATORS: dict[str, dict[str, Any]] = {
    "paper": {"recipe": "base", **STACK, "training.peak": 1e-2},
    "tiny": {**STACK},
    "variants": {**STACK, **OWN, "model.d_model": 8},
    "rnn": {"model.kind": "rnn", "training.peak": 1e-2},
    "convs2s": {"model.kind": "convs2s", "model.encoder_layers": 1, "model.decoder_layers": 1, "model.longest": 32},
    "bytenet": {
        "model.kind": "bytenet", "model.encoder_sets": 1, "model.decoder_sets": 1, "model.largest_dilation": 4,
    },
    "gpt": {"model.kind": "gpt", **HEADS, "model.longest": 32},
    "memory": {
        "model.kind": "memory", "model.hops": 1, "model.longest": 16,
        "data.corpus": "babi-1", "vocabulary.kind": "word",
    },
}  # fmt: skip
READERS: dict[str, dict[str, Any]] = {
    "gpt-text": {"model.kind": "gpt", **HEADS, "model.positions": "rotary"},
    "memory-words": {"model.kind": "memory", "model.memory": "words", "model.hops": 1, "model.words": 8},
    "bert": {"model.kind": "bert", **HEADS},
    "electra": {"model.kind": "electra", **HEADS, "model.generator": 1.0, "training.peak": 1e-2},
}
LABELS: dict[str, dict[str, Any]] = {
    "classifier": {"model.kind": "classifier", **HEADS, "model.longest": 32},
    "tagger": {"model.kind": "tagger", **HEADS, "model.longest": 32, "training.peak": 1e-2},
}
CASES = {**TRANSLATORS, **READERS, **LABELS}


def train(name: str, folder: Path, steps: int) -> None:
    """Train the model of a case in `folder`/run."""
    changes = {**COMMON, **CASES[name]}
    kind, recipe = changes.pop("model.kind", "transformer"), changes.pop("recipe", "tiny")
    where: dict[str, Any] = {"corpus": changes.pop("data.corpus", "reverse")}
    if name in READERS:
        (folder / "text.txt").write_text("\n".join(LINES * 8) + "\n")
        where, changes["data.stretch"] = {"text": "text.txt"}, 40
    elif name in LABELS:
        tags = [" ".join(VERBS.get(word, "O") for word in line.split()) for line in LINES]
        classes = ["tea" if "tea" in line else "no-tea" for line in LINES]
        (folder / "lines.txt").write_text("\n".join(LINES * 4) + "\n")
        (folder / "labels.txt").write_text("\n".join((tags if name == "tagger" else classes) * 4) + "\n")
        where = {"source": "lines.txt", "target": "labels.txt"}
        where |= {"valid_source": where["source"], "valid_target": where["target"]}
    else:
        changes["data.pairs"] = 4_000
    with contextlib.chdir(folder):  # a recipe holds no path of this machine
        jumok.train(model=kind, **where, recipe=recipe, steps=steps, changes=changes, out="run")


def candidates(name: str) -> Iterator[str]:
    """Texts to ask about, more than are needed."""
    if name in LABELS:
        yield from random.Random(7).sample(LINES, 20)
    elif name == "memory":
        yield from (one.source for one in stories(1, 40, 99, "test"))
    else:
        yield from (one.source for one in task("reverse", 150, 99) if len(one.source) < 24)


def questions(name: str) -> list[dict[str, Any]]:
    """What a case is asked, with all candidates."""
    if name in ("bert", "electra"):
        texts = [" ".join([*words[:place], "<mask>", *words[place + 1 :]])
                 for line in LINES for words in [line.split()] for place in range(len(words))]  # fmt: skip
        return [{"ask": "fill", "texts": random.Random(7).sample(texts, 40), "n_best": 3}]
    if name in READERS:
        starts = [" ".join(line.split()[:count]) for line in LINES for count in (1, 2, 3)]
        return [{"ask": "generate", "texts": list(dict.fromkeys(starts)), "length": 12}]
    texts = list(candidates(name))
    return [{"ask": "translate", "beam": beam, "texts": texts} for beam in (1, 4)]


def answers_alike(folder: Path, question: dict[str, Any]) -> list[set[str]]:
    """What is said of each text, by the model as it is and with its weights changed a little."""
    found = []
    for number in range(TRIES + 1):
        with loaded(folder, "plain") as model:
            for weight in {*model.engine.model.parameters(), *model.engine.fast.parameters()} if number else ():
                noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
                weight.data *= 1.0 + CHANGE * noise
            found.append([one.text for one in ask(model, question)])
    return [set(texts) for texts in zip(*found, strict=True)]


def margins(folder: Path, question: dict[str, Any]) -> list[float]:
    """By how much the best hypothesis of each text is better than the second."""
    if question.get("beam", 1) == 1:
        return [math.inf] * len(question["texts"])
    with loaded(folder, "torch") as model:
        found = model.translate(question["texts"], beam=question["beam"], n_best=2)
    return [one.score - one.alternatives[0].score if one.alternatives else math.inf for one in found]


def settle(folder: Path, question: dict[str, Any]) -> dict[str, Any]:
    """The question with the texts whose answers do not hang on rounding, as different as they come."""
    each = zip(question["texts"], answers_alike(folder, question), margins(folder, question), strict=True)
    sure = {text: said.pop() for text, said, margin in each if len(said) == 1 and any(said) and margin > MARGIN}
    different = {answer: text for text, answer in reversed(sure.items())}
    chosen = list(dict.fromkeys([*different.values(), *sure]))[:TEXTS]
    if len(chosen) < TEXTS or len(different) < DIFFERENT:
        raise SystemExit(f"{folder.name}: only {len(sure)} answers are sure, {len(different)} different; train longer")
    return question | {"texts": chosen}


def runs_on(folder: Path, engine: str) -> bool:
    with loaded(folder, engine) as model:
        return engine not in FAST or model.fast is not None


def make(name: str, place: Path, steps: int) -> None:
    """Make one golden model in the folder `place`."""
    with tempfile.TemporaryDirectory() as temporary:
        train(name, Path(temporary), steps)
        shutil.copytree(Path(temporary) / "run" / "model", place / "model")
    settled = [settle(place, question) for question in questions(name)]
    if settled[0]["ask"] == "translate":
        targets = [text[::-1] for text in settled[0]["texts"]]
        if name in LABELS or name == "memory":
            with loaded(place, "plain") as model:
                targets = [one.text for one in ask(model, settled[0])]
        settled.append({"ask": "score", "texts": settled[0]["texts"], "targets": targets})
    elif settled[0]["ask"] == "generate":
        settled.append({"ask": "score", "texts": [""] * TEXTS, "targets": LINES[:TEXTS]})
    with loaded(place, "plain") as model:
        for question in settled:
            question["answers"] = [
                [one.text, *(round(number, 6) for number in one.numbers)] for one in ask(model, question)
            ]
        kind = model.recipe.model.kind
    able = [engine for engine in ENGINES if runs_on(place, engine)]
    expected = {"kind": kind, "engines": able, "questions": settled}
    write(place, expected)
    worst = max((difference(place, engine, expected) for engine in able), default=0.0)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    said = [[one[0] for one in question["answers"]] for question in settled]
    print(f"{name}: {size:,} bytes, {', '.join(able)}; numbers within {worst:.0e}; {said[0]}", flush=True)


def write(place: Path, expected: dict[str, Any]) -> None:
    """Write expected.json with an answer per line."""
    text = json.dumps(expected, ensure_ascii=False)
    for before in ('{"ask"', '["'):
        text = text.replace(f"[{before}", f"[\n {before}").replace(f"], {before}", f"],\n {before}")
    (place / "expected.json").write_text(text + "\n", encoding="utf-8")


def difference(place: Path, engine: str, expected: dict[str, Any]) -> float:
    """The largest difference of a number of this engine's answers; texts must be the same."""
    worst = 0.0
    with loaded(place, engine) as model:
        for question in expected["questions"]:
            for one, (text, *numbers) in zip(ask(model, question), question["answers"], strict=True):
                if suits(question, engine) and one.text != text:
                    raise SystemExit(f"{place.name} on {engine}: {one.text!r} where plain torch says {text!r}")
                if suits(question, engine):
                    worst = max([worst, *(abs(a - b) for a, b in zip(one.numbers, numbers, strict=True))])
    return worst


def make_run(place: Path) -> None:
    """Make a run that was stopped two updates before its end, and record the losses of these two.

    Without dropout, which kernels and plain torch draw differently; words and subwords are drawn by key.
    """
    changes = {**COMMON, **STACK, "model.d_model": 8, "model.heads": 1}
    changes |= {"data.pairs": 120, "training.word_dropout": 0.1, "vocabulary.sampling": 0.1, "training.ema": 0.9}
    stop_at, seen = 8, []

    def watch(event: dict[str, Any]) -> None:
        seen.extend([event["step"]] if event["event"] == "step" else [])

    given: dict[str, Any] = {"corpus": "reverse", "recipe": "tiny", "steps": stop_at + 2, "changes": changes}
    with tempfile.TemporaryDirectory(prefix="jumok-golden-") as temporary:
        out = Path(temporary) / "run"
        with contextlib.suppress(Resumable):
            jumok.train(**given, out=out, sinks=[watch], stop=lambda: stop_at in seen)
        shutil.copytree(out, place, ignore=shutil.ignore_patterns("tensorboard", ".lock"))
        jumok.train(recipe=str(place / "recipe.toml"), out=out)
        losses = [line.split("\t") for line in (out / "losses.tsv").read_text().splitlines()]
    expected = {row[0]: float(row[2]) for row in losses if row[0].isdigit() and int(row[0]) > stop_at}
    write(place, {"losses": expected})
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(f"{RUN}: {size:,} bytes, {expected}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="the folder below tests/golden/ (or a path)")
    parser.add_argument("--only", help="models, separated by commas; default: all")
    parser.add_argument("--replace", action="store_true", help="overwrite what is there")
    parser.add_argument("--steps", type=int, default=1_200)
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [*CASES, RUN]
    missing = set(KINDS) - {values.get("model.kind", "transformer") for values in CASES.values()}
    if missing and not given.only:
        print(f"no golden model is described for {', '.join(sorted(missing))}: add it to CASES", file=sys.stderr)
        return 1
    if library.load() is None:
        print(f"golden models are made where all engines run: {library.find_problem()}", file=sys.stderr)
        return 1
    for name in names:
        place = golden.FOLDER / given.version / name
        if place.exists() and not given.replace:
            print(f"{place} exists; golden models stay for ever (--replace overwrites)", file=sys.stderr)
            return 1
        shutil.rmtree(place, ignore_errors=True)
        try:
            make_run(place) if name == RUN else make(name, place, given.steps)
        except JumokError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
