"""Bodies to plain values: JSON, forms, multipart and the query string, in whatever mixture clients send.

    values = await read_values(exchange, limit)      # {"q": ["a", "b"], "source": "en"}

A parameter that occurs several times is a list; null is the same as absent.  Lone surrogates, which JSON can express
and UTF-8 cannot, become U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from jumok.server.exchange import Exchange, parse_pairs
from jumok.server.refusals import Refusal

SURROGATE = re.compile("[\ud800-\udfff]")
DEEPEST = 16  # levels of a JSON value


@dataclass(frozen=True)
class Upload:
    """A file of a form."""

    name: str
    content: bytes


async def read_values(exchange: Exchange, limit: int, *, uploads: bool = False) -> dict[str, Any]:
    """Return the parameters of a request: those of the body win over those of the query string."""
    values = join_pairs(exchange.parse_query())
    if not exchange.has_body:
        return values
    kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return values | await read_multipart(exchange, limit, uploads=uploads)
    raw = await exchange.read_body(limit)
    if not raw.strip():
        return values
    if kind == "application/x-www-form-urlencoded" and not looks_like_json(raw):
        return values | join_pairs(parse_pairs(raw))
    if kind in ("application/json", "text/json") or kind.endswith("+json") or looks_like_json(raw):
        return values | drop_absent(parse_json(raw))
    return values | join_pairs(parse_pairs(raw))


def looks_like_json(raw: bytes) -> bool:
    """Whether a body without a content type, or with the one that `curl -d` adds, is a JSON object."""
    return raw.lstrip()[:1] == b"{" and raw.rstrip()[-1:] == b"}"


def join_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return names with their values; several values of one name become a list."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        name = name.removesuffix("[]")
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return {name: mend(value) for name, value in values.items()}


def parse_json(raw: bytes) -> dict[str, Any]:
    """Return the object that a body is; refuse what is not JSON, or no object, or nested too deeply."""
    try:
        value = json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Refusal(400, "server.not_json") from None
    if not isinstance(value, dict):
        raise Refusal(400, "server.not_an_object")
    mended: dict[str, Any] = mend(value)
    return mended


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def mend(value: Any, depth: int = 0) -> Any:
    """Return a value whose strings can be written as UTF-8."""
    if depth > DEEPEST:
        raise Refusal(400, "server.nested_too_deeply", limit=DEEPEST)
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, list):
        return [mend(part, depth + 1) for part in value]
    if isinstance(value, dict):
        return {mend_text(name): mend(part, depth + 1) for name, part in value.items()}
    return value


def mend_text(text: str) -> str:
    """Return a text without lone surrogates."""
    if SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def drop_absent(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not null."""
    return {name: value for name, value in values.items() if value is not None}


async def read_multipart(exchange: Exchange, limit: int, *, uploads: bool) -> dict[str, Any]:
    """Return the fields and files of a form; files only where they are expected."""
    parser = MultiPartParser(
        exchange.headers, exchange.read_chunks(limit), max_files=1 if uploads else 0, max_fields=100,
        max_part_size=exchange.limits.body_bytes,
    )  # fmt: skip
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError, UnicodeError):
        raise Refusal(400, "server.bad_form") from None
    pairs = list[tuple[str, Any]]()
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                pairs.append((name, Upload(mend_text(value.filename or ""), await value.read())))
            else:
                pairs.append((name, value))
    finally:
        await form.close()
    return join_pairs(pairs)
