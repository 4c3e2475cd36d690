"""How quickly the studio answers, in a real browser.

    bench/studio --model runs/tiny --source val.en --out studio.json
    bench/studio --model runs/base --source val.en --only inside,blocks

A server as `jumok studio` starts it, and Debian's chromium driven by Playwright; leave the machine alone meanwhile.

- *usable*: from the first byte of the page to the first frame in which the text box takes text, and in which the first
  lines say what the model learned from; also with the browser's processor slowed four times.
- *inside*: from the request for a sentence until the weights of all heads are on the screen (two frames after the
  page has changed), of sentences whose source and translation have 18 to 22 tokens.
- *blocks*: from the click on a block until its numbers are there.
- *long*: the same as inside for a sentence of about 500 tokens, and the longest task that it gives the browser.
- *typing*: the longest time from a key to the next frame while a sentence is typed, and the longest task.
- *hover*: requests that pointing at words and cells makes.
- *segments*: a text of 5,000 words: until the first segment is translated, and all.
- *score*: BLEU of 500 pairs with one part switched off, by request.

A class of thirty students is measured by tools/class_load.py.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

from bench.places import say
from jumok import machine
from jumok.bench.load import post
from jumok.bench.serve import Server, Settings
from jumok.text.lines import read_lines

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60_000  # milliseconds
WORDS = 5_000
WATCH = """(() => {
  const asked = window.asked = {}, tasks = window.tasks = [], fetched = window.fetch;
  window.requests = 0;
  window.fetch = (where, ...rest) => {
    const path = new URL(where, location.href).pathname;
    asked[path] = performance.now();
    window.requests += 1;
    return fetched(where, ...rest);
  };
  new PerformanceObserver((list) => { for (const one of list.getEntries()) tasks.push(one.duration); })
    .observe({ type: "longtask", buffered: true });
  window.drawn = (isThere, path) => new Promise((done) => {
    const look = () => {
      if (!isThere()) return requestAnimationFrame(look);
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - (path ? asked[path] : 0))));
    };
    look();
  });
})();"""
USABLE = """() => {
  const began = performance.getEntriesByType("navigation")[0].responseStart, found = {};
  const look = () => {
    const now = performance.now() - began;
    const box = document.querySelector("textarea"), lead = document.querySelector(".lead");
    if (box && !box.disabled) found.box ??= now;
    if (found.box && lead.textContent.trim().length > 20) found.lead ??= now;
    return found.lead ? found : new Promise(requestAnimationFrame).then(look);
  };
  return look();
}"""
SHOWN = """([query, before]) => {
  const said = () => document.querySelector("[data-said=translation]")?.textContent;
  location.hash = "#/inside?" + new URLSearchParams(query);
  return window.drawn(() => document.querySelector(".matrix, canvas, [role=slider]") && said() !== before,
    "/v1/inside");
}"""
OPENED = """(row) => {
  const mark = () => document.querySelector(".right")?.textContent, before = mark();
  document.querySelectorAll(".figure .block:not([disabled])")[row].click();
  return window.drawn(() => mark() !== before && document.querySelector(".right .card table, .right .card canvas"),
    "/v1/inside/block");
}"""
TYPED = """() => {
  const box = document.querySelector("textarea"), times = window.times = [];
  box.addEventListener("keydown", () => {
    const began = performance.now();
    requestAnimationFrame(() => times.push(performance.now() - began));
  });
}"""


def ask(server: Server, path: str, body: dict[str, Any]) -> Any:
    """The JSON answer to a request."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=120) as answer:
        return json.load(answer)


def describe(times: Sequence[float]) -> dict[str, float]:
    """Median and largest of several times."""
    return {"median": round(statistics.median(times), 1), "most": round(max(times), 1), "count": len(times)}


