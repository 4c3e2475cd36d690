"""Text to a prepared folder: read once, decided, counted, encoded on all cores, and joined to a token store.

    reading      parts of the text are checked, tidied and sifted by workers, which leave clean text and hashes
    deciding     duplicates, wrong scripts and pairs that validate are told apart
    vocabulary   words of a sample are counted and SentencePiece learns from the counts
    encoding     workers turn what is left into shards of ids
    joining      shards become one store

All of it happens in a folder beside the result, and everything that was whole when a preparation was killed is found
again by the next.  The result appears at once, by a rename.  Its bytes depend on the text and the recipe, not on the
number of workers, nor on how often it was interrupted.
"""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from jumok import machine
from jumok.config.recipe import Recipe
from jumok.data import corpora, resolve
from jumok.data.corpora import Corpus, Pair
from jumok.data.prepare import join, parts, work
from jumok.data.prepare.crew import Crew, Result, Task
from jumok.data.prepare.decide import Decision, Read
from jumok.data.prepare.folder import FORMAT, PREPARED, VALID, Prepared, find, load, request
from jumok.data.prepare.sift import EMPTY, HELD_OUT, Rules, examine, mix_pair
from jumok.data.prepare.stage import Report, Stage
from jumok.data.store import Filters
from jumok.disk.locks import FILE as LOCK
from jumok.disk.locks import lock
from jumok.errors import DataError, DiskError, JumokError, UsageError
from jumok.keys import key
from jumok.stopping import NEVER, Stop
from jumok.storage import bundle
from jumok.text.files import PACKED, must_be_file
from jumok.text.lines import hash_files, must_differ
from jumok.text.tables import has_header, is_columnar
from jumok.text.vocabulary import Vocabularies, Vocabulary

PLAN = "plan.json"
WORKERS = 16  # at most
LINES = 1_024  # read between two looks at who asks to stop
VALIDATING = 100_000  # pairs of validation files that are kept
ROOM = 2.5  # bytes of disk for a byte of text, until the store is whole
LARGE = 1e9  # bytes that are worth a word
ALONE = 2 << 20  # bytes of text that are prepared without workers: starting them would take longer


def prepare(
    recipe: Recipe,
    trained: Sequence[Corpus],
    validating: Sequence[Corpus],
    place: Path,
    *,
    report: Report,
    vocabularies: Vocabularies | Vocabulary | None = None,
    stop: Stop = NEVER,
    workers: int | None = None,
) -> Prepared:
    """The prepared folder `place`, made unless it is there; a preparation that was killed goes on where it was.

    `vocabularies` are both, or that of the source; what is not given is learnt.
    """
    beside = watched_files(recipe, validating)
    if (found := find(place, recipe, trained, beside, vocabularies)) is not None:
        _remove_leftovers(place)
        return found
    job = Job(recipe, trained, validating, place, report, vocabularies, stop)
    try:
        with lock(job.work, "the prepared data", note=lambda text: report("note", text=text)):
            return find(place, recipe, trained, beside, vocabularies) or job.run(workers)
    except OSError as error:
        what, hint = f"cannot write what is prepared: {error.strerror or error}", "try: df -h; free some space"
        raise DiskError(what, where=f"in {place.parent}", hint=hint) from None


