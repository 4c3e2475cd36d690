"""The service over one engine process: the same answers as the translator, in order, whatever else is asked."""

import asyncio
import random
import sys
from dataclasses import replace

import pytest

import jumok
from jumok.config.search import Constraints, SearchOptions
from jumok.service.errors import Closing, DeadlineExceeded, TooLong, UnknownModel, UnknownPair
from jumok.service.slots import COUNT
from jumok.service.values import Ask
from jumok.translation import Contents
from tests.service.conftest import asks, run, sentences, serve, soon


def test_answers_are_the_translators_own_in_the_order_of_the_asks(micro, loop_name):
    texts = [*sentences(40), "", "  ", "a \ud800 b"]
    expected = jumok.load(micro).translate(texts, details=False, options=asks([""])[0].options)

    async def work():
        async with serve(micro) as service:
            answers = await service.translate("micro", asks(texts), deadline=soon())
            assert [answer.translation for answer in answers] == expected
            assert {answer.digest for answer in answers} == {service.models["micro"].digest}
            assert len(service.models["micro"].digest) == 64
            assert not any(answer.cached for answer in answers)
            assert service.dispatcher.pending == 0

    run(work(), loop_name)


def test_details_alternatives_and_other_options_are_the_translators_own(micro):
    texts, translator = sentences(6), jumok.load(micro)
    options = SearchOptions(beam=3, n_best=3, extra_length=5)
    expected = translator.translate(texts, options=options)

    async def work():
        async with serve(micro) as service:
            asked = [Ask(text, options, contents=Contents()) for text in texts]
            answers = await service.translate("micro", asked, deadline=soon())
            assert [answer.translation for answer in answers] == expected
            assert len(answers[0].translation.alternatives) == 2
            assert answers[0].translation.words

    run(work())


def test_sentences_alone_and_under_load_are_equal_to_the_last_bit(micro, tries, kept):
    texts = sentences(tries(120, 1_000), words=24)
    beams = (1, 4, 5)

    async def work():
        async with serve(micro, options={"limits": _unlimited()}) as service:
            alone = []
            for text in texts:
                service.dispatcher.cache._entries.clear()
                alone += await service.translate("micro", asks([text]), deadline=soon())
            service.dispatcher.cache._entries.clear()
            order = random.Random(1).sample(range(len(texts)), len(texts))
            others = [
                service.translate("micro", asks([f"{text} x"], beam=beams[n % 3]), deadline=soon())
                for n, text in enumerate(texts)
            ]
            mine = [service.translate("micro", asks([texts[row]]), deadline=soon()) for row in order]
            mixed = [work for pair in zip(others, mine, strict=True) for work in pair]
            loaded = (await asyncio.gather(*mixed))[1::2]
            assert service.metrics.batch_sentences.count < 4 * len(texts)  # there were groups
            for row, [answer] in zip(order, loaded, strict=True):
                assert not answer.cached
                assert answer == alone[row]
                assert repr(answer.translation.score) == repr(alone[row].translation.score)

    run(work())
    kept("S5", "sentences alone and under load give the same answer, bit for bit")


def _unlimited():
    from jumok.service.admission import Limits

    return Limits(interactive=1e9, long=1e9)


def test_equal_requests_share_work_and_later_ones_are_answered_from_the_cache(micro):
    async def work():
        async with serve(micro) as service:
            [text] = sentences(1)
            several = await asyncio.gather(
                *(service.translate("micro", asks([text, text]), deadline=soon()) for _ in range(5))
            )
            flat = [answer for answers in several for answer in answers]
            assert [answer.cached for answer in flat] == [False] + [True] * 9
            assert len({answer.translation for answer in flat}) == 1
            assert service.metrics.batch_sentences.count == 1
            [again] = await service.translate("micro", asks([text]), deadline=soon())
            assert again.cached
            [other] = await service.translate("micro", asks([text], length_penalty=1.0), deadline=soon())
            assert not other.cached
            assert service.metrics.cache_hits == {"shared": 9, "cache": 1}

    run(work())


def test_a_request_past_its_deadline_fails_at_once_and_its_work_is_stopped(micro):
    async def work():
        async with serve(micro) as service:
            with pytest.raises(DeadlineExceeded):
                await service.translate("micro", asks(sentences(1)), deadline=soon(-0.01))
            many = asks(sentences(4_000), beam=40)  # far more than a second of work
            with pytest.raises(DeadlineExceeded):
                await service.translate("micro", many, deadline=soon(1.0), bulk=True)
            began = asyncio.get_running_loop().time()
            while service.dispatcher.pending:
                await asyncio.sleep(0.005)
            assert asyncio.get_running_loop().time() - began < 5.0
            assert service.metrics.stopped > 100
            assert service.metrics.expired == 2
            assert len(await service.translate("micro", asks(["a b"]), deadline=soon())) == 1

    run(work())


