"""The command line: text goes in by argument, file or stdin; results go to stdout, progress to stderr.

Verbs are short: they turn options into calls.  torch is imported inside them, so that --help is instant.
"""

import atexit
import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

import jumok
from jumok.cli import verbs
from jumok.cli.terminal import aside, check_device, chunks, clean_arguments, counted, dumps, terminal_width, watching
from jumok.cli.verbs import (
    HELP,
    Changes,
    Columns,
    Excluded,
    File,
    Json,
    Made,
    ModelPath,
    Shares,
    Sources,
    Steps,
    Tables,
    Targets,
    Temperature,
    Tokens,
    ValidSources,
    ValidTables,
    ValidTargets,
    bench_app,
    data_app,
    export_app,
    model_app,
    option,
)
from jumok.errors import DiskError, JumokError, MissingPackage, Resumable, UnknownName, UsageError
from jumok.extras import find_missing, hint, is_installed

if TYPE_CHECKING:
    from jumok.config.search import SearchKeywords
    from jumok.engines.options import EngineKeywords
    from jumok.translator import Translator

app = typer.Typer(
    name="jumok",
    help="From two text files to a translator: the Transformer of 'Attention Is All You Need' on an ordinary CPU.",
    epilog="Start here: jumok demo — then: jumok train --source train.en --target train.de",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
app.add_typer(export_app, name="export", short_help="Write a model for another engine: ctranslate2.")
app.add_typer(bench_app, name="bench", short_help="Measure speed: train, decode.")
app.add_typer(data_app, name="data", short_help="Text files: check, stats, prepare, dropped, pairs.")
app.add_typer(model_app, name="model", short_help="Look at models: info, compare, average, shortlist.")


app.command(short_help="Train several models alike and compare them.")(verbs.race)
app.command(short_help="Try the claims of the paper.")(verbs.lab)
app.command(short_help="Go on with a text.")(verbs.generate)
app.command(short_help="Say which words are missing.")(verbs.fill)


Device = Annotated[str, option("NAME", "cpu, cuda or mps.")]
Beam = Annotated[int | None, option("N", "Width of the beam; 1 is greedy. Default: the recipe's.")]
Alpha = Annotated[
    float | None, option("A", "0 prefers short translations, 1 long ones. Paper: 0.6.", "--length-penalty")
]
Engine = Annotated[str, option("NAME", "native, ctranslate2, torch (every feature) or auto: native where it can.")]
Precision = Annotated[str | None, option("NAME", "Of ctranslate2: int8 (default) or float32.")]
Shortlist = Annotated[bool, typer.Option("--shortlist", help="Consider likely words only; faster.")]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Make results independent of the batch, bit for bit (free with native).")
]
Words = list[str] | None
MODELS = "transformer, rnn, convs2s, bytenet, memory, gpt, bert, electra, classifier or tagger."
MISUSE: type[Exception] = typer.BadParameter.__mro__[2]  # ClickException, of click or of the copy that typer may carry


def show_version(asked: bool) -> None:
    if asked:
        print(f"jumok {jumok.__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=show_version)
]


@app.callback()
def top(version: Version = False) -> None:
    """What stands before the verbs."""


@app.command(short_help="Train English to Korean in minutes and see it work.")
def demo(
    out: Annotated[Path, option("FOLDER", "Folder of the run.")] = Path("runs/demo"),
    minutes: Annotated[float | None, option("MINUTES", "Training time; default 5.")] = None,
) -> None:
    """Train English to Korean on the embedded phrasebook, score it, show its attention.

    \b
    jumok demo
    jumok demo --minutes 2 --out runs/quick
    """
    from jumok.demo import run

    with watching() as (sinks, stop):
        report = run(out, minutes=minutes, sinks=sinks, stop=stop)
    print("\n".join(report.lines()))
    print(report.drawing(width=min(100, terminal_width()), color=sys.stdout.isatty()))


