"""Calls besides translating, and models that only torch can run."""

import asyncio
import json
import time
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.config.search import SearchOptions
from jumok.errors import UnknownName
from jumok.inside import breaking, scoring, subject, views
from jumok.inside.edits import Edits
from jumok.service.errors import Refused
from jumok.service.values import Ask
from jumok.translation import Contents
from tests.service.conftest import asks, is_alive, run, sentences, serve, soon

LOADING = 200.0  # seconds for torch, on a busy machine
GOLDEN = Path(__file__).parent.parent / "golden" / "0.1"


def test_scores_alternatives_and_alignment_are_the_translators_own_without_torch(micro):
    translator, texts = jumok.load(micro), sentences(4)
    options = SearchOptions(beam=3, extra_length=5)
    targets = ["a b", "c d e", "f", "g h"]
    aligned = translator.translate(texts, options=options, align=True)

    async def work():
        async with serve(micro) as service:
            given = {"sources": texts, "targets": targets}
            scored = await service.call("micro", "score", given, deadline=soon())
            assert scored == translator.score(texts, targets)
            assert await service.call("micro", "align", given, deadline=soon()) == translator.align(texts, targets)
            given = {"text": texts[3], "prefix": "a", "count": 3, "options": options}
            others = await service.call("micro", "alternatives", given, deadline=soon())
            assert others == translator.alternatives(texts[3], "a", count=3, options=options)
            asked = [Ask(text, options, contents=Contents(details=False, align=True)) for text in texts]
            answers = await service.translate("micro", asked, deadline=soon())
            assert [answer.translation for answer in answers] == aligned
            assert service.torch.current is None
            assert not service.torch.handles
            with pytest.raises(UnknownName, match="scores"):
                await service.call("micro", "scores", {}, deadline=soon())
            with pytest.raises(UnknownName):
                await service.call("micro", "translate", {}, deadline=soon())

    run(work())


def test_a_model_is_looked_at_and_broken_without_torch(micro):
    translator, edits = jumok.load(micro), {"off": ["residual"], "heads": [["cross", 0, 0]]}
    given, made = {"text": "a b c", "edits": edits}, Edits.of(edits)
    expected = {
        "inside": views.overview(translator, "a b c", edits=made),
        "block": views.block(translator, "a b c", "decoder.0.cross", edits=made),
        "steps": views.steps(translator, "a b c", edits=made),
        "break": breaking.compare(translator, "a b c", made),
    }

    async def work():
        async with serve(micro) as service:
            assert (await service.call("micro", "warm", {}, deadline=soon()))["ready"]
            for verb, answer in expected.items():
                asked = given | ({"name": "decoder.0.cross"} if verb == "block" else {})
                told = await service.call("micro", verb, asked, deadline=soon())
                assert json.loads(json.dumps(told)) == json.loads(json.dumps(answer)), verb
            cost = await service.call("micro", "cost", {"edits": edits, "pairs": 10}, deadline=soon())
            pairs = subject.read_validation(translator)
            scored = scoring.score(translator, pairs[:10], made).to_json()
            assert json.dumps(cost | {"seconds": 0}) == json.dumps({"of": len(pairs)} | scored | {"seconds": 0})
            given["edits"] = {"heads": [["cross", 9, 9]]}
            with pytest.raises(Refused, match="head 9"):
                await service.call("micro", "inside", given, deadline=soon())
            assert not service.torch.handles

    run(work())


@pytest.mark.slow
def test_what_only_torch_can_do_is_the_translators_own_and_runs_in_a_process_of_its_own(micro):
    translator, texts = jumok.load(micro), sentences(5)
    drawn = SearchOptions(sample=True, seed=3, extra_length=5)
    sampled = translator.translate(texts, options=drawn, details=False)
    view, graph = translator.attention("a b c", "d e"), translator.graph("a b", beam=2, extra_length=5)

    async def work():
        async with serve(micro) as service:
            plain = await service.translate("micro", asks(texts), deadline=soon())
            assert not service.torch.handles
            answers = await service.translate("micro", [Ask(text, drawn) for text in texts], deadline=soon())
            assert [answer.translation for answer in answers] == sampled
            assert {answer.digest for answer in answers} == {plain[0].digest}
            assert service.torch.current is not None
            mixed = [*asks(texts[:2]), Ask(texts[0], drawn), *asks(texts[2:])]
            answers = await service.translate("micro", mixed, deadline=soon())
            assert [answer.translation for answer in answers] == [
                plain[0].translation,
                plain[1].translation,
                sampled[0],
                *(one.translation for one in plain[2:]),
            ]
            given = {"text": "a b c", "translation": "d e"}
            seen = await service.call("micro", "attention", given, deadline=soon())
            assert seen.source == view.source
            assert np.array_equal(seen.cross, view.cross)
            given = {"text": "a b", "options": SearchOptions(beam=2, extra_length=5)}
            nodes = await service.call("micro", "graph", given, deadline=soon())
            assert [node["piece"] for node in nodes] == [node["piece"] for node in graph]

    run(work())


