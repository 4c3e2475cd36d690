"""Without the look-ahead mask the decoder copies the answer in training and knows nothing in use (section 3.2.3)."""

from __future__ import annotations

from typing import Any

import torch

from jumok.lab.charts import bars_svg
from jumok.lab.claim import Check, Claim, Numbers, Picture, Table, Text, text
from jumok.lab.laboratory import Lab, Trained
from jumok.models import build
from jumok.models.base import START
from jumok.viz import curves_svg, heatmap_svg

TOKENS = 10
SENTENCES = 200


def unmask(model: Any) -> None:
    """Let every position of the decoder look at all others while it is taught; how it is used does not change."""
    model.whole = None  # the pass in one call has the mask inside
    for layer in model.decoder:
        looks = layer.attention.forward
        layer.attention.forward = lambda *given, looks=looks, **more: looks(*given, **{**more, "causal": False})


def felt(lab: Lab, *, mask: bool) -> list[list[float]]:
    """How much output t (row) feels input j (column) of the decoder: size of the gradient, rows sum to 1."""
    torch.manual_seed(lab.seed)
    model = build(lab.recipe({"model.dropout": 0.0}).model, 40, 40).double()
    if not mask:
        unmask(model)
    source = torch.arange(8, 14)[None]
    target = torch.cat([torch.tensor([START]), torch.arange(10, 10 + TOKENS - 1)])[None]
    rows = []
    vectors: list[torch.Tensor] = []
    embed = model.target.forward

    def remembered(tokens: torch.Tensor, start: int = 0) -> torch.Tensor:
        vectors.append(embed(tokens, start).detach().requires_grad_())
        return vectors[-1]

    model.target.forward = remembered
    memory, padding = model.encode(source)
    states = model.decode(target, memory, padding)
    direction = torch.randn(states.shape[-1], dtype=states.dtype, generator=torch.Generator().manual_seed(1))
    for t in range(TOKENS):
        [gradient] = torch.autograd.grad((states[0, t] * direction).sum(), vectors[-1], retain_graph=True)
        sizes = gradient[0].norm(dim=-1)
        rows.append((sizes / sizes.sum()).tolist())
    return rows