@app.command(short_help="Train a translator, or another model; the same command continues it.")
def train(
    source: Sources = None,
    target: Targets = None,
    table: Tables = None,
    text: Annotated[File, option("FILE", "Or a text to be learnt itself (gpt, bert, electra, memory).")] = None,
    corpus: Made = None,
    data: Annotated[File, option("FOLDER", "Or a folder that `jumok data prepare` has made.")] = None,
    valid_source: ValidSources = None,
    valid_target: ValidTargets = None,
    valid_table: ValidTables = None,
    shares: Shares = None,
    temperature: Temperature = None,
    columns: Columns = None,
    exclude: Excluded = None,
    valid_text: Annotated[File, option("FILE", "Or a text; the last tenth of --text if not given.")] = None,
    recipe: Annotated[str, option("NAME", "auto, demo, tiny, small, base, big, table3-… or a .toml file.")] = "auto",
    model: Annotated[str | None, option("NAME", MODELS)] = None,
    begin: Annotated[str | None, option("RUN", "Begin with what fits of a finished run's weights.", "--from")] = None,
    out: Annotated[Path | None, option("FOLDER", "Folder of the run. Default: runs/RECIPE.")] = None,
    minutes: Annotated[float | None, option("MINUTES", "Be done within this time; the schedule fits it.")] = None,
    steps: Steps = None,
    epochs: Annotated[int | None, option("N", "Stop after this many passes over the data.")] = None,
    tokens: Tokens = None,
    until_bleu: Annotated[float | None, option("BLEU", "Stop when validation BLEU reaches this.")] = None,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only probe, 20 seconds, and say what to expect.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Continue only if the result will be the same bytes.")] = False,
    set_: Changes = None,
    device: Device = "cpu",
) -> None:
    """Train a translator; the same command continues a run that was stopped.

    With --minutes the finished model is there within this time, start included; a finished run trains so many more.
    Ctrl-C or SIGTERM saves and ends with code 75.  However it ended, the run goes on as if it had not been interrupted.

    \b
    jumok train --source train.en --target train.de
    jumok train --source train.en --target train.de --minutes 10 --plan
    jumok train --source train.en.gz --target train.ko.gz --recipe small --minutes 60 --out runs/enko
    jumok train --source news.en --target news.de --source ui.en --target ui.de --shares 3,1
    jumok train --data prepared --recipe small --minutes 60
    jumok train --source train.en --target train.de --model rnn
    jumok train --text shakespeare.txt --model gpt --set vocabulary.kind=byte --minutes 15
    cat pairs.tsv | jumok train --table - --set model.dropout=0.3 --set vocabulary.size=4000
    torchrun --nproc-per-node 2 --max-restarts 3 -m jumok train --source train.en --target train.de
    """
    choices: dict[str, Any] = {
        "text": text, "corpus": corpus, "prepared": data, "valid_text": valid_text, "recipe": recipe, "model": model,
        "begin": begin, "minutes": minutes, "steps": steps, "epochs": epochs, "tokens": tokens,
    }  # fmt: skip
    mixing: dict[str, Any] = {"shares": shares, "temperature": temperature, "columns": columns, "exclude": exclude}
    with watching() as (sinks, stop):  # from here on signals are heard, also while torch is being loaded
        from jumok.cli import train as verb

        choices["changes"] = verb.list_changes(set_ or [], compiled=compile, until_bleu=until_bleu)
        valid = verb.Named(valid_source, valid_target, valid_table)
        choices |= verb.gather(verb.Named(source, target, table), valid, **mixing)
        if plan:
            return verb.plan(choices, out=out, device=device)
        return verb.train(choices, out=out, device=device, exact=exact, sinks=sinks, stop=stop)


