"""Text to batches' raw material: a vocabulary, a token store and a validation set, made once and found again."""

import heapq
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jumok import bundle
from jumok.checkpoint import RunFolder
from jumok.config import TransformerConfig
from jumok.data import corpora, lexicon, store
from jumok.data.corpora import Corpus, Pair
from jumok.errors import DataError, ModelFileError, UsageError
from jumok.keys import key
from jumok.recipe import Recipe
from jumok.text.vocabulary import Vocabularies, Vocabulary

Report = Callable[..., None]  # ("stage", text=…): an event


class Prepared(NamedTuple):
    """What training starts from."""

    corpus: Corpus
    vocabularies: Vocabularies
    store: store.Store
    valid: list[Pair]

    def shortlist(self, tick: Callable[[], None] = lambda: None) -> bytes:
        """What each source subword may turn into, learnt once and kept beside the token store."""
        kept = self.store.folder / lexicon.FILE
        if not kept.is_file():
            sizes = len(self.vocabularies.source), len(self.vocabularies.target)
            bundle.write_file(kept, lexicon.learn(self.store, sizes, tick=tick).to_bytes())
        return kept.read_bytes()


def prepare(
    recipe: Recipe,
    folder: RunFolder,
    corpus: Corpus,
    valid: Corpus | None,
    *,
    report: Report,
    vocabularies: Vocabularies | Vocabulary | None = None,
    tick: Callable[[], None] = lambda: None,
    write: bool = True,
) -> Prepared:
    """Everything under the run's folder; a resumed run finds its vocabulary and its store there.  Who does not `write`
    finds all of it there.  `vocabularies` are both, or that of the source; what is not given is learnt.

    `tick` is called now and then, and may end it all by an exception of its own; what is whole by then is kept.
    """
    report("stage", text=f"Reading {corpus.name}")
    texts, count = survey(corpus, recipe)
    share = 0.0 if valid is not None else held_out_share(recipe, count)
    if not isinstance(vocabularies, Vocabularies):
        vocabularies = kept_vocabulary(recipe, folder) or learn_vocabulary(
            texts, recipe, corpus.name, report, tick, given=vocabularies
        )
    if write:
        folder.begin(recipe)
        vocabularies.save(folder.path)
    validating = list(valid) if valid is not None else [pair for pair in corpus if corpora.held_out(pair.source, share)]
    validating = [pair for pair in validating if (pair.source.strip() or corpus.is_text) and pair.target.strip()]
    if not validating:
        raise DataError("the validation set is empty", where=f"in {(valid or corpus).name}")
    training = (pair for pair in corpus if not (share and corpora.held_out(pair.source, share)))
    filters = store.Filters(recipe.data.longest, recipe.data.ratio, alone=corpus.is_text)
    built = store.build(training, vocabularies, filters, folder.data, identity=f"{corpus.digest}:{share}")
    prepared = Prepared(corpus, vocabularies, built, validating)
    _tell(prepared, count, share, report)
    if shortlisted(recipe, corpus):
        prepared.shortlist(tick)  # now, so that its seconds are known to whoever plans the rest
    return prepared


def shortlisted(recipe: Recipe, corpus: Corpus) -> bool:
    """Whether an engine could use a shortlist of what is translated into what."""
    return isinstance(recipe.model, TransformerConfig) and not corpus.is_text


def held_out_share(recipe: Recipe, count: int) -> float:
    """The part of so many pairs that validates, where no validation text was given."""
    return min(recipe.data.hold_out / max(1, count), 0.1)


def survey(corpus: Corpus, recipe: Recipe) -> tuple[tuple[list[str], list[str]], int]:
    """Count the pairs and draw the sentences that the vocabulary is learnt from, in one pass and bounded memory."""
    most = recipe.vocabulary.sentences
    sample: list[tuple[int, int, Pair]] = []  # a heap of the pairs with the smallest draws, largest on top
    count = 0
    for pair in corpus:
        count += 1
        entry = (-key(recipe.seed, "vocabulary", pair.line), pair.line, pair)
        if len(sample) < most:
            heapq.heappush(sample, entry)
        elif entry > sample[0]:
            heapq.heapreplace(sample, entry)
    drawn = [pair for _, _, pair in sorted(sample, key=lambda one: one[1])]
    if not drawn:
        raise DataError("the corpus is empty", where=f"in {corpus.name}", hint="try: jumok data check FILES")
    return ([pair.source for pair in drawn], [pair.target for pair in drawn]), count


