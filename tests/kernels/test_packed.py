"""The kernels that translate equal the layers they stand for, whatever rows do."""

import copy

import pytest
import torch

from jumok.config.search import SearchOptions
from jumok.config.sections import TrainingConfig
from jumok.decoding.search import beam
from jumok.kernels import library, ops
from jumok.kernels.modules import accelerate
from jumok.kernels.stepping import ROOM, Steps
from jumok.models.base import END, PAD
from jumok.text.symbols import NEVER
from jumok.training.optim import Optimizer
from tests.support.helpers import made

pytestmark = pytest.mark.skipif(library.load() is None, reason="no C compiler on this machine")
CLOSE = {"atol": 2e-5, "rtol": 2e-4}
KINDS = {
    "paper": {},
    "pre": {"norm_place": "pre"},
    "rotary": {"norm_place": "pre", "positions": "rotary"},
    "learned": {"positions": "learned"},
    "nowhere": {"positions": "none"},
    "no bias": {"bias": False},
    "untied": {"tied": "none"},
    "plain dot": {"score": "dot"},
    "wide values": {"d_k": 8, "d_v": 16},
}


def plain(**changes):
    """A small model in the precision of the kernels, with widths they take."""
    return made(**({"d_model": 16, "heads": 2, "d_ff": 24} | changes)).float()


def single(**changes):
    """The same, made fast."""
    return accelerate(plain(**changes))


def sources() -> torch.Tensor:
    return torch.tensor([[9, 8, 12, 17, END], [11, END, PAD, PAD, PAD], [10, 10, 15, END, PAD]])


def targets(length: int, rows: int = 3) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(5, 20, (rows, length))


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_stepping_gives_the_logits_of_teacher_forcing(kind):
    model, target = single(**KINDS[kind]), targets(ROOM + 3)  # longer than the first cache
    exact = plain(**KINDS[kind])
    expected = exact.project(exact.hidden(sources(), target))
    state = model.start(sources())
    assert isinstance(state, Steps)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], **CLOSE)


@pytest.mark.parametrize(
    "changes",
    [{"norm": "rms"}, {"score": "additive"}, {"activation": "gelu"}, {"d_k": 4}, {"residual": False}],
    ids=str,
)
@torch.inference_mode()
def test_what_the_kernel_does_not_know_steps_layer_by_layer(changes):
    assert not isinstance(single(**changes).start(sources()), Steps)


def test_a_copy_of_a_fast_model_packs_its_own_weights():
    model = single(dropout=0.0)
    with torch.inference_mode():
        model.start(sources())  # packed by now
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.matrix.mul_(2.0)
    with torch.inference_mode():
        ours, theirs = (one.step(torch.tensor([5, 6, 7]), one.start(sources()))[0] for one in (model, twin))
    assert not torch.allclose(ours, theirs)


def test_a_plain_model_steps_in_torch():
    assert not isinstance(plain().start(sources()), Steps)


@torch.inference_mode()
def test_rows_may_branch_leave_and_come_back_to_an_older_state():
    model, target = single(norm_place="pre", positions="rotary"), targets(6, rows=4)
    orders = [torch.tensor([0, 0, 1, 2]), torch.tensor([3, 1, 1]), torch.tensor([0, 0, 1, 1, 2]), torch.tensor([4])]

    def walk() -> list[torch.Tensor]:
        state, seen, kept = model.start(sources()), [], []
        for t, order in enumerate(orders):
            kept.append(state := state.select(order))
            logits, state = model.step(target[:, t].repeat(2)[: len(order)], state)
            seen.append(logits)
        branch = state.select(torch.tensor([0, 0]))
        for one, token in ((branch, target[:2, 5]), (state, target[2:3, 5]), (branch, target[:2, 5])):
            logits, _ = model.step(token, one)  # the same past, continued by other tokens
            seen.append(logits)
        return seen

    ours = walk()
    expected = walk_in_torch(plain(norm_place="pre", positions="rotary"), orders, target)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def walk_in_torch(model, orders, target) -> list[torch.Tensor]:
    """The same walk, every logit from teacher forcing of the whole prefix."""
    sentence, seen = torch.arange(3), []
    prefix = torch.zeros(3, 0, dtype=torch.long)

    def read(sentence: torch.Tensor, prefix: torch.Tensor) -> None:
        seen.append(model.project(model.hidden(sources()[sentence], prefix))[:, -1])

    for t, order in enumerate(orders):
        sentence, prefix = sentence[order], prefix[order]
        prefix = torch.cat([prefix, target[:, t].repeat(2)[: len(order), None]], dim=1)
        read(sentence, prefix)
    branched, both = sentence[[0, 0]], torch.cat([prefix[[0, 0]], target[:2, 5:6]], dim=1)
    read(branched, both)
    read(sentence, torch.cat([prefix, target[2:3, 5:6]], dim=1))
    read(branched, torch.cat([both, target[:2, 5:6]], dim=1))
    return seen