@pytest.mark.slow
def test_the_process_with_torch_ends_when_it_is_idle_and_comes_back_when_it_is_needed(micro):
    drawn = Ask("a b c", SearchOptions(sample=True, seed=3, extra_length=5))

    async def work():
        async with serve(micro, options={"torch_idle": 0.5}) as service:
            [first] = await service.translate("micro", [drawn], deadline=soon(LOADING))
            process, limit = service.torch.current, soon()
            while is_alive(process.pid):
                await service.translate("micro", asks(["a b"]), deadline=soon())  # this is not for torch
                assert time.monotonic() < limit
                await asyncio.sleep(0.05)
            assert service.torch.current is None
            assert service.native.current is not None
            assert dict(service.gauges())["engine_up"][1].value == 0.0
            assert service.metrics.engine_restarts["torch"] == 0
            [again] = await service.translate("micro", [drawn], deadline=soon(LOADING))
            assert again == first
            assert service.torch.current is not process

    run(work())


def test_subwords_are_counted_without_torch(micro):
    translator, texts = jumok.load(micro), ["a b c", "", "한국어"]

    async def work():
        async with serve(micro) as service:
            for side in ("source", "target"):
                vocabulary = getattr(translator.vocabularies, side)
                counts = await service.call("micro", "count", {"texts": texts, "side": side}, deadline=soon())
                assert counts == [len(vocabulary.encode(text)) for text in texts]
            assert not service.torch.handles

    run(work())


@pytest.mark.slow
def test_models_of_other_kinds_are_served_by_torch():
    gpt, rnn = jumok.load(GOLDEN / "gpt-text"), jumok.load(GOLDEN / "rnn")
    text = "".join(gpt.generate("a", length=12, temperature=0.0))
    translated = rnn.translate("a b", details=False)

    async def work():
        async with serve(f"gpt={GOLDEN / 'gpt-text'}", f"rnn={GOLDEN / 'rnn'}") as service:
            assert service.models["gpt"].generates
            assert not service.models["rnn"].generates
            assert all(model.ready and model.engine is None for model in service.models.values())
            given = {"prompt": "a", "length": 12, "temperature": 0.0}
            assert await service.call("gpt", "generate", given, deadline=soon()) == text
            parts = [part async for part in service.stream_call("gpt", "generate", given, deadline=soon())]
            assert parts[-1] == text
            assert len(parts) > 1
            options = service.models["rnn"].options
            [answer] = await service.translate("rnn", [Ask("a b", options)], deadline=soon())
            assert answer.translation.text == translated.text
            with pytest.raises(Refused):
                await service.translate("gpt", asks(["a"]), deadline=soon())

    run(work())


def test_without_torch_what_needs_it_is_refused_and_says_how_to_install_it(micro, monkeypatch):
    monkeypatch.setattr("jumok.service.dispatch.is_installed", lambda name: False)

    async def work():
        async with serve(micro) as service:
            with pytest.raises(Refused, match="torch") as error:
                await service.translate("micro", [Ask("a", SearchOptions(sample=True))], deadline=soon())
            assert "pip install" in error.value.hint
            assert len(await service.translate("micro", asks(["a"]), deadline=soon())) == 1

    run(work())


def test_gauges_say_what_is_waiting(micro):
    async def work():
        async with serve(micro, options={"threads": 1}) as service:
            task = asyncio.create_task(service.translate("micro", asks(sentences(500)), deadline=soon()))
            await asyncio.sleep(0.05)
            gauges = dict(service.gauges())
            assert gauges["queue_sentences"][0].value > 100
            assert gauges["queue_tokens"][0].value > 100
            assert gauges["model_info"][0].labels["digest"] == service.models["micro"].digest
            await task
            gauges = dict(service.gauges())
            assert gauges["queue_sentences"][0].value == gauges["queue_tokens"][0].value == 0
            assert gauges["cache_entries"][0].value == 500

    run(work())
