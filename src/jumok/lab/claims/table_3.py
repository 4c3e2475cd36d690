"""The paper's table 3 at a size that two cores can train: every row, its numbers, and the direction of its effect.

A row here is the paper's row with every width divided by 4 and every number of layers by 2; heads, dropout and label
smoothing stay, so each row changes the same hyper-parameter by the same factor.  All rows get the same updates.

Directions   a row against base, in log perplexity and in BLEU: up, down, or within the noise of seeds
Not here     the paper's own sizes, which are recipes (config/presets.py: table3-A-h1 …)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from jumok import messages
from jumok.config import presets
from jumok.config.keywords import SearchKeywords
from jumok.data.corpora import Pair, read_test_set
from jumok.data.made import phrasebook
from jumok.errors import UnknownName, UsageError
from jumok.evaluation.evaluate import evaluate
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.standing import Standing, over_seeds
from jumok.lab.thresholds import Limits
from jumok.lab.wording import Text, Words
from jumok.reports.charts import bars_svg
from jumok.storage.bundle import write_file

WORDS, LIMITS = Words.read("table-3"), Limits.read("table-3")


class Row(NamedTuple):
    """A row of the paper's table: perplexity per word piece and BLEU on newstest2013, millions of weights if given."""

    label: str
    ppl: float
    bleu: float
    millions: int | None = None


PAPER = {
    "base": Row("base", 4.92, 25.8, 65),
    "A-h1": Row("A  h = 1", 5.29, 24.9),
    "A-h4": Row("A  h = 4", 5.00, 25.5),
    "A-h16": Row("A  h = 16", 4.91, 25.8),
    "A-h32": Row("A  h = 32", 5.01, 25.4),
    "B-dk16": Row("B  d_k × 1/4", 5.16, 25.1, 58),
    "B-dk32": Row("B  d_k × 1/2", 5.01, 25.4, 60),
    "C-n2": Row("C  N × 1/3", 6.11, 23.7, 36),
    "C-n4": Row("C  N × 2/3", 5.19, 25.3, 50),
    "C-n8": Row("C  N × 4/3", 4.88, 25.5, 80),
    "C-d256": Row("C  d_model × 1/2", 5.75, 24.5, 28),
    "C-d1024": Row("C  d_model × 2", 4.66, 26.0, 168),
    "C-ff1024": Row("C  d_ff × 1/2", 5.12, 25.4, 53),
    "C-ff4096": Row("C  d_ff × 2", 4.75, 26.2, 90),
    "D-p0": Row("D  P_drop = 0", 5.77, 24.6),
    "D-p0.2": Row("D  P_drop = 0.2", 4.95, 25.5),
    "D-ls0": Row("D  ε_ls = 0", 4.67, 25.3),
    "D-ls0.2": Row("D  ε_ls = 0.2", 5.47, 25.7),
    "E-learned": Row("E  learned positions", 4.92, 25.7),
    "big": Row("big", 4.33, 26.4, 213),
}
SEEDS = {"base": 0, "base-2": 1, "base-3": 2}  # base with other seeds, to measure noise
ORDER = (  # the most informative first, in case the grid is stopped
    "base", "C-n2", "D-p0", "A-h1", "C-d256", "base-2", "D-ls0", "B-dk16", "C-ff1024", "base-3", "E-learned", "A-h32",
    "D-ls0.2", "C-n4", "D-p0.2", "C-ff4096", "C-n8", "C-d1024", "big", "A-h4", "B-dk32", "A-h16",
)  # fmt: skip
HANDFUL = ORDER[:5]  # at the quick scale
MOST = ("C-n2", "C-d256", "A-h1", "D-p0")  # the rows with the largest effects in the paper, one per hyper-parameter
BUDGETS = {"quick": 300, "minutes": 3_000, "hours": 9_600}  # updates; the last are twenty passes, as in the paper

