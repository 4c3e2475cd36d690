"""`jumok model`: what a finished model is, and changes to it; what a verb calls is imported inside it."""

from pathlib import Path
from typing import Annotated

import typer

from jumok.cli.options import (
    ALL_ENGINES,
    SETTINGS,
    Beams,
    File,
    FirstSentences,
    Json,
    ModelPath,
    References,
    Rounds,
    Sentences,
    argument,
    option,
    verb,
)
from jumok.cli.terminal import dumps, list_values, parse_numbers, print_aside
from jumok.errors import UsageError

model_app = typer.Typer(
    **verb("help.model_verbs"), no_args_is_help=True, rich_markup_mode=None, context_settings=SETTINGS
)


@model_app.command("info", **verb("help.model_info"))
def model_info(model: ModelPath, as_json: Json = False) -> None:
    from jumok.storage.info import describe

    card = describe(model)
    if not as_json:
        card["languages"] = " → ".join(card["languages"] or ["unknown"])
    print(dumps(card) if as_json else "\n".join(list_values(card)))


@model_app.command("set-languages", **verb("help.model_set_languages"))
def model_set_languages(
    run: Annotated[str, argument("help.labelled_run", "RUN")],
    source: Annotated[str, argument("help.labelled_source", "SOURCE")],
    target: Annotated[str, argument("help.labelled_target", "TARGET")],
) -> None:
    from jumok.storage.labels import set_languages

    print("\n".join(map(str, set_languages(run, source, target))))


@model_app.command("average", **verb("help.model_average"))
def model_average(
    run: Annotated[str, argument("help.average_run", "RUN")],
    last: Annotated[int, option("N", "help.average_last")] = 5,
    out: Annotated[Path | None, option("FOLDER", "help.average_out")] = None,
) -> None:
    from jumok.runs.averaging import average_run

    if last < 1:
        raise UsageError("cli.too_few_checkpoints", checkpoints=last)
    print(average_run(run, last=last, out=out))


@model_app.command("shortlist", **verb("help.model_shortlist"))
def model_shortlist(
    model: ModelPath,
    source: Annotated[File, option("FILE", "help.other_source")] = None,
    target: Annotated[File, option("FILE", "help.target")] = None,
) -> None:
    from jumok.runs.preparation import add_shortlist

    print(add_shortlist(model, source, target))


@model_app.command("compare", **verb("help.model_compare"))
def model_compare(
    models: Annotated[list[str], argument("help.models", "MODEL…")],
    source: Sentences,
    target: References,
    engines: Annotated[str, option("NAMES", "help.compare_engines")] = ALL_ENGINES,
    beams: Beams = "1,5",
    rounds: Rounds = 3,
    sentences: FirstSentences = 1_000,
    out: Annotated[Path | None, option("FILE", "help.compare_out")] = None,
    as_json: Json = False,
) -> None:
    from jumok.bench.front import compare, picture, table
    from jumok.text.lines import write_lines

    figures = compare(
        models, source=source, target=target, engines=engines.split(","), beams=parse_numbers(beams, "beams"),
        rounds=rounds, sentences=sentences, say=print_aside,
    )  # fmt: skip
    if out is not None:
        write_lines(out, picture(figures).removesuffix("\n").split("\n"))
    print(dumps(figures) if as_json else "\n".join(table(figures)))
