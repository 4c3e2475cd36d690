"""Corpora at an address, fetched through fsspec into a folder, so that everything else reads files.

    fetch("s3://corpora/news.de-en.parquet", folder)        folder/3f2a…-news.de-en.parquet

Resume   what has arrived survives every failure; only the rest is requested, unless the file has changed meanwhile
Names    a file gets its name only when all of it is on disk (partial.py)
Memory   one block
Secrets  no message and no file holds more of an address than `redact` shows; credentials come from where the tools of
         the service store them

fsspec and its dependencies are imported only when an address is used (the extra `remote`).  Tested with https and s3;
gs and hf take the same path as s3 and are untested.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from jumok import extras
from jumok.errors import DataError, JumokError, MissingPackage, Resumable, UsageError
from jumok.messages import Message
from jumok.stopping import NEVER, Stop, Stopped
from jumok.text.addresses import (
    check_address,
    credentials_hint,
    is_address,
    local_name,
    protocol,
    redact,
    refuse_addresses,
)
from jumok.text.partial import Partial, Version, explain_disk_faults

__all__ = ["check_address", "expand_address", "fetch", "is_address", "peek", "redact", "refuse_addresses"]

RANGE = 8 << 20  # bytes requested at once from a store of objects
BLOCK = 1 << 18  # bytes read at once from a connection
ATTEMPTS = 6  # attempts in a row without progress before fetching fails
PAUSE = 0.5  # seconds before the second attempt; doubled before every further one
PEEKING = 10.0  # seconds in which the beginning of a file must arrive
SILENCE = 60.0  # seconds without a byte after which a connection counts as broken
PACKAGES = {"gs": "gcsfs", "hf": "huggingface_hub"}  # protocol -> library that no extra brings
LIBRARIES = {
    "aiohttp", "aiobotocore", "botocore", "s3fs", "gcsfs", "google", "huggingface_hub", "httpx", "httpcore", "requests",
    "urllib3", "fsspec",
}  # fmt: skip

T = TypeVar("T")


class Stream(Protocol):
    """The bytes of one version of a file, from `start` to its end."""

    version: Version
    start: int

    def read(self) -> bytes: ...
    def check(self) -> None: ...
    def close(self) -> None: ...


class Broken(Exception):
    """A connection that failed, where another attempt may succeed."""

    def __init__(self, reason: Message) -> None:
        self.reason = reason
        super().__init__(reason)


# Yields (bytes on disk, size if known), or None while it waits.
Steps = Generator[tuple[int, int | None] | None, None, T]


def fetch(address: str, folder: str | Path) -> Path:
    """The file in `folder` with the content of `address`, fetched unless it exists already."""
    return NEVER.finish(fetch_in_steps(address, folder))


def fetch_in_steps(address: str, folder: str | Path) -> Steps[Path]:
    """`fetch` in steps, at least five per second: yields its progress.

    If the generator is closed, what has arrived stays; the next call continues.  One process at a time may fetch an
    address into a folder.
    """
    check_address(address)
    goal = Path(folder) / local_name(address)
    with explain_disk_faults(goal):
        goal.parent.mkdir(parents=True, exist_ok=True)
        partial = Partial(goal)
    with contextlib.closing(partial):
        if not partial.finished:
            yield from _complete(address, partial)
    return goal


def peek(address: str) -> tuple[bytes, int | None]:
    """The first bytes at an address, and the size of all if the server says it; nothing is written.

    A server that does not answer within some seconds is an error.
    """
    check_address(address)
    deadline = time.monotonic() + PEEKING
    try:
        stream = Stop(lambda: time.monotonic() > deadline).finish(_wait(lambda: _connect(address, 0)))
        try:
            first = Stop(lambda: time.monotonic() > deadline).finish(_wait(lambda: _ask(address, stream.read)))
            return first[:BLOCK], stream.version.size
        finally:
            threading.Thread(target=stream.close, daemon=True).start()  # it may wait for the server, too
    except Broken as broken:
        raise DataError("text.cannot_fetch", reason=broken.reason, address=redact(address)) from None
    except Stopped:
        reason = Message("text.no_answer", {"seconds": PEEKING})
        raise DataError("text.cannot_fetch", reason=reason, address=redact(address)) from None


def _complete(address: str, partial: Partial) -> Steps[None]:
    """Connect again until the file is complete or several attempts in a row have made no progress."""
    failures, most = 0, partial.done
    while True:
        try:
            yield from _advance(address, partial)
            break
        except Broken as broken:
            partial.note()
            failures = 1 if partial.done > most else failures + 1
            most = max(most, partial.done)
            if failures >= ATTEMPTS:
                _give_up(address, partial, broken.reason)
        end = time.monotonic() + PAUSE * 2 ** (failures - 1)
        while (left := end - time.monotonic()) > 0:
            yield None
            time.sleep(min(0.2, left))
    partial.finish()


def _advance(address: str, partial: Partial) -> Steps[None]:
    """Fetch the rest of the file over one connection."""
    stream = yield from _wait(lambda: _connect(address, partial.done))
    try:
        if stream.version != partial.version or stream.start != partial.done or not stream.version.mark:
            if stream.start:
                stream.close()
                stream = yield from _wait(lambda: _connect(address, 0))
            partial.restart(stream.version)
        size = stream.version.size
        partial.check_space(size)
        while block := (yield from _wait(lambda: _ask(address, stream.read))):
            partial.write(block)
            if size is not None and partial.done > size:
                partial.restart(stream.version)
                raise Broken(Message("text.sent_too_much", {"size": size}))
            yield partial.done, size
        if size is not None and partial.done < size:
            raise Broken(Message("text.connection_ended", {"done": partial.done, "size": size}))
        yield from _wait(lambda: _ask(address, stream.check))
    finally:
        stream.close()


def _give_up(address: str, partial: Partial, reason: Message) -> NoReturn:
    if partial.done:
        raise Resumable("text.fetching_failed", reason=reason, address=redact(address), done=partial.done)
    raise DataError("text.cannot_fetch", reason=reason, address=redact(address))


def _wait(call: Callable[[], T]) -> Steps[T]:
    """The result of `call`, which runs in a thread; yields while it waits for the network."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)  # a daemon does not delay the exit of the process
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
        yield None
    if failure:
        raise failure[0]
    return outcome[0]


