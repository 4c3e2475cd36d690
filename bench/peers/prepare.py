"""Write the work for the peers: python -m bench.peers.prepare RECIPE SOURCE TARGET TOKENS FOLDER [KEY=VALUE …]

Runs in jumok's environment.  Vocabulary and pairs are those of `jumok bench train --keep FOLDER`, which reuses them.
"""

import json
import sys
from pathlib import Path

from bench.peers.task import SPECIALS
from jumok import machine
from jumok.bench.train import protocol
from jumok.config import presets
from jumok.config.recipe import Recipe, parse_assignment
from jumok.data.store import StoredSide
from jumok.runs.claiming import claim, hold, settle_data
from jumok.runs.context import Context
from jumok.runs.preparation import prepare_run
from jumok.storage.checkpoint import RunFolder
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
    run = RunFolder(folder)
    recipe, texts = settle_data(recipe.change(dict(map(parse_assignment, changes))), run)
    context = Context.of(run)
    with hold(run, context):
        claim(run, recipe, context.world)
        prepared = prepare_run(recipe, run, texts, context)
    out, vocabulary, store = Path(folder), prepared.vocabularies.target, prepared.store
    symbols = vocabulary.pieces(range(len(vocabulary)))
    assert symbols[SPECIALS].startswith("<0x"), "the specials end where the bytes begin"
    (out / "vocabulary.txt").write_text("\n".join(symbols), encoding="utf-8", newline="\n")
    write_pieces(out / "train.source", store.source, len(store), prepared.vocabularies.source)
    write_pieces(out / "train.target", store.target, len(store), vocabulary)
    (out / "task.json").write_text(json.dumps(task(recipe, len(vocabulary))))
    print(f"{len(store):,} pairs, {len(vocabulary):,} subwords, {machine.describe()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
