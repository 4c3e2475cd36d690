"""Without positions the encoder is a bag of words (section 3.5): shuffle a sentence and nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from jumok.engines.options import Options
from jumok.lab.charts import bars_svg
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table, Text, text
from jumok.lab.laboratory import Lab
from jumok.models.base import END
from jumok.translator import Translator

SENTENCES = 200
EXAMPLE = "He hits me with a pie."


def words(model: Translator, sentence: str) -> list[list[int]]:
    """The ids of a sentence, a list for each word."""
    ids, begins = model.vocabularies.source.encode(sentence), model.vocabularies.source.begins()
    groups: list[list[int]] = []
    for token in ids:
        if begins[token] or not groups:
            groups.append([])
        groups[-1].append(token)
    return groups


def shuffled(groups: Sequence[list[int]], seed: int) -> list[int]:
    """All words of a sentence in another order."""
    order = list(groups)
    while order == list(groups) and len(set(map(tuple, groups))) > 1:
        Random(seed).shuffle(order)
        seed += 1
    return [token for group in order for token in group]


@torch.no_grad()
def moved(model: Translator, sentence: str, seed: int) -> float:
    """How far the encoder's vector of a token moves, in standard deviations, when the words change places."""
    plain = [*model.vocabularies.source.encode(sentence), END]
    order = Random(seed).sample(range(len(plain) - 1), len(plain) - 1) + [len(plain) - 1]
    module = model.model.eval()
    before = module.encode(torch.tensor([plain]))[0][0]
    after = module.encode(torch.tensor([[plain[at] for at in order]]))[0][0]
    return float((after - before[order]).abs().mean() / before.std())


def tried(lab: Lab, name: str, positions: str) -> dict[str, Any]:
    """One model: how good, how far vectors move, how many translations stay when words change places."""
    run = lab.train(name, {"model.positions": positions, "training.steps": lab.steps(700)})
    model, pairs = run.model, lab.pairs(SENTENCES)
    groups = [words(model, pair.source) for pair in pairs]
    mixed = [shuffled(each, row) for row, each in enumerate(groups)]
    plain = [[token for group in each for token in group] for each in groups]
    said, again = (
        model.vocabularies.target.decode_all([found[0].body for found in model.engine.decode(ids, Options(beam=1))])
        for ids in (plain, mixed)
    )
    shown = [
        {"source": pair.source, "shuffled": model.vocabularies.source.decode(ids), "before": one, "after": other}
        for pair, ids, one, other in list(zip(pairs, mixed, said, again, strict=True))[:3]
    ]
    return {
        "positions": positions,
        "bleu": lab.bleu(model, SENTENCES),
        "moved": sum(moved(model, pair.source, row) for row, pair in enumerate(pairs[:50])) / 50,
        "example": moved(model, EXAMPLE, 1),
        "same": sum(map(str.__eq__, said, again)) / len(said),
        "shown": shown,
    }


def measure(lab: Lab, *, without: str = "none") -> dict[str, Any]:
    return {
        "without": tried(lab, f"positions {without}", without),
        "with": tried(lab, "positions sinusoidal", "sinusoidal"),
    }


