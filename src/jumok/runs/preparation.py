"""Prepared data of a run: vocabularies, token store, validation set and shortlist, made once and read again later."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumok.config.recipe import Recipe
from jumok.config.sections import DataConfig, TransformerConfig
from jumok.data import corpora, lexicon, resolve, stdin, store
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare import folder, pipeline
from jumok.data.prepare.folder import Prepared
from jumok.data.prepare.pipeline import held_out_share
from jumok.data.prepare.stage import Stage
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import ModelFileError, UnknownName, UsageError
from jumok.events import EventLog, Sink
from jumok.messages import Message
from jumok.runs.aligning import choose_head
from jumok.runs.claiming import Texts, resumable
from jumok.runs.context import Context
from jumok.stopping import NEVER, Stop, Stopped
from jumok.storage import bundle, checkpoint
from jumok.storage.checkpoint import RunFolder
from jumok.text.lines import read_pairs, read_table
from jumok.text.tables import parse_columns
from jumok.text.vocabulary import Vocabularies, Vocabulary

__all__ = [
    "Prepared",
    "add_shortlist",
    "complete",
    "find_vocabulary",
    "held_out_share",
    "learn_shortlist",
    "list_dropped",
    "needs_shortlist",
    "prepare",
    "prepare_folder",
    "read_stored",
    "try_prepared",
]
Report = Callable[..., None]  # called with the name and the fields of an event
FOLDER = "prepared"  # name in the data folder of a run
SHORTLIST_PAIRS = 1_000_000  # most pairs that a shortlist is learned from


def learn_shortlist(
    made: Prepared, stop: Stop = NEVER, report: Report = lambda *_, **__: None, *, into: Path | None = None
) -> Path:
    """The file of the target subwords of each source subword, learned once and saved in the prepared folder.

    With `into`, one that is missing is saved in that folder instead.
    """
    path = made.folder / lexicon.FILE
    if not path.is_file():
        path = (into or made.folder) / lexicon.FILE
        line, text = Message("runs.learning_shortlist"), "Learning which words translate which"
        stage = Stage(report, "shortlist", text, unit="rounds", line=line)
        sizes = len(made.vocabularies.source), len(made.vocabularies.target)
        learned = stop.finish(stage.through(lexicon.learn(made.store, sizes), 0.0, 1.0))
        bundle.write_file(path, learned.to_bytes())
    return path


def prepare_run(
    recipe: Recipe,
    run: RunFolder,
    texts: Texts,
    context: Context,
    vocabularies: Vocabularies | Vocabulary | None = None,
) -> Prepared:
    """Prepare the texts of a run, or read the data prepared before; `vocabularies` are learned unless given."""
    trained: list[Corpus] = []
    validating: list[Corpus] = []
    if context.world.first and texts.given != texts.named:
        context.stop.finish(stdin.copy_stdin(texts.given, texts.named))
    if recipe.data.prepared is None:
        fetched = run.data / "fetched"
        trained, validating = resolve.resolve_all(texts.named, recipe.seed, fetched=fetched)
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
    """Prepare corpora in the folder of a run; a resumed run, or a process that does not `write`, reads them there.

    `vocabularies` are both, or that of the source; one that is not given is learned.  Stages that were complete when a
    preparation was stopped are not repeated.
    """
    if (older := _find_older(recipe, run, trained, validating, stop)) is not None:
        made = older
    elif recipe.data.prepared is not None:
        made = folder.load(Path(recipe.data.prepared), breaks=recipe.vocabulary.breaks)
    else:
        if write:
            run.begin(recipe)
        made = pipeline.prepare(
            recipe, trained, validating, run.data / FOLDER, report=report, vocabularies=vocabularies, stop=stop
        )
    return complete(recipe, run, made, report=report, stop=stop, write=write)


def complete(
    recipe: Recipe, run: RunFolder, made: Prepared, *, report: Report, stop: Stop = NEVER, write: bool = True
) -> Prepared:
    """Report what was prepared, save the vocabularies in the folder of a run, and learn the shortlist."""
    if write:
        run.begin(recipe)
        made.vocabularies.save(run.path)
    _report_corpus(made, report)
    if not needs_shortlist(recipe, made.is_text):
        return made
    return replace(made, shortlist=learn_shortlist(made, stop, report))  # now, before the minutes are divided


def try_prepared(recipe: Recipe, run: RunFolder, report: Report) -> Prepared:
    """The data in the folder that the recipe names, for a probe: what is written goes to the folder `run`."""
    made = folder.load(Path(str(recipe.data.prepared)), breaks=recipe.vocabulary.breaks)
    _report_corpus(made, report)
    if not needs_shortlist(recipe, made.is_text):
        return made
    return replace(made, shortlist=learn_shortlist(made, report=report, into=run.path))


def _find_older(
    recipe: Recipe, run: RunFolder, trained: Sequence[Corpus], validating: Sequence[Corpus], stop: Stop
) -> Prepared | None:
    """The data that an earlier version has prepared for a run, so that it continues with the same bytes; else None."""
    if not run.steps() or (run.data / FOLDER).exists() or len(trained) != 1 or not bundle.is_older(run.path):
        return None
    corpus, vocabularies = trained[0], Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)
    filters = store.Filters(recipe.data.longest, recipe.data.ratio, alone=corpus.is_text)
    count = 0 if validating else sum(1 for _ in stop.watch(corpus))
    share = 0.0 if validating else held_out_share(recipe, count)
    path = run.data / store.name_of(f"{corpus.digest}:{share}", vocabularies, filters)
    if not (path / "meta.json").exists():
        return None
    valid = list(validating[0]) if validating else [p for p in corpus if corpora.is_held_out(p.source, share)]
    valid = [pair for pair in valid if (pair.source.strip() or corpus.is_text) and pair.target.strip()]
    older = store.Store(path)
    about = {
        "name": corpus.name, "digest": corpus.digest, "is_text": corpus.is_text, "left_out": older.left_out,
        "pairs": count or len(older) + sum(older.left_out.values()), "held_out": 0 if validating else len(valid),
        "corpora": [{"name": corpus.name}],
    }  # fmt: skip
    return Prepared(path, about, vocabularies, older, valid, [0] * len(valid))


def prepare_folder(
    recipe: Recipe,
    out: Path,
    *,
    sinks: Sequence[Sink] = (),
    stop: Callable[[], bool] = lambda: False,
    workers: int | None = None,
) -> Iterator[str]:
    """Prepare data in a separate folder for `jumok train --data`; yields lines that describe the result."""
    asked = Stop(stop)
    fetched = out.with_name(f"{out.name}.fetched")
    trained, validating = resolve.resolve_all(recipe.data, recipe.seed, fetched=fetched)
    others, is_taken = (
        pipeline.watched_files(recipe, validating),
        out.is_file() or (out.is_dir() and any(out.iterdir())),
    )
    if is_taken and folder.find(out, recipe, trained, others, None) is None:
        raise UsageError("runs.folder_holds_something_else", folder=out, quoted=shlex.quote(str(out)))
    with closing(EventLog(out.with_name(f"{out.name}.events.jsonl"), list(sinks))) as report:
        try:
            made = pipeline.prepare(recipe, trained, validating, out, report=report, stop=asked, workers=workers)
            if not made.is_text:
                learn_shortlist(made, asked, report)
        except Stopped:
            raise resumable(out) from None
    source, target = made.store.tokens()
    yield f"{len(made.store):,} of {made.summary['pairs']:,} pairs train ({source:,} + {target:,} subwords)"
    for reason, count in made.summary["left_out"].items():
        yield f"{count:>12,} left out: {reason}"
    yield f"{len(made.valid):>12,} validate"


def list_dropped(path: str | Path, *, reason: str | None = None, limit: int = 1_000) -> Iterator[dict[str, Any]]:
    """Pairs that were left out: file and line, reason and text."""
    prepared = Path(path)
    prepared = prepared if (prepared / folder.PREPARED).is_file() else RunFolder(prepared).data / FOLDER
    about = folder.read_summary(prepared)
    names, named = set(about["reasons"].values()) - {""}, about["request"]["data"]["columns"]
    columns = parse_columns(named) if named else None
    if reason is not None and reason not in names:
        raise UnknownName("runs.unknown_reason", reason, names)
    dropped = (row for row in folder.list_dropped(prepared) if reason in (None, row[2]))
    reader: Iterator[tuple[int, tuple[str, str]]] = iter(())
    current: tuple[str, ...] = ()
    for files, line, why in islice(dropped, limit):
        if files != current:
            current = files
            reader = enumerate(
                read_pairs(*files) if len(files) == 2 else read_table(files[0], columns=columns), start=1
            )
        source, target = next((text for number, text in reader if number == line), ("", ""))
        yield {"where": f"{' + '.join(files)}, line {line}", "reason": why, "source": source, "target": target}


def find_vocabulary(recipe: Recipe, run: RunFolder) -> Vocabularies | None:
    """The vocabulary in the folder of a run, if it was learned from the same text in the same way."""
    if not run.begun() or not any(run.path.glob("vocabulary*.model")):
        return None
    before = run.recipe()
    if (before.vocabulary, before.data, before.seed) != (recipe.vocabulary, recipe.data, recipe.seed):
        return None
    return Vocabularies.load(run.path, breaks=recipe.vocabulary.breaks)


def needs_shortlist(recipe: Recipe, is_text: bool) -> bool:
    """Whether an engine can use a shortlist for this model."""
    return isinstance(recipe.model, TransformerConfig) and not is_text


def _report_corpus(prepared: Prepared, report: Report) -> None:
    about, left_out = prepared.summary, prepared.summary["left_out"]
    source, target = prepared.store.tokens()
    dropped = "; left out: " + ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    held, what = " (held out automatically)" if about["held_out"] else "", "segments" if prepared.is_text else "pairs"
    text = (
        f"{len(prepared.store):,} of {about['pairs']:,} {what} train ({source:,} + {target:,} subwords), "
        f"{len(prepared.valid):,} validate{held}{dropped if left_out else ''}"
    )
    report("stage", text=text)
    report(
        "corpus", name=about["name"], digest=prepared.digest, pairs=about["pairs"], train=len(prepared.store),
        valid=len(prepared.valid), left_out=left_out, source_tokens=source, target_tokens=target,
    )  # fmt: skip


def read_stored(path: str | Path, rows: Sequence[int]) -> Iterator[Pair]:
    """Pairs of a run's token store by their numbers, as text, with the line of the corpus that they come from."""
    run = RunFolder(path)
    built = sorted(run.data.glob("*/meta.json"), key=lambda meta: meta.stat().st_mtime)
    if not built:
        raise ModelFileError("runs.no_store", folder=run.data)
    newest = store.Store(built[-1].parent)
    vocabularies = Vocabularies.load(run.path, breaks=run.recipe().vocabulary.breaks)
    for row in rows:
        if not 0 <= row < len(newest):
            raise UsageError("runs.no_pair", row=row, folder=newest.folder, last=len(newest) - 1)
        source = vocabularies.source.decode(newest.source[row].tolist())
        yield Pair(source, vocabularies.target.decode(newest.target[row].tolist()), int(newest.lines[row]))


