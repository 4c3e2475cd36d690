"""Progress of a race: a live table on a terminal, elsewhere a line for every validation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jumok import messages
from jumok.events import Event
from jumok.race.contenders import Contender


class RaceDisplay:
    """Follows the runs of a race."""

    def __init__(self, names: Sequence[str], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.rows: dict[str, dict[str, Any]] = {name: {"state": messages.text("race.waits")} for name in names}
        self.live = Live(self.table(), console=self.console, auto_refresh=False) if self.console.is_terminal else None
        self.refreshed = 0.0

    def __enter__(self) -> RaceDisplay:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.update(self.table(), refresh=True)
            self.live.stop()

    def __call__(self, contender: Contender, event: Event) -> None:
        row = self.rows[contender.name]
        match event["event"]:
            case "begin":
                row |= {"parameters": event["parameters"], "state": messages.text("race.trains")}
            case "step":
                row |= {"step": event["step"], "minutes": event["wall"] / 60, "train": event["loss"]}
            case "validation":
                row |= {name: event[name] for name in ("loss", "bleu", "accuracy") if name in event}
                self.print_row(contender.name, row)
            case "finished":
                row["state"] = messages.text("race.done")
        self.refresh()

    def print_row(self, name: str, row: dict[str, Any]) -> None:
        if self.live is None:
            words = [f"{key} {row[key]:.2f}" for key in ("minutes", "loss", "bleu", "accuracy") if key in row]
            where = messages.text("race.line", step=row.get("step", 0))
            self.console.print(Text(f"{name:<14} {where}  {'  '.join(words)}"), soft_wrap=True)

    def refresh(self) -> None:
        if self.live is not None and time.monotonic() - self.refreshed > 0.3:
            self.refreshed = time.monotonic()
            self.live.update(self.table(), refresh=True)

    def say(self, text: str) -> None:
        self.console.print(Text(text))

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column(messages.text("race.model"))
        for title in messages.text("race.live_titles").split(", "):
            table.add_column(title, justify="right")
        table.add_column("")
        for name, row in self.rows.items():
            worth = row.get("bleu", row.get("accuracy"))
            figures = (
                form_value(row.get("parameters"), "{:,}"), form_value(row.get("step"), "{:,}"),
                form_value(row.get("minutes"), "{:.1f}"), form_value(row.get("train"), "{:.3f}"),
                form_value(row.get("loss"), "{:.3f}"), form_value(worth, "{:.2f}"),
            )  # fmt: skip
            table.add_row(name, *figures, row["state"])
        return table


def form_value(value: Any, form: str) -> str:
    return "–" if value is None else form.format(value)
