"""Corpora behind an address, fetched through fsspec into a folder, so that everything else reads files.

    fetch("s3://corpora/news.de-en.parquet", folder)        folder/3f2a…-news.de-en.parquet

Kept     what has arrived, whatever happens; then the rest is asked for, unless the file has changed meanwhile
Whole    the file has its name only when all of it is on disk (partial.py)
Memory   one block
Secrets  no message and no file holds more of an address than `redact` shows; credentials come from where the service's
         own tools keep them

fsspec and what it needs are imported only when an address is used (the extra `remote`).  Tried with https
and with s3; gs and hf go the same way as s3 and are untried.
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
from jumok.stopping import NEVER
from jumok.text.addresses import (
    check_address,
    credentials_hint,
    is_address,
    local_name,
    protocol,
    redact,
    refuse_addresses,
)
from jumok.text.partial import Partial, Version, disk_faults

__all__ = ["check_address", "expand_address", "fetch", "is_address", "redact", "refuse_addresses"]

RANGE = 8 << 20  # bytes asked for at once where a service is asked by ranges
BLOCK = 1 << 18  # bytes taken at once from a connection
ATTEMPTS = 6  # in a row without any progress
PAUSE = 0.5  # seconds before the second attempt; twice as long before every further one
SILENCE = 60.0  # seconds without a byte after which a connection counts as broken
INSTALL = {"gs": "try: pip install gcsfs", "hf": "try: pip install huggingface_hub"}
LIBRARIES = {
    "aiohttp", "aiobotocore", "botocore", "s3fs", "gcsfs", "google", "huggingface_hub", "httpx", "httpcore", "requests",
    "urllib3", "fsspec",
}  # fmt: skip

T = TypeVar("T")


class Stream(Protocol):
    """The bytes of one version of a file from `start` on."""

    version: Version
    start: int

    def read(self) -> bytes: ...
    def check(self) -> None: ...
    def close(self) -> None: ...


class Broken(Exception):
    """A connection that failed in a way that another attempt may mend."""


Steps = Generator[tuple[int, int | None] | None, None, T]  # bytes that are there, size if known; None: nothing new


def fetch(address: str, folder: str | Path) -> Path:
    """Return the file in `folder` that holds what is at `address`, fetched now unless it is there already."""
    return NEVER.finish(fetch_in_steps(address, folder))


def fetch_in_steps(address: str, folder: str | Path) -> Steps[Path]:
    """The same in steps, at least every fifth of a second: yields how far it is.

    A generator that is closed leaves what it has; the next call continues.  One process may fetch an address into a
    folder at a time.
    """
    check_address(address)
    goal = Path(folder) / local_name(address)
    with disk_faults(goal):
        goal.parent.mkdir(parents=True, exist_ok=True)
        partial = Partial(goal)
    with contextlib.closing(partial):
        if not partial.finished:
            yield from _complete(address, partial)
    return goal


def _complete(address: str, partial: Partial) -> Steps[None]:
    """Ask again and again, until all is there or several attempts in a row have brought nothing new."""
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
                _give_up(address, partial, str(broken))
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
        partial.check_room(size)
        while block := (yield from _wait(lambda: _ask(address, stream.read))):
            partial.write(block)
            if size is not None and partial.done > size:
                partial.restart(stream.version)
                raise Broken(f"the server sent more than the {size:,} bytes it had announced")
            yield partial.done, size
        if size is not None and partial.done < size:
            raise Broken(f"the connection ended after {partial.done:,} of {size:,} bytes")
        yield from _wait(lambda: _ask(address, stream.check))
    finally:
        stream.close()


def _give_up(address: str, partial: Partial, reason: str) -> NoReturn:
    where = redact(address)
    if partial.done:
        have = f"{partial.done:,} bytes of it are kept"
        raise Resumable(f"fetching failed: {reason}", where=where, hint=f"{have}; the same command continues")
    raise DataError(f"cannot fetch: {reason}", where=where, hint="check the address and the network, then try again")


def _wait(call: Callable[[], T]) -> Steps[T]:
    """Return what `call` returns; yields while it waits for the network."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)  # one that still waits does not keep the process from exiting
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
        yield None
    if failure:
        raise failure[0]
    return outcome[0]


# ------------------------------------------------------------------------------------------ services


def expand_address(address: str) -> list[str]:
    """Return the addresses of the files that a glob on s3, gs or hf stands for; any other address is itself."""
    check_address(address)
    kind, path = protocol(address), address.partition("://")[2]
    if kind in ("http", "https"):
        if "*" in path.partition("?")[0]:
            raise UsageError("a web server has no globs", where=redact(address), hint="try: name each file")
        return [address]
    if not re.search(r"[*?\[]", path):
        return [address]
    found = NEVER.finish(_wait(lambda: _ask(address, lambda: _list(kind, path))))
    if not found:
        raise DataError("no file matches", where=redact(address), hint="check the bucket and the folder")
    return [f"{kind}://{name}" for name in found]


def _list(kind: str, path: str) -> list[str]:
    found = _filesystem(kind).glob(path, detail=True)
    return sorted(name for name, about in found.items() if about.get("type") != "directory")


def _connect(address: str, start: int) -> Stream:
    opened = Web if protocol(address) in ("http", "https") else Stored
    return _ask(address, lambda: opened(address, start))


