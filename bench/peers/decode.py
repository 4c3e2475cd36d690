"""jumok and its peers translate the same sentences, alternated in one run.

    bench/peers/decode --model runs/tiny --source test.en.gz --target test.de.gz
    bench/peers/decode --model runs/tiny --source test.en.gz --target test.de.gz --peers ct2-int8 --beams 5 --rounds 5

Ours are the engines of `jumok bench decode`.  Peers have the same weights and vocabulary: ct2-int8 and ct2-float32 are
CTranslate2 used directly, on what `jumok export ctranslate2` writes; hf is `generate` of Hugging Face transformers,
where it has such a model.  The protocol is that of jumok.bench.decode.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.places import ROOT, Absent, environment, peer_python, peers, say
from jumok.bench.decode import (
    USUAL,
    Contender,
    cells,
    check_beams,
    contest,
    notes,
    own_contenders,
    ratio,
    require_positive,
    test_set,
)
from jumok.bench.measure import file_name
from jumok.cli.terminal import parse_numbers
from jumok.errors import JumokError

PEERS = ("ct2-int8", "ct2-float32", "hf")


class Arena:
    """Starts the processes of the peers."""

    def __init__(self, model: str, folder: Path, home: Path, threads: int | None) -> None:
        run = Path(model)
        self.model, self.folder, self.home = model, folder, home
        self.bundle = str(run / "model" if (run / "model").is_dir() else run)
        self.environment = environment(threads=threads)

    def contender(self, peer: str) -> Contender:
        """A peer by name; raises `Absent` with the reason if there is none."""
        if peer == "hf":
            command = [str(peer_python(self.home, peer)), "-W", "ignore", "-m", "bench.peers.decode_hf", self.bundle]
            return Contender("transformers", command, self.environment)
        precision = peer.removeprefix("ct2-")
        export = self.export(precision)
        command = [sys.executable, "-m", "bench.peers.decode_ct2", export, self.bundle, "--precision", precision]
        return Contender(f"CTranslate2 {precision}", command, self.environment)

    def export(self, precision: str) -> str:
        """The model as CTranslate2 reads it."""
        out = str(self.folder / precision)
        command = [sys.executable, "-m", "jumok", "export", "ctranslate2", self.model]
        command += ["--out", out, "--precision", precision]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Absent(f"CTranslate2 {precision}: {done.stderr.strip()}")
        return out


def report(figures: dict[str, Any]) -> list[str]:
    """Markdown: every system and beam, then each of ours over each peer."""
    rows = figures["systems"]
    titles = [name for name in cells(rows[0]) if name != "ratio"]
    lines = [f"# Translating: {figures['model']}, {figures['source']}", ""]
    lines += [f"- {note}" for note in (time.strftime("%Y-%m-%d"), *notes(figures))]
    lines += ["", *grid(titles, [[cells(row)[name] for name in titles] for row in rows]), ""]
    if against := ratios(rows):
        lines += ["Ours over theirs, median of the rounds' ratios:", "", *against, ""]
    return lines + [
        f"- {row['system']} {row['version']}, beam {row['beam']}: {row['chosen']}" for row in rows if row["chosen"]
    ]


def ratios(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each peer and beam, a column for each engine of ours."""
    seconds = {(row["system"], row["beam"]): row["seconds"] for row in rows}
    mine = [name for name in dict.fromkeys(name for name, _ in seconds) if name.startswith("jumok ")]
    lines = [
        [name, str(beam), *(f"{ratio(seconds[engine, beam], theirs):.2f}" for engine in mine)]
        for (name, beam), theirs in seconds.items()
        if name not in mine
    ]
    return grid(["peer", "beam", *mine], lines) if lines else []


def grid(titles: list[str], lines: list[list[str]]) -> list[str]:
    """A table in Markdown, numbers to the right."""
    marks = ["---", *["---:"] * (len(titles) - 1)]
    return [f"| {' | '.join(titles)} |", f"|{'|'.join(marks)}|", *(f"| {' | '.join(line)} |" for line in lines)]


def write(out: Path, figures: dict[str, Any], lines: list[str]) -> None:
    """Append the figures as a JSON line, and replace the report."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out.with_suffix(".jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S")} | figures) + "\n")
    out.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/peers/decode", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="a run folder, or the model folder inside it")
    parser.add_argument("--source", required=True, help="sentences to translate")
    parser.add_argument("--target", required=True, help="their reference translations")
    parser.add_argument("--engines", default=",".join(USUAL), help="ours, comma-separated; default: %(default)s")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated; default: %(default)s")
    parser.add_argument("--beams", default="1,5", help="comma-separated; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=1_000, help="from the top of the files; default: %(default)s")
    parser.add_argument("--threads", type=int, help="default: each one's choice")
    parser.add_argument("--folder", help="of the peers' environments; default: JUMOK_PEERS, else ~/.cache/jumok/peers")
    parser.add_argument("--name", help="of the results; default: that of the run's folder")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), help="folder of the results")
    return parser.parse_args(arguments)


def present(arena: Arena, names: list[str]) -> list[Contender]:
    """The peers that can be started; others are reported."""
    contenders = []
    for peer in names:
        try:
            if peer not in PEERS:
                raise Absent(f"no peer is called {peer!r}; known: {', '.join(PEERS)}")
            contenders.append(arena.contender(peer))
        except Absent as error:
            say(f"left out: {error}")
    return contenders


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    try:
        pairs = test_set(given.source, given.target, given.sentences)
        beams, rounds = check_beams(parse_numbers(given.beams, "beams")), require_positive("rounds", given.rounds)
        with tempfile.TemporaryDirectory(prefix="jumok-decode-") as folder:
            arena = Arena(given.model, Path(folder), peers(given.folder), given.threads)
            contenders = own_contenders(given.model, given.engines.split(","), arena.environment)
            contenders += present(arena, given.peers.split(","))
            figures = contest(contenders, pairs, beams=beams, rounds=rounds, say=say)
    except JumokError as error:
        say(f"bench/peers/decode: {error}")
        return error.code
    if not figures["systems"]:
        return 1
    figures |= {
        "model": given.name or file_name(given.model),
        "source": file_name(given.source),
        "target": file_name(given.target),
    }
    lines = report(figures)
    write(Path(given.out) / f"decode-{figures['model']}", figures, lines)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