def tried(lab: Lab, run: Trained, *, mask: bool) -> dict[str, Any]:
    map_ = felt(lab, mask=mask)
    last = [loss for _, loss in run.losses[-20:]]
    return {
        "mask": mask,
        "loss": sum(last) / len(last),
        "losses": [[step, loss] for step, loss in run.losses[:: max(1, len(run.losses) // 60)]],
        "bleu": lab.bleu(run.model, SENTENCES),
        "felt": map_,
        "future": sum(map_[t][j] for t in range(TOKENS) for j in range(t + 1, TOKENS)) / TOKENS,
        "said": [one.text for one in run.model.translate([pair.source for pair in lab.pairs(SENTENCES)[:3]], beam=1)],
    }


def measure(lab: Lab, *, masks: tuple[bool, bool] = (True, False)) -> dict[str, Any]:
    """`masks`: of the model that is said to have one, and of the one that is said to have none."""
    changes = {"training.steps": lab.steps(700), "training.label_smoothing": 0.0}
    found = {}
    for name, mask in zip(("with", "without"), masks, strict=True):
        run = lab.train(f"{name} mask", changes) if mask else lab.train(f"{name} mask", changes, surgery=unmask)
        found[name] = tried(lab, run, mask=mask)
    found["source"] = [pair.source for pair in lab.pairs(SENTENCES)[:3]]  # type: ignore[assignment]
    return found


def judge(numbers: Numbers) -> list[Check]:
    with_, without = numbers["with"], numbers["without"]
    return [
        Check(
            text(
                "without the mask the training loss falls to {without:.3f} (with it {with_:.3f}): the answer is copied",
                "마스킹이 없으면 학습 손실이 {without:.3f}까지 떨어집니다 (있으면 {with_:.3f}). 정답을 베끼는 것입니다",
                without=without["loss"],
                with_=with_["loss"],
            ),
            without["loss"] < 0.5 * with_["loss"],
        ),
        Check(
            text(
                "and yet it cannot translate: BLEU {without:.1f} against {with_:.1f}",
                "그런데도 번역은 하지 못합니다. BLEU가 {without:.1f}이고, 마스킹이 있으면 {with_:.1f}입니다",
                without=without["bleu"],
                with_=with_["bleu"],
            ),
            without["bleu"] < 0.5 * with_["bleu"],
        ),
        Check(
            text(
                "the gradient shows it: of what an output feels, {with_:.0%} comes from later words with the mask, "
                "{without:.0%} without",
                "기울기로도 확인됩니다. 출력이 느끼는 것 가운데 뒤에 올 단어에서 오는 몫이 마스킹이 있으면 {with_:.0%}, 없으면 {without:.0%}입니다",
                without=without["future"],
                with_=with_["future"],
            ),
            with_["future"] == 0.0 and without["future"] > 0.05,
        ),
    ]


def draw(numbers: Numbers, language: str) -> list[Picture]:
    names = {"with": Text("with the mask", "마스킹 있음"), "without": Text("without", "마스킹 없음")}
    losses = {names[which].of(language): [tuple(point) for point in numbers[which]["losses"]] for which in names}
    x, y = Text("updates", "업데이트 횟수").of(language), Text("training loss", "학습 손실").of(language)
    positions = [str(t + 1) for t in range(TOKENS)]
    made = [
        Picture(
            "mask-loss",
            curves_svg(losses, x=x, y=y),
            Text(
                "The loss without the mask looks wonderful: the decoder reads the next word instead of predicting it.",
                "마스킹이 없으면 손실이 훌륭해 보입니다. 디코더가 다음 단어를 예측하지 않고 그냥 읽기 때문입니다.",
            ),
        ),
        Picture(
            "mask-bleu",
            bars_svg({names[which].of(language): {"BLEU": numbers[which]["bleu"]} for which in names}, x="BLEU"),
            Text(
                "When the future is not there to be read, nothing is left.",
                "읽을 미래가 없어지면 남는 것이 없습니다.",
            ),
        ),
    ]
    for which, name in names.items():
        made.append(
            Picture(
                f"mask-gradient-{which}",
                heatmap_svg(
                    torch.tensor(numbers[which]["felt"]).numpy(), positions, positions, title=name.of(language)
                ),
                Text(
                    "Row t: how much output t feels each decoder input. Above the diagonal lies the future.",
                    "t번째 줄은 t번째 출력이 디코더의 각 입력을 얼마나 느끼는지를 나타냅니다. 대각선 위쪽이 미래입니다.",
                ),
            )
        )
    return made


def tabulate(numbers: Numbers) -> Table:
    titles = [
        Text("mask", "마스킹"),
        Text("training loss", "학습 손실"),
        Text("BLEU", "BLEU"),
        Text("from the future", "미래에서 온 몫"),
    ]
    rows = [
        ["yes" if one["mask"] else "no", f"{one['loss']:.3f}", f"{one['bleu']:.1f}", f"{one['future']:.1%}"]
        for one in (numbers["with"], numbers["without"])
    ]  # fmt: skip
    return Table(titles, rows)


CLAIM = Claim(
    name="mask",
    title=Text("The mask", "마스킹"),
    claim=Text(
        "Without the look-ahead mask the future leaks: training looks perfect and translating fails.",
        "마스킹이 없으면 미래가 새어 들어옵니다. 학습은 완벽해 보이지만 번역은 실패합니다.",
    ),
    paper="section 3.2.3",
    notes="002, lines 239 to 264",
    setup=Text(
        "The same small model is trained twice, once with the decoder's mask and once with every position looking at all "
        "others. Both then translate unseen sentences word by word. The gradient of each output with respect to each decoder "
        "input shows who feels whom.",
        "같은 작은 모델을 두 번 학습시킵니다. 한 번은 디코더에 마스킹을 하고, 한 번은 모든 위치가 서로를 보게 합니다. 그런 다음 둘 다 "
        "처음 보는 문장을 한 단어씩 번역합니다. 각 출력을 디코더의 각 입력으로 미분한 기울기는 누가 누구의 영향을 받는지 보여 줍니다.",
    ),
    meaning=Text(
        "In training the decoder gets the whole answer, shifted by one. The next word, which it should predict, is therefore "
        "among its inputs. Without the mask one look to the right is enough, and nothing pushes the model to learn the "
        "language. When it translates, there is nothing to the right yet.",
        "학습할 때 디코더는 한 칸 밀린 정답 전체를 입력으로 받습니다. 그래서 예측해야 할 다음 단어가 입력 안에 이미 들어 있습니다. "
        "마스킹이 없으면 오른쪽을 한 번 보는 것으로 충분하므로 언어를 배울 이유가 없어집니다. 그러나 실제로 번역할 때는 오른쪽에 아직 아무것도 없습니다.",
    ),
    next=Text(
        "jumok lab forcing asks the next question: what happens when the words before are the model's own?",
        "jumok lab forcing은 그다음 질문을 다룹니다. 앞의 단어가 정답이 아니라 모델 자신이 만든 것이면 어떻게 될까요?",
    ),
    measure=measure,
    judge=judge,
    draw=draw,
    tabulate=tabulate,
)
