"""The memory network: the paper's formulas in slow loops, and what a memory of sentences owes beside the laws."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.data.batches import Batch, pad
from jumok.data.made.stories import stories
from jumok.errors import UsageError
from jumok.models import build, memory_sentences, memory_words
from jumok.models.base import END, PAD, SEPARATOR, START
from jumok.models.memory import MemoryConfig
from jumok.training.objectives import next_token
from tests.support.helpers import OTHERS, SYMBOLS, ShapeChecker, made, two_sentences

SENTENCES = ["memory", "memory-layer-wise", "memory-untied"]
MORE: list[dict[str, object]] = [
    {},
    {"hops": 1},
    {"longest": 2},
    {"nonlinear": "all"},
    {"tied": "target", "d_model": 7},
]
STORY = [9, 10, SEPARATOR, 11, 12, 13, SEPARATOR, 14, SEPARATOR, 15, 9, 10, END]
SHORT = [12, 13, 14, SEPARATOR, 16, 9, END]
ALONE = [9, 17, 18, END]


def some_stories() -> tuple[Tensor, Tensor]:
    """Three memories, one, and a source that is one sentence; answers of three words."""
    target = torch.tensor([[START, 15, 16, 17], [START, 18, 19, 20], [START, 9, 9, 15]])
    return pad([STORY, SHORT, ALONE]), target


def logits(model, source: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        return model.project(model.hidden(source, target))


# ------------------------------------------------------------------------------------------ the paper's formulas


def numbers(parameter: Tensor) -> np.ndarray:
    return parameter.detach().numpy()


def softmax(scores: list[float]) -> list[float]:
    top = max(scores, default=0.0)
    parts = [math.exp(score - top) for score in scores]
    return [part / sum(parts) for part in parts]


def bag(table: np.ndarray, words: list[int], encoding: str) -> np.ndarray:
    """Σ_j l_j · A x_j, section 4.1."""
    d, J, vector = table.shape[1], len(words), np.zeros(table.shape[1])
    for j, word in enumerate(words, start=1):
        for k in range(1, d + 1):
            weight = (1 - j / J) - (k / d) * (1 - 2 * j / J) if encoding == "position" else 1.0
            vector[k - 1] += weight * table[word, k - 1]
    return vector


def hops(inner, u: np.ndarray, memories: list[tuple[list[int], int]]) -> tuple[np.ndarray, list[list[float]]]:
    """Sections 2.1 and 2.2 over memories of (words, age): the last u, and the weights of every hop."""
    config, looked = inner.config, []
    encoding = config.encoding if config.memory == "sentences" else "bag"
    for hop in range(config.hops):
        first, second = (hop, hop + 1) if config.tying == "adjacent" else (0, 1)
        m, c = (
            [bag(numbers(inner.tables[i]), words, encoding) + numbers(inner.ages[i])[age] for words, age in memories]
            for i in (first, second)
        )
        p = softmax([float(u @ one) for one in m])
        o = sum((weight * one for weight, one in zip(p, c, strict=True)), np.zeros_like(u))
        u = (u if config.tying == "adjacent" else numbers(inner.carry.weight) @ u) + o
        bent = {"none": 0, "half": len(u) // 2, "all": len(u)}[config.nonlinear]
        u = np.concatenate([np.maximum(u[:bent], 0.0), u[bent:]])
        looked.append(p)
    return u, looked


def of_sentences(inner, source: list[int], said: list[int]) -> tuple[np.ndarray, list[list[float]]]:
    """Logits after an answer so far, for a source as plain numbers."""
    config, text = inner.config, [word for word in source if word not in (PAD, END)]
    parts: list[list[int]] = [[]]
    for word in text:
        if word == SEPARATOR:
            parts.append([])
        else:
            parts[-1].append(word)
    *story, question = parts if len(parts) > 1 else [[word] for word in text] + parts
    memories = [(words, min(len(story) - 1 - i, config.longest - 1)) for i, words in enumerate(story)]
    tables = [numbers(one) for one in inner.tables]
    asked = bag(tables[0] if config.tying == "adjacent" else tables[2], question, config.encoding)
    output = tables[config.hops if config.tying == "adjacent" else 1] if config.tied == "all" else numbers(inner.matrix)
    spoken = numbers(inner.spoken) if config.tied == "none" else output
    u = asked + bag(spoken, said, config.encoding)
    if said:
        u = u + numbers(inner.progress)[min(len(said), config.longest) - 1]
    u, looked = hops(inner, u, memories)
    return output @ u, looked


def of_words(inner, source: list[int], read: list[int]) -> tuple[np.ndarray, list[list[float]]]:
    line = [word for word in source if word not in (PAD, END)] + read
    memories = [([word], age) for age, word in enumerate(reversed(line[-inner.config.words :]))]
    u, looked = hops(inner, np.full(inner.config.d_model, 0.1), memories[::-1])
    output = numbers(inner.tables[-1]) if inner.config.tied == "all" else numbers(inner.matrix)
    return output @ u, looked


@pytest.mark.parametrize("changes", MORE, ids=str)
@pytest.mark.parametrize("variant", SENTENCES)
def test_answers_are_those_of_the_papers_formulas(variant, changes):
    model = made(variant, **changes)
    source, target = some_stories()
    together, looked = logits(model, source, target), model.look(source, target)
    for row, text in enumerate((STORY, SHORT, ALONE)):
        for t in range(target.shape[1]):
            expected, weights = of_sentences(model.memory, text, target[row, 1 : t + 1].tolist())
            np.testing.assert_allclose(together[row, t].numpy(), expected, rtol=0, atol=1e-9)
            for hop, each in enumerate(weights):
                np.testing.assert_allclose(numbers(looked[row, hop, t, : len(each)]), each, atol=1e-9)
                assert looked[row, hop, t, len(each) :].abs().sum() == 0


@pytest.mark.parametrize("changes", [*MORE, {"tying": "layer-wise"}, {"words": 100}, {"words": 1}], ids=str)
def test_a_language_model_gives_the_logits_of_the_papers_formulas(changes):
    model = made("memory-words", **changes)
    for source, target in (two_sentences(), (torch.tensor([[END], [END]]), two_sentences()[1])):
        together = logits(model, source, target)
        for row in range(2):
            for t in range(target.shape[1]):
                expected, _ = of_words(model.memory, source[row].tolist(), target[row, : t + 1].tolist())
                np.testing.assert_allclose(together[row, t].numpy(), expected, rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------ stories, like any source


@pytest.mark.parametrize("variant", SENTENCES)
def test_other_stories_in_the_batch_and_their_memories_change_nothing(variant):
    model = made(variant)
    source, target = some_stories()
    together = logits(model, source, target)
    for row, text in enumerate((STORY, SHORT, ALONE)):
        alone = logits(model, torch.tensor([text]), target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)


@pytest.mark.parametrize("variant", [*SENTENCES, "memory-words"])
def test_stepping_through_a_story_gives_the_logits_of_teacher_forcing_whatever_rows_go_on(variant):
    model = made(variant)
    source, target = some_stories()
    for rows in ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2], [1, 2], [2], [0, 2, 2]):
        state, together = model.start(source).select(torch.tensor(rows)), logits(model, source[rows], target[rows])
        for t in range(target.shape[1]):
            one, state = model.step(target[rows, t], state)
            torch.testing.assert_close(one, together[:, t])
            keep = torch.arange(len(rows)) if t % 2 else torch.arange(len(rows)).repeat_interleave(2)
            state = state.select(keep).select(torch.arange(0, len(keep), len(keep) // len(rows)))


@pytest.mark.parametrize("variant", [*SENTENCES, "memory-words"])
def test_a_source_of_nothing_has_an_answer(variant):
    model = made(variant)
    for source in ([[END]], [[SEPARATOR, END]], [[END, PAD], [9, END]], [[9, SEPARATOR, END], [SEPARATOR, 9, END]]):
        both, target = pad(source), torch.full((len(source), 2), START)
        assert logits(model, both, target).isfinite().all()
        assert model.step(target[:, 0], model.start(both))[0].isfinite().all()
        assert all(side.isfinite().all() for side in vars(model.attention(both, target)).values())


def test_an_empty_sentence_is_no_memory():
    model = made("memory", longest=1)  # so that age does not tell
    target = torch.tensor([[START]])
    with_gap = torch.tensor([[9, 10, SEPARATOR, SEPARATOR, 11, 12, SEPARATOR, 13, END]])
    without = torch.tensor([[9, 10, SEPARATOR, 11, 12, SEPARATOR, 13, END]])
    torch.testing.assert_close(logits(model, with_gap, target), logits(model, without, target))


def test_position_encoding_knows_the_order_of_words_and_a_bag_does_not():
    target = torch.tensor([[START, 9]])
    one, other = (torch.tensor([[*words, SEPARATOR, 20, 21, END]]) for words in ([9, 10, 11], [11, 10, 9]))
    by_position, by_nothing = made("memory"), made("memory", encoding="bag")
    assert not torch.allclose(logits(by_position, one, target), logits(by_position, other, target))
    torch.testing.assert_close(logits(by_nothing, one, target), logits(by_nothing, other, target))


def test_sentences_older_than_the_longest_memory_share_their_age():
    target = torch.tensor([[START]])
    texts = ([9, 10], [11, 12], [13, 14], [15, 16])
    first = [id for words in texts for id in (*words, SEPARATOR)]
    swapped = [id for words in (texts[1], texts[0], *texts[2:]) for id in (*words, SEPARATOR)]
    one, other = torch.tensor([[*first, 20, END]]), torch.tensor([[*swapped, 20, END]])
    assert not torch.allclose(
        logits(made("memory", longest=4), one, target), logits(made("memory", longest=4), other, target)
    )
    short = made("memory", longest=3)
    torch.testing.assert_close(logits(short, one, target), logits(short, other, target))


# ------------------------------------------------------------------------------------------ what it looks at


@pytest.mark.parametrize("variant", SENTENCES)
def test_the_weight_of_a_sentence_is_spread_over_its_words_and_the_question_gets_none(variant):
    model = made(variant)
    source, target = some_stories()
    found, looked = model.attention(source, target), model.look(source, target)
    assert found.encoder.shape == (3, 0, 1, 13, 13)
    assert found.decoder.shape == (3, 0, 1, 4, 4)
    assert found.cross.shape == (3, 3, 1, 4, 13)
    torch.testing.assert_close(found.cross.sum(dim=-1), torch.ones(3, 3, 1, 4).double())
    first = found.cross[0, :, 0]
    for sentence, columns in enumerate(([0, 1], [3, 4, 5], [7])):
        for column in columns:
            torch.testing.assert_close(first[:, :, column], looked[0, :, :, sentence] / len(columns))
    assert first[:, :, [2, 6, 8, 9, 10, 11, 12]].abs().sum() == 0
    torch.testing.assert_close(found.cross[2, :, 0, :, :3], looked[2])  # one sentence: its words are the memories


def test_a_word_looks_at_itself_and_what_the_window_holds_of_source_and_target():
    model = made("memory-words")  # three words
    source, target = two_sentences()
    found = model.attention(source, target)
    assert found.encoder.shape == (2, 0, 1, 5, 5)
    rows = found.cross.sum(dim=-1) + found.decoder.sum(dim=-1)
    torch.testing.assert_close(rows, torch.ones(2, 3, 1, 4).double())
    seen = (found.decoder > 0).all(dim=1)[:, 0]
    assert torch.equal(seen, torch.ones(4, 4).bool().tril().triu(-2).expand(2, 4, 4))
    before = (found.cross > 0).all(dim=1)[:, 0]
    assert before[0].int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0] * 5, [0] * 5]
    assert before[1].int().tolist() == [[1, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0] * 5, [0] * 5]


# ------------------------------------------------------------------------------------------ sizes and shapes


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("variant", [*SENTENCES, "memory-words"])
@pytest.mark.parametrize("changes", [{}, {"hops": 1}, {"hops": 6, "d_model": 5}, {"tying": "layer-wise"}], ids=str)
def test_a_section_counts_its_weights_and_not_many_more(variant, tied, changes):
    config = MemoryConfig.model_validate(OTHERS[variant] | {"tied": tied} | changes)
    sizes = [(23, 23), (8_000, 8_000)]
    sizes += [(100, 7), (7, 100)] if tied != "all" and config.memory == "sentences" else []
    for source, target in sizes:
        actual = sum(weight.numel() for weight in build(config, source, target, device="meta").parameters())
        assert actual <= config.parameters(source, target) < 2 * actual


def test_the_default_has_two_million_weights_over_eight_thousand_symbols():
    model = build(MemoryConfig(), 8_000, 8_000, device="meta")
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(2e6, rel=0.1)


@pytest.mark.parametrize("tied", ["target", "none"])
def test_stories_and_answers_may_have_vocabularies_of_their_own(tied):
    torch.manual_seed(0)
    model = build(MemoryConfig(d_model=8, tied=tied), 30, 12).double().eval()
    source, target = torch.tensor([[29, 28, SEPARATOR, 27, END]]), torch.tensor([[START, 11]])
    assert logits(model, source, target).shape == (1, 2, 12)
    np.testing.assert_allclose(
        logits(model, source, target)[0, 1].numpy(), of_sentences(model.memory, source[0].tolist(), [11])[0], atol=1e-9
    )


@pytest.mark.parametrize(("kind", "tied"), [("sentences", "all"), ("words", "all"), ("words", "none")])
def test_one_matrix_for_two_vocabularies_is_an_error_that_says_what_to_do(kind, tied):
    with pytest.raises(UsageError) as raised:
        build(MemoryConfig(memory=kind, tied=tied), 30, 12)
    assert "30 source symbols and 12 target symbols" in str(raised.value)
    assert f"memory={kind}" in raised.value.where
    assert "--set" in raised.value.hint


def test_shape_comments_of_sentences_are_true():
    checker = ShapeChecker(Path(memory_sentences.__file__))
    source, target = some_stories()
    sizes = {"B": 3, "S": 13, "T": 4, "D": 16, "N": 6, "M": 3, "Q": 3, "L": 3}
    model = made("memory")
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    checker.run(lambda: model.attention(source, target), r"(Sentences|Layout)\.", **sizes)
    checker.run(lambda: model.start(source).select(rows), r"(Sentences|Layout)\.", **sizes)
    state = model.start(source).select(rows)
    checker.run(lambda: model.step(torch.full((6,), 9), state), r"Sentences\.step", **sizes)
    assert len(checker.wanted) > 15
    assert checker.complaints() == []


def test_shape_comments_of_words_are_true():
    checker = ShapeChecker(Path(memory_words.__file__))
    model, (source, target) = made("memory-words"), two_sentences()
    sizes = {"B": 2, "S": 5, "T": 4, "D": 16, "N": 2, "L": 3, "P": 7, "A": 3}
    checker.run(lambda: model.attention(source, target), r"Words\.(after|attention)", **sizes)
    checker.run(lambda: model.memory.begin(source), r"Words\.begin", **sizes | {"P": 3})
    checker.run(lambda: model.step(target[:, 0], model.start(source)), r"Words\.step", **sizes | {"P": 3})
    assert len(checker.wanted) > 8
    assert checker.complaints() == []


def test_a_copy_is_a_model_of_its_own():
    model = made("memory")
    other = copy.deepcopy(model)
    before = logits(model, *some_stories())
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
    assert torch.equal(logits(model, *some_stories()), before)
    assert other.output()[0] is other.memory.tables[-1]


# ------------------------------------------------------------------------------------------ it learns


def train(model, batches: Iterator[Batch], *, rate: float, warmup: int = 50) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    objective = next_token(model.train(), smoothing=0.0)
    for step, batch in enumerate(batches, start=1):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, step / warmup)
        total, tokens = objective(batch)
        (total / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def pairs_as_batch(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    source, target = pad(sources, after=END), pad(targets, before=START)
    return Batch(source, target, pad(targets, after=END), torch.arange(len(pairs)), sum(map(len, targets)) + len(pairs))


def greedy(model, source: Tensor, length: int) -> Tensor:
    token, state, said = torch.full((len(source),), START), model.start(source), []
    with torch.no_grad():
        for _ in range(length):
            row, state = model.step(token, state)
            token = row.argmax(dim=-1)
            said.append(token)
    return torch.stack(said, dim=1)


def test_it_learns_to_reverse():
    torch.manual_seed(1)
    model = build(MemoryConfig(d_model=32, longest=8), SYMBOLS, SYMBOLS)

    def drawn() -> Batch:
        words = [torch.randint(8, SYMBOLS, (int(torch.randint(1, 6, ())),)).tolist() for _ in range(64)]
        return pairs_as_batch([(one, one[::-1]) for one in words])

    train(model, (drawn() for _ in range(600)), rate=1e-2)
    batch = drawn()
    said = greedy(model, batch.source, batch.labels.shape[1])
    real = batch.labels != PAD
    assert (said == batch.labels)[real].double().mean() > 0.95


def test_a_language_model_learns_what_came_three_words_ago():
    torch.manual_seed(1)
    model = build(MemoryConfig(memory="words", d_model=32, words=8), SYMBOLS, SYMBOLS)

    def drawn() -> Batch:
        words = torch.randint(8, SYMBOLS, (32, 3)).repeat(1, 4)
        return pairs_as_batch([([], one) for one in words.tolist()])

    train(model, (drawn() for _ in range(300)), rate=1e-2)
    batch = drawn()
    guess = logits(model, batch.source, batch.target)[:, 3:-1].argmax(dim=-1)
    assert (guess == batch.labels[:, 3:-1]).double().mean() > 0.99


def test_it_learns_where_mary_is_and_looks_at_the_sentence_that_says_so():
    torch.manual_seed(1)
    words: dict[str, int] = {}

    def ids(text: str) -> list[int]:
        return [words.setdefault(word, 8 + len(words)) for word in text.rstrip(".?").split()]

    def pair(story) -> tuple[list[int], list[int]]:
        return [id for line in story.sentences for id in (*ids(line), SEPARATOR)] + ids(story.question), ids(
            story.answer
        )

    told = [pair(story) for story in stories(1, 4_000, seed=1, split="train")]
    model = build(MemoryConfig(d_model=32), 40, 40)
    train(model, (pairs_as_batch(told[i * 32 % 4_000 :][:32]) for i in range(500)), rate=1e-2)
    fresh = list(stories(1, 200, seed=1, split="test"))
    batch = pairs_as_batch([pair(story) for story in fresh])
    assert len(words) < 32
    assert (greedy(model, batch.source, 2) == batch.labels).all(dim=1).double().mean() > 0.95
    looked = model.look(batch.source, batch.target)[:, :, 0].amax(dim=1)  # (B, M) by the hop that looks hardest
    right = [looked[row].argmax().item() in story.supports for row, story in enumerate(fresh)]
    assert sum(right) > 0.9 * len(right)
