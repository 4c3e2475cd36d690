"""Parts of the service by themselves: queue, frames, shared memory, admission, cache, faults of translations."""

import random
import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from jumok.config.search import Constraints, SearchOptions
from jumok.errors import UsageError
from jumok.service import models, values
from jumok.service.admission import USUAL, Backlog, Speed, count_units
from jumok.service.cache import Cache, measure
from jumok.service.dispatch import needs_torch
from jumok.service.engine import Progress
from jumok.service.frames import HEADER, LARGEST, Unpacker, pack
from jumok.service.metrics import Histogram, Metrics
from jumok.service.models import ServedModel, read_entries
from jumok.service.slots import COUNT, Slots
from jumok.service.values import Answer, Ask
from jumok.service.waiting import BULK_TURN, Item, Waiting
from jumok.translation import Contents, Translation, Word


def make(number: int, length: int, *, key: str = "k", bulk: bool = False, most: int = 4) -> Item:
    return Item(number, number, key, "x" * length, 0.0, bulk, most)


def take(waiting: Waiting) -> list[int]:
    return [item.number for item in waiting.take() or ()]


def test_a_free_thread_takes_the_oldest_and_the_nearest_in_length():
    waiting = Waiting(threads=1)
    lengths = {1: 50, 2: 10, 3: 49, 4: 500, 5: 52, 6: 51, 7: 11}
    waiting.put([make(number, length) for number, length in lengths.items()])
    assert sorted(take(waiting)) == [1, 3, 5, 6]
    assert sorted(take(waiting)) == [2, 4, 7]
    assert len(waiting) == 0


def test_only_sentences_that_ask_for_the_same_are_translated_together():
    waiting = Waiting(threads=1)
    waiting.put([make(1, 5, key="a"), make(2, 5, key="b"), make(3, 5, key="a")])
    assert sorted(take(waiting)) == [1, 3]
    assert take(waiting) == [2]


