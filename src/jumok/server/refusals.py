"""Refusals: what a client is told instead of a translation, and how each API writes it.

    raise Refusal(413, "server.body_too_large", limit=2_000_000)

A refusal names a text of the catalogue.  Texts that a protocol prescribes word for word are given as they are, with
`Prescribed`.  No refusal shows a path, a traceback or another request's data.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Self

from jumok import messages
from jumok.errors import DiskError, JumokError
from jumok.service.errors import Overloaded, ServiceError

CODES = {
    400: "invalid_request", 401: "key_needed", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
    408: "too_slow", 409: "conflict", 411: "length_needed", 413: "too_large", 414: "too_large", 415: "unsupported",
    421: "wrong_host", 422: "refused", 429: "overloaded", 431: "too_large", 456: "quota", 503: "unavailable",
    504: "deadline",
}  # fmt: skip


STATUSES = {"documents.too_many_jobs": 429, "documents.no_space": 429}  # of errors that are not the client's


class Refusal(Exception):
    """An answer of status 4xx, 429 or 503; `key` names its text in the catalogue."""

    def __init__(self, status: int, key: str, /, **values: Any) -> None:
        self.status, self.headers = status, dict[str, str]()
        self.text = messages.text(key, **values)
        self.code = key.partition(".")[2]
        super().__init__(self.text)

    def retry_after(self, seconds: float) -> Self:
        """Tell the client when to try again."""
        self.headers["retry-after"] = str(max(1, ceil(seconds)))
        return self

    def add_header(self, name: str, value: str) -> Self:
        """Add a header to the answer."""
        self.headers[name] = value
        return self


class Prescribed(Refusal):
    """A refusal whose words a protocol prescribes."""

    def __init__(self, status: int, text: str) -> None:
        Exception.__init__(self, text)
        self.status, self.text, self.headers = status, text, {}
        self.code = CODES.get(status, "refused")


class ClientGone(Exception):
    """The client closed its connection; nobody reads the answer."""


def explain(error: Exception) -> Refusal:
    """Return the refusal that an error of the service or of the user's text is; 503 for what nobody expected."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, DiskError):
        return Refusal(503, "server.cannot_store").retry_after(60)
    if isinstance(error, JumokError):
        status = error.status if isinstance(error, ServiceError) else STATUSES.get(error.key, 400)
        refusal = Prescribed(status, error.what)  # without where: a place on this machine is nobody else's business
        refusal.code = error.key.partition(".")[2]
        if status in (429, 503):
            refusal.retry_after(error.retry_after if isinstance(error, Overloaded) else 1)
        return refusal
    return Refusal(503, "server.fault").retry_after(1)


Shape = Callable[[Refusal, str], dict[str, Any]]  # refusal and request id -> body of the answer


def libretranslate_shape(refusal: Refusal, request: str) -> dict[str, Any]:
    """LibreTranslate, Immersive Translate."""
    return {"error": refusal.text}


def deepl_shape(refusal: Refusal, request: str) -> dict[str, Any]:
    """DeepL."""
    return {"message": refusal.text}


def google_shape(refusal: Refusal, request: str) -> dict[str, Any]:
    """Google."""
    reason = {"message": refusal.text, "domain": "global", "reason": refusal.code}
    return {"error": {"code": refusal.status, "message": refusal.text, "errors": [reason]}}


def openai_shape(refusal: Refusal, request: str) -> dict[str, Any]:
    """OpenAI."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.text, "type": kind, "param": None, "code": refusal.code}}


def own_shape(refusal: Refusal, request: str) -> dict[str, Any]:
    """Ours."""
    return {"error": {"code": refusal.code, "message": refusal.text, "request_id": request}}
