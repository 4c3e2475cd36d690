"""Pages of findings and races, for frames: no script runs in them, and each has an address that opens it for a minute.

    POST /v1/findings/ID/address   ->  {"address": "/v1/frames/TOKEN", "seconds": 60}
    GET  /v1/frames/TOKEN          the page

A frame cannot send a key.  Who may read a page asks for its address, which is random, opens this page and nothing else,
and soon opens nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from time import monotonic
from typing import Any

from jumok.server.refusals import Refusal, own_shape
from jumok.server.routes import Answer, Api, Call, Route

API = Api("frames", "Pages in frames", own_shape)
SECONDS = 60.0
MOST = 256  # addresses at the same time
HTML = "text/html; charset=utf-8"
HEADERS = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
}


class Frames:
    """The pages that can be opened without a key, and until when."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[Path, float]] = {}

    def lend(self, page: Path) -> dict[str, Any]:
        """Return an address that opens a page for a minute."""
        now = monotonic()
        self.pages = {token: one for token, one in self.pages.items() if one[1] > now}
        while len(self.pages) >= MOST:
            del self.pages[next(iter(self.pages))]
        token = secrets.token_urlsafe(24)
        self.pages[token] = (page, now + SECONDS)
        return {"address": f"/v1/frames/{token}", "seconds": SECONDS}

    def find(self, token: str) -> Path | None:
        page, until = self.pages.get(token, (None, 0.0))
        return page if until > monotonic() else None


async def answer(page: Path) -> Answer:
    """Return a page as a frame may show it."""
    try:
        return Answer(200, await asyncio.to_thread(page.read_bytes), HTML, HEADERS)
    except OSError:
        raise Refusal(404, "server.no_such_finding") from None


async def show(call: Call) -> Answer:
    page = call.front.workspace.frames.find(call.path["token"])
    if page is None:
        raise Refusal(404, "server.frame_expired")
    return await answer(page)


ROUTES = [
    Route("GET", "/v1/frames/{token}", show, API, "A page whose address was asked for.", None, None,
          media_type="text/html", who="everyone"),
]  # fmt: skip