def add_shortlist(path: str | Path, source: str | None = None, target: str | None = None) -> Path:
    """Add a shortlist and the aligning head to a finished model, from its training text unless another is given.

    Returns the folder of the model.
    """
    saved = bundle.read(path)
    data = saved.recipe.data
    if source is not None or target is not None:
        data = DataConfig(source=source, target=target, longest=data.longest, ratio=data.ratio)
    else:
        resolve.refuse_addresses(data, where=str(saved.folder))
    trained, _ = resolve.resolve_all(data, saved.recipe.seed)
    pairs = (pair for corpus in trained for pair in islice(corpus, SHORTLIST_PAIRS // len(trained)))
    with TemporaryDirectory(prefix=".shortlist-", dir=saved.folder.parent) as scratch:
        filters = store.Filters(data.longest, data.ratio)
        built = store.build(pairs, saved.vocabularies, filters, Path(scratch), identity="shortlist")
        learned = NEVER.finish(lexicon.learn(built, saved.sizes))
        files = {lexicon.FILE: learned.to_bytes()}
        if (head := choose_head(TorchEngine(checkpoint.with_model(saved).model), built, learned)) is not None:
            files["card.json"] = bundle.card_bytes({**saved.card, "aligning": head})
    bundle.rewrite(saved.folder, files)
    return saved.folder
