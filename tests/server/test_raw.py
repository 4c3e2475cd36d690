"""Whatever bytes arrive, a server answers 2xx, 4xx, 429 or 503, or closes, and is alive afterwards (promise S1)."""

import json
import os
import random
import re
import signal
import socket
import time
from collections import Counter

import pytest

from tests.support.running import read_all, status_of

HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"q":"a b","source":"en","target":"de"}'
FINE = HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(BODY) + BODY
GET = b"GET /languages HTTP/1.1\r\nHost: localhost\r\n"


def chunked(*chunks: bytes) -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + b"".join(chunks)


HOSTILE = {
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), {400}),
    "only line ends": (b"\r\n" * 50, {0, 400, 408}),
    "zero bytes": (bytes(4_096), {400}),
    "an unknown method": (b"BREW /translate HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 405}),
    "CONNECT": (b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404, 405}),
    "a method of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 0}),
    "version 9": (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", {400}),
    "version 0.9": (b"GET /\r\n\r\n", {400, 0}),
    "a huge header": (GET + b"X: " + b"a" * 100_000 + b"\r\n\r\n", {431}),
    "many headers": (GET + b"".join(b"X%d: y\r\n" % n for n in range(20_000)) + b"\r\n", {431}),
    "headers without an end": (GET + b"X: " + b"a" * 3_000_000, {431}),
    "a huge address": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {431}),
    "a header without a colon": (GET + b"Broken\r\n\r\n", {400}),
    "a header with a zero byte": (GET + b"X: a\x00b\r\n\r\n", {400}),
    "a folded header": (GET + b"X: a\r\n b\r\n\r\n", {200, 400}),
    "a line feed alone": (b"GET /languages HTTP/1.1\nHost: localhost\n\n", {200, 400}),
    "two lengths": (HEAD + b"Content-Length: 39\r\nContent-Length: 40\r\n\r\n" + BODY, {400}),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n", {400}),
    "a length that is no number": (HEAD + b"Content-Length: many\r\n\r\n", {400}),
    "a length beyond 64 bits": (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", {400}),
    "a length beyond the limit": (HEAD + b"Content-Length: 99999999\r\n\r\n", {413}),
    "length and chunks (smuggling)": (
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", {400},
    ),
    "chunks named twice": (
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", {400},
    ),
    "an unknown transfer encoding": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", {400}),
    "a chunk size that is no number": (chunked(b"zz\r\nabc\r\n0\r\n\r\n"), {400, 0}),
    "a negative chunk size": (chunked(b"-5\r\nabcde\r\n0\r\n\r\n"), {400, 0}),
    "a chunk size beyond 64 bits": (chunked(b"FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n"), {400, 0}),
    "a chunk that is longer than it says": (chunked(b"2\r\nabcdef\r\n0\r\n\r\n"), {400, 0}),
    "no host": (b"GET /languages HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (GET + b"Host: evil.example\r\n\r\n", {400}),
    "an absolute address": (
        b"GET http://evil.example/languages HTTP/1.1\r\nHost: localhost\r\n\r\n", {200, 400, 403, 404},
    ),
    "bytes in the address": (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404}),
    "escapes in the address": (b"GET /%00%ff%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404}),
    "an upgrade": (GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", {200, 400, 426}),
    "an upgrade to HTTP/2": (
        GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", {200, 400},
    ),
    "an unknown expectation": (
        HEAD + b"Expect: 200-maybe\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, {200, 417},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def detecting(running):
    """The server after the statistics of languages were loaded, which a busy machine may not do before a deadline."""
    until = time.monotonic() + 120.0
    while running.request("/detect", {"q": "a dog"})[0] == 503:
        assert time.monotonic() < until
    return running


def check(answer: bytes, allowed: set[int]) -> None:
    status = status_of(answer)
    assert status in allowed, answer[:300]
    assert b"Traceback" not in answer
    assert b"/src/" not in answer


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused_and_the_server_lives(running, name, kept):
    raw, allowed = HOSTILE[name]
    check(running.send_raw(raw, end=True) or running.send_raw(raw), allowed)
    assert running.is_alive()
    kept("S1", "hostile bytes on a socket")


TRAVERSALS = [
    "/download_file/..%2f..%2f..%2fetc%2fpasswd", "/download_file/../../../../etc/passwd", "/assets/..%2fapp.py",
    "/assets/../app.py", "/assets/%2e%2e%2fsettings.py", "/v2/glossaries/..%2f..%2fkeys.json", "//etc/passwd",
    "/v1/models/..%2f..%2ftmp/reload", "/download_file/%2fetc%2fpasswd", "/download_file/keys.json", "/keys.json",
    "/v2/document/..%2fx/result", "/assets/page.js%00.html", "/download_file/" + "a" * 5_000,
]  # fmt: skip


@pytest.mark.parametrize("path", TRAVERSALS)
def test_paths_lead_nowhere_else(running, path):
    for method in (b"GET", b"POST"):
        answer = running.send_raw(
            method
            + b" "
            + path.encode()
            + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        assert status_of(answer) in {400, 403, 404, 405}
        assert b"root:" not in answer


def test_three_megabytes_in_chunks_of_six_bytes(running, kept):
    text = json.dumps({"q": "a " * 1_500_000, "source": "en", "target": "de"}).encode()
    raw = b"".join(b"%x\r\n%s\r\n" % (len(text[n : n + 6]), text[n : n + 6]) for n in range(0, len(text), 6))
    began = time.monotonic()
    check(running.send_raw(chunked(raw, b"0\r\n\r\n")), {400, 408})
    assert time.monotonic() - began < 15
    assert running.is_alive()
    kept("S1", "3 MB in chunks of 6 bytes", count=len(text) // 6)


def test_a_pipeline_is_answered_in_order(running):
    raw = b"".join(GET + b"X-Request-Id: n%d\r\n\r\n" % n for n in range(20))
    answer = running.send_raw(raw + GET + b"Connection: close\r\nX-Request-Id: last\r\n\r\n")
    ids = [line.split(b": ")[1] for line in answer.split(b"\r\n") if line.startswith(b"x-request-id")]
    assert ids == [b"n%d" % n for n in range(20)] + [b"last"]


def test_slow_headers_and_slow_bodies_are_cut_off(running):
    for begin, allowed in ((b"", {0}), (GET, {408}), (FINE[:-10], {408})):
        began = time.monotonic()
        with running.connect() as connection:
            connection.sendall(begin)
            answer = read_all(connection, silence=8)
        check(answer, allowed)
        assert time.monotonic() - began < 5


def test_a_client_that_does_not_read_is_cut_off(running):
    with running.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try:
            connection.settimeout(10)
            for _ in range(400):  # tens of megabytes of answers that nobody reads
                connection.sendall(request)
        except (TimeoutError, OSError):
            pass
        assert running.is_alive()


def test_many_slow_clients_do_not_keep_others_out(running, tries, kept):
    slow = [running.connect() for _ in range(tries(100, 500))]
    try:
        for connection in slow:
            connection.sendall(GET[:20])
        began = time.monotonic()
        assert running.translate("a b") is not None
        assert time.monotonic() - began < 2
    finally:
        for connection in slow:
            connection.close()
    assert running.is_alive()
    kept("S1", "connections at once that never finish their request; others are answered", count=len(slow))


def test_half_open_sockets_leave_nothing_behind(running, tries, kept):
    count = tries(30, 500)
    for n in range(count):
        with running.connect() as connection:
            connection.sendall(FINE[: 20 + n * 5 % 150])
    wait_until_idle(running)
    kept("S1", "connections closed in the middle of a request", count=count)


def wait_until_idle(running, patience: float = 60.0) -> None:
    """Wait until the only request is the one that asks, and no sentence waits or is translated."""
    until = time.monotonic() + patience
    busy = r"^jumok_(?:active_requests|queue_sentences|running_sentences) (\d+)"
    while sum(map(int, re.findall(busy, running.request("/metrics")[1].decode(), re.MULTILINE))) > 1:
        assert time.monotonic() < until, "requests whose client has left are still there"
        time.sleep(0.005)
    assert running.process.poll() is None


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"1", b'"a"', b"{", b"{}", b"[" * 100_000, b'{"q":' * 5_000, b'{"q":1e999}',
        b'{"q":NaN,"source":"en","target":"de"}', b'{"q":' + b"9" * 10_000 + b"}", b"\xff\xfe{}", b"\xef\xbb\xbf{}",
        b'{"q":{"a":1},"source":"en","target":"de"}', b'{"q":[["a"]],"source":"en","target":"de"}',
        b'{"q":[1,null,"a"],"source":"en","target":"de"}', b'{"q":"a","source":["en"],"target":{"x":1}}',
        b'{"q":"a","source":"en","target":"de","alternatives":{}}', b'{"q":"a","source":"en","target":"de","format":7}',
        b'{"q":true,"source":"en","target":"de"}', b'{"q":"a\\u0000b","source":"en","target":"de"}',
        b'{"q":"\\ud800","source":"en","target":"de"}', b'{"q":"a \\udfff\\ud800 b","source":"auto","target":"de"}',
        b'{"q":"a","source":"\\ud800","target":"\\udc00"}', b'{"q":"a","source":"..","target":"/etc/passwd"}',
    ],
)  # fmt: skip
def test_any_body_is_answered(detecting, body):
    running = detecting
    for kind in (
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/xml; charset=no",
    ):
        status, _, headers = running.request("/translate", body, content_type=kind)
        assert status in {200, 400}
        assert headers["content-type"] == "application/json"
    assert running.is_alive()


def random_text(chance: random.Random) -> str:
    """Characters of all planes, with lone surrogates, controls and right-to-left marks."""
    planes = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF), (0xD800, 0xDFFF), (0x200E, 0x202E)]
    return "".join(chr(chance.randint(*chance.choice(planes))) for _ in range(chance.randint(0, 40)))


def test_text_of_all_planes_is_translated(detecting, tries, kept):
    running, chance = detecting, random.Random(7)
    for _ in range(tries(60, 3_000)):
        texts = [random_text(chance) for _ in range(3)]
        form = chance.choice(["text", "html"])
        source = chance.choice(["en", "auto"])
        status, value, _ = running.request("/translate", {"q": texts, "source": source, "target": "de", "format": form})
        assert status == 200, (texts, value)
        assert len(value["translatedText"]) == 3
    assert running.is_alive()
    kept("S1", "texts of all planes, with lone surrogates")


def test_random_bytes_never_hurt(running, tries, kept):
    chance = random.Random(11)
    for _ in range(tries(40, 2_000)):
        raw = bytearray(FINE)
        for _ in range(chance.randint(1, 12)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        status = status_of(running.send_raw(bytes(raw), end=chance.random() < 0.5)) if len(raw) else 0
        assert status == 0 or 200 <= status < 500 or status == 503
    assert running.send_raw(os.urandom(10_000)) is not None
    assert running.is_alive()
    kept("S1", "requests with random bytes changed")


def test_clients_that_leave_are_counted_and_free_their_place(running, tries, kept):
    wait_until_idle(running)
    before = running.metric("jumok_requests_cancelled_total")
    count, sent = tries(20, 500), 0
    outcomes, ended = count_statuses(running), Counter[str]()
    while ended["499"] < count:  # where the machine is busy, a client may leave too late
        assert sent < 5 * count, ended
        sent += 1
        leave_early(running, sent)
        ended = wait_for_ends(running, outcomes, sent)
        wait_until_idle(running)  # the next one would be refused
    gone = running.metric("jumok_requests_cancelled_total") - before
    assert ended["499"] == gone
    assert ended.total() == sent  # the others were refused or answered before they left
    assert set(ended) <= {"499", "200", "429"}
    rest = "".join(f", {number} × {status}" for status, number in sorted(ended.items()) if status != "499")
    kept(
        "S3", "clients that left in the middle", count=sent, figures=f"{int(gone)} counted as gone{rest}; none is left"
    )


def test_a_request_that_arrives_in_time_is_answered_although_the_server_was_not_running(running):
    """The time of an idle connection, and of one without a request, is over when the process runs again."""
    with running.connect() as used, running.connect() as new:
        used.sendall(GET + b"\r\n")
        assert status_of(read_all(used, silence=0.5)) == 200
        assert running.is_alive()  # so that both connections were accepted
        os.kill(running.process.pid, signal.SIGSTOP)
        try:
            time.sleep(3.3)  # 3 s are allowed to the first connection, 1 s to the second
            for connection in (used, new):
                connection.sendall(FINE)
        finally:
            os.kill(running.process.pid, signal.SIGCONT)
        assert [status_of(read_all(connection, silence=30.0)) for connection in (used, new)] == [200, 200]


def leave_early(running, number: int) -> None:
    """Ask for more than 5 ms of work, and leave after 5 ms."""
    texts = [f"a b {number} c {row} d e f g " * 9 for row in range(60)]
    body = json.dumps({"q": texts, "source": "en", "target": "de"}).encode()
    with running.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.005)


def wait_for_ends(running, before: Counter[str], count: int, patience: float = 60.0) -> Counter[str]:
    """Wait until so many requests have ended; the server may read a request after its client has gone."""
    until = time.monotonic() + patience
    while (ended := count_statuses(running) - before).total() < count:
        assert time.monotonic() < until, f"{count} requests, of which only {ended.total()} have ended: {ended}"
        time.sleep(0.005)
    return ended


def test_nothing_is_done_for_a_client_that_has_left_before_its_request_is_read(running):
    wait_until_idle(running)
    names = "jumok_requests_cancelled_total", "jumok_stopped_total"
    before, outcomes = [running.metric(name) for name in names], count_statuses(running)
    os.kill(running.process.pid, signal.SIGSTOP)  # so that request and end of the connection arrive together
    try:
        for number in range(8):
            leave_early(running, number)
    finally:
        os.kill(running.process.pid, signal.SIGCONT)
    assert wait_for_ends(running, outcomes, 8) == {"499": 8}
    cancelled, stopped = (running.metric(name) - first for name, first in zip(names, before, strict=True))
    assert cancelled == 8
    assert stopped == 0  # no sentence was given to the engine


def count_statuses(running) -> Counter[str]:
    """How often requests for translations ended with each status."""
    page = running.request("/metrics")[1].decode()
    found = re.findall(r'^jumok_requests_total\{api="libretranslate",code="(\d+)"\} (\d+)', page, re.MULTILINE)
    return Counter({status: int(number) for status, number in found})