@dataclass
class Job:
    """One preparation."""

    recipe: Recipe
    trained: Sequence[Corpus]
    validating: Sequence[Corpus]
    place: Path
    report: Report
    given: Vocabularies | Vocabulary | None
    stop: Stop

    def __post_init__(self) -> None:
        self.work, self.request = work_folder(self.place), request(self.recipe, self.given)
        self.is_text = any(corpus.is_text for corpus in self.trained)
        self.filters = Filters(self.recipe.data.longest, self.recipe.data.ratio, alone=self.is_text)
        self.files: list[dict[str, Any]] = []
        self.beside: list[dict[str, Any]] = []
        self.inputs: list[dict[str, Any]] = []
        self.read: list[Read] = []
        self.left_out: Counter[str] = Counter()
        self.pairs = 0

    @property
    def cleaning(self) -> bool:
        """Whether rules for sentences apply: not to texts, labels and what jumok makes itself."""
        real = all(corpus.inputs for corpus in self.trained) and not self.is_text
        return real and self.recipe.vocabulary.target_kind is None

    @property
    def rules(self) -> Rules:
        chosen, real = self.recipe.data.clean, self.cleaning
        as_is = self.is_text or self.recipe.vocabulary.breaks
        return Rules(copies=real and chosen.copies, symbols=real and chosen.symbols, as_is=as_is, alone=self.is_text)

    def run(self, workers: int | None) -> Prepared:
        """All stages; what earlier attempts have left is used."""
        self._fetch()
        self._begin()
        size = parts.size_on_disk(path for corpus in self.trained for path in corpus.files)
        small = size < ALONE and not self._is_packed()
        crew = min(machine.cores(), WORKERS) if workers is None else workers
        self._tell_disk(size)
        valid, labels = self._validation()
        with Crew(0 if small or not size else crew, work.__name__, work.TABLE, self.stop) as hands:
            self._read_all(hands, size, share=0.0 if self.validating else 0.1)
            decision = self._decide(valid, labels)
            vocabularies = self._vocabularies(decision)
            self._encode(hands, vocabularies)
        self._join(vocabularies, valid, labels)
        return load(self.place, breaks=self.recipe.vocabulary.breaks)

    # ------------------------------------------------------------------ beginning

    def _is_packed(self) -> bool:
        return any(path.endswith(tuple(PACKED)) for corpus in self.trained for path in corpus.files)

    def _tell_disk(self, size: int) -> None:
        """Say what a large preparation needs of the disk while it works, and whether it is there."""
        needed = size * ROOM * (resolve.PACKING if self._is_packed() else 1.0)
        free = shutil.disk_usage(self.work).free
        if needed > min(LARGE, free):
            text = f"Preparing takes about {needed / 1e9:.1f} GB of disk meanwhile; {free / 1e9:.1f} GB are free"
            self.report("note" if needed > free else "stage", text=text)

    def _fetch(self) -> None:
        """Fetch what is behind addresses."""
        wanted = [*self.trained, *self.validating]
        if any(corpus.addresses for corpus in wanted):
            self.report("stage", text=f"Fetching {', '.join(corpus.name for corpus in wanted if corpus.addresses)}")
            stage = Stage(self.report, "fetching", "Fetching", unit="bytes")
            for done, size in filter(None, self.stop.watch(resolve.fetch_all(wanted))):
                stage(done / (size or done or 1), done)
        for corpus in wanted:
            if corpus.tail is not None:
                corpus.tail.find_start(self.stop.watch(corpus.tail.lines(), LINES))

    def _begin(self) -> None:
        """Make the folder of the work, or find that of an earlier attempt at the same."""
        self.files = [_stamp(path) for corpus in self.trained for path in dict.fromkeys(corpus.files)]
        plan = {"request": self.request, "files": self.files}
        beside = watched_files(self.recipe, self.validating)
        digests = [self.stop.finish(hash_files([path])) for path in beside]
        plan["beside"] = self.beside = [
            _stamp(path) | {"sha256": digest} for path, digest in zip(beside, digests, strict=True)
        ]
        known = self.work / PLAN
        if not known.is_file() or json.loads(known.read_bytes()) != plan:
            for path in self.work.iterdir():
                if path.name != LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name in (work.PARTS, work.SHARDS):
                _empty(self.work / name)
            _write_json(known, plan)

    def _validation(self) -> tuple[list[Pair], list[int]]:
        """The pairs of the validation files, each with the number of its corpus; also what must not be trained on."""
        found: list[Pair] = []
        labels: list[int] = []
        alone = self.is_text
        for number, corpus in enumerate(self.validating):
            watched = self.stop.watch(corpus, LINES)
            pairs = (pair for pair in watched if (pair.source.strip() or alone) and pair.target.strip())
            taken = list(islice(pairs, VALIDATING))
            if next(pairs, None) is not None:
                self.report("note", text=f"{corpus.name} has more than {VALIDATING:,} pairs; the first ones validate")
            found += taken
            labels += [number if len(self.validating) > 1 else 0] * len(taken)
        if self.validating and not found:
            raise DataError("the validation set is empty", where=f"in {self.validating[0].name}")
        both, either = np.empty(0, np.uint64), np.empty(0, np.uint64)
        if found and self.cleaning:
            sides = [
                examine(parts.join_lines(side)) for side in zip(*((p.source, p.target) for p in found), strict=True)
            ]
            both = np.unique(mix_pair(*sides))
        if self.recipe.data.exclude:
            hashes = [examine(parts.join_lines(texts)).near for texts in self._sentences(self.recipe.data.exclude)]
            either = np.unique(np.concatenate(hashes)) if hashes else either
        for name, content in (("pairs", both), ("sides", either)):
            bundle.write_file(self.work / f"{work.EXCLUDED}.{name}", content.tobytes())
        return found, labels

    def _sentences(self, paths: Iterable[str]) -> Iterator[list[str]]:
        """The sentences of files that must not be trained on, many at a time."""
        for path in paths:
            yield from self.stop.watch(corpora.read_sentences(path))

    # ------------------------------------------------------------------ reading

    def _read_all(self, hands: Crew, size: int, share: float) -> None:
        """Have every part read that is not there yet."""
        stage = Stage(self.report, "reading", "Reading")
        self.report("stage", text=f"Reading {self._name()}")
        for _ in self._work(hands, self._tasks(stage, size, share)):
            stage(self._done / max(1, self._size), self.pairs)
        self._gather()
        if not self.pairs:
            raise DataError("the corpus is empty", where=f"in {self._name()}", hint="try: jumok data check FILES")

    def _work(self, hands: Crew, tasks: Iterator[Task]) -> Iterator[Result]:
        """Have the tasks done; where no next one can be made, the failures of earlier ones are raised first."""
        late: JumokError | None = None
        while True:
            try:
                task = next(tasks, None)
            except JumokError as error:
                late, task = error, None
            if task is None:
                break
            yield from hands.submit(task)
        yield from hands.finish()
        if late is not None:
            raise late

    def _name(self) -> str:
        names = [corpus.name for corpus in self.trained]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def _tasks(self, stage: Stage, size: int, share: float) -> Iterator[Task]:
        """What workers have to read; parts that are there are passed over, but their text is read for its digest."""
        self._size, self._done, number = size, 0, 0
        self.index: list[tuple[int, int, int]] = []  # number, corpus and first line of every part
        for corpus_number, corpus in enumerate(self.trained):
            for task, count in self._of_corpus(corpus, corpus_number):
                line = self.pairs + 1
                self.index.append((number, corpus_number, line))
                self.pairs += count
                most = min(share, self.recipe.data.hold_out / line) if share else 0.0
                common = {"folder": str(self.work), "number": number, "rules": vars(self.rules), "share": most}
                if work.read_part(self.work / work.PARTS, number, verify=True) is None:
                    yield Task(number, task.name, {**task.values, **common}, task.buffers)
                else:
                    self.stop.check()
                    stage.skip(self._done / max(1, self._size))
                number += 1

    def _of_corpus(self, corpus: Corpus, number: int) -> Iterator[tuple[Task, int]]:
        """Tasks without numbers, and how many pairs each has."""
        if not corpus.inputs or corpus.is_text:
            for source, target, count in parts.batched(corpus.read()):
                yield Task(0, "texts", {}, (source.encode(), target.encode())), count
            digest = ""
            for path in corpus.files:  # one text
                digest = self.stop.finish(hash_files([path]))
                next(entry for entry in self.files if entry["path"] == path)["sha256"] = digest
            self.inputs.append({"corpus": number, "files": corpus.files, "digest": corpus.digest_with(digest)})
            return
        digests: list[bytes] = []
        for paths in corpus.inputs:
            first, before = self.pairs + 1, self._done
            read = self._of_columns if is_columnar(paths[0]) else self._of_lines
            for task, count, seen in read(corpus, paths, digests):
                self._done = before + seen
                yield task, count
            self._done = before + parts.size_on_disk(paths)
            self.inputs.append({"corpus": number, "files": list(paths), "first": first})
        for path, one in zip(corpus.files, digests, strict=True):
            next(entry for entry in self.files if entry["path"] == path)["sha256"] = one.hex()
        whole = digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()
        self.inputs.append({"corpus": number, "digest": corpus.digest_with(whole)})

    def _of_lines(
        self, corpus: Corpus, paths: tuple[str, ...], digests: list[bytes]
    ) -> Iterator[tuple[Task, int, int]]:
        """The same for a table of lines or two files, with the bytes that were read; digests are added at the end."""
        if len(paths) == 2:
            must_differ(*paths)
        streams = [parts.Stream(path) for path in paths]
        more: dict[str, Any] = {}
        header = len(paths) == 1 and has_header(paths[0], corpus.columns)
        if len(paths) == 1:
            more = {"first": parts.first_line(paths[0]), "columns": corpus.columns}
        for raws in parts.read_together(streams):
            told: dict[str, Any] = {"places": [[raw.path, raw.number, raw.offset] for raw in raws], **more}
            count = raws[0].content.count(b"\n") - (header and raws[0].number == 1)
            task = Task(0, "pairs" if len(raws) == 2 else "rows", told, [raw.content for raw in raws])
            yield task, count, sum(stream.tally.size for stream in streams)
        digests += [stream.tally.digest.digest() for stream in streams]

    def _of_columns(
        self, corpus: Corpus, paths: tuple[str, ...], digests: list[bytes]
    ) -> Iterator[tuple[Task, int, int]]:
        """The same for a Parquet or Arrow file, which workers read themselves."""
        from jumok.text.columnar import units

        found, size = units(paths[0]), parts.size_on_disk(paths)
        for index, unit in enumerate(found):
            told = {"path": paths[0], "unit": asdict(unit), "columns": corpus.columns}
            yield Task(0, "unit", told), unit.rows, size * index // len(found)
        digests.append(bytes.fromhex(self.stop.finish(hash_files(paths))))

    def _gather(self) -> None:
        """Count what the parts say of themselves."""
        offset = 0
        for number, corpus, first in self.index:
            told = work.read_part(self.work / work.PARTS, number)
            if told is None:
                raise DiskError(
                    "a part of what was read is gone", where=f"in {self.work}", hint="try: the same command again"
                )
            self.read.append(Read(number, corpus, first, told["kept"], offset))
            offset += told["kept"]
            self.left_out.update(told["left_out"])

    # ------------------------------------------------------------------ deciding

    def _decide(self, valid: list[Pair], labels: list[int]) -> Decision:
        """Which pairs train; those that are held out are added to `valid`."""
        stage = Stage(self.report, "deciding", "Looking for duplicates")
        decision = Decision(self.work, self.read, self.stop)
        chosen = self.recipe.data.clean
        if self.cleaning:
            if chosen.scripts:
                decision.drop_wrong_scripts()
            if chosen.duplicates or chosen.near_duplicates:
                near, exact = chosen.near_duplicates, chosen.duplicates
                decision.drop_duplicates(near=near, exact=exact, progress=stage)
        self.share = 0.0
        if not self.validating:
            self.share = held_out_share(self.recipe, self.pairs)
            for corpus, source, target in decision.hold_out(self.share):
                valid.append(Pair(source, target, len(valid) + 1))
                labels.append(corpus)
        found = decision.left_out()
        self.held = found.pop(HELD_OUT, 0)
        self.left_out.update(found)
        self._refuse_if_empty(decision.count - sum(found.values()) - self.held)
        if not valid:
            hint = "try: --valid-source and --valid-target"
            raise DataError("the validation set is empty", where=f"in {self._name()}", hint=hint)
        return decision

    def _refuse_if_empty(self, count: int) -> None:
        """Refuse to go on without a pair, and say where all went."""
        if not count and self.left_out[EMPTY] == self.pairs:
            raise DataError("there is no text", where=f"in {self._name()}", hint="try: jumok data check FILES")
        if not count:
            counts = ", ".join(f"{reason}: {count:,}" for reason, count in self.left_out.items())
            hint = "try: jumok data check FILES, or turn a rule off, such as --set data.clean.copies=false"
            raise DataError("no sentence pair is left to train on", where=counts, hint=hint)

    # ------------------------------------------------------------------ vocabulary

    def _vocabularies(self, decision: Decision) -> Vocabularies:
        """Given, found from an earlier attempt, or learnt from a sample."""
        config = self.recipe.vocabulary
        if isinstance(self.given, Vocabularies):
            self.given.save(self.work)
            return self.given
        if (self.work / "vocabularies.json").is_file():
            return Vocabularies.load(self.work, breaks=config.breaks)
        if config.kind != "byte":
            most, kind = "at most " if config.at_most else "", "joint" if config.joint else "separate"
            self.report("stage", text=f"Learning a {kind} vocabulary of {most}{config.size:,} subwords ({config.kind})")
        stage = Stage(self.report, "vocabulary", "Learning the vocabulary", unit="subwords")
        words = Counter[str](), Counter[str]()
        if not (config.kind == "byte" and config.target_kind in (None, "byte")):
            seed = key(self.recipe.seed, "vocabulary")
            words = decision.sample(
                characters=config.characters, pairs=config.sentences, seed=seed, progress=lambda s: stage(s / 10)
            )
        common: dict[str, Any] = {"size": config.size, "at_most": config.at_most, "breaks": config.breaks}
        common |= {"where": f"in {self._name()}"}

        def learn(counts: Counter[str], kind: Any, first: float, last: float) -> Vocabulary:
            steps = stage.through(Vocabulary.learn(counts, kind=kind, **common), first, last)
            return self.stop.finish(steps)

        if config.joint:
            joint = learn(words[0] + words[1], config.kind, 0.1, 1.0)
            found = Vocabularies(joint, joint)
        else:
            source = self.given or learn(words[0], config.kind, 0.1, 0.5)
            found = Vocabularies(source, learn(words[1], config.target_kind or config.kind, 0.5, 1.0))
        found.save(self.work)
        _write_json(self.work / "vocabularies.json", {"digest": found.digest})
        return found

    # ------------------------------------------------------------------ encoding and joining

    def _encode(self, hands: Crew, vocabularies: Vocabularies) -> None:
        """Have every part encoded whose shard is not there yet."""
        stage = Stage(self.report, "encoding", "Encoding")
        self.report("stage", text=f"Encoding {self.pairs:,} {'stretches' if self.is_text else 'pairs'}")
        common = {"folder": str(self.work), "digest": vocabularies.digest, "breaks": self.recipe.vocabulary.breaks}
        common |= {"filters": vars(self.filters)}
        known = self.work / "shards.json"
        told = {"vocabularies": vocabularies.digest, "share": self.share}
        if not known.is_file() or json.loads(known.read_bytes()) != told:
            _empty(self.work / work.SHARDS)
            _write_json(known, told)
        whole = {p.number for p in self.read if work.read_part(self.work / work.SHARDS, p.number, verify=True)}
        stage.skip(len(whole) / max(1, len(self.read)))
        missing = (part for part in self.read if part.number not in whole)
        tasks = (
            Task(p.number, "encode", {**common, "number": p.number, "offset": p.offset, "first": p.first})
            for p in missing
        )
        done, count = len(whole), 0
        for result in self._work(hands, tasks):
            done, count = done + 1, count + result.values["pairs"]
            stage(done / len(self.read), count)

    def _join(self, vocabularies: Vocabularies, valid: list[Pair], labels: list[int]) -> None:
        """Write the prepared folder beside its place and rename it."""
        stage = Stage(self.report, "joining", "Writing the token store")
        beside = self.place.with_name(f"{self.place.name}.partial")
        _empty(beside)
        dtype = work.id_type(vocabularies)
        joined = join.join(self.work, self.stop.watch(stage.follow(self.read)), beside)
        self.left_out.update(joined.left_out)
        self._refuse_if_empty(joined.count)
        mixed = [
            {"name": corpus.name, "share": corpus.share, "first": first, "rows": rows}
            for corpus, (first, rows) in (
                (self.trained[n], joined.corpora.get(n, (0, 0))) for n in range(len(self.trained))
            )
        ]
        left_out = {reason: count for reason, count in self.left_out.items() if count}
        meta = {
            "left_out": left_out,
            "order": "blocks",
            "corpora": [[one["first"], one["rows"], one["share"]] for one in mixed],
        }
        join.write_meta(beside, joined, dtype, meta)
        vocabularies.save(beside)
        rows = ({"source": p.source, "target": p.target, "corpus": c} for p, c in zip(valid, labels, strict=True))
        bundle.write_file(beside / VALID, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
        digests = [entry["digest"] for entry in self.inputs if "digest" in entry]
        told = {
            "format": FORMAT, "request": self.request, "files": self.files, "beside": self.beside,
            "inputs": [entry for entry in self.inputs if "first" in entry], "name": self._name(), "corpora": mixed,
            "digest": digests[0] if len(digests) == 1 else hashlib.sha256(":".join(digests).encode()).hexdigest(),
            "is_text": self.is_text, "pairs": self.pairs, "train": joined.count, "held_out": self.held,
            "share": self.share, "valid": len(valid), "left_out": left_out,
            "reasons": join.reason_names(self.filters), "vocabulary": vocabularies.digest,
        }  # fmt: skip
        _write_json(beside / PREPARED, told, indent=1, ensure_ascii=False)
        _write_json(beside / bundle.MANIFEST, joined.manifest, indent=1)
        shutil.rmtree(self.place, ignore_errors=True)
        beside.rename(self.place)
        bundle.sync(self.place.parent)
        shutil.rmtree(self.work, ignore_errors=True)


def watched_files(recipe: Recipe, validating: Sequence[Corpus]) -> list[str]:
    """Files besides the training text that a preparation depends on."""
    return [*recipe.data.exclude, *(path for corpus in validating for path in corpus.files)]


def held_out_share(recipe: Recipe, count: int) -> float:
    """The part of so many pairs that validates, where no validation text was given."""
    return min(recipe.data.hold_out / max(1, count), 0.1)


def work_folder(place: Path) -> Path:
    """The folder that holds the unfinished work of the prepared folder `place`."""
    return place.with_name(f"{place.name}.work")


def _write_json(path: Path, value: Any, **style: Any) -> None:
    bundle.write_file(path, json.dumps(value, **style).encode())


def _empty(folder: Path) -> None:
    """Make `folder` an empty folder; a process that was killed here may have left it missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _remove_leftovers(place: Path) -> None:
    """Remove the work of a preparation that was killed after its result was whole, unless it is still being removed."""
    folder = work_folder(place)
    if folder.exists():
        with suppress(UsageError, OSError), lock(folder, "the prepared data", wait=0):
            shutil.rmtree(folder, ignore_errors=True)


def _stamp(path: str) -> dict[str, Any]:
    """A file as it is now."""
    must_be_file(path)
    status = os.stat(path)
    return {"path": path, "size": status.st_size, "mtime": status.st_mtime_ns}
