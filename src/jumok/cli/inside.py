"""`jumok inside`: a walk through one attention, in the terminal and as a page."""

import sys
from typing import Annotated

from jumok import messages
from jumok.cli.options import Device, File, Json, ModelPath, argument, option
from jumok.cli.terminal import dumps
from jumok.cli.translate import clean_arguments, load_translator


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
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    translator = load_translator(model, device=device)
    [text] = clean_arguments([text])

    from jumok.inside.telling import to_json, to_lines, walk_page
    from jumok.inside.walk import Spot, take_walk
    from jumok.text.lines import write_lines

    spot = Spot(kind=kind, layer=layer - 1, head=head - 1, at=None if at is None else at - 1)
    walk = take_walk(translator, text, target, spot=spot, language=lang or messages.spoken())
    print(dumps(to_json(walk)) if as_json else "\n".join(to_lines(walk)))
    if html is not None:
        write_lines(html, walk_page(walk).removesuffix("\n").split("\n"))
        print(messages.text("cli.written", file=html), file=sys.stderr)
