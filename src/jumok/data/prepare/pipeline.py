"""Text to a prepared folder: read once, decided, counted, encoded on all cores, and joined to a token store.

    reading      workers check, tidy and sift parts of the text, and write clean text and hashes (reading.py)
    deciding     duplicates, wrong scripts and validation pairs are separated from the pairs that train
    vocabulary   words of a sample are counted, and SentencePiece learns from the counts
    encoding     workers turn the remaining text into shards of ids
    joining      the shards become one store

All of it happens in a temporary folder next to the result.  What was complete there when a preparation was killed is
used by the next one.  The result appears by a rename.  Its bytes depend on the text and the recipe, not on
the number of workers or of interruptions.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok import machine
from jumok.config.recipe import Recipe
from jumok.data import resolve
from jumok.data.corpora import Corpus, Pair, Tail
from jumok.data.prepare import join, work
from jumok.data.prepare.crew import Crew, WorkItem
from jumok.data.prepare.decide import Decision, ReadPart
from jumok.data.prepare.folder import FORMAT, PREPARED, VALID, Prepared, find_unchanged, load, make_request, stamp
from jumok.data.prepare.reading import Reader
from jumok.data.prepare.sift import EMPTY, HELD_OUT, Rules
from jumok.data.prepare.stage import Report, Stage
from jumok.data.prepare.validation import LINES, hash_others, read_validation, watching, write_excluded
from jumok.data.store import BY_BLOCKS, BY_ROWS, Filters
from jumok.disk.locks import FILE as LOCK
from jumok.disk.locks import lock
from jumok.errors import DataError, DiskError, UsageError
from jumok.keys import key
from jumok.messages import Message
from jumok.stopping import NEVER, Stop
from jumok.storage import bundle
from jumok.text.files import PACKED
from jumok.text.tables import parse_columns
from jumok.text.vocabulary import Vocabularies, Vocabulary

PLAN = "plan.json"
WORKERS = 16  # most worker processes
DISK = 2.5  # bytes of disk that a byte of text takes during preparation
LARGE = 1e9  # bytes of disk from which on the need is reported
ALONE = 2 << 20  # bytes of text below which no workers are started: starting them would take longer


def prepare(
    recipe: Recipe,
    trained: Sequence[Corpus],
    validating: Sequence[Corpus],
    target: Path,
    *,
    report: Report,
    vocabularies: Vocabularies | Vocabulary | None = None,
    stop: Stop = NEVER,
    workers: int | None = None,
) -> Prepared:
    """The prepared folder `target`; it is made unless it exists, and a preparation that was killed is resumed.

    `vocabularies` are both, or that of the source; those that are not given are learned.
    """
    others = watched_files(recipe, validating)

    def find_ready() -> Prepared | None:
        return find_unchanged(target, recipe, trained, others, vocabularies, stop=stop, report=report)

    if (ready := find_ready()) is not None:
        _remove_leftovers(target)
        return ready
    preparation = Preparation(recipe, trained, validating, target, report, vocabularies, stop)
    try:
        with lock(preparation.work, "the prepared data", note=lambda text: report("note", text=text)):
            return find_ready() or preparation.run(workers)
    except OSError as error:
        reason = error.strerror or error
        raise DiskError("data.cannot_write_prepared", reason=reason, folder=target.parent) from None


@dataclass
class Preparation:
    """One preparation, from texts to a prepared folder."""

    recipe: Recipe
    trained: Sequence[Corpus]
    validating: Sequence[Corpus]
    target: Path
    report: Report
    given: Vocabularies | Vocabulary | None
    stop: Stop

    def __post_init__(self) -> None:
        self.work, self.request = work_folder(self.target), make_request(self.recipe, self.given)
        self.is_text = any(corpus.is_text for corpus in self.trained)
        self.filters = Filters(self.recipe.data.longest, self.recipe.data.ratio, alone=self.is_text)
        self.files: list[dict[str, Any]] = []  # entries of the training files
        self.others: list[dict[str, Any]] = []  # entries of further files that the result depends on
        self.known: dict[str, str] = {}  # digests of files that were read before
        self.read: list[ReadPart] = []
        self.left_out: Counter[str] = Counter()
        self.held = 0  # pairs held out for validation
        self.share = 0.0  # of the pairs that are held out

    @property
    def cleaning(self) -> bool:
        """Whether the rules for sentences apply: not to texts, labels and generated corpora."""
        real = all(corpus.inputs for corpus in self.trained) and not self.is_text
        return real and self.recipe.vocabulary.target_kind is None

    @property
    def rules(self) -> Rules:
        chosen, real = self.recipe.data.clean, self.cleaning
        as_is = self.is_text or self.recipe.vocabulary.breaks
        return Rules(copies=real and chosen.copies, symbols=real and chosen.symbols, as_is=as_is, alone=self.is_text)

    @property
    def name(self) -> str:
        """The names of the first corpora."""
        names = [corpus.name for corpus in self.trained]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def run(self, workers: int | None) -> Prepared:
        """Run all stages; what earlier attempts have completed is used."""
        self._fetch()
        self._begin()
        self.reader = Reader(
            self.work, self.trained, self.files, self.rules, self.recipe.data.hold_out,
            share=0.0 if self.validating else 0.1, stop=self.stop, known=self.known,
        )  # fmt: skip
        size = self.reader.size
        if not size or (size < ALONE and not self._is_packed()):
            workers = 0
        elif workers is None:
            workers = min(machine.cores(), WORKERS)
        self._report_disk(size)
        valid, labels = read_validation(self.validating, alone=self.is_text, report=self.report, stop=self.stop)
        data, excluded = self.recipe.data, valid if self.cleaning else []
        columns = parse_columns(data.columns) if data.columns else None
        write_excluded(self.work, excluded, data.exclude, columns=columns, report=self.report, stop=self.stop)
        with Crew(workers, work.__name__, work.TABLE, self.stop) as crew:
            self._read_all(crew, size)
            decision = self._decide(valid, labels)
            vocabularies = self._provide_vocabularies(decision)
            self._encode(crew, vocabularies)
        self._join(vocabularies, valid, labels)
        return load(self.target, breaks=self.recipe.vocabulary.breaks)

    # ------------------------------------------------------------------ beginning

    def _is_packed(self) -> bool:
        return any(path.endswith(tuple(PACKED)) for corpus in self.trained for path in corpus.files)

    def _report_disk(self, size: int) -> None:
        """Report the disk space that a large preparation needs, as a note if it is not free."""
        needed = size * DISK * (resolve.PACKING if self._is_packed() else 1.0)
        free = shutil.disk_usage(self.work).free
        if needed > min(LARGE, free):
            text = f"Preparing takes about {needed / 1e9:.1f} GB of disk meanwhile; {free / 1e9:.1f} GB are free"
            self.report("note" if needed > free else "stage", text=text)

    def _fetch(self) -> None:
        """Fetch the files at addresses, and find the tails of texts."""
        wanted = [*self.trained, *self.validating]
        if any(corpus.addresses for corpus in wanted):
            self.report("stage", text=f"Fetching {', '.join(corpus.name for corpus in wanted if corpus.addresses)}")
            stage = Stage(self.report, "fetching", "Fetching", unit="bytes")
            for done, size in filter(None, self.stop.watch(resolve.fetch_all(wanted))):
                stage(done / (size or done or 1), done)
        for tail in dict.fromkeys(corpus.tail for corpus in wanted if corpus.tail is not None):
            tail.watch = lambda lines: self.stop.watch(lines, LINES)
            self._measure(tail)

    def _measure(self, tail: Tail) -> None:
        """Read a text to find where its tail begins."""
        size = max(1, stamp(tail.path)["size"])
        stage = Stage(self.report, "measuring", "Looking for the end of the text", unit="bytes")
        with watching(tail, lambda _: stage(tail.read / size, tail.read)):
            tail.find_start()

    def _begin(self) -> None:
        """Make the work folder, or use that of an earlier attempt with the same plan."""
        self.files = [stamp(path) for corpus in self.trained for path in dict.fromkeys(corpus.files)]
        plan: dict[str, Any] = {"request": self.request, "files": self.files}
        plan |= {"excluding": "sides"} if self.validating and self.cleaning else {}  # older work left out pairs only
        for corpus in (*self.trained, *self.validating):
            if corpus.tail is not None and (digest := corpus.tail.find_digest()) is not None:
                self.known[corpus.tail.path] = digest
        others = watched_files(self.recipe, self.validating)
        plan["beside"] = self.others = hash_others(others, self.known, report=self.report, stop=self.stop)
        known = self.work / PLAN
        if not known.is_file() or json.loads(known.read_bytes()) != plan:
            for path in self.work.iterdir():
                if path.name != LOCK:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name in (work.PARTS, work.SHARDS):
                _empty(self.work / name)
            _write_json(known, plan)

    # ------------------------------------------------------------------ reading and deciding

    def _read_all(self, crew: Crew, size: int) -> None:
        """Read every part that no earlier attempt has read."""
        stage = Stage(self.report, "reading", "Reading", line=Message("data.reading", {"corpus": self.name}))
        for _ in crew.run(self.reader.items(stage, size)):
            self.reader.report(stage, size)
        self.read, self.left_out = self.reader.collect()
        if not self.reader.pairs:
            raise DataError("data.empty_corpus", corpus=self.name)

    def _decide(self, valid: list[Pair], labels: list[int]) -> Decision:
        """Decide which pairs train; those that are held out are added to `valid`."""
        decision = Decision(self.work, self.read, self.stop)
        stage = Stage(self.report, "deciding", "Deciding which pairs train", total=decision.count)
        chosen = self.recipe.data.clean
        if self.cleaning:
            if chosen.scripts:
                decision.drop_wrong_scripts(stage.span(0.0, 0.2))
            if chosen.duplicates or chosen.near_duplicates:
                near, exact = chosen.near_duplicates, chosen.duplicates
                decision.drop_duplicates(near=near, exact=exact, progress=stage.span(0.2, 0.9))
        if not self.validating:
            self.share = held_out_share(self.recipe, self.reader.pairs)
            for corpus, source, target in decision.hold_out(self.share, stage.span(0.9, 1.0)):
                valid.append(Pair(source, target, len(valid) + 1))
                labels.append(corpus)
        counts = decision.left_out()
        self.held = counts.pop(HELD_OUT, 0)
        self.left_out.update(counts)
        self._refuse_if_empty(decision.count - sum(counts.values()) - self.held)
        if not valid:
            raise DataError("data.nothing_held_out", corpus=self.name)
        return decision

    def _refuse_if_empty(self, count: int) -> None:
        """Raise an error with the reasons if no pair is left."""
        if not count and self.left_out[EMPTY] == self.reader.pairs:
            raise DataError("data.no_text", corpus=self.name)
        if not count:
            counts = ", ".join(f"{reason}: {count:,}" for reason, count in self.left_out.items())
            raise DataError("data.all_pairs_left_out", counts=counts)

    # ------------------------------------------------------------------ vocabulary

    def _provide_vocabularies(self, decision: Decision) -> Vocabularies:
        """The vocabularies: given, completed by an earlier attempt, or learned from a sample."""
        config = self.recipe.vocabulary
        if isinstance(self.given, Vocabularies):
            self.given.save(self.work)
            return self.given
        if (self.work / "vocabularies.json").is_file():
            return Vocabularies.load(self.work, breaks=config.breaks)
        most = Message("data.at_most") if config.at_most else ""
        values = {"size": config.size, "kind": config.kind, "most": most}
        learning = Message("data.learning_joint", values) if config.joint else Message("data.learning_separate", values)
        line = None if config.kind == "byte" else learning
        stage = Stage(self.report, "vocabulary", "Learning the vocabulary", unit="subwords", line=line)
        words = Counter[str](), Counter[str]()
        if not (config.kind == "byte" and config.target_kind in (None, "byte")):
            seed = key(self.recipe.seed, "vocabulary")
            words = decision.sample(
                characters=config.characters, pairs=config.sentences, seed=seed, progress=lambda s: stage(s / 10)
            )
        common: dict[str, Any] = {"size": config.size, "at_most": config.at_most, "breaks": config.breaks}
        common |= {"where": f"in {self.name}", "folder": self.work}

        def learn(counts: Counter[str], kind: Any, first: float, last: float) -> Vocabulary:
            steps = stage.through(Vocabulary.learn(counts, kind=kind, **common), first, last)
            return self.stop.finish(steps)

        if config.joint:
            joint = learn(words[0] + words[1], config.kind, 0.1, 1.0)
            vocabularies = Vocabularies(joint, joint)
        else:
            source = self.given or learn(words[0], config.kind, 0.1, 0.5)
            vocabularies = Vocabularies(source, learn(words[1], config.target_kind or config.kind, 0.5, 1.0))
        vocabularies.save(self.work)
        _write_json(self.work / "vocabularies.json", {"digest": vocabularies.digest})
        return vocabularies

    # ------------------------------------------------------------------ encoding and joining

    def _encode(self, crew: Crew, vocabularies: Vocabularies) -> None:
        """Encode every part that no earlier attempt has encoded with these vocabularies."""
        pairs = {"count": self.reader.pairs}
        line = Message("data.encoding_segments", pairs) if self.is_text else Message("data.encoding_pairs", pairs)
        stage = Stage(self.report, "encoding", "Encoding", line=line)
        common = {"folder": str(self.work), "digest": vocabularies.digest, "breaks": self.recipe.vocabulary.breaks}
        common |= {"filters": vars(self.filters)}
        known = self.work / "shards.json"
        identity = {"vocabularies": vocabularies.digest, "share": self.share}
        if not known.is_file() or json.loads(known.read_bytes()) != identity:
            _empty(self.work / work.SHARDS)
            _write_json(known, identity)
        complete = self._find_encoded()
        stage.skip(len(complete) / max(1, len(self.read)))
        missing = (part for part in self.read if part.number not in complete)
        items = (
            WorkItem(p.number, "encode", {**common, "number": p.number, "offset": p.offset, "first": p.first})
            for p in missing
        )
        done, count = len(complete), 0
        for result in crew.run(items):
            done, count = done + 1, count + result.values["pairs"]
            stage(done / len(self.read), count)

    def _find_encoded(self) -> set[int]:
        """The numbers of the parts that an earlier attempt has encoded, and whose bytes are those that it wrote."""
        shards = self.work / work.SHARDS
        if not any(shards.glob("*.json")):
            return set()
        stage = Stage(self.report, "checking", "Checking what was encoded before", total=self.reader.pairs)
        complete = set()
        for part in self.stop.watch(stage.follow(self.read)):
            if work.read_part(shards, part.number, verify=True) is not None:
                complete.add(part.number)
        return complete

    def _join(self, vocabularies: Vocabularies, valid: list[Pair], labels: list[int]) -> None:
        """Write the prepared folder under a temporary name and rename it."""
        stage = Stage(self.report, "joining", "Writing the token store", total=self.reader.pairs)
        partial = self.target.with_name(f"{self.target.name}.partial")
        _empty(partial)
        dtype = work.id_type(vocabularies)
        joined = join.join(self.work, self.stop.watch(stage.follow(self.read)), partial)
        self.left_out.update(joined.left_out)
        self._refuse_if_empty(joined.count)
        if warning := join.warn_of_long(self.filters, joined.left_out, self.reader.pairs):
            self.report("note", text=warning)
        spans = (joined.corpora.get(number, (0, 0)) for number in range(len(self.trained)))
        mixed = [
            {"name": corpus.name, "share": corpus.share, "first": first, "rows": rows}
            for corpus, (first, rows) in zip(self.trained, spans, strict=True)
        ]
        left_out = {reason: count for reason, count in self.left_out.items() if count}
        meta = {
            "left_out": left_out,
            "order": BY_ROWS if len(mixed) > 1 else BY_BLOCKS,
            "corpora": [[corpus["first"], corpus["rows"], corpus["share"]] for corpus in mixed],
        }
        join.write_meta(partial, joined, dtype, meta)
        vocabularies.save(partial)
        rows = ({"source": p.source, "target": p.target, "corpus": c} for p, c in zip(valid, labels, strict=True))
        bundle.write_file(partial / VALID, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
        digests = self.reader.digests
        summary = {
            "format": FORMAT, "request": self.request, "files": self.files, "beside": self.others,
            "inputs": self.reader.inputs, "name": self.name, "corpora": mixed,
            "digest": digests[0] if len(digests) == 1 else hashlib.sha256(":".join(digests).encode()).hexdigest(),
            "is_text": self.is_text, "pairs": self.reader.pairs + self.reader.unfinished, "train": joined.count,
            "held_out": self.held, "share": self.share, "valid": len(valid), "left_out": left_out,
            "reasons": join.reason_names(self.filters), "vocabulary": vocabularies.digest,
        }  # fmt: skip
        _write_json(partial / PREPARED, summary, indent=1, ensure_ascii=False)
        _write_json(partial / bundle.MANIFEST, joined.manifest, indent=1)
        shutil.rmtree(self.target, ignore_errors=True)
        partial.rename(self.target)
        bundle.sync(self.target.parent)
        shutil.rmtree(self.work, ignore_errors=True)


def watched_files(recipe: Recipe, validating: Sequence[Corpus]) -> list[str]:
    """The files, apart from the training text, that a preparation depends on."""
    return [*recipe.data.exclude, *(path for corpus in validating for path in corpus.files)]


def held_out_share(recipe: Recipe, count: int) -> float:
    """The share of `count` pairs that is held out if there is no validation text."""
    return min(recipe.data.hold_out / max(1, count), 0.1)


def work_folder(target: Path) -> Path:
    """The folder of the unfinished work for the prepared folder `target`."""
    return target.with_name(f"{target.name}.work")


def _write_json(path: Path, value: Any, **style: Any) -> None:
    bundle.write_file(path, json.dumps(value, **style).encode())


def _empty(folder: Path) -> None:
    """Make `folder` an empty folder, whether it exists or not."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove the work of a preparation that was killed after its result was complete, unless it is in use."""
    folder = work_folder(target)
    if folder.exists():
        with suppress(UsageError, OSError), lock(folder, "the prepared data", wait=0):
            shutil.rmtree(folder, ignore_errors=True)
