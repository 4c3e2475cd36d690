"""What goes wrong: a killed or hanging engine process, a killed front process, overload, newer models."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from jumok.service import supervisor
from jumok.service.admission import Limits
from jumok.service.errors import DeadlineExceeded, EngineLost, ModelRefused, Overloaded, Poisoned, ServiceError
from jumok.service.follow import find_newest, list_models
from jumok.service.suspects import HOUR, Suspects
from jumok.storage import bundle
from tests.service.conftest import asks, is_alive, run, sentences, serve, soon

LONG = {"min_length": 1_500, "extra_length": 2_000, "beam": 12}  # options of a search that takes about a second
UNLIMITED = Limits(interactive=1e9, long=1e9, cache=0)


async def until(condition, seconds: float = 30.0) -> float:
    """Wait until something holds; return how long that took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds
        await asyncio.sleep(0.002)
    return time.monotonic() - began


def test_a_killed_engine_fails_only_what_it_worked_on_and_is_back_soon(micro, tries, kept):
    kills, slowest = tries(3, 20), []

    async def client(service, number: int, counts: dict[str, int], going: asyncio.Event) -> None:
        turn = 0
        while not going.is_set():
            text = f"a b c d {number} {turn}"
            turn += 1
            try:
                [answer] = await service.translate("micro", asks([text]), deadline=soon(30.0))
                assert answer.translation.source == text
                counts["answered"] += 1
            except EngineLost:
                counts["lost"] += 1

    async def work():
        async with serve(micro) as service:
            counts, end = {"answered": 0, "lost": 0}, asyncio.Event()
            clients = [asyncio.create_task(client(service, number, counts, end)) for number in range(12)]
            for _ in range(kills):
                await asyncio.sleep(0.3)
                handle = service.native.current
                os.kill(handle.pid, signal.SIGKILL)
                await until(lambda handle=handle: service.native.current is not handle)
                slowest.append(await until(lambda: service.native.current is not None))
            before = counts["answered"]
            await until(lambda: counts["answered"] > before + 12)
            end.set()
            await asyncio.wait_for(asyncio.gather(*clients), 30.0)
            assert service.metrics.engine_restarts["native"] == kills
            assert counts["lost"] <= 12 * kills
            assert service.dispatcher.pending == 0
            assert len(service.native.handles) == 1

    run(work())
    kept("S1", "engine process killed under load: started again, nobody hangs", figures=f"{max(slowest):.1f} s at most")


def test_an_engine_that_hangs_is_killed_and_replaced(micro, monkeypatch):
    monkeypatch.setitem(supervisor.SILENCE, "native", 1.5)
    monkeypatch.setattr(supervisor, "BEAT", 0.2)

    async def work():
        async with serve(micro) as service:
            first = service.native.current
            os.kill(first.pid, signal.SIGSTOP)
            [answer] = await service.translate("micro", asks(["a b c"]), deadline=soon())
            assert answer.translation.source == "a b c"
            assert service.native.current is not first
            assert service.metrics.engine_restarts["native"] == 1
            assert not is_alive(first.pid)

    run(work())


def test_a_search_that_never_ends_is_killed_some_seconds_after_its_deadline(micro, monkeypatch, kept):
    monkeypatch.setattr("jumok.service.process.MODULE", "tests.support.looping_engine")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    silence, own = supervisor.SILENCE["native"], 1.5
    assert silence == 5.0  # the guide says so

    async def work():
        async with serve(micro, options={"threads": 2, "limits": UNLIMITED}) as service:
            first, began = service.native.current, time.monotonic()
            with pytest.raises(DeadlineExceeded):
                await service.translate("micro", asks(["loop a b"]), deadline=soon(own))
            assert time.monotonic() - began < own + 1.0  # nobody waits for the watchdog
            [answer] = await service.translate("micro", asks(["a b c"]), deadline=soon())  # by the other thread
            assert answer.translation.source == "a b c"
            assert service.native.current is first
            await until(lambda: service.native.current is not first)
            seconds = time.monotonic() - began - own
            assert silence < seconds < silence + 15.0  # two beats, and what a busy machine adds
            await service.translate("micro", asks(["d e f"]), deadline=soon())  # by the next process
            assert not is_alive(first.pid)
            return seconds

    seconds = run(work())
    kept(
        "S1",
        "a search that never ends: its process is replaced",
        count=1,
        figures=f"{seconds:.1f} s after its deadline",
    )


def test_a_sentence_that_kills_the_engine_twice_is_refused_and_its_neighbours_are_not(micro):
    """Every process that works on the bad sentence is killed, as if it had crashed."""
    bad, long = "z y x", "a b c d e f g h i j " * 40

    async def kill_if_bad(service) -> None:
        while True:
            handle = service.native.current
            if handle is not None and any(
                job.ask.text == bad and handle.is_running(job) for job in list(handle.jobs.values())
            ):
                os.kill(handle.pid, signal.SIGKILL)
            await asyncio.sleep(0)

    async def work():
        async with serve(micro, options={"limits": UNLIMITED, "threads": 1}) as service:
            killer = asyncio.create_task(kill_if_bad(service))
            outcomes = []
            for _ in range(50):
                # A long prefix makes the search of the sentence last.
                together = [
                    service.translate("micro", asks([text], extra_length=900, min_length=900), deadline=soon())
                    for text in (bad, long)
                ]
                outcomes.append(await asyncio.gather(*together, return_exceptions=True))
                if isinstance(outcomes[-1][0], Poisoned):
                    break
            killer.cancel()
            kinds = [type(first) for first, _ in outcomes]
            assert kinds.count(EngineLost) == 2
            assert kinds[-1] is Poisoned
            assert not isinstance(outcomes[-1][1], Exception)
            assert service.metrics.poisoned == 1

    run(work())


