"""The page about the notes as a value, and as Markdown and HTML in both languages."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jumok.lab.wording import Words
from jumok.reports.page import document, safe

VERDICTS = ("wrong", "condition", "right")
CROSS = ("001:105", "002:303–305", "004:49")  # what three notes say about cross-attention
HEAD = "cross-one-by-one"  # the figure that explains their numbers
WORDS = Words.read("notes", "lab/notes")
STYLE = """
body{font-size:16px;max-width:1400px}table{border-collapse:collapse}td,th{padding:.35rem .6rem;white-space:normal;
border-bottom:1px solid var(--line);text-align:left;vertical-align:top}td:first-child{white-space:nowrap}
code{font-size:.85em}.wrong{font-weight:600}.right{color:var(--soft)}:lang(ko){word-break:keep-all}
"""


@dataclass(frozen=True)
class Statement:
    """What a note says in one place, and what came of checking it."""

    at: str  # note:lines, and /2 for a second statement there
    verdict: str
    definition: bool  # its number is an example and proves nothing
    figure: str
    says: dict[str, str]  # by language, as the next
    right: dict[str, str]  # what is right instead, or what to add; empty where the note is right

    @property
    def note(self) -> str:
        return self.at.partition(":")[0]

    @property
    def lines(self) -> str:
        return self.at.partition(":")[2].partition("/")[0]

    @property
    def anchor(self) -> str:
        return "n" + re.sub(r"\W+", "-", self.at)


@dataclass(frozen=True)
class Page:
    """All notes, statements, figures and numbers."""

    notes: Sequence[Mapping[str, str]]
    statements: Sequence[Statement]
    figures: Mapping[str, Mapping[str, Any]]
    numbers: Mapping[str, Any]

    def word(self, name: str, language: str) -> str:
        """The text of a figure with its numbers; empty if it has none."""
        figure = self.figures[name]
        values = {name: self.numbers[path] for name, path in figure.get("values", {}).items()}
        text = str(figure[language]).format(**values) if language in figure else ""
        return text.replace(" %", "%") if language == "ko" else text

    def number(self, statement: Statement, language: str) -> str:
        """The number of a statement as a text; for a definition it says so."""
        text = self.word(statement.figure, language)
        if not statement.definition:
            return text
        word = WORDS("definition").of(language)
        return WORDS("example", number=text).of(language) if text else word

    def commands(self, statement: Statement) -> list[str]:
        """The command that computes the number, and one that shows the same in a model of yours."""
        figure = self.figures[statement.figure]
        return [figure["command"], *([figure["yours"]] if "yours" in figure else [])]

    def sources(self, statement: Statement) -> list[str]:
        """The files below docs from which the number comes."""
        folders = {"example": "notes", "lab": "lab", "result": "results"}
        paths = self.figures[statement.figure].get("values", {}).values()
        files = (path.partition(":") for path in paths)
        return sorted({f"{folders[kind]}/{rest.split('/')[0]}.json" for kind, _, rest in files})

    def of(self, note: str) -> list[Statement]:
        return [statement for statement in self.statements if statement.note == note]

    def find(self, at: str) -> Statement:
        return next(statement for statement in self.statements if statement.at == at)

    def count(self) -> Counter[str]:
        """How many statements have each verdict."""
        return Counter(statement.verdict for statement in self.statements)


def read_texts() -> tuple[list[Mapping[str, str]], list[Statement], dict[str, Any]]:
    """Notes, statements and figures as they are written."""
    folder = resources.files("jumok").joinpath("lab/notes")
    written = tomllib.loads(folder.joinpath("statements.toml").read_text(encoding="utf-8"))
    figures = tomllib.loads(folder.joinpath("figures.toml").read_text(encoding="utf-8"))
    statements = [
        Statement(
            one["at"], one["verdict"], bool(one.get("definition")), one["figure"], {"en": one["en"], "ko": one["ko"]},
            {"en": one.get("right_en", ""), "ko": one.get("right_ko", "")},
        )
        for one in written["statement"]
    ]  # fmt: skip
    return written["note"], statements, figures


def read_page(numbers: Mapping[str, Any] | None = None) -> Page:
    """The page, by default with the numbers in the package."""
    notes, statements, figures = read_texts()
    if numbers is None:
        folder = resources.files("jumok").joinpath("lab/notes")
        numbers = json.loads(folder.joinpath("numbers.json").read_text(encoding="utf-8"))
    return Page(notes, statements, figures, numbers)


def titles(language: str, *names: str) -> list[str]:
    return [WORDS(f"column.{name}").of(language) for name in names]


def to_markdown(page: Page, language: str) -> str:
    """The page as Markdown, with links to the findings."""
    lines = [f"# {WORDS('title').of(language)}", "", WORDS("says").of(language), ""]
    lines += table(titles(language, "note", "kind"), [[f"{n['id']} **{n['title']}**", n[language]] for n in page.notes])
    lines += ["", WORDS("verdicts", **page.count(), count=len(page.statements)).of(language), ""]
    lines += [f"## {WORDS('cross').of(language)}", "", WORDS("cross_says").of(language), ""]
    rows = [[link(page.find(at)), *cells(page, page.find(at), language)] for at in CROSS]
    lines += table(titles(language, "lines", "says", "verdict", "right", "number", "command"), rows)
    lines += ["", escape(page.word(HEAD, language)), "", f"## {WORDS('first').of(language)}", ""]
    rows = [
        [link(one), escape(one.says[language]), escape(one.right[language])]
        for one in page.statements
        if one.verdict == "wrong"
    ]
    lines += table(titles(language, "lines", "says", "right"), rows)
    for note in page.notes:
        lines += ["", f"## {note['id']} {note['title']}", ""]
        rows = [[mark(one), *cells(page, one, language)] for one in page.of(note["id"])]
        lines += table(titles(language, "lines", "says", "verdict", "right", "number", "command"), rows)
    return "\n".join([*lines, "", WORDS("made").of(language)]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def mark(statement: Statement) -> str:
    """The lines of a statement as the target of links."""
    return f'<a id="{statement.anchor}"></a>{statement.lines}'


def link(statement: Statement) -> str:
    """A link to a statement further down."""
    return f"[{statement.note}:{statement.lines}](#{statement.anchor})"


def cells(page: Page, statement: Statement, language: str) -> list[str]:
    """What the note says, the verdict, what is right, the number with its source, the command."""
    number = page.number(statement, language)
    files = ", ".join(f"[{file.split('/')[-1].removesuffix('.json')}]({file})" for file in page.sources(statement))
    return [
        escape(statement.says[language]), WORDS(f"verdict.{statement.verdict}").of(language),
        escape(statement.right[language]), f"{escape(number)} ({files})" if files else number,
        "<br>".join(f"`{command}`" for command in page.commands(statement)),
    ]  # fmt: skip


def escape(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def to_html(page: Page, language: str) -> str:
    """The page as one HTML file without links, for the studio's frame."""
    body = [f"<h1>{safe(WORDS('title').of(language))}</h1>", f"<p>{safe(WORDS('says').of(language))}</p>"]
    notes = [[safe(f"{n['id']} {n['title']}"), safe(n[language])] for n in page.notes]
    body.append(html_table(titles(language, "note", "kind"), notes))
    counts = WORDS("verdicts", **page.count(), count=len(page.statements)).of(language)
    body.append(f"<p>{safe(counts)}</p><h2>{safe(WORDS('cross').of(language))}</h2>")
    body.append(f"<p>{safe(WORDS('cross_says').of(language))}</p>")
    head = titles(language, "lines", "says", "verdict", "right", "number", "command")
    body.append(html_table(head, [html_row(page, page.find(at), language, whole=True) for at in CROSS]))
    body.append(f"<p>{safe(page.word(HEAD, language))}</p>")
    for note in page.notes:
        body.append(f"<h2>{safe(note['id'] + ' ' + note['title'])}</h2>")
        body.append(html_table(head, [html_row(page, one, language) for one in page.of(note["id"])]))
    return document(WORDS("title").of(language), "".join(body), language=language, style=STYLE)


def html_row(page: Page, statement: Statement, language: str, *, whole: bool = False) -> list[str]:
    verdict = f"<span class='{statement.verdict}'>{safe(WORDS(f'verdict.{statement.verdict}').of(language))}</span>"
    lines = f"{statement.note}:{statement.lines}" if whole else statement.lines
    return [
        safe(lines), safe(statement.says[language]), verdict, safe(statement.right[language]),
        safe(page.number(statement, language)),
        "<br>".join(f"<code>{safe(command)}</code>" for command in page.commands(statement)),
    ]  # fmt: skip


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML already."""
    titles = "".join(f"<th>{safe(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='wide'><table><tr>{titles}</tr>{lines}</table></div>"
