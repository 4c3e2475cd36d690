"""Minutes are a promise: what a run does with its time, on a clock that the tests turn."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jumok.data.batches import Batch, Position
from jumok.training import loop
from jumok.training.budget import LEAST_SHARE, SHARE, ByClock, ByCount, Costs, Limits, allot, ration
from jumok.training.progress import Progress
from jumok.training.schedule import Course, Schedule

PEAK = 1e-3
SCHEDULE = Schedule("linear", 512, 300, PEAK)
LIMITS = Limits(steps=10**9, pairs=1_000, candidates=2)


@dataclass
class World:
    """A machine whose clock goes forward by what things cost: seconds of update n of the process, and the others."""

    update: Callable[[int], float] = lambda n: 0.4
    pair: float = 0.006
    checkpoint: float = 0.15
    now: float = 8.0  # start-up
    probed: float | None = None  # what a probe said about a pair
    nonsense: int = 0  # updates until which translations are long, and validating takes three times as long
    rates: list[float] = field(default_factory=list)
    plans: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    validations: list[tuple[int, int, float]] = field(default_factory=list)  # step, pairs, time
    saved: list[dict[str, Any]] = field(default_factory=list)
    saved_at: list[float] = field(default_factory=list)
    done: int = 0

    def clock(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def team_update(self, batches: object, keys: object, **how: float) -> tuple[float, float, int]:
        self.done += 1
        self.spend(self.update(self.done))
        return 1.0, 1.0, 1

    def validate(self, progress: Progress) -> dict[str, float]:
        self.validations.append((progress.counts.step, progress.plan.pairs, self.now))
        self.spend(self.pair * progress.plan.pairs * (3 if progress.counts.step < self.nonsense else 1))
        return {"loss": 1.0, "bleu": 1.0}

    def save(self, progress: Progress) -> None:
        self.saved.append(progress.to_json())
        self.saved_at.append(self.now)
        self.spend(self.checkpoint)

    def run(
        self,
        minutes: float,
        progress: Progress | None = None,
        *,
        limits: Limits = LIMITS,
        schedule: Schedule = SCHEDULE,
        stop_at: int = 10**9,
    ) -> loop.Outcome:
        """A run to its finished model, as runs/experiment.py does it; stopped once `stop_at` updates are done."""
        progress = progress or Progress.of(until=minutes * 60.0)
        costs = Costs(pair=self.probed or self.pair, checkpoint=self.checkpoint)
        pace = ByClock(
            limits, schedule, costs, clock=self.clock, report=lambda **plan: self.plans.append(plan)
        )  # fmt: skip
        outcome = self.drive(pace, progress, stop_at)
        if outcome.reason != "stopped":
            pairs, judged = pace.final_pairs(progress), 0
            while judged < limits.candidates and (judged < limits.compared or pace.can_afford(pairs)):
                self.spend(self.pair * pairs if judged or pairs != progress.plan.pairs else 0.0)
                judged += 1
            self.spend(self.checkpoint + 0.5)  # export and leave
        return outcome

    def drive(self, pace, progress: Progress, stop_at: int, save_seconds: float = math.inf) -> loop.Outcome:
        team = SimpleNamespace(train=lambda: None, update=self.team_update, model=None)
        one = torch.ones(1, 1, dtype=torch.long)
        batch = Batch(one, one, one, torch.arange(1), 1)

        def report(**step: Any) -> None:
            self.steps.append(step)
            self.rates.append(step["rate"])

        hooks = loop.Hooks(
            report, self.validate, self.save, stop=lambda: progress.counts.step >= stop_at, clock=self.clock,
            save_seconds=save_seconds,
        )  # fmt: skip
        batches = ((Position(0, i), batch) for i in range(10**6))
        return loop.train(loop.Setup(team, seed=1, largest_gradient=1.0), batches, pace, progress, hooks)


def wobble(n: int) -> float:
    """Between 0.2 and 0.6 seconds, slowly up and down."""
    return 0.4 + 0.2 * math.sin(n / 40)


WORLDS: dict[str, Callable[[int], float]] = {
    "steady": lambda n: 0.4,
    "slow start": lambda n: 4.0 if n <= 3 else 0.3,
    "compiles": lambda n: 12.0 if n <= 2 else 0.3,
    "gets slower": lambda n: 0.2 if n <= 300 else 0.7,
    "gets faster": lambda n: 0.7 if n <= 100 else 0.2,
    "wobbles": wobble,
    "stalls once": lambda n: 9.0 if n == 200 else 0.35,
    "slow at the very end": lambda n: 0.3 if n <= 850 else 1.0,
}


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("name", WORLDS)
def test_a_run_of_five_minutes_ends_in_time_with_its_schedule(name, kind):
    world = World(WORLDS[name])
    outcome = world.run(5, schedule=replace(SCHEDULE, kind=kind))
    assert outcome.reason == "minutes"
    assert world.now <= 300.0
    assert world.now >= 292.0, "and does not leave time unused"
    assert world.rates[-1] <= (0.06 if name == "slow at the very end" else 0.03) * PEAK
    updates = sum(world.update(n) for n in range(1, world.done + 1))
    assert updates >= 0.9 * (300.0 - 8.0)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("name", WORLDS)
def test_the_rate_rises_once_and_then_never_again(name, kind):
    world = World(WORLDS[name])
    world.run(5, schedule=replace(SCHEDULE, kind=kind))
    top = world.rates.index(max(world.rates))
    assert max(world.rates) == pytest.approx(PEAK, rel=0.01)
    assert world.rates[: top + 1] == sorted(world.rates[: top + 1])
    assert world.rates[top:] == sorted(world.rates[top:], reverse=True)
    rises = [after - before for before, after in zip(world.rates[8:top], world.rates[9 : top + 1], strict=True)]
    assert max(rises) <= 0.1 * PEAK
    assert 20 <= top + 1 <= 300


@pytest.mark.parametrize("minutes", [0.5, 1, 2, 5, 15, 60])
@pytest.mark.parametrize("pair", [0.001, 0.006, 0.05, 0.5])
def test_what_is_not_an_update_takes_its_share_and_no_more(minutes, pair):
    world = World(wobble, pair=pair)
    world.run(minutes)
    total = minutes * 60.0
    assert world.now <= total
    least = min(pair * 50, 0.2 * total) + 3 * 0.15 + 1.0  # one validation of few pairs, and leaving
    other = world.now - 8.0 - sum(world.update(n) for n in range(1, world.done + 1))
    assert other <= max(1.05 * SHARE * total + 1.0, 1.3 * least)
    assert world.validations[-1][0] == world.done, "the last weights are validated"
    assert len({pairs for _, pairs, _ in world.validations}) == 1, "on the same pairs every time"


def test_a_long_run_validates_as_often_as_the_recipe_says_and_on_every_pair():
    world = World(wobble)
    world.run(60)
    assert len(world.validations) == LIMITS.validations
    assert {pairs for _, pairs, _ in world.validations} == {LIMITS.pairs}
    steps = [0, *(step for step, _, _ in world.validations)]
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) < 1.6 * min(gaps)


def test_a_probe_that_was_wrong_about_validating_does_not_break_the_promise():
    for probed in (0.0005, 0.05):
        world = World(probed=probed)
        world.run(2)
        assert world.now <= 120.0
        assert world.rates[-1] <= 0.03 * PEAK


def test_slow_validations_at_first_do_not_make_the_run_end_early():
    world = World(nonsense=200)
    world.run(2)
    assert world.validations[-2][0] < 200
    assert world.validations[-1][2] > 110.0, "when the last update was done"
    assert world.now <= 120.0


def test_updates_that_take_a_minute_end_before_the_one_that_would_be_late():
    world = World(lambda n: 50.0)
    outcome = world.run(5)
    assert world.now <= 300.0
    assert outcome.progress.counts.step == 5


def test_a_run_that_is_cut_short_by_the_clock_tells_it():
    world = World(lambda n: 0.4 if n < 600 else 15.0)
    outcome = world.run(5)
    assert world.now <= 300.0
    assert (world.plans[-1]["horizon"], world.plans[-1]["reason"]) == (outcome.progress.counts.step, "time is up")


def test_a_checkpoint_knows_the_time_at_which_it_was_saved():
    world = World()
    world.run(5)
    assert [saved["wall"] for saved in world.saved] == world.saved_at
    assert len(world.saved) > 2


def test_a_run_whose_time_is_over_before_it_begins_makes_one_update_and_leaves():
    world = World(now=70.0)
    assert world.run(1).progress.counts.step == 1


def test_every_rate_follows_from_the_plans_that_were_told():
    """What the clock decides is written down: replaying the plans gives the same rates, updates and validations."""
    world = World(wobble)
    outcome = world.run(5)
    courses = {0: SCHEDULE.course(0)} | {
        plan["step"]: Course(**plan["course"]) for plan in world.plans if "course" in plan
    }
    course = courses[0]
    for step, rate in enumerate(world.rates, start=1):
        course = courses.get(step - 1, course)
        assert SCHEDULE.rate(step, course) == rate
    assert world.plans[-1]["horizon"] == outcome.progress.counts.step
    assert len(world.plans) < 80
    told = {plan["due"] for plan in world.plans if plan.get("due")}
    assert {step for step, _, _ in world.validations[:-1]} <= told


def test_an_interrupted_run_goes_on_with_what_is_left_and_without_a_jump():
    whole = World(wobble)
    whole.run(5)
    first = World(wobble)
    assert first.run(5, stop_at=333).reason == "stopped"
    saved = Progress.from_json(first.saved[-1])
    assert saved.counts.wall == pytest.approx(first.now, abs=0.2)
    second = World(wobble, now=saved.counts.wall + 8.0)  # the second start counts, too
    assert second.run(5, saved).reason == "minutes"
    assert 290.0 <= second.now <= 300.0
    assert second.rates[0] == pytest.approx(first.rates[-1], rel=0.02)
    assert second.rates == sorted(second.rates, reverse=True)
    assert second.rates[-1] <= 0.03 * PEAK
    assert second.steps[-1]["seconds"] == pytest.approx(second.now - 16.0, abs=20)


def test_an_interrupted_run_whose_time_is_up_makes_no_update():
    first = World()
    first.run(5, stop_at=600)
    saved = Progress.from_json(first.saved[-1])
    second = World(now=299.0)
    assert second.run(5, saved).progress.counts.step == 600
    assert second.done == 0


def test_a_finished_run_that_is_given_more_starts_where_the_new_horizon_puts_it():
    world = World()
    progress = world.run(5).progress
    progress.minutes.began, progress.minutes.until, progress.minutes.validations, progress.minutes.spent = (
        300.0,
        900.0,
        0,
        0.0,
    )
    progress.plan.course = Course(0, progress.plan.course.warmup, progress.counts.step, left=600 / 900)
    again = World(now=308.0)
    again.run(10, progress, limits=replace(LIMITS, candidates=3, compared=2))
    assert again.now <= 900.0
    assert again.rates[0] == pytest.approx(PEAK * 600 / 900, rel=0.02)
    assert again.rates == sorted(again.rates, reverse=True)
    assert again.rates[-1] <= 0.03 * PEAK


@pytest.mark.parametrize(
    "limits", [Limits(steps=60, pairs=5, validations=4), Limits(steps=90, expected=60, pairs=5, validations=4)]
)
def test_a_run_limited_by_count_does_not_care_about_the_clock(limits):
    seen = []
    for update in (lambda n: 0.1, lambda n: 100.0 / n):
        world, progress = World(update), Progress()
        world.drive(ByCount(limits, SCHEDULE), progress, 60)
        seen.append((world.rates, [step for step, _, _ in world.validations], progress.plan.course))
    assert seen[0] == seen[1]
    assert seen[0][1] == [15, 30, 45, 60]


@pytest.mark.parametrize("update", [0.4, 48.0])
def test_a_checkpoint_is_never_older_than_the_seconds_between_two_and_changes_nothing_else(update):
    limits, told = Limits(steps=6_000, pairs=5, validate_every=2_500), []
    for seconds in (math.inf, 900.0):
        world, progress = World(lambda n: update, checkpoint=12.0), Progress()
        world.drive(ByCount(limits, SCHEDULE), progress, 10**9, seconds)
        told.append(
            (world.rates, [step for step, _, _ in world.validations], progress.plan.course, progress.counts.tokens)
        )
    assert told[0] == told[1]
    gaps = [after["wall"] - before["wall"] for before, after in pairwise([{"wall": 8.0}, *world.saved])]
    assert max(gaps) <= 900.0
    assert len(world.saved) >= world.steps[-1]["wall"] / 900.0
    passing = [saved["step"] for saved in world.saved if saved["validated"] < saved["step"]]
    assert set(passing).isdisjoint({5_000, 6_000})  # before the first validation nobody knows how long it takes
    assert 0 < len(passing) == len(world.saved) - 3


def test_a_checkpoint_that_falls_due_during_a_validation_is_saved_before_it():
    limits = Limits(steps=9_000, pairs=2_000, validate_every=1_500)
    world, progress = World(lambda n: 0.4, checkpoint=12.0, pair=0.3), Progress()  # ten minutes each
    world.drive(ByCount(limits, SCHEDULE), progress, 10**9, 900.0)
    assert len(world.validations) == 6
    gaps = [after - before for before, after in pairwise([8.0, *world.saved_at])]
    assert max(gaps) <= 900.0


def test_scores_on_other_pairs_do_not_compare():
    for pairs, best in ((130, -1.0), (1_000, 50.0)):
        progress = Progress.of(step=9, pairs=pairs, best_bleu=50.0, best_step=5, waited=3)
        ByCount(LIMITS, SCHEDULE).start(progress)
        assert progress.best.quality == best


def test_validations_every_so_many_updates_stay_where_they_were_put():
    world = World()
    world.run(2, limits=replace(LIMITS, validate_every=50, pairs=20))
    assert [step for step, _, _ in world.validations][:-1] == list(range(50, world.done, 50))
    assert world.now <= 120.0


# ------------------------------------------------------------------------------------------ by rule


costs = st.builds(Costs, pair=st.floats(1e-4, 2.0), checkpoint=st.floats(0.01, 20.0))
limits = st.builds(
    Limits, steps=st.just(10**9), pairs=st.integers(1, 5_000), validations=st.integers(1, 100),
    candidates=st.integers(1, 4),
)  # fmt: skip


@given(seconds=st.floats(30.0, 10_000.0), costs=costs, limits=limits, before=st.integers(0, 5_000))
def test_what_is_allotted_is_there_and_fits_the_share_unless_even_the_least_does_not(seconds, costs, limits, before):
    before = min(before, limits.pairs)
    found = allot(seconds, costs, limits, before)
    least = min(50, limits.pairs)
    assert 1 <= found.pairs <= limits.pairs
    assert found.pairs <= found.final or found.pairs == before
    assert found.final <= limits.pairs
    assert 1 <= found.candidates <= limits.candidates
    count = found.validations(SHARE * seconds, costs, limits.validations - 1)
    files = costs.checkpoint * (2 + found.candidates)
    judging = min(found.most, costs.pair * found.final * (found.candidates - (found.final == found.pairs)))
    end = costs.pair * found.pairs + judging + files
    each = costs.pair * found.pairs + costs.checkpoint
    if end > SHARE * seconds:
        assert count == 0
        assert found.pairs <= max(least, before) or end <= 2 * SHARE * seconds
    else:
        assert end + count * each <= SHARE * seconds * (1 + 1e-9)


@given(
    steps=st.integers(1, 10**7), validations=st.integers(1, 300), pairs=st.integers(1, 5_000),
    candidates=st.integers(1, 4), pair=st.floats(1.0, 10_000.0), update=st.floats(16.0, 1e6),
)  # fmt: skip
def test_a_run_by_count_spends_a_few_per_cent_of_its_counted_work_on_validating(
    steps, validations, pairs, candidates, pair, update
):
    limits = Limits(steps=steps, pairs=pairs, validations=validations, candidates=candidates)
    asked, found = ration(limits), ration(limits, Costs(pair=pair, update=update))
    before = (steps - 1) // found.every  # validations before the last
    assert before <= max(0, (steps - 1) // asked.every)
    assert 1 <= found.pairs <= found.final <= pairs
    judged = found.final * (candidates - 1) + (found.final if found.pairs < found.final else 0)
    work, total = pair * ((before + 1) * found.pairs + judged), steps * update
    if before:
        assert work <= SHARE * total * (1 + 1e-9)
    else:  # even a short run is validated at its end, on 50 pairs if they are no fifth of its work
        assert work <= max(SHARE * total, min(LEAST_SHARE * total, 50 * pair * candidates), pair * candidates)


def test_what_fits_the_counted_work_is_what_the_recipe_asks_for():
    paper = Limits(steps=100_000, pairs=2_000, validations=100, candidates=2)
    assert ration(paper, Costs(pair=90.0, update=25_000)) == ration(paper)
    assert ration(paper).every == 1_000


def test_twenty_updates_are_validated_once_and_validate_every_means_what_it_says():
    limits, work = Limits(steps=20, pairs=1_000, validations=20, candidates=2), Costs(pair=45.0, update=2_048)
    assert ration(limits).every == 1
    assert (ration(limits, work).every, ration(limits, work).pairs) == (20, 50)
    chosen = ration(replace(limits, validate_every=3), work)
    assert (chosen.every, chosen.pairs, chosen.final) == (3, 1_000, 1_000)
    world = World()
    world.drive(ByCount(limits, SCHEDULE, work), Progress(), 10**9)
    assert [(step, pairs) for step, pairs, _ in world.validations] == [(20, 50)]


def test_a_run_begun_with_another_rule_goes_on_with_it_and_more_steps_are_rationed_anew():
    limits, work = Limits(steps=200, pairs=1_000, validations=20, candidates=2), Costs(pair=45.0, update=2_048)
    first, progress = World(), Progress()
    first.drive(ByCount(limits, SCHEDULE), progress, 55)  # before there was counted work
    second, saved = World(), Progress.from_json(first.saved[-1])
    second.drive(ByCount(limits, SCHEDULE, work), saved, 10**9)
    assert [step for step, _, _ in first.validations + second.validations] == list(range(10, 201, 10))
    assert {pairs for _, pairs, _ in second.validations} == {1_000}
    assert ByCount(limits, SCHEDULE, work).final_pairs(saved) == 1_000
    third, longer = World(), replace(limits, steps=300)
    third.drive(ByCount(longer, SCHEDULE, work), saved, 10**9)
    chosen = ration(longer, work)
    assert chosen.pairs < 1_000
    assert {(step % chosen.every == 0 or step == 300, pairs) for step, pairs, _ in third.validations} == {
        (True, chosen.pairs)
    }


@given(
    horizons=st.lists(st.integers(0, 2_000), min_size=1, max_size=8),
    kind=st.sampled_from(["linear", "cosine", "constant"]),
    warmup=st.integers(0, 400),
)
def test_a_new_course_begins_where_the_old_one_was(horizons, kind, warmup):
    schedule = Schedule(kind, 512, warmup, PEAK)
    course, step = schedule.course(0), 0
    for ahead in horizons:
        step += 1 + ahead // 7
        before, planned = schedule.rate(step, course), schedule.rate(step + 1, course)
        rising, known = step < course.warmup, course.horizon > 0
        course = schedule.turn(course, step, step + ahead)
        after = schedule.rate(step + 1, course)
        if rising and known:
            assert after - before <= 2 * (planned - before) + 1e-12
        if not rising:
            assert after <= before + 1e-12
            assert after >= 0.01 * PEAK
        assert after <= PEAK * (1 + 1e-9)


def test_the_course_of_a_known_length_is_the_plain_formula():
    """Refactored, not changed: the rates of a run limited by steps are those of the first version."""
    for horizon in (10, 100, 4_000):
        warmup = min(300, max(1, horizon // 4))
        for step in range(1, horizon + 1):
            left = max(0.0, (horizon - step + 1) / max(1, horizon - warmup))
            expected = PEAK * step / warmup if step <= warmup else PEAK * max(0.01, left)
            assert SCHEDULE.rate(step, SCHEDULE.course(horizon)) == expected
