"""The verb `jumok translate`: checks its options, reads lines, and prints or writes translations.

Other verbs load a model, read sentences and refuse options as it does.  What is imported here is light, because
`jumok --help` imports it, too: a model is loaded with the translator.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from jumok.cli.options import (
    Beam,
    Deterministic,
    Device,
    Engine,
    File,
    Json,
    LengthPenalty,
    ModelPath,
    Precision,
    Shortlist,
    Words,
    argument,
    flag,
    option,
)
from jumok.cli.terminal import check_device, dumps, print_aside
from jumok.config.search import SAMPLING, Constraints, EngineOptions, SearchOptions
from jumok.errors import DataError, MissingPackage, UsageError
from jumok.extras import hint, is_installed
from jumok.messages import Message
from jumok.translation import Translation

if TYPE_CHECKING:
    from jumok.config.keywords import EngineKeywords, SearchKeywords
    from jumok.translator import Translator

CHUNK = 1_024  # lines that are translated together, unless a person waits for each


def translate(
    model: ModelPath,
    text: Annotated[list[str] | None, argument("help.translate_text")] = None,
    input: Annotated[File, option("FILE", "help.input", "--input", "-i")] = None,
    output: Annotated[File, option("FILE", "help.output", "--output", "-o")] = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    n_best: Annotated[int | None, option("N", "help.n_best")] = None,
    sample: Annotated[bool, flag("--sample", "help.sample")] = False,
    temperature: Annotated[float | None, option("T", "help.temperature")] = None,
    top_k: Annotated[int | None, option("K", "help.top_k")] = None,
    top_p: Annotated[float | None, option("P", "help.top_p")] = None,
    seed: Annotated[int | None, option("N", "help.seed")] = None,
    others: Annotated[Words, option("MODEL", "help.with", "--with")] = None,
    mbr: Annotated[int | None, option("N", "help.mbr")] = None,
    prefix: Annotated[str | None, option("TEXT", "help.prefix")] = None,
    require: Annotated[Words, option("WORD", "help.require")] = None,
    forbid_words: Annotated[Words, option("WORD", "help.forbid", "--forbid")] = None,
    alternatives: Annotated[int | None, option("N", "help.alternatives")] = None,
    min_length: Annotated[int | None, option("N", "help.min_length")] = None,
    no_repeat: Annotated[int | None, option("N", "help.no_repeat")] = None,
    groups: Annotated[int | None, option("N", "help.groups")] = None,
    diversity: Annotated[float | None, option("D", "help.diversity")] = None,
    coverage: Annotated[float | None, option("B", "help.coverage")] = None,
    align: Annotated[bool, flag("--align", "help.align")] = False,
    stream: Annotated[bool, flag("--stream", "help.stream")] = False,
    resume: Annotated[bool, flag("--resume", "help.resume")] = False,
    engine: Engine = "auto",
    precision: Precision = None,
    shortlist: Shortlist = False,
    deterministic: Deterministic = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    command = Command(
        text=text, input=input, output=output, prefix=prefix, require=require, forbid=forbid_words,
        alternatives=alternatives, stream=stream, resume=resume, align=align, as_json=as_json,
    )  # fmt: skip
    search: SearchKeywords = {
        "beam": beam, "length_penalty": length_penalty, "n_best": n_best, "min_length": min_length,
        "no_repeat": no_repeat, "groups": groups, "diversity": diversity, "coverage": coverage, "sample": sample,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "mbr": mbr,
    }  # fmt: skip
    command.check(search)
    translator = load_translator(
        model, others=others or (), device=device, engine=engine, precision=precision, shortlist=shortlist,
        deterministic=deterministic,
    )  # fmt: skip
    command.run(translator, translator.options(**search))


def load_translator(path: str, *, others: Sequence[str] = (), **choices: "Unpack[EngineKeywords]") -> "Translator":
    """Load the translator of a model; torch is loaded to check a device only where it is needed anyway."""
    gc.disable()  # hardly anything of what is imported is ever garbage
    try:
        from jumok.translator import Translator

        if (device := choices.get("device", "cpu")) != "cpu":
            check_device(device)
        return Translator.load(path, others=others, say=print_aside, options=EngineOptions(**choices))
    finally:
        gc.enable()


def clean_arguments(texts: list[str]) -> list[str]:
    """Return sentences from the command line, which must be UTF-8."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" for character in text):
            escaped = text.encode("utf-8", "backslashreplace").decode()
            raise DataError("cli.sentence_not_utf8", sentence=escaped)
    return texts