def test_suspects_are_forgotten_after_an_hour_or_an_answer():
    now = [0.0]
    suspects = Suspects(lambda: now[0])
    suspects.accuse(b"a")
    assert suspects.is_suspect(b"a")
    assert not suspects.is_poisoned(b"a")
    suspects.accuse(b"a")
    assert suspects.is_poisoned(b"a")
    suspects.accuse(b"b")
    suspects.acquit(b"b")
    assert not suspects.is_suspect(b"b")
    now[0] = HOUR + 1
    assert not suspects.is_poisoned(b"a")


def test_overload_is_refused_early_and_what_is_accepted_meets_its_deadline(micro, kept):
    async def work():
        async with serve(micro, options={"threads": 1}) as service:
            await service.translate("micro", asks(sentences(50)), deadline=soon(), bulk=True)
            seconds, refused = [], []

            async def one(text: str) -> None:
                began = time.monotonic()
                try:
                    await service.translate("micro", asks([text]), deadline=soon(10.0))
                    seconds.append(time.monotonic() - began)
                except Overloaded as error:
                    refused.append(error.retry_after)

            await asyncio.gather(*(one(f"a b c d e {number}") for number in range(2_000)))
            assert len(seconds) + len(refused) == 2_000
            assert len(refused) > 500
            assert min(refused) >= 1.0
            assert seconds
            assert service.metrics.shed == len(refused)
            assert max(seconds) < 10.0
            assert service.expected_wait("micro") == 0.0
            await service.translate("micro", asks(["a b"]), deadline=soon())  # normal again

    run(work())
    kept("S2", "requests beyond the queue's length are refused at once", count=2_000)


def test_a_long_text_is_accepted_by_an_idle_service_and_does_not_delay_others(micro):
    async def work():
        async with serve(micro, options={"threads": 1}) as service:
            long = asyncio.create_task(service.translate("micro", asks(sentences(1_500)), deadline=soon()))
            await asyncio.sleep(0.05)
            for number in range(5):
                await service.translate("micro", asks([f"f g h {number}"]), deadline=soon())
                assert not long.done()
            assert len(await long) == 1_500

    run(work())


def test_a_reload_under_load_loses_and_mixes_nothing(micro, tmp_path, tries, kept):
    other = _retrain(micro, tmp_path)
    place = Path(shutil.copytree(micro, tmp_path / "run"))
    reloads = tries(2, 10)

    async def work():
        async with serve(f"m={place}", options={"limits": UNLIMITED}) as service:
            seen: dict[str, set[str]] = {}
            end, texts = asyncio.Event(), sentences(40)

            async def client(number: int) -> None:
                while not end.is_set():
                    answers = await service.translate("m", asks(texts[number::4]), deadline=soon())
                    assert len({answer.digest for answer in answers}) == 1
                    for answer in answers:
                        seen.setdefault(answer.digest, set()).add(repr(answer.translation))

            clients = [asyncio.create_task(client(number)) for number in range(4)]
            for number in range(reloads):
                shutil.rmtree(place / "model")
                shutil.copytree((other if number % 2 == 0 else micro) / "model", place / "model")
                before = service.models["m"].digest
                await service.reload("m")
                assert service.models["m"].digest != before
                await asyncio.sleep(0.2)
            end.set()
            await asyncio.gather(*clients)
            await until(lambda: len(service.native.handles) == 1)
            assert len(seen) == 2
            assert {len(translations) for translations in seen.values()} == {40}  # each model says the same always
            assert service.metrics.engine_restarts["native"] == 0

    run(work())
    kept("S1", "reloads under load: no error, no answer of two models")


def _retrain(micro: Path, folder: Path) -> Path:
    """A copy of the run whose model is its other checkpoint."""
    from safetensors.numpy import load_file, save_file

    copy = Path(shutil.copytree(micro, folder / "other"))
    weights = {name: array * 0.5 for name, array in load_file(copy / "model/model.safetensors").items()}
    with bundle.replace_folder(copy / "model") as partial:
        for path in (micro / "model").iterdir():
            if path.name not in (bundle.MANIFEST, bundle.WEIGHTS):
                shutil.copy(path, partial / path.name)
        save_file(weights, partial / bundle.WEIGHTS)
    return copy


