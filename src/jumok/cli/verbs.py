"""Verbs of two words (data, model, export, bench), of models that do not translate, and the options that verbs share.

As in cli/main.py, a verb turns options into calls, and what it calls is imported inside it.
"""

import os
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # looking for them takes longer than a translation

import typer

from jumok.cli.terminal import aside, clean_arguments, dumps, forbid, listed, numbers, place
from jumok.errors import UsageError

HELP = {"help_option_names": ["-h", "--help"]}
data_app = typer.Typer(help="Look at text files.", no_args_is_help=True, rich_markup_mode=None, context_settings=HELP)
model_app = typer.Typer(help="Look at models.", no_args_is_help=True, rich_markup_mode=None, context_settings=HELP)
bench_app = typer.Typer(help="Measure speed.", no_args_is_help=True, rich_markup_mode=None, context_settings=HELP)
export_app = typer.Typer(
    help="Write models for other engines.", no_args_is_help=True, rich_markup_mode=None, context_settings=HELP
)


def option(metavar: str, help: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help)


ModelPath = Annotated[str, typer.Argument(help="A run folder, or the model folder inside it.", metavar="MODEL")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of text.")]
ALL_ENGINES = "torch,native,native-shortlist,ctranslate2-float32,ctranslate2-int8,ctranslate2-int8-shortlist"
File = str | None
Texts = list[str] | None
Source = Annotated[File, option("FILE", "Text to translate from, a sentence a line (.gz .xz .zst).")]
Target = Annotated[File, option("FILE", "Its translation, line by line.")]
Both = Annotated[File, option("FILE", "Or one .tsv or .jsonl with both; - is stdin (tsv).")]
Made = Annotated[File, option("NAME", "Or one jumok makes: phrasebook, copy, reverse, sort, babi-1 …")]
ValidSource = Annotated[File, option("FILE", "Validation text; held out by rule if not given.")]
ValidTarget = Annotated[File, option("FILE", "Its translation.")]
ValidBoth = Annotated[File, option("FILE", "Or one .tsv or .jsonl with both.")]
Sources = Annotated[Texts, option("FILE", "Text to translate from, one sentence per line (.gz .xz .zst).", "--source")]
Targets = Annotated[Texts, option("FILE", "Its translation, line by line.", "--target")]
Tables = Annotated[Texts, option("FILE", "Or one .tsv or .jsonl with both; - is stdin (tsv).", "--table")]
ValidSources = Annotated[Texts, option("FILE", "Validation text; held out by rule if not given.", "--valid-source")]
ValidTargets = Annotated[Texts, option("FILE", "Its translation.", "--valid-target")]
ValidTables = Annotated[Texts, option("FILE", "Or one .tsv or .jsonl with both.", "--valid-table")]
Shares = Annotated[str | None, option("NUMBERS", "Shares of several corpora in training, such as 2,1.")]
Temperature = Annotated[float | None, option("T", "Or shares by size to the power 1/T: 1 as they are, 5 nearly equal.")]
Columns = Annotated[str | None, option("NAMES", "Source and target column of tables, such as en,de.")]
Excluded = Annotated[
    Texts, option("FILE", "Leave out pairs that share a sentence with this file; repeatable.", "--exclude")
]
Steps = Annotated[int | None, option("N", "Stop after this many updates.")]
Tokens = Annotated[int | None, option("N", "Stop after this many target tokens.")]
Changes = Annotated[list[str] | None, option("KEY=VALUE", "Change the recipe; repeatable.", "--set")]
Sentences = Annotated[str, option("FILE", "Sentences to translate.")]
References = Annotated[str, option("FILE", "Their reference translations.")]
Beams = Annotated[str, option("NUMBERS", "Comma-separated.")]
Rounds = Annotated[int, option("N", "Times that each gets all sentences, in turn.")]
Most = Annotated[int, option("N", "Take so many from the top of the files.")]


@data_app.command("check")
def data_check(
    files: Annotated[list[str], typer.Argument(help="Two parallel files, one table, or any text files.")],
    fix: Annotated[bool, typer.Option("--fix", help="Write repaired copies and a report; originals stay.")] = False,
    out: Annotated[Path | None, option("FOLDER", "Where --fix writes. Default: fixed, beside the first file.")] = None,
    as_json: Json = False,
) -> None:
    """Find what is wrong with text files: file, line, byte, what to do.  Exit code 64 if something is.

    With --fix, encodings, line ends, control characters and the like are put right by rule in copies.  A pair that no
    rule puts right is dropped from both files, told by line and reason; nothing is ever re-aligned.

    \b
    jumok data check train.en train.de
    jumok data check train.en train.de --fix --out clean
    """
    from jumok.data.quality.survey import check

    if fix:
        from jumok.data.quality.fix import fix as repair

        made = repair(files, out)
        print(dumps(made.to_json()) if as_json else "\n".join([*made.lines(), *made.verdict()]))
        return
    forbid("only --fix writes files", {"out": out})
    findings = check(files)
    for finding in findings:
        print(
            dumps(vars(finding))
            if as_json
            else f"{place(finding)}: {finding.severity}: {finding.problem}; {finding.hint}"
        )
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
    from jumok.data.quality.survey import stats

    found = stats(table_or_files(files))
    print(dumps(found.to_json()) if as_json else "\n".join(found.lines()))


@data_app.command("pairs")
def data_pairs(
    run: Annotated[str, typer.Argument(help="A run folder.", metavar="RUN")],
    rows: Annotated[list[int], typer.Argument(help="Numbers of stored pairs, as an error names them.", metavar="N…")],
    as_json: Json = False,
) -> None:
    """Show pairs that a run trains on, by their numbers: line of the text, source and target.

    \b
    jumok data pairs runs/tiny 17 2045
    """
    from jumok.runs.preparation import stored

    for row, pair in zip(rows, stored(run, rows), strict=True):
        told = {"pair": row, "line": pair.line, "source": pair.source, "target": pair.target}
        print(dumps(told) if as_json else f"{row}\tline {pair.line}\t{pair.source}\t{pair.target}")


@data_app.command("prepare")
def data_prepare(
    out: Annotated[Path, option("FOLDER", "Where the prepared data go.")],
    source: Sources = None,
    target: Targets = None,
    table: Tables = None,
    corpus: Made = None,
    valid_source: ValidSources = None,
    valid_target: ValidTargets = None,
    valid_table: ValidTables = None,
    shares: Shares = None,
    temperature: Temperature = None,
    columns: Columns = None,
    exclude: Excluded = None,
    recipe: Annotated[
        str, option("NAME", "Whose vocabulary and limits: tiny, small, base, big or a .toml file.")
    ] = "tiny",
    workers: Annotated[int | None, option("N", "Processes; changes no byte. Default: one per core.")] = None,
    set_: Changes = None,
) -> None:
    """Read, clean and encode a corpus once, for many runs; killed at any moment, the same command goes on.

    What was left out is counted by reason; `jumok data dropped FOLDER` lists it.  Rules are turned off by, for example,
    --set data.clean.near_duplicates=false.

    \b
    jumok data prepare --source train.en --target train.de --out prepared
    jumok data prepare --source news.en --target news.de --source ui.en --target ui.de --shares 3,1 --out mixed
    jumok train --data prepared --recipe tiny --minutes 30
    """
    from jumok.cli.terminal import watching
    from jumok.config.recipe import parse_assignment
    from jumok.runs.choose import Named, choose, gather
    from jumok.runs.preparation import prepare_folder

    named = gather(
        Named(source, target, table), Named(valid_source, valid_target, valid_table), shares=shares,
        temperature=temperature, columns=columns, exclude=exclude,
    )  # fmt: skip
    chosen = choose(recipe=recipe, corpus=corpus, changes=dict(map(parse_assignment, set_ or [])), **named)
    with watching() as (sinks, stop):
        for line in prepare_folder(chosen, out, sinks=sinks, stop=stop, workers=workers):
            aside(line)
    print(out)


@data_app.command("dropped")
def data_dropped(
    folder: Annotated[str, typer.Argument(help="A prepared folder or a run.", metavar="FOLDER")],
    reason: Annotated[str | None, option("WORDS", "Only those left out for this reason.")] = None,
    limit: Annotated[int, option("N", "At most so many.")] = 1_000,
    as_json: Json = False,
) -> None:
    """List pairs that were left out of training: file, line, reason and text.

    \b
    jumok data dropped prepared --reason "near duplicate" --limit 20
    """
    from jumok.runs.preparation import dropped

    for row in dropped(folder, reason=reason, limit=limit):
        print(dumps(row) if as_json else "\t".join(str(row[name]) for name in ("where", "reason", "source", "target")))


def generate(
    model: ModelPath,
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "",
    length: Annotated[int, option("N", "How many tokens.")] = 200,
    temperature: Annotated[float | None, option("T", "0 is always the likeliest, 1 the model's own.")] = None,
    top_k: Annotated[int | None, option("K", "Only the k likeliest tokens; 0 is all.")] = None,
    top_p: Annotated[float | None, option("P", "Only the share p of the probability.")] = None,
    seed: Annotated[int | None, option("N", "The same seed draws the same.")] = None,
) -> None:
    """Go on with a text, word by word, with a model that was trained on one (jumok train --text).

    \b
    jumok generate runs/tiny-gpt "ROMEO:" --length 500 --temperature 0.8
    """
    from jumok.translator import Translator

    [prompt] = clean_arguments([prompt])
    made = Translator.load(model).generate(
        prompt, length=length, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    print(prompt, end="", flush=True)
    for piece in made:
        print(piece, end="", flush=True)
    print()


def fill(
    model: ModelPath,
    text: Annotated[list[str], typer.Argument(help="Sentences with <mask> where a word is missing.")],
    n_best: Annotated[int, option("N", "How many words for each place.")] = 5,
    as_json: Json = False,
) -> None:
    """Say which words fit where one is missing, with a model that learnt to fill in (jumok train --model bert).

    \b
    jumok fill runs/tiny-bert "A man <mask> a bike."
    """
    from jumok.translator import Translator

    translator = Translator.load(model)
    for sentence in clean_arguments(text):
        for number, words in enumerate(translator.fill(sentence, n_best=n_best), start=1):
            found = [{"word": word.text, "probability": word.probability} for word in words]
            line = "  ".join(f"{word.text} {word.probability:.3f}" for word in words)
            print(dumps({"text": sentence, "mask": number, "words": found}) if as_json else line)


def race(
    models: Annotated[str, option("NAMES", "Comma-separated.")] = "transformer,rnn,convs2s,bytenet",
    source: Source = None,
    target: Target = None,
    table: Both = None,
    corpus: Made = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    valid_table: ValidBoth = None,
    recipe: Annotated[str, option("NAME", "What all have in common.")] = "tiny",
    minutes: Annotated[float | None, option("MINUTES", "Of training, for each.")] = None,
    tokens: Tokens = None,
    steps: Steps = None,
    params: Annotated[int | None, option("N", "Each as wide as makes about so many weights.")] = None,
    seeds: Annotated[str, option("NUMBERS", "Comma-separated; every model runs with each.")] = "1",
    out: Annotated[Path, option("FOLDER", "Folder of the race.")] = Path("runs/race"),
    set_: Changes = None,
    as_json: Json = False,
) -> None:
    """Train several models on the same text with the same budget, one after the other, and compare them.

    Writes report.html and report.json; the same command goes on with a race that was stopped.

    \b
    jumok race --models transformer,rnn,convs2s,bytenet --source train.en --target train.de --minutes 15
    jumok race --models transformer,rnn --corpus reverse --tokens 500000 --params 500000
    """
    from jumok.cli.terminal import watching
    from jumok.config.recipe import parse_assignment

    chosen: dict[str, Any] = {
        "source": source, "target": target, "table": table, "corpus": corpus, "valid_source": valid_source,
        "valid_target": valid_target, "valid_table": valid_table, "minutes": minutes, "tokens": tokens, "steps": steps,
    }  # fmt: skip
    with watching() as (_, stop):
        from jumok.race import report, run
        from jumok.race.display import RaceDisplay

        names, numbered = [name.strip() for name in models.split(",")], numbers(seeds, "seeds")
        lanes = names if len(numbered) == 1 else [f"{name}-{seed}" for seed in numbered for name in names]
        with RaceDisplay(lanes) as display:
            result = run.run(
                models=names, out=out, recipe=recipe, seeds=numbered, parameters=params, follow=display,
                say=display.say, stop=stop, changes=dict(map(parse_assignment, set_ or [])), **chosen,
            )  # fmt: skip
    print(dumps(result.figures) if as_json else "\n".join([*report.summary(result.figures), str(result.report)]))


@model_app.command("info")
def model_info(model: ModelPath, as_json: Json = False) -> None:
    """What a model is: recipe, sizes, how it was trained, its validation scores.

    \b
    jumok model info runs/tiny
    """
    from jumok.storage.info import describe

    found = describe(model)
    print(dumps(found) if as_json else "\n".join(listed(found)))


def lab(
    name: Annotated[
        str | None, typer.Argument(help="A claim, `all`, `paper`, or a folder of findings; none lists them.")
    ] = None,
    language: Annotated[str, option("NAME", "en or ko.", "--lang")] = "en",
    scale: Annotated[str, option("NAME", "quick, minutes (4 times as long) or hours (30 times).")] = "quick",
    out: Annotated[Path | None, option("FOLDER", "Where the report goes. Default: runs/lab/report.")] = None,
    runs: Annotated[Path, option("FOLDER", "Where models and findings are kept, to be found again.")] = Path(
        "runs/lab"
    ),
    book: Annotated[Path | None, option("FILE", "Also all of it as one Markdown file, pictures beside it.")] = None,
    data: Annotated[Path | None, option("FOLDER", "Real corpora, for the paper's tables.")] = None,
    seed: Annotated[int, option("N", "Another one draws other weights, batches and sentences.")] = 1,
    again: Annotated[bool, typer.Option("--again", help="Measure again what was found before.")] = False,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "Turn a knob of the claim; repeatable.", "--set")] = None,
    as_json: Json = False,
) -> None:
    """Try a claim of the paper: numbers, a verdict, a picture and a page, in English or Korean.

    The same command goes on with what was stopped; what was found is kept.

    \b
    jumok lab
    jumok lab mask --lang ko
    jumok lab all --out report
    jumok lab paper --data corpora --scale minutes
    jumok lab report --lang ko --book lab.ko.md
    """
    from jumok.cli.lab import Request, conduct, listing

    if name is None:
        forbid("without a name the claims are listed", {"out": out, "book": book, "data": data, "set": set_})
        print("\n".join(listing(language)))
        return
    conduct(name, Request(language, scale, out, runs, data, seed, again, set_ or [], book, as_json))


