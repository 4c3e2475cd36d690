"""A rehearsal of a preparation: some pairs of the text are prepared, and the time of the whole text is estimated.

    rehearsal = Rehearsal(clock)
    prepared = rehearse(recipe, rehearsal, folder, run, report)
    rehearsal.estimate(recipe, ready)        seconds of the real preparation

The pairs come from all of the text that can be read within some seconds.  They are prepared without workers: starting
them takes longer than the work.  Of a larger text, they are prepared twice: the second time nothing is loaded or
learned, so that what remains is proportional to the number of pairs.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from jumok import machine
from jumok.config.recipe import Recipe
from jumok.data import corpora, lexicon, resolve, sizes
from jumok.data.corpora import Corpus
from jumok.data.prepare import pipeline
from jumok.data.prepare.folder import Prepared
from jumok.errors import UsageError
from jumok.events import Event
from jumok.runs import preparation
from jumok.runs.preparation import Report
from jumok.storage.checkpoint import RunFolder
from jumok.text.addresses import redact
from jumok.text.lines import write_lines

PAIRS = 30_000  # most pairs that are prepared
TOGETHER = 500  # consecutive pairs of the sample
READING = 5.0  # seconds
LEARNING = 0.4  # the time to learn a vocabulary or a shortlist grows with this power of its sample
GOLDEN = 0.618_034  # multiples of it are spread evenly between 0 and 1
STAGES = (
    "reading", "deciding", "vocabulary", "encoding", "joining", "corpus", "shortlist", "repeating", "assembling",
)  # fmt: skip


@dataclass
class Rehearsal:
    """Measurements of a preparation of some pairs; times in seconds since the beginning of the probe."""

    clock: Callable[[], float]
    count: int = 0  # pairs of the text
    counted: bool = True  # whether the text was read to its end
    tried: int = 0  # pairs that were prepared
    text: int = 0  # bytes of the whole text
    fetched: int = 0  # bytes of files that a run fetches from addresses
    marks: dict[str, float] = field(default_factory=dict)  # when each stage began
    seconds: dict[str, float] = field(default_factory=dict)  # of each stage, when everything was loaded
    learned: float = 1.0  # links that the shortlist may be learned from over those of the pairs
    sampled: float = 1.0  # characters that a vocabulary may be learned from over those of the pairs

    def record(self, event: Event) -> None:
        """Note when a stage begins."""
        if event["event"] == "progress":
            self.mark(event["stage"])
        if event["event"] == "corpus":
            self.mark("corpus")

    def mark(self, stage: str) -> None:
        self.marks.setdefault(stage, self.clock())

    @property
    def growth(self) -> float:
        """Pairs of the text for each that was prepared."""
        return self.count / max(1, self.tried)

    def durations(self, end: float) -> dict[str, float]:
        """Seconds of each stage; the last one ended at `end`."""
        began = [(name, self.marks[name]) for name in STAGES if name in self.marks]
        ends = [*(moment for _, moment in began[1:]), end]
        return {name: after - moment for (name, moment), after in zip(began, ends, strict=True)}

    def estimate(self, before: float, ready: float) -> float:
        """Seconds until the first update of the real run; reading began after `before`, the model was `ready` then."""
        if self.growth <= 1.0 or not self.seconds:
            return ready
        first, grown = self.durations(ready), self.growth
        cores = min(machine.cores(), pipeline.WORKERS) if self.text > pipeline.ALONE else 1
        shared = sum(self.seconds.get(name, 0.0) for name in ("reading", "encoding")) / cores
        alone = sum(self.seconds.get(name, 0.0) for name in ("deciding", "joining"))
        vocabulary = first.get("vocabulary", 0.0) * max(1.0, min(grown, self.sampled)) ** LEARNING
        shortlist = first.get("shortlist", 0.0) * max(1.0, min(grown, self.learned)) ** LEARNING
        rest = first.get("assembling", 0.0)
        return float(before + (shared + alone) * grown + vocabulary + shortlist + rest)


def rehearse(recipe: Recipe, rehearsal: Rehearsal, folder: RunFolder, run: RunFolder, report: Report) -> Prepared:
    """Prepare some pairs of the text as a run would, with fewer subwords if these pairs do not have enough.

    Everything is written to `folder`; `run` is that of the real run, whose vocabulary and fetched files are used.
    """
    if recipe.data.prepared is not None:
        made = preparation.try_prepared(recipe, folder, report)
        rehearsal.count = rehearsal.tried = int(made.summary["pairs"])
        return made
    trained, valid = resolve.resolve_all(recipe.data, recipe.seed, fetched=run.data / "fetched")
    for path, address in (pair for corpus in (*trained, *valid) for pair in corpus.addresses):
        if not os.path.exists(path):
            raise UsageError("runs.plan_not_fetched", address=redact(address))
        rehearsal.fetched += os.path.getsize(path)
    each = max(1, PAIRS // max(1, len(trained)))
    texts = [take_some(rehearsal, corpus, each) for corpus in trained]
    valid = [replace(corpus, read=partial(_read_first, corpus.read)) for corpus in valid]
    if trained[0].tail is not None:  # the end of a text is found by reading all of it; any other part does as well
        cut = len(texts[0]) * 9 // 10
        valid = [replace(valid[0], read=partial(iter, texts[0][cut:]), inputs=(), tail=None)]
        texts[0] = texts[0][:cut]
    parts = [_write(texts[n], corpus, n, folder.path) for n, corpus in enumerate(trained)]
    made = _prepare_smaller(recipe, rehearsal, folder, (parts, valid), run, report)
    rehearsal.mark("repeating")
    characters = sum(len(source) + len(target) for text in texts for source, target in text)
    rehearsal.sampled = recipe.vocabulary.characters / max(1, characters)
    rehearsal.learned = lexicon.LINKS / max(1, lexicon.count_links(made.store))
    if rehearsal.growth > 1.0:
        _repeat(made, recipe, rehearsal, folder, (parts, valid))
    rehearsal.mark("assembling")
    return made


def _prepare_smaller(
    recipe: Recipe,
    rehearsal: Rehearsal,
    folder: RunFolder,
    texts: tuple[list[Corpus], list[Corpus]],
    run: RunFolder,
    report: Report,
) -> Prepared:
    """Prepare these texts with half of the subwords, a quarter …, if they do not have enough."""
    known, place = preparation.find_vocabulary(recipe, run), folder.data / preparation.FOLDER
    problem: UsageError | None = None
    for halvings in range(8):
        rehearsal.marks.clear()
        try:
            smaller = recipe.change({"vocabulary.size": recipe.vocabulary.size >> halvings})
            made = pipeline.prepare(smaller, *texts, place, report=report, vocabularies=known, workers=0)
            return preparation.complete(smaller, folder, made, report=report)
        except UsageError as error:
            problem = problem or error
            if rehearsal.tried == rehearsal.count:
                break
    assert problem is not None
    raise problem


def _repeat(
    made: Prepared, recipe: Recipe, rehearsal: Rehearsal, folder: RunFolder, texts: tuple[list[Corpus], list[Corpus]]
) -> None:
    """Prepare the same pairs again with their vocabulary, and measure every stage."""
    again = Rehearsal(rehearsal.clock)
    pipeline.prepare(
        recipe, *texts, folder.path / "again", vocabularies=made.vocabularies, workers=0,
        report=lambda event, **values: again.record({"event": event, **values}),
    )  # fmt: skip
    rehearsal.seconds = again.durations(rehearsal.clock())


def take_some(rehearsal: Rehearsal, corpus: Corpus, most: int) -> list[tuple[str, str]]:
    """Up to `most` pairs, evenly spread over what is read of a corpus within some seconds.

    The rest is counted by its size.  The files of a corpus are not read in their order, but from all over it.
    """
    sample: list[list[tuple[str, str]]] = []
    deadline, size, count, stride = time.monotonic() + READING, 0, 0, 1
    pairs, finished = _read_spread(corpus), False
    while not finished:
        number = count // TOGETHER
        block = list(islice(pairs, TOGETHER))
        count += len(block)
        size += sum(len(source.encode()) + len(target.encode()) + 2 for source, target in block)
        if number % stride == 0 and block:
            sample.append(block)
        if (len(sample) - 1) * TOGETHER >= most:
            sample, stride = sample[::2], 2 * stride
        finished = len(block) < TOGETHER
        if not finished and time.monotonic() > deadline:
            rehearsal.counted = False
            break
    chosen = [pair for block in sample for pair in block][:most]
    whole = sizes.measure_corpus(corpus) if corpus.inputs else sizes.Size()
    if finished:
        rehearsal.count += count
        rehearsal.text += size
    else:
        by_size = count * whole.text / max(1, size) if corpus.is_text else whole.pairs
        rehearsal.count += max(count, round(by_size))
        rehearsal.text += max(size, whole.text)
    rehearsal.tried += len(chosen)
    return chosen


def _read_spread(corpus: Corpus) -> Iterator[tuple[str, str]]:
    """The pairs of a corpus; those of several files from all over them, those of a text without looking for its end."""
    if corpus.tail is not None:
        return corpus.tail.read_past(corpus.read)
    if len(corpus.inputs) < 2:
        return corpus.read()
    return corpora.from_inputs(corpus.name, spread_inputs(corpus), columns=corpus.columns).read()


def spread_inputs(corpus: Corpus) -> list[tuple[str, ...]]:
    """The files of a corpus in an order whose beginning is from all over it."""
    order = sorted(range(len(corpus.inputs)), key=lambda number: number * GOLDEN % 1.0)
    return [corpus.inputs[number] for number in order]


def _write(pairs: list[tuple[str, str]], corpus: Corpus, number: int, scratch: Path) -> Corpus:
    """Pairs as a corpus: in files if those of the corpus are."""
    if not corpus.inputs or corpus.is_text:
        return replace(corpus, read=partial(iter, pairs), identity=f"{corpus.name} probe", inputs=(), tail=None)
    if not pairs:
        return corpus  # an error when it is prepared
    names = [scratch / f"probe-{number}.{side}" for side in ("source", "target")]
    for name, side in zip(names, zip(*pairs, strict=True), strict=True):
        write_lines(name, (text.replace("\n", " ") for text in side))
    return replace(corpora.from_files(*names), name=corpus.name, share=corpus.share)


def _read_first(read: Callable[[], Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    return islice(read(), PAIRS)
