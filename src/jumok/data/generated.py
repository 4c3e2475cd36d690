"""Corpora that jumok generates itself, by name: the phrasebook, symbol tasks, and stories in the manner of bAbI."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from jumok.config.sections import DataConfig
from jumok.data.corpora import Corpus, hash_values
from jumok.errors import UnknownName

SEVERAL = "phrasebook-several"
CACHED = 100_000  # most pairs of a phrasebook that stay in memory for the next pass
BABI = (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 20)  # tasks of made/stories.py


def stories(task: int, count: int, seed: int, split: str = "train") -> Corpus:
    """Stories with a question as source and its answer as target: a task in the manner of bAbI."""
    from jumok.data.made import stories as generator

    def read() -> Iterator[tuple[str, str]]:
        return ((story.text, story.answer) for story in generator.stories(task, count, seed=seed, split=split))

    return Corpus(f"babi-{task} {split}", read, hash_values("babi", task, count, seed, split))


def phrases(split: str, count: int, seed: int, *, several: bool = False) -> Corpus:
    """The embedded English–Korean phrasebook; `several`: with several right translations, of which one is drawn."""
    from jumok.data.made import phrasebook  # imported late: building its grammar takes a moment

    name = SEVERAL if several else "phrasebook"
    drawn = partial(phrasebook.phrases, split, count, seed=seed, several=several)

    def generate() -> Iterator[tuple[str, str]]:
        return ((phrase.english, phrase.korean) for phrase in drawn())

    @cache
    def generate_once() -> list[tuple[str, str]]:
        return list(generate())

    def read() -> Iterator[tuple[str, str]]:
        return iter(generate_once()) if count <= CACHED else generate()

    return Corpus(f"{name} {split}", read, hash_values(name, split, count, seed))


def task(name: str, count: int, seed: int) -> Corpus:
    """Copy, reverse or sort a few symbols: tasks that take seconds to learn."""
    from jumok.data.made import phrasebook

    return Corpus(name, lambda: iter(phrasebook.task(name, count, seed=seed)), hash_values("task", name, count, seed))


def _split_stories(number: int, data: DataConfig, seed: int) -> tuple[Corpus, Corpus]:
    return stories(number, data.pairs, seed), stories(number, 1_000, seed, "validation")


NAMES: dict[str, Callable[[DataConfig, int], tuple[Corpus, Corpus | None]]] = {
    "phrasebook": lambda data, seed: (phrases("train", data.pairs, seed), phrases("validation", 500, seed)),
    SEVERAL: lambda data, seed: (
        phrases("train", data.pairs, seed, several=True),
        phrases("validation", 500, seed, several=True),
    ),
    "copy": lambda data, seed: (task("copy", data.pairs, seed), None),
    "reverse": lambda data, seed: (task("reverse", data.pairs, seed), None),
    "sort": lambda data, seed: (task("sort", data.pairs, seed), None),
} | {f"babi-{number}": partial(_split_stories, number) for number in BABI}


def generate(name: str, data: DataConfig, seed: int) -> tuple[Corpus, Corpus | None]:
    """The training corpus of this name and its validation corpus, if it has one."""
    if name not in NAMES:
        raise UnknownName("data.unknown_corpus", name, NAMES)
    return NAMES[name](data, seed)
