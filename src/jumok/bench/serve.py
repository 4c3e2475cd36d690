"""Speed of `jumok serve` under load: requests per second, time to answer at several loads, overload, memory, start.

    figures = measure("runs/tiny", source="val.en", languages=("en", "de"))
    print("\\n".join(table(figures)))

The protocol: a new server up to its first answer; single sentences and lists of 32 as fast as the server answers
them (closed loop); the same sentences through the translator without a server; then requests at random times (open
loop) at 30 %, 70 % and 300 % of the rate measured just before, and at 30 % once more to see how soon it has recovered.
Every answer is compared with the one that the idle server gave for the same text.  The server runs without its cache,
and the client (load.py) beside it on the same cores.

With `address` a running server is measured, which may be any that speaks LibreTranslate's protocol.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import tomli_w

import jumok
from jumok import machine
from jumok.bench.decode import Contender, Process, own_contenders
from jumok.bench.load import Client, Phase, Request, post
from jumok.bench.measure import file_name, settings
from jumok.errors import DataError, JumokError, MissingPackage, UsageError
from jumok.extras import hint, is_installed
from jumok.reports.curves import curves_svg
from jumok.storage import bundle
from jumok.text.lines import read_lines

LIST = 32  # sentences of a list
SINGLES, LISTS = 32, 4  # connections of the closed loops
LOADS = (0.3, 0.7, 3.0)  # of the peak
RECOVERY = 5.0  # seconds after an overload
PATIENCE = 60.0  # seconds for a server to start

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    beam: int = 4
    shortlist: bool = False
    seconds: float = 10.0  # of every phase
    sentences: int = 1_000
    cache_megabytes: float = 0.0  # equal requests would be answered from a cache without translating
    options: tuple[str, ...] = ()  # further options of `jumok serve`


class Server(AbstractContextManager["Server"]):
    """A `jumok serve` of our own, from its start to its end."""

    def __init__(self, model: str, languages: tuple[str, str], chosen: Settings) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory()
        config = Path(self.folder.name) / "serve.toml"
        values: dict[str, Any] = {
            "models": {"-".join(languages): str(Path(model).absolute())},
            "state": self.folder.name,
        }
        values |= {"port": self.port, "beam": chosen.beam, "shortlist": chosen.shortlist, "log": "json"}
        values |= {"cache_megabytes": chosen.cache_megabytes}
        config.write_text(tomli_w.dumps(values), encoding="utf-8")
        command = [sys.executable, "-m", "jumok", "serve", "--config", str(config), *chosen.options]
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def wait_for_answer(self, request: bytes) -> float:
        """Return the seconds from the start of the process to its first answer."""
        while time.perf_counter() < self.began + PATIENCE:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
                    connection.sendall(request)
                    if connection.recv(4_096).startswith(b"HTTP/1.1 200"):
                        return time.perf_counter() - self.began
            except OSError:
                pass
            time.sleep(0.005)
        self.log.seek(0)
        raise JumokError("bench.server_did_not_start", reason=self.log.read().strip().split("\n")[-1])

    def memory(self) -> int:
        """Return the proportional set size of the server and of all its child processes, in bytes."""
        return sum(sizes["pss"] for sizes in self.measure_processes().values())

    def measure_processes(self) -> dict[str, dict[str, int]]:
        """Return the proportional set size and the anonymous memory of the front and of its engine processes."""
        sizes_of = {name: {"pss": 0, "anonymous": 0} for name in ("front", "engine")}
        waiting = [self.process.pid]
        while waiting:
            pid = waiting.pop()
            try:
                status, rollup = (Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "smaps_rollup"))
                for task in Path(f"/proc/{pid}/task").iterdir():
                    waiting += map(int, (task / "children").read_text().split())
            except OSError:
                continue
            sizes = sizes_of["front" if pid == self.process.pid else "engine"]
            for kind, name, text in (("pss", "Pss", rollup), ("anonymous", "RssAnon", status)):
                size = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
                sizes[kind] += 1_024 * int(size[1]) if size else 0
        return sizes_of

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


@dataclass
class Expected:
    """The translation of every text, as the idle server gave it."""

    answers: dict[int, Any] = field(default_factory=dict)
    compared: int = 0
    different: int = 0

    def learn(self, phase: Phase) -> None:
        for reply in phase.accepted:
            self.answers.setdefault(reply.number, json.loads(reply.body)["translatedText"])

    def compare(self, phase: Phase) -> None:
        for reply in phase.accepted:
            self.compared += 1
            self.different += json.loads(reply.body)["translatedText"] != self.answers.get(reply.number)


def find_pair(model: str, given: str | None) -> tuple[str, str]:
    """Return the languages of a model, or those given as `en,de`."""
    if given is not None:
        source, _, target = given.partition(",")
        if source and target:
            return source, target
    elif (known := bundle.read(model).languages) is not None:
        return known
    raise UsageError("bench.no_languages", model=model)


def make_requests(texts: Sequence[str], languages: tuple[str, str], host: str) -> tuple[list[Request], list[Request]]:
    """Return requests of one sentence each, and of lists; lists are numbered after the sentences."""

    def make(q: str | Sequence[str], number: int) -> Request:
        body = json.dumps({"q": q, "source": languages[0], "target": languages[1], "format": "text"}).encode()
        return Request(post(host, "/translate", body), number, 1 if isinstance(q, str) else len(q))

    singles = [make(text, number) for number, text in enumerate(texts)]
    lists = [make(some, len(texts) + number) for number, some in enumerate(_batched(texts, LIST))]
    return singles, lists


def _batched(texts: Sequence[str], size: int) -> list[list[str]]:
    return [list(texts[start : start + size]) for start in range(0, len(texts), size)]


def measure(
    model: str,
    *,
    source: str,
    languages: tuple[str, str],
    chosen: Settings = Settings(),
    address: str | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Run the protocol; results have names of files, never of folders."""
    texts = list(islice((line for line in read_lines(source) if line.strip()), chosen.sentences))
    if not texts:
        raise DataError("bench.nothing_to_translate", file=source)
    figures = {
        "bench": "serve", "version": jumok.__version__, "model": file_name(model), "source": file_name(source),
        "sentences": len(texts), "seconds": chosen.seconds, "beam": chosen.beam, "shortlist": chosen.shortlist,
        "settings": settings(), "machine": asdict(machine.describe()),
    }  # fmt: skip
    if address is not None:
        host, _, port = address.rpartition(":")
        requests = make_requests(texts, languages, address)
        return figures | asyncio.run(_load(Client(host, int(port)), *requests, chosen, say))
    if not is_installed("uvicorn"):
        raise MissingPackage("bench.no_server", advice=hint("uvicorn"))
    with Server(model, languages, chosen) as server:
        requests = make_requests(texts, languages, f"127.0.0.1:{server.port}")
        figures["start_seconds"] = server.wait_for_answer(requests[0][0].content)
        say(f"first answer after {figures['start_seconds']:.2f} s")
        figures |= asyncio.run(_load(Client("127.0.0.1", server.port), *requests, chosen, say))
        figures["memory"] = server.memory()
        figures["direct_sentences_per_second"] = measure_direct(model, texts, chosen)
        phase = asyncio.run(_repeat_lists(Client("127.0.0.1", server.port), requests[1], chosen.seconds))
        figures["lists_again"] = phase.figures()
    return figures