def _filesystem(kind: str, **options: Any) -> Any:
    import fsspec

    return fsspec.filesystem(kind, skip_instance_cache=True, use_listings_cache=False, **options)


class Web:
    """A file on a web server.  Size and version are those of the very answer that brings the bytes."""

    def __init__(self, address: str, start: int) -> None:
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        web = _filesystem(protocol(address), encoded=address.isascii(), client_kwargs=_client(address))
        try:
            self._file = web.open(address, "rb", block_size=0, size=1, headers=headers)
        except Exception as error:
            if getattr(error, "status", None) != 416:
                raise
            del headers["Range"]  # the file is shorter now than what we have of it
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
            raise DataError("the server sends us on to an address without encryption", where=redact(address))
        mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if answer.status == 206:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", "").strip())
            if found is None or int(found[1]) != start:
                raise Broken("the server sent another part of the file than was asked for")
            return Version(int(found[2]), mark), start
        size = answer.headers.get("Content-Length")
        if size is None and "chunked" not in answer.headers.get("Transfer-Encoding", "").lower():
            raise DataError(
                "the server does not say how long the file is, so its end cannot be told from a broken connection",
                where=redact(address),
                hint="fetch the file yourself, look whether it is whole, and name it",
            )
        return Version(None if size is None else int(size), mark), 0

    def read(self) -> bytes:
        block = bytearray()
        try:
            while len(block) < BLOCK and (part := self._file.read(BLOCK)):
                block += part
        except Exception:
            if not block:  # what came before the fault counts; the next call fails again
                raise
        return bytes(block)

    def check(self) -> None:
        """Nothing to do: all bytes came in one answer, or in answers with the same etag."""

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()
            self._close_session()


def _client(address: str) -> dict[str, Any]:
    """Return options of aiohttp: no limit on the whole, bytes as they are, proxies of the environment."""
    import aiohttp

    limits = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=SILENCE)
    return {"timeout": limits, "auto_decompress": False, "trust_env": protocol(address) == "https"}


class Stored:
    """A file in a store of objects, asked for by ranges."""

    def __init__(self, address: str, start: int) -> None:
        self._path = address.partition("://")[2]
        self._files, about = self._find(protocol(address))
        if about.get("type") == "directory":
            raise DataError("this is a folder", where=redact(address), hint=f"try: {address.rstrip('/')}/*")
        self.version, self.start = _version(about), start
        self._file = self._files.open(self._path, "rb", block_size=RANGE, cache_type="none")
        self._place = start

    def _find(self, kind: str) -> tuple[Any, dict[str, Any]]:
        files = _filesystem(kind)
        try:
            return files, files.info(self._path)
        except Exception as error:
            if kind != "s3" or type(error).__name__ != "NoCredentialsError":
                raise
        files = _filesystem(kind, anon=True)  # a public bucket, perhaps
        return files, files.info(self._path)

    def read(self) -> bytes:
        size = self.version.size
        wanted = RANGE if size is None else min(RANGE, size - self._place)
        if wanted <= 0:
            return b""
        self._file.seek(self._place)
        block: bytes = self._file.read(wanted)
        self._place += len(block)
        return block

    def check(self) -> None:
        """Make sure that the file is still the one whose beginning was read."""
        if _version(self._files.info(self._path)) != self.version:
            raise Broken("the file changed while it was read")

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._file.close()


def _version(about: dict[str, Any]) -> Version:
    keys = ("ETag", "etag", "generation", "md5Hash", "blob_id", "LastModified", "updated", "last_commit")
    return Version(about.get("size"), next((str(about[key]) for key in keys if about.get(key)), ""))


def _ask(address: str, call: Callable[[], T]) -> T:
    """Return what `call` returns; sort what goes wrong into what the user can mend and what another attempt may."""
    try:
        return call()
    except (JumokError, Broken):
        raise
    except FileNotFoundError:
        raise DataError("there is no such file", where=redact(address), hint="check the address") from None
    except PermissionError:
        raise _forbidden(address) from None
    except ImportError as error:
        kind = protocol(address)
        hint = INSTALL.get(kind, str(extras.hint("fsspec")))
        what = f"{kind}:// needs a library that is not installed" + f": {error.name}" * bool(error.name)
        raise MissingPackage(what, where=redact(address), hint=hint) from None
    except Exception as error:
        if not isinstance(error, OSError | TimeoutError) and type(error).__module__.split(".")[0] not in LIBRARIES:
            raise
        status = getattr(error, "status", None)
        if status in (401, 403):
            raise _forbidden(address) from None
        if isinstance(status, int) and 400 <= status < 500 and status not in (408, 416, 425, 429):
            raise DataError(f"the server refuses: status {status}", where=redact(address)) from None
        raise Broken(_reason(error)) from None


def _forbidden(address: str) -> DataError:
    signed = "?" in address and protocol(address) == "https"
    hint = "a signed address may have expired: make a new one" if signed else credentials_hint(address)
    return DataError("you may not read this file", where=redact(address), hint=hint)


def _reason(error: Exception) -> str:
    """Return what went wrong, without the library's own words: they may repeat the address with all its secrets."""
    if isinstance(status := getattr(error, "status", None), int) and status:
        return f"the server answered with status {status}"
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    known = os.strerror(number) if isinstance(number, int) and number > 0 else ""
    return f"the connection failed ({known or type(error).__name__})"
