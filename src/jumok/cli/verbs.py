"""Verbs of two words (data, export, bench), race, lab, doctor, and verbs for models that do not translate.

As in cli/main.py, a verb turns options into calls, and what it calls is imported inside it.
Not here: `jumok model` (models.py).
"""

import os
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # searching for plugins takes longer than a translation

import typer

from jumok import messages
from jumok.cli.options import (
    ALL_ENGINES,
    SETTINGS,
    Beams,
    Changes,
    Columns,
    Corpus,
    Excluded,
    File,
    FirstSentences,
    Json,
    ModelPath,
    References,
    Rounds,
    Sentences,
    Shares,
    Shortlist,
    Source,
    Sources,
    Steps,
    Table,
    Tables,
    Target,
    Targets,
    Temperature,
    Tokens,
    ValidSource,
    ValidSources,
    ValidTable,
    ValidTables,
    ValidTarget,
    ValidTargets,
    argument,
    flag,
    option,
    verb,
)
from jumok.cli.terminal import (
    describe_position,
    dumps,
    parse_numbers,
    print_aside,
)
from jumok.cli.translate import clean_arguments, forbid
from jumok.messages import Message

data_app = typer.Typer(**verb("help.data"), no_args_is_help=True, rich_markup_mode=None, context_settings=SETTINGS)
bench_app = typer.Typer(**verb("help.bench"), no_args_is_help=True, rich_markup_mode=None, context_settings=SETTINGS)
export_app = typer.Typer(**verb("help.export"), no_args_is_help=True, rich_markup_mode=None, context_settings=SETTINGS)


@data_app.command("check", **verb("help.data_check"))
def data_check(
    files: Annotated[list[str], argument("help.check_files")],
    fix: Annotated[bool, flag("--fix", "help.check_fix")] = False,
    out: Annotated[Path | None, option("FOLDER", "help.check_out")] = None,
    as_json: Json = False,
) -> None:
    from jumok.data.quality.survey import check

    if fix:
        from jumok.data.quality.fix import fix as repair

        report = repair(files, out)
        print(dumps(report.to_json()) if as_json else "\n".join([*report.lines(), *report.verdict()]))
        return
    forbid(Message("cli.only_fix_writes"), {"out": out})
    findings = check(files)
    for finding in findings:
        print(
            dumps(finding.to_json())
            if as_json
            else f"{describe_position(finding)}: {finding.severity}: {finding.problem}; {finding.hint}"
        )
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(64)
    if not as_json:
        print(f"{', '.join(files)}: {'fit for training' if not findings else 'usable; see the warnings'}")


@data_app.command("stats", **verb("help.data_stats"))
def data_stats(
    files: Annotated[list[str], argument("help.stats_files")],
    as_json: Json = False,
) -> None:
    from jumok.data.corpora import from_paths
    from jumok.data.quality.lengths import LengthStats, find_prepared, measure
    from jumok.data.quality.survey import CorpusStats, stats

    prepared = find_prepared(files[0]) if len(files) == 1 else None
    counts: LengthStats | CorpusStats = stats(from_paths(files)) if prepared is None else measure(prepared)
    print(dumps(counts.to_json()) if as_json else "\n".join(counts.lines()))


@data_app.command("ls", **verb("help.data_ls"))
def data_ls(
    folders: Annotated[list[str] | None, argument("help.ls_folders", "FOLDER…")] = None,
    as_json: Json = False,
) -> None:
    from jumok.data.inventory import list_data

    total = 0
    for entry in list_data(folders or ["."]):
        total += entry.size
        print(dumps(entry.to_json()) if as_json else entry.line())
    if not as_json:
        print(f"{total / 1e6:>12,.1f} MB in all")


@data_app.command("pairs", **verb("help.data_pairs"))
def data_pairs(
    run: Annotated[str, argument("help.pairs_run", "RUN")],
    rows: Annotated[list[int], argument("help.pairs_rows", "N…")],
    as_json: Json = False,
) -> None:
    from jumok.runs.preparation import read_stored

    for row, pair in zip(rows, read_stored(run, rows), strict=True):
        values = {"pair": row, "line": pair.line, "source": pair.source, "target": pair.target}
        print(dumps(values) if as_json else f"{row}\tline {pair.line}\t{pair.source}\t{pair.target}")


@data_app.command("prepare", **verb("help.data_prepare"))
def data_prepare(
    out: Annotated[Path, option("FOLDER", "help.prepare_out")],
    source: Sources = None,
    target: Targets = None,
    table: Tables = None,
    corpus: Corpus = None,
    valid_source: ValidSources = None,
    valid_target: ValidTargets = None,
    valid_table: ValidTables = None,
    shares: Shares = None,
    temperature: Temperature = None,
    columns: Columns = None,
    exclude: Excluded = None,
    recipe: Annotated[str, option("NAME", "help.prepare_recipe")] = "tiny",
    workers: Annotated[int | None, option("N", "help.prepare_workers")] = None,
    set_: Changes = None,
) -> None:
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
            print_aside(line)
    print(out)


