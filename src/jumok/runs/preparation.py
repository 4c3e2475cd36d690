"""Text to batches' raw material: a vocabulary, a token store and a validation set, made once and found again."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumok.config.recipe import Recipe
from jumok.config.sections import DataConfig, TransformerConfig
from jumok.data import corpora, lexicon, store
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare import folder, pipeline
from jumok.data.prepare.folder import Prepared
from jumok.data.prepare.pipeline import held_out_share
from jumok.data.prepare.stage import Stage
from jumok.errors import ModelFileError, UnknownName, UsageError
from jumok.events import EventLog, Sink
from jumok.runs.claiming import Texts, stopped
from jumok.runs.context import Context
from jumok.stopping import NEVER, Stop, Stopped
from jumok.storage import bundle
from jumok.storage.checkpoint import RunFolder
from jumok.text.lines import read_pairs, read_table
from jumok.text.tables import parse_columns
from jumok.text.vocabulary import Vocabularies, Vocabulary

__all__ = [
    "Prepared",
    "add_shortlist",
    "dropped",
    "held_out_share",
    "kept_vocabulary",
    "prepare",
    "prepare_folder",
    "shortlist",
    "shortlisted",
    "stored",
]
Report = Callable[..., None]  # ("stage", text=…): an event
FOLDER = "prepared"  # in the data folder of a run
SHORTLIST_PAIRS = 1_000_000  # read at most for a shortlist


def shortlist(made: Prepared, stop: Stop = NEVER, report: Report = lambda *_, **__: None) -> Path:
    """The file of what each source subword may turn into, learnt once and kept beside the token store."""
    kept = made.folder / lexicon.FILE
    if not kept.is_file():
        report("stage", text="Learning which words translate which, for fast translating")
        stage = Stage(report, "shortlist", "Learning which words translate which", unit="rounds")
        sizes = len(made.vocabularies.source), len(made.vocabularies.target)
        learnt = stop.finish(stage.through(lexicon.learn(made.store, sizes), 0.0, 1.0))
        bundle.write_file(kept, learnt.to_bytes())
    return kept


def prepare_run(
    recipe: Recipe,
    run: RunFolder,
    texts: Texts,
    context: Context,
    vocabularies: Vocabularies | Vocabulary | None = None,
) -> Prepared:
    """Prepare the texts of a run, or find what was prepared before; `vocabularies` are learnt unless given."""
    trained: list[Corpus] = []
    validating: list[Corpus] = []
    if context.world.first and texts.given != texts.named:
        context.stop.finish(corpora.keep_stdin(texts.given, texts.named))
    if recipe.data.prepared is None:
        fetched = run.data / "fetched"
        trained, validating = corpora.resolve_all(texts.named, recipe.seed, fetched=fetched)
    return prepare(
        recipe, run, trained, validating, report=context.report, vocabularies=vocabularies, stop=context.stop,
        write=context.world.first,
    )  # fmt: skip


def prepare(
    recipe: Recipe,
    run: RunFolder,
    trained: Sequence[Corpus],
    validating: Sequence[Corpus],
    *,
    report: Report,
    vocabularies: Vocabularies | Vocabulary | None = None,
    stop: Stop = NEVER,
    write: bool = True,
) -> Prepared:
    """Everything under the run's folder; a resumed run finds its vocabulary and its store there.  Who does not `write`
    finds all of it there.  `vocabularies` are both, or that of the source; what is not given is learnt.

    What is whole when it is stopped is kept.
    """
    if (older := _older(recipe, run, trained, validating, stop)) is not None:
        made = older
    elif recipe.data.prepared is not None:
        made = folder.load(Path(recipe.data.prepared), breaks=recipe.vocabulary.breaks)
    else:
        if write:
            run.begin(recipe)
        place = run.data / FOLDER
        made = pipeline.prepare(recipe, trained, validating, place, report=report, vocabularies=vocabularies, stop=stop)
    if write:
        run.begin(recipe)
        made.vocabularies.save(run.path)
    _tell(made, report)
    if not shortlisted(recipe, made.is_text):
        return made
    return replace(made, shortlist=shortlist(made, stop, report))  # now: whoever plans the rest knows its seconds


def _older(
    recipe: Recipe, run: RunFolder, trained: Sequence[Corpus], validating: Sequence[Corpus], stop: Stop
) -> Prepared | None:
    """What a run was begun with that a version of before has prepared, so that it goes on with the same bytes."""
    if not run.steps() or (run.data / FOLDER).exists() or len(trained) != 1 or not bundle.is_older(run.path):
        return None
    corpus, vocabularies = trained[0], Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)
    filters = store.Filters(recipe.data.longest, recipe.data.ratio, alone=corpus.is_text)
    count = 0 if validating else sum(1 for _ in stop.watch(corpus))
    share = 0.0 if validating else held_out_share(recipe, count)
    place = run.data / store.name_of(f"{corpus.digest}:{share}", vocabularies, filters)
    if not (place / "meta.json").exists():
        return None
    valid = list(validating[0]) if validating else [p for p in corpus if corpora.held_out(p.source, share)]
    valid = [pair for pair in valid if (pair.source.strip() or corpus.is_text) and pair.target.strip()]
    found = store.Store(place)
    told = {
        "name": corpus.name, "digest": corpus.digest, "is_text": corpus.is_text, "left_out": found.left_out,
        "pairs": count or len(found) + sum(found.left_out.values()), "held_out": 0 if validating else len(valid),
        "corpora": [{"name": corpus.name}],
    }  # fmt: skip
    return Prepared(place, told, vocabularies, found, valid, [0] * len(valid))


def prepare_folder(
    recipe: Recipe,
    out: Path,
    *,
    sinks: Sequence[Sink] = (),
    stop: Callable[[], bool] = lambda: False,
    workers: int | None = None,
) -> Iterator[str]:
    """Prepare data into a folder of its own, for `jumok train --data`; yields what came of it, in lines."""
    asked = Stop(stop)
    fetched = out.with_name(f"{out.name}.fetched")
    trained, validating = corpora.resolve_all(recipe.data, recipe.seed, fetched=fetched)
    with closing(EventLog(out.with_name(f"{out.name}.events.jsonl"), list(sinks))) as report:
        try:
            made = pipeline.prepare(recipe, trained, validating, out, report=report, stop=asked, workers=workers)
            if not made.is_text:
                shortlist(made, asked, report)
        except Stopped:
            raise stopped(out) from None
    source, target = made.store.tokens()
    yield f"{len(made.store):,} of {made.told['pairs']:,} pairs train ({source:,} + {target:,} subwords)"
    for reason, count in made.told["left_out"].items():
        yield f"{count:>12,} left out: {reason}"
    yield f"{len(made.valid):>12,} validate"


def dropped(path: str | Path, *, reason: str | None = None, limit: int = 1_000) -> Iterator[dict[str, Any]]:
    """Pairs that do not train, with where they stand, why, and their text."""
    place = Path(path)
    place = place if (place / folder.PREPARED).is_file() else RunFolder(place).data / FOLDER
    about = folder.read_told(place)
    names, named = set(about["reasons"].values()) - {""}, about["request"]["data"]["columns"]
    columns = parse_columns(named) if named else None
    if reason is not None and reason not in names:
        raise UnknownName("reason", reason, names, where="in --reason")
    found = (row for row in folder.list_dropped(place) if reason in (None, row[2]))
    reader: Iterator[tuple[int, tuple[str, str]]] = iter(())
    current: tuple[str, ...] = ()
    for files, line, why in islice(found, limit):
        if files != current:
            current = files
            reader = enumerate(
                read_pairs(*files) if len(files) == 2 else read_table(files[0], columns=columns), start=1
            )
        source, target = next((text for number, text in reader if number == line), ("", ""))
        yield {"where": f"{' + '.join(files)}, line {line}", "reason": why, "source": source, "target": target}


def kept_vocabulary(recipe: Recipe, run: RunFolder) -> Vocabularies | None:
    """The vocabulary that a run has, if it was learnt from the same text in the same way."""
    if not run.begun() or not any(run.path.glob("vocabulary*.model")):
        return None
    before = run.recipe()
    if (before.vocabulary, before.data, before.seed) != (recipe.vocabulary, recipe.data, recipe.seed):
        return None
    return Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)


def shortlisted(recipe: Recipe, is_text: bool) -> bool:
    """Whether an engine could use a shortlist of what is translated into what."""
    return isinstance(recipe.model, TransformerConfig) and not is_text


def _tell(prepared: Prepared, report: Report) -> None:
    told, left_out = prepared.told, prepared.told["left_out"]
    source, target = prepared.store.tokens()
    dropped = "; left out: " + ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    held, what = " (held out by rule)" if told["held_out"] else "", "stretches" if prepared.is_text else "pairs"
    text = (
        f"{len(prepared.store):,} of {told['pairs']:,} {what} train ({source:,} + {target:,} subwords), "
        f"{len(prepared.valid):,} validate{held}{dropped if left_out else ''}"
    )
    report("stage", text=text)
    report(
        "corpus", name=told["name"], digest=prepared.digest, pairs=told["pairs"], train=len(prepared.store),
        valid=len(prepared.valid), left_out=left_out, source_tokens=source, target_tokens=target,
    )  # fmt: skip


def stored(path: str | Path, rows: Sequence[int]) -> Iterator[Pair]:
    """Pairs of a run's token store by their numbers, as text; each with the line of the corpus it came from."""
    run = RunFolder(path)
    built = sorted(run.data.glob("*/meta.json"), key=lambda meta: meta.stat().st_mtime)
    if not built:
        raise ModelFileError("this run has no token store", where=f"in {run.data}", hint="try: jumok train --help")
    found = store.Store(built[-1].parent)
    vocabularies = Vocabularies.load(run.path, breaks=run.recipe().vocabulary.breaks)
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
        data = DataConfig(source=source, target=target, longest=data.longest, ratio=data.ratio)
    else:
        corpora.refuse_addresses(data, where=str(found.folder))
    trained, _ = corpora.resolve_all(data, found.recipe.seed)
    pairs = (pair for corpus in trained for pair in islice(corpus, SHORTLIST_PAIRS // len(trained)))
    with TemporaryDirectory() as scratch:
        filters = store.Filters(data.longest, data.ratio)
        built = store.build(pairs, found.vocabularies, filters, Path(scratch), identity="shortlist")
        content = NEVER.finish(lexicon.learn(built, found.sizes)).to_bytes()
    with bundle.replace_folder(found.folder) as place:
        for name in bundle.verify(found.folder):
            shutil.copyfile(found.folder / name, place / name)
        bundle.write_file(place / lexicon.FILE, content)
    return found.folder
