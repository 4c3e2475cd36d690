"""`jumok studio`: a server on this machine, and the browser opened on its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jumok import messages
from jumok.cli.options import Beam, LengthPenalty, Words, argument, flag, option
from jumok.cli.serve import EVERYWHERE, StateFolder, announce, find_address, find_state, name_followed, name_models
from jumok.cli.terminal import print_aside
from jumok.errors import UsageError

if TYPE_CHECKING:
    from jumok.server.lifecycle import Life


def studio(
    models: Annotated[list[str] | None, argument("help.serve_models", "[NAME=]MODEL…")] = None,
    port: Annotated[int | None, option("N", "help.serve_port")] = None,
    follow: Annotated[Words, option("NAME", "help.serve_follow", "--follow")] = None,
    state: StateFolder = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    threads: Annotated[int | None, option("N", "help.serve_threads")] = None,
    workspace: Annotated[Path | None, option("FOLDER", "help.studio_workspace")] = None,
    classroom: Annotated[bool, flag("--class", "help.serve_class")] = False,
    no_browser: Annotated[bool, flag("--no-browser", "help.studio_no_browser")] = False,
) -> None:
    from jumok.server.lifecycle import serve
    from jumok.server.page import read_bundle
    from jumok.server.settings import Settings

    if not read_bundle():
        raise UsageError("server.no_studio")
    settings = Settings().change(
        models=name_models(models or [], follow or []) or None, follow=name_followed(follow or []) or None, port=port,
        state=find_state(state), beam=beam, length_penalty=length_penalty, threads=threads, log="off",
        warm=True,
        workspace=workspace or Path.cwd(), classroom=classroom or None, host=EVERYWHERE if classroom else None,
    )  # fmt: skip

    def open_page(life: Life, port: int) -> None:
        announce(life, port)
        if not no_browser:
            open_browser(f"{find_address(life.settings, port)}/")

    with messages.speaking(messages.ENGLISH):  # what clients are told does not depend on the server's locale
        code = serve(settings, open_page)
    if code:
        raise typer.Exit(code)


def open_browser(address: str) -> None:
    """Open a page in the user's browser, in a thread: finding one may take seconds."""
    import threading
    import webbrowser

    def run() -> None:
        try:
            opened = webbrowser.open(address)
        except webbrowser.Error:
            opened = False
        if not opened:
            print_aside(f"no browser was found: open {address} yourself")

    threading.Thread(target=run, daemon=True).start()
