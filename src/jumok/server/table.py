"""The table of all routes: every API that a server speaks."""

from __future__ import annotations

from jumok.server import (
    classroom,
    completions,
    deepl,
    deepl_documents,
    deepl_glossaries,
    findings,
    frames,
    google,
    immersive,
    inside,
    libretranslate,
    notes,
    operations,
    own,
    page,
    races,
    runs,
    streaming,
    studio,
    watching,
)
from jumok.server.routes import Route


def list_routes() -> list[Route]:
    """Return all routes, in the order of the description."""
    routes = [
        *libretranslate.ROUTES, *deepl.ROUTES, *deepl_glossaries.ROUTES, *deepl_documents.ROUTES, *immersive.ROUTES,
        *google.ROUTES, *own.ROUTES, *inside.ROUTES, *streaming.ROUTES, *studio.ROUTES, *completions.ROUTES,
        *runs.ROUTES, *watching.ROUTES, *findings.ROUTES, *races.ROUTES, *notes.ROUTES, *frames.ROUTES,
        *classroom.ROUTES, *page.ROUTES,
    ]  # fmt: skip
    return [*routes, *operations.make_routes(routes)]
