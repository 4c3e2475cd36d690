"""The display of a training: stages, one live line with the time left, a table row and a sample per validation.

Everything goes to standard error.  Without a terminal there is no live line; long stages then print their progress
every half minute.
"""

import math
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from jumok import messages
from jumok.events import Event
from jumok.messages import Message
from jumok.reports.drawing import display_width

QUIET = 30.0  # seconds between two lines about a stage without a terminal
COLUMNS = (8, 6, 7, 7, 7, 8, 6, 9)  # of the table of validations
STAGES = {
    "validation": Message("cli.stage_validation"),
    "hashing": Message("cli.stage_hashing"),
    "excluding": Message("cli.stage_excluding"),
    "comparing": Message("cli.stage_comparing"),
    "fetching": Message("cli.stage_fetching"),
    "measuring": Message("cli.stage_measuring"),
    "reading": Message("cli.stage_reading"),
    "deciding": Message("cli.stage_deciding"),
    "vocabulary": Message("cli.stage_vocabulary"),
    "encoding": Message("cli.stage_encoding"),
    "checking": Message("cli.stage_checking"),
    "joining": Message("cli.stage_joining"),
    "shortlist": Message("cli.stage_shortlist"),
    "lessons": Message("cli.stage_lessons"),
}


def form_header(*, accuracy: bool) -> str:
    """Return the titles of the table of validations; the quality is BLEU, or else the share of right answers."""
    titles = messages.text("cli.table_titles").split(", ")
    titles[6] = messages.text("cli.title_right") if accuracy else titles[6]
    cells = zip(titles, COLUMNS, strict=True)
    return " ".join(" " * (width - display_width(title)) + title for title, width in cells)


def count_units(count: int, unit: str) -> str:
    """Return how many pairs, sentences, … a stage has done."""
    values = {"count": count}
    units = {
        "pairs": Message("cli.unit_pairs", values), "sentences": Message("cli.unit_sentences", values),
        "subwords": Message("cli.unit_subwords", values), "rounds": Message("cli.unit_rounds", values),
    }  # fmt: skip
    return str(units.get(unit, f"{count:,} {unit}"))


def clock(seconds: float) -> str:
    """Return seconds as 1:02:03 or 4:05."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def describe_progress(event: Event) -> str:
    """Return the name of a stage, the share that is done, and the rate: of what is counted, or else of the share."""
    share, seconds, rate = 100 * event["share"], event["seconds"], event.get("rate")
    amount = ""
    if event["count"] and event["unit"] == "bytes":
        amount = f", {event['count'] / 1e6:,.0f} MB" + (f", {rate / 1e6:,.1f} MB/s" if rate else "")
    elif event["count"]:
        amount = f", {count_units(event['count'], event['unit'])}" + (f", {rate:,.0f}/s" if rate else "")
    elif seconds > 0 and share > 0:
        amount = f", {share / seconds:.2g} %/s"
    name = event["text"] if messages.spoken() == messages.ENGLISH else STAGES.get(event["stage"], event["text"])
    return f"{name}: {share:.0f} %{amount}"


class TimeLeft(ProgressColumn):
    """The time left: of the minutes, or for the remaining updates at the speed so far."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("left")
        return Text("" if left is None else messages.text("cli.time_left", time=clock(left)), style="cyan")