@model_app.command("average")
def model_average(
    run: Annotated[str, typer.Argument(help="A run folder with checkpoints.", metavar="RUN")],
    last: Annotated[int, option("N", "How many of the last checkpoints.")] = 5,
    out: Annotated[Path | None, option("FOLDER", "Where to write the model. Default: RUN/model.")] = None,
) -> None:
    """Make a model from the mean of a run's last checkpoints.

    \b
    jumok model average runs/base --last 5
    """
    from jumok.storage.checkpoint import average_run

    if last < 1:
        raise UsageError(f"there is no mean of {last} checkpoints", where="in --last", hint="try: --last 5")
    print(average_run(run, last=last, out=out))


@model_app.command("shortlist")
def model_shortlist(
    model: ModelPath,
    source: Annotated[File, option("FILE", "Text to learn from, if the model's own is gone.")] = None,
    target: Annotated[File, option("FILE", "Its translation, line by line.")] = None,
) -> None:
    """Learn which words may turn into which, for --shortlist; models trained with this version have it already.

    \b
    jumok model shortlist runs/tiny
    """
    from jumok.runs.preparation import add_shortlist

    print(add_shortlist(model, source, target))


@model_app.command("compare")
def model_compare(
    models: Annotated[list[str], typer.Argument(help="Run folders, or the model folders inside.", metavar="MODEL…")],
    source: Sentences,
    target: References,
    engines: Annotated[str, option("NAMES", "Comma-separated.")] = ALL_ENGINES,
    beams: Beams = "1,5",
    rounds: Rounds = 3,
    sentences: Most = 1_000,
    out: Annotated[Path | None, option("FILE", "Also draw it, as SVG.")] = None,
    as_json: Json = False,
) -> None:
    """What quality costs: BLEU against speed and size over models, engines, precisions, beams and shortlists.

    \b
    jumok model compare runs/tiny runs/tiny-student --source val.en --target val.de --out front.svg
    """
    from jumok.bench.front import compare, picture, table
    from jumok.text.lines import write_lines

    figures = compare(
        models, source=source, target=target, engines=engines.split(","), beams=numbers(beams, "beams"),
        rounds=rounds, sentences=sentences, say=aside,
    )  # fmt: skip
    if out is not None:
        write_lines(out, picture(figures).removesuffix("\n").split("\n"))
    print(dumps(figures) if as_json else "\n".join(table(figures)))