# ------------------------------------------------------------------------------------------ services


def expand_address(address: str) -> list[str]:
    """The addresses that match a glob on s3, gs or hf; an address without a glob is returned as it is."""
    check_address(address)
    kind, path = protocol(address), address.partition("://")[2]
    if kind in ("http", "https"):
        if "*" in path.partition("?")[0]:
            raise UsageError("text.glob_on_web_server", address=redact(address))
        return [address]
    if not re.search(r"[*?\[]", path):
        return [address]
    names = NEVER.finish(_wait(lambda: _ask(address, lambda: _list(kind, path))))
    if not names:
        raise DataError("text.no_match_at_address", address=redact(address))
    return [f"{kind}://{name}" for name in names]


def _list(kind: str, path: str) -> list[str]:
    matches = _filesystem(kind).glob(path, detail=True)
    return sorted(name for name, about in matches.items() if about.get("type") != "directory")


def _connect(address: str, start: int) -> Stream:
    stream = WebFile if protocol(address) in ("http", "https") else StoredFile
    return _ask(address, lambda: stream(address, start))


def _filesystem(kind: str, **options: Any) -> Any:
    import fsspec

    return fsspec.filesystem(kind, skip_instance_cache=True, use_listings_cache=False, **options)


class WebFile:
    """A file on a web server.  Size and version are read from the response that carries the bytes."""

    def __init__(self, address: str, start: int) -> None:
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        web = _filesystem(protocol(address), encoded=address.isascii(), client_kwargs=_client(address))
        try:
            self._file = web.open(address, "rb", block_size=0, size=1, headers=headers)
        except Exception as error:
            if getattr(error, "status", None) != 416:
                raise
            del headers["Range"]  # the file is shorter now than the part on disk
            self._file = web.open(address, "rb", block_size=0, size=1, headers=headers)
        self._close_session: Callable[[], object] = lambda: web.close_session(web.loop, self._file.session)
        try:
            self.version, self.start = self._read_headers(address, start)
        except BaseException:
            self.close()
            raise

    def _read_headers(self, address: str, start: int) -> tuple[Version, int]:
        answer = self._file.r
        hops = [hop.url.scheme for hop in (*answer.history, answer)]
        if protocol(address) == "https" and "http" in hops:
            raise DataError("text.redirected_to_http", address=redact(address))
        mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if answer.status == 206:
            served = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", "").strip())
            if served is None or int(served[1]) != start:
                raise Broken(Message("text.sent_another_part"))
            return Version(int(served[2]), mark), start
        size = answer.headers.get("Content-Length")
        if size is None and "chunked" not in answer.headers.get("Transfer-Encoding", "").lower():
            raise DataError("text.no_length", address=redact(address))
        return Version(None if size is None else int(size), mark), 0

    def read(self) -> bytes:
        block = bytearray()
        try:
            while len(block) < BLOCK and (part := self._file.read(BLOCK)):
                block += part
        except Exception:
            if not block:  # return what came before the error; the next call fails again
                raise
        return bytes(block)

    def check(self) -> None:
        """Nothing to do: all bytes came in one answer, or in answers with the same etag."""

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()
            self._close_session()


