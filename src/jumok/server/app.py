"""The ASGI application: everything that happens to a request before and after its handler.

Order: host, origin, route, method, key in a header, rate, load; only then the body is read; key in the body; handler.
Whatever goes wrong, the client gets 4xx, 429 or 503 in the words of its own protocol.  A client that leaves cancels
its work at once.  There is no other middleware: a raw ASGI function sees the disconnect, a wrapped one may not.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from pydantic import BaseModel, TypeAdapter

from jumok.server.access import Access
from jumok.server.bodies import read_values
from jumok.server.classroom import is_teacher
from jumok.server.exchange import Answer, Exchange, Receive, Send
from jumok.server.front import Front
from jumok.server.keys import Key, Rates
from jumok.server.refusals import ClientGone, Prescribed, Refusal, deepl_shape, explain, libretranslate_shape, own_shape
from jumok.server.routes import Api, Call, Route, Table

REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SECURITY = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
BEARER = re.compile(r"(?:Bearer|DeepL-Auth-Key|ApiKey)\s+(\S+)", re.I)
DEEPL = Api("deepl", "", deepl_shape)
UNKNOWN = {"/v1/": Api("own", "", own_shape), "/v2/": DEEPL, "/v3/": DEEPL}
NO_API = Api("none", "", libretranslate_shape)


class Application:
    """Routes requests to handlers."""

    def __init__(self, front: Front, routes: list[Route]) -> None:
        self.front, self.table = front, Table(routes)
        self.access, self.rates = Access(front.settings), Rates()
        front.access = self.access

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send, self.front.settings.limits)
        given = exchange.headers.get("x-request-id", "")
        call = Call(
            self.front, exchange, _Unrouted, given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8), {}, 0.0
        )
        self.front.active += 1
        status = 0
        try:
            status = await self._serve(call)
        except ClientGone:
            self.front.metrics.cancelled.add(api=call.route.api.name)
        except asyncio.CancelledError:  # the drain time is over
            status = 503
            with suppress(Exception):
                await self._refuse(call, Refusal(503, "server.closing").retry_after(5))
        finally:
            self.front.active -= 1
            self._record(call, status)

    async def _serve(self, call: Call) -> int:
        """Answer a request; returns the status."""
        try:
            await self._admit(call)
            answer = await call.exchange.until_gone(self._work(call))
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception as error:
            refusal = explain(error)
            if refusal.text == _FAULT.text:
                self.front.log.write_fault(error, request=call.id, api=call.route.api.name)
                self.front.metrics.faults.add(kind=type(error).__name__)
            if call.exchange.began_answer:
                call.exchange.abort()
                raise ClientGone from None
            return await self._refuse(call, refusal)
        return answer

    async def _admit(self, call: Call) -> None:
        """Check everything that does not need the body, then read the body."""
        exchange = call.exchange
        self.access.check_host(exchange)
        path = self._strip_root(exchange.scope["path"])
        match = self.table.find(path)
        if match is None:
            call.route = _unknown(path)
            raise Refusal(404, "server.no_such_path")
        methods, call.path = match
        method = "GET" if exchange.method == "HEAD" and "GET" in methods else exchange.method
        call.route = methods.get(method) or next(iter(methods.values()))
        admin = call.route.who == "admins"
        self.access.check_origin(exchange, admin=admin)
        if method == "OPTIONS":
            raise Preflight(self.access.answer_preflight(", ".join([*methods, "OPTIONS"])))
        if method not in methods:
            raise Refusal(405, "server.wrong_method").add_header("allow", ", ".join([*methods, "OPTIONS"]))
        secret = self._find_secret(call, dict(exchange.parse_query()))
        body_may_hold_key = bool(call.route.api.key_in) and exchange.has_body
        if secret is not None or not body_may_hold_key:
            self._check_key(call, secret)
        call.deadline = self._find_deadline(call)
        if call.route.works:
            self.front.check_load(call.deadline)
        limit = exchange.limits.upload_bytes if call.route.uploads else exchange.limits.body_bytes
        call.values = await read_values(exchange, limit, uploads=call.route.uploads)
        if secret is None and body_may_hold_key:
            self._check_key(call, self._find_secret(call, call.values))

    def _strip_root(self, path: str) -> str:
        """Return the path without the prefix that a proxy may or may not have removed."""
        root = self.front.settings.root_path
        return path.removeprefix(root) or "/" if root and (path == root or path.startswith(f"{root}/")) else path

    def _find_secret(self, call: Call, values: Mapping[str, Any]) -> str | None:
        """Return the key that a request carries, in a header or in a parameter that its protocol has for it."""
        headers = call.exchange.headers
        if match := BEARER.fullmatch(headers.get("authorization", "").strip()):
            return match[1]
        if given := headers.get("x-api-key"):
            return given
        for name in call.route.api.key_in:
            if isinstance(given := values.get(name), str) and given:
                return given
        return None

    def _check_key(self, call: Call, secret: str | None) -> None:
        """Refuse a request without a key where keys are needed, and one that is too fast."""
        route, keys = call.route, self.front.keys
        if route.who == "everyone":
            return
        if self.front.classroom is not None and self._admit_to_class(call, secret):
            return
        if keys:
            call.key = self._require_key(route, secret)
        elif route.who == "admins" and not self.front.settings.is_loopback:
            raise Refusal(403, "server.admin_needs_key")
        rate = call.key.rate if call.key else self.front.settings.limits.requests_per_minute
        if rate:
            owner = call.key.id if call.key else self.access.find_client(call.exchange)
            if wait := self.rates.take(owner, rate):
                self.front.metrics.shed.add(api=route.api.name, reason="rate")
                refusal = Refusal(429, "server.too_fast", rate=rate)
                if route.api.too_fast:
                    refusal = Prescribed(429, route.api.too_fast.format(rate=rate))
                raise refusal.retry_after(wait)

    def _admit_to_class(self, call: Call, secret: str | None) -> bool:
        """Whether the class decides: the teacher may do everything, students need their token; a key has its rights."""
        assert self.front.classroom is not None
        if is_teacher(self.access, call.exchange):
            return True
        if secret is not None and self.front.keys.find(secret) is not None:
            return False
        self.front.classroom.check(call)
        return True

    def _require_key(self, route: Route, secret: str | None) -> Key:
        if secret is None:
            if route.api.no_key:
                raise Prescribed(*route.api.no_key)
            raise Refusal(401, "server.key_needed").add_header("www-authenticate", "Bearer")
        key = self.front.keys.find(secret)
        if key is None:
            raise Prescribed(*route.api.wrong_key) if route.api.wrong_key else Refusal(403, "server.wrong_key")
        if route.who == "admins" and not key.admin:
            raise Refusal(403, "server.key_not_admin")
        return key

    def _find_deadline(self, call: Call) -> float:
        """Return until when a request is to be answered; a client may ask for less time than it has."""
        limits = call.exchange.limits
        seconds = limits.upload_deadline_seconds if call.route.uploads else limits.deadline_seconds
        given = call.exchange.headers.get("x-timeout-ms", "")
        if given:
            if not (given.isascii() and given.isdigit() and 0 < len(given) < 10):
                raise Refusal(400, "server.bad_timeout")
            seconds = min(seconds, int(given) / 1_000)
        return monotonic() + seconds

    async def _work(self, call: Call) -> int:
        """Run the handler and send its answer; returns the status."""
        if call.route.works and call.exchange.has_left():  # before the work of splitting texts into sentences
            raise ClientGone
        if call.route.who == "users":
            await self.front.wait_until_started(call.deadline)
        answer = to_answer(await call.route.handle(call), call.route)
        await call.exchange.answer(answer, self._headers(call))
        return answer.status

    def _headers(self, call: Call) -> dict[str, str]:
        """Return the headers that every answer has."""
        cors = self.access.describe_cors(call.exchange, admin=call.route.who == "admins")
        return SECURITY | {"x-request-id": call.id} | dict(cors) | call.headers

    async def _refuse(self, call: Call, refusal: Refusal) -> int:
        """Send a refusal in the words of the protocol; returns its status."""
        if refusal.status == 429 and "rate" not in refusal.code:
            self.front.metrics.shed.add(api=call.route.api.name, reason=refusal.code)
        headers = self._headers(call) | refusal.headers
        if isinstance(refusal, Preflight):
            answer = Answer(204, b"")
        else:
            answer = Answer(refusal.status, dump(call.route.api.shape(refusal, call.id)))
        with suppress(ClientGone):
            await call.exchange.answer(answer, headers)
        return answer.status

    def _record(self, call: Call, status: int) -> None:
        """Count and log a request that has ended."""
        seconds, api = monotonic() - call.exchange.began, call.route.api.name
        self.front.metrics.requests.add(api=api, code=str(status or 499))
        self.front.metrics.seconds.observe(seconds, api=api)
        if call.texts:
            self.front.metrics.texts.add(call.texts, api=api)
            self.front.metrics.characters.add(call.characters, api=api)
        self.front.log.write(
            "request", request=call.id, api=api, method=call.exchange.method, route=call.route.path,
            status=status or 499, ms=round(seconds * 1_000, 2), texts=call.texts or None,
            characters=call.characters or None, model=call.headers.get("x-model"),
            key=call.key.id if call.key else None,
        )  # fmt: skip


class Preflight(Refusal):
    """The answer to OPTIONS, which is no refusal but leaves by the same door."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        Exception.__init__(self, "preflight")
        self.status, self.text, self.code, self.headers = 204, "", "preflight", dict(headers)


_FAULT = Refusal(503, "server.fault")


async def _no_handler(call: Call) -> Any:
    raise Refusal(404, "server.no_such_path")


_Unrouted = Route("GET", "", _no_handler, NO_API, "", who="everyone")


def _unknown(path: str) -> Route:
    """Return a route for a path that does not exist, so that the refusal has the shape of the nearest protocol."""
    api = next((api for prefix, api in UNKNOWN.items() if path.startswith(prefix)), NO_API)
    return Route("GET", "", _no_handler, api, "", who="everyone")


def to_answer(value: Any, route: Route) -> Answer:
    """Return what a handler returned as an answer."""
    if isinstance(value, Answer):
        return value
    if value is None:
        return Answer(204, b"")
    if isinstance(value, BaseModel):
        return Answer(route.status, value.model_dump_json(by_alias=True, exclude_none=True).encode())
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return Answer(route.status, TypeAdapter(list[Any]).dump_json(value, by_alias=True, exclude_none=True))
    return Answer(route.status, dump(value))


def dump(value: Any) -> bytes:
    """Return plain values as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
