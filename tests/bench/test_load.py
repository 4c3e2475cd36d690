"""The load client of `jumok bench serve`, against a small server whose behaviour is known."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import pytest

from jumok.bench.load import LOST, Client, Phase, Reply, Request, post
from jumok.bench.serve import Expected, make_requests, picture, table

Answer = Callable[[int, bytes], Awaitable[tuple[int, bytes]]]


def run_against(answer: Answer, use: Callable[[Client], Awaitable[Phase]]) -> Phase:
    """Run a load against a server that answers its nth request with `answer(n, body)`."""
    count = iter(range(10**6))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                status, body = await answer(next(count), await reader.readexactly(size))
                if status == LOST:
                    break
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def main() -> Phase:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        client = Client(host, port, patience=5.0)
        try:
            return await use(client)
        finally:
            client.close()
            server.close()
            await asyncio.sleep(0.05)  # connections close in the next rounds of the loop

    return asyncio.run(main())


REQUESTS = [Request(post("h", "/translate", b'{"q": %d}' % n), n) for n in range(10)]


async def echo(number: int, body: bytes) -> tuple[int, bytes]:
    return 200, body


def test_every_request_gets_the_answer_to_its_own_text() -> None:
    phase = run_against(echo, lambda client: client.offer(REQUESTS, rate=400, seconds=0.5))
    assert len(phase.replies) > 100
    assert {(reply.number, reply.body) for reply in phase.replies} == {(n, b'{"q": %d}' % n) for n in range(10)}


def test_statuses_are_counted_and_only_accepted_requests_have_a_time() -> None:
    async def refuse_every_second(number: int, body: bytes) -> tuple[int, bytes]:
        return (200, b"") if number % 2 else (429, b"")

    phase = run_against(refuse_every_second, lambda client: client.saturate(REQUESTS, connections=2, seconds=0.3))
    assert set(phase.statuses) == {200, 429}
    assert abs(phase.statuses[200] - phase.statuses[429]) <= 2
    assert phase.rate == pytest.approx(phase.statuses[200] / phase.seconds)


def test_in_an_open_loop_the_time_of_a_request_counts_from_when_it_was_due() -> None:
    began = time.perf_counter()

    async def stall(number: int, body: bytes) -> tuple[int, bytes]:
        await asyncio.sleep(max(0.0, began + 0.6 - time.perf_counter()))
        return 200, b""

    phase = run_against(stall, lambda client: client.offer(REQUESTS, rate=100, seconds=0.5))
    assert all(reply.due + reply.seconds > 0.5 for reply in phase.replies)  # nobody was answered before the stall ended
    assert phase.percentile(99) > 0.4


def test_a_broken_connection_is_a_lost_request_and_the_load_goes_on() -> None:
    async def break_some(number: int, body: bytes) -> tuple[int, bytes]:
        return (LOST, b"") if number % 5 == 0 else (200, b"")

    phase = run_against(break_some, lambda client: client.saturate(REQUESTS, connections=2, seconds=0.3))
    assert phase.statuses[LOST] > 1
    assert phase.statuses[200] > phase.statuses[LOST]


def test_percentiles_are_those_of_accepted_requests() -> None:
    replies = [Reply(0, 200, b"", b"", 0.0, n / 100) for n in range(1, 101)] + [Reply(0, 429, b"", b"", 0.0, 9.0)] * 50
    phase = Phase(1.0, None, replies)
    assert (phase.percentile(50), phase.percentile(99), phase.percentile(100)) == (0.5, 0.99, 1.0)


def test_an_answer_that_differs_from_the_idle_servers_is_counted() -> None:
    def reply(number: int, text: str) -> Reply:
        return Reply(number, 200, b"", json.dumps({"translatedText": text}).encode(), 0.0, 0.1)

    expected = Expected()
    expected.learn(Phase(1.0, None, [reply(0, "a"), reply(1, "b")]))
    expected.compare(Phase(1.0, None, [reply(0, "a"), reply(1, "x"), reply(0, "a")]))
    assert (expected.compared, expected.different) == (3, 1)


def test_lists_hold_all_sentences_and_have_numbers_of_their_own() -> None:
    singles, lists = make_requests([f"s{n}" for n in range(70)], ("en", "de"), "h")
    assert [request.sentences for request in lists] == [32, 32, 6]
    assert len({request.number for request in (*singles, *lists)}) == 73
    sent = [text for one in lists for text in json.loads(one.content.split(b"\r\n\r\n", 1)[1])["q"]]
    assert sent == [f"s{n}" for n in range(70)]


def test_the_table_and_the_picture_show_what_was_measured() -> None:
    row = Phase(2.0, 50.0, [Reply(0, 200, b"", b"", 0.0, 0.012)] * 100, sentences=100, processor=0.04).figures()
    figures = {
        "singles": row, "lists": row, "recovery": row | {"milliseconds_p99_last_second": 13.0}, "different": 0,
        "compared": 200, "loads": [{"load": load} | row for load in (0.3, 0.7, 3.0)], "sentences": 10,
        "source": "val.en", "beam": 4, "machine": {"processor": "P", "cores": 2}, "memory": 10**8, "start_seconds": 0.4,
    }  # fmt: skip
    text = "\n".join(table(figures))
    for part in ("50 requests/s", "100 × 200", "p99 12.0 ms", "0 of 200 answers differ", "100 MB", "0.04"):
        assert part in text
    assert picture(figures).count("<svg") == 1


def ask_again_and_again(answer: Answer, times: int) -> tuple[list[int], int]:
    """Send requests one after the other; return their statuses, and how many were sent again."""
    repeated = []

    async def use(client: Client) -> Phase:
        client.repeat = True
        replies = [await client.send(REQUESTS[0], time.perf_counter(), 0.0) for _ in range(times)]
        repeated.append(client.repeated)
        return Phase(1.0, None, replies)

    phase = run_against(answer, use)
    return [reply.status for reply in phase.replies], repeated[0]


def test_a_request_on_a_connection_that_was_closed_as_idle_is_sent_again_once() -> None:
    async def close_second(number: int, body: bytes) -> tuple[int, bytes]:
        return (LOST if number == 1 else 200), body

    assert ask_again_and_again(close_second, 3) == ([200, 200, 200], 1)

    async def close_all_but_first(number: int, body: bytes) -> tuple[int, bytes]:
        return (200 if number == 0 else LOST), body

    assert ask_again_and_again(close_all_but_first, 2) == ([200, LOST], 1)


def test_the_first_request_of_a_connection_is_never_sent_again() -> None:
    async def close(number: int, body: bytes) -> tuple[int, bytes]:
        return LOST, body

    assert ask_again_and_again(close, 2) == ([LOST, LOST], 0)