SMALLER = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 4, "d_ff": 4, "d_k": 4, "d_v": 4}
WARMUP, PEAK, WIDTH = 400, 2e-3, 128  # equation 3: the peak falls with the root of the width; this is that of base
COMMON: dict[str, Any] = {  # what all rows have; model and label smoothing come from the paper's row
    "name": "table-3",
    "vocabulary.kind": "bpe",
    "vocabulary.size": 5_000,  # a third of the weights of base, as in the paper
    "vocabulary.at_most": True,
    "data.tokens_per_batch": 512,
    "model.longest": 256,
    "training.optimizer": "adam",
    "training.schedule": "noam",
    "training.clip": 0.0,
    "training.tokens_per_update": 1_024,
    "training.validations": 1,  # at the end, so that the last weights are the model
    "training.valid_pairs": 100,
    "training.average": 1,
}
SEARCH: SearchKeywords = {"beam": 4, "length_penalty": 0.6}
SENTENCES = 2_000  # validation sentences at most

FLAT = {"ppl": 0.01, "bleu": 0.1}  # differences that the paper calls nearly identical: learned positions, 16 heads
LEAST = {"ppl": 0.01, "bleu": 0.3}  # lower bound of the noise, in case three seeds agree by chance
UNKNOWN = {"ppl": 0.03, "bleu": 0.8}  # noise where base was trained only once


# ------------------------------------------------------------------------------------------ rows


def paper_recipe(row: str) -> Any:
    """The paper's recipe of a row."""
    return {"base": presets.base, "big": presets.big}.get(row, lambda: presets.table_3(row))()


