"""Several heads are better than one at equal cost, and each learns a different job (section 3.2.2).

One softmax makes one mean, so a single head cannot fetch several things: tested on a toy task.  The heads of a model
that translates are shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch

from jumok import messages
from jumok.data.made.grammar.draft import ASKED, CALL, OBJECT, SUBJECT, VERB
from jumok.data.made.phrasebook import align
from jumok.evaluation.metrics import bleu
from jumok.inside.edits import Edits
from jumok.inside.surgery import change, list_attentions
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table
from jumok.lab.laboratory import Lab
from jumok.lab.looking import Aligned, all_heads, constituents, drafts, gold, is_mark, to_lists, views
from jumok.lab.standing import Standing, over_seeds, tell_runs
from jumok.lab.thresholds import Limits
from jumok.lab.toys import fetch
from jumok.lab.toys.fitting import fit
from jumok.lab.wording import Text, Words
from jumok.reports.attention import KINDS, AttentionView
from jumok.reports.charts import bars_svg, field_svg, row_svg
from jumok.text.boundaries import words_of
from jumok.translator import Translator

WORDS, LIMITS = Words.read("heads"), Limits.read("heads")
MARKED = (1, 2, 4)  # symbols to fetch
SHUFFLES = 200  # of the permutation test
VIEWED = 100  # sentences whose attention is measured, and that are translated without each head
ROLES = {"call": CALL, "asked": ASKED, "verb": VERB, "subject": SUBJECT, "object": OBJECT}
JOBS = {
    "encoder": ("itself", "previous", "next", "word", "end", "mark", *ROLES, "far"),
    "decoder": ("itself", "previous", "word", "start", "far"),
    "cross": ("saying", "said", "end", "far"),
}
LITTLE = 0.1  # a head is broad if no job gets this much more than its even share


class Parsed(NamedTuple):
    """A sentence, its translation, their links, and the constituent of each English word."""

    english: str
    korean: str
    alignment: tuple[tuple[int, int], ...]
    roles: tuple[int, ...]


def parse_sentences(lab: Lab) -> list[Parsed]:
    """The sentences whose attention is measured."""
    many = max(10, round(VIEWED * min(4.0, lab.scale.factor)))
    return [
        Parsed(*draft.spell(), align(draft), tuple(constituents(draft)))
        for draft in islice(drafts(f"heads/{lab.seed}"), many)
    ]


# ------------------------------------------------------------------------------------------ how many heads


def fetch_with(lab: Lab, marks: int, heads: int, *, alike: bool) -> dict[str, Any]:
    """A layer with this many heads that fetches this many symbols (toys/fetch.py), for every seed."""
    result: dict[str, Any] = {"marks": marks, "heads": heads, "right": [], "roles": [], "new": [], "chance": []}

    def build() -> fetch.Fetch:
        return fetch.Fetch(marks, heads)

    def draw_strings(generator: torch.Generator) -> Any:
        return fetch.strings(generator, fetch.BATCH, marks)

    for seed in lab.toy_seeds():
        module, new = (
            fit(build, draw_strings, steps=steps, seed=seed, check=lab.stop.check)
            for steps in (lab.steps(fetch.STEPS), 0)
        )
        if alike:
            fetch.make_alike(module)
        result["right"].append(fetch.measure_right(module, marks, seed + 1))
        result["roles"].append(fetch.measure_roles(module, marks, seed + 1))
        result["new"].append(fetch.difference(fetch.measure_roles(new, marks, seed + 1)))
        result["chance"].append(fetch.chance_of_roles(module, marks, seed + 1, SHUFFLES))
    return result


def compare_counts(lab: Lab, counts: Sequence[int], *, alike: bool) -> list[dict[str, Any]]:
    """Compare layers that differ only in the number of heads; d_k shrinks as heads are added."""
    results = []
    for marks in MARKED:
        lab.say(messages.text("lab.training", model=f"fetch {marks}"))
        results += [fetch_with(lab, marks, count, alike=alike) for count in counts]
    return results


def quality(model: Translator, phrases: Sequence[Aligned]) -> dict[str, float]:
    """BLEU of greedy translations, and the loss per token of the references."""
    sources, right = [phrase.english for phrase in phrases], [phrase.korean for phrase in phrases]
    outputs = [answer.text for answer in model.translate(sources, beam=1, details=False)]
    scores = model.score(sources, right)
    tokens = sum(len(score.tokens) for score in scores)
    return {
        "bleu": bleu(outputs, right, tokenize="auto").value,
        "loss": -sum(score.log_probability for score in scores) / tokens,
    }


# ------------------------------------------------------------------------------------------ what each head does


def jobs(view: AttentionView, phrase: Parsed, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The job of each query-key pair (R, C), an index in JOBS; which pairs are allowed (R, C); which rows count."""
    rows, columns = (len(labels) for labels in view.labels(kind))
    at, to = np.indices((rows, columns))
    job = np.full((rows, columns), len(JOBS[kind]) - 1)  # far, unless it is any other job

    def name(job_name: str, where: np.ndarray) -> None:
        job[where] = JOBS[kind].index(job_name)

    if kind == "cross":
        links = gold(phrase, len(phrase.korean.split()), len(phrase.english.split())) > 0
        source, target, fed = (np.array(words_of(side)) for side in (view.source, view.target, view.fed))
        for key, words in (("said", fed), ("saying", target)):
            name(key, links[words[:, None], source[None, :]] & (words[:, None] >= 0) & (source[None, :] >= 0))
        name("end", to == columns - 1)
        return job, np.ones_like(job, dtype=bool), target >= 0
    words = np.array(words_of(view.source if kind == "encoder" else view.fed))
    if kind == "encoder":
        role = np.array([phrase.roles[word] if word >= 0 else -1 for word in words])
        for key, wanted in ROLES.items():
            name(key, np.broadcast_to(role == wanted, job.shape))
        name("mark", np.broadcast_to(np.array([is_mark(piece) for piece in view.source]), job.shape))
    name("word", (words[:, None] == words[None, :]) & (words[:, None] >= 0))
    name("previous", to == at - 1)
    if kind == "encoder":
        name("next", to == at + 1)
        name("end", to == columns - 1)
        name("itself", to == at)
        return job, np.ones_like(job, dtype=bool), words >= 0
    name("itself", to == at)
    name("start", to == 0)
    return job, to <= at, np.arange(rows) >= 2  # before that there is little to choose from


