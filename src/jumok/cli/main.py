"""The command line: text goes in by argument, file or stdin; results go to stdout, progress to stderr.

Verbs are short: they turn options into calls.  torch is imported inside them, so that --help is instant.
"""

import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated

import typer
from typer.models import CommandInfo, TyperInfo

import jumok
from jumok import messages
from jumok.cli import examples, failures, inside, looking_back, serve, studio, verbs
from jumok.cli.language import take_language
from jumok.cli.models import model_app
from jumok.cli.options import (
    SETTINGS,
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
    argument,
    flag,
    option,
    verb,
)
from jumok.cli.terminal import (
    dumps,
    measure_width,
    split_chunks,
    to_index,
    watching,
)
from jumok.cli.train import train
from jumok.cli.translate import clean_arguments, counting, load_translator, translate
from jumok.cli.verbs import bench_app, data_app, export_app
from jumok.errors import MissingPackage, Resumable, UnknownName
from jumok.extras import hint, is_installed

app = typer.Typer(
    name="jumok",
    help=messages.text("help.jumok"),
    epilog=messages.text("help.jumok_epilog"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
app.add_typer(export_app, name="export")
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")
app.add_typer(model_app, name="model")
app.command(**verb("help.serve"))(serve.serve)
app.add_typer(serve.key_app, name="serve key")
app.command(**verb("help.studio"))(studio.studio)


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        print(f"jumok {jumok.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help=messages.text("help.version"), is_eager=True, callback=show_version)
]
Spoken = Annotated[str | None, option("LANGUAGE", "help.lang")]  # read by take_language before typer runs


@app.callback()
def top(version: Version = False, lang: Spoken = None) -> None:
    """Options before the verb."""


@app.command(**verb("help.demo"))
def demo(
    out: Annotated[Path, option("FOLDER", "help.run_out")] = Path("runs/demo"),
    minutes: Annotated[float | None, option("MINUTES", "help.demo_minutes")] = None,
) -> None:
    from jumok.demo import run

    with watching() as (sinks, stop):
        report = run(out, minutes=minutes, sinks=sinks, stop=stop)
    print("\n".join(report.lines()))
    print(report.drawing(width=min(100, measure_width()), color=sys.stdout.isatty()))


app.command(**verb("help.train"))(train)


@app.command(**verb("help.distill"))
def distill(
    model: ModelPath,
    out: Annotated[Path | None, option("FOLDER", "help.distill_out")] = None,
    minutes: Annotated[float | None, option("MINUTES", "help.distill_minutes")] = None,
    encoder_layers: Annotated[int | None, option("N", "help.distill_encoder_layers")] = None,
    decoder_layers: Annotated[int, option("N", "help.distill_decoder_layers")] = 2,
    source: Annotated[File, option("FILE", "help.distill_source")] = None,
    target: Annotated[File, option("FILE", "help.target")] = None,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "help.distill_set", "--set")] = None,
) -> None:
    from jumok import distillation, machine
    from jumok.config.recipe import parse_assignment

    with watching() as (sinks, stop):
        changes = dict(map(parse_assignment, set_ or []))
        run = distillation.distill(
            model, distillation.Student(encoder_layers, decoder_layers, minutes, changes), out=out, source=source,
            target=target, sinks=sinks, stop=stop, began=machine.process_began(),
        )  # fmt: skip
    print(run.folder)


app.command(**verb("help.translate"))(translate)