def test_threads_that_are_free_share_what_waits_and_a_busy_one_leaves_all_of_it():
    waiting, groups, lock = Waiting(threads=2), [], threading.Lock()
    waiting.put([make(number, 5) for number in range(4)])
    assert len(take(waiting)) == 4  # the other thread is busy

    def work() -> None:
        group = waiting.take()
        with lock:
            groups.append(len(group or ()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + 30.0
    while waiting._idle < 2:
        assert time.monotonic() < limit
    waiting.put([make(number, 5) for number in range(4)])
    for thread in threads:
        thread.join(30.0)
    assert groups == [2, 2]


def test_interactive_goes_first_and_bulk_gets_every_eighth_turn():
    waiting = Waiting(threads=1)
    waiting.put([make(number, 5, bulk=True, most=1) for number in range(100, 110)])
    waiting.put([make(number, 5, most=1) for number in range(40)])
    order = [take(waiting)[0] for _ in range(50)]
    bulk = [turn for turn, number in enumerate(order) if number >= 100]
    assert bulk[:5] == [BULK_TURN * n - 1 for n in range(1, 6)]
    assert [number for number in order if number < 100] == list(range(40))


def test_every_item_is_taken_exactly_once_by_any_number_of_threads():
    waiting, taken, chance = Waiting(threads=3), Counter[int](), random.Random(5)
    lock = threading.Lock()

    def work() -> None:
        while (group := waiting.take()) is not None:
            with lock:
                taken.update(item.number for item in group)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(0, 2_000, 20):
        waiting.put(
            [
                make(number, chance.randrange(60), key="abc"[number % 3], bulk=number % 5 == 0)
                for number in range(start, start + 20)
            ]
        )
    waiting.close()
    for thread in threads:
        thread.join(30.0)
    assert taken == Counter(range(2_000))


json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(some.characters()),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(some.lists(some.lists(json_values, max_size=4), max_size=4), some.integers(1, 40))
def test_frames_arrive_as_they_were_sent_in_pieces_of_any_size(frames, size):
    stream, unpacker, received = b"".join(map(pack, frames)), Unpacker(), []
    for start in range(0, len(stream), size):
        received += unpacker.feed(stream[start : start + size])
    assert received == frames


def test_a_frame_may_hold_lone_surrogates_and_is_bounded():
    assert Unpacker().feed(pack(["a\ud800b"])) == [["a\ud800b"]]
    with pytest.raises(ValueError, match="bytes"):
        Unpacker().feed(HEADER.pack(LARGEST + 1))


def test_a_translation_is_the_same_after_its_journey():
    other = Translation("s", "t2", -2.0, -3.0, ("t", "2"), (-1.0, -2.0), (Word("t2", 0.1),))
    full = Translation(
        "s", "t", -0.1234567890123456789, -1e-300, ("▁t",), (-0.5,), (Word("t", 0.6),), (other,), None, ((0, 1), (2, 0))
    )
    for one in (full, other, Translation("s", "t", -1.0, -2.0)):
        for asked in ("s", "S"):
            [frame] = Unpacker().feed(pack([values.pack_translation(one, asked)]))
            assert values.unpack_translation(frame[0], asked) == one


def test_options_and_constraints_are_the_same_after_their_journey():
    options = SearchOptions(beam=7, n_best=3, length_penalty=0.1, no_repeat=2)
    assert values.unpack_options(values.pack_options(options)) == options
    assert values.pack_options(SearchOptions()) == {}
    for constraints in (Constraints(), Constraints("a", ("b", "c"), ("d",))):
        assert values.unpack_constraints(values.pack_constraints(constraints)) == constraints


def test_a_thread_that_sleeps_or_is_past_its_deadline_is_stuck_and_one_that_computes_is_not():
    end = threading.Event()

    def compute() -> None:
        while not end.is_set():
            sum(range(1_000))

    sleeping, computing = threading.Thread(target=end.wait), threading.Thread(target=compute)
    for thread in (sleeping, computing):
        thread.start()
    later = time.monotonic() + 100.0
    asleep, awake = Progress(sleeping.ident, later), Progress(computing.ident, later)
    overdue = Progress(computing.ident, time.monotonic() - 3.0)
    asleep.measure()
    awake.measure()
    time.sleep(0.3)
    assert asleep.measure() >= 0.29
    assert awake.measure() < 0.29
    assert overdue.measure() > 3.0
    end.set()
    sleeping.join()
    computing.join()


def test_both_processes_see_the_same_slots():
    ours = Slots()
    theirs = Slots(ours.descriptor)
    first, second = ours.take(), ours.take()
    ours.stop(second)
    theirs.mark(first, running=True)
    assert (theirs.is_stopped(first), theirs.is_stopped(second)) == (False, True)
    assert (ours.is_running(first), ours.is_running(second)) == (True, False)
    ours.release(second)
    again = ours.take()
    assert again == second
    assert not theirs.is_stopped(again)
    assert ours.free == COUNT - 2
    ours.close()


def test_speed_is_measured_by_model_and_beam_and_guessed_before():
    speed = Speed()
    assert speed.estimate("m", 4) == USUAL
    speed.begin("m", 4, 0.004, 40)
    assert speed.estimate("m", 4) == pytest.approx(1e-4)
    assert speed.estimate("m", 8) == pytest.approx(2e-4)
    for _ in range(300):
        speed.measure("m", 4, 0.2, 1_000)
    assert speed.estimate("m", 4) == pytest.approx(2e-4, rel=0.01)
    assert speed.estimate("other", 4) == USUAL
    assert count_units(["abc", ""]) == 3 + 8 + 8


def test_the_wait_of_bulk_work_counts_what_goes_before_it_but_not_more_than_its_share_allows():
    backlog = Backlog(threads=2)
    assert backlog.wait(False) == backlog.wait(True) == 0.0
    backlog.add(False, 3.0)
    assert backlog.wait(False) == 1.5
    backlog.add(True, 0.1)
    assert backlog.wait(True) == pytest.approx(0.4)  # an eighth of the threads
    backlog.add(True, 7.9)
    assert backlog.wait(True) == pytest.approx(5.5)
    backlog.remove(False, 3.0)
    assert backlog.wait(False) == 0.0


def test_the_cache_is_bounded_in_bytes_and_drops_the_least_recently_used():
    answers = [Answer(Translation("s", "t" * 100, 0.0, 0.0), "d") for _ in range(30)]
    each = measure(answers[0].translation)
    cache = Cache(10 * each)
    for number, answer in enumerate(answers):
        cache.put(number, answer)
        assert cache.get(0) == answers[0]  # used again and again
    assert len(cache) == 10
    assert cache.bytes <= cache.most
    assert cache.get(1) is None
    assert cache.get(29) is not None
    cache.put("large", Answer(Translation("s", "t" * 4 * each, 0.0, 0.0), "d"))
    assert cache.get("large") is None


def test_requests_that_start_torch_are_those_that_the_native_engine_cannot_answer():
    features = frozenset({"exact", "prefix", "require", "forbid", "no_repeat", "min_length"})
    native = ServedModel("m", engine="native", features=features, ready=True)
    plain = [
        Ask("a"),
        Ask("a", SearchOptions(beam=8, n_best=4, no_repeat=3, min_length=2, exact=True)),
        Ask("a", constraints=Constraints("x", ("y",), ("z",))),
        Ask("a", contents=Contents(details=True)),
    ]
    special = [
        Ask("a", SearchOptions(sample=True)),
        Ask("a", SearchOptions(beam=4, groups=2)),
        Ask("a", SearchOptions(coverage=0.2)),
        Ask("a", SearchOptions().change(mbr=4)),
        Ask("a", contents=Contents(attention=True)),
        Ask("a", contents=Contents(align=True)),
    ]
    assert [needs_torch(native, ask) for ask in plain + special] == [False] * 4 + [True] * 6
    assert all(needs_torch(ServedModel("m", engine=None), ask) for ask in plain)
    assert not needs_torch(ServedModel("m", engine="native", calls=frozenset({"align"})), special[-1])


def test_models_are_named_by_the_user_or_by_their_folder():
    entries = read_entries(["en-de=runs/tiny", "runs/demo", "runs/odd=name"], ["live=runs/new"])
    assert [(entry.name, entry.folder, entry.follow) for entry in entries] == [
        ("en-de", "runs/tiny", False),
        ("demo", "runs/demo", False),
        ("odd=name", "runs/odd=name", False),
        ("live", "runs/new", True),
    ]
    with pytest.raises(UsageError, match="two models"):
        read_entries(["a=x", "a=y"])
    with pytest.raises(UsageError, match="no model"):
        read_entries([])


def test_an_exact_tag_is_preferred_to_the_same_language():
    served = {
        name: ServedModel(name, source, target)
        for name, source, target in (("a", "pt-BR", "en"), ("b", "pt", "en"), ("c", "zh-Hant", "en"))
    }
    assert models.route(served, "pt", "en").name == "b"
    assert models.route(served, "pt-PT", "en").name == "a"
    assert models.route(served, "zh", None).name == "c"


def test_histograms_count_what_was_at_most_a_bound():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert list(histogram.cumulative()) == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert (histogram.sum, histogram.count) == (12.0, 4)
    names = [name for name, _ in Metrics().counters()]
    assert len(names) == len(set(names))
    assert all(name.endswith("_total") for name in names)
