"""The verb `jumok example`: lists the worked examples, or computes one or all of them."""

from pathlib import Path
from typing import Annotated

from jumok import messages
from jumok.cli.options import Json, argument, option
from jumok.cli.terminal import dumps
from jumok.cli.translate import forbid
from jumok.messages import Message
from jumok.reports.drawing import fit


def example(
    name: Annotated[str | None, argument("help.example_name")] = None,
    lang: Annotated[str | None, option("NAME", "help.lab_lang", "--lang")] = None,
    out: Annotated[Path | None, option("FOLDER", "help.example_out")] = None,
    as_json: Json = False,
) -> None:
    from jumok.cli.lab import check_language
    from jumok.lab import examples
    from jumok.lab.examples.example import WORDS, record, to_lines, write

    language = lang or messages.spoken()
    check_language(language)
    if name is None:
        forbid(Message("cli.examples_are_listed"), {"out": out})
        print("\n".join(f"{fit(one, 12)} {WORDS(f'{one}.title').of(language)}" for one in examples.NAMES))
        return
    for number, one in enumerate(examples.NAMES if name == "all" else [name]):
        chosen = examples.get(one)
        values = record(chosen)
        lines = [dumps(values)] if as_json else to_lines(chosen, values["numbers"], language)
        print("\n".join([""] * (number > 0 and not as_json) + lines), flush=True)
        if out is not None:
            write(values, out)