def measure_jobs(looks: Sequence[AttentionView], phrases: Sequence[Parsed], kind: str) -> dict[str, Any]:
    """For every head of a kind (L, H): the weight of each job, that of a uniform head, and its entropy."""
    shape = getattr(looks[0], kind).shape[:2]
    names = JOBS[kind]
    given, even = np.zeros((*shape, len(names))), np.zeros(len(names))
    entropy, apart, count = np.zeros(shape), np.zeros(shape[0]), 0
    for view, phrase in zip(looks, phrases, strict=True):
        job, allowed, used = jobs(view, phrase, kind)
        weights = getattr(view, kind)[:, :, used].astype(np.float64)  # (L, H, R, C)
        job, allowed = job[used], allowed[used]
        many = allowed.sum(axis=1)  # (R,)
        for number in range(len(names)):
            given[..., number] += (weights * ((job == number) & allowed)).sum(axis=(2, 3))
            even[number] += (((job == number) & allowed).sum(axis=1) / many).sum()
        spread = -(weights * np.log(weights.clip(1e-12))).sum(axis=3)  # (L, H, R)
        entropy += (spread / np.log(np.maximum(2, many))).sum(axis=2)
        couples = list(combinations(range(shape[1]), 2))
        if couples:
            apart += sum(np.abs(weights[:, a] - weights[:, b]).sum(axis=(1, 2)) / 2 for a, b in couples) / len(couples)
        count += len(job)
    return {
        "given": to_lists(given / count),
        "even": to_lists(even / count),
        "entropy": to_lists(entropy / count),
        "apart": float(apart.mean() / count),
    }


