"""The command line: text goes in by argument, file or stdin; results go to stdout, progress to stderr.

Verbs are short: they turn options into calls.  torch is imported inside them, so that --help is instant.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from jumok.errors import JumokError, UsageError

app = typer.Typer(
    name="jumok",
    help="From two text files to a translator: the Transformer of 'Attention Is All You Need' on an ordinary CPU.",
    epilog="Start here: jumok demo — then: jumok train --source train.en --target train.de",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at text files: check, stats.", no_args_is_help=True, rich_markup_mode=None)
model_app = typer.Typer(help="Look at models: info, average.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")
app.add_typer(model_app, name="model")

ModelPath = Annotated[str, typer.Argument(help="A run folder, or the model folder inside it.", metavar="MODEL")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of text.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or mps.")]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy. Default: the recipe's.")]
Alpha = Annotated[float | None, typer.Option("--length-penalty", help="0 prefers short, 1 long. Paper: 0.6.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    minutes: Annotated[float | None, typer.Option(help="Training time; default 4.")] = None,
) -> None:
    """Train English to Korean on the embedded phrasebook, score it, show its attention.

    \b
    jumok demo
    jumok demo --minutes 2 --out runs/quick
    """
    from jumok.demo import drawing, run

    with watching() as (sinks, stop):
        report = run(out, minutes=minutes, sinks=sinks, stop=stop)
    print("\n".join(report.lines()))
    print(drawing(out, width=min(100, terminal_width()), color=sys.stdout.isatty()))


@app.command()
def train(
    source: Annotated[str | None, typer.Option(help="Text to translate from, one sentence a line (.gz .xz .zst).")] = None,
    target: Annotated[str | None, typer.Option(help="Its translation, line by line.")] = None,
    table: Annotated[str | None, typer.Option(help="Or one .tsv or .jsonl with both sides; - is stdin (tsv).")] = None,
    corpus: Annotated[str | None, typer.Option(help="Or a corpus jumok makes: phrasebook, copy, reverse, sort.")] = None,
    valid_source: Annotated[str | None, typer.Option(help="Validation text; held out by rule if not given.")] = None,
    valid_target: Annotated[str | None, typer.Option(help="Its translation.")] = None,
    recipe: Annotated[str, typer.Option(help="demo, tiny, small, base, big, table3-… or a .toml file.")] = "tiny",
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Default: runs/RECIPE.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time; the schedule fits it.")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after this many updates.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Stop after this many passes over the data.")] = None,
    until_bleu: Annotated[float | None, typer.Option(help="Stop when validation BLEU reaches this.")] = None,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile.")] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change the recipe: KEY=VALUE, repeatable.")] = None,
    device: Device = "cpu",
) -> None:
    """Train a translator; the same command continues a run that was stopped.

    \b
    jumok train --source train.en --target train.de
    jumok train --source train.en.gz --target train.ko.gz --recipe small --minutes 60 --out runs/enko
    cat pairs.tsv | jumok train --table - --set model.dropout=0.3 --set vocabulary.size=4000
    """
    from jumok.config import parse_assignment
    from jumok.experiment import train as start

    changes = dict(map(parse_assignment, set_ or []))
    changes |= {"training.compile": True} if compile else {}
    changes |= {} if until_bleu is None else {"training.until_bleu": until_bleu}
    with watching() as (sinks, stop):
        run = start(
            source, target, table=table, corpus=corpus, valid_source=valid_source, valid_target=valid_target,
            recipe=recipe, out=out, minutes=minutes, steps=steps, epochs=epochs, device=device, changes=changes,
            sinks=sinks, stop=stop,
        )  # fmt: skip
    print(run.folder)


@app.command()
def translate(
    model: ModelPath,
    text: Annotated[list[str] | None, typer.Argument(help="Sentences; without them, --input or stdin.")] = None,
    input: Annotated[str, typer.Option("--input", "-i", help="A file, one sentence a line; - is stdin.")] = "-",
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write there instead of stdout.")] = None,
    beam: Beam = None,
    length_penalty: Alpha = None,
    best: Annotated[int, typer.Option("--n-best", help="How many translations of each sentence.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="With --sample: 0 is greedy, 1 the model's own.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="With --sample: only the k likeliest tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="With --sample: only the share p of the probability.")] = 1.0,
    seed: Annotated[int, typer.Option(help="With --sample: the same seed draws the same.")] = 1,
    stream: Annotated[bool, typer.Option("--stream", help="Print each word as soon as it is made (greedy).")] = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Translate sentences, a file, or standard input.

    \b
    jumok translate runs/tiny "A man rides a bike."
    jumok translate runs/tiny --beam 5 --input test.en --output test.de
    echo "Good morning!" | jumok translate runs/demo --n-best 3 --json
    """
    from jumok.experiment import load
    from jumok.text.lines import read_lines, write_lines

    translator = load(model, device=device)
    lines = iter(text) if text else read_lines(input)
    options: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "best": best}
    options |= {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    if stream:
        stream_lines(translator, lines, options)
        return
    shown = printed(translator.lines(lines, chunk=1_024 if not sys.stdin.isatty() or text else 1, **options), as_json)
    if output is not None:
        write_lines(output, shown)
        return
    for line in shown:
        print(line, flush=True)


@app.command()
def score(
    model: ModelPath,
    source: Annotated[str, typer.Option(help="Source sentences.")],
    target: Annotated[str, typer.Option(help="Translations to score.")],
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """The model's score of given translations: log-probability and score with length penalty, a line each.

    \b
    jumok score runs/tiny --source test.en --target test.de
    """
    from jumok.experiment import load
    from jumok.text.lines import read_pairs

    translator = load(model, device=device)
    for chunk in chunks(read_pairs(source, target), 1_024):
        for scored in translator.score([s for s, _ in chunk], [t for _, t in chunk]):
            print(dumps(scored.to_json()) if as_json else f"{scored.log_probability:.4f}\t{scored.score:.4f}")


@app.command()
def evaluate(
    model: ModelPath,
    source: Annotated[str | None, typer.Option(help="Test sentences.")] = None,
    target: Annotated[str | None, typer.Option(help="Their reference translations.")] = None,
    table: Annotated[str | None, typer.Option(help="Or one .tsv or .jsonl with both.")] = None,
    compare: Annotated[str | None, typer.Option(help="Another system's output, for a significance test.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write the translations there.")] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer; auto fits the script.")] = "auto",
    beam: Beam = None,
    length_penalty: Alpha = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """BLEU, chrF and TER with their signatures, and perplexity, on a test set.

    \b
    jumok evaluate runs/tiny --source test.en --target test.de --beam 5
    jumok evaluate runs/tiny --source test.en --target test.de --compare other-system.de
    """
    from jumok.evaluate import evaluate as run
    from jumok.experiment import load
    from jumok.text.lines import write_lines

    translator = load(model, device=device)
    options = {"beam": beam, "length_penalty": length_penalty}
    result = run(translator, source, target, table=table, tokenize=tokenize, compare=compare, **options)
    if output is not None:
        write_lines(output, result.hypotheses)
    print(dumps(result.to_json()) if as_json else "\n".join(result.lines()))


@app.command()
def look(
    model: ModelPath,
    text: Annotated[str, typer.Argument(help="A sentence.")],
    translation: Annotated[str | None, typer.Option(help="Look at this translation instead of the model's own.")] = None,
    kind: Annotated[str, typer.Option(help="cross, encoder or decoder.")] = "cross",
    layer: Annotated[int | None, typer.Option(help="From 1; without it, the mean of all.")] = None,
    head: Annotated[int | None, typer.Option(help="From 1; without it, the mean of all.")] = None,
    html: Annotated[str | None, typer.Option(help="Also write a page with every layer and head.")] = None,
    lang: Annotated[str, typer.Option(help="Language of the page: en or ko.")] = "en",
    device: Device = "cpu",
) -> None:
    """Draw the attention of a sentence and its translation in the terminal, and as a one-file page.

    \b
    jumok look runs/demo "My friend drank two cups of coffee yesterday."
    jumok look runs/tiny "A man rides a bike." --layer 3 --head 2 --html attention.html
    """
    from jumok.experiment import load
    from jumok.text.lines import write_lines
    from jumok.viz import attention_page, terminal

    view = load(model, device=device).attention(text, translation)
    places = [None if number is None else number - 1 for number in (layer, head)]
    print(terminal(view, kind, layer=places[0], head=places[1], width=terminal_width(), color=sys.stdout.isatty()))
    print(f"{view.text} → {view.translation}")
    if html is not None:
        write_lines(html, [attention_page([view], title=view.text, language=lang)])
        print(f"written: {html}", file=sys.stderr)


@data_app.command("check")
def data_check(
    files: Annotated[list[str], typer.Argument(help="Two parallel files, one table, or any text files.")],
    as_json: Json = False,
) -> None:
    """Find what is wrong with text files: file, line, byte, what to do.  Exit code 64 if something is.

    \b
    jumok data check train.en train.de
    """
    from jumok.data.survey import check

    findings = check(files)
    for finding in findings:
        print(dumps(vars(finding)) if as_json else str(finding))
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(64)
    if not as_json:
        print(f"{', '.join(files)}: {'fit for training' if not findings else 'usable; see the warnings'}")


@data_app.command("stats")
def data_stats(
    files: Annotated[list[str], typer.Argument(help="Two parallel files, or one .tsv or .jsonl.")],
    as_json: Json = False,
) -> None:
    """Count pairs, words, characters, lengths and repetitions.

    \b
    jumok data stats train.en train.de
    """
    from jumok.data.corpora import table_or_files
    from jumok.data.survey import stats

    found = stats(table_or_files(files))
    print(dumps(found.to_json()) if as_json else "\n".join(found.lines()))


@model_app.command("info")
def model_info(model: ModelPath, as_json: Json = False) -> None:
    """What a model is: recipe, sizes, how it was trained, its validation scores.

    \b
    jumok model info runs/tiny
    """
    from jumok.experiment import describe

    found = describe(model)
    print(dumps(found) if as_json else "\n".join(f"{name:<14} {value}" for name, value in found.items()))


@model_app.command("average")
def model_average(
    run: Annotated[str, typer.Argument(help="A run folder with checkpoints.")],
    last: Annotated[int, typer.Option(help="How many of the last checkpoints.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Where to write the model. Default: RUN/model.")] = None,
) -> None:
    """Make a model from the mean of a run's last checkpoints.

    \b
    jumok model average runs/base --last 5
    """
    from jumok.experiment import average_run

    print(average_run(run, last=last, out=out))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check this installation and machine: versions, cores, memory, speed, what is missing.

    \b
    jumok doctor
    """
    from jumok.doctor import examine

    findings = examine()
    if as_json:
        print(dumps({name: value for name, value, _ in findings}))
    else:
        print("\n".join(f"{'ok ' if fine else '!! '} {name:<16} {value}" for name, value, fine in findings))


# ---------------------------------------------------------------------- around the verbs


@contextmanager
def watching() -> Iterator[tuple[list[Any], Callable[[], bool]]]:
    """A training display on stderr and a stop that Ctrl-C or SIGTERM asks for; a second Ctrl-C leaves at once."""
    from jumok.display import TrainingDisplay

    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)
        print("\nstopping after this step; everything will be saved (Ctrl-C again to leave at once)", file=sys.stderr)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    display = TrainingDisplay()
    try:
        yield [display], lambda: bool(asked)
    finally:
        display.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def printed(translations: Iterator[Any], as_json: bool) -> Iterator[str]:
    """Translations as lines of text: JSON, or the text; with alternatives, score and text of each."""
    for number, translation in enumerate(translations):
        if as_json:
            yield dumps(translation.to_json())
        elif translation.alternatives:
            for one in (translation, *translation.alternatives):
                yield f"{number}\t{one.score:.4f}\t{one.text}"
        else:
            yield translation.text


def stream_lines(translator: Any, lines: Iterator[str], options: dict[str, Any]) -> None:
    for line in lines:
        for piece in translator.stream(line, **options):
            print(piece, end="", flush=True)
        print(flush=True)


def chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def terminal_width() -> int:
    try:
        return max(40, os.get_terminal_size().columns)
    except OSError:
        return 100


def main() -> None:
    """Run the command line; errors the user can put right are three lines and an exit code."""
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # a busy neighbour on a core must not stall every other one
    try:
        app(standalone_mode=False)
        code = 0
    except JumokError as error:
        print(f"jumok: {error}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = leave(error)
    sys.exit(code)


def leave(error: Exception) -> int:
    """Exit code of anything else: the command line's own complaints, or a bug of ours."""
    import click

    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, click.Abort):
        return 130
    if isinstance(error, click.ClickException):
        error.show()
        return int(error.exit_code)
    traceback.print_exc()
    print("jumok: this is a bug of ours; please report it with the lines above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
