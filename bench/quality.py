"""BLEU against minutes: jumok and OpenNMT-py, one after the other on the same cores, from the same text.

    bench/quality                                   train for 5, 15 and 40 minutes, score, write bench/quality.md
    bench/quality --minutes 15 --only jumok         one time, one side; the table takes in what is there
    bench/quality --pair de-en --minutes 40 --out /tmp/de-en.md
    bench/quality --corpus tatoeba-en-fr --pair en-fr --recipe auto --minutes 30 --out /tmp/en-fr.md
    nohup bench/quality &                           logs are in runs/quality/…; the same command continues

Time is wall clock from two text files, start-up and vocabulary included.  jumok validates while it trains, and that
counts; the peer's checkpoints are scored after its training, and that does not count.  jumok trains anew for every
number of minutes; the peer, whose rate does not know when it will end, trains once for the longest.  It has the recipe
published for Transformer-Tiny on Multi30k: 4 + 4 layers, width 128, feed-forward 256, 4 heads, dropout 0.3, smoothing
0.1, Adam (0.9, 0.98), peak rate 0.005 after 2,000 updates of 4,096 tokens, then falling with the inverse square root.
Both choose their final weights on validation; the test set is seen once by each, with beam 5.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.places import ROOT, Absent, corpus, environment, our_python, peer_python, peers, say

SYMBOLS = 8_000
TESTS = ("test2016", "test")  # names of test sets, the first that is there
MARKS = (20, 25, 30, 33, 35, 36, 37, 38, 39)
BEAT = 5.0  # seconds between two looks at a process that trains


@dataclass(frozen=True)
class Point:
    """BLEU on the validation set, greedy, at a moment of a training; `pairs` where it was on a part of the set."""

    minutes: float
    step: int
    bleu: float
    pairs: int | None = None


class Sessions:
    """When a training ran: it may be stopped and continued, and only the time it ran counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spans: list[list[float]] = json.loads(path.read_text()) if path.exists() else []

    @property
    def seconds(self) -> float:
        return sum(end - begin for begin, end in self.spans)

    def at(self, moment: float) -> float:
        """Seconds of running until a moment (since 1970)."""
        return sum(max(0.0, min(end, moment) - begin) for begin, end in self.spans)

    def begin(self) -> None:
        self.spans.append([time.time(), time.time()])

    def rewind(self, moment: float) -> None:
        """Forget what ran after a moment: work that was lost and will be done again."""
        self.spans = [[begin, min(end, moment)] for begin, end in self.spans if begin < moment]

    def beat(self) -> None:
        """Still running; written down, so that a crash costs no more than a beat."""
        self.spans[-1][1] = time.time()
        beside = self.path.with_suffix(".tmp")
        beside.write_text(json.dumps(self.spans))
        beside.replace(self.path)


