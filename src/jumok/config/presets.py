"""The recipes that have a name: demo, tiny, small, base, big, and every row of the paper's table 3.

Each is a function that returns a complete recipe; users write the same as TOML.  `base` and `big` are the
paper's; the small ones are for corpora of a few ten thousand pairs on an ordinary CPU.
"""

from collections.abc import Callable
from pathlib import Path

from jumok.config.recipe import Recipe, read_recipe
from jumok.config.sections import DataConfig, DecodingConfig, TrainingConfig, TransformerConfig, VocabularyConfig
from jumok.errors import UnknownName


def demo() -> Recipe:
    """English to Korean on the embedded phrasebook: five minutes on two cores, about two passes, so no dropout."""
    return Recipe(
        name="demo",
        data=DataConfig(corpus="phrasebook", pairs=80_000, tokens_per_batch=1_024),
        vocabulary=VocabularyConfig(size=2_000, kind="unigram"),
        model=TransformerConfig(
            encoder_layers=3, decoder_layers=3, d_model=128, d_ff=512, heads=4, norm_place="pre", dropout=0.0,
        ),
        training=TrainingConfig(
            steps=1_000_000, minutes=5.0, schedule="linear", peak=3e-3, warmup=200, tokens_per_update=1_024,
            validations=8, average=2, valid_pairs=200,
        ),
    )  # fmt: skip


def tiny() -> Recipe:
    """About 30,000 pairs on a CPU: 4 + 4 layers, width 128, ninety minutes."""
    return Recipe(
        name="tiny",
        data=DataConfig(tokens_per_batch=4_096),
        vocabulary=VocabularyConfig(size=8_000, sampling=0.1),
        model=TransformerConfig(
            encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4, dropout=0.3, norm_place="pre",
            positions="rotary",
        ),
        training=TrainingConfig(
            steps=1_000_000, minutes=90.0, optimizer="muon", schedule="linear", peak=1.6e-2, warmup=100,
            weight_decay=0.02, tokens_per_update=2_048, dropout_epochs=10, word_dropout=0.1, validations=20, average=1,
        ),
        decoding=DecodingConfig(beam=5, length_penalty=1.5),
    )  # fmt: skip


def small() -> Recipe:
    """Up to some 200,000 pairs on a CPU: tiny with 5 + 5 layers and width 256, two hours.

    Dropout, word dropout and subword sampling grow with the passes, so a large corpus, seen twice, gets very little.
    """
    return tiny().change(
        {
            "name": "small",
            "model.encoder_layers": 5,
            "model.decoder_layers": 5,
            "model.d_model": 256,
            "model.d_ff": 1_024,
            "vocabulary.size": 16_000,
            "training.minutes": 120.0,
        }
    )


def base() -> Recipe:
    """The paper's base model (table 2: 27.3 BLEU en-de after 100,000 steps of 25,000 tokens)."""
    return Recipe(
        name="base",
        data=DataConfig(tokens_per_batch=1_024, longest=256),  # less padding and memory, and no slower
        vocabulary=VocabularyConfig(size=37_000, kind="bpe"),
        model=TransformerConfig(),
        training=TrainingConfig(steps=100_000, warmup=4_000, tokens_per_update=25_000, clip=0.0, validations=100),
    )


def big() -> Recipe:
    """The big model: twice as wide, three times as long, dropout 0.3, mean of the last 20 checkpoints."""
    return base().change(
        {
            "name": "big",
            "model.d_model": 1_024,
            "model.d_ff": 4_096,
            "model.heads": 16,
            "model.dropout": 0.3,
            "training.steps": 300_000,
            "training.validations": 300,
            "training.average": 20,
        }
    )


TABLE_3: dict[str, dict[str, object]] = {
    "A-h1": {"model.heads": 1, "model.d_k": 512, "model.d_v": 512},
    "A-h4": {"model.heads": 4, "model.d_k": 128, "model.d_v": 128},
    "A-h16": {"model.heads": 16, "model.d_k": 32, "model.d_v": 32},
    "A-h32": {"model.heads": 32, "model.d_k": 16, "model.d_v": 16},
    "B-dk16": {"model.d_k": 16, "model.d_v": 64},
    "B-dk32": {"model.d_k": 32, "model.d_v": 64},
    "C-n2": {"model.encoder_layers": 2, "model.decoder_layers": 2},
    "C-n4": {"model.encoder_layers": 4, "model.decoder_layers": 4},
    "C-n8": {"model.encoder_layers": 8, "model.decoder_layers": 8},
    "C-d256": {"model.d_model": 256, "model.d_k": 32, "model.d_v": 32},
    "C-d1024": {"model.d_model": 1_024, "model.d_k": 128, "model.d_v": 128},
    "C-ff1024": {"model.d_ff": 1_024},
    "C-ff4096": {"model.d_ff": 4_096},
    "D-p0": {"model.dropout": 0.0},
    "D-p0.2": {"model.dropout": 0.2},
    "D-ls0": {"training.label_smoothing": 0.0},
    "D-ls0.2": {"training.label_smoothing": 0.2},
    "E-learned": {"model.positions": "learned"},
}


def table_3(row: str) -> Recipe:
    """A row of table 3: base with one change, and no checkpoint averaging."""
    return base().change({"name": f"table3-{row}", "training.average": 1, **TABLE_3[row]})


NAMED: dict[str, Callable[[], Recipe]] = {"demo": demo, "tiny": tiny, "small": small, "base": base, "big": big}


AUTO = "auto"  # stands for the recipe that fits the corpus, the time and the machine
SIZES = (  # recipe, least pairs, least minutes times cores; the first that fits is taken, tiny if none does
    ("base", 1_000_000, 20_000.0),
    ("small", 60_000, 480.0),
)


def recommend(pairs: int, minutes: float | None, cores: int) -> str:
    """The name of the recipe that fits a number of pairs, minutes and cores; minutes default to those of tiny.

    A model of N weights needs about 20 N tokens before a larger one is worth its time.  In minutes times cores that is
    about 100 for tiny, 1,000 for small and 40,000 for base on the machines we know
    (docs/log/2026-11-16-training-speed.md).
    """
    work = (tiny().training.minutes or 0.0 if minutes is None else minutes) * cores
    return next((name for name, least_pairs, least in SIZES if pairs >= least_pairs and work >= least), "tiny")


def names() -> list[str]:
    """The name of every recipe that comes with jumok."""
    return [*NAMED, *(f"table3-{row}" for row in TABLE_3)]


def get(name: str) -> Recipe:
    """A recipe by its name, or from a TOML file; a name takes precedence over a file that is called the same."""
    if name in NAMED:
        return NAMED[name]()
    if name.startswith("table3-") and name.removeprefix("table3-") in TABLE_3:
        return table_3(name.removeprefix("table3-"))
    if name.endswith(".toml") or Path(name).is_file():
        return read_recipe(name)
    raise UnknownName("config.unknown_recipe", name, names())
