"""What `jumok translate` does: which options go together, where lines come from, how translations are shown and kept.

torch is not imported here: the fast engine starts without it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jumok.errors import UsageError
from jumok.shell import clean_arguments, dumps, forbid
from jumok.text.drafts import Draft
from jumok.text.lines import digest, read_lines, write_lines


@dataclass(frozen=True, kw_only=True)
class Request:
    """All that was asked for at the command line: what to translate, where to, and how."""

    text: list[str] | None
    input: str | None
    output: str | None
    search: dict[str, Any]
    draws: dict[str, Any]
    wishes: dict[str, Any]
    alternatives: int | None
    stream: bool
    resume: bool
    as_json: bool

    def run(self, load: Callable[[], Any]) -> None:
        """Check that the options go together, load the model, and translate sentences, a file or stdin."""
        self.check()
        translator = load()
        lines, alone = source_lines(self.text, self.input)
        options = self.search | self.draws
        if self.stream:
            stream_lines(translator, lines, options)
        elif self.alternatives is not None:
            prefix = self.wishes["prefix"] or ""
            print_alternatives(translator, lines, prefix, self.alternatives, options, as_json=self.as_json)
        else:
            ranked, align = (self.search["best"] or 1) > 1, bool(self.wishes["align"])
            job = Job(translator, options | self.wishes | {"details": self.as_json}, self.as_json, ranked, align)
            job.run(lines, alone=alone, source=self.input, output=self.output, resume=self.resume)

    def check(self) -> None:
        """Refuse options that would be ignored."""
        best, wishes, alternatives = self.search["best"], self.wishes, self.alternatives
        if not (self.search["sample"] or wishes["mbr"]):
            forbid("without --sample or --mbr there is nothing to draw", self.draws)
        if self.stream:
            others = {"beam": self.search["beam"], "n_best": best, "json": self.as_json or None, "output": self.output}
            why = "--stream gives out one greedy translation as it is made"
            forbid(why, others | {"alternatives": alternatives} | wishes)
        if alternatives is not None:
            others = {name: value for name, value in wishes.items() if name != "prefix"}
            forbid("--alternatives shows ways to go on", others | {"n_best": best, "output": self.output})
        if self.text:
            forbid("the sentences are given already", {"input": self.input})
        if self.resume:
            ranked = best if not self.as_json else None
            others = {"n_best": ranked, "alternatives": alternatives, "stream": self.stream or None}
            forbid("--resume goes on with a file made from a file", others)
            if self.output is None or self.input in (None, "-"):
                raise UsageError("--resume needs --input and --output files", where="in --resume")


@dataclass(frozen=True)
class Job:
    """Lines to be translated, and how the translations are shown."""

    translator: Any
    options: dict[str, Any]
    as_json: bool
    ranked: bool
    align: bool

    def run(self, lines: Iterator[str], *, alone: bool, source: str | None, output: str | None, resume: bool) -> None:
        """Translate into a file or, line by line, to stdout; `alone`: somebody waits for each line."""
        if output is not None:
            self.write(lines, source, output, resume=resume)
            return
        for line in self.shown(lines, chunk=1 if alone else 1_024):
            print(line, flush=True)

    def shown(self, lines: Iterator[str], *, chunk: int = 1_024, first: int = 0, **more: Any) -> Iterator[str]:
        made = self.translator.lines(lines, chunk=chunk, first=first, **self.options, **more)
        return printed(made, as_json=self.as_json, ranked=self.ranked, align=self.align)

    def write(self, lines: Iterator[str], source: str | None, output: str, *, resume: bool) -> None:
        """Into a file that is there whole or not at all; with `resume`, one that goes on where it was interrupted."""
        with counting() as progress:
            if not resume:
                write_lines(output, self.shown(lines, progress=progress))
                return
            draft = Draft.begin(output, about=self.about(source), resume=True)
            progress(draft.lines)
            draft.write(self.shown(islice(lines, draft.lines, None), first=draft.lines, progress=progress))
            draft.finish()

    def about(self, source: str | None) -> dict[str, Any]:
        """What a translation depends on: another of these, and a draft is not gone on with."""
        options = {name: value for name, value in self.options.items() if value is not None}
        weights = [folder / "model.safetensors" for folder in self.translator.folders]
        how = {"json": self.as_json, "engine": self.translator.engine_name}
        if self.translator.deterministic:
            how["deterministic"] = True
        return {"model": digest(weights), "input": digest([source or "-"]), "option": options | how}


def printed(translations: Iterator[Any], *, as_json: bool, ranked: bool, align: bool = False) -> Iterator[str]:
    """Translations as lines: JSON, or the text; ranked: number of the sentence, score and text of each."""
    for number, translation in enumerate(translations):
        if as_json:
            yield dumps(translation.to_json())
            continue
        for one in (translation, *translation.alternatives) if ranked else (translation,):
            links = f"\t{one.pharaoh}" if align else ""
            yield (f"{number}\t{one.score:.4f}\t" if ranked else "") + one.text + links


@contextmanager
def counting() -> Iterator[Callable[[int], None]]:
    """Count sentences, and how many a second, on a terminal's stderr; elsewhere in silence."""
    if not sys.stderr.isatty():
        yield lambda sentences: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("sentences"), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task, began, done = bar.add_task("translate", total=None, rate=""), time.perf_counter(), 0

        def advance(sentences: int) -> None:
            nonlocal done
            done += sentences
            bar.update(task, advance=sentences, rate=f"{done / (time.perf_counter() - began):,.0f}/s")

        yield advance


def print_alternatives(
    translator: Any, lines: Iterator[str], prefix: str, count: int, options: dict[str, Any], *, as_json: bool
) -> None:
    for number, line in enumerate(lines):
        for one in translator.alternatives(line, prefix, count=count, **options):
            print(dumps(one.to_json()) if as_json else f"{number}\t{one.score:.4f}\t{one.text}", flush=True)


def source_lines(text: list[str] | None, path: str | None) -> tuple[Iterator[str], bool]:
    """The lines to translate, and whether they come one by one from a person who waits for each answer."""

    if text:
        return iter(clean_arguments(text)), False
    typed = path in (None, "-") and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
    return read_lines(path or "-"), typed


def stream_lines(translator: Any, lines: Iterator[str], options: dict[str, Any]) -> None:
    for line in lines:
        for piece in translator.stream(line, **options):
            print(piece, end="", flush=True)
        print(flush=True)
