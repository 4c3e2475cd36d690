"""The page about the study notes, for a frame in the studio: statements, verdicts, numbers, commands.  No torch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from jumok.server import frames
from jumok.server.own import Closed
from jumok.server.refusals import own_shape
from jumok.server.routes import Answer, Api, Call, Route
from jumok.storage import bundle

API = Api("notes", "The study notes", own_shape)


class NotesRequest(Closed):
    language: Literal["en", "ko"] = Field(default="en")


async def show_notes(call: Call) -> Answer:
    return await frames.answer(await find_page(call))


async def lend_notes(call: Call) -> dict[str, Any]:
    return call.front.workspace.frames.lend(await find_page(call))


async def find_page(call: Call) -> Path:
    """Return the page in the language that a request asks for, as a file; it is written anew each time."""
    request = call.parse(NotesRequest)
    page: Path = call.front.workspace.pages / f"notes-{request.language}.html"
    await asyncio.to_thread(write_page, page, request.language)
    return page


def write_page(path: Path, language: str) -> None:
    """Write the page; its texts and numbers are in the package."""
    from jumok.lab.notes.page import read_page, to_html

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    bundle.write_file(path, to_html(read_page(), language).encode())


ROUTES = [
    Route("GET", "/v1/notes/page", show_notes, API, "The page about the study notes.", NotesRequest, None,
          media_type="text/html", who="admins"),
    Route("POST", "/v1/notes/address", lend_notes, API, "An address that opens the page for a minute.", NotesRequest,
          dict[str, Any], who="admins"),
]  # fmt: skip