def name_job(given: Sequence[float], even: Sequence[float], kind: str) -> str:
    """The main job of a head, compared with one that attends uniformly."""
    more = np.array(given) - np.array(even)
    return JOBS[kind][int(more.argmax())] if more.max() >= LITTLE else "broad"


# ------------------------------------------------------------------------------------------ without a head


@torch.no_grad()
def make_alike(module: Any) -> None:
    """Make every head a copy of the first of its layer."""
    for kind in KINDS:
        for attention in list_attentions(module, kind):
            for matrix in (attention.query, attention.memory) if kind == "cross" else (attention.qkv,):
                for parameter in filter(lambda tensor: tensor is not None, (matrix.weight, matrix.bias)):
                    for block in parameter.split(matrix.blocks):
                        by_head = block.unflatten(0, (attention.heads, -1))
                        by_head[1:] = by_head[:1].clone()


def ablate(lab: Lab, model: Translator, phrases: Sequence[Aligned], kind: str) -> list[list[dict[str, float]]]:
    """Quality without each head, by layer and head."""
    results: list[list[dict[str, float]]] = []
    for layer, attention in enumerate(list_attentions(model.model, kind)):
        results.append([])
        for head in range(attention.heads):
            lab.stop.check()
            with change(model.model, Edits(heads=frozenset({(kind, layer, head)}))):
                results[-1].append(quality(model, phrases))
    return results


# ------------------------------------------------------------------------------------------ the claim


def measure(lab: Lab, *, heads: Sequence[int] = (1, 2, 4), alike: bool = False) -> dict[str, Any]:
    """`heads`: numbers of heads of the compared layers; `alike`: make all heads of a layer copies of its first."""
    numbers: dict[str, Any] = {"fetched": compare_counts(lab, heads, alike=alike)}
    model, phrases = lab.base().model, parse_sentences(lab)
    if alike:
        make_alike(model.model)
    looks = views(model, phrases)
    lab.say(messages.text("lab.switching_off"))
    return numbers | {
        "graded": lab.grade(model),
        "whole": quality(model, phrases),
        "done": {kind: measure_jobs(looks, phrases, kind) for kind in KINDS},
        "without": {kind: ablate(lab, model, phrases, kind) for kind in KINDS},
    }


def names_of(numbers: Numbers) -> dict[tuple[str, int, int], str]:
    """The main job of every head."""
    names = {}
    for kind in KINDS:
        jobs = numbers["done"][kind]
        for layer, head in all_heads(np.shape(jobs["given"])):
            names[kind, layer, head] = name_job(jobs["given"][layer][head], jobs["even"], kind)
    return names


def lost_bleu(numbers: Numbers, kind: str) -> np.ndarray:
    """The BLEU lost without each head (L, H)."""
    return np.array(
        [[numbers["whole"]["bleu"] - score["bleu"] for score in layer] for layer in numbers["without"][kind]]
    )


def fetched(numbers: Numbers, marks: int) -> list[Numbers]:
    """The results for this many marks, fewest heads first."""
    return [result for result in numbers["fetched"] if result["marks"] == marks]


def check(numbers: Numbers) -> list[Check]:
    (one, *_), most = (fetched(numbers, marks) for marks in (MARKED[0], MARKED[-1]))
    fewest, largest = most[0], most[-1]
    gains = [many - few for many, few in zip(largest["right"], fewest["right"], strict=True)]
    low = (over_seeds(gains) or (mean(gains),) * 2)[0]
    several = mean(largest["right"]) >= LIMITS["solved"] and mean(gains) >= LIMITS["better"]
    roles, new = mean(map(fetch.difference, largest["roles"])), mean(largest["new"])
    chance = max(largest["chance"])
    different = roles >= LIMITS["roles"] and roles >= LIMITS["trained"] * new and chance <= LIMITS["chance"]
    apart = float(np.mean([numbers["done"][kind]["apart"] for kind in KINDS]))
    values = {
        "marks": MARKED[-1],
        "fewest": fewest["heads"],
        "largest": largest["heads"],
        "gain": mean(gains),
        "low": low,
    }
    ends = {"one": mean(fewest["right"]), "several": mean(largest["right"])}
    return [
        Check(WORDS("checks.single", right=mean(one["right"])), mean(one["right"]) >= LIMITS["solved"], "several"),
        Check(WORDS("checks.several", **values, **ends), several, "several"),
        Check(WORDS("checks.roles", roles=roles, new=new, chance=chance), different, "different"),
        Check(WORDS("checks.apart", apart=apart), apart >= LIMITS["apart"], "different"),
    ]