@data_app.command("dropped", **verb("help.data_dropped"))
def data_dropped(
    folder: Annotated[str, argument("help.dropped_folder", "FOLDER")],
    reason: Annotated[str | None, option("WORDS", "help.dropped_reason")] = None,
    limit: Annotated[int, option("N", "help.dropped_limit")] = 1_000,
    as_json: Json = False,
) -> None:
    from jumok.runs.preparation import list_dropped

    for row in list_dropped(folder, reason=reason, limit=limit):
        print(dumps(row) if as_json else "\t".join(str(row[name]) for name in ("where", "reason", "source", "target")))


def generate(
    model: ModelPath,
    prompt: Annotated[str, argument("help.generate_prompt")] = "",
    length: Annotated[int, option("N", "help.generate_length")] = 200,
    temperature: Annotated[float | None, option("T", "help.generate_temperature")] = None,
    top_k: Annotated[int | None, option("K", "help.generate_top_k")] = None,
    top_p: Annotated[float | None, option("P", "help.generate_top_p")] = None,
    seed: Annotated[int | None, option("N", "help.generate_seed")] = None,
) -> None:
    from jumok.translator import Translator

    [prompt] = clean_arguments([prompt])
    pieces = Translator.load(model).generate(
        prompt, length=length, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    print(prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def fill(
    model: ModelPath,
    text: Annotated[list[str], argument("help.fill_text")],
    n_best: Annotated[int, option("N", "help.fill_n_best")] = 5,
    as_json: Json = False,
) -> None:
    from jumok.translator import Translator

    translator = Translator.load(model)
    for sentence in clean_arguments(text):
        for number, words in enumerate(translator.fill(sentence, n_best=n_best), start=1):
            candidates = [{"word": word.text, "probability": word.probability} for word in words]
            line = "  ".join(f"{word.text} {word.probability:.3f}" for word in words)
            print(dumps({"text": sentence, "mask": number, "words": candidates}) if as_json else line)


def race(
    models: Annotated[str, option("NAMES", "help.race_models")] = "transformer,rnn,convs2s,bytenet",
    source: Source = None,
    target: Target = None,
    table: Table = None,
    corpus: Corpus = None,
    valid_source: ValidSource = None,
    valid_target: ValidTarget = None,
    valid_table: ValidTable = None,
    recipe: Annotated[str, option("NAME", "help.race_recipe")] = "tiny",
    minutes: Annotated[float | None, option("MINUTES", "help.race_minutes")] = None,
    tokens: Tokens = None,
    steps: Steps = None,
    params: Annotated[int | None, option("N", "help.race_params")] = None,
    seeds: Annotated[str, option("NUMBERS", "help.race_seeds")] = "1",
    out: Annotated[Path, option("FOLDER", "help.race_out")] = Path("runs/race"),
    set_: Changes = None,
    as_json: Json = False,
) -> None:
    from jumok.cli.terminal import watching
    from jumok.config.recipe import parse_assignment

    chosen: dict[str, Any] = {
        "source": source, "target": target, "table": table, "corpus": corpus, "valid_source": valid_source,
        "valid_target": valid_target, "valid_table": valid_table, "minutes": minutes, "tokens": tokens, "steps": steps,
    }  # fmt: skip
    with watching() as (_, stop):
        from jumok.race import report, run
        from jumok.race.display import RaceDisplay

        names, numbered = [name.strip() for name in models.split(",")], parse_numbers(seeds, "seeds")
        lanes = names if len(numbered) == 1 else [f"{name}-{seed}" for seed in numbered for name in names]
        with RaceDisplay(lanes) as display:
            result = run.run(
                models=names, out=out, recipe=recipe, seeds=numbered, parameters=params, follow=display,
                say=display.say, stop=stop, changes=dict(map(parse_assignment, set_ or [])), **chosen,
            )  # fmt: skip
    print(dumps(result.figures) if as_json else "\n".join([*report.summary(result.figures), str(result.report)]))


def lab(
    name: Annotated[str | None, argument("help.lab_name")] = None,
    lang: Annotated[str | None, option("NAME", "help.lab_lang", "--lang")] = None,
    scale: Annotated[str, option("NAME", "help.lab_scale")] = "quick",
    out: Annotated[Path | None, option("FOLDER", "help.lab_out")] = None,
    runs: Annotated[Path, option("FOLDER", "help.lab_runs")] = Path("runs/lab"),
    book: Annotated[Path | None, option("FILE", "help.lab_book")] = None,
    data: Annotated[Path | None, option("FOLDER", "help.lab_data")] = None,
    seed: Annotated[int, option("N", "help.lab_seed")] = 1,
    again: Annotated[bool, flag("--again", "help.lab_again")] = False,
    judging: Annotated[bool, flag("--judge", "help.lab_judge")] = False,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "help.lab_set", "--set")] = None,
    as_json: Json = False,
) -> None:
    from jumok.cli.lab import Request, conduct, list_claims

    language = lang or messages.spoken()
    if name is None:
        forbid(Message("cli.claims_are_listed"), {"out": out, "book": book, "data": data, "set": set_})
        print("\n".join(list_claims(language)))
        return
    conduct(name, Request(language, scale, out, runs, data, seed, again, set_ or [], book, as_json, judging))


