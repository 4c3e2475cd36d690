"""A quiz of 30 questions with four choices each.  Which choice is right is computed, and each says why.

questions = read_questions(docs)
questions[0].right                   # the number of the right choice, from 0
to_html(questions, "ko")             # one page; answers are hidden until asked for

A choice is right if its rule holds of the numbers in findings (rules.py), or if its `value` is that of the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from jumok.lab.course.rules import evaluate, is_same
from jumok.lab.course.sheet import fill, mark_code, paper, pick, read_texts, read_values
from jumok.reports.page import safe
from jumok.reports.wording import korean

CIRCLES = "①②③④"
STYLE = "details{margin:.2rem 0 .9rem}.choices{list-style:none;padding-left:.4rem}.right{font-weight:600}"


@dataclass(frozen=True)
class Choice:
    """An answer, whether it is right, and why."""

    says: Mapping[str, str]
    why: Mapping[str, str]
    right: bool


@dataclass(frozen=True)
class Question:
    """A question about a lesson, with its choices in the order in which they are shown."""

    id: str
    lesson: int
    note: str  # the statement of the study notes that it is about; may be empty
    command: str
    says: Mapping[str, str]
    choices: Sequence[Choice]

    @property
    def right(self) -> int:
        """The place of the right choice; an error if there is not exactly one."""
        (place,) = (place for place, choice in enumerate(self.choices) if choice.right)
        return place


def read_questions(docs: Path) -> list[Question]:
    """All questions, with numbers from the findings below `docs`."""
    return [read_question(one, docs) for one in read_texts("quiz")["question"]]


def read_question(written: Mapping[str, Any], docs: Path) -> Question:
    values = read_values(written["values"], docs)
    choices = [read_choice(one, written.get("right", ""), values) for one in written["choice"]]
    Random(written["id"]).shuffle(choices)
    says = {language: fill(written[language], values) for language in ("ko", "en")}
    return Question(written["id"], written["lesson"], written["note"], written["command"], says, choices)


def read_choice(written: Mapping[str, str], right: str, values: Mapping[str, Any]) -> Choice:
    """A choice with its numbers; `value` is what it says, for questions that ask for a number."""
    if "value" in written:
        value = evaluate(written["value"], values)
        values = {**values, "value": value}
        holds = is_same(value, evaluate(right, values))
    else:
        holds = bool(evaluate(written["holds"], values))
    says = {language: fill(written[language], values) for language in ("ko", "en")}
    why = {language: fill(written[f"why_{language}"], values) for language in ("ko", "en")}
    return Choice(says, why, holds)


def label(key: str, language: str) -> str:
    return pick(read_texts("quiz")["label"][key], language)


def to_html(questions: Sequence[Question], language: str) -> str:
    """The quiz as one page."""
    body = [f"<h1>{safe(label('title', language))}</h1><p>{mark_code(label('says', language))}</p>"]
    for number, question in enumerate(questions, start=1):
        if number == 1 or question.lesson != questions[number - 2].lesson:
            body.append(f"<h2>{safe(label('lesson', language).format(lesson=question.lesson))}</h2>")
        choices = "".join(
            f"<li>{CIRCLES[place]} {mark_code(one.says[language])}</li>" for place, one in enumerate(question.choices)
        )
        body.append(f"<p><b>{number}.</b> {mark_code(question.says[language])}</p><ul class='choices'>{choices}</ul>")
        reasons = "".join(
            f"<li{' class=right' if one.right else ''}>{CIRCLES[place]} {mark_code(one.why[language])}</li>"
            for place, one in enumerate(question.choices)
        )
        body.append(
            f"<details><summary>{safe(label('answer', language))}</summary><p>{CIRCLES[question.right]}</p>"
            f"<ul class='choices'>{reasons}</ul><p class='soft'>{mark_code(source(question, language))}</p></details>"
        )
    return paper(label("title", language), f"<style>{STYLE}</style>{''.join(body)}", language)


def to_markdown(questions: Sequence[Question], language: str) -> str:
    """The quiz as Markdown, for readers of the repository."""
    lines = [f"# {label('title', language)}", "", label("says", language)]
    for number, question in enumerate(questions, start=1):
        if number == 1 or question.lesson != questions[number - 2].lesson:
            lines += ["", f"## {label('lesson', language).format(lesson=question.lesson)}"]
        lines += ["", f"**{number}.** {question.says[language]}", ""]
        lines += [f"- {CIRCLES[place]} {one.says[language]}" for place, one in enumerate(question.choices)]
        lines += ["", f"<details><summary>{label('answer', language)}</summary>", "", CIRCLES[question.right], ""]
        lines += [f"- {CIRCLES[place]} {one.why[language]}" for place, one in enumerate(question.choices)]
        lines += ["", source(question, language), "", "</details>"]
    return "\n".join(lines) + "\n"


def source(question: Question, language: str) -> str:
    """The command that computes the answer, and the note that the question is about, if there is one."""
    if not question.note:
        return label("alone", language).format(command=question.command)
    note = korean(question.note) if language == "ko" else question.note
    return label("source", language).format(command=question.command, note=note)