def _client(address: str) -> dict[str, Any]:
    """Options of aiohttp: no limit on the total time, no decompression, proxies from the environment."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=SILENCE)
    return {"timeout": limits, "auto_decompress": False, "trust_env": protocol(address) == "https"}


class StoredFile:
    """A file in a store of objects, read in ranges."""

    def __init__(self, address: str, start: int) -> None:
        self._path = address.partition("://")[2]
        self._files, about = self._find(protocol(address))
        if about.get("type") == "directory":
            raise DataError("text.address_is_a_folder", address=redact(address), proposal=f"{address.rstrip('/')}/*")
        self.version, self.start = _version(about), start
        self._file = self._files.open(self._path, "rb", block_size=RANGE, cache_type="none")
        self._position = start

    def _find(self, kind: str) -> tuple[Any, dict[str, Any]]:
        files = _filesystem(kind)
        try:
            return files, files.info(self._path)
        except Exception as error:
            if kind != "s3" or type(error).__name__ != "NoCredentialsError":
                raise
        files = _filesystem(kind, anon=True)  # the bucket may be public
        return files, files.info(self._path)

    def read(self) -> bytes:
        size = self.version.size
        wanted = RANGE if size is None else min(RANGE, size - self._position)
        if wanted <= 0:
            return b""
        self._file.seek(self._position)
        block: bytes = self._file.read(wanted)
        self._position += len(block)
        return block

    def check(self) -> None:
        """Make sure that the file is still the one whose beginning was read."""
        if _version(self._files.info(self._path)) != self.version:
            raise Broken(Message("text.changed_while_read"))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()


def _version(about: dict[str, Any]) -> Version:
    keys = ("ETag", "etag", "generation", "md5Hash", "blob_id", "LastModified", "updated", "last_commit")
    return Version(about.get("size"), next((str(about[key]) for key in keys if about.get(key)), ""))


def _ask(address: str, call: Callable[[], T]) -> T:
    """The result of `call`; errors become a JumokError if the user can fix them, `Broken` if another attempt may."""
    try:
        return call()
    except (JumokError, Broken):
        raise
    except FileNotFoundError:
        raise DataError("text.no_file_at_address", address=redact(address)) from None
    except PermissionError:
        raise _forbidden(address) from None
    except ImportError as error:
        kind = protocol(address)
        extra = extras.hint("fsspec")
        advice = Message("text.install", {"package": PACKAGES[kind]}) if kind in PACKAGES else extra
        module = error.name or "fsspec"
        raise MissingPackage(
            "text.protocol_needs_package", protocol=kind, module=module, address=redact(address), advice=advice
        ) from None
    except Exception as error:
        if not isinstance(error, OSError | TimeoutError) and type(error).__module__.split(".")[0] not in LIBRARIES:
            raise
        status = getattr(error, "status", None)
        if status in (401, 403):
            raise _forbidden(address) from None
        if isinstance(status, int) and 400 <= status < 500 and status not in (408, 416, 425, 429):
            raise DataError("text.refused_by_server", status=status, address=redact(address)) from None
        raise Broken(_reason(error)) from None


def _forbidden(address: str) -> DataError:
    signed = "?" in address and protocol(address) == "https"
    advice = Message("text.signature_expired") if signed else credentials_hint(address)
    return DataError("text.may_not_fetch", address=redact(address), advice=advice)


def _reason(error: Exception) -> Message:
    """Why a request failed, without the text of the library, which may contain the address with its secrets."""
    if isinstance(status := getattr(error, "status", None), int) and status:
        return Message("text.status", {"status": status})
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    reason = os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
    return Message("text.connection_failed", {"reason": reason})