@dataclass(frozen=True)
class Setting:
    """Where text, interpreters and results are, and how long to train."""

    text: Path
    source: str
    target: str
    minutes: float
    folder: Path
    python: Path
    peers: Path
    threads: int | None
    recipe: str
    every: int
    test: str
    alpha: float | None = None  # length penalty, where it is not that of the model's recipe

    def file(self, split: str, side: str) -> Path:
        return self.text / f"{split}.{side}.gz"

    def run(self, name: str, command: list[Any], *, tuned: bool = False, force: bool = False) -> str:
        """Standard output of a short step; everything else goes to its log."""
        env = environment(threads=self.threads, tuned=tuned)
        if force:  # OpenNMT-py stores its options beside its weights
            env["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
        with open(self.folder / f"{name}.log", "a") as log:
            done = subprocess.run(list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} ended with code {done.returncode}; see {log.name}")
        return done.stdout

    def train(self, name: str, command: list[Any], sessions: Sessions, limit: float | None) -> int | None:
        """Run a training in the open session until it ends, or is told to after `limit` seconds of running."""
        env = environment(threads=self.threads) | {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
        with open(self.folder / f"{name}.log", "a") as log:
            process = subprocess.Popen(list(map(str, command)), env=env, stdout=log, stderr=log)
        try:
            while process.poll() is None:
                sessions.beat()
                if limit is not None and sessions.seconds >= limit:
                    return None
                left = BEAT if limit is None else max(0.1, min(BEAT, limit - sessions.seconds))
                try:
                    process.wait(left)
                except subprocess.TimeoutExpired:
                    continue
            return process.returncode
        finally:
            sessions.beat()
            if process.poll() is None:
                process.terminate()
                process.wait()

    def score(self, *hypotheses: Path) -> list[dict[str, float]]:
        """Scores of translations of the test set."""
        return self.scores(self.test, *hypotheses)

    def scores(self, split: str, *hypotheses: Path) -> list[dict[str, float]]:
        python = peer_python(self.peers, "plain")
        reference = self.file(split, self.target)
        answer = self.run("score", [python, "-m", "bench.score", self.target, reference, *hypotheses])
        return [json.loads(line) for line in answer.splitlines()]


class Jumok:
    """Ours: the command a user types."""

    name = "jumok"

    def __init__(self, setting: Setting) -> None:
        self.setting, self.folder = setting, setting.folder / "jumok"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sessions = Sessions(self.folder / "sessions.json")

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def events(self) -> Iterator[dict[str, Any]]:
        path = self.run / "events.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                yield json.loads(line)
            except ValueError:  # cut off
                continue

    def train(self) -> None:
        """`jumok train`, which ends by itself; the same command continues it."""
        if any(event["event"] == "finished" for event in self.events()):
            return
        s = self.setting
        self.sessions.begin()
        command: list[Any] = [s.python, "-m", "jumok", "train", "--recipe", s.recipe, "--minutes", s.minutes]
        command += ["--source", s.file("train", s.source), "--target", s.file("train", s.target)]
        command += ["--valid-source", s.file("val", s.source), "--valid-target", s.file("val", s.target)]
        code = s.train("jumok", [*command, "--out", self.run], self.sessions, None)
        if code:
            raise RuntimeError(f"jumok train ended with code {code}; see {s.folder / 'jumok.log'}")

    def curve(self) -> list[Point]:
        return [
            Point(self.sessions.at(event["time"]) / 60, event["step"], event["bleu"], event.get("pairs"))
            for event in self.events()
            if event["event"] == "validation"
        ]

    def final(self) -> dict[str, Any]:
        """The test set with beam 5, by `jumok evaluate`."""
        s, out = self.setting, self.folder / self.setting.test
        if not any(event["event"] == "finished" for event in self.events()):
            raise RuntimeError(f"its training for {s.minutes:g} minutes has not ended; try: the same command again")
        command: list[Any] = [s.python, "-m", "jumok", "evaluate", self.run, "--beam", 5, "--json", "--output", out]
        command += ["--source", s.file(s.test, s.source), "--target", s.file(s.test, s.target)]
        command += [] if s.alpha is None else ["--length-penalty", s.alpha]
        evaluated = json.loads(s.run("jumok", command))
        [scored] = s.score(out)
        if abs(scored["bleu"] - evaluated["bleu"]["value"]) > 0.01:
            raise RuntimeError(f"jumok evaluate says {evaluated['bleu']}, sacrebleu {scored['bleu']}")
        weights = next(event["weights"] for event in self.events() if event["event"] == "finished")
        return scored | {"weights": weights, "minutes": self.sessions.seconds / 60}


class OpenNMT:
    """OpenNMT-py through its own commands."""

    name = "OpenNMT-py 3.5.1"

    def __init__(self, setting: Setting) -> None:
        self.setting, self.folder = setting, setting.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sessions = Sessions(self.folder / "sessions.json")
        self.python = peer_python(setting.peers, "onmt")
        self.base = peer_python(setting.peers, "plain")

    def checkpoints(self) -> list[tuple[int, Path]]:
        found = self.folder.glob("model_step_*.pt")
        return sorted((int(path.stem.rpartition("_")[2]), path) for path in found)

    def configuration(self) -> str:
        rate = 0.005 * (128 * 2_000) ** 0.5  # its noam schedule multiplies by (width · warm-up)^-0.5 at the peak
        return f"""
data:
  train: {{path_src: {self.folder}/train.source, path_tgt: {self.folder}/train.target, transforms: []}}
src_vocab: {self.folder}/vocabulary.txt
tgt_vocab: {self.folder}/vocabulary.txt
src_vocab_size: {SYMBOLS}
tgt_vocab_size: {SYMBOLS}
share_vocab: true
vocab_size_multiple: 1
save_model: {self.folder}/model
encoder_type: transformer
decoder_type: transformer
position_encoding: true
enc_layers: 4
dec_layers: 4
hidden_size: 128
word_vec_size: 128
transformer_ff: 256
heads: 4
dropout: [0.3]
attention_dropout: [0.0]
share_embeddings: true
share_decoder_embeddings: true
label_smoothing: 0.1
param_init: 0
param_init_glorot: true
optim: adam
adam_beta1: 0.9
adam_beta2: 0.98
learning_rate: {rate:.4f}
decay_method: noam
warmup_steps: 2000
max_grad_norm: 0
batch_type: tokens
batch_size: 4096
normalization: tokens
accum_count: [1]
bucket_size: 30000
num_workers: 0
world_size: 1
train_steps: 1000000
valid_steps: 1000000
save_checkpoint_steps: {self.setting.every}
keep_checkpoint: -1
report_every: 20
seed: 1
"""

    def train(self) -> None:
        """Learn subwords, cut the text, train until the minutes are over; continues at the newest checkpoint."""
        s = self.setting
        limit = s.minutes * 60
        if self.sessions.seconds >= limit - BEAT:
            return
        before = self.checkpoints()
        if before:
            self.sessions.rewind(before[-1][1].stat().st_mtime)
        self.sessions.begin()
        if not (self.folder / "train.yaml").exists():
            self.prepare()
        self.sessions.beat()
        command: list[Any] = [
            self.python,
            "-W",
            "ignore",
            "-m",
            "onmt.bin.train",
            "-config",
            self.folder / "train.yaml",
        ]
        command += ["-train_from", before[-1][1]] if before else []
        code = s.train("onmt", command, self.sessions, limit)
        if code is not None:
            raise RuntimeError(f"onmt_train ended with code {code}; see {s.folder / 'onmt.log'}")

    def prepare(self) -> None:
        s, text = self.setting, [self.base, "-m", "bench.subwords"]
        files = {side: s.file("train", language) for side, language in (("source", s.source), ("target", s.target))}
        s.run("onmt", [*text, "learn", SYMBOLS, self.folder, *files.values()])
        for side, path in files.items():
            s.run("onmt", [*text, "cut", self.folder, path, self.folder / f"train.{side}"])
        (self.folder / "train.yaml").write_text(self.configuration())

    def translate(self, model: Path, split: str, beam: int) -> Path:
        """The translations of a split by a checkpoint; made once."""
        s, out = self.setting, self.folder / f"{split}.{model.stem}.beam{beam}"
        if out.exists():
            return out
        cut, text = self.folder / f"{split}.source", [self.base, "-m", "bench.subwords"]
        s.run("onmt", [*text, "cut", self.folder, s.file(split, s.source), cut])
        command: list[Any] = [self.python, "-W", "ignore", "-m", "onmt.bin.translate", "-model", model, "-src", cut]
        command += ["-output", f"{out}.subwords", "-beam_size", beam, "-batch_size", 50]
        s.run("onmt", command, tuned=True, force=True)
        s.run("onmt", [*text, "join", self.folder, f"{out}.subwords", f"{out}.tmp"])
        Path(f"{out}.tmp").replace(out)
        return out

    def curve(self) -> list[Point]:
        """Every checkpoint on the validation set, greedy; scores are kept."""
        path = self.folder / "valid.json"
        known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        for step, model in self.checkpoints():
            if str(step) not in known:
                [scored] = self.setting.scores("val", self.translate(model, "val", beam=1))
                known[str(step)] = scored["bleu"]
                path.write_text(json.dumps(known))
        written = {step: model.stat().st_mtime for step, model in self.checkpoints()}
        return [Point(self.sessions.at(written[step]) / 60, step, known[str(step)]) for step in written]

    def final(self, minutes: float) -> dict[str, Any]:
        """The test set with beam 5, by the checkpoint of these minutes that is best on validation."""
        curve = [point for point in self.curve() if point.minutes <= minutes]
        if not curve:
            raise RuntimeError(
                f"OpenNMT-py has no checkpoint after {minutes:g} minutes; try: a smaller --every than "
                f"{self.setting.every}"
            )
        best = max(curve, key=lambda point: point.bleu)
        model = dict(self.checkpoints())[best.step]
        [scored] = self.setting.score(self.translate(model, self.setting.test, beam=5))
        took = min(minutes, self.sessions.seconds / 60)
        return scored | {"weights": f"checkpoint {best.step}", "minutes": took}


SYSTEMS = ("jumok", "onmt")


@dataclass(frozen=True)
class Trained:
    """One training as the report tells it; the peer's single one has a final score for every number of minutes."""

    name: str
    curve: list[Point]
    finals: list[dict[str, Any]]


def reached(curve: list[Point], bleu: float) -> float | None:
    """Minutes until validation BLEU first was this high."""
    return next((point.minutes for point in curve if point.bleu >= bleu), None)


def report(results: list[Trained], setting: Setting, budgets: list[float], machine: str) -> list[str]:
    """bench/quality.md."""
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
    for one in results:
        for f in one.finals:
            cells = f"{f['bleu']:.2f} | {f['bleu_moses']:.2f} | {f['chrf']:.2f} | {f['minutes']:.1f} | {f['weights']}"
            lines.append(f"| {one.name} | {cells} |")
    header = f"| {' | '.join(one.name for one in results)} |\n|---:|{'---:|' * len(results)}"
    lines += ["", "## Minutes until validation BLEU (greedy, cased, raw text)", "", *f"| BLEU {header}".split("\n")]
    for mark in MARKS:
        times = [reached(one.curve, mark) for one in results]
        if any(minutes is not None for minutes in times):
            cells = " | ".join("–" if minutes is None else f"{minutes:.1f}" for minutes in times)
            lines.append(f"| {mark} | {cells} |")
    for one in results:
        lines += [
            "",
            f"## {one.name}: every validation",
            "",
            "| minutes | updates | BLEU | pairs |",
            "|---:|---:|---:|---:|",
        ]
        for point in one.curve:
            lines.append(f"| {point.minutes:.1f} | {point.step:,} | {point.bleu:.2f} | {point.pairs or 'all'} |")
    return lines


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", default="5,15,40", help="of training, one or several; default: %(default)s")
    parser.add_argument("--only", choices=SYSTEMS, help="train this one; the report takes in what is there")
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of `finally`, so that no training is left running
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
        jobs.append(("jumok", partial(ours, setting, given.only, not given.train_only)))
    if not given.train_only:
        jobs.append(("OpenNMT-py", partial(peer, longest, given.only, budgets)))
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


def ours(setting: Setting, only: str | None, score: bool) -> Trained | None:
    """jumok, trained for these minutes, and scored if so wished."""
    system = Jumok(setting)
    if only in (None, "jumok"):
        say(f"training jumok for {setting.minutes:g} minutes")
        system.train()
    if not system.sessions.spans or not score:
        return None
    say("scoring jumok")
    return Trained(f"jumok, {setting.minutes:g} minutes", system.curve(), [system.final()])


def peer(setting: Setting, only: str | None, budgets: list[float]) -> Trained | None:
    """OpenNMT-py, trained for the longest time, and how good it was on the way."""
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
