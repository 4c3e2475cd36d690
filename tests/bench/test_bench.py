"""The benchmark: operations are counted right, disturbed updates do not count, and it measures what `train` does."""

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.optimizer import Optimizer
from torch.utils.flop_counter import FlopCounterMode

from bench import places, quality, quality_systems
from bench.peers import compare, recorder
from bench.peers.task import Task
from jumok import machine
from jumok.bench import train
from jumok.bench.flops import training_flops
from jumok.bench.measure import (
    REFERENCE,
    Reading,
    Update,
    Watch,
    Work,
    describe_context,
    read_clocks,
    scale_to_reference,
)
from jumok.config import presets
from jumok.errors import UsageError
from jumok.kernels import library
from jumok.machine import sgemm
from jumok.models import build
from jumok.runs import trainee
from jumok.runs.context import Context
from jumok.runs.experiment import run
from jumok.storage.checkpoint import RunFolder
from tests.conftest import MICRO
from tests.support.helpers import small

WORK = Work(source=90, target=100, grid=200, sentences=10, loss=1.0)


def run_and_count(call) -> int:
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        call().sum().backward()
    return counter.get_total_flops()


# ------------------------------------------------------------------------------------------ operations


def test_the_formula_counts_what_torch_counts_for_its_own_transformer():
    config = small(encoder_layers=3, decoder_layers=2, d_model=16, d_ff=40, heads=2, dropout=0.0)
    B, S, T, V, D = 3, 5, 7, 23, 16
    model = torch.nn.Transformer(D, 2, 3, 2, 40, dropout=0.0, batch_first=True)
    matrix = torch.randn(V, D, requires_grad=True)
    source, target = torch.randn(B, S, D, requires_grad=True), torch.randn(B, T, D, requires_grad=True)
    counted = run_and_count(lambda: model(source, target) @ matrix.t())
    assert training_flops(config, V, [S] * B, [T] * B) == counted


@pytest.mark.parametrize("changes", [{}, {"d_k": 3, "d_v": 5}, {"activation": "swiglu", "d_ff": 48}], ids=str)
def test_the_formula_counts_what_torch_counts_for_our_transformer_on_the_plain_path(changes):
    config = small(**changes)
    model = build(config, 23, 23)
    source, target = torch.randint(8, 23, (3, 5)), torch.randint(8, 23, (3, 7))

    def logits() -> torch.Tensor:
        return model.project(model.hidden(source, target))

    with library.without():
        assert training_flops(config, 23, [5] * 3, [7] * 3) == run_and_count(logits)


def test_padding_is_not_counted_as_work():
    alone = [training_flops(small(), 23, [s], [t]) for s, t in ((3, 9), (8, 4))]
    assert training_flops(small(), 23, [3, 8], [9, 4]) == sum(alone)


def test_the_rate_of_matrix_products_is_given_for_every_shape():
    rates = sgemm([(8, 4, 2), (16, 16, 16)], seconds=0.001)
    assert list(rates) == ["8x4x2", "16x16x16"]
    assert min(rates.values()) > 0


def test_a_rate_on_a_machine_of_the_reference_speed_stays_and_one_on_half_of_it_doubles():
    assert scale_to_reference(5_000, REFERENCE) == 5_000
    assert scale_to_reference(5_000, REFERENCE / 2) == 10_000


# ------------------------------------------------------------------------------------------ the watch


def watch(others: list[float], *, warmup: int = 0, updates: int = 4) -> Watch:
    """A watch after updates of a second each, during which other processes took these shares of a core."""
    sums = [sum(others[:n]) for n in range(len(others) + 1)]
    readings = iter([Reading(float(n), 1.5 * n, 0.1 * n, sums[n]) for n in range(len(sums))])
    made = Watch(warmup=warmup, updates=updates, read=lambda: next(readings))
    for _ in others:
        if not made.enough:
            made.update(WORK)
    return made


def test_an_undisturbed_run_takes_as_many_updates_as_were_asked_for():
    made = watch([0.0] * 20, warmup=3)
    assert len(made.updates) == 3 + 4
    figures = made.figures()
    assert (figures["updates"], figures["dirty_updates"], figures["contended"]) == (4, 0, False)
    assert figures["target_tokens_per_second"] == figures["target_tokens_per_second_median"] == pytest.approx(100)
    assert figures["source_tokens_per_second"] == pytest.approx(90)
    assert figures["padding"] == pytest.approx(1 - 190 / 200)
    assert figures["user_seconds"] == pytest.approx(6.0)
    assert figures["system_seconds"] == pytest.approx(0.4)