class Studio:
    """A server, a browser, and what is measured with them."""

    def __init__(self, server: Server, driver: Any, lines: Sequence[str], rounds: int) -> None:
        self.server, self.lines, self.rounds = server, lines, rounds
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None:
            raise SystemExit("there is no chromium; try: apt-get install chromium fonts-noto-cjk fonts-stix")
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        self.browser = driver.chromium.launch(executable_path=found, args=options)
        self.address = f"http://127.0.0.1:{server.port}/"

    @contextmanager
    def open(self, place: str = "", *, slowed: int = 1) -> Iterator[Any]:
        """A fresh page, without a cache."""
        context = self.browser.new_context(viewport={"width": 1_400, "height": 900}, locale="en-US")
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.add_init_script(WATCH)
        if slowed != 1:
            context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
        page.goto(self.address + place)
        yield page
        context.close()

    def usable(self) -> dict[str, Any]:
        found = {}
        for slowed in (1, 4):
            times = []
            for _ in range(self.rounds):
                with self.open(slowed=slowed) as page:
                    times.append(page.evaluate(USABLE))
            found[f"slowed {slowed} times" if slowed > 1 else "plain"] = {
                part: describe([one[part] for one in times]) for part in ("box", "lead")
            }
        return found

    def choose(self, least: int, most: int) -> list[str]:
        """Sentences whose source and translation have so many tokens."""
        chosen = []
        for line in self.lines:
            if len(line.split()) < least - 6:
                continue
            tokens = ask(self.server, "/v1/inside", {"text": line, "map": False, "layer": 0})["tokens"]
            if all(least <= len(tokens[side]) <= most for side in ("source", "target")):
                chosen.append(line)
            if len(chosen) > self.rounds:
                return chosen
        return chosen

    def show(self, page: Any, text: str, **query: str) -> float:
        """Milliseconds from the request for a sentence until it is drawn; the view may be chosen by further values."""
        said = page.locator("[data-said=translation]")
        before = said.inner_text() if said.count() else None
        return float(page.evaluate(SHOWN, [{"text": text} | query, before]))

    def inside(self) -> dict[str, Any]:
        chosen = self.choose(18, 22)
        with self.open("#/inside") as page:
            self.show(page, chosen[0])
            times = []
            for text in chosen[1:]:
                page.wait_for_timeout(300)
                times.append(self.show(page, text))
        return describe(times)

    def blocks(self) -> dict[str, Any]:
        [text, *_] = self.choose(18, 22)
        times: list[float] = []
        with self.open("#/inside") as page:
            self.show(page, text)
            page.locator(".figure details").evaluate_all("all => all.forEach((one) => (one.open = true))")
            count = page.locator(".figure .block:not([disabled])").count()
            for row in Random(1).sample(range(count), min(count, 2 * self.rounds)):
                page.wait_for_timeout(100)
                times.append(page.evaluate(OPENED, row))
        return describe(times)

    def long(self) -> dict[str, Any]:
        text = ""
        for line in self.lines:
            text = f"{text} {line}".strip()
            tokens = ask(self.server, "/v1/inside", {"text": text, "map": False, "layer": 0})["tokens"]
            if len(tokens["source"]) >= 490:
                break
        sizes = {side: len(tokens[side]) for side in ("source", "target")}
        with self.open("#/inside?kind=encoder&layer=0") as page:
            self.show(page, self.lines[0])
            page.evaluate("() => void (window.tasks.length = 0)")
            shown = self.show(page, text, kind="encoder")
            page.wait_for_timeout(1_000)
            first = page.evaluate("Math.max(0, ...window.tasks)")
            page.evaluate("() => void (window.tasks.length = 0)")
            page.get_by_role("slider").focus()
            for _ in range(10):
                page.keyboard.press("ArrowDown")
                page.wait_for_timeout(100)
            moved = page.evaluate("Math.max(0, ...window.tasks)")
        return {"tokens": sizes, "shown": round(shown, 1), "longest task": first, "longest task of an arrow key": moved}

    def typing(self) -> dict[str, Any]:
        text = next(line for line in self.lines if 60 <= len(line) <= 90)
        found = {}
        for slowed in (1, 4):
            with self.open(slowed=slowed) as page:
                page.evaluate(USABLE)
                page.evaluate(TYPED)
                page.evaluate("() => void (window.tasks.length = 0)")
                page.locator("textarea").first.click()
                page.keyboard.type(text, delay=60)
                page.wait_for_timeout(500)
                times, task = page.evaluate("[window.times, Math.max(0, ...window.tasks)]")
            found[f"slowed {slowed} times" if slowed > 1 else "plain"] = describe(times) | {"longest task": task}
        return found

    def hover(self) -> dict[str, Any]:
        text = next(line for line in self.lines if 60 <= len(line) <= 90)
        found = {}
        for screen, what in (("translate", ".said span"), ("inside", "[role=slider], .tokens .token")):
            with self.open(f"#/{screen}?" + urlencode({"text": text})) as page:
                page.locator(what).first.wait_for()
                page.wait_for_timeout(1_500)
                before, spots = page.evaluate("window.requests"), page.locator(what)
                pointed = min(spots.count(), 20)
                for number in range(pointed):
                    spots.nth(number).hover(force=True)
                    page.wait_for_timeout(60)
                found[screen] = {"pointed at": pointed, "requests": page.evaluate("window.requests") - before}
        return found

    def segments(self) -> dict[str, Any]:
        words, chosen = 0, list[str]()
        for line in self.lines:
            chosen.append(line)
            words += len(line.split())
            if words >= WORDS:
                break
        with self.open("#/translate?view=text") as page:
            page.locator("textarea").first.fill("\n".join(chosen))
            page.evaluate("""() => {
                document.addEventListener("click", () => (window.began = performance.now()), true);
                const cells = () => [...document.querySelectorAll(".target-cell")];
                window.whole = window.drawn(() => cells().length && cells().every((one) => one.value));
                window.some = window.drawn(() => cells().some((one) => one.value));
            }""")
            page.get_by_role("button", name="Translate the text").click()
            first, whole = page.evaluate(
                "async () => [await window.some - window.began, await window.whole - window.began]"
            )
            count = page.locator(".target-cell").count()
        return {"words": words, "segments": count, "first": round(first, 1), "all": round(whole, 1)}

    def score(self) -> dict[str, Any]:
        parts = {
            "a head": {"heads": [["cross", 0, 0]]}, "a layer": {"layers": [["decoder", 0]]}, "words": {"shuffle": 1},
            **{name: {"off": [name]} for name in ("mask", "positions", "scale", "residual", "norm")},
        }  # fmt: skip
        found = {}
        for name, edits in parts.items():
            began = time.perf_counter()
            answer = ask(self.server, "/v1/break/score", {"edits": edits, "pairs": 500})
            found[name] = {"seconds": round(time.perf_counter() - began, 2), "bleu": answer["after"]["bleu"]}
        return found


PARTS = ("usable", "inside", "blocks", "long", "typing", "hover", "segments", "score")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True, help="sentences to ask for, such as a validation set")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--rounds", type=int, default=10, help="pages opened and sentences shown")
    parser.add_argument("--only", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SystemExit("playwright is missing; try: pip install playwright") from None
    lines = list(dict.fromkeys(read_lines(Path(options.source))))
    source, _, target = options.pair.partition("-")
    results: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "processor": machine.describe().processor}
    with sync_playwright() as driver, Server(options.model, (source, target), Settings()) as server:
        body = json.dumps({"q": lines[0], "source": source, "target": target}).encode()
        server.wait_for_answer(post(f"127.0.0.1:{server.port}", "/translate", body))
        studio = Studio(server, driver, lines, options.rounds)
        for name in options.only.split(","):
            results[name] = getattr(studio, name)()
            say(f"{name}: {json.dumps(results[name])}")
        studio.browser.close()
    text = json.dumps(results, indent=1)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