@app.command(short_help="Train a student: as good as its teacher, several times as fast.")
def distill(
    model: ModelPath,
    out: Annotated[Path | None, option("FOLDER", "Folder of the student's run. Default: MODEL-student.")] = None,
    minutes: Annotated[float | None, option("MINUTES", "Training time. Default: as long as the teacher.")] = None,
    encoder_layers: Annotated[int | None, option("N", "Default: half as many again as the teacher.")] = None,
    decoder_layers: Annotated[int, option("N", "Of the student.")] = 2,
    source: Annotated[File, option("FILE", "Text to translate from, if the teacher's is gone.")] = None,
    target: Annotated[File, option("FILE", "Its translation, line by line.")] = None,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "Change the student's recipe; repeatable.", "--set")] = None,
) -> None:
    """Train a student with a deep encoder and a short decoder on what its teacher says; then search is not needed.

    \b
    jumok distill runs/tiny
    jumok distill runs/tiny --minutes 30 --decoder-layers 1 --out runs/quick
    """
    from jumok import distillation, machine
    from jumok.config.recipe import parse_assignment

    with watching() as (sinks, stop):
        changes = dict(map(parse_assignment, set_ or []))
        run = distillation.distill(
            model, distillation.Student(encoder_layers, decoder_layers, minutes, changes), out=out, source=source,
            target=target, sinks=sinks, stop=stop, began=machine.process_began(),
        )  # fmt: skip
    print(run.folder)


def load(path: str, *, others: Sequence[str] = (), **choices: "Unpack[EngineKeywords]") -> "Translator":
    """Load the translator of a model; torch is loaded to check a device only where it is needed anyway."""
    gc.disable()  # hardly anything of what is imported is ever garbage
    try:
        from jumok.engines.options import EngineOptions
        from jumok.translator import Translator

        if (device := choices.get("device", "cpu")) != "cpu":
            check_device(device)
        return Translator.load(path, others=others, say=aside, options=EngineOptions(**choices))
    finally:
        gc.enable()