def test_each_disturbed_update_is_made_up_for_by_another():
    made = watch([0.0, 0.5, 0.0, 0.9, 0.0, 0.0, 0.0])
    assert len(made.updates) == 6
    assert made.figures()["updates"] == 4
    assert made.figures()["dirty_updates"] == 2
    assert not any(update.others for update in made.sample)


def test_a_machine_that_is_never_idle_ends_the_run_too_and_the_figures_say_so():
    made = watch([0.7] * 100)
    assert len(made.updates) == 3 * 4
    assert made.figures()["contended"]
    assert made.figures()["updates"] == 12


def test_what_happens_in_the_warm_up_is_not_counted():
    made = watch([0.9, 0.9, 0.0, 0.0, 0.0, 0.0], warmup=2)
    assert made.figures()["dirty_updates"] == 0
    assert len(made.updates) == 6


def test_what_is_measured_between_updates_is_part_of_none():
    readings = iter([Reading(wall, wall, 0.0, 0.0) for wall in (0.0, 1.0, 4.0, 5.0, 9.0)])
    made = Watch(warmup=0, updates=2, read=lambda: next(readings))
    for _ in range(2):
        made.update(WORK)
        made.resume()
    assert [update.seconds for update in made.updates] == [1.0, 1.0]


def test_tokens_are_scaled_by_the_speed_of_the_machine_meanwhile():
    made, rates = watch([0.0] * 4), {"a": 2 * REFERENCE, "b": REFERENCE}
    figures = describe_context(made, rates, 0, threads=1, meanwhile=[REFERENCE / 2, REFERENCE / 2, 9.0])
    assert figures["target_tokens_per_second_at_reference"] == pytest.approx(200)
    assert figures["target_tokens_per_second_at_reference_best"] == pytest.approx(50)
    assert describe_context(made, rates, 0, threads=1)["target_tokens_per_second_at_reference"] == pytest.approx(50)


def test_where_nobody_counts_other_processes_every_update_is_clean():
    assert Update(WORK, seconds=1.0, user=1.0, system=0.0, others=None).clean


def test_the_clocks_go_forward_and_our_own_work_is_not_that_of_others():
    readings = [read_clocks()]
    for _ in range(3):
        torch.ones(300, 300) @ torch.ones(300, 300)
        readings.append(read_clocks())
    assert all(a.wall < b.wall and a.user <= b.user and a.system <= b.system for a, b in pairwise(readings))


# ------------------------------------------------------------------------------------------ jumok bench train

MICRO_BENCH = {**MICRO, "training.steps": 10**9, "data.tokens_per_batch": 200, "training.tokens_per_update": 400}


@pytest.fixture
def quick_products(monkeypatch):
    monkeypatch.setattr(machine, "sgemm", lambda shapes, seconds=0.0: sgemm(shapes, seconds=0.002))


def measure_micro(**options):
    return train.measure("tiny", changes=MICRO_BENCH, updates=train.Updates(1, 2), **options)


FIELDS = """bench system version torch recipe corpus symbols parameters sizes dropout label_smoothing tokens updates
warmup_updates dirty_updates contended target_tokens_per_second target_tokens_per_second_median source_tokens_per_second
seconds_per_update seconds_per_update_median target_tokens_per_update source_tokens_per_update sentences_per_update
padding user_seconds system_seconds wall_seconds flops_per_update gflops sgemm sgemm_gflops sgemm_best_gflops
share_of_sgemm reference_gflops target_tokens_per_second_at_reference target_tokens_per_second_at_reference_best
peak_memory threads settings loss_first loss_last loss_fell
machine"""


def test_a_line_of_results_says_everything_and_nothing_of_the_disk(jumok, tmp_path, quick_products):
    for side in ("source", "target"):
        lines = (f"{side} sentence {n} of {'many ' * (n % 5)}words" for n in range(300))
        (tmp_path / side).write_text("\n".join(lines) + "\n")
    files = ["--source", tmp_path / "source", "--target", tmp_path / "target"]
    changes = {**MICRO_BENCH, "data.corpus": "none", "vocabulary.size": 300, "training.minutes": "none"}
    sets = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    answer = jumok("bench", "train", "--json", "--warmup-updates", 1, "--updates", 2, *files, *sets)
    assert answer.code == 0, answer.err
    figures = json.loads(answer.out)
    assert set(figures) == set(FIELDS.split())
    assert figures["corpus"] == "source + target"
    assert str(tmp_path) not in answer.out
    assert str(Path.home()) not in answer.out
    assert all(figures[name] > 0 for name in ("target_tokens_per_second", "gflops", "sgemm_gflops", "peak_memory"))


