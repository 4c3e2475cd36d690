"""Validations say how far they are, and the logs of a run do not grow by it."""

import jumok
from jumok.events import read_events
from tests.training.test_training import micro


def test_a_validation_and_the_final_choice_say_how_far_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("jumok.data.prepare.stage.EVERY", 0.0)
    monkeypatch.setattr("jumok.training.validation.PAIRS", 2)
    events: list[dict] = []
    jumok.train(recipe=micro(**{"training.average": 2}), out=tmp_path / "run", sinks=[events.append])
    told = [event for event in events if event.get("stage") == "validating"]
    assert "Validating" in {event["text"] for event in told}
    assert any(event["text"].startswith("Scoring ") for event in told)
    assert told[0]["share"] == 0.0
    later = [event for event in told if event["count"]]
    assert {event["count"] % 2 for event in later} == {0}
    assert all(0.0 < event["share"] < 1.0 and event["rate"] > 0 for event in later if event["seconds"])
    assert later
    assert not [event for event in read_events(tmp_path / "run" / "events.jsonl") if event.get("stage") == "validating"]
