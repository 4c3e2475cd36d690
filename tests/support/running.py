"""A server in a process of its own, as users start it, and sockets that speak to it byte by byte."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import tomli_w

ADDRESS = re.compile(r"serving at (http://127\.0\.0\.1:(\d+))/")


class Running:
    """`jumok serve …` on a free port of this machine."""

    def __init__(self, folder: Path, models: Mapping[str, Path], *options: str, **settings: Any) -> None:
        self.folder = folder
        self.log = folder / "serve.log"
        config = folder / "serve.toml"
        whole = {"models": {name: str(path) for name, path in models.items()}, "state": str(folder / "state")}
        config.write_text(tomli_w.dumps(whole | {"port": 0, "log": "json", "threads": 1} | settings))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jumok", "serve", "--config", str(config), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self.address, self.port = self._find_address()

    def _find_address(self, patience: float = 60.0) -> tuple[str, int]:
        until = time.monotonic() + patience
        while time.monotonic() < until:
            if match := ADDRESS.search(self.log.read_text(encoding="utf-8", errors="replace")):
                return match[1], int(match[2])
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.stop()
        raise AssertionError(self.log.read_text(encoding="utf-8", errors="replace"))

    def request(
        self, path: str, body: Any = None, *, method: str | None = None, timeout: float = 30.0, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Send a request; return status, JSON (or bytes) and headers."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": "application/json"} if data is not None else {}
        asked = urllib.request.Request(
            self.address + path, data, given | {k.replace("_", "-"): v for k, v in headers.items()}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as answer:
                status, raw, got = answer.status, answer.read(), dict(answer.headers)
        except HTTPError as error:
            status, raw, got = error.code, error.read(), dict(error.headers)
        got = {name.lower(): value for name, value in got.items()}
        return status, json.loads(raw) if "json" in got.get("content-type", "") else raw, got

    def translate(self, text: Any, **values: Any) -> Any:
        """Translate as a client of LibreTranslate."""
        status, value, _ = self.request("/translate", {"q": text, "source": "en", "target": "de"} | values)
        assert status == 200, value
        return value["translatedText"]

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        _, page, _ = self.request("/metrics")
        lines = [line for line in page.decode().split("\n") if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def connect(self) -> socket.socket:
        """Return a connection for raw bytes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def send_raw(self, raw: bytes, *, end: bool = False) -> bytes:
        """Send bytes; return everything that comes back until the server closes or is silent for a while."""
        with self.connect() as connection:
            try:
                connection.sendall(raw)
                if end:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # an answer may have been sent before, and the connection closed
            return read_all(connection)

    def lines(self) -> list[dict[str, Any]]:
        """The log."""
        return [json.loads(line) for line in self.log.read_text().split("\n") if line.startswith("{")]

    def is_alive(self) -> bool:
        return self.process.poll() is None and self.request("/healthz")[0] == 200

    def stop(self, number: int = signal.SIGTERM, patience: float = 30.0) -> int:
        """Send a signal and wait; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def read_all(connection: socket.socket, silence: float = 3.0) -> bytes:
    """Return what arrives until the other side closes, or nothing arrives for a while."""
    connection.settimeout(silence)
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except (TimeoutError, ConnectionResetError):
        pass
    return b"".join(parts)


def status_of(raw: bytes) -> int:
    """The status of an answer; 0 where there is none."""
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", raw)
    return int(match[1]) if match else 0