def test_the_table_shows_the_figures(quick_products):
    figures = measure_micro()
    shown = "\n".join(train.table(figures))
    assert f"{figures['target_tokens_per_second']:,.0f} (median" in shown
    assert "at 159 GFLOPS" in shown
    assert "do not quote" not in "\n".join(train.table(figures | {"contended": False, "loss_fell": True}))
    assert "not idle, do not quote" in "\n".join(train.table(figures | {"contended": True}))
    assert "did not fall, do not quote" in "\n".join(train.table(figures | {"loss_fell": False}))


def test_the_benchmark_makes_the_same_updates_as_training(tmp_path):
    """Same seed, same losses to the last bit: batches, dropout, smoothing and optimiser are those of `train`."""
    recipe = train.protocol(presets.get("tiny"), source=None, target=None, tokens=400)
    recipe = recipe.change(MICRO_BENCH | {"training.schedule": "noam"})  # which does not ask when the run will end
    timed = train.time_updates(recipe, tmp_path / "bench", updates=train.Updates(1, 1))
    losses = [update.work.loss for update in timed.watch.updates]
    seen = []
    sinks = [lambda event: seen.append(event["loss"]) if event["event"] == "step" else None]
    folder = RunFolder(tmp_path / "run")
    run(recipe.change({"training.steps": len(losses)}), folder, Context.of(folder, sinks=sinks))
    assert losses == seen
    assert not any((tmp_path / "bench").glob("checkpoints/*"))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_padding_is_that_of_the_shares_that_workers_take_and_a_pass_in_one_call_has_none(
    tmp_path, monkeypatch, activation
):
    monkeypatch.setattr(trainee, "count_workers", lambda *_: 2)
    recipe = train.protocol(presets.get("tiny"), source=None, target=None, tokens=2_000)
    recipe = recipe.change(MICRO_BENCH | {"data.tokens_per_batch": 2_000, "training.tokens_per_update": 2_000})
    recipe = recipe.change({"model.d_model": 16, "model.heads": 2, "model.activation": activation})
    timed = train.time_updates(recipe, tmp_path, updates=train.Updates(0, 4))

    def places(*batches):
        return sum(batch.source.numel() + batch.labels.numel() for batch in batches)

    given = list(zip(timed.watch.updates, timed.feed.epoch(0), strict=False))
    if activation == "relu" and library.load() is not None:
        assert all(one.work.grid == one.work.source + one.work.target for one, _ in given)
        return
    for update, batch in given:
        assert update.work.grid == places(batch.share(0, 2), batch.share(1, 2))
    assert sum(update.work.grid for update, _ in given) < places(*(batch for _, batch in given))


def test_the_protocol_fixes_vocabulary_and_updates_and_leaves_the_model_alone():
    base = presets.get("base")
    made = train.protocol(base, source="a", target="b", tokens=4_096)
    assert (made.vocabulary.size, made.vocabulary.joint, made.training.tokens_per_update) == (8_000, True, 4_096)
    assert made.model == base.model
    assert made.training.label_smoothing == base.training.label_smoothing
    assert made.training.minutes is made.training.epochs is made.training.until_bleu is None


@pytest.mark.parametrize("updates", [{"counted": 0}, {"warmup": -1}], ids=str)
def test_a_number_of_updates_that_cannot_be_is_refused(updates):
    with pytest.raises(UsageError, match="must be at least"):
        train.Updates(**updates)


# ------------------------------------------------------------------------------------------ peers


def test_a_peer_that_is_not_installed_is_said_so_and_how_to_get_it(tmp_path, capsys):
    assert compare.installed(tmp_path, ["onmt", "marian"]) == []
    complaint = capsys.readouterr().err
    assert "onmt is not installed" in complaint
    assert "bench/peers/setup" in complaint
    assert "no peer is called 'marian'; known: plain, hf, onmt, eole" in complaint