def scale_down(row: str) -> dict[str, Any]:
    """A row at our size: the paper's model, scaled down, as changes to a recipe."""
    recipe = paper_recipe(row)
    model = {name: value for name, value in recipe.model.model_dump().items() if name != "longest"}
    small = {name: value // SMALLER[name] if name in SMALLER and value else value for name, value in model.items()}
    rate = PEAK * (WIDTH / small["d_model"]) ** 0.5
    changes = {f"model.{name}": value for name, value in small.items()}
    return changes | {"training.label_smoothing": recipe.training.label_smoothing, "training.peak": rate}


def training_text(lab: Lab) -> dict[str, Any]:
    """The training text: Multi30k if there is a folder of corpora, else the phrasebook."""
    if lab.data is None:
        return {"data.corpus": "phrasebook", "data.pairs": 29_000}
    home = lab.corpus("multi30k")
    sides = {"source": "train.en", "target": "train.de", "valid_source": "val.en", "valid_target": "val.de"}
    return {"data.corpus": None} | {f"data.{side}": str(home / f"{file}.gz") for side, file in sides.items()}


def validation(lab: Lab, sentences: int) -> list[Pair]:
    """The pairs on which rows are compared."""
    if lab.data is not None:
        home = lab.corpus("multi30k")
        return read_test_set(str(home / "val.en.gz"), str(home / "val.de.gz"), None)[:sentences]
    phrases = phrasebook.phrases("validation", min(500, sentences), seed=lab.seed)
    return [Pair(phrase.english, phrase.korean, line) for line, phrase in enumerate(phrases, start=1)]


def changes_of(lab: Lab, row: str, updates: int, *, changed: bool) -> dict[str, Any]:
    """All changes to the lab's recipe for a row."""
    again = SEEDS.get(row)
    small = scale_down("base" if again is not None or not changed else row)
    budget = {"training.steps": updates, "training.warmup": min(WARMUP, max(1, updates // 4))}
    return COMMON | training_text(lab) | small | budget | {"seed": lab.seed + (again or 0)}


def choose_rows(rows: str | Sequence[str], scale: str) -> list[str]:
    """The requested rows in the order of ORDER, base always among them; `found` trains none."""
    if not rows:
        return list(HANDFUL if scale not in BUDGETS or scale == "quick" else ORDER)
    named = [name.strip() for name in rows.split(",")] if isinstance(rows, str) else list(rows)
    if named in (["all"], ["found"]):
        return list(ORDER)
    for name in named:
        if name not in ORDER:
            raise UnknownName("lab.unknown_row", name, [*ORDER, "all", "found"])
    return [name for name in ORDER if name in {*named, "base"}]


# ------------------------------------------------------------------------------------------ measuring


def measure_row(
    lab: Lab, row: str, changes: Mapping[str, Any], sentences: int, *, train: bool
) -> dict[str, Any] | None:
    """The numbers of a row, from the lab's folder or trained now; None if it is missing and `train` is False.

    They are saved at once, so a grid that was stopped continues with the row that was interrupted.
    """
    recipe = lab.recipe(changes)
    identity = json.dumps([recipe.model_dump(mode="json"), SEARCH, sentences], sort_keys=True)
    path = lab.folder / "table-3" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
    try:
        numbers: dict[str, Any] = json.loads(path.read_bytes())
        return numbers
    except (OSError, ValueError):
        if not train:
            return None
    run = lab.train(f"table 3 {row}", changes)
    steps = [event for event in run.events if event["event"] == "step"]
    scores = evaluate(run.model, pairs=validation(lab, sentences), perplexity=True, **SEARCH)
    numbers = {
        "ppl": scores.perplexity,
        "bleu": scores.bleu,
        "parameters": sum(weights.numel() for weights in run.model.model.parameters()),
        "minutes": steps[-1]["seconds"] / 60,
        "tokens": round(sum(update["tokens"] for update in run.updates)),
        "epochs": steps[-1]["epoch"],
        "loss": sum(update["loss"] for update in run.updates[-50:]) / len(run.updates[-50:]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(numbers).encode())
    return numbers


def measure(
    lab: Lab,
    *,
    rows: str | Sequence[str] = "",
    updates: int = 0,
    sentences: int = SENTENCES,
    changed: bool = True,
) -> dict[str, Any]:
    """`rows`: all, some ("base,C-n2"), or found (those on disk).  Without `changed` every row is really base."""
    if updates < 0 or sentences < 1:
        raise UsageError("lab.bad_budget", updates=updates, sentences=sentences)
    budget = updates or BUDGETS.get(lab.scale.name) or lab.steps(BUDGETS["quick"])
    asked, train = choose_rows(rows, lab.scale.name), rows not in ("found", ["found"])
    results: dict[str, Any] = {}
    lab.say(WORDS("told.phrasebook" if lab.data is None else "told.multi30k").of(messages.spoken()))
    for row in ORDER:  # rows that were not requested are reported if they are on disk
        wanted = train and row in asked
        if wanted:
            lab.stop.check()
        result = measure_row(lab, row, changes_of(lab, row, budget, changed=changed), sentences, train=wanted)
        if result is not None:
            results[row] = result
            scores = {name: result[name] for name in ("ppl", "bleu", "minutes")}
            lab.say(messages.text("lab.row_done", row=row, **scores))
    base = lab.recipe(changes_of(lab, "base", budget, changed=changed))
    return {
        "data": lab.data is not None,
        "corpus": "phrasebook" if lab.data is None else "multi30k",
        "updates": budget,
        "tokens": base.training.tokens_per_update,
        "shape": getattr(base.model, "shape", ""),
        "asked": asked,
        "complete": set(asked) <= set(results),
        "rows": results,
    }


# ------------------------------------------------------------------------------------------ directions


def value(row: Mapping[str, float], measure: str) -> float:
    """The value that is compared: BLEU, or the logarithm of the perplexity."""
    return math.log(row["ppl"]) if measure == "ppl" else row["bleu"]


def differences(numbers: Numbers, measure: str) -> dict[str, float]:
    """The difference of every measured row from base, which is the mean of its seeds."""
    rows = numbers["rows"]
    bases = [value(rows[name], measure) for name in SEEDS if name in rows]
    if not bases:
        return {}
    base = sum(bases) / len(bases)
    return {row: value(rows[row], measure) - base for row in PAPER if row in rows and row != "base"}


def noise(numbers: Numbers, measure: str) -> float:
    """The largest difference between runs of base that differ only in their seed."""
    values = [value(numbers["rows"][name], measure) for name in SEEDS if name in numbers["rows"]]
    return max(LEAST[measure], max(values) - min(values)) if len(values) > 1 else UNKNOWN[measure]


def paper_difference(row: str, measure: str) -> float:
    """The difference of the paper's row from its base."""
    return value(PAPER[row]._asdict(), measure) - value(PAPER["base"]._asdict(), measure)


def paper_sign(row: str, measure: str) -> int:
    """The direction of the paper's row; 0 where the paper sees no difference."""
    moved = getattr(PAPER[row], measure) - getattr(PAPER["base"], measure)
    return 0 if abs(moved) <= FLAT[measure] + 1e-9 else int(math.copysign(1, moved))


def directions(numbers: Numbers, measure: str) -> dict[str, str]:
    """For every measured row: agrees, disagrees, or noise (the effect is within the noise here).

    Where the paper sees no difference: alike, or moves.
    """
    margin, signs = noise(numbers, measure), {}
    for row, moved in differences(numbers, measure).items():
        here, paper = 0 if abs(moved) <= margin else int(math.copysign(1, moved)), paper_sign(row, measure)
        if paper == 0:
            signs[row] = "alike" if here == 0 else "moves"
        else:
            signs[row] = "noise" if here == 0 else "agrees" if here == paper else "disagrees"
    return signs


def chance(agree: int, of: int) -> float:
    """The probability that at least `agree` of `of` coins show heads."""
    return float(sum(math.comb(of, count) for count in range(agree, of + 1)) / 2**of)


# ------------------------------------------------------------------------------------------ checks


def check(numbers: Numbers) -> list[Check]:
    there, asked = [row for row in numbers["asked"] if row in numbers["rows"]], numbers["asked"]
    counts = {"there": len(there), "asked": len(asked), "table": len(ORDER), "updates": numbers["updates"]}
    checks = [Check(WORDS(f"checks.{numbers['corpus']}", **counts), len(there) == len(asked), "grid")]
    checks += [check_most(numbers, row) for row in MOST]
    return [*checks, *(check_agreement(numbers, measure) for measure in ("ppl", "bleu"))]


def check_most(numbers: Numbers, row: str) -> Check:
    """Check that a row with a large effect in the paper agrees in perplexity, and does not disagree in BLEU."""
    values: dict[str, Any] = {"label": PAPER[row].label, "paper": 100 * math.expm1(paper_difference(row, "ppl"))}
    part = "dropout" if row == "D-p0" else "rows"
    if row not in numbers["rows"] or "base" not in numbers["rows"]:
        return Check(WORDS("checks.missing", **values), False, part)
    more = {measure: differences(numbers, measure)[row] for measure in ("ppl", "bleu")}
    signs = {measure: directions(numbers, measure)[row] for measure in ("ppl", "bleu")}
    values |= {"here": 100 * math.expm1(more["ppl"]), "bleu": more["bleu"], "paper_bleu": paper_difference(row, "bleu")}
    holds = signs["ppl"] == "agrees" and signs["bleu"] != "disagrees"
    if part == "dropout" and not holds and numbers["rows"]["base"].get("epochs", math.inf) < LIMITS["passes"]:
        return Check(
            WORDS("checks.most", **values), None, part, WORDS("decide.dropout", **cost_of_deciding(numbers, row))
        )
    return Check(WORDS("checks.most", **values), holds, part)


def cost_of_deciding(numbers: Numbers, row: str) -> dict[str, float]:
    """The passes over the data here, and the updates and hours of three seeds of two rows that would be enough."""
    base = numbers["rows"]["base"]
    longer = LIMITS["passes"] / max(1, base["epochs"])
    minutes = longer * len(SEEDS) * (base["minutes"] + numbers["rows"][row]["minutes"])
    return {"epochs": base["epochs"], "passes": LIMITS["passes"], "updates": round(longer * numbers["updates"], -2),
            "hours": minutes / 60, "seeds": len(SEEDS)}  # fmt: skip


def check_agreement(numbers: Numbers, measure: str) -> Check:
    """Check that more rows agree with the paper than chance explains."""
    signs = directions(numbers, measure)
    named = {
        kind: ", ".join(row for row, sign in signs.items() if sign == kind) or "–"
        for kind in ("agrees", "disagrees", "noise")
    }
    agree, of = (sum(sign in kinds for sign in signs.values()) for kinds in (("agrees",), ("agrees", "disagrees")))
    likely = chance(agree, of)
    margin = 100 * math.expm1(noise(numbers, measure)) if measure == "ppl" else noise(numbers, measure)
    text = WORDS(f"checks.{measure}", agree=agree, of=of, chance=likely, margin=margin, **named)
    return Check(text, of > 0 and likely <= LIMITS["doubt"], "rows")


# ------------------------------------------------------------------------------------------ report


def label(row: str) -> Text:
    """A row's name: the paper's letter and what is changed."""
    if row in SEEDS:
        return WORDS("row.base", number=SEEDS[row] + 1)
    return WORDS("row.learned") if row == "E-learned" else Text(PAPER[row].label, PAPER[row].label)


def stand(numbers: Numbers) -> Standing:
    runs = [numbers["rows"][name]["bleu"] for name in SEEDS if name in numbers["rows"]]
    return Standing("real", "bleu", mean(runs) if runs else None, max(1, len(runs)), over_seeds(runs), "seeds")


def draw(numbers: Numbers, language: str) -> list[Picture]:
    paper, here = (WORDS(f"picture.{name}").of(language) for name in ("paper", "here"))
    pictures = []
    for measure, form in (("bleu", "{:+.1f}"), ("ppl", "{:+.3f}")):
        moved = differences(numbers, measure)
        bars = {
            label(row).of(language): {paper: paper_difference(row, measure), here: moved.get(row, math.nan)}
            for row in PAPER
            if row != "base"
        }
        axis, caption = WORDS(f"picture.{measure}-axis").of(language), WORDS(f"picture.{measure}")
        pictures.append(Picture(f"table-3-{measure}", bars_svg(bars, x=axis, form=form), caption))
    return pictures


def tabulate(numbers: Numbers) -> Table:
    here, paper, direction = (
        [WORDS(f"table.{group}-{name}") for name in names]
        for group, names in (
            ("here", ("millions", "minutes", "ppl", "bleu")),
            ("paper", ("millions", "ppl", "bleu")),
            ("way", ("ppl", "bleu")),
        )
    )
    signs = {measure: directions(numbers, measure) for measure in ("ppl", "bleu")}
    rows = [cells(numbers["rows"].get(row), row, signs) for row in [*SEEDS, *(row for row in PAPER if row != "base")]]
    return Table([WORDS("table.row"), *here, *paper, *direction], rows)


def cells(result: Mapping[str, Any] | None, row: str, signs: Mapping[str, Mapping[str, str]]) -> list[str | Text]:
    """A row of the table, also if it was not measured."""
    nothing, known = Text("", ""), PAPER.get(row)
    paper = [str(known.millions or ""), f"{known.ppl:.2f}", f"{known.bleu:.1f}"] if known else [""] * 3
    if result is None:
        return [label(row), *["–"] * 4, *paper, *[WORDS("way.missing")] * 2]
    here = [
        f"{result['parameters'] / 1e6:.2f}",
        f"{result['minutes']:.1f}",
        f"{result['ppl']:.2f}",
        f"{result['bleu']:.1f}",
    ]
    words = [WORDS(f"way.{signs[measure][row]}") if row in signs[measure] else nothing for measure in signs]
    return [label(row), *here, *paper, *words]


CLAIM = Claim(
    name="table-3", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=1
)