def test_an_update_of_the_weights_is_seen_at_the_next_start():
    slow = plain(dropout=0.0)
    model, token = accelerate(slow), torch.tensor([5, 6, 7])

    def logits() -> torch.Tensor:
        with torch.inference_mode():
            return model.step(token, model.start(sources()))[0].clone()

    before, again = logits(), logits()
    assert torch.equal(before, again)
    optimizer = Optimizer(slow, TrainingConfig())
    optimizer.collect([[torch.ones_like(parameter) for parameter in slow.parameters()]])
    optimizer.gather()
    optimizer.begin(0.1, 1.0)
    optimizer.apply()
    after = logits()
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, slow.step(token, slow.start(sources()))[0].detach(), **CLOSE)


@torch.inference_mode()
def test_what_else_is_in_the_batch_changes_no_bit_of_a_step():
    model, target = single(norm_place="pre"), targets(5)
    crowd = torch.cat([sources(), torch.randint(5, 20, (200, 5))])  # more than a core takes at a time
    many = model.start(crowd).select(torch.tensor([0] * 40 + [1] * 90 + [2] * 70))
    alone = model.start(sources()[1:2, :2])  # without its padding
    for t in range(5):
        together, many = model.step(target[1, t].repeat(200), many)
        single_row, alone = model.step(target[1:2, t], alone)
        assert torch.equal(together[40:130], single_row.expand(90, -1))


@pytest.mark.parametrize("threads", [1, 2])
@torch.inference_mode()
def test_beam_search_finds_the_same_with_and_without_the_kernel(threads):
    model, before = single(norm_place="pre", positions="rotary"), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = beam(model.step, model.start(sources()), [12, 9, 40], SearchOptions(beam=4, n_best=3))
        slow = plain(norm_place="pre", positions="rotary")
        exact = beam(slow.step, slow.start(sources()), [12, 9, 40], SearchOptions(beam=4, n_best=3))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(ours, exact, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


@torch.inference_mode()
def test_a_token_without_a_row_is_an_error():
    model = single()
    with pytest.raises(IndexError):
        model.step(torch.tensor([0, 1, 10_000]), model.start(sources()))
    with pytest.raises(ValueError, match="2 tokens for 3"):
        model.step(torch.tensor([5, 6]), model.start(sources()))


@pytest.mark.parametrize(
    ("rows", "symbols", "count"), [(1, 9, 1), (3, 40, 8), (70, 1_003, 10), (2, 12, 12), (2, 10, 50)]
)
def test_the_likeliest_tokens_are_those_of_torch(rows, symbols, count):
    torch.manual_seed(0)
    logits, never = torch.randn(rows, symbols) * 5, torch.tensor([n for n in NEVER if n < symbols])
    ours, tokens = ops.likeliest(logits.clone(), count, never)
    with library.without():
        expected, theirs = ops.likeliest(logits.clone(), count, never)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    possible = expected > -float("inf")
    assert torch.equal(tokens[possible], theirs[possible])
    assert not possible.all() or not torch.isin(tokens, never).any()


def test_the_first_of_equally_likely_tokens_is_chosen():
    logits = torch.zeros(1, 50)
    _, tokens = ops.likeliest(logits, 3, torch.tensor([0, 1]))
    assert tokens.tolist() == [[2, 3, 4]]


def test_a_source_of_padding_alone_is_attended_to_as_by_the_layers():
    slow, fast = plain().eval(), single().eval()
    source = sources()
    source[1] = PAD
    with torch.no_grad():
        states = [model.start(source) for model in (slow, fast)]
        steps = [
            model.step(torch.tensor([9, 9, 9]), state)[0] for model, state in zip((slow, fast), states, strict=True)
        ]
    torch.testing.assert_close(steps[1], steps[0], **CLOSE)