def stand(numbers: Numbers) -> Standing:
    runs = fetched(numbers, MARKED[-1])[-1]["right"]
    return Standing("toy", "right", mean(runs), len(runs), over_seeds(runs), "seeds")


def draw(numbers: Numbers, language: str) -> list[Picture]:
    def word(key: str, **values: Any) -> str:
        return WORDS(f"picture.{key}", **values).of(language)

    bars = {
        word("marks", marks=marks): {
            word("count", heads=result["heads"]): 100 * mean(result["right"]) for result in fetched(numbers, marks)
        }
        for marks in MARKED
    }
    largest = fetched(numbers, MARKED[-1])[-1]
    roles = field_svg(
        100 * np.array(largest["roles"][0]), rows=[word("head", head=head + 1) for head in range(largest["heads"])],
        columns=[word("mark", mark=mark + 1) for mark in range(MARKED[-1])], form="{:.0f}",
    )  # fmt: skip
    costs = [lost_bleu(numbers, kind) for kind in KINDS]
    layers = [
        word(kind, layer=layer + 1) for kind, cost in zip(KINDS, costs, strict=True) for layer in range(len(cost))
    ]
    columns = [word("head", head=head + 1) for head in range(costs[0].shape[1])]
    ablated = field_svg(np.concatenate(costs), rows=layers, columns=columns, form="{:.1f}", title=word("lost"))
    fields = []
    for kind in KINDS:
        more = np.array(numbers["done"][kind]["given"]) - np.array(numbers["done"][kind]["even"])
        rows_of = [f"{layer + 1}.{head + 1}" for layer, head in all_heads(more.shape)]
        titles = [WORDS(f"job.{job}").of(language) for job in JOBS[kind]]
        flat = 100 * more.reshape(-1, more.shape[-1])
        fields.append(field_svg(flat, rows=rows_of, columns=titles, form="{:+.0f}", title=word(f"of_{kind}")))
    return [
        Picture("heads-fetch", bars_svg(bars, x=word("right"), form="{:.0f}"), WORDS("picture.counted")),
        Picture("heads-roles", roles, WORDS("picture.roles")),
        Picture("heads-jobs", fields[0], WORDS("picture.jobs")),
        Picture("heads-jobs-decoder", row_svg(fields[1:]), WORDS("picture.jobs_decoder")),
        Picture("heads-without", ablated, WORDS("picture.without", whole=numbers["whole"]["bleu"])),
    ]


def tabulate(numbers: Numbers) -> Table:
    titles = [WORDS(f"table.{key}") for key in ("model", "right", "bleu", "loss", "job", "weight", "entropy")]
    rows: list[list[str | Text]] = [
        [WORDS("table.fetch", marks=result["marks"], heads=result["heads"]), tell_runs(result["right"]), *[""] * 5]
        for result in numbers["fetched"]
    ]
    whole = numbers["whole"]
    rows.append([WORDS("table.whole"), "", f"{whole['bleu']:.1f}", f"{whole['loss']:.3f}", "", "", ""])
    for (kind, layer, head), job in names_of(numbers).items():
        result, off = numbers["done"][kind], numbers["without"][kind][layer][head]
        weight = f"{result['given'][layer][head][JOBS[kind].index(job)]:.0%}" if job != "broad" else ""
        rows.append(
            [
                WORDS(f"table.{kind}", layer=layer + 1, head=head + 1), "", f"{off['bleu']:.1f}", f"{off['loss']:.3f}",
                WORDS(f"job.{job}"), weight, f"{result['entropy'][layer][head]:.2f}",
            ]
        )  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="heads", words=WORDS, measure=measure, check=check, stand=stand, draw=draw, tabulate=tabulate, version=2
)
