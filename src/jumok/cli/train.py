"""The verb `jumok train`: a run, or only a forecast of it.

What is imported here is light, because `jumok --help` imports it, too: a run is loaded when signals are heard.
"""

import os
from pathlib import Path
from typing import Annotated, Any

from jumok.cli.options import (
    Changes,
    Columns,
    Corpus,
    Device,
    Excluded,
    File,
    Shares,
    SourceLanguage,
    Sources,
    Steps,
    Tables,
    TargetLanguage,
    Targets,
    Temperature,
    Tokens,
    ValidSources,
    ValidTables,
    ValidTargets,
    flag,
    option,
)
from jumok.cli.terminal import check_device, watching


def train(
    source: Sources = None,
    target: Targets = None,
    table: Tables = None,
    text: Annotated[File, option("FILE", "help.train_text")] = None,
    corpus: Corpus = None,
    data: Annotated[File, option("FOLDER", "help.train_data")] = None,
    valid_source: ValidSources = None,
    valid_target: ValidTargets = None,
    valid_table: ValidTables = None,
    shares: Shares = None,
    temperature: Temperature = None,
    columns: Columns = None,
    exclude: Excluded = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    valid_text: Annotated[File, option("FILE", "help.train_valid_text")] = None,
    recipe: Annotated[str, option("NAME", "help.train_recipe")] = "auto",
    model: Annotated[str | None, option("NAME", "help.train_model")] = None,
    begin: Annotated[str | None, option("RUN", "help.train_from", "--from")] = None,
    out: Annotated[Path | None, option("FOLDER", "help.train_out")] = None,
    minutes: Annotated[float | None, option("MINUTES", "help.train_minutes")] = None,
    steps: Steps = None,
    epochs: Annotated[int | None, option("N", "help.train_epochs")] = None,
    tokens: Tokens = None,
    until_bleu: Annotated[float | None, option("BLEU", "help.train_until_bleu")] = None,
    compile: Annotated[bool, flag("--compile", "help.train_compile")] = False,
    plan: Annotated[bool, flag("--plan", "help.train_plan")] = False,
    exact: Annotated[bool, flag("--exact", "help.train_exact")] = False,
    set_: Changes = None,
    device: Device = "cpu",
) -> None:
    choices: dict[str, Any] = {
        "text": text, "corpus": corpus, "prepared": data, "valid_text": valid_text, "recipe": recipe, "model": model,
        "begin": begin, "minutes": minutes, "steps": steps, "epochs": epochs, "tokens": tokens,
        "source_language": source_language, "target_language": target_language,
    }  # fmt: skip
    mixing: dict[str, Any] = {"shares": shares, "temperature": temperature, "columns": columns, "exclude": exclude}
    with watching() as (sinks, stop):  # from here on signals are heard, also while torch is being loaded
        from jumok.config.recipe import parse_assignment
        from jumok.machine import process_began
        from jumok.runs import experiment
        from jumok.runs.choose import Named, gather
        from jumok.training.distributed import join

        changes = dict(map(parse_assignment, set_ or []))
        changes |= {"training.compile": True} if compile else {}
        choices["changes"] = changes | ({} if until_bleu is None else {"training.until_bleu": until_bleu})
        valid = Named(valid_source, valid_target, valid_table)
        choices |= gather(Named(source, target, table), valid, **mixing)
        check_device(device)
        began = process_began()
        if plan:
            return print_forecast(choices, out=out, device=device, began=began)
        around: dict[str, Any] = {"device": device, "sinks": sinks, "stop": stop, "began": began}
        world = join(os.environ, device)
        run = experiment.train(**choices, **around, out=out, exact=exact, world=world)
        world.leave()
        if world.first:
            print(run.folder)


def print_forecast(choices: dict[str, Any], *, out: Path | None, device: str, began: float) -> None:
    """Probe for some seconds and print the forecast."""
    from jumok.runs.choose import choose, settle
    from jumok.runs.forecast import probe

    settled, folder, why = settle(out, choices)
    forecast = probe(choose(**settled), folder, device=device, began=began)
    print("\n".join([*filter(None, [why]), *forecast.lines()]))
