"""Write the work for the peers: python -m bench.peers.prepare RECIPE SOURCE TARGET TOKENS FOLDER [KEY=VALUE …]

Runs in jumok's environment.  Vocabulary and pairs are those of `jumok bench train --keep FOLDER`, which finds them
there again.
"""

import json
import sys
from pathlib import Path

from bench.peers.task import SPECIALS
from jumok import machine
from jumok.bench.train import Measured, protocol
from jumok.config import presets
from jumok.config.recipe import Recipe, parse_assignment
from jumok.data.store import StoredSide
from jumok.text.vocabulary import Vocabulary


def task(recipe: Recipe, symbols: int) -> dict[str, float]:
    """The sizes in task.json."""
    values = recipe.model.model_dump() | recipe.training.model_dump()
    names = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "dropout", "label_smoothing")
    names += ("beta1", "beta2", "epsilon")
    chosen = {name: values[name] for name in names}
    return chosen | {"tokens": recipe.training.tokens_per_update, "symbols": symbols}


def write_pieces(path: Path, side: StoredSide, count: int, vocabulary: Vocabulary) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for row in range(count):
            file.write(" ".join(vocabulary.pieces(side[row].tolist())) + "\n")


def main(name: str, source: str, target: str, tokens: str, folder: str, *changes: str) -> None:
    recipe = protocol(presets.get(name), source=source, target=target, tokens=int(tokens))
    run = Measured(recipe.change(dict(map(parse_assignment, changes))), folder, warmup=0, updates=1)
    run.prepare()
    run.report.close()
    place, vocabulary, store = Path(folder), run.vocabularies.target, run.store
    symbols = vocabulary.pieces(range(len(vocabulary)))
    assert symbols[SPECIALS].startswith("<0x"), "the specials end where the bytes begin"
    (place / "vocabulary.txt").write_text("\n".join(symbols), encoding="utf-8", newline="\n")
    write_pieces(place / "train.source", store.source, len(store), run.vocabularies.source)
    write_pieces(place / "train.target", store.target, len(store), vocabulary)
    (place / "task.json").write_text(json.dumps(task(run.recipe, len(vocabulary))))
    print(f"{len(store):,} pairs, {len(vocabulary):,} subwords, {machine.describe()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
