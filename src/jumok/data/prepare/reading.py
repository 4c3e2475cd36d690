"""Reading: the training text as items of work, one for each part, with the digests of its files on the way.

Parts that an earlier attempt has read are skipped, but their text is still read for the digests.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jumok.data.corpora import Corpus
from jumok.data.prepare import parts, work
from jumok.data.prepare.crew import WorkItem
from jumok.data.prepare.decide import ReadPart
from jumok.data.prepare.sift import UNFINISHED, Rules
from jumok.data.prepare.stage import Stage
from jumok.errors import DiskError
from jumok.stopping import Stop
from jumok.text.lines import hash_files, must_differ
from jumok.text.tables import has_header, is_columnar


@dataclass
class Reader:
    """The training text of a preparation, divided into parts; `pairs` counts the pairs that were read."""

    work: Path
    trained: Sequence[Corpus]
    files: list[dict[str, Any]]  # entries of the files, to which their digests are added
    rules: Rules
    hold_out: int  # validation pairs to hold out
    share: float  # largest share of the pairs that may be held out; 0 if there is a validation text
    stop: Stop
    known: dict[str, str] = field(default_factory=dict)  # digests of files that were read before
    pairs: int = 0
    unfinished: int = 0  # last lines of tables that were cut off, which are left out
    inputs: list[dict[str, Any]] = field(default_factory=list)  # files of each corpus with their first lines
    digests: list[str] = field(default_factory=list)  # of each corpus
    _index: list[tuple[int, int, int]] = field(default_factory=list)  # number, corpus and first line of each part
    _bytes: int = 0  # bytes of the files that were read

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return parts.size_on_disk(path for corpus in self.trained for path in corpus.files)

    def report(self, stage: Stage, size: int) -> None:
        """Report the progress, of files of `size` bytes in all."""
        stage(self._bytes / max(1, size), self.pairs)

    def items(self, stage: Stage, size: int) -> Iterator[WorkItem]:
        """One item of work for each part that no earlier attempt has read."""
        number = 0
        for corpus_number, corpus in enumerate(self.trained):
            for item, count in self._divide(corpus, corpus_number):
                line = self.pairs + 1
                self._index.append((number, corpus_number, line))
                self.pairs += count
                most = min(self.share, self.hold_out / line) if self.share else 0.0
                common = {"folder": str(self.work), "number": number, "rules": vars(self.rules), "share": most}
                if work.read_part(self.work / work.PARTS, number, verify=True) is None:
                    yield WorkItem(number, item.name, {**item.values, **common}, item.buffers)
                else:
                    self.stop.check()
                    stage.skip(self._bytes / max(1, size), self.pairs)
                number += 1

    def collect(self) -> tuple[list[ReadPart], Counter[str]]:
        """All parts that were read, and the number of pairs that were left out, by reason."""
        read: list[ReadPart] = []
        left_out = Counter({UNFINISHED: self.unfinished} if self.unfinished else {})
        offset = 0
        for number, corpus, first in self._index:
            summary = work.read_part(self.work / work.PARTS, number)
            if summary is None:
                raise DiskError("data.part_missing", folder=self.work)
            read.append(ReadPart(number, corpus, first, summary["kept"], offset))
            offset += summary["kept"]
            left_out.update(summary["left_out"])
        return read, left_out

    def _divide(self, corpus: Corpus, number: int) -> Iterator[tuple[WorkItem, int]]:
        """Items without numbers, and the number of pairs of each."""
        if not corpus.inputs or corpus.is_text:
            yield from self._divide_texts(corpus)
            return
        digests: list[bytes] = []
        for paths in corpus.inputs:
            first, before = self.pairs + 1, self._bytes
            divide = self._divide_columns if is_columnar(paths[0]) else self._divide_lines
            for item, count, seen in divide(corpus, paths, digests):
                self._bytes = before + seen
                yield item, count
            self._bytes = before + parts.size_on_disk(paths)
            self.inputs.append({"corpus": number, "files": list(paths), "first": first})
        for path, raw in zip(corpus.files, digests, strict=True):
            self._add_digest(path, raw.hex())
        whole = digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()
        self.digests.append(corpus.digest_with(whole))

    def _divide_texts(self, corpus: Corpus) -> Iterator[tuple[WorkItem, int]]:
        """Items of a text, or of a corpus that has no files."""
        before = self._bytes
        for source, target, count in parts.batched(corpus.read()):
            buffers = source.encode(), target.encode()
            self._bytes += sum(map(len, buffers))
            yield WorkItem(0, "texts", {}, buffers), count
        digest = ""
        for path in corpus.files:  # one text
            digest = self.known.get(path) or self.stop.finish(hash_files([path]))
            self._add_digest(path, digest)
        self._bytes = before + parts.size_on_disk(corpus.files)
        self.digests.append(corpus.digest_with(digest))

    def _add_digest(self, path: str, digest: str) -> None:
        next(entry for entry in self.files if entry["path"] == path)["sha256"] = digest

    def _divide_lines(
        self, corpus: Corpus, paths: tuple[str, ...], digests: list[bytes]
    ) -> Iterator[tuple[WorkItem, int, int]]:
        """Items of a table of lines or of two parallel files, with the bytes that were read; adds the digests."""
        if len(paths) == 2:
            must_differ(*paths)
        streams = [parts.Stream(path) for path in paths]
        more: dict[str, Any] = {}
        header = len(paths) == 1 and has_header(paths[0], corpus.columns)
        if len(paths) == 1:
            more = {"first": parts.first_line(paths[0]), "columns": corpus.columns}
        for raws in parts.read_together(streams):
            values: dict[str, Any] = {"origins": [[raw.path, raw.number, raw.offset] for raw in raws], **more}
            count = raws[0].content.count(b"\n") - (header and raws[0].number == 1)
            item = WorkItem(0, "pairs" if len(raws) == 2 else "rows", values, [raw.content for raw in raws])
            yield item, count, sum(stream.tally.size for stream in streams)
        self.unfinished += sum(stream.unfinished for stream in streams)
        digests += [stream.tally.digest.digest() for stream in streams]

    def _divide_columns(
        self, corpus: Corpus, paths: tuple[str, ...], digests: list[bytes]
    ) -> Iterator[tuple[WorkItem, int, int]]:
        """Items of a Parquet or Arrow file, which the workers read themselves; adds the digest."""
        from jumok.text.columnar import units

        listed, size = units(paths[0]), parts.size_on_disk(paths)
        hashing, hashed = hash_files(paths), 0
        for index, unit in enumerate(listed):
            values = {"path": paths[0], "unit": asdict(unit), "columns": corpus.columns}
            yield WorkItem(0, "unit", values), unit.rows, size * index // len(listed)
            while hashed < size * (index + 1) // len(listed):  # the bytes that the workers read at the same time
                self.stop.check()
                if not (part := next(hashing, 0)):
                    break
                hashed += part
        digests.append(bytes.fromhex(self.stop.finish(hashing)))
