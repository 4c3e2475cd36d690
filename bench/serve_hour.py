"""Memory of `jumok serve` under a long mixed load.

    bench/serve_hour --model runs/tiny --source val.en --pair en-de --out hour.json
    bench/serve_hour … --minutes 60 --rate 40 --cache 16

One server as users start it, with its cache.  Requests arrive at random times (open loop), of these kinds: sentences,
sentences asked before, lists, HTML, DeepL with tags and a glossary, detection, server-sent events, files, DeepL's
documents, clients that leave before their answer, and invalid requests.  Texts are made of halves of two sentences, so
that they are nearly all different and the cache reaches its bound.  Nothing here starts the engine process with torch.
Status 0 is a request without an answer, -1 one whose client left; `repeated` counts those that were sent again because
the server had closed their idle connection.

Every ten seconds the proportional set size (PSS) and the anonymous memory (RssAnon) of the front and of the engine
process are read.  Growth is the median of the last two minutes over that of two minutes around minute 10: caches,
pools of memory and the tables of the allocator have reached their size by then.  The result is printed as JSON and
written to --out.  Exits with code 1 if memory grew by more than --most, or if any answer was 5xx but 503.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import jumok
from bench.places import say
from jumok import machine
from jumok.bench.load import Client, Reply, Request, post
from jumok.bench.serve import Server, Settings
from jumok.text.lines import read_lines

BEAT = 10.0  # seconds between two samples; less in a run of less than ten minutes
EARLY = 10.0  # minutes after which memory is to stay as it is
WINDOW = 2.0  # minutes over which a median is taken
BOUNDARY = "jumok-serve-hour"
LEFT = -1  # the status of a request whose client left
BAD = (  # path, body
    ("/translate", b"{"),
    ("/translate", b'{"q": "A dog.", "source": "xx", "target": "de"}'),
    ("/translate", b'{"source": "en", "target": "de"}'),
    ("/v1/translate", b'{"text": "A dog.", "target": "de", "beam": 100000}'),
    ("/v1/translate", b'{"text": "A dog.", "colour": 1}'),
    ("/v2/translate", b'{"text": ["\\ud800"], "target_lang": "QQ"}'),
    ("/nowhere", b"{}"),
)


@dataclass
class Result:
    """What happened: statuses by kind of request, and memory by time."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    samples: list[dict[str, float]] = field(default_factory=list)

    def median(self, name: str, first: float, last: float) -> float:
        """Return the median of a column between two minutes."""
        return statistics.median(one[name] for one in self.samples if first <= one["minute"] <= last)

    def grow(self, name: str, minutes: float) -> float:
        """Return by which share a column grew from minute 10, or a sixth of a shorter run, to the end."""
        early = min(EARLY, minutes / 6)
        half = min(WINDOW, minutes / 10) / 2
        return self.median(name, minutes - 2 * half, minutes) / self.median(name, early - half, early + half) - 1.0