class TrainingDisplay:
    """A sink of events that shows them in the terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.bar: Progress | None = None
        self.headed = False
        self.speed, self.loss = 0.0, 0.0
        self.last = (0.0, 0)  # seconds and tokens when the speed was last measured
        self.tokens = 0
        self.drawn = 0.0  # when the live line was last drawn
        self.logged = 0.0  # when the progress of a stage was last printed without a terminal
        self.until: float | None = None  # when a run that is limited by minutes ends

    def __call__(self, event: Event) -> None:
        getattr(self, f"on_{event['event']}", lambda event: None)(event)

    def close(self) -> None:
        self._end_live()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def on_stage(self, event: Event) -> None:
        self._end_live()
        self.say(f"{event['text']}", "bold" if event.get("main") else "")

    def on_progress(self, event: Event) -> None:
        """Show the progress of a stage of more than a second: on the live line, or every half minute in a log."""
        words = describe_progress(event)
        if self.console.is_terminal:
            if event["seconds"] >= 1.0:
                self._live(words, event["share"], 1.0, event["left"])
            return
        if event["seconds"] >= QUIET and time.monotonic() - self.logged >= QUIET:
            self.logged = time.monotonic()
            left = "" if event["left"] is None else f", {messages.text('cli.time_left', time=clock(event['left']))}"
            self.say(f"{words}{left}")

    def _live(self, words: str, done: float, total: float | None, left: float | None) -> None:
        if self.bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeLeft())
            self.bar = Progress(*columns, console=self.console, transient=True, redirect_stdout=False)
            self.bar.add_task("", total=1.0)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], description=words, completed=done, total=total, left=left)

    def _end_live(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def on_note(self, event: Event) -> None:
        self.say(messages.text("cli.note", text=event["text"]), "yellow")

    def on_plan(self, event: Event) -> None:
        self.until = event.get("until", self.until)

    def on_step(self, event: Event) -> None:
        self.tokens += event["tokens"]
        if event["loss"] is not None and math.isfinite(event["loss"]):  # a skipped step has no loss
            self.loss = 0.95 * self.loss + 0.05 * event["loss"] if self.loss else event["loss"]
        seconds, tokens = self.last
        if event["seconds"] - seconds > 2.0:
            self.speed = (self.tokens - tokens) / (event["seconds"] - seconds)
            self.last = (event["seconds"], self.tokens)
        if not self.console.is_terminal or time.monotonic() - self.drawn < 0.2:
            return
        self.drawn = time.monotonic()
        horizon = event["horizon"] or 0
        left = event["seconds"] / event["step"] * (horizon - event["step"]) if horizon else None
        left = left if self.until is None else self.until - event["wall"]
        words = messages.text("cli.live_step", step=event["step"], loss=self.loss, speed=self.speed)
        if event["skipped"]:
            words += "  " + messages.text("cli.live_skipped", skipped=event["skipped"])
        self._live(words, event["step"], horizon or None, left)

    def on_validation(self, event: Event) -> None:
        if not self.headed:
            self.say(form_header(accuracy="accuracy" in event), "dim")
            self.headed = True
        quality = event.get("bleu", event.get("accuracy"))
        bleu = f"{quality:6.2f}" if quality is not None else f"{'–':>6}"
        perplexity = (
            f"{event['perplexity']:.2f}" if event["perplexity"] < 100_000 else "–"
        )  # the loss of such a model is not per token
        row = f"{event['step']:>8,} {event['epoch']:>6} {clock(event['seconds']):>7} {self.loss:>7.3f} "
        row += f"{event['loss']:>7.3f} {perplexity:>8} {bleu} {f'{self.speed:,.0f}' if self.speed else '–':>9}"
        pairs, total = event.get("pairs"), event.get("of")
        row += "" if pairs == total else "  " + messages.text("cli.some_pairs", pairs=pairs, total=total)
        self.say(row + (f"  {messages.text('cli.best')}" if event.get("better") else ""))
        parts = [f"{name.partition('/')[2]} {value:.2f}" for name, value in event.items() if "/" in name]
        if parts:
            self.say(f"{'':>9}{', '.join(parts)}", "dim")
        if event.get("sample"):
            line = Text(f"{'':>9}{event['sample']}", style="italic green", no_wrap=True, overflow="ellipsis")
            self.console.print(line, soft_wrap=not self.console.is_terminal)

    def on_finished(self, event: Event) -> None:
        self.close()
        self.say(event["text"], "bold")
