"""The table of all routes: every API that a server speaks."""

from __future__ import annotations

from jumok.server import (
    completions,
    deepl,
    deepl_documents,
    deepl_glossaries,
    google,
    immersive,
    inside,
    libretranslate,
    operations,
    own,
    page,
    streaming,
    studio,
)
from jumok.server.routes import Route


def list_routes() -> list[Route]:
    """Return all routes, in the order of the description."""
    routes = [
        *libretranslate.ROUTES, *deepl.ROUTES, *deepl_glossaries.ROUTES, *deepl_documents.ROUTES, *immersive.ROUTES,
        *google.ROUTES, *own.ROUTES, *inside.ROUTES, *streaming.ROUTES, *studio.ROUTES, *completions.ROUTES,
        *page.ROUTES,
    ]  # fmt: skip
    return [*routes, *operations.make_routes(routes)]
