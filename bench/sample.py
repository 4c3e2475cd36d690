"""How many characters of a corpus does its vocabulary have to be learned from?

    bench/sample --corpus tatoeba-en-de --pair en-de --characters 500000,2000000,20000000 --out /tmp/sample
    bench/sample … --tokens 3000000 --threads 1       # and what it does to BLEU after so many target tokens

Prints the subwords per word of the validation text for each size of the sample, and the validation BLEU of `tiny` if
tokens are given; no test set is read.  The same command continues.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

from bench.places import corpus, environment, our_python, say


def count_subwords(folder: Path, texts: list[list[str]]) -> float:
    """Subwords per word of both sides of a text."""
    from jumok.text.vocabulary import Vocabularies

    vocabularies = Vocabularies.load(folder)
    sides = zip((vocabularies.source, vocabularies.target), texts, strict=True)
    subwords = sum(len(ids) for vocabulary, lines in sides for ids in vocabulary.encode_all(lines))
    return subwords / sum(len(line.split()) for lines in texts for line in lines)


def run(command: list[str], log: Path, threads: int | None) -> None:
    with open(log, "ab") as out:
        subprocess.run(command, env=environment(threads=threads), stdout=out, stderr=out, check=True)


def measure(options: argparse.Namespace, characters: int) -> dict[str, Any]:
    """Subwords per word and BLEU with a vocabulary from so many characters."""
    text, languages = corpus(options.data, options.corpus), options.pair.split("-")
    source, target = (str(text / f"train.{one}.gz") for one in languages)
    valid = [text / f"val.{one}.gz" for one in languages]
    base = [str(our_python(options.python)), "-m", "jumok"]
    given = ["--source", source, "--target", target, "--valid-source", str(valid[0]), "--valid-target", str(valid[1])]
    given += ["--set", f"vocabulary.characters={characters}"]
    folder = options.out / f"{options.corpus}-{characters}"
    log = folder.with_suffix(".log")
    if options.tokens:
        card = folder / "model" / "card.json"
        if not card.exists():
            budget = ["--recipe", "tiny", "--tokens", str(options.tokens), "--out", str(folder)]
            run([*base, "train", *given, *budget], log, options.threads)
    elif not folder.exists():
        run([*base, "data", "prepare", *given, "--out", str(folder)], log, options.threads)
    lines = [gzip.decompress(path.read_bytes()).decode().split("\n")[:-1] for path in valid]
    row: dict[str, Any] = {"characters": characters, "subwords per word": round(count_subwords(folder, lines), 4)}
    if options.tokens:
        about = json.loads(card.read_text())
        row["bleu"] = round(about["valid"][about["weights"]]["bleu"], 2)
    say(str(row))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="tatoeba-en-de")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--characters", default="500000,2000000,20000000")
    parser.add_argument("--tokens", type=int, help="train for so many target tokens")
    parser.add_argument("--threads", type=int, help="threads of each run; default: all cores")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", help="interpreter that has jumok; default: that of .venv")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [measure(options, int(characters)) for characters in options.characters.split(",")]
    result = {"corpus": options.corpus, "tokens": options.tokens, "rows": rows}
    (options.out / f"{options.corpus}.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
