"""Six worksheets, each one page to print, and a key for each: what to predict, what to do, what to fill in.

sheets = read_sheets(docs)
render(sheets[0], "ko")              # the worksheet as HTML
render_key(sheets[0], "ko")          # its key, with wrong answers explained

Their texts are in worksheets.toml, the numbers of the keys in findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumok.lab.course.sheet import fill, items, mark_code, paper, pick, read_texts, read_values, table
from jumok.reports.page import safe


@dataclass(frozen=True)
class Sheet:
    """A worksheet with the values of its placeholders."""

    id: str
    written: Mapping[str, Any]
    values: Mapping[str, Any]
    labels: Mapping[str, str]
    docs: Path

    def text(self, key: str, language: str) -> str:
        return fill(str(self.written[language][key]), self.values)

    def texts(self, key: str, language: str) -> list[str]:
        return [fill(one, self.values) for one in self.written[language].get(key, [])]

    def wrong(self, language: str) -> list[tuple[str, str]]:
        """Wrong answers, each with where it comes from."""
        return [(fill(one, self.values), fill(why, self.values)) for one, why in self.written[language]["wrong"]]

    def label(self, key: str, language: str) -> str:
        return pick(self.labels[key], language)

    def title(self, language: str) -> str:
        return f"{self.id.upper()}. {self.text('title', language)}"

    def tables(self, language: str, *, key: bool) -> str:
        specs: Sequence[Mapping[str, Any]] = self.written.get("table", [])
        each = (table(spec, self.values, self.docs, language, key=key) for spec in specs)
        return f"<div class='tables'>{''.join(each)}</div>"


def read_sheets(docs: Path) -> list[Sheet]:
    """All worksheets, with numbers from the findings below `docs`."""
    texts = read_texts("worksheets")
    return [
        Sheet(one["id"], one, read_values(one.get("values", {}), docs), texts["label"], docs) for one in texts["sheet"]
    ]


def head(sheet: Sheet, language: str, *, key: bool = False) -> str:
    label = sheet.label("key" if key else "name", language)
    lesson = sheet.label("lesson", language).format(lesson=sheet.written["lesson"], minutes=sheet.written["minutes"])
    return f"<p class='name'>{safe(label)}</p><h1>{safe(sheet.title(language))}</h1><p class='soft'>{safe(lesson)}</p>"


def draw_space(sheet: Sheet, language: str) -> str:
    """An empty box to draw in, as high as the sheet says, in millimetres."""
    high = sheet.written.get("space", 0)
    label = safe(sheet.label("space", language))
    return f"<div class='space' style='height:{high}mm'>{label}</div>" if high else ""


def render(sheet: Sheet, language: str) -> str:
    """The page that students write on."""

    def heading(key: str) -> str:
        return f"<h2>{safe(sheet.label(key, language))}</h2>"

    def questions(key: str) -> str:
        lines = "<div class='line'></div>"
        return "".join(f"<p>{mark_code(one)}</p>{lines}" for one in sheet.texts(key, language))

    view = f"<p>{safe(sheet.label('view', language))} <code>{safe(sheet.written['view'])}</code></p>"
    command = f"<p>{safe(sheet.label('command', language))} <code>{safe(sheet.written['command'])}</code></p>"
    body = [
        head(sheet, language), f"<p>{mark_code(sheet.text('goal', language))}</p>",
        heading("predict"), questions("predict"),
        heading("do"), items(sheet.texts("do", language)), command, view,
        heading("fill"), sheet.tables(language, key=False), draw_space(sheet, language),
        heading("think"), questions("think"),
    ]  # fmt: skip
    return paper(sheet.title(language), "".join(body), language)


def render_key(sheet: Sheet, language: str) -> str:
    """The key: the tables filled in, the answers, and why wrong answers are wrong."""

    def section(key: str, inner: str) -> str:
        return f"<h2>{safe(sheet.label(key, language))}</h2>{inner}"

    wrong = "".join(f"<li><b>{mark_code(one)}</b> {mark_code(why)}</li>" for one, why in sheet.wrong(language))
    sources = sheet.label("sources", language).format(
        command=sheet.written["command"], files=", ".join(sources_of(sheet))
    )
    body = [
        head(sheet, language, key=True),
        section("predicted", items(sheet.texts("predicted", language), "ol")),
        section("fill", sheet.tables(language, key=True)),
        section("thought", items(sheet.texts("thought", language), "ol")),
        section("wrong", f"<ul>{wrong}</ul>"),
        f"<p class='soft'>{mark_code(sources)}</p>",
    ]  # fmt: skip
    return paper(f"{sheet.title(language)} – {sheet.label('key', language)}", "".join(body), language)


def sources_of(sheet: Sheet) -> list[str]:
    """The findings from which the numbers of a sheet come."""
    specs = [one["source"] for one in sheet.written.get("table", []) if "source" in one]
    paths = [
        path.removeprefix("lowest:").removeprefix("highest:") for path in (*sheet.written["values"].values(), *specs)
    ]
    folders = {"example": "notes", "lab": "lab", "result": "results"}
    names = {(folders[path.partition(":")[0]], path.partition(":")[2].split("/")[0]) for path in paths}
    return sorted(f"docs/{folder}/{name}.json" for folder, name in names)
