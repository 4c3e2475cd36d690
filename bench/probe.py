"""The value of pretraining: a tagger on a pretrained encoder against the same network from scratch.

    bench/probe --text wiki.txt --train words.txt tags.txt --test words.test.txt tags.test.txt --minutes 10
    bench/probe --data ../shared/data --out runs/probe

Each model (bert, electra) is pretrained on the text for some minutes; then taggers learn from the same few sentences,
with the same number of updates and the same vocabulary: one from the encoder's weights, one from new ones.  Reports the
share of test words that each tags right, and the difference with its 95 % interval (paired bootstrap over sentences).
With --data, the text is WikiText-2 and Multi30k's English, the labels are the parts of speech of a treebank sample.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from bench.places import Absent, corpus, say
from jumok.errors import JumokError
from jumok.lab.parsing.trees import clean, leaves, parse
from jumok.runs.choose import choose, inherit
from jumok.runs.context import Context
from jumok.runs.experiment import run, train
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.text.lines import read_lines, write_lines
from jumok.translator import Translator

MODELS = ("bert", "electra")
SAMPLES = 2_000


def read_tags(tree: str) -> tuple[str, str]:
    """The words of a bracketed tree and their tags, without traces."""
    bare = clean(parse(tree))
    words = leaves(bare) if bare else []
    return " ".join(leaf.word.replace("\\/", "/") for leaf in words), " ".join(leaf.tag for leaf in words)


def write_corpora(data: str | None, out: Path) -> dict[str, list[str]]:
    """Write text and tagged sentences from the folders of real corpora to files for the runs."""
    home = corpus(data).parent
    trees, wiki = home / "treebank-sample", home / "lm-text"
    for needed in (trees / "train.mrg.gz", wiki / "wikitext2.valid.txt.gz"):
        if not needed.is_file():
            raise Absent(
                f"{needed.name} is not here: no {needed.parent.name} in {home}\ntry: --text, --train and --test"
            )
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[str]] = {"text": [str(out / "text.txt")]}
    sentences = {
        split: [read_tags(line) for line in read_lines(trees / f"{split}.mrg.gz")] for split in ("train", "test")
    }
    for split, pairs in sentences.items():
        files[split] = [str(out / f"{split}.{side}") for side in ("words", "tags")]
        for path, side in zip(files[split], zip(*pairs, strict=True), strict=True):
            write_lines(path, side)
    texts = [*wiki.glob("wikitext2.*.txt.gz"), home / "multi30k" / "train.en.gz"]
    lines = [line for path in sorted(texts) for line in gzip.decompress(path.read_bytes()).decode().split("\n")]
    read = [words for words, _ in sentences["train"]]  # they come first, because the end of a text is held out
    write_lines(files["text"][0], [*read, *(line.strip() for line in lines if line.strip())])
    return files


def pretrain(model: str, text: str, out: Path, minutes: float) -> Path:
    """The run of a model pretrained on the text; trained once."""
    if not (out / "model" / bundle.MANIFEST).is_file():
        train(text=text, model=model, minutes=minutes, out=out)
    return out


def train_tagger(begin: Path, files: Sequence[str], out: Path, *, steps: int, fresh: bool, seed: int) -> Translator:
    """A tagger with a pretrained encoder or, if `fresh`, with new weights of the same sizes and vocabulary."""
    changes = {"training.validations": 1, "training.average": 1, "training.dropout_epochs": 0, "seed": seed}
    recipe = choose(*files, model="tagger", begin=begin, steps=steps, changes=changes)
    recipe = recipe.change({"data.valid_source": files[0], "data.valid_target": files[1]})
    pretrained = bundle.read(begin)
    initialize = (lambda model: None) if fresh else partial(inherit, pretrained)
    folder = RunFolder(out)
    run(recipe, folder, Context.of(folder), vocabularies=pretrained.vocabularies.source, inherit=initialize)
    return Translator.load(out)


def count_right(model: Translator, words: Sequence[str], tags: Sequence[str]) -> np.ndarray:
    """For each sentence, the numbers of correctly tagged words and of words: (sentences, 2)."""
    outputs = [answer.text.split() for answer in model.translate(list(words), beam=1, details=False)]
    wanted = [line.split() for line in tags]
    return np.array([(sum(map(str.__eq__, a, b)), len(b)) for a, b in zip(outputs, wanted, strict=True)])


def share(counts: np.ndarray) -> float:
    return float(100.0 * counts[:, 0].sum() / counts[:, 1].sum())


def interval(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the difference of two shares, by resampling sentences."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, len(first), (SAMPLES, len(first)))
    gains = [share(first[drawn]) - share(second[drawn]) for drawn in rows]
    low, high = np.percentile(gains, [2.5, 97.5])
    return float(low), float(high)


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/probe", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder of the corpora; default: JUMOK_DATA, else ../shared/data")
    parser.add_argument("--text", help="or a text of your own")
    parser.add_argument("--train", nargs=2, metavar="FILE", help="words and their tags, one sentence per line")
    parser.add_argument("--test", nargs=2, metavar="FILE")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--minutes", type=float, default=10.0, help="of reading, each; default: %(default)s")
    parser.add_argument("--sentences", type=int, default=500, help="to learn the tags from; default: %(default)s")
    parser.add_argument("--steps", type=int, default=300, help="updates of each tagger; default: %(default)s")
    parser.add_argument("--seeds", default="1,2,3", help="of the taggers, comma-separated; default: %(default)s")
    parser.add_argument("--out", default="runs/probe")
    return parser.parse_args(arguments)


def few(files: Sequence[str], count: int, out: Path) -> list[str]:
    """The first lines of files, as files."""
    paths = []
    for path in files:
        paths.append(str(out / f"few-{count}-{Path(path).name}"))
        write_lines(paths[-1], islice(read_lines(path), count))
    return paths


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    out = Path(given.out)
    try:
        own = {"text": [given.text], "train": given.train, "test": given.test}
        files = own if given.text and given.train and given.test else write_corpora(given.data, out)
        learning = few(files["train"], given.sentences, out)
        words, tags = (list(read_lines(path)) for path in files["test"])
        print("| encoder | tagged right, begun with it | the same net, untrained | difference | 95 % interval |")
        print("|---|---:|---:|---:|---:|")
        for model in given.models.split(","):
            begin = pretrain(model, files["text"][0], out / model, given.minutes)
            counts = []
            for fresh in (False, True):
                name = f"{model}-{'fresh' if fresh else 'tuned'}"
                each = []
                for seed in map(int, given.seeds.split(",")):
                    say(f"{name}, seed {seed}")
                    folder = out / f"{name}-{seed}"
                    tagger = train_tagger(begin, learning, folder, steps=given.steps, fresh=fresh, seed=seed)
                    each.append(count_right(tagger, words, tags))
                counts.append(np.sum(each, axis=0))  # over the seeds
            low, high = interval(*counts)
            first, second = map(share, counts)
            print(
                f"| {model} | {first:.2f} % | {second:.2f} % | {first - second:+.2f} | {low:+.2f} … {high:+.2f} |",
                flush=True,
            )
    except (JumokError, Absent) as error:
        say(f"bench/probe: {error}")
        return getattr(error, "code", 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
