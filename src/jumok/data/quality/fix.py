"""Copies of text files that are fit for training, and a report of every change, for `jumok data check --fix`.

Contract: D1.  The originals are only read.  Two files stay parallel: what is wrong with one side drops the pair from
both, and nothing is ever re-aligned.  A file alone keeps its number of lines, because its partner may be elsewhere: a
line that cannot be put right is left empty.  Rows of a table that hold no pair are dropped.

What comes out is made in a folder of its own, checked as `jumok data check` would, and gets its names only then.
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

FOLDER = "fixed"  # beside the first file, unless another is named
TITLE = "What jumok data check --fix has changed"


@dataclass
class Fixed:
    """What came out: `names` in `folder`, beside the report."""

    files: list[str]
    folder: Path
    names: list[str]
    report: Path
    log: Log = field(default_factory=Log)
    read: int = 0  # pairs, or lines of a file alone
    dropped: int = 0
    sums: list[str] = field(default_factory=list)
    warnings: int = 0  # that `jumok data check` still has

    @property
    def made(self) -> list[str]:
        return [str(self.folder / name) for name in self.names]

    def drop(self, file: str, line: int, reason: str, detail: str = "") -> None:
        self.dropped += 1
        self.log.add(Change(file, line, f"pair dropped: {reason}", detail))

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [
                {"file": file, "made": made, "sha256": total}
                for file, made, total in zip(self.files, self.made, self.sums, strict=True)
            ],
            "read": self.read,
            "kept": self.read - self.dropped,
            "dropped": self.dropped,
            "counts": dict(self.log.counts.most_common()),
            "changes": [change._asdict() for change in self.log.changes],
            "warnings": self.warnings,
            "report": str(self.report),
        }

    def lines(self) -> list[str]:
        """The short report."""
        unit = "pairs" if _in_step(self.files) or all(map(is_table, self.files)) else "lines"
        kept = f"{self.read - self.dropped:,} of {self.read:,} {unit} kept"
        rows = [f"{count:>12,}  {what}" for what, count in self.log.counts.most_common()]
        return [f"{', '.join(self.files)}: {kept}", *(rows or ["              nothing had to be changed"])]

    def verdict(self) -> list[str]:
        """What there is now."""
        left = f" ({self.warnings:,} warnings are left: jumok data check says which)" if self.warnings else ""
        rows = [f"{', '.join(self.made)}: fit for training{left}", f"{self.report}: every change with its line"]
        if _in_step(self.files):
            return [*rows, str(attempt("jumok train --source", self.made[0], "--target", self.made[1]))]
        return [*rows, *(str(attempt("jumok train --table", made)) for made in self.made if is_table(made))]

    def page(self) -> Iterator[str]:
        """The whole report; the sums tell a later run which files this one has made."""
        yield from [TITLE, "", *self.lines(), ""]
        yield from (f"{total}  {made}" for total, made in zip(self.sums, self.made, strict=True))
        yield ""
        for change in sorted(self.log.changes, key=lambda change: (change.what, change.file, change.line)):
            place = f"{change.file}, line {change.line}" if change.line else change.file
            yield f"{place}: {change.what}" + f" ({change.detail})" * bool(change.detail)
        for what, count in self.log.counts.items():
            listed = sum(change.what == what for change in self.log.changes)
            if listed == LISTED < count:
                yield f"{count - listed:,} more: {what}"


def fix(files: Sequence[str], out: str | Path | None = None) -> Fixed:
    """Write repaired copies of two parallel files, tables or single texts into a folder, with a report."""
    if "-" in files:
        raise UsageError("standard input cannot be fixed", hint="try: save it to a file first, then name the file")
    if columnar := next(filter(is_columnar, files), None):
        raise UsageError("--fix repairs lines, not Parquet or Arrow", where=columnar, hint="write it as .jsonl")
    fixed = _plan(list(files), Path(out) if out is not None else Path(files[0]).parent / FOLDER)
    try:
        created = not fixed.folder.exists()
        fixed.folder.mkdir(parents=True, exist_ok=True)
        try:
            with TemporaryDirectory(prefix=".fix-", dir=fixed.folder) as name:
                _make(fixed, Path(name))
        finally:
            if created and not any(fixed.folder.iterdir()):
                fixed.folder.rmdir()
    except OSError as error:
        hint = str(attempt("ls -ld", fixed.folder))
        what = f"cannot write into {fixed.folder}: {error.strerror or error}"
        raise DiskError(what, where=str(fixed.folder), hint=hint) from error
    return fixed


def _plan(files: list[str], folder: Path) -> Fixed:
    """The names of what is to be made; none of them may be a file that is read."""
    names = [Path(file).name for file in files]
    report = f"{names[0]}.report.txt"
    if len({*names, report}) <= len(names):  # de/train.txt and en/train.txt
        names = [f"{number}-{name}" for number, name in enumerate(names, start=1)]
    fixed = Fixed(files, folder, names, folder / report)
    read = {os.path.realpath(file) for file in files}
    for goal in [*fixed.made, str(fixed.report)]:
        if os.path.realpath(goal) in read:
            what = f"{goal} would be written over, and originals are never changed"
            raise UsageError(what, where="in --out", hint="try: --out with another folder")
    if _in_step(files):
        must_differ(*files)
    return fixed


def _in_step(files: Sequence[str]) -> bool:
    """Whether these are the two sides of a parallel text."""
    return len(files) == 2 and not any(map(is_table, files))


def _make(fixed: Fixed, drafts: Path) -> None:
    """Repair into `drafts`, check what came out, then give it its names."""
    made = [str(drafts / name) for name in fixed.names]
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(path)) for path in made]
        if _in_step(fixed.files):
            for texts in _pairs(fixed):
                for write, text in zip(writers, texts, strict=True):
                    write(text)
        else:
            for file, write in zip(fixed.files, writers, strict=True):
                for text in _rows(file, fixed) if is_table(file) else _alone(file, fixed):
                    write(text)
    _must_be_fit(fixed, survey.check(made))
    fixed.sums = [digest([path]) for path in made]
    write_lines(drafts / fixed.report.name, (printable(line, len(line)) for line in fixed.page()))
    _give_names(fixed, drafts)


def _must_be_fit(fixed: Fixed, findings: Sequence[Finding]) -> None:
    if fixed.dropped == fixed.read or any(finding.kind == "no text" for finding in findings):
        reasons = [
            f"{what}: {count:,}" for what, count in fixed.log.counts.items() if re.search("dropped|emptied", what)
        ]
        raise DataError(
            f"nothing is left of {' and '.join(fixed.files)}, so nothing was written",
            where=", ".join(reasons) or f"{' and '.join(fixed.files)} say nothing",
            hint=str(attempt("jumok data check", *fixed.files)),
        )
    for finding in findings:
        if finding.severity == "error":
            raise DataError(
                f"what came out would not be fit for training, so nothing was written: {finding.problem}",
                where=f"{Path(finding.file).name}, line {finding.line}, byte {finding.byte}",
                hint=str(attempt("jumok data check", *fixed.files)),
            )
    fixed.warnings = sum(finding.count for finding in findings)


def _give_names(fixed: Fixed, drafts: Path) -> None:
    """Rename the drafts, report last; a file that is there, differs and was not made here stops all of them."""
    ours = _made_before(fixed.report)
    goals = [*map(Path, fixed.made), fixed.report]
    for goal in goals:
        new = drafts / goal.name
        if os.path.lexists(goal) and digest([goal]) not in (digest([new]), *ours):
            what = f"{goal} is there already and was not made by --fix, or was changed since"
            raise UsageError(what, where="in --out", hint="try: --out with another folder")
    for goal in goals:
        os.replace(drafts / goal.name, goal)
    sync_folder(fixed.folder)


def _made_before(report: Path) -> list[str]:
    """The sums of what an earlier run has made here, its report included."""
    try:
        text = report.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    if not text.startswith(TITLE):
        return []
    return [*re.findall(r"^[0-9a-f]{64}(?=  )", text, re.MULTILINE), digest([report])]


# ------------------------------------------------------------------------------------------ pairs, rows, lines


def _pairs(fixed: Fixed) -> Iterator[tuple[str, str]]:
    """The pairs both of whose sides are in order now."""
    source, target = fixed.files
    ours, theirs = read_repaired(source, fixed.log), read_repaired(target, fixed.log)
    lonely = ""  # the first line that is empty on one side only
    for left, right in zip_longest(ours, theirs):
        if left is None or right is None:
            _end(fixed, left, right, ours, theirs, lonely)
            return
        fixed.read += 1
        bad = next(((file, line) for file, line in ((source, left), (target, right)) if _reason(line)), None)
        if bad is None:
            fixed.log.add_line(source, left)
            fixed.log.add_line(target, right)
            yield left.text, right.text
            continue
        file, line = bad
        fixed.drop(file, line.number, _reason(line), line.detail)
        if not lonely and _reason(left) != _reason(right) and _reason(line) == "empty line":
            lonely = f"; the first line that is empty on one side only is line {line.number} of {file}"


def _reason(line: Line) -> str:
    """Why a line cannot train."""
    return line.fault or ("" if line.text else "empty line")


def _end(
    fixed: Fixed, left: Line | None, right: Line | None, ours: Iterator[Line], theirs: Iterator[Line], lonely: str
) -> None:
    """One file has a line more: an empty one is left away, anything else is refused."""
    source, target = fixed.files
    longer, last, rest = (source, left, ours) if right is None else (target, right, theirs)
    more = 1 + sum(1 for _ in rest)
    if last is not None and more == 1 and _reason(last) == "empty line":
        fixed.log.add(Change(longer, last.number, "empty last line without partner left away"))
        return
    counts = [fixed.read + more * (file == longer) for file in (source, target)]
    raise DataError(
        f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}, and no rule says which are too many",
        where=f"line {fixed.read + 1} of {longer} has no partner{lonely}",
        hint=f"try: paste {_shown(source)} {_shown(target)} | less -N, and look where they come apart",
    )


def _shown(file: str) -> str:
    """A file for the command line of bash, as text."""
    name = shlex.quote(file)
    command = PACKED.get(Path(file).suffix.lower())
    return f"<({command} -dc {name})" if command else name


def _rows(file: str, fixed: Fixed) -> Iterator[str]:
    """The rows of a table that hold a pair."""
    parse = row_parser(file)
    tsv = kind_of(file) == "tsv"
    for line in read_repaired(file, fixed.log, rule=repair_cells if tsv else repair):
        fixed.read += 1
        try:
            row = _row(line, tsv, parse)
        except BadRow as bad:
            fixed.drop(file, line.number, line.fault or "no pair", line.detail or str(bad.problem))
            continue
        fixed.log.add_line(file, row)
        yield row.text


def _row(line: Line, tsv: bool, parse: Callable[[str], tuple[str, str]]) -> Line:
    """A row with its texts put right; BadRow if it holds no pair or an empty side."""
    if line.fault:
        raise BadRow(line.fault)
    parse(line.text)
    done = list(line.done)

    def put_right(text: str) -> str:
        text, more = repair(text.replace("\n", "\u2028"))  # JSON may have a line feed inside
        done.extend(what for what in more if what not in done)
        return text

    text = line.text if tsv else change_texts(line.text, put_right)
    if not all(parse(text)):
        raise BadRow("one side is empty")
    return line._replace(text=text, done=tuple(done))


def _alone(file: str, fixed: Fixed) -> Iterator[str]:
    """All lines of a file without partner; those that cannot be put right are empty."""
    for line in read_repaired(file, fixed.log):
        fixed.read += 1
        fixed.log.add_line(file, line)
        if line.fault:
            fixed.log.add(Change(file, line.number, f"line emptied: {line.fault}", line.detail))
        yield "" if line.fault else line.text
