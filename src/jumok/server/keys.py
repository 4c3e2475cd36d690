"""Keys: who may use a server.  The file holds hashes, the key itself is printed once.

    secret = KeyFile(path).add("weblate", rate=600)

A key is 192 random bits, so one round of SHA-256 is enough to store it.  Every comparison runs over all keys in
constant time.  The server notices a changed file within a second: a revoked key stops working without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jumok.errors import DataError, DiskError, UnknownName, UsageError

PREFIX = "jmk_"
FRESH = 1.0  # seconds for which the file is not looked at again
LARGEST = 10_000_000  # bytes of the file


class Key(BaseModel):
    """One key: a name for its owner, an id for logs, the hash of the secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[0-9a-f]{8}$")
    name: str = Field(min_length=1, max_length=100)
    hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    admin: bool = False
    rate: int = Field(default=0, ge=0, le=10**7)  # requests per minute; 0 is no limit
    created: str = Field(max_length=40)


class Keys(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(default=1, ge=1, le=1)
    keys: tuple[Key, ...] = Field(default=(), max_length=10_000)


class KeyFile:
    """The keys of a server, on disk."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._keys: tuple[Key, ...] = ()
        self._version: tuple[int, int, int] | None = None
        self._looked = float("-inf")
        if path is not None:
            self.refresh()

    def __bool__(self) -> bool:
        """Whether keys are needed at all."""
        return bool(self.list())

    def list(self) -> tuple[Key, ...]:
        """Return all keys; reads the file again if it has changed."""
        if self.path is not None and monotonic() - self._looked > FRESH:
            self.refresh()
        return self._keys

    def refresh(self) -> None:
        """Read the file if it has changed.  One that has become unreadable leaves the keys as they were."""
        assert self.path is not None
        first, self._looked = self._version is None, monotonic()
        try:
            status = self.path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if version != self._version:
                self._keys, self._version = read_keys(self.path), version
        except FileNotFoundError:
            if first:
                self._keys = ()
        except OSError as error:
            if first:
                raise self._explain(error) from None
        except DataError:
            if first:
                raise

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret; takes the same time whether there is one and which it is."""
        given, match = hash_secret(secret), None
        for key in self.list():
            if hmac.compare_digest(key.hash, given):
                match = key
        return match

    def add(self, name: str, *, admin: bool = False, rate: int = 0, created: str) -> str:
        """Add a key and return its secret, which is stored nowhere."""
        if any(key.name == name for key in self.list()):
            raise UsageError("server.key_exists", given=name, file=self.path)
        secret = PREFIX + secrets.token_urlsafe(24)
        try:
            key = Key(
                id=secrets.token_hex(4), name=name, hash=hash_secret(secret), admin=admin, rate=rate, created=created
            )
        except ValidationError as error:
            raise UsageError("server.bad_key", reason=error.errors()[0]["msg"]) from None
        self._write((*self._keys, key))
        return secret

    def revoke(self, name: str) -> Key:
        """Remove a key, by name or id."""
        for key in self.list():
            if name in (key.name, key.id):
                self._write(tuple(other for other in self._keys if other is not key))
                return key
        raise UnknownName("server.no_such_key", name, [key.name for key in self._keys])

    def _write(self, keys: tuple[Key, ...]) -> None:
        """Replace the file, readable by its owner alone, completely or not at all."""
        assert self.path is not None
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as text:
                text.write(Keys(keys=keys).model_dump_json(indent=1) + "\n")
                text.flush()
                os.fsync(text.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise self._explain(error) from None
        self.refresh()

    def _explain(self, error: OSError) -> DiskError:
        """Return the error for a file that cannot be read or written."""
        assert self.path is not None
        folder = self.path.parent if self.path.parent.is_dir() else self.path.parent.parent
        return DiskError(
            "server.cannot_use_keys", reason=error.strerror or error, file=self.path, folder=shlex.quote(str(folder))
        )


def read_keys(path: Path) -> tuple[Key, ...]:
    """Return the keys of a file; an unknown field or a wrong type is an error."""
    with path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    try:
        if len(raw) > LARGEST:
            raise ValueError
        return Keys.model_validate(json.loads(raw)).keys
    except (ValueError, RecursionError):
        raise DataError("server.bad_key_file", file=path) from None


def hash_secret(secret: str) -> str:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class Bucket:
    """The requests that one key or address may still make."""

    level: float
    filled: float


class Rates:
    """Requests per minute of keys and addresses: a bucket each, of which the number is bounded."""

    LARGEST = 10_000

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def take(self, owner: str, per_minute: int) -> float:
        """Count a request; return 0, or the seconds after which the next one is allowed."""
        now = monotonic()
        bucket = self._buckets.pop(owner, None) or Bucket(float(per_minute), now)
        bucket.level = min(float(per_minute), bucket.level + (now - bucket.filled) * per_minute / 60)
        bucket.filled = now
        self._buckets[owner] = bucket  # the one used last is at the end
        if len(self._buckets) > self.LARGEST:
            del self._buckets[next(iter(self._buckets))]
        if bucket.level < 1:
            return (1 - bucket.level) * 60 / per_minute
        bucket.level -= 1
        return 0.0
