"""The plain search that the engines are compared with on real text: on a micro model they agree."""

import pytest

from bench import equality

TEXTS = ["a b c d", "e f g h a b c", "b"]


def test_every_feature_of_every_engine_finds_what_the_plain_search_finds(micro, monkeypatch):
    monkeypatch.setattr(equality.machine, "cores", lambda: 1)
    rows = list(equality.compare(str(micro), TEXTS))
    assert {engine for _, engine, _, _ in rows} == {"torch", "native"}
    assert [name for name, engine, _, _ in rows if engine == "torch"] == [one.name for one in equality.FEATURES]
    for feature, engine, counts, _ in rows:
        assert counts["other"] == 0, (feature, engine, counts)
        assert sum(counts.values()) == len(TEXTS)


@pytest.mark.parametrize(
    ("scores", "kind"), [((-1.0, -1.0), "same"), ((-1.0, -1.00001), "tie"), ((-1.0, -1.1), "other")]
)
def test_translations_of_equal_score_are_told_from_wrong_ones(scores, kind):
    from jumok.decoding.hypothesis import Hypothesis

    ours, plain = Hypothesis((9, 3), scores[0], -1.0), (((9, 3) if kind == "same" else (10, 3)), scores[1])
    assert equality.differences([ours], [plain]) == kind