@pytest.mark.parametrize("main", [compare.main, quality.main], ids=["compare", "quality"])
def test_without_the_corpus_a_comparison_is_skipped_and_says_what_to_do(main, tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 0
    complaint = capsys.readouterr().err
    assert complaint.startswith("skipped: multi30k is not here")
    assert "JUMOK_DATA" in complaint


def test_a_measured_process_sees_only_the_settings_that_were_chosen(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    shipped, tuned = places.environment(), places.environment(threads=2, tuned=True)
    assert not {name for name in shipped if name.startswith(("MALLOC", "GOMP", "OMP_NUM"))}
    assert tuned["OMP_NUM_THREADS"] == "2"
    assert {name for name in tuned if name.startswith("MALLOC")} == {
        "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_",
    }  # fmt: skip


def figures(speed: float, **more: object) -> dict[str, object]:
    common = {"version": "1", "contended": False, "padding": 0.04, "peak_memory": 10**9, "sgemm_gflops": 159.0}
    return common | {"target_tokens_per_second": speed} | more


def test_the_ratio_is_that_of_neighbouring_runs_and_the_table_gives_the_median():
    duels = [
        compare.Duel(n, "hf", "shipped", figures(ours), figures(theirs))
        for n, (ours, theirs) in enumerate([(6_000, 3_000), (9_000, 3_000), (5_000, 4_000)], start=1)
    ]
    assert [duel.ratio for duel in duels] == [2.0, 3.0, 1.25]
    assert "| hf 1, shipped | 3,000 | 6,000 | 2.00 3.00 1.25 | **2.00** | 4.0 % |" in compare.table(duels)[-1]


@pytest.fixture
def task(tmp_path) -> Task:
    """A few pairs in subwords."""
    names = ["<pad>", "<unk>", "<s>", "</s>", "<sep>", "<cls>", "<mask>", "<extra>", "a", "b"]
    (tmp_path / "vocabulary.txt").write_text("\n".join(names))
    for side, step in (("source", 3), ("target", 4)):
        lines = (" ".join("ab"[(n + k) % 2] for k in range(1 + n % step)) for n in range(50))
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 1, "dropout": 0.0}
    sizes |= {"label_smoothing": 0.0, "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9, "tokens": 20, "symbols": 10}
    (tmp_path / "task.json").write_text(json.dumps(sizes))
    return Task.from_arguments([str(tmp_path), str(tmp_path / "result"), "0", "1"])


def test_the_batches_of_a_hand_made_loop_hold_every_pair_once_and_keep_to_the_budget(task):
    pairs, batches, seen = task.pairs(), task.batches(task.pairs()), []
    while len(seen) < len(pairs):
        batch = next(batches)
        assert len(batch) * max(1 + max(map(len, pair)) for pair in batch) <= task.tokens
        seen += batch
    assert sorted(seen) == sorted(pairs)


def test_a_watched_trainer_is_credited_with_the_tokens_it_predicts(task, monkeypatch):
    """Decoder inputs as toolkits cut them: START a b, and START a END where another sentence is longer."""
    pad, start, end, a, b = 1, 2, 3, 4, 5
    monkeypatch.setattr(recorder.F, "embedding", recorder.F.embedding)
    monkeypatch.setattr(recorder.os, "_exit", lambda code: None)
    watched = recorder.Recorder(task, "toy", "torch")
    watched.watch.read = lambda: Reading(time.perf_counter(), 0.0, 0.0, None)  # a busy machine is no concern here
    handle = recorder.hook(watched, pad=pad, end=end)
    try:
        embedding = torch.nn.Embedding(10, 2)
        optimizer: Optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
        source, inputs = torch.tensor([[a, b, a], [a, pad, pad]]), torch.tensor([[start, a, b], [start, a, end]])
        (embedding(source).sum() + embedding(inputs).sum()).backward()
        optimizer.step()
    finally:
        handle.remove()
    work = watched.watch.updates[0].work
    assert (work.source, work.target, work.grid, work.sentences) == (4, 5, 12, 2)  # a b END and a END are predicted
    assert json.loads(task.result.read_text())["parameters"] == 20


# ------------------------------------------------------------------------------------------ quality


def test_only_the_time_that_a_training_ran_counts(tmp_path):
    (tmp_path / "sessions.json").write_text("[[100.0, 160.0], [1000.0, 1030.0]]")
    sessions = quality_systems.Sessions(tmp_path / "sessions.json")
    assert sessions.seconds == 90.0
    assert [sessions.at(moment) for moment in (130.0, 500.0, 1_010.0, 2_000.0)] == [30.0, 60.0, 70.0, 90.0]
    sessions.rewind(150.0)  # the last checkpoint: what came after is lost and done again
    assert sessions.seconds == 50.0


def test_the_time_to_a_score_is_that_of_the_first_validation_that_reached_it():
    curve = [quality.Point(1.0, 10, 12.0), quality.Point(2.0, 20, 31.0), quality.Point(3.0, 30, 30.5)]
    assert [quality.minutes_until(curve, bleu) for bleu in (10, 30, 35)] == [1.0, 2.0, None]