class Mix:
    """Requests of all kinds against one server."""

    def __init__(self, port: int, texts: Sequence[str], pair: tuple[str, str], seed: int) -> None:
        self.host, self.port = f"127.0.0.1:{port}", port
        self.texts, self.pair, self.random = texts, pair, random.Random(seed)
        self.client = Client("127.0.0.1", port, patience=60.0, seed=seed, repeat=True)
        self.kinds: dict[str, tuple[int, Callable[[], Awaitable[int]]]] = {
            "sentence": (40, self.translate), "sentence again": (15, self.repeat), "list": (5, self.translate_list),
            "html": (8, self.translate_html), "deepl": (8, self.translate_deepl), "detect": (6, self.detect),
            "stream": (6, self.stream), "leaves": (5, self.leave), "file": (1, self.translate_file),
            "document": (1, self.translate_document), "invalid": (5, self.ask_wrongly),
        }  # fmt: skip
        self.glossary = ""

    def make_text(self) -> str:
        """Return a text that nobody asked for before, most likely."""
        first, second = (self.random.choice(self.texts).split() for _ in range(2))
        return " ".join([*first[: (len(first) + 1) // 2], *second[len(second) // 2 :]])

    async def send(self, content: bytes) -> Reply:
        now = time.perf_counter()
        return await self.client.send(Request(content, 0), now, now)

    async def ask(self, path: str, value: Any) -> Reply:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return await self.send(post(self.host, path, body))

    def plain(self, q: Any, **more: Any) -> dict[str, Any]:
        return {"q": q, "source": self.pair[0], "target": self.pair[1]} | more

    async def translate(self) -> int:
        return (await self.ask("/translate", self.plain(self.make_text()))).status

    async def repeat(self) -> int:
        return (await self.ask("/translate", self.plain(self.random.choice(self.texts)))).status

    async def translate_list(self) -> int:
        return (await self.ask("/translate", self.plain([self.make_text() for _ in range(8)]))).status

    async def translate_html(self) -> int:
        words = self.make_text().split()
        middle = " ".join(words[1:-1])
        page = f"<p class='x'>{words[0]} <b>{middle}</b> <a href='#'>{words[-1]}</a></p>"
        return (await self.ask("/translate", self.plain(page, format="html"))).status

    async def translate_deepl(self) -> int:
        words = self.make_text().split()
        text = f"{words[0]} <i>{' '.join(words[1:3])}</i> {' '.join(words[3:])}"
        languages = {"source_lang": self.pair[0], "target_lang": self.pair[1]}
        value = {"text": [text], "tag_handling": "xml", "glossary_id": self.glossary} | languages
        return (await self.ask("/v2/translate", value)).status

    async def detect(self) -> int:
        return (await self.ask("/detect", {"q": self.make_text()})).status

    async def ask_wrongly(self) -> int:
        return (await self.ask(*self.random.choice(BAD))).status

    async def stream(self) -> int:
        """Read all events."""
        value = {"text": self.make_text(), "source": self.pair[0], "target": self.pair[1]}
        body = json.dumps(value).encode()
        content = post(self.host, "/v1/translate/stream", body).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(content)
            async with asyncio.timeout(60.0):
                got = await reader.read(-1)
        finally:
            writer.close()
        status = int(got[9:12]) if got else 0
        return status if status != 200 or b"event: done" in got or b"event: error" in got else 0

    async def leave(self) -> int:
        """Ask for some work and leave while it is being done."""
        content = post(self.host, "/translate", json.dumps(self.plain([self.make_text() for _ in range(16)])).encode())
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(content)
        await asyncio.sleep(self.random.uniform(0.0, 0.05))
        writer.transport.abort()
        return LEFT

    def make_form(self, path: str, fields: dict[str, str], name: str, content: str) -> bytes:
        """Return a form with a file."""
        parts = [
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
            for key, value in fields.items()
        ]
        parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n')
        body = "".join([*parts, content, f"\r\n--{BOUNDARY}--\r\n"]).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}"
        return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def translate_file(self) -> int:
        """Upload a file and fetch its translation; one in ten never does."""
        source, target = self.pair
        content = "\n".join(self.make_text() for _ in range(10))
        reply = await self.send(
            self.make_form("/translate_file", {"source": source, "target": target}, "a.txt", content)
        )
        if reply.status != 200 or self.random.random() < 0.1:
            return reply.status
        path = re.sub(r"^https?://[^/]+", "", json.loads(reply.body)["translatedFileUrl"])
        return (await self.send(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())).status

    async def translate_document(self) -> int:
        """Upload a page to DeepL's API, ask how far it is, fetch it."""
        page = "".join(f"<p>{self.make_text()}</p>\n" for _ in range(10))
        languages = {"source_lang": self.pair[0], "target_lang": self.pair[1]}
        reply = await self.send(self.make_form("/v2/document", languages, "a.html", page))
        if reply.status != 200:
            return reply.status
        handle = json.loads(reply.body)
        path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
        for _ in range(120):
            reply = await self.ask(path, key)
            if reply.status != 200 or json.loads(reply.body)["status"] in ("done", "error"):
                break
            await asyncio.sleep(0.5)
        return (await self.ask(f"{path}/result", key)).status

    async def make_glossary(self) -> None:
        """Store a glossary of terms that occur in the texts."""
        words = Counter(word for text in self.texts for word in text.split() if word.isalpha() and len(word) > 3)
        entries = "\n".join(f"{word}\t{word.capitalize()}" for word, _ in words.most_common(20))
        value = {"name": "hour", "source_lang": self.pair[0], "target_lang": self.pair[1], "entries": entries}
        reply = await self.ask("/v2/glossaries", value | {"entries_format": "tsv"})
        self.glossary = json.loads(reply.body)["glossary_id"]

    async def run(self, rate: float, seconds: float, result: Result) -> None:
        """Send requests of random kinds at random times, and wait for all answers."""
        await self.make_glossary()
        names, weights = list(self.kinds), [weight for weight, _ in self.kinds.values()]
        began, at, tasks = time.perf_counter(), 0.0, set[asyncio.Task[None]]()

        async def count(name: str) -> None:
            try:
                status = await self.kinds[name][1]()
            except (OSError, TimeoutError):
                status = 0
            result.statuses[name][status] += 1

        while (at := at + self.random.expovariate(rate)) < seconds:
            if (delay := began + at - time.perf_counter()) > 0:
                await asyncio.sleep(delay)
            task = asyncio.create_task(count(self.random.choices(names, weights)[0]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)
        self.client.close()


async def load(server: Server, mix: Mix, options: argparse.Namespace, result: Result) -> None:
    """Load the server and sample its memory until the load has ended."""
    began, work = time.monotonic(), asyncio.create_task(mix.run(options.rate, 60 * options.minutes, result))
    while not work.done():
        minute = (time.monotonic() - began) / 60
        row = {"minute": round(minute, 3)}
        for name, sizes in server.measure_processes().items():
            row |= {f"{name} {kind}": size for kind, size in sizes.items()}
        row["pss"] = sum(value for key, value in row.items() if key.endswith(" pss"))
        row["anonymous"] = sum(value for key, value in row.items() if key.endswith(" anonymous"))
        result.samples.append(row)
        if len(result.samples) % 30 == 1:
            say(f"minute {minute:.0f}: " + ", ".join(f"{k} {v / 1e6:.1f} MB" for k, v in row.items() if k != "minute"))
        await asyncio.wait({work}, timeout=min(BEAT, options.minutes))
    await work


def read_metrics(port: int) -> dict[str, float]:
    """Return the sums of the server's metrics that tell about memory and faults."""
    from urllib.request import urlopen

    page = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    found = dict[str, float]()
    for name in re.findall(r"^# TYPE (\w+) (?:counter|gauge)$", page, re.MULTILINE):
        found[name] = sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="run or bundle")
    parser.add_argument("--source", required=True, help="text, one sentence per line")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=40.0, help="requests per second")
    parser.add_argument("--cache", type=float, default=16.0, help="megabytes of the server's cache; its own default")
    parser.add_argument("--most", type=float, default=0.02, help="largest growth, as a share")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="file of the result")
    options = parser.parse_args()
    source, _, target = options.pair.partition("-")
    texts = list(islice((line for line in read_lines(options.source) if len(line.split()) > 3), 2_000))
    result, chosen = Result(), Settings(cache_megabytes=options.cache)
    with Server(options.model, (source, target), chosen) as server:
        body = json.dumps({"q": texts[0], "source": source, "target": target}).encode()
        server.wait_for_answer(post(f"127.0.0.1:{server.port}", "/translate", body))
        mix = Mix(server.port, texts, (source, target), options.seed)
        asyncio.run(load(server, mix, options, result))
        metrics = read_metrics(server.port)
    growth = {name: result.grow(name, options.minutes) for name in result.samples[0] if name != "minute"}
    statuses = {name: {str(key): count for key, count in sorted(one.items())} for name, one in result.statuses.items()}
    ended = sum(result.statuses.values(), Counter[int]())
    failed = sum(count for status, count in ended.items() if status >= 500 and status != 503)
    figures = {
        "bench": "serve_hour", "version": jumok.__version__, "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": asdict(machine.describe()), "minutes": options.minutes, "rate": options.rate,
        "cache_megabytes": options.cache, "requests": ended.total(), "repeated": mix.client.repeated,
        "statuses": statuses, "failed": failed, "growth": growth, "metrics": metrics, "samples": result.samples,
    }  # fmt: skip
    options.out.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print(json.dumps({name: value for name, value in figures.items() if name != "samples"}, indent=1))
    sys.exit(1 if failed or growth["pss"] > options.most else 0)


if __name__ == "__main__":
    main()