def judge(numbers: Numbers) -> list[Check]:
    without, sinusoids = numbers["without"], numbers["with"]
    return [
        Check(
            text(
                "without positions, {same:.0%} of the translations stay the same when the words are shuffled",
                "포지셔널 인코딩이 없으면 단어를 뒤섞어도 번역의 {same:.0%}가 그대로입니다",
                same=without["same"],
            ),
            without["same"] >= 0.95,
        ),
        Check(
            text(
                "and the encoder gives every word the same vector as before (it moves by {moved:.1e} of its spread)",
                "인코더가 각 단어에 주는 벡터도 그대로입니다 (표준편차의 {moved:.1e}만큼 움직입니다)",
                moved=without["moved"],
            ),
            without["moved"] < 1e-3,
        ),
        Check(
            text(
                "with sinusoids, only {same:.0%} stay the same and vectors move by {moved:.2f} of their spread",
                "사인·코사인 포지셔널 인코딩이 있으면 {same:.0%}만 그대로이고, 벡터는 표준편차의 {moved:.2f}만큼 움직입니다",
                same=sinusoids["same"],
                moved=sinusoids["moved"],
            ),
            sinusoids["same"] <= 0.5 and sinusoids["moved"] > 0.1,
        ),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {"without": Text("no positions", "위치 정보 없음"), "with": Text("sinusoids", "사인·코사인")}
    rows = {
        Text("translation unchanged after shuffling, %", "뒤섞어도 번역이 같은 문장, %").of(language): "same",
        Text("encoder vectors moved, % of their spread", "인코더 벡터의 이동, 표준편차의 %").of(language): "moved",
    }
    bars = {
        label: {names[which].of(language): 100 * numbers[which][key] for which in names} for label, key in rows.items()
    }
    caption = Text(
        "Without positions a sentence and its shuffled words are the same to the encoder.",
        "위치 정보가 없으면 인코더에게 문장과 뒤섞인 단어 뭉치는 똑같습니다.",
    )
    return [Picture("order", bars_svg(bars, form="{:.1f}"), caption)]


def tabulate(numbers: Numbers) -> Table:
    titles = [
        Text("positions", "포지셔널 인코딩"),
        Text("same after shuffling", "뒤섞어도 같음"),
        Text("vectors move", "벡터 이동"),
        Text("BLEU", "BLEU"),
    ]
    rows = [
        [one["positions"], f"{one['same']:.1%}", f"{one['moved']:.2e}", f"{one['bleu']:.1f}"]
        for one in (numbers["without"], numbers["with"])
    ]
    return Table(titles, rows)


CLAIM = Claim(
    name="order",
    title=Text("Order", "순서"),
    claim=Text(
        "Self-attention alone sees a bag of words: without positions, shuffling a sentence changes nothing.",
        "셀프 어텐션만으로는 문장이 단어 주머니(bag of words)로 보입니다. 위치 정보가 없으면 단어를 뒤섞어도 아무것도 달라지지 않습니다.",
    ),
    paper="section 3.5",
    notes="002, lines 95 to 103",
    setup=Text(
        "Two small English-Korean models are trained alike, one without positions, one with the paper's sinusoids. "
        "Then the words of unseen sentences are shuffled: do the translations change, and how far do the vectors move "
        "that the encoder gives to each word?",
        "작은 영한 번역 모델 두 개를 똑같이 학습시킵니다. 하나는 위치 정보가 없고, 다른 하나는 논문의 사인·코사인 포지셔널 인코딩을 씁니다. "
        "그런 다음 처음 보는 문장의 단어를 뒤섞어서 번역이 달라지는지, 인코더가 각 단어에 주는 벡터가 얼마나 움직이는지 잽니다.",
    ),
    meaning=Text(
        "Attention is a weighted mean, and a mean does not know in which order things were put in. A query meets the same "
        "keys and values after shuffling, gets the same weights, and so the same result. The decoder still knows what it has "
        "already said, because its mask lets it see one word more at each step; of the source it knows only which words "
        "there are.",
        "어텐션은 가중 평균이고, 평균은 어떤 순서로 더했는지를 모릅니다. 단어를 뒤섞어도 쿼리가 만나는 키와 밸류는 그대로이므로 "
        "가중치도, 결과도 그대로입니다. 디코더는 마스킹 덕분에 단계마다 단어를 하나씩 더 보게 되므로 자기가 말한 순서는 알지만, "
        "원문에 대해서는 어떤 단어가 있는지만 알 뿐입니다.",
    ),
    next=Text(
        "jumok lab positions compares ways of telling positions. Which sentences still come out right without them, and why?",
        "jumok lab positions로 위치를 알려 주는 여러 방법을 비교해 보세요. 위치 정보가 없어도 제대로 번역되는 문장은 어떤 문장이고, 왜 그럴까요?",
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    tabulate=tabulate,
)
