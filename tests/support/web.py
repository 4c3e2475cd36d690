"""Web servers on loopback that behave well or badly, for tests of fetching."""

import contextlib
import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """One file on a server.  `starts` are the first bytes that were asked for, `sent` the bytes that left."""

    content: bytes
    etag: str = '"1"'
    modified: str = ""
    ranges: bool = True  # answers Range with 206
    length: bool = True  # says Content-Length
    chunked: bool = False
    breaks: list[int] = field(default_factory=list)  # bytes after which each of the first connections is cut
    always_breaks: int | None = None
    hangs: bool = False  # after the bytes of a break, instead of cutting the connection
    statuses: list[int] = field(default_factory=list)  # of the first answers
    shift: int = 0  # so many bytes further on than was asked for begins what is sent to a Range
    more: int = 0  # bytes more than it has announced are sent to a Range
    redirect: str = ""
    pace: float = 0.0  # seconds before every 64 KiB
    starts: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    sent: int = 0
    address: str = ""


@contextlib.contextmanager
def serving(site: Site, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Serve the file on a free port; `site.address` is where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                _answer(self, site)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site.address = f"http{'s' * bool(context)}://127.0.0.1:{server.server_port}/corpus/train.en"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
    start = int(asked[1]) if asked and site.ranges else 0
    site.starts.append(int(asked[1]) if asked else 0)
    site.paths.append(handler.path)
    handler.close_connection = True
    if site.redirect or site.statuses:
        handler.send_response(302 if site.redirect else site.statuses.pop(0))
        if site.redirect:
            handler.send_header("Location", site.redirect)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    if start and start >= len(site.content):
        handler.send_response(416)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    start += site.shift * bool(start)
    body = site.content[start:] + bytes(site.more * bool(start))
    handler.send_response(206 if asked and site.ranges else 200)
    if asked and site.ranges:
        handler.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
    if site.etag:
        handler.send_header("ETag", site.etag)
    if site.modified:
        handler.send_header("Last-Modified", site.modified)
    if site.chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    elif site.length:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    stop = site.breaks.pop(0) if site.breaks else site.always_breaks
    _send(handler, site, body if stop is None else body[:stop])
    if stop is not None and site.hangs:
        time.sleep(30)
    if stop is None:
        handler.wfile.write(b"0\r\n\r\n" if site.chunked else b"")
    handler.wfile.flush()


def _send(handler: BaseHTTPRequestHandler, site: Site, body: bytes) -> None:
    for at in range(0, len(body), 1 << 16):
        part = body[at : at + (1 << 16)]
        time.sleep(site.pace)
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if site.chunked else part)
        site.sent += len(part)
