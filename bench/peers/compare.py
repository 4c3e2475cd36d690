"""jumok and its peers at the same work, alternated in one run.

    bench/peers/compare                             tiny, every peer, three rounds
    bench/peers/compare --size base --rounds 2      the paper's base model
    bench/peers/compare --peers onmt,hf --modes shipped --updates 20

Order of a round: ours, peer A, ours, peer B, …, so that each ratio is of two runs that follow each other.  `shipped`
is a peer as its users get it; `tuned` has glibc's allocator told by the environment to keep freed memory, which jumok
does by default.  All train on the same pairs in the same subwords, with the same sizes, dropout, smoothing and Adam, in
updates of about as many tokens.  What still differs: toolkits make their own batches, and apply dropout in different
positions (torch.nn.Transformer also in attention; it, OpenNMT-py and eole also inside the feed-forward net).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.places import PEERS, ROOT, Absent, corpus, environment, our_python, peer_python, peers, say

SIZES = {  # the shapes that are compared, independent of the recipes of these names
    "tiny": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "d_ff": 256, "heads": 4},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8},
}
PROTOCOL = {"tiny": (10, 60), "base": (2, 8)}  # updates of warm-up, updates that count
MODES = ("shipped", "tuned")
HOUR = 3_600.0

Figures = dict[str, Any]


@dataclass(frozen=True)
class Duel:
    """A peer's run and ours just before it."""

    round: int
    peer: str
    mode: str
    ours: Figures
    theirs: Figures

    @property
    def ratio(self) -> float:
        return float(self.ours["target_tokens_per_second"] / self.theirs["target_tokens_per_second"])


@dataclass(frozen=True)
class Arena:
    """Starts the runs of all systems."""

    size: str
    source: Path
    target: Path
    folder: Path  # vocabulary, text in subwords, results of single runs
    python: Path
    peers: Path
    tokens: int
    warmup: int
    updates: int
    threads: int | None

    @property
    def changes(self) -> list[str]:
        sizes = [f"model.{name}={value}" for name, value in SIZES[self.size].items()]
        return [*sizes, "training.optimizer=adam"]  # the peers have no other

    def prepare(self) -> None:
        """Prepare the work for all systems, in jumok's environment."""
        arguments = [self.size, self.source, self.target, self.tokens, self.folder, *self.changes]
        self.run([self.python, "-m", "bench.peers.prepare", *arguments], "prepare", environment(threads=self.threads))

    def ours(self) -> Figures:
        command: list[Any] = [self.python, "-m", "jumok", "bench", "train", "--json", "--keep", self.folder]
        command += ["--recipe", self.size, "--source", self.source, "--target", self.target, "--tokens", self.tokens]
        command += ["--warmup-updates", self.warmup, "--updates", self.updates]
        command += [word for change in self.changes for word in ("--set", change)]
        return dict(json.loads(self.run(command, "jumok", environment(threads=self.threads))))

    def theirs(self, peer: str, mode: str) -> Figures:
        result = self.folder / f"{peer}.json"
        result.unlink(missing_ok=True)
        command: list[Any] = [peer_python(self.peers, peer), "-W", "ignore", "-m", f"bench.peers.run_{peer}"]
        command += [self.folder, result, self.warmup, self.updates]
        self.run(command, peer, environment(threads=self.threads, tuned=mode == "tuned"))
        return dict(json.loads(result.read_text()))

    def run(self, command: list[Any], name: str, env: dict[str, str]) -> str:
        """Standard output of a process; its stderr goes to a log in the folder."""
        log = self.folder / f"{name}.log"
        with open(log, "w") as errors:
            done = subprocess.run(
                list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=2 * HOUR,
                check=False,
            )  # fmt: skip
        if done.returncode:
            tail = (done.stdout + log.read_text(errors="replace")).strip().split("\n")[-5:]
            raise RuntimeError(f"{name} ended with code {done.returncode}:\n  " + "\n  ".join(tail))
        return done.stdout


def run_duels(arena: Arena, names: Iterable[str], modes: Iterable[str], rounds: int, keep: Path) -> list[Duel]:
    """Run all rounds; a peer that fails is reported and left out of the round.  Each duel is saved at once."""
    duels = []
    for number in range(1, rounds + 1):
        for peer in names:
            for mode in modes:
                try:
                    duel = Duel(number, peer, mode, arena.ours(), arena.theirs(peer, mode))
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    say(f"round {number}: {peer} ({mode}) gave nothing: {error}")
                    continue
                duels.append(duel)
                write_lines(keep, duel, arena.size)
                say(f"round {number}: {line(duel)}")
    return duels


def line(duel: Duel) -> str:
    """The line that reports a duel."""
    speeds = [side["target_tokens_per_second"] for side in (duel.ours, duel.theirs)]
    disturbed = " (disturbed)" if duel.ours["contended"] or duel.theirs["contended"] else ""
    return f"jumok {speeds[0]:,.0f}, {duel.peer} ({duel.mode}) {speeds[1]:,.0f}, ratio {duel.ratio:.2f}{disturbed}"


