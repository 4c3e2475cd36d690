"""Which recipe is best for how many pairs and how many minutes?  What `--recipe auto` chooses is judged by this.

    bench/recipes --corpus tatoeba-en-de --sizes 20000,60000,165813 --minutes 10,30,60 --out /tmp/recipes
    bench/recipes … --recipes tiny,small --rate tiny=9600 --rate small=4200      # rates measured before

A run gets as many target tokens as its recipe learns in these minutes on the idle machine, so that other work on the
same cores changes how long the table takes and nothing else.  Rates are measured at the start with `jumok bench train`
unless they are given.  The smaller corpora are every nth pair of the training text.  Quality is that of the finished
model on the validation set, as `jumok train` reports it; no test set is read.  The same command continues.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

from bench.places import corpus, environment, our_python, say
from jumok.config import presets

TRAINING = 0.92  # the share of a run by minutes that is updates


def thin(path: Path, pairs: int, out: Path) -> Path:
    """About so many lines of a packed file, evenly spaced, as a file of its own."""
    if not out.exists():
        lines = gzip.decompress(path.read_bytes()).split(b"\n")[:-1]
        chosen = {index * len(lines) // pairs for index in range(min(pairs, len(lines)))}
        out.write_bytes(b"".join(line + b"\n" for index, line in enumerate(lines) if index in chosen))
    return out


def measure_rate(python: Path, recipe: str, source: Path, target: Path) -> float:
    """Target tokens per second of a recipe on this machine."""
    command = [python, "-m", "jumok", "bench", "train", "--recipe", recipe, "--source", source, "--target", target]
    done = subprocess.run([*map(str, command), "--json"], env=environment(), capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["target_tokens_per_second"])


def train(python: Path, recipe: str, tokens: int, texts: list[Path], run: Path, threads: int | None) -> dict[str, Any]:
    """Scores of a run of so many tokens; one that is finished is not trained again."""
    card = run / "model" / "card.json"
    if not card.exists():
        source, target, valid_source, valid_target = map(str, texts)
        command = [str(python), "-m", "jumok", "train", "--recipe", recipe, "--tokens", str(tokens), "--out", str(run)]
        command += ["--source", source, "--target", target, "--valid-source", valid_source]
        command += ["--valid-target", valid_target]
        with open(run.with_suffix(".log"), "ab") as log:
            subprocess.run(command, env=environment(threads=threads), stdout=log, stderr=log, check=True)
    return dict(json.loads(card.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="tatoeba-en-de")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--sizes", default="20000,60000,165813")
    parser.add_argument("--minutes", default="10,30,60")
    parser.add_argument("--recipes", default="tiny,small")
    parser.add_argument("--rate", action="append", default=[], metavar="RECIPE=TOKENS", help="per second; repeatable")
    parser.add_argument("--cores", type=int, default=2, help="cores that the rates are for")
    parser.add_argument("--threads", type=int, help="threads of each run, for several at a time; default: all cores")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", help="interpreter that has jumok; default: that of .venv")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    python, text = our_python(options.python), corpus(options.data, options.corpus)
    languages = options.pair.split("-")
    rates = {name: float(rate) for name, _, rate in (word.partition("=") for word in options.rate)}
    recipes, rows = options.recipes.split(","), []
    for size, minutes in product(map(int, options.sizes.split(",")), map(float, options.minutes.split(","))):
        trained = [thin(text / f"train.{one}.gz", size, options.out / f"{size}.{one}") for one in languages]
        texts = [*trained, *(text / f"val.{one}.gz" for one in languages)]
        auto = presets.recommend(size, minutes, options.cores)
        row: dict[str, Any] = {"pairs": size, "minutes": minutes, "auto": auto}
        for recipe in recipes:
            if recipe not in rates:
                rates[recipe] = measure_rate(python, recipe, *trained)
                say(f"{recipe}: {rates[recipe]:,.0f} tokens/s")
            tokens = int(rates[recipe] * 60 * minutes * TRAINING)
            card = train(python, recipe, tokens, texts, options.out / f"{recipe}-{size}-{minutes:g}", options.threads)
            row[recipe] = card["valid"][card["weights"]]["bleu"]
            say(f"{recipe}, {size:,} pairs, {minutes:g} minutes ({tokens:,} tokens): {row[recipe]:.2f}")
        row["regret"] = round(max(row[recipe] for recipe in recipes) - row.get(row["auto"], float("nan")), 2)
        rows.append(row)
        (options.out / "recipes.json").write_text(json.dumps({"rates": rates, "rows": rows}, indent=1))
    print((options.out / "recipes.json").read_text())


if __name__ == "__main__":
    main()