@app.command(short_help="Translate sentences, a file, or standard input.")
def translate(
    model: ModelPath,
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without them, --input or stdin.")] = None,
    input: Annotated[File, option("FILE", "One sentence per line; - is stdin.", "--input", "-i")] = None,
    output: Annotated[File, option("FILE", "Write to a file instead of stdout.", "--output", "-o")] = None,
    beam: Beam = None,
    length_penalty: Alpha = None,
    n_best: Annotated[int | None, option("N", "Number of translations per sentence.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")] = False,
    temperature: Annotated[float | None, option("T", "With --sample: 0 is greedy, 1 the model's own.")] = None,
    top_k: Annotated[int | None, option("K", "With --sample: the k likeliest tokens only; 0 is all.")] = None,
    top_p: Annotated[float | None, option("P", "With --sample: likeliest tokens up to this probability.")] = None,
    seed: Annotated[int | None, option("N", "With --sample: the same seed gives the same samples.")] = None,
    others: Annotated[Words, option("MODEL", "Another model over the same vocabulary; repeatable.", "--with")] = None,
    mbr: Annotated[int | None, option("N", "Sample N (temperature 0.5), return the one most like the others.")] = None,
    prefix: Annotated[str | None, option("TEXT", "How the translation begins.")] = None,
    require: Annotated[Words, option("WORD", "A word or phrase that must appear; repeatable.")] = None,
    forbid_words: Annotated[Words, option("WORD", "A word or phrase that must not; repeatable.", "--forbid")] = None,
    alternatives: Annotated[int | None, option("N", "N different ways to begin, or to continue --prefix.")] = None,
    min_length: Annotated[int | None, option("N", "Least number of tokens.")] = None,
    no_repeat: Annotated[int | None, option("N", "Never repeat an n-gram of this length.")] = None,
    groups: Annotated[int | None, option("N", "Diverse beam search with N groups.")] = None,
    diversity: Annotated[float | None, option("D", "With --groups: penalty for a token of another group.")] = None,
    coverage: Annotated[float | None, option("B", "Penalty for source words that receive no attention.")] = None,
    align: Annotated[bool, typer.Option("--align", help="Also print the word alignment: 0-0 1-2.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print each word as it is decoded (greedy).")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an --output that was interrupted.")] = False,
    engine: Engine = "auto",
    precision: Precision = None,
    shortlist: Shortlist = False,
    deterministic: Deterministic = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Translate sentences, a file, or standard input.

    \b
    jumok translate runs/tiny "A man rides a bike."
    jumok translate runs/tiny --beam 5 --input test.en --output test.de
    jumok translate runs/tiny --input huge.en --output huge.de --resume
    jumok translate runs/tiny "A man rides a bike." --require Fahrrad --forbid Mann
    echo "Good morning!" | jumok translate runs/demo --n-best 3 --json
    """
    from jumok.cli.translate import Command

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
    translator = load(
        model, others=others or (), device=device, engine=engine, precision=precision, shortlist=shortlist,
        deterministic=deterministic,
    )  # fmt: skip
    command.run(translator, translator.options(**search))


@app.command(short_help="Score given translations with a model.")
def score(
    model: ModelPath,
    source: Annotated[str, option("FILE", "Source sentences.")],
    target: Annotated[str, option("FILE", "Translations to score.")],
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Score given translations: log-probability, and score with length penalty, one line each.

    \b
    jumok score runs/tiny --source test.en --target test.de
    """
    from jumok.text.lines import read_pairs

    translator = load(model, device=device)
    for chunk in chunks(read_pairs(source, target), 1_024):
        for scored in translator.score([s for s, _ in chunk], [t for _, t in chunk]):
            print(dumps(scored.to_json()) if as_json else f"{scored.log_probability:.4f}\t{scored.score:.4f}")


@app.command(short_help="BLEU and chrF on a test set; TER and perplexity if asked.")
def evaluate(
    model: ModelPath,
    source: Annotated[File, option("FILE", "Test sentences.")] = None,
    target: Annotated[File, option("FILE", "Their reference translations.")] = None,
    table: Annotated[File, option("FILE", "Or one .tsv or .jsonl with both.")] = None,
    compare: Annotated[File, option("FILE", "Another system's output, for a significance test.")] = None,
    output: Annotated[File, option("FILE", "Write the translations to a file.", "--output", "-o")] = None,
    tokenize: Annotated[str, option("NAME", "sacreBLEU's tokenizer; auto chooses by script.")] = "auto",
    beam: Beam = None,
    length_penalty: Alpha = None,
    ter: Annotated[bool, typer.Option("--ter", help="Also the translation edit rate (takes longer).")] = False,
    perplexity: Annotated[
        bool, typer.Option("--perplexity", help="Also the perplexity of the references (loads torch).")
    ] = False,
    engine: Engine = "auto",
    precision: Precision = None,
    shortlist: Shortlist = False,
    deterministic: Deterministic = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Score a model on a test set: BLEU and chrF with their signatures, TER and perplexity if asked.

    \b
    jumok evaluate runs/tiny --source test.en --target test.de --beam 5
    jumok evaluate runs/tiny --source test.en --target test.de --ter --perplexity
    jumok evaluate runs/tiny --source test.en --target test.de --compare other-system.de
    """
    from jumok.cli.translate import counting
    from jumok.data.corpora import test_set
    from jumok.evaluation.evaluate import evaluate as run
    from jumok.text.lines import write_lines

    if perplexity and not is_installed("torch"):
        raise MissingPackage("--perplexity needs torch, which is not installed", hint=hint("torch"))
    translator = load(
        model, device=device, engine=engine, precision=precision, shortlist=shortlist, deterministic=deterministic
    )
    with counting() as progress:
        result = run(
            translator, test_set(source, target, table), tokenize=tokenize, compare=compare, ter=ter,
            perplexity=perplexity, progress=progress, beam=beam, length_penalty=length_penalty,
        )  # fmt: skip
    if output is not None:
        write_lines(output, result.hypotheses)
    print(dumps(result.to_json()) if as_json else "\n".join(result.lines()))


@app.command(short_help="Draw attention in the terminal and as a page.")
def look(
    model: ModelPath,
    text: Annotated[str, typer.Argument(help="A sentence.")],
    translation: Annotated[str | None, option("TEXT", "Show this translation, not the model's own.")] = None,
    kind: Annotated[str, option("KIND", "cross, encoder or decoder.")] = "cross",
    layer: Annotated[int | None, option("N", "Number, from 1; default: the mean of all.")] = None,
    head: Annotated[int | None, option("N", "Number, from 1; default: the mean of all.")] = None,
    html: Annotated[File, option("FILE", "Also write a page with every layer and head.")] = None,
    lang: Annotated[str, option("LANGUAGE", "Language of the page: en or ko.")] = "en",
    device: Device = "cpu",
) -> None:
    """Draw the attention of a sentence and its translation in the terminal, and as a one-file page.

    \b
    jumok look runs/demo "My friend drank two cups of coffee yesterday."
    jumok look runs/tiny "A man rides a bike." --layer 3 --head 2 --html attention.html
    """
    from jumok.reports.attention import attention_page, terminal
    from jumok.text.lines import write_lines

    [text] = clean_arguments([text])
    view = load(model, device=device).attention(text, translation)
    if kind not in view.kinds:
        raise UnknownName("kind of attention", kind, view.kinds, where="in --kind")
    layers, heads = getattr(view, kind).shape[:2]
    chosen = {"layer": counted(layer, layers, "layer"), "head": counted(head, heads, "head")}
    print(terminal(view, kind, **chosen, width=terminal_width(), color=sys.stdout.isatty()))
    print(f"{view.text} → {view.translation}")
    if html is not None:
        page = attention_page([view], title=view.text, language=lang)
        write_lines(html, page.removesuffix("\n").split("\n"))
        print(f"written: {html}", file=sys.stderr)


@app.command(short_help="Check this installation and machine.")
def doctor(as_json: Json = False) -> None:
    """Check this installation and machine: versions, cores, memory, speed, what is missing.

    Exit code 1 if something that jumok needs is not there.

    \b
    jumok doctor
    """
    from jumok.doctor import examine

    findings = examine()
    if as_json:
        print(dumps([vars(finding) for finding in findings]))
    else:
        print("\n".join(map(str, findings)))
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


# ---------------------------------------------------------------------- around the verbs


def main() -> None:
    """Run the command line; errors the user can put right are three lines and an exit code."""
    atexit.register(gc.freeze)  # nothing is collected at the end: what torch leaves would take a second
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # a busy neighbour on a core must not stall every other one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # whatever the locale says
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    leave(code)


def leave(code: int) -> None:
    """End the process; one that was stopped waits for nobody: threads may still be busy with what nobody wants."""
    if code in (Resumable.code, 130):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run() -> int:
    """The exit code of what the arguments ask for; all complaints are printed."""
    try:
        result = app(prog_name="jumok", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except JumokError as error:
        code = complain(error)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # typer takes it for a failure
            raise left.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"in {error.filename}" if error.filename else ""
        code = complain(DiskError(f"the system says: {error.strerror or error}", where=where, hint="try: df -h"))
    except MISUSE as error:
        code = complain_of_usage(error)
    except Exception as error:
        module = find_missing(error) if isinstance(error, ImportError) else None
        code = complain_of_a_bug() if module is None else complain_of_absence(module)
    if code == 130:
        print("interrupted", file=sys.stderr)
    return code


def complain(error: JumokError) -> int:
    print(f"jumok: {error}", file=sys.stderr)
    return error.code


def complain_of_a_bug() -> int:
    traceback.print_exc()
    print("jumok: this is a bug of ours; please report it with the lines above", file=sys.stderr)
    return 1


def complain_of_absence(module: str) -> int:
    """Say that a verb needs a library that is not installed, and which extra brings it."""
    what = f"{name_verb(sys.argv[1:])} needs {module}, which is not installed"
    return complain(MissingPackage(what, hint=hint(module)))


def name_verb(arguments: Sequence[str]) -> str:
    """The command that arguments begin with: `jumok train`, `jumok data check`."""
    command: Any = typer.main.get_command(app)
    words = ["jumok"]
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        words.append(word)
    return " ".join(words)


def complain_of_usage(error: Any) -> int:
    """What typer says of wrong options, in our three lines; no arguments at all get the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return UsageError.code
    message = error.format_message().rstrip(".").replace(". Did you", "; did you")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "jumok"
    return complain(UsageError(message[:1].lower() + message[1:], where=f"in {command}", hint=f"try: {command} --help"))


if __name__ == "__main__":
    main()