@app.command(**verb("help.score"))
def score(
    model: ModelPath,
    source: Annotated[str, option("FILE", "help.score_source")],
    target: Annotated[str, option("FILE", "help.score_target")],
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    from jumok.text.lines import read_pairs

    translator = load_translator(model, device=device)
    for chunk in split_chunks(read_pairs(source, target), 1_024):
        for scored in translator.score([s for s, _ in chunk], [t for _, t in chunk]):
            print(dumps(scored.to_json()) if as_json else f"{scored.log_probability:.4f}\t{scored.score:.4f}")


@app.command(**verb("help.evaluate"))
def evaluate(
    model: ModelPath,
    source: Annotated[File, option("FILE", "help.evaluate_source")] = None,
    target: Annotated[File, option("FILE", "help.references")] = None,
    table: Annotated[File, option("FILE", "help.valid_table")] = None,
    compare: Annotated[File, option("FILE", "help.evaluate_compare")] = None,
    output: Annotated[File, option("FILE", "help.evaluate_output", "--output", "-o")] = None,
    tokenize: Annotated[str, option("NAME", "help.evaluate_tokenize")] = "auto",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    ter: Annotated[bool, flag("--ter", "help.evaluate_ter")] = False,
    perplexity: Annotated[bool, flag("--perplexity", "help.evaluate_perplexity")] = False,
    engine: Engine = "auto",
    precision: Precision = None,
    shortlist: Shortlist = False,
    deterministic: Deterministic = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    from jumok.data.corpora import read_test_set
    from jumok.evaluation.evaluate import evaluate as run
    from jumok.text.lines import write_lines

    if perplexity and not is_installed("torch"):
        raise MissingPackage("cli.perplexity_needs_torch", advice=hint("torch"))
    translator = load_translator(
        model, device=device, engine=engine, precision=precision, shortlist=shortlist, deterministic=deterministic
    )
    with counting() as progress:
        result = run(
            translator, read_test_set(source, target, table), tokenize=tokenize, compare=compare, ter=ter,
            perplexity=perplexity, progress=progress, beam=beam, length_penalty=length_penalty,
        )  # fmt: skip
    if output is not None:
        write_lines(output, result.hypotheses)
    print(dumps(result.to_json()) if as_json else "\n".join(result.lines()))


@app.command(**verb("help.look"))
def look(
    model: ModelPath,
    text: Annotated[str, argument("help.look_text")],
    translation: Annotated[str | None, option("TEXT", "help.look_translation")] = None,
    kind: Annotated[str, option("KIND", "help.look_kind")] = "cross",
    layer: Annotated[int | None, option("N", "help.look_layer")] = None,
    head: Annotated[int | None, option("N", "help.look_head")] = None,
    html: Annotated[File, option("FILE", "help.look_html")] = None,
    lang: Annotated[str | None, option("LANGUAGE", "help.look_lang")] = None,
    device: Device = "cpu",
) -> None:
    from jumok.reports.attention import attention_page, find_parts, terminal
    from jumok.text.lines import write_lines

    [text] = clean_arguments([text])
    view = load_translator(model, device=device).attention(text, translation)
    if kind not in view.kinds:
        raise UnknownName("cli.unknown_kind_of_attention", kind, view.kinds)
    layers, heads = getattr(view, kind).shape[:2]
    chosen = {"layer": to_index(layer, layers, "layer"), "head": to_index(head, heads, "head")}
    print(terminal(view, kind, **chosen, width=measure_width(), color=sys.stdout.isatty()))
    print(f"{view.text} → {view.translation}")
    if html is not None:
        page = attention_page([view], title=view.text, language=lang or messages.spoken())
        write_lines(html, page.removesuffix("\n").split("\n"))
        print(messages.text("cli.written", file=html), file=sys.stderr)
        if find_parts() is None:
            print(messages.text("cli.simple_page"), file=sys.stderr)


app.command(**verb("help.inside"))(inside.inside)
app.command(**verb("help.film"))(looking_back.film)
app.command(**verb("help.errors"))(looking_back.errors)
app.command(**verb("help.race"))(verbs.race)
app.command(**verb("help.lab"))(verbs.lab)
app.command(**verb("help.example"))(examples.example)
app.command(**verb("help.generate"))(verbs.generate)
app.command(**verb("help.fill"))(verbs.fill)


app.command(**verb("help.doctor"))(verbs.doctor)


def main() -> None:
    """Run the command line; an error that the user can repair is three lines and an exit code."""
    atexit.register(gc.freeze)  # collecting the objects of torch at exit would take a second
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # a thread that waits for a busy core must not stall the others
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # in every locale
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    exit_with(code)


def run() -> int:
    """Run the verb that the arguments name; returns its exit code and prints its errors."""
    try:
        given, _ = take_language(sys.argv[1:], os.environ)  # cli/__init__.py has chosen it
        arguments = join_words(given)
        result = select_verbs(arguments)(args=arguments, prog_name="jumok", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SystemExit as exit:
        if isinstance(exit.__context__, BrokenPipeError):  # typer turns it into a failure
            raise exit.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return failures.report(error, app)


def join_words(arguments: list[str]) -> list[str]:
    """Return the arguments, with the two words of a group such as `serve key` as one; `serve` alone is a verb."""
    both = " ".join(arguments[:2])
    return [both, *arguments[2:]] if any(group.name == both for group in app.registered_groups) else arguments


def select_verbs(arguments: Sequence[str]) -> typer.Typer:
    """Return the app with only the verb that is asked for: typer reads the signatures of all verbs that it holds.

    For the list of verbs, they have no options.  If no verb has this name, the app is whole, for a proposal.
    """
    word, part = arguments[0] if arguments else "", copy(app)
    if word in SETTINGS["help_option_names"]:
        part.registered_commands = list(map(outline, app.registered_commands))
        part.registered_groups = list(map(outline_group, app.registered_groups))
        return part
    part.registered_commands = [verb for verb in app.registered_commands if name_of(verb) == word]
    part.registered_groups = [group for group in app.registered_groups if group.name == word]
    return part if part.registered_commands or part.registered_groups else app


def name_of(verb: CommandInfo) -> str:
    """Return the name of a verb: that of its function, unless it has another."""
    return str(verb.name or getattr(verb.callback, "__name__", ""))


def outline(verb: CommandInfo) -> CommandInfo:
    """Return the name and the help of a verb."""
    outlined = copy(verb)
    outlined.name, outlined.callback = name_of(verb), lambda: None
    return outlined


def outline_group(group: TyperInfo) -> TyperInfo:
    """Return the name and the help of a group of verbs."""
    outlined = copy(group)
    outlined.typer_instance = copy(group.typer_instance)
    assert outlined.typer_instance is not None
    outlined.typer_instance.registered_commands = []
    return outlined


def exit_with(code: int) -> None:
    """Exit the process; one that was stopped does not wait for threads whose results are no longer needed."""
    if code in (Resumable.code, failures.INTERRUPTED):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