def kept_vocabulary(recipe: Recipe, folder: RunFolder) -> Vocabularies | None:
    """The vocabulary that the folder has, if it was learnt from the same text in the same way."""
    if not folder.begun() or not any(folder.path.glob("vocabulary*.model")):
        return None
    before = folder.recipe()
    if (before.vocabulary, before.data, before.seed) != (recipe.vocabulary, recipe.data, recipe.seed):
        return None
    return Vocabularies.load(folder.path, breaks=recipe.vocabulary.breaks)


def learn_vocabulary(
    texts: tuple[list[str], list[str]],
    recipe: Recipe,
    name: str,
    report: Report,
    tick: Callable[[], None] = lambda: None,
    *,
    given: Vocabulary | None = None,
) -> Vocabularies:
    """A new vocabulary of both sides, or one of each; `given` is that of the source, where it is known."""
    config = recipe.vocabulary
    kind = "joint" if config.joint else "separate"
    if config.kind != "byte":
        most = "at most " if config.at_most else ""
        report("stage", text=f"Learning a {kind} vocabulary of {most}{config.size:,} subwords ({config.kind})")
    source, target = texts
    common: dict[str, Any] = {"size": config.size, "at_most": config.at_most, "breaks": config.breaks}
    common |= {"where": f"in {name}", "tick": tick}

    def learn(texts: list[str], kind: Any) -> Vocabulary:
        return Vocabulary.train(texts, kind=kind, **common)

    if config.joint:
        joint = learn([*source, *target], config.kind)
        return Vocabularies(joint, joint)
    return Vocabularies(given or learn(source, config.kind), learn(target, config.target_kind or config.kind))


def _tell(made: Prepared, count: int, share: float, report: Report) -> None:
    source, target = made.store.tokens()
    left_out = "; left out: " + ", ".join(f"{n:,} {r}" for r, n in made.store.left_out.items())
    held, what = " (held out by rule)" if share else "", "stretches" if made.corpus.is_text else "pairs"
    text = (
        f"{len(made.store):,} of {count:,} {what} train ({source:,} + {target:,} subwords), "
        f"{len(made.valid):,} validate{held}{left_out if made.store.left_out else ''}"
    )
    report("stage", text=text)
    report(
        "corpus", name=made.corpus.name, digest=made.corpus.digest, pairs=count, train=len(made.store),
        valid=len(made.valid), left_out=made.store.left_out, source_tokens=source, target_tokens=target,
    )  # fmt: skip


def stored(path: str | Path, rows: Sequence[int]) -> Iterator[Pair]:
    """Pairs of a run's token store by their numbers, as text; each with the line of the corpus it came from."""
    folder = RunFolder(path)
    built = sorted(folder.data.glob("*/meta.json"), key=lambda meta: meta.stat().st_mtime)
    if not built:
        raise ModelFileError("this run has no token store", where=f"in {folder.data}", hint="try: jumok train --help")
    found = store.Store(built[-1].parent)
    vocabularies = Vocabularies.load(folder.path, breaks=folder.recipe().vocabulary.breaks)
    for row in rows:
        if not 0 <= row < len(found):
            hint = f"try: a number from 0 to {len(found) - 1}"
            raise UsageError(f"there is no stored pair {row}", where=f"in {found.folder}", hint=hint)
        source = vocabularies.source.decode(found.source[row].tolist())
        yield Pair(source, vocabularies.target.decode(found.target[row].tolist()), int(found.lines[row]))


def add_shortlist(path: str | Path, source: str | None = None, target: str | None = None) -> Path:
    """Learn a shortlist for a finished model, from the text it was trained on unless another is given; its bundle."""
    found = bundle.read(path)
    data = found.recipe.data
    if source is not None or target is not None:
        data = data.model_copy(update={"corpus": None, "table": None, "source": source, "target": target})
    corpus, _ = corpora.resolve(data, found.recipe.seed)
    with TemporaryDirectory() as scratch:
        filters = store.Filters(data.longest, data.ratio)
        built = store.build(corpus, found.vocabularies, filters, Path(scratch), identity=corpus.digest)
        content = lexicon.learn(built, found.sizes).to_bytes()

    def fill(folder: Path) -> None:
        for name in bundle.verify(found.folder):
            shutil.copyfile(found.folder / name, folder / name)
        bundle.write_file(folder / lexicon.FILE, content)

    bundle.make_whole(found.folder, fill)
    return found.folder
