"""The verb `jumok translate`: checks its options, reads lines, and prints or writes translations.

torch is not imported here: the fast engine starts without it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from jumok.cli.terminal import clean_arguments, dumps, forbid
from jumok.config.search import Constraints, SamplingKeywords, SearchKeywords, SearchOptions
from jumok.errors import UsageError
from jumok.messages import Message
from jumok.text.drafts import Draft
from jumok.text.lines import digest, read_lines, write_lines
from jumok.translation import Translation
from jumok.translator import Translator

CHUNK = 1_024  # lines to translate together when input does not come from a terminal


@dataclass(frozen=True, kw_only=True)
class Command:
    """What to translate, and where and in which form the translations go."""

    text: list[str] | None
    input: str | None
    output: str | None
    alternatives: int | None
    stream: bool
    resume: bool
    align: bool
    as_json: bool

    def check(self, search: SearchKeywords, constraints: Constraints) -> None:
        """Refuse options that would be ignored, before a model is loaded."""
        n_best, alternatives = search.get("n_best"), self.alternatives
        if not (search.get("sample") or search.get("mbr")):
            sampling = {name: search.get(name) for name in SamplingKeywords.__annotations__}
            forbid(Message("cli.no_sampling"), sampling)
        prefix, bound = {"prefix": constraints.prefix or None}, self._given(search, constraints)
        if self.stream:
            others = {"beam": search.get("beam"), "n_best": n_best, "json": self.as_json or None, "output": self.output}
            forbid(Message("cli.stream_is_greedy"), others | {"alternatives": alternatives} | prefix | bound)
        if alternatives is not None:
            forbid(Message("cli.alternatives_continue"), bound | {"n_best": n_best, "output": self.output})
        if self.text:
            forbid(Message("cli.sentences_given"), {"input": self.input})
        if self.resume:
            several = n_best if not self.as_json else None
            others = {"n_best": several, "alternatives": alternatives, "stream": self.stream or None}
            forbid(Message("cli.resume_continues_a_file"), others)
            if self.output is None or self.input in (None, "-"):
                raise UsageError("cli.resume_needs_files")

    def _given(self, search: SearchKeywords, constraints: Constraints) -> dict[str, Any]:
        """Other options of ordinary translations only, by name; None where one was not given."""
        return {
            "require": constraints.require or None, "forbid": constraints.forbid or None, "mbr": search.get("mbr"),
            "align": self.align or None,
        }  # fmt: skip

    def run(self, translator: Translator, options: SearchOptions, constraints: Constraints) -> None:
        """Translate sentences, a file or stdin."""
        lines, alone = source_lines(self.text, self.input)
        if self.stream:
            stream_lines(translator, lines, options)
        elif self.alternatives is not None:
            for number, line in enumerate(lines):
                prefix, count = constraints.prefix, self.alternatives
                for hypothesis in translator.alternatives(line, prefix, count=count, options=options):
                    shown = dumps(hypothesis.to_json()) if self.as_json else f"{number}\t{with_score(hypothesis)}"
                    print(shown, flush=True)
        elif self.output is not None:
            self.write(translator, lines, options, constraints)
        else:
            for line in self.show(translator, lines, options, constraints, chunk=1 if alone else CHUNK):
                print(line, flush=True)

    def show(
        self,
        translator: Translator,
        lines: Iterator[str],
        options: SearchOptions,
        constraints: Constraints,
        *,
        chunk: int = CHUNK,
        first: int = 0,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Iterator[str]:
        """Translations as lines: JSON or text; if there are several per sentence, with its number and their scores."""
        translations = translator.lines(
            lines, options=options, constraints=constraints, chunk=chunk, first=first, progress=progress,
            align=self.align, details=self.as_json,
        )  # fmt: skip
        for number, translation in enumerate(translations):
            if self.as_json:
                yield dumps(translation.to_json())
                continue
            several = options.n_best > 1
            for hypothesis in (translation, *translation.alternatives) if several else (translation,):
                links = f"\t{hypothesis.pharaoh}" if self.align else ""
                yield (f"{number}\t{with_score(hypothesis)}" if several else hypothesis.text) + links

    def write(
        self, translator: Translator, lines: Iterator[str], options: SearchOptions, constraints: Constraints
    ) -> None:
        """Write a file that appears only when it is complete; with `resume`, continue an interrupted one."""
        assert self.output is not None
        with counting() as progress:
            if not self.resume:
                write_lines(self.output, self.show(translator, lines, options, constraints, progress=progress))
                return
            draft = Draft.begin(self.output, about=self.about(translator, options, constraints), resume=True)
            progress(draft.lines)
            rest = islice(lines, draft.lines, None)
            draft.write(self.show(translator, rest, options, constraints, first=draft.lines, progress=progress))
            draft.finish()

    def about(self, translator: Translator, options: SearchOptions, constraints: Constraints) -> dict[str, Any]:
        """Everything that a translation depends on: an interrupted file is continued only if all of it is the same."""
        weights = [folder / "model.safetensors" for folder in translator.folders]
        form = {"align": self.align, "json": self.as_json, "engine": translator.engine_name}
        form["deterministic"] = translator.deterministic
        option = asdict(options) | asdict(constraints) | form
        return {"model": digest(weights), "input": digest([self.input or "-"]), "option": option}


def with_score(translation: Translation) -> str:
    """A score and its translation, as a line shows them."""
    return f"{translation.score:.4f}\t{translation.text}"


@contextmanager
def counting() -> Iterator[Callable[[int], None]]:
    """Show sentences and sentences per second on stderr if that is a terminal."""
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


def source_lines(text: list[str] | None, path: str | None) -> tuple[Iterator[str], bool]:
    """The lines to translate, and whether a person types them and waits for each translation."""
    if text:
        return iter(clean_arguments(text)), False
    typed = path in (None, "-") and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("type a sentence and press Enter; Ctrl-D ends", file=sys.stderr)
    return read_lines(path or "-"), typed


def stream_lines(translator: Translator, lines: Iterator[str], options: SearchOptions) -> None:
    """Print each translation word by word."""
    for line in lines:
        for piece in translator.stream(line, options=options):
            print(piece, end="", flush=True)
        print(flush=True)