def write_lines(path: Path, duel: Duel, size: str) -> None:
    """Both runs as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    with open(path, "a", encoding="utf-8") as file:
        for figures in (duel.ours, duel.theirs):
            labels = {"time": now, "size": size, "round": duel.round, "against": duel.peer, "mode": duel.mode}
            file.write(json.dumps(labels | figures) + "\n")


def table(duels: list[Duel]) -> list[str]:
    """Markdown: ours first, then each peer in each mode; medians over the rounds."""
    ours = [duel.ours for duel in duels]
    lines = [
        "| | target tokens/s | ours alongside | ratio, each round | ratio, median | padding | peak memory | sgemm |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
        f"| jumok {ours[0]['version']} | {middle(ours, 'target_tokens_per_second'):,.0f} | | | | {context(ours)} |",
    ]
    for peer, mode in dict.fromkeys((duel.peer, duel.mode) for duel in duels):
        these = [duel for duel in duels if (duel.peer, duel.mode) == (peer, mode)]
        theirs = [duel.theirs for duel in these]
        ratios = [duel.ratio for duel in these]
        cells = [
            f"{peer} {theirs[0]['version']}, {mode}",
            f"{middle(theirs, 'target_tokens_per_second'):,.0f}",
            f"{middle([duel.ours for duel in these], 'target_tokens_per_second'):,.0f}",
            " ".join(f"{ratio:.2f}" for ratio in ratios),
            f"**{statistics.median(ratios):.2f}**",
            context(theirs),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def middle(runs: list[Figures], name: str) -> float:
    return float(statistics.median(run[name] for run in runs))


def context(runs: list[Figures]) -> str:
    """Padding, memory and the machine's speed, as cells."""
    padding, memory, sgemm = (middle(runs, name) for name in ("padding", "peak_memory", "sgemm_gflops"))
    return f"{100 * padding:.1f} % | {memory / 1e9:.2f} GB | {sgemm:.0f} GFLOPS"


def report(duels: list[Duel], arena: Arena) -> list[str]:
    """The table, what was run, and whether the machine was idle."""
    ours = [duel.ours for duel in duels]
    scaled, memory = middle(ours, "target_tokens_per_second_at_reference"), middle(ours, "peak_memory")
    runs = [*ours, *(duel.theirs for duel in duels)]
    disturbed = sum(run["contended"] for run in runs)
    shape, here = SIZES[arena.size], ours[0]["machine"]
    lines = [
        f"# Training speed: {arena.size}",
        "",
        f"{time.strftime('%Y-%m-%d')}, {here['processor']}, {here['cores']} cores, {ours[0]['threads']} threads, "
        f"torch {ours[0]['torch']}, float32. {shape['encoder_layers']} + {shape['decoder_layers']} layers, width "
        f"{shape['d_model']}, feed-forward {shape['d_ff']}, {shape['heads']} heads, {ours[0]['symbols']:,} joint "
        f"subwords, dropout {ours[0]['dropout']}; {ours[0]['corpus']}; updates of about {arena.tokens:,} tokens, "
        f"{arena.warmup} of warm-up and {arena.updates} that count.",
        "",
        *table(duels),
        "",
        f"jumok at {ours[0]['reference_gflops']:.0f} GFLOPS: {scaled:,.0f} target tokens/s; it reaches "
        f"{100 * middle(ours, 'share_of_sgemm'):.0f} % of sgemm and {memory / 1e9:.2f} GB.",
    ]
    for mode in dict.fromkeys(duel.mode for duel in duels):
        ratios = {
            peer: statistics.median(duel.ratio for duel in duels if (duel.peer, duel.mode) == (peer, mode))
            for peer in dict.fromkeys(duel.peer for duel in duels if duel.mode == mode)
        }
        best = min(ratios, key=lambda peer: ratios[peer])
        lines.append(f"Best peer {mode}: {best}; jumok is {ratios[best]:.2f} times as fast.")
    if disturbed:
        lines += ["", f"{disturbed} of {len(runs)} runs were disturbed by other programs: do not quote."]
    return lines


def installed(folder: Path, names: list[str]) -> list[str]:
    """The peers that are installed; others are reported."""
    available = []
    for peer in names:
        try:
            peer_python(folder, peer)
            available.append(peer)
        except Absent as error:
            say(f"left out: {error}")
    return available


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/peers/compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=4_096, help="of an update; default: %(default)s")
    parser.add_argument("--warmup", type=int, help="updates; default: 10, base 2")
    parser.add_argument("--updates", type=int, help="clean updates that count; default: 60, base 8")
    parser.add_argument("--threads", type=int, help="default: torch's choice")
    parser.add_argument("--pair", default="en-de", help="languages of Multi30k; default: %(default)s")
    parser.add_argument("--data", help="folder with multi30k/; default: JUMOK_DATA, else ../shared/data")
    parser.add_argument("--folder", help="of the peers' environments; default: JUMOK_PEERS, else ~/.cache/jumok/peers")
    parser.add_argument("--python", help="the interpreter that has jumok; default: .venv/bin/python")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), help="folder of the results")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    try:
        text, python, home = corpus(given.data), our_python(given.python), peers(given.folder)
    except Absent as error:
        say(f"skipped: {error}")
        return 0
    names = installed(home, given.peers.split(","))
    modes = [mode for mode in given.modes.split(",") if mode in MODES]
    if not names or not modes:
        say("skipped: there is nothing to compare with")
        return 0
    source, target = (text / f"train.{language}.gz" for language in given.pair.split("-"))
    usual = PROTOCOL[given.size]
    out = Path(given.out) / f"compare-{given.size}"
    with tempfile.TemporaryDirectory(prefix="jumok-compare-") as folder:
        arena = Arena(
            size=given.size, source=source, target=target, folder=Path(folder), python=python, peers=home,
            tokens=given.tokens, warmup=usual[0] if given.warmup is None else given.warmup,
            updates=usual[1] if given.updates is None else given.updates, threads=given.threads,
        )  # fmt: skip
        say(f"{given.rounds} rounds of {len(names) * len(modes)} duels: {', '.join(names)} ({', '.join(modes)})")
        arena.prepare()
        duels = run_duels(arena, names, modes, given.rounds, out.with_suffix(".jsonl"))
        if not duels:
            return 1
        lines = report(duels, arena)
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
