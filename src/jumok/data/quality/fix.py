"""Repaired copies of text files that are fit for training, with a report, for `jumok data check --fix`.

Contract: D1.  The originals are only read.  Two files stay parallel: a fault on one side drops the pair from both, and
nothing is ever re-aligned.  A single file keeps its number of lines, because its partner may be elsewhere: a line that
cannot be repaired becomes empty.  Rows of a table that hold no pair are dropped.

The copies are written to a temporary folder, checked as by `jumok data check`, and only then renamed.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jumok.data.quality import survey
from jumok.errors import DataError, DiskError, UsageError
from jumok.text.files import PACKED, attempt, printable
from jumok.text.lines import Finding, digest, is_table, must_differ, sync_folder, write_lines, writing
from jumok.text.repair import LISTED, Change, Line, Log, read_repaired, repair, repair_cells
from jumok.text.tables import BadRow, change_texts, is_columnar, kind_of, row_parser

FOLDER = "fixed"  # default output folder, next to the first file
TITLE = "What jumok data check --fix has changed"


@dataclass
class Repaired:
    """The repaired copies, `names` in `folder`, with counts, changes and the file of the report."""

    files: list[str]
    folder: Path
    names: list[str]
    report: Path
    log: Log = field(default_factory=Log)
    total: int = 0  # pairs that were read, or lines of single files
    dropped: int = 0
    sums: list[str] = field(default_factory=list)  # sha256 of each copy
    warnings: int = 0  # warnings of `jumok data check` about the copies

    @property
    def outputs(self) -> list[str]:
        """The paths of the copies."""
        return [str(self.folder / name) for name in self.names]

    def drop(self, file: str, line: int, reason: str, detail: str = "") -> None:
        self.dropped += 1
        self.log.add(Change(file, line, f"pair dropped: {reason}", detail))

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [
                {"file": file, "made": output, "sha256": digest}
                for file, output, digest in zip(self.files, self.outputs, self.sums, strict=True)
            ],
            "read": self.total,
            "kept": self.total - self.dropped,
            "dropped": self.dropped,
            "counts": dict(self.log.counts.most_common()),
            "changes": [change._asdict() for change in self.log.changes],
            "warnings": self.warnings,
            "report": str(self.report),
        }

    def lines(self) -> list[str]:
        """The short report."""
        unit = "pairs" if _are_parallel(self.files) or all(map(is_table, self.files)) else "lines"
        total = f"{self.total - self.dropped:,} of {self.total:,} {unit} kept"
        rows = [f"{count:>12,}  {what}" for what, count in self.log.counts.most_common()]
        return [f"{', '.join(self.files)}: {total}", *(rows or ["              nothing had to be changed"])]

    def verdict(self) -> list[str]:
        """The state of the copies, and the command that trains on them."""
        left = f" ({self.warnings:,} warnings are left: jumok data check says which)" if self.warnings else ""
        rows = [f"{', '.join(self.outputs)}: fit for training{left}", f"{self.report}: every change with its line"]
        if _are_parallel(self.files):
            return [*rows, str(attempt("jumok train --source", self.outputs[0], "--target", self.outputs[1]))]
        return [*rows, *(str(attempt("jumok train --table", table)) for table in self.outputs if is_table(table))]

    def page(self) -> Iterator[str]:
        """The complete report; by the sums, a later run recognises the files of this one."""
        yield from [TITLE, "", *self.lines(), ""]
        yield from (f"{digest}  {output}" for digest, output in zip(self.sums, self.outputs, strict=True))
        yield ""
        for change in sorted(self.log.changes, key=lambda change: (change.what, change.file, change.line)):
            position = f"{change.file}, line {change.line}" if change.line else change.file
            yield f"{position}: {change.what}" + f" ({change.detail})" * bool(change.detail)
        for what, count in self.log.counts.items():
            listed = sum(change.what == what for change in self.log.changes)
            if listed == LISTED < count:
                yield f"{count - listed:,} more: {what}"


def fix(files: Sequence[str], out: str | Path | None = None) -> Repaired:
    """Write repaired copies of two parallel files, tables or single texts into a folder, with a report."""
    if "-" in files:
        raise UsageError("data.cannot_fix_stdin")
    if columnar := next(filter(is_columnar, files), None):
        raise UsageError("data.cannot_fix_columns", file=columnar)
    fixed = _plan(list(files), Path(out) if out is not None else Path(files[0]).parent / FOLDER)
    try:
        created = not fixed.folder.exists()
        fixed.folder.mkdir(parents=True, exist_ok=True)
        try:
            with TemporaryDirectory(prefix=".fix-", dir=fixed.folder) as name:
                _write_copies(fixed, Path(name))
        finally:
            if created and not any(fixed.folder.iterdir()):
                fixed.folder.rmdir()
    except OSError as error:
        advice = attempt("ls -ld", fixed.folder)
        reason = error.strerror or error
        raise DiskError("data.cannot_write_copies", reason=reason, folder=fixed.folder, advice=advice) from error
    return fixed


def _plan(files: list[str], folder: Path) -> Repaired:
    """The names of the copies; none of them may be one of the originals."""
    names = [Path(file).name for file in files]
    report = f"{names[0]}.report.txt"
    if len({*names, report}) <= len(names):  # de/train.txt and en/train.txt
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    fixed = Repaired(files, folder, names, folder / report)
    originals = {os.path.realpath(file) for file in files}
    for goal in [*fixed.outputs, str(fixed.report)]:
        if os.path.realpath(goal) in originals:
            raise UsageError("data.would_replace_original", file=goal)
    if _are_parallel(files):
        must_differ(*files)
    return fixed


def _are_parallel(files: Sequence[str]) -> bool:
    """Whether these are the two sides of a parallel text."""
    return len(files) == 2 and not any(map(is_table, files))


def _write_copies(fixed: Repaired, drafts: Path) -> None:
    """Write the copies to `drafts`, check them, and rename them."""
    copies = [str(drafts / name) for name in fixed.names]
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(path)) for path in copies]
        if _are_parallel(fixed.files):
            for texts in _repair_pairs(fixed):
                for write, text in zip(writers, texts, strict=True):
                    write(text)
        else:
            for file, write in zip(fixed.files, writers, strict=True):
                for text in _repair_table(file, fixed) if is_table(file) else _repair_lines(file, fixed):
                    write(text)
    _check_copies(fixed, survey.check(copies))
    fixed.sums = [digest([path]) for path in copies]
    write_lines(drafts / fixed.report.name, (printable(line, len(line)) for line in fixed.page()))
    _rename(fixed, drafts)


def _check_copies(fixed: Repaired, findings: Sequence[Finding]) -> None:
    """Refuse copies that are empty or still have errors; count their warnings."""
    files, advice = " and ".join(fixed.files), attempt("jumok data check", *fixed.files)
    if fixed.dropped == fixed.total or any(finding.kind == "no text" for finding in findings):
        counts = fixed.log.counts.items()
        reasons = ", ".join(f"{what}: {count:,}" for what, count in counts if re.search("dropped|emptied", what))
        if not reasons:
            raise DataError("data.nothing_to_fix", files=files, advice=advice)
        raise DataError("data.nothing_left", files=files, reasons=reasons, advice=advice)
    for finding in findings:
        if finding.severity == "error":
            raise DataError(
                "data.copies_not_fit", problem=finding.problem, file=Path(finding.file).name, line=finding.line,
                byte=finding.byte, advice=advice,
            )  # fmt: skip
    fixed.warnings = sum(finding.count for finding in findings)


def _rename(fixed: Repaired, drafts: Path) -> None:
    """Rename the drafts, the report last, unless that would replace a file that --fix has not written."""
    ours = _read_sums(fixed.report)
    goals = [*map(Path, fixed.outputs), fixed.report]
    for goal in goals:
        new = drafts / goal.name
        if os.path.lexists(goal) and digest([goal]) not in (digest([new]), *ours):
            raise UsageError("data.would_replace_file", file=goal)
    for goal in goals:
        os.replace(drafts / goal.name, goal)
    sync_folder(fixed.folder)


def _read_sums(report: Path) -> list[str]:
    """The sums of the files that an earlier run has written here, its report included."""
    try:
        text = report.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    if not text.startswith(TITLE):
        return []
    return [*re.findall(r"^[0-9a-f]{64}(?=  )", text, re.MULTILINE), digest([report])]


# ------------------------------------------------------------------------------------------ pairs, rows, lines


def _repair_pairs(fixed: Repaired) -> Iterator[tuple[str, str]]:
    """The pairs whose sides are both fit after repair."""
    source, target = fixed.files
    ours, theirs = read_repaired(source, fixed.log), read_repaired(target, fixed.log)
    lonely: tuple[int, str] | None = None  # the first line that is empty on one side only, and its file
    for left, right in zip_longest(ours, theirs):
        if left is None or right is None:
            _end_pairs(fixed, left, right, ours, theirs, lonely)
            return
        fixed.total += 1
        bad = next(((file, line) for file, line in ((source, left), (target, right)) if _reason(line)), None)
        if bad is None:
            fixed.log.add_line(source, left)
            fixed.log.add_line(target, right)
            yield left.text, right.text
            continue
        file, line = bad
        fixed.drop(file, line.number, _reason(line), line.detail)
        if lonely is None and _reason(left) != _reason(right) and _reason(line) == "empty line":
            lonely = line.number, file


def _reason(line: Line) -> str:
    """The reason why a line is not fit for training."""
    return line.fault or ("" if line.text else "empty line")


def _end_pairs(
    fixed: Repaired,
    left: Line | None,
    right: Line | None,
    ours: Iterator[Line],
    theirs: Iterator[Line],
    lonely: tuple[int, str] | None,
) -> None:
    """Handle the rest of the longer file: a single empty line is dropped, anything else is refused."""
    source, target = fixed.files
    longer, last, rest = (source, left, ours) if right is None else (target, right, theirs)
    more = 1 + sum(1 for _ in rest)
    if last is not None and more == 1 and _reason(last) == "empty line":
        fixed.log.add(Change(longer, last.number, "empty last line without partner left away"))
        return
    values: dict[str, Any] = {
        "source": source, "source_lines": fixed.total + more * (longer == source), "source_text": _quote(source),
        "target": target, "target_lines": fixed.total + more * (longer == target), "target_text": _quote(target),
        "line": fixed.total + 1, "longer": longer,
    }  # fmt: skip
    if lonely is None:
        raise DataError("data.unequal_files", **values)
    raise DataError("data.unequal_files_with_gap", gap=lonely[0], gap_file=lonely[1], **values)


def _quote(file: str) -> str:
    """A file as an argument of a bash command that reads text; packed files are unpacked on the way."""
    name = shlex.quote(file)
    command = PACKED.get(Path(file).suffix.lower())
    return f"<({command} -dc {name})" if command else name


def _repair_table(file: str, fixed: Repaired) -> Iterator[str]:
    """The repaired rows of a table that hold a pair."""
    parse = row_parser(file)
    tsv = kind_of(file) == "tsv"
    for line in read_repaired(file, fixed.log, rule=repair_cells if tsv else repair):
        fixed.total += 1
        try:
            row = _repair_row(line, tsv, parse)
        except BadRow as bad:
            fixed.drop(file, line.number, line.fault or "no pair", line.detail or str(bad.problem))
            continue
        fixed.log.add_line(file, row)
        yield row.text


def _repair_row(line: Line, tsv: bool, parse: Callable[[str], tuple[str, str]]) -> Line:
    """A row with its texts repaired; BadRow if it holds no pair or an empty side."""
    if line.fault:
        raise BadRow(line.fault)
    parse(line.text)
    done = list(line.done)

    def repair_text(text: str) -> str:
        text, more = repair(text.replace("\n", "\u2028"))  # a JSON text may contain line feeds
        done.extend(what for what in more if what not in done)
        return text

    text = line.text if tsv else change_texts(line.text, repair_text)
    if not all(parse(text)):
        raise BadRow("one side is empty")
    return line._replace(text=text, done=tuple(done))


def _repair_lines(file: str, fixed: Repaired) -> Iterator[str]:
    """All lines of a single file; those that cannot be repaired are empty."""
    for line in read_repaired(file, fixed.log):
        fixed.total += 1
        fixed.log.add_line(file, line)
        if line.fault:
            fixed.log.add(Change(file, line.number, f"line emptied: {line.fault}", line.detail))
        yield "" if line.fault else line.text