def test_nothing_is_left_of_requests_that_have_ended(micro):
    async def work():
        async with serve(micro, options={"limits": _unlimited()}) as service:
            for number in range(20):
                texts = [f"{text} {number}" for text in sentences(10)]
                kinds = [asks(texts), asks(texts), asks([f"a {number}"], min_length=1_500, extra_length=2_000)]
                several = [asyncio.create_task(service.translate("micro", kind, deadline=soon())) for kind in kinds]
                bad = asyncio.create_task(service.translate("micro", asks(["a " * 5_000]), deadline=soon()))
                await asyncio.sleep(0.002)
                several[2].cancel()
                await asyncio.gather(*several, bad, return_exceptions=True)
            while service.dispatcher.pending:
                await asyncio.sleep(0.005)
            handle, dispatcher = service.native.current, service.dispatcher
            assert not handle.jobs
            assert handle.slots.free == COUNT
            assert not dispatcher._shared
            assert not service.native.parked
            assert dispatcher.expected_wait(False) == 0.0
            assert not dispatcher.suspects.any

    run(work())


def test_leaving_stops_the_work_unless_another_request_shares_it(micro):
    async def work():
        async with serve(micro, options={"limits": _unlimited()}) as service:
            texts = sentences(400)
            leaving = asyncio.create_task(service.translate("micro", asks(texts), deadline=soon()))
            staying = asyncio.create_task(service.translate("micro", asks(texts[:100]), deadline=soon()))
            await asyncio.sleep(0.02)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert len(await staying) == 100
            while service.dispatcher.pending:
                await asyncio.sleep(0.005)
            assert service.metrics.cancelled == 1
            assert service.metrics.stopped > 0
            assert len(service.dispatcher.cache) + service.metrics.stopped >= 400
            done = {answer.translation.source for answer in await staying}
            assert done == set(texts[:100])

    run(work())


def test_a_sentence_that_is_too_long_is_refused_and_never_cut(micro):
    async def work():
        async with serve(micro) as service:
            with pytest.raises(TooLong) as error:
                await service.translate("micro", asks(["a b c " * 2_000]), deadline=soon())
            assert error.value.values["most"] == 2_048
            assert error.value.values["tokens"] > 2_048
            assert error.value.status == 400

    run(work())


def test_models_are_chosen_by_name_and_by_pair(micro):
    async def work():
        async with serve(f"en-de={micro}", f"de-pt_BR={micro}", f"second={micro}") as service:
            assert service.route("en", "de").name == "en-de"
            assert service.route("en-US", "de").name == "en-de"
            assert service.route(None, "pt").name == "de-pt_BR"
            assert service.route("de", "pt-BR").languages == ("de", "pt-BR")
            assert service.route(None, None, "second").languages is None
            with pytest.raises(UnknownPair, match="from de to en"):
                service.route("de", "en")
            with pytest.raises(UnknownModel, match="third"):
                service.route(None, None, "third")
            with pytest.raises(UnknownModel):
                await service.translate("../micro", asks(["a"]), deadline=soon())
            texts = sentences(20)
            first, second = await asyncio.gather(
                *(service.translate(name, asks(texts), deadline=soon()) for name in ("en-de", "second"))
            )
            assert first == [replace(answer, cached=first[n].cached) for n, answer in enumerate(second)]

    run(work())


def test_what_was_accepted_is_answered_when_the_service_closes(micro, tries, kept):
    count = tries(32, 320)

    async def work():
        async with serve(micro, options={"limits": _unlimited()}) as service:
            flying = [
                asyncio.create_task(service.translate("micro", asks([text]), deadline=soon()))
                for text in sentences(count)
            ]
            await asyncio.sleep(0)
            closing = asyncio.create_task(service.close(20.0))
            await asyncio.sleep(0)
            with pytest.raises(Closing):
                await service.translate("micro", asks(["a"]), deadline=soon())
            answers = await asyncio.gather(*flying)
            await closing
            assert [answer.translation.source for [answer] in answers] == sentences(count)

    run(work())
    kept("S4", "requests in flight when the service closes are answered")


def test_the_front_process_does_not_load_torch_or_numpy():
    import subprocess

    code = "import sys, jumok.service.service; print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"[]\n"


def test_constraints_are_the_translators_own_and_need_no_torch(micro):
    translator, texts, options = jumok.load(micro), sentences(6), SearchOptions(beam=3, extra_length=8)
    each = [
        Constraints(prefix="a b"), Constraints(require=("c d",)), Constraints(forbid=("d",)),
        Constraints("e", ("f",), ("g",)), Constraints(), Constraints(prefix="a"),
    ]  # fmt: skip
    expected = [
        translator.translate(text, options=options, constraints=bound, details=False)
        for text, bound in zip(texts, each, strict=True)
    ]

    async def work():
        async with serve(micro) as service:
            constrained = [Ask(text, options, bound) for text, bound in zip(texts, each, strict=True)]
            answers = await service.translate("micro", constrained, deadline=soon())
            assert [answer.translation for answer in answers] == expected
            assert not service.torch.handles

    run(work())
