"""Promises of a running server under load: nothing lost, nothing mixed up, an engine that dies, a drain, a reload."""

import asyncio
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

import jumok
from jumok.bench.load import Client, Phase, Reply, Request, post
from tests.support.running import Running

GOLDEN = Path(__file__).parent.parent / "golden" / "0.1"
PAIR = {"source": "en", "target": "de"}


@pytest.fixture
def server(micro, tmp_path):
    """A server over the micro model that remembers no answers."""
    server = Running(tmp_path, {"en-de": micro}, cache_megabytes=0, grace=0.2, threads=2)
    yield server
    if server.process.poll() is None:
        assert server.stop() == 0


def make_texts(count: int, *, words: tuple[int, int] = (2, 9), seed: int = 1) -> list[str]:
    """Different texts of the language that the small models know."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(chance.choices("abcdefghij", k=chance.randint(*words)))] = None
    return list(found)


def make_requests(texts: Sequence[str], port: int) -> list[Request]:
    bodies = (json.dumps({"q": text, **PAIR}).encode() for text in texts)
    return [Request(post(f"127.0.0.1:{port}", "/translate", body), number) for number, body in enumerate(bodies)]


def load(server: Running, use: Callable[[Client], Awaitable[Phase]]) -> Phase:
    """Run a load against the server."""

    async def main() -> Phase:
        client = Client("127.0.0.1", server.port, patience=30.0)
        try:
            return await use(client)
        finally:
            client.close()
            await asyncio.sleep(0.05)  # connections close in the next rounds of the loop

    return asyncio.run(main())


def send_each_once(requests: Sequence[Request], connections: int) -> Callable[[Client], Awaitable[Phase]]:
    """Return a load that sends every request until it is accepted, as clients do that are refused with 429."""

    async def use(client: Client) -> Phase:
        waiting, replies, began = iter(requests), list[Reply](), time.perf_counter()

        async def work() -> None:
            for request in waiting:
                while (reply := await client.send(request, time.perf_counter(), began)).status == 429:
                    await asyncio.sleep(0.05)
                replies.append(reply)

        await asyncio.gather(*(work() for _ in range(connections)))
        return Phase(time.perf_counter() - began, None, replies)

    return use


def text_of(reply: Reply) -> str:
    return str(json.loads(reply.body)["translatedText"])


def find_children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


@pytest.mark.slow
def test_every_request_is_answered_once_with_the_translation_of_its_own_text(server, micro, tries, kept):
    texts = make_texts(tries(300, 50_000))
    model = jumok.load(micro)
    expected = [one.text for one in model.translate(texts, details=False)]
    phase = load(server, send_each_once(make_requests(texts, server.port), 12))
    assert phase.statuses == {200: len(texts)}
    assert [text_of(reply) for reply in sorted(phase.replies, key=lambda one: one.number)] == expected
    kept("S5", "requests over HTTP, twelve at a time, beside the translator itself", figures="0 lost, 0 mixed up")


@pytest.mark.slow
def test_a_sentence_alone_and_under_load_has_the_same_answer_to_the_last_bit(server, tries, kept):
    """Texts, scores, probabilities of words, alignment and alternatives, as the bytes of the answer."""
    texts, host = make_texts(tries(40, 1_000), seed=2), f"127.0.0.1:{server.port}"
    asked = {"beam": 4, "n_best": 2, "details": True, "align": True, **PAIR}
    bodies = [json.dumps({"text": text} | asked).encode() for text in texts]
    requests = [Request(post(host, "/v1/translate", body), number) for number, body in enumerate(bodies)]
    alone = load(server, send_each_once(requests, 1))
    assert alone.statuses == {200: len(texts)}
    lists = [
        json.dumps({"texts": make_texts(16, seed=3 + n), "beam": 4, **PAIR}).encode() for n in range(len(texts) // 4)
    ]
    mixed = [*requests, *(Request(post(host, "/v1/translate", body), len(texts)) for body in lists)]
    random.Random(4).shuffle(mixed)
    together = load(server, send_each_once(mixed, 16))
    first, second = (
        {reply.number: reply.body for reply in phase.replies if reply.number < len(texts)}
        for phase in (alone, together)
    )
    assert first == second
    assert b'"score":' in first[0]
    kept("S5", "sentences over HTTP, alone and beside fifteen others", figures="0 differ in any bit of the answer")


@pytest.mark.slow
def test_an_engine_that_is_killed_under_load_is_back_and_nobody_hangs(server, tries, kept):
    requests, slowest, counts = make_requests(make_texts(200), server.port), 0.0, dict[int, int]()
    for _ in range(tries(2, 20)):
        before = find_children(server.process.pid)
        assert before

        async def kill_in_the_middle(client: Client, engines: list[int] = before) -> Phase:
            load = asyncio.create_task(client.offer(requests, rate=60.0, seconds=1.5))
            await asyncio.sleep(0.4)
            for pid in engines:
                os.kill(pid, signal.SIGKILL)
            return await load

        phase = load(server, kill_in_the_middle)
        assert set(phase.statuses) <= {200, 429, 503}, phase.statuses
        assert max(reply.seconds for reply in phase.replies) < 12.0  # the deadline and a little
        refused = [reply.due for reply in phase.replies if reply.status != 200]
        slowest = max(slowest, max(refused, default=0.4) - 0.4)
        for status, count in phase.statuses.items():
            counts[status] = counts.get(status, 0) + count
        until = time.monotonic() + 20.0
        while server.request("/translate", {"q": "a b", **PAIR})[0] != 200:
            assert time.monotonic() < until, "the engine did not come back"
            time.sleep(0.05)
        assert not set(before) & set(find_children(server.process.pid))
    refusals = ", ".join(f"{count:,} × {status}" for status, count in sorted(counts.items()) if status != 200)
    figures = f"{counts.get(200, 0):,} answered, {refusals or 'none refused'}, the last {slowest:.1f} s after the kill"
    kept("S1", "kill -9 of the engine process under 60 requests per second", figures=figures)


@pytest.mark.slow
def test_what_was_accepted_is_answered_after_sigterm(server, kept):
    count = 32
    texts = [" ".join(make_texts(12, words=(8, 9), seed=number)) for number in range(count)]
    requests = make_requests(texts, server.port)
    expected = server.translate(texts[0])

    async def terminate_in_the_middle(client: Client) -> Phase:
        began = time.perf_counter()
        waiting = [asyncio.create_task(client.send(request, began, began)) for request in requests]
        while server.metric("jumok_active_requests") <= 1 and not all(task.done() for task in waiting):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        replies = await asyncio.gather(*waiting)
        return Phase(1.0, None, list(replies))

    phase = load(server, terminate_in_the_middle)
    assert phase.statuses == {200: count}
    assert next(text_of(reply) for reply in phase.replies if reply.number == 0) == expected
    assert server.process.wait(15) == 0
    kept("S4", "SIGTERM with 32 requests in flight", count=count, figures=f"{count} answered, exit code 0")


@pytest.mark.slow
def test_a_reload_under_load_loses_no_answer_and_mixes_none(tmp_path, tries, kept):
    folder = tmp_path / "served"
    shutil.copytree(GOLDEN / "paper" / "model", folder / "model")
    texts = make_texts(60, words=(3, 6))
    by_model = {name: [one.text for one in jumok.load(GOLDEN / name).translate(texts)] for name in ("paper", "tiny")}
    assert by_model["paper"] != by_model["tiny"]
    server = Running(tmp_path, {"en-de": folder}, cache_megabytes=0, grace=0.1)
    digests = {"paper": server.request("/translate", {"q": "a b", **PAIR})[2]["x-model"]}
    try:
        replies = list[Reply]()
        for number in range(tries(2, 20)):
            name = ("tiny", "paper")[number % 2]

            async def replace_in_the_middle(client: Client, name: str = name) -> Phase:
                load = asyncio.create_task(client.offer(make_requests(texts, server.port), rate=40.0, seconds=2.0))
                await asyncio.sleep(0.3)
                (folder / "model").rename(folder / "gone")
                shutil.copytree(GOLDEN / name / "model", folder / "model")
                shutil.rmtree(folder / "gone")
                server.process.send_signal(signal.SIGHUP)
                return await load

            phase = load(server, replace_in_the_middle)
            assert set(phase.statuses) == {200}, phase.statuses
            replies += phase.replies
            until = time.monotonic() + 20.0
            while (digest := server.request("/translate", {"q": "a b", **PAIR})[2]["x-model"]) == digests.get(
                ("paper", "tiny")[number % 2]
            ):
                assert time.monotonic() < until, "the other model was not loaded"
                time.sleep(0.05)
            assert digests.setdefault(name, digest) == digest
            assert server.translate(texts) == by_model[name]
        names = {f"x-model: {digest}".encode(): name for name, digest in digests.items()}
        for reply in replies:  # the header says which model it was
            [name] = [name for header, name in names.items() if header in reply.head]
            assert text_of(reply) == by_model[name][reply.number]
    finally:
        server.stop()
    kept("S4", "a model replaced under load", figures=f"{len(replies):,} answered, 0 errors, 0 mixed")


def make_checkpoint(run: Path, step: int, factor: float) -> Path:
    """Save another checkpoint in a run, as training does: the newest weights times a factor."""
    from safetensors.numpy import load_file, save_file

    from jumok.storage import bundle

    newest = max(path for path in (run / "checkpoints").iterdir() if path.name.startswith("step-"))
    with bundle.replace_folder(run / "checkpoints" / f"step-{step:08d}") as partial:
        shutil.copy(newest / "state.json", partial)
        weights = load_file(newest / bundle.WEIGHTS)
        save_file({name: array * factor for name, array in weights.items()}, partial / bundle.WEIGHTS)
    return run / "checkpoints" / f"step-{step:08d}"


@pytest.mark.slow
def test_a_followed_run_is_served_from_its_newest_checkpoint_while_requests_run(own_micro, tmp_path, tries, kept):
    from jumok.service.follow import list_models, read_checkpoint
    from jumok.translator import Translator

    shutil.rmtree(own_micro / "model")
    texts, by_digest = make_texts(40, words=(3, 6)), dict[bytes, list[str]]()

    def learn(folder: Path) -> None:
        """Note what a checkpoint says, by the header of its answers."""
        translator = Translator(read_checkpoint(own_micro, folder))
        digest = json.loads((folder / "MANIFEST.json").read_text())["model.safetensors"]["sha256"][:16]
        by_digest[f"x-model: {digest}".encode()] = [one.text for one in translator.translate(texts, details=False)]

    learn(list_models(own_micro)[0][1])
    server = Running(tmp_path, {"en-de": own_micro}, follow=["en-de"], cache_megabytes=0, grace=0.1)
    switches = tries(2, 10)
    try:

        async def save_in_the_middle(client: Client) -> Phase:
            going = asyncio.create_task(
                client.offer(make_requests(texts, server.port), rate=25.0, seconds=5.0 * switches)
            )
            for number in range(switches):
                await asyncio.sleep(0.5)
                before = await asyncio.to_thread(lambda: server.request("/v1/models")[1]["data"][0]["digest"])
                learn(await asyncio.to_thread(make_checkpoint, own_micro, 100 + number, 0.9))
                until = time.monotonic() + 60.0
                while await asyncio.to_thread(lambda: server.request("/v1/models")[1]["data"][0]["digest"]) == before:
                    assert time.monotonic() < until, "the newer checkpoint was not loaded"
                    await asyncio.sleep(0.1)
            return await going

        phase = load(server, save_in_the_middle)
    finally:
        assert server.stop() == 0
    assert set(phase.statuses) <= {200, 429}, phase.statuses
    assert phase.statuses[200] > phase.statuses.get(429, 0)
    seen = set()
    for reply in phase.accepted:
        [header] = [header for header in by_digest if header in reply.head]
        assert text_of(reply) == by_digest[header][reply.number]
        seen.add(header)
    assert len(by_digest) == switches + 1
    assert len(seen) > 1
    figures = f"{len(phase.accepted):,} answered by {len(seen)} checkpoints, 0 errors, 0 mixed"
    kept("S4", "a newer checkpoint of a followed run under load", figures=figures)