def forbid(reason: Message, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored, by name; None where an option was not given."""
    for name, value in options.items():
        if value is not None:
            raise UsageError("cli.does_not_fit", option=f"--{name.replace('_', '-')}", reason=reason)


@dataclass(frozen=True, kw_only=True)
class Command:
    """The options of `jumok translate`: its input, and the destination and form of the translations."""

    text: list[str] | None
    input: str | None
    output: str | None
    prefix: str | None
    require: list[str] | None
    forbid: list[str] | None
    alternatives: int | None
    stream: bool
    resume: bool
    align: bool
    as_json: bool

    @property
    def constraints(self) -> Constraints:
        """What translations must and must not contain."""
        return Constraints(self.prefix or "", tuple(self.require or ()), tuple(self.forbid or ()))

    def check(self, search: "SearchKeywords") -> None:
        """Refuse options that would be ignored; a model need not be loaded for that."""
        n_best, alternatives = search.get("n_best"), self.alternatives
        self._check_torch()
        if not (search.get("sample") or search.get("mbr")):
            sampling = {name: search.get(name) for name in SAMPLING}
            forbid(Message("cli.no_sampling"), sampling)
        prefix, bound = {"prefix": self.prefix or None}, self._list_given(search)
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

    def _check_torch(self) -> None:
        """Refuse what only the torch engine does, where torch is not installed."""
        if self.stream and not is_installed("torch"):
            raise MissingPackage("cli.option_needs_torch", option="--stream", advice=hint("torch"))

    def _list_given(self, search: "SearchKeywords") -> dict[str, Any]:
        """Return the other options that only an ordinary translation takes, by name; None where one is not given."""
        return {
            "require": self.require or None, "forbid": self.forbid or None, "mbr": search.get("mbr"),
            "align": self.align or None,
        }  # fmt: skip

    def run(self, translator: "Translator", options: SearchOptions) -> None:
        """Translate sentences, a file or stdin."""
        lines, alone = read_source(self.text, self.input)
        if self.stream:
            stream_lines(translator, lines, options)
        elif self.alternatives is not None:
            for number, line in enumerate(lines):
                prefix, count = self.prefix or "", self.alternatives
                for other in translator.alternatives(line, prefix, count=count, options=options):
                    plain = f"{number}\t{format_with_score(other)}"
                    print(dumps(other.to_json()) if self.as_json else plain, flush=True)
        elif self.output is not None:
            self.write(translator, lines, options)
        else:
            for line in self.show(translator, lines, options, chunk=1 if alone else CHUNK):
                print(line, flush=True)

    def show(
        self,
        translator: "Translator",
        lines: Iterator[str],
        options: SearchOptions,
        *,
        chunk: int = CHUNK,
        first: int = 0,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Iterator[str]:
        """Yield translations as lines: JSON, or the text; several of a sentence with its number and their scores."""
        translations = translator.lines(
            lines, options=options, constraints=self.constraints, chunk=chunk, first=first, progress=progress,
            align=self.align, details=self.as_json,
        )  # fmt: skip
        for number, translation in enumerate(translations):
            if self.as_json:
                yield dumps(translation.to_json())
                continue
            several = options.n_best > 1
            for each in (translation, *translation.alternatives) if several else (translation,):
                links = f"\t{each.pharaoh}" if self.align else ""
                yield (f"{number}\t{format_with_score(each)}" if several else each.text) + links

    def write(self, translator: "Translator", lines: Iterator[str], options: SearchOptions) -> None:
        """Write a file, complete or not at all; with `resume`, continue one that was interrupted."""
        from jumok.text.drafts import Draft
        from jumok.text.lines import write_lines

        assert self.output is not None
        with counting() as progress:
            if not self.resume:
                write_lines(self.output, self.show(translator, lines, options, progress=progress))
                return
            draft = Draft.begin(self.output, about=self.describe_input(translator, options), resume=True)
            progress(draft.lines)
            rest = islice(lines, draft.lines, None)
            draft.write(self.show(translator, rest, options, first=draft.lines, progress=progress))
            draft.finish()

    def describe_input(self, translator: "Translator", options: SearchOptions) -> dict[str, Any]:
        """Return all that the translations depend on: a draft made with other values is not continued."""
        from jumok.storage.bundle import WEIGHTS
        from jumok.text.lines import digest

        weights = [folder / WEIGHTS for folder in translator.folders]
        how = {"align": self.align, "json": self.as_json, "engine": translator.engine_name}
        how["deterministic"] = translator.deterministic
        option = asdict(options) | asdict(self.constraints) | how
        return {"model": digest(weights), "input": digest([self.input or "-"]), "option": option}


def format_with_score(translation: Translation) -> str:
    """Return a line with a translation after its score."""
    return f"{translation.score:.4f}\t{translation.text}"


@contextmanager
def counting() -> Iterator[Callable[[int], None]]:
    """Count sentences, and how many per second, on stderr if it is a terminal."""
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


def read_source(text: list[str] | None, path: str | None) -> tuple[Iterator[str], bool]:
    """Return the lines to translate, and whether a person types them and waits for each answer."""
    if text:
        return iter(clean_arguments(text)), False
    from jumok.text.lines import read_lines

    typed = path in (None, "-") and sys.stdin is not None and sys.stdin.isatty()
    if typed:
        print("type a sentence and press Enter; Ctrl-D ends", file=sys.stderr)
    return read_lines(path or "-"), typed


def stream_lines(translator: "Translator", lines: Iterator[str], options: SearchOptions) -> None:
    """Print the translation of each line piece by piece."""
    for line in lines:
        for piece in translator.stream(line, options=options):
            print(piece, end="", flush=True)
        print(flush=True)
