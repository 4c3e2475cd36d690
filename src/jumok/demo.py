"""The demo on the built-in corpus: train English to Korean, score it, show ten translations and the attention."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jumok import messages
from jumok.data.made import phrasebook
from jumok.data.made.roles import roles_right
from jumok.evaluation import metrics
from jumok.evaluation.alignment import alignment_error_rate, alignment_errors
from jumok.events import Sink
from jumok.reports.attention import AttentionView, attention_page, heatmap_svg, terminal
from jumok.runs.experiment import train
from jumok.text.lines import write_lines
from jumok.translator import load

EXAMPLE = "My friend bought three apples at the market yesterday."  # shows English order becoming Korean order


@dataclass(frozen=True)
class Report:
    """Results of the demo on unseen sentences."""

    bleu: metrics.Score
    chrf: metrics.Score
    exact: float  # share of translations equal to the reference
    exact_unseen: float  # the same for sentences with a word combination that is not in the training data
    particles: float  # share of sentences with every particle right
    roles: float  # share of reversible sentences in which the right person does it to the right one
    reversible: int  # how many these are
    aer: float  # alignment error rate of the best head of cross-attention
    aer_head: tuple[int, int]  # its layer and head, counted from 1
    aer_links: float  # alignment error rate of `--align`
    examples: tuple[tuple[str, str, str], ...]  # English, translation, reference
    view: AttentionView  # of `SHOWN`
    page: Path

    def lines(self) -> list[str]:
        """The report as text."""
        layer, head = self.aer_head
        examples = [
            f"  {english}\n    {ours}"
            + ("" if ours == reference else f"      {messages.text('demo.expected', reference=reference)}")
            for english, ours, reference in self.examples
        ]
        scores = [
            messages.text("demo.test_score", metric=metric, score=score.value, signature=score.signature)
            for metric, score in (("BLEU", self.bleu), ("chrF", self.chrf))
        ]
        return [
            messages.text("demo.heading"),
            *examples,
            "",
            *scores,
            messages.text("demo.exact", exact=self.exact, unseen=self.exact_unseen),
            messages.text("demo.particles", particles=self.particles),
            messages.text("demo.roles", roles=self.roles, count=self.reversible),
            messages.text("demo.alignment", layer=layer, head=head, rate=self.aer, links=self.aer_links),
            "",
            messages.text("demo.page", page=self.page.resolve()),
        ]

    def drawing(self, *, width: int, color: bool) -> str:
        """The attention of the best aligning head, for the terminal."""
        layer, head = self.aer_head
        return terminal(self.view, "cross", layer=layer - 1, head=head - 1, width=width, color=color)


def run(
    out: Path, *, minutes: float | None = None, sinks: Sequence[Sink] = (), stop: Callable[[], bool] = lambda: False
) -> Report:
    """Train, unless `out` has a finished run, and report on 1,000 test sentences."""
    if not (out / "model" / "MANIFEST.json").exists():
        changes: dict[str, Any] = {} if minutes is None else {"training.minutes": minutes}
        train(recipe="demo", out=out, changes=changes, sinks=sinks, stop=stop)
    return report(out)


def report(out: Path, *, sentences: int = 1_000) -> Report:
    """Score the model in `out` on the phrasebook's test split and write its attention page."""
    model = load(out)
    phrases = phrasebook.phrases("test", sentences)
    ours = [translation.text for translation in model.lines([phrase.english for phrase in phrases])]
    references = [phrase.korean for phrase in phrases]
    right = np.array([a == b for a, b in zip(ours, references, strict=True)])
    unseen = np.array([phrase.unseen for phrase in phrases])
    particles = [phrasebook.particles_match(a, b) for a, b in zip(ours, references, strict=True)]
    reversible = phrasebook.reversible("test", max(1, 3 * sentences // 10))
    answers = model.lines([phrase.english for phrase in reversible])
    roles = [roles_right(phrase.roles, each.text) for phrase, each in zip(reversible, answers, strict=True)]
    some = phrases[:200]
    rates = alignment_errors(model, some)
    links = model.align([phrase.english for phrase in some], [phrase.korean for phrase in some])
    layer, head = np.unravel_index(rates.argmin(), rates.shape)
    examples = tuple((p.english, o, p.korean) for p, o in zip(phrases[:10], ours, strict=False))
    page = out / "attention.html"
    views = [model.attention(text) for text in (EXAMPLE, *(phrase.english for phrase in phrases[:5]))]
    write_lines(page, attention_page(views, title="Jumok demo", language=messages.spoken()).split("\n"))
    weights = views[0].map("cross", layer=int(layer), head=int(head))
    picture = heatmap_svg(weights, *views[0].labels("cross"), title=views[0].text)
    write_lines(out / "attention.svg", picture.split("\n"))
    return Report(
        bleu=metrics.bleu(ours, references),
        chrf=metrics.chrf(ours, references),
        exact=float(right.mean()),
        exact_unseen=float(right[unseen].mean()) if unseen.any() else float("nan"),
        particles=float(np.mean(particles)),
        roles=float(np.mean(roles)),
        reversible=len(reversible),
        aer=float(rates.min()),
        aer_head=(int(layer) + 1, int(head) + 1),
        aer_links=alignment_error_rate(list(map(set, links)), [set(phrase.alignment) for phrase in some]),
        examples=examples,
        view=views[0],
        page=page,
    )
