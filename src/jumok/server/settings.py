"""Settings of a server: what it serves, where it listens, whom it trusts and what it refuses.

    settings = Settings.read("serve.toml").change(port=8080)

Every limit has a finite default.  A file is TOML with these names; an unknown name or a value out of range is an error.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jumok.errors import UsageError

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HOST = re.compile(r"\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})|\[?[0-9A-Fa-f:.]+\]?")
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/?#]+")


class Limits(BaseModel):
    """What one request may ask for, and how long a client may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    body_bytes: int = Field(default=2_000_000, ge=1_000, le=10**9)
    upload_bytes: int = Field(default=10_000_000, ge=1_000, le=10**10)
    header_bytes: int = Field(default=32_768, ge=1_024, le=1_000_000)
    texts: int = Field(default=256, ge=1, le=100_000)
    characters: int = Field(default=20_000, ge=1, le=10**8)  # of one text
    total_characters: int = Field(default=200_000, ge=1, le=10**9)  # of all texts of a request
    beam: int = Field(default=16, ge=1, le=1_000)
    alternatives: int = Field(default=8, ge=0, le=1_000)
    samples: int = Field(default=32, ge=0, le=1_000)  # of minimum Bayes risk decoding
    generated_tokens: int = Field(default=1_024, ge=1, le=100_000)  # of a language model
    phrases: int = Field(default=64, ge=0, le=1_000)  # required or forbidden, per text
    deadline_seconds: Seconds = 10.0
    upload_deadline_seconds: Seconds = 300.0
    connections: int = Field(default=1_000, ge=4, le=100_000)
    header_seconds: Seconds = 10.0  # until all headers have arrived
    body_seconds: Seconds = 30.0  # until the whole body has arrived
    send_seconds: Seconds = 30.0  # until the client has read what was sent
    keep_alive_seconds: Seconds = 30.0
    requests_per_minute: int = Field(default=0, ge=0, le=10**7)  # of one address where keys are off; 0 is no limit


class Settings(BaseModel):
    """Everything that `jumok serve` can be told."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: dict[str, str] = Field(default_factory=dict)  # name -> folder of a run or a model
    follow: tuple[str, ...] = ()  # names of models whose newer checkpoints are served as they appear
    host: str = "127.0.0.1"
    port: int = Field(default=5000, ge=0, le=65_535)
    root_path: str = ""
    public_url: str = ""  # what addresses of downloads begin with; by default the address of the connection
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    trust_proxy: tuple[Network, ...] = ()
    certificate: Path | None = None
    private_key: Path | None = None
    state: Path | None = None  # folder of glossaries, corrections and jobs; nothing is kept without it
    keys: Path | None = None  # by default keys.json in the folder of the state
    without_keys: bool = False  # whether to listen beyond loopback although there are no keys
    suggestions: bool = True
    warm: bool = False  # whether opening the studio starts the engine process with torch
    workspace: Path | None = None  # folder whose runs and texts the studio shows, and in which it starts runs
    classroom: bool = False  # whether students on the local network may join with a code
    studio: bool = True  # whether / is the studio; else a page of two boxes
    openai: bool = False  # whether /v1/chat/completions is offered for translation models
    beam: int | None = Field(default=None, ge=1, le=1_000)
    length_penalty: float | None = Field(default=None, ge=0, le=10)
    shortlist: bool = False
    threads: int | None = Field(default=None, ge=1, le=1_024)
    torch_idle_minutes: float = Field(default=10.0, ge=0, le=100_000)  # until the process with torch ends; 0 is never
    cache_megabytes: float = Field(default=16.0, ge=0, le=100_000)
    grace: float = Field(default=2.0, ge=0, le=3_600)  # seconds of listening after SIGTERM
    drain: Seconds = 10.0  # seconds for what was accepted
    log: Literal["auto", "json", "text", "off"] = "auto"
    limits: Limits = Limits()

    @field_validator("root_path")
    @classmethod
    def _check_root_path(cls, path: str) -> str:
        path = path.rstrip("/")
        if path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", path):
            raise ValueError("must look like /translate")
        return path

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str) -> str:
        if url and not re.fullmatch(r"https?://[^\s?#]+", url):
            raise ValueError("must begin with http:// or https://")
        return url.rstrip("/")

    @field_validator("allow_host")
    @classmethod
    def _check_hosts(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not HOST.fullmatch(name):
                raise ValueError(f"{name!r} is not a host name; write it without port, such as translate.example.org")
        return tuple(name.lower().strip("[]") for name in names)

    @field_validator("allow_origin")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is not an origin; it looks like https://example.org")
        return tuple(origin.lower() for origin in origins)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the settings of a TOML file."""
        try:
            values = tomllib.loads(Path(path).read_bytes().decode("utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError("server.config_not_toml", file=path, reason=error) from None
        return cls.of(values, place=str(path))

    @classmethod
    def of(cls, values: dict[str, Any], *, place: str) -> Self:
        """Return settings of plain values; `place` says where they come from, for errors."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            known = ", ".join(cls.model_fields if len(first["loc"]) < 2 else Limits.model_fields)
            reason = f"no such setting; known: {known}" if first["type"] == "extra_forbidden" else first["msg"]
            raise UsageError("server.bad_setting", setting=where, reason=reason, place=place) from None

    def change(self, **values: Any) -> Self:
        """Return the same settings with those that are given and not None; limits are given by their own names."""
        given = {name: value for name, value in values.items() if value is not None}
        limits = {name: given.pop(name) for name in list(given) if name in Limits.model_fields and name not in OWN}
        merged = self.model_dump() | given
        merged["limits"] |= limits
        return self.of(merged, place="the command line")

    @property
    def keys_file(self) -> Path | None:
        """The file of keys; None where there is neither one nor a folder of state."""
        return self.keys or (self.state / "keys.json" if self.state is not None else None)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


OWN = frozenset(Settings.model_fields)  # `beam` is a setting of its own; the limit of the same name is set in a file
