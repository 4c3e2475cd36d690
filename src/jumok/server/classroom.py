"""A class: students on the local network translate and look inside, the teacher on this machine shows the way.

    jumok studio runs/demo --class

The join code is six characters, drawn when the server starts, compared in constant time, and tried a few times per
minute only.  It gives a token, as a cookie that scripts cannot read and for a header.  The teacher is whoever sits at
this machine (a connection from loopback) or has an administrator's key.  Students reach what translates; they cannot
start, stop or read runs, and nothing they do is kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic import Field

from jumok.server.keys import Rates
from jumok.server.own import Closed
from jumok.server.refusals import Refusal, own_shape
from jumok.server.routes import Answer, Api, Call, Route
from jumok.server.streaming import write_event
from jumok.server.watching import stream

if TYPE_CHECKING:
    from jumok.server.access import Access
    from jumok.server.exchange import Exchange

API = Api("class", "Class", own_shape)
ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without what looks alike
LENGTH = 6
STUDENTS = 300  # tokens that are given out
COOKIE, HEADER = "jumok_class", "x-class"
TRIES, ALL_TRIES = 10, 120  # codes per minute, of one address and of all
EVERY = 0.25  # seconds between two looks at where the teacher is
ACTIONS = 600  # requests per minute of one student
FORBIDDEN = ("deepl", "libretranslate", "google", "immersive", "openai", "operations")  # APIs that students do not need


class JoinRequest(Closed):
    code: str = Field(min_length=1, max_length=40)


class ViewRequest(Closed):
    view: str = Field(max_length=8_000, pattern=r"^#/[a-z]")


class Classroom:
    """The class of one server."""

    def __init__(self) -> None:
        self.code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        self.tokens: set[bytes] = set()
        self.rates = Rates()
        self.view, self.number = "", 0
        self.present = 0  # students whose page is open
        self.address = ""  # what students open

    def join(self, code: str, client: str) -> str:
        """Return a token for the right code."""
        wait = self.rates.take(f"join {client}", TRIES) or self.rates.take("join", ALL_TRIES)
        if wait:
            raise Refusal(429, "server.too_many_codes").retry_after(wait)
        given = code.upper().replace("-", "").replace(" ", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.code.encode()):
            raise Refusal(403, "server.wrong_code")
        if len(self.tokens) >= STUDENTS:
            raise Refusal(429, "server.class_full", limit=STUDENTS).retry_after(60)
        token = secrets.token_urlsafe(24)
        self.tokens.add(_hash(token))
        return token

    def find_token(self, exchange: Exchange) -> bytes | None:
        """Return the token that a request carries, if it is one of the class."""
        given = exchange.headers.get(HEADER, "")
        for part in exchange.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            given = given or (value if name == COOKIE else "")
        if not given or len(given) > 100:
            return None
        match, asked = None, _hash(given)
        for token in self.tokens:
            if hmac.compare_digest(token, asked):
                match = token
        return match

    def check(self, call: Call) -> None:
        """Refuse a request of somebody who is not in the class, of a student to what is not theirs, or one too many."""
        token = self.find_token(call.exchange)
        if token is None:
            raise Refusal(401, "server.join_first")
        if call.route.who == "admins" or call.route.api.name in FORBIDDEN:
            raise Refusal(403, "server.teacher_only")
        if wait := self.rates.take(token.hex(), ACTIONS):
            raise Refusal(429, "server.too_fast", rate=ACTIONS).retry_after(wait)

    def show(self, view: str) -> None:
        """Send everybody to a view."""
        self.view, self.number = view, self.number + 1


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def is_teacher(access: Access, exchange: Exchange) -> bool:
    """Whether a request comes from this machine."""
    try:
        return ipaddress.ip_address(access.find_client(exchange)).is_loopback
    except ValueError:
        return False


def find_own_address() -> str:
    """Return the address of this machine in the local network, as far as it has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


async def show_class(call: Call) -> dict[str, Any]:
    room = call.front.classroom
    if room is None:
        return {"active": False, "role": "alone"}
    if is_teacher(call.front.access, call.exchange):
        link = f"{room.address}/#/translate?join={room.code}"
        return {"active": True, "role": "teacher", "code": room.code, "link": link, "students": room.present}
    return {"active": True, "role": "student" if room.find_token(call.exchange) is not None else "guest"}


async def join_class(call: Call) -> Answer:
    request, room = call.parse(JoinRequest), call.front.classroom
    if room is None:
        raise Refusal(404, "server.no_class")
    token = room.join(request.code, call.front.access.find_client(call.exchange))
    secure = "; Secure" if call.front.settings.certificate is not None else ""
    cookie = f"{COOKIE}={token}; Path={call.front.settings.root_path or '/'}; HttpOnly; SameSite=Strict{secure}"
    body = f'{{"joined":true,"token":"{token}"}}'.encode()
    return Answer(200, body, headers={"set-cookie": cookie})


async def show_code(call: Call) -> Answer:
    """The link of the class as a picture that telephones read."""
    room = call.front.classroom
    if room is None:
        raise Refusal(404, "server.no_class")
    import io

    import segno

    picture = io.BytesIO()
    segno.make(f"{room.address}/#/translate?join={room.code}", error="m", micro=False).save(
        picture, kind="svg", scale=4, border=4, xmldecl=False, dark="#000", light="#fff"
    )
    return Answer(200, picture.getvalue(), "image/svg+xml", {"content-security-policy": "default-src 'none'"})


async def send_view(call: Call) -> dict[str, Any]:
    request, room = call.parse(ViewRequest), call.front.classroom
    if room is None:
        raise Refusal(404, "server.no_class")
    room.show(request.view)
    return {"sent": room.number, "students": room.present}


async def follow_class(call: Call) -> Answer:
    room = call.front.classroom
    if room is None:
        raise Refusal(404, "server.no_class")

    async def events() -> AsyncIterator[bytes]:
        room.present += 1
        try:
            seen = room.number
            yield write_event("joined", "0", {"view": room.view})
            while not call.front.closing:
                if room.number != seen:
                    seen = room.number
                    yield write_event("view", str(seen), {"view": room.view})
                await asyncio.sleep(EVERY)
        finally:
            room.present -= 1

    return stream(call, events())


ROUTES = [
    Route("GET", "/v1/class", show_class, API, "Whether there is a class, and who is asking.", None, dict[str, Any],
          who="everyone"),
    Route("POST", "/v1/class/join", join_class, API, "Join the class with its code.", JoinRequest, dict[str, Any],
          who="everyone"),
    Route("GET", "/v1/class/code", show_code, API, "The link of the class as a QR code.", None, None,
          media_type="image/svg+xml", who="admins"),
    Route("POST", "/v1/class/view", send_view, API, "Send everybody to a view.", ViewRequest, dict[str, Any],
          who="admins"),
    Route("GET", "/v1/class/events", follow_class, API, "Follow the teacher, as server-sent events.", None, None,
          media_type="text/event-stream"),
]  # fmt: skip