@export_app.command("ctranslate2")
def export_ctranslate2(
    model: ModelPath,
    out: Annotated[Path, option("FOLDER", "Where to write it.")],
    precision: Annotated[str, option("NAME", "float32, int8 or int16.")] = "float32",
) -> None:
    """Write a model for CTranslate2, the C++ engine; its probabilities stay the same.

    \b
    jumok export ctranslate2 runs/tiny --out tiny-ct2 --precision int8
    """
    from jumok.interop.ctranslate2 import export_bundle
    from jumok.storage import bundle

    print(export_bundle(bundle.read(model), out, precision=precision))


@bench_app.command("train")
def bench_train(
    recipe: Annotated[str, option("NAME", "A recipe or a .toml file; its model and training are measured.")] = "tiny",
    source: Annotated[File, option("FILE", "Text to train on; without it, the embedded phrasebook.")] = None,
    target: Annotated[File, option("FILE", "Its translation, line by line.")] = None,
    tokens: Annotated[int, option("N", "Tokens of an update, padding included.")] = 4_096,
    warmup_updates: Annotated[int | None, option("N", "Updates before the clock counts; 10, large models 2.")] = None,
    updates: Annotated[int | None, option("N", "Undisturbed updates that count; 60, large models 8.")] = None,
    keep: Annotated[Path | None, option("FOLDER", "Keep vocabulary and encoded text there for the next time.")] = None,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "Change the recipe; repeatable.", "--set")] = None,
    as_json: Json = False,
) -> None:
    """Measure training: tokens/s, the share of the machine's matrix speed, padding, memory.

    \b
    jumok bench train --source train.en.gz --target train.de.gz
    jumok bench train --recipe base --updates 6 --json >> results.jsonl
    """
    from jumok.bench.train import Updates, measure, table
    from jumok.config.recipe import parse_assignment

    figures = measure(
        recipe, source=source, target=target, changes=dict(map(parse_assignment, set_ or [])), tokens=tokens,
        updates=Updates(warmup_updates, updates), keep=keep, say=aside,
    )  # fmt: skip
    print(dumps(figures) if as_json else "\n".join(table(figures)))


@bench_app.command("decode")
def bench_decode(
    model: ModelPath,
    source: Sentences,
    target: References,
    engines: Annotated[str, option("NAMES", "Comma-separated; the first is what ratios refer to.")] = ALL_ENGINES,
    beams: Beams = "1,5",
    rounds: Rounds = 3,
    sentences: Most = 1_000,
    as_json: Json = False,
) -> None:
    """Measure translating: sentences/s, milliseconds of one sentence, start-up, memory and BLEU of each engine.

    \b
    jumok bench decode runs/tiny --source test.en --target test.de
    jumok bench decode runs/tiny --source test.en --target test.de --engines torch --beams 4 --json
    """
    from jumok.bench.decode import measure, table

    figures = measure(
        model, source=source, target=target, engines=engines.split(","), beams=numbers(beams, "beams"),
        rounds=rounds, sentences=sentences, say=aside,
    )  # fmt: skip
    print(dumps(figures) if as_json else "\n".join(table(figures)))