@export_app.command("ctranslate2", **verb("help.export_ctranslate2"))
def export_ctranslate2(
    model: ModelPath,
    out: Annotated[Path, option("FOLDER", "help.export_out")],
    precision: Annotated[str, option("NAME", "help.export_precision")] = "float32",
) -> None:
    from jumok.interop.ctranslate2 import export_bundle
    from jumok.storage import bundle

    print(export_bundle(bundle.read(model), out, precision=precision))


@bench_app.command("train", **verb("help.bench_train"))
def bench_train(
    recipe: Annotated[str, option("NAME", "help.bench_recipe")] = "tiny",
    source: Annotated[File, option("FILE", "help.bench_source")] = None,
    target: Annotated[File, option("FILE", "help.target")] = None,
    tokens: Annotated[int, option("N", "help.bench_tokens")] = 4_096,
    warmup_updates: Annotated[int | None, option("N", "help.bench_warmup_updates")] = None,
    updates: Annotated[int | None, option("N", "help.bench_updates")] = None,
    keep: Annotated[Path | None, option("FOLDER", "help.bench_keep")] = None,
    set_: Annotated[list[str] | None, option("KEY=VALUE", "help.set", "--set")] = None,
    as_json: Json = False,
) -> None:
    from jumok.bench.train import Updates, measure, table
    from jumok.config.recipe import parse_assignment

    figures = measure(
        recipe, source=source, target=target, changes=dict(map(parse_assignment, set_ or [])), tokens=tokens,
        updates=Updates(warmup_updates, updates), keep=keep, say=print_aside,
    )  # fmt: skip
    print(dumps(figures) if as_json else "\n".join(table(figures)))


@bench_app.command("decode", **verb("help.bench_decode"))
def bench_decode(
    model: ModelPath,
    source: Sentences,
    target: References,
    engines: Annotated[str, option("NAMES", "help.bench_engines")] = ALL_ENGINES,
    beams: Beams = "1,5",
    rounds: Rounds = 3,
    sentences: FirstSentences = 1_000,
    as_json: Json = False,
) -> None:
    from jumok.bench.decode import measure, table

    figures = measure(
        model, source=source, target=target, engines=engines.split(","), beams=parse_numbers(beams, "beams"),
        rounds=rounds, sentences=sentences, say=print_aside,
    )  # fmt: skip
    print(dumps(figures) if as_json else "\n".join(table(figures)))


@bench_app.command("serve", **verb("help.bench_serve"))
def bench_serve(
    model: ModelPath,
    source: Sentences,
    languages: Annotated[str | None, option("SOURCE,TARGET", "help.bench_languages")] = None,
    beam: Annotated[int, option("N", "help.beam")] = 4,
    shortlist: Shortlist = False,
    seconds: Annotated[float, option("SECONDS", "help.bench_seconds")] = 10.0,
    sentences: FirstSentences = 1_000,
    address: Annotated[str | None, option("HOST:PORT", "help.bench_address")] = None,
    out: Annotated[Path | None, option("FILE", "help.bench_picture")] = None,
    as_json: Json = False,
) -> None:
    from jumok.bench.serve import Settings, find_pair, measure, picture, table
    from jumok.text.lines import write_lines

    chosen = Settings(beam=beam, shortlist=shortlist, seconds=seconds, sentences=sentences)
    pair = find_pair(model, languages)
    figures = measure(model, source=source, languages=pair, chosen=chosen, address=address, say=print_aside)
    if out is not None:
        write_lines(out, picture(figures).removesuffix("\n").split("\n"))
    print(dumps(figures) if as_json else "\n".join(table(figures)))


def doctor(as_json: Json = False) -> None:
    from jumok.cli.doctor import examine

    findings = examine()
    if as_json:
        print(dumps([vars(finding) for finding in findings]))
    else:
        print("\n".join(map(str, findings)))
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)
