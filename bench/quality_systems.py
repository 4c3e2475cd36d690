"""The systems of bench/quality: jumok and OpenNMT-py, each trained, validated and scored through its command line."""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.places import environment, peer_python

SYMBOLS = 8_000
BEAT = 5.0  # seconds between two checks of a training process


@dataclass(frozen=True)
class Point:
    """Greedy BLEU on the validation set at some time of a training; `pairs` if it was a part of the set."""

    minutes: float
    step: int
    bleu: float
    pairs: int | None = None


class Sessions:
    """The times at which a training ran: it may be stopped and continued, and only running time counts."""

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
        """Remove the time after a moment, whose work was lost and will be repeated."""
        self.spans = [[begin, min(end, moment)] for begin, end in self.spans if begin < moment]

    def beat(self) -> None:
        """Record that it is still running, so that a crash loses at most one beat."""
        self.spans[-1][1] = time.time()
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.spans))
        temporary.replace(self.path)


@dataclass(frozen=True)
class Setting:
    """Paths of text, interpreters and results, and the length of training."""

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
    alpha: float | None = None  # length penalty, if not that of the recipe

    def file(self, split: str, side: str) -> Path:
        return self.text / f"{split}.{side}.gz"

    def run(self, name: str, command: list[Any], *, tuned: bool = False, force: bool = False) -> str:
        """Standard output of a short step; everything else goes to its log."""
        env = environment(threads=self.threads, tuned=tuned)
        if force:  # OpenNMT-py stores its options with its weights
            env["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
        with open(self.folder / f"{name}.log", "a") as log:
            done = subprocess.run(list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} ended with code {done.returncode}; see {log.name}")
        return done.stdout

    def train(self, name: str, command: list[Any], sessions: Sessions, limit: float | None) -> int | None:
        """Run a training in the current session until it ends, or stop it after `limit` seconds of running."""
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
    """Jumok through the command line."""

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
        """Run `jumok train`, which ends by itself; the same command continues it."""
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
    """OpenNMT-py through its command line."""

    name = "OpenNMT-py 3.5.1"

    def __init__(self, setting: Setting) -> None:
        self.setting, self.folder = setting, setting.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sessions = Sessions(self.folder / "sessions.json")
        self.python = peer_python(setting.peers, "onmt")
        self.base = peer_python(setting.peers, "plain")

    def checkpoints(self) -> list[tuple[int, Path]]:
        paths = self.folder.glob("model_step_*.pt")
        return sorted((int(path.stem.rpartition("_")[2]), path) for path in paths)

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
        """Learn subwords, encode the text, train until the time is over; continues at the newest checkpoint."""
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
        """The translations of a split by a checkpoint, computed once."""
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
        """Greedy BLEU of every checkpoint on the validation set; scores are saved."""
        path = self.folder / "valid.json"
        known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        for step, model in self.checkpoints():
            if str(step) not in known:
                [scored] = self.setting.scores("val", self.translate(model, "val", beam=1))
                known[str(step)] = scored["bleu"]
                path.write_text(json.dumps(known))
        saved_at = {step: model.stat().st_mtime for step, model in self.checkpoints()}
        return [Point(self.sessions.at(saved_at[step]) / 60, step, known[str(step)]) for step in saved_at]

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