def test_a_model_that_cannot_be_read_is_refused_and_a_failed_reload_changes_nothing(own_micro, tmp_path):
    async def work():
        with pytest.raises(ModelRefused, match="no-such-run"):
            async with serve(tmp_path / "no-such-run"):
                pass
        async with serve(own_micro) as service:
            first = await service.translate("micro", asks(["a b c"]), deadline=soon())
            (own_micro / "model" / "model.safetensors").write_bytes(b"damaged")
            with pytest.raises(ModelRefused):
                await service.reload("micro")
            assert await service.translate("micro", asks(["a b d"]), deadline=soon())
            assert first[0].digest == service.models["micro"].digest

    run(work())


def test_a_followed_run_is_served_from_its_checkpoints_to_its_model(own_micro, tmp_path):
    run_folder = tmp_path / "following"
    run_folder.mkdir()
    for name in ("recipe.toml", "vocabulary.model"):
        shutil.copy(own_micro / name, run_folder / name)

    async def work():
        async with serve(follow=[str(run_folder)]) as service:
            assert not service.models["following"].ready
            with pytest.raises(Overloaded):
                await service.translate("following", asks(["a"]), deadline=soon())
            (run_folder / "checkpoints").mkdir()
            steps = sorted((own_micro / "checkpoints").iterdir())
            digests = []
            for folder in (*steps[-2:], own_micro / "model"):
                target = run_folder / "model" if folder.name == "model" else run_folder / "checkpoints" / folder.name
                shutil.copytree(folder, target.with_name("new"))
                target.with_name("new").rename(target)
                os.utime(target / "model.safetensors")
                before = service.models["following"].digest
                await until(lambda before=before: service.models["following"].digest != before)
                [answer] = await service.translate("following", asks(["a b"]), deadline=soon())
                digests.append(answer.digest)
            assert len(set(digests)) >= 2

    run(work())


def test_the_newest_checkpoint_is_followed_although_training_changes_older_ones(own_micro):
    shutil.rmtree(own_micro / "model")
    older, newest = sorted((own_micro / "checkpoints").iterdir())[-2:]
    now = time.time()
    for seconds, folder in ((20, older), (10, newest)):
        for path in folder.iterdir():
            os.utime(path, (now - seconds, now - seconds))
    bundle.drop(older, ["optimizer.safetensors"])  # as it does when a third checkpoint is saved
    assert (older / bundle.MANIFEST).stat().st_mtime > (newest / bundle.MANIFEST).stat().st_mtime
    assert [folder for _, folder in list_models(own_micro)][:2] == [newest, older]
    assert find_newest(own_micro).folder == newest


FRONT = """
import asyncio, json, sys, time
from jumok.service.service import Service
from jumok.service.values import Ask

async def main():
    service = Service([sys.argv[1]])
    await service.start()
    work = [service.translate("micro", [Ask(f"a b {n}")], deadline=time.monotonic() + 60) for n in range(100)]
    tasks = [asyncio.create_task(one) for one in work]
    print(json.dumps(service.native.current.pid), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_front_process_that_is_killed_leaves_no_process_behind(micro, kept):
    front = subprocess.Popen([sys.executable, "-c", FRONT, str(micro)], stdout=subprocess.PIPE)
    try:
        engine = json.loads(front.stdout.readline())
        assert is_alive(engine)
    finally:
        front.kill()
        front.wait()
        front.stdout.close()
    limit = time.monotonic() + 10.0
    while is_alive(engine):
        assert time.monotonic() < limit
        time.sleep(0.01)
    kept("S4", "front process killed with SIGKILL: no process is left", count=1)


def test_a_client_that_leaves_frees_its_thread_within_a_step(micro, tries, kept):
    count, slowest = tries(10, 500), []

    async def work():
        async with serve(micro, options={"threads": 1}) as service:
            began = time.monotonic()
            await service.translate("micro", asks(["a b c d"], **LONG), deadline=soon())
            whole = time.monotonic() - began
            for number in range(count):
                endless = asks([f"a b c d {number}"], **LONG)
                task = asyncio.create_task(service.translate("micro", endless, deadline=soon()))
                await until(lambda: service.native.current.count_running() == 1)
                task.cancel()
                slowest.append(await until(lambda: service.dispatcher.pending == 0))
                assert service.metrics.cancelled == number + 1
            assert sorted(slowest)[count // 2] < whole / 4

    run(work())
    kept(
        "S3",
        "a client left during the search",
        figures=f"free after {1000 * sorted(slowest)[len(slowest) // 2]:.0f} ms",
    )


def test_a_stream_grows_and_ends_with_the_answer(micro):
    async def work():
        async with serve(micro) as service:
            for beam in (1, 4):
                [ask] = asks(["a b c d e f"], beam=beam, min_length=1_500, extra_length=2_000)
                parts = [part async for part in service.stream("micro", ask, deadline=soon())]
                assert len(parts) > 2
                for before, after in pairwise(parts):
                    assert after.text.startswith(before.text)
                    assert before.answer is None
                [alone] = await service.translate("micro", [ask], deadline=soon())
                assert parts[-1].answer.translation == alone.translation
                assert parts[-1].text == alone.translation.text

    run(work())


def test_every_error_says_its_status():
    statuses = {error.__name__: error.status for error in ServiceError.__subclasses__()}
    assert set(statuses.values()) <= {400, 404, 422, 429, 503}