def measure_direct(model: str, texts: list[str], chosen: Settings, rounds: int = 3) -> float:
    """Return sentences per second of the translator itself, without a server, on all cores."""
    engine = "native-shortlist" if chosen.shortlist else "native"
    [contender] = own_contenders(model, [engine])
    process = Process(Contender(contender.name, contender.command))
    try:
        process.ask("warm", beam=chosen.beam, texts=texts)
        times = [float(process.ask("batch", beam=chosen.beam, texts=texts)["seconds"]) for _ in range(rounds)]
    finally:
        process.close()
    return len(texts) / sorted(times)[len(times) // 2]


async def _repeat_lists(client: Client, lists: Sequence[Request], seconds: float) -> Phase:
    phase = await client.saturate(lists, connections=LISTS, seconds=seconds)
    client.close()
    return phase


async def _load(
    client: Client, singles: Sequence[Request], lists: Sequence[Request], chosen: Settings, say: Say
) -> dict[str, Any]:
    """Run all phases against a server that answers."""
    expected, figures, seconds = Expected(), dict[str, Any](), chosen.seconds
    for requests in (singles, lists):  # every text once, without hurry
        expected.learn(await client.saturate(requests, connections=2, seconds=len(requests) / 50))
    rest = [request for request in (*singles, *lists) if request.number not in expected.answers]
    for request in rest:
        now = time.perf_counter()
        reply = await client.send(request, now, now)
        expected.learn(Phase(1.0, None, [reply]))
    peak = await client.saturate(singles, connections=SINGLES, seconds=seconds)
    figures["singles"] = peak.figures()
    say(f"single sentences: {peak.rate:,.0f} requests/s")
    several = await client.saturate(lists, connections=LISTS, seconds=seconds)
    figures["lists"] = several.figures()
    say(f"lists of {LIST}: {several.sentences / several.seconds:,.0f} sentences/s")
    for phase in (peak, several):
        expected.compare(phase)
    loads = []
    for load in LOADS:
        phase = await client.offer(singles, rate=load * peak.rate, seconds=seconds)
        expected.compare(phase)
        loads.append({"load": load} | phase.figures())
        say(f"{load:.0%} of that: {_describe(loads[-1])}")
    after = await client.offer(singles, rate=LOADS[0] * peak.rate, seconds=RECOVERY)
    last = [reply for reply in after.replies if reply.due > RECOVERY - 1.0]
    figures["recovery"] = after.figures() | {
        "milliseconds_p99_last_second": 1e3 * Phase(1.0, None, last).percentile(99),
        "refused_last_second": sum(reply.status != 200 for reply in last),
    }
    client.close()
    return figures | {"loads": loads, "compared": expected.compared, "different": expected.different}


def _describe(row: Mapping[str, Any]) -> str:
    statuses = ", ".join(f"{count:,} × {status}" for status, count in row["statuses"].items())
    times = ", ".join(f"p{share} {row[f'milliseconds_p{share}']:.1f} ms" for share in (50, 99))
    return f"{statuses}; {times}"


def table(figures: Mapping[str, Any]) -> list[str]:
    """The figures as lines for the terminal."""
    singles, lists, recovery = (figures[name] for name in ("singles", "lists", "recovery"))
    rows = [
        ("single sentences, closed loop", f"{singles['requests_per_second']:,.0f} requests/s", _describe(singles)),
        (f"lists of {LIST}, closed loop", f"{lists['sentences_per_second']:,.0f} sentences/s", _describe(lists)),
    ]
    if "direct_sentences_per_second" in figures:
        direct, again = figures["direct_sentences_per_second"], figures["lists_again"]["sentences_per_second"]
        ratio = max(again, lists["sentences_per_second"]) / direct
        rows.append(("the translator without a server", f"{direct:,.0f} sentences/s", f"lists reach {ratio:.0%} of it"))
    for row in figures["loads"]:
        rows.append(
            (
                f"{row['load']:.0%} of the peak, open loop",
                f"{row['requests_per_second']:,.0f} requests/s",
                _describe(row),
            )
        )
    last = f"p99 in the last second {recovery['milliseconds_p99_last_second']:.1f} ms"
    rows.append((f"{LOADS[0]:.0%} afterwards", f"{recovery['requests_per_second']:,.0f} requests/s", last))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{name:{widths[0]}}  {rate:>{widths[1]}}  {rest}" for name, rate, rest in rows]
    here, shares = figures["machine"], [row["client_cores"] for row in (singles, lists, *figures["loads"])]
    lines.append(f"{figures['different']:,} of {figures['compared']:,} answers differ from those of the idle server")
    if "memory" in figures:
        lines.append(
            f"first answer {figures['start_seconds']:.2f} s after the start; "
            f"{figures['memory'] / 1e6:,.0f} MB in all processes"
        )
    lines.append(
        f"{figures['sentences']:,} sentences of {figures['source']}, beam {figures['beam']}; {here['processor']}, "
        f"{here['cores']} cores, of which the client used {min(shares):.2f} to {max(shares):.2f}"
    )
    return lines


def picture(figures: Mapping[str, Any]) -> str:
    """Time to answer against the load, as SVG; overload is left out."""
    rows = [row for row in figures["loads"] if row["load"] < 1.0]
    series = {
        f"p{share}": [(row["offered_per_second"], row[f"milliseconds_p{share}"]) for row in rows]
        for share in (50, 95, 99)
    }
    return curves_svg(series, x="requests per second", y="milliseconds to the answer", title="Time to answer")
