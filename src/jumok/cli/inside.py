"""`jumok inside`: a walk through one attention, in the terminal and as a page."""

import sys
from typing import TYPE_CHECKING, Annotated

from jumok import messages
from jumok.cli.options import Device, File, Json, ModelPath, argument, flag, option
from jumok.cli.terminal import dumps
from jumok.cli.translate import clean_arguments, forbid, load_translator
from jumok.messages import Message

if TYPE_CHECKING:
    from jumok.translator import Translator


def inside(
    model: ModelPath,
    text: Annotated[str, argument("help.look_text")],
    target: Annotated[str | None, option("TEXT", "help.inside_target")] = None,
    kind: Annotated[str | None, option("KIND", "help.inside_kind")] = None,
    layer: Annotated[int, option("N", "help.inside_layer")] = 1,
    head: Annotated[int, option("N", "help.inside_head")] = 1,
    at: Annotated[int | None, option("N", "help.inside_at")] = None,
    html: Annotated[File, option("FILE", "help.inside_html")] = None,
    lang: Annotated[str | None, option("LANGUAGE", "help.inside_lang")] = None,
    steps: Annotated[bool, flag("--steps", "help.inside_steps")] = False,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    translator = load_translator(model, device=device)
    [text] = clean_arguments([text])

    if steps:
        given = {"kind": kind, "html": html, "at": at}
        forbid(Message("cli.steps_are_listed"), given)
        print_steps(translator, text, target, lang or messages.spoken(), as_json=as_json)
        return

    from jumok.inside.telling import to_json, to_lines, walk_page
    from jumok.inside.walk import Spot, take_walk
    from jumok.text.lines import write_lines

    spot = Spot(kind=kind, layer=layer - 1, head=head - 1, at=None if at is None else at - 1)
    walk = take_walk(translator, text, target, spot=spot, language=lang or messages.spoken())
    print(dumps(to_json(walk)) if as_json else "\n".join(to_lines(walk)))
    if html is not None:
        write_lines(html, walk_page(walk).removesuffix("\n").split("\n"))
        print(messages.text("cli.written", file=html), file=sys.stderr)


def print_steps(model: "Translator", text: str, target: str | None, language: str, *, as_json: bool) -> None:
    """Print what goes in and out at every step of decoding."""
    from jumok.inside.telling import steps_to_lines
    from jumok.inside.views import check_language, steps

    check_language(language)
    view = steps(model, text, target)
    lines = [f"{text} → {view['translation']}", "", *steps_to_lines(view, language)]
    print(dumps(view) if as_json else "\n".join(lines))
