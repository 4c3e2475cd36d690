"""Why a hypothesis died: every verdict of the graph follows from the numbers of the search."""

import pytest

from jumok.decoding.graph import Expansion, Graph
from jumok.decoding.hypothesis import penalize
from jumok.text.vocabulary import END
from jumok.translator import Translator


@pytest.fixture(scope="module")
def model(micro):
    return Translator.load(micro)


@pytest.fixture(scope="module")
def nodes(model):
    return model.graph("a b c d", beam=3, length_penalty=0.6)


def test_ranks_and_margins_are_those_of_the_step(nodes):
    for step in range(max(node["step"] for node in nodes) + 1):
        some = [node for node in nodes if node["step"] == step]
        assert [node["rank"] for node in some] == list(range(1, len(some) + 1))
        assert [node["log_probability"] for node in some] == sorted((n["log_probability"] for n in some), reverse=True)
        living = [node["log_probability"] for node in some if node["fate"] == "living"]
        for node in some:
            assert node["margin"] == (pytest.approx(node["log_probability"] - min(living)) if living else None)
            if node["reason"] == "crowded_out" and living:
                assert node["margin"] <= 0


def test_every_leaf_has_ended_or_says_why_it_died(nodes):
    parents = {node["parent"] for node in nodes}
    for number, node in enumerate(nodes):
        has_end = node["fate"] == "ended" or number in parents
        assert (node["reason"] is None) == has_end
        if node["reason"] == "bounded":
            ended = [one["score"] for one in nodes if one["fate"] == "ended"]
            assert penalize(node["log_probability"], node["step"] + 2, 0.6) <= max(ended)


def test_the_best_node_that_ended_is_the_translation(model, nodes):
    best = max((node for node in nodes if node["fate"] == "ended"), key=lambda node: node["score"])
    answer = model.translate("a b c d", beam=3, length_penalty=0.6)
    assert best["text"] == answer.text
    assert best["score"] == pytest.approx(answer.score, rel=1e-4)


def test_a_search_goes_on_from_a_dead_hypothesis(model, nodes):
    dead = next(n for n, node in enumerate(nodes) if node["reason"] == "crowded_out" and node["step"] == 1)
    path, at = [], dead
    while at >= 0:
        path.append(nodes[at]["piece"])
        at = nodes[at]["parent"]
    again = model.graph("a b c d", tokens=path[::-1], beam=3)
    assert [node["piece"] for node in again[:2]] == path[::-1]
    best = max((node for node in again if node["fate"] == "ended"), key=lambda node: node["score"])
    assert best["text"].startswith(nodes[dead]["text"].strip())
    assert again[1]["log_probability"] == pytest.approx(nodes[dead]["log_probability"], rel=1e-4)


def test_reasons_by_hand():
    graph = Graph()
    graph.grow(Expansion(0, 0, [0, 0, 0], [10, 11, 12], [-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0], [False] * 3, [0, 1]))
    totals = [-1.5, -1.6, -1.7]
    graph.grow(Expansion(0, 1, [0, 0, 0], [13, 14, END], [-0.5, -0.6, -0.7], totals, [False] * 3, [0, 1]))
    reasons = [verdict.reason for verdict in graph.explain(0, 0.6)]
    assert reasons == [None, "no_heirs", "crowded_out", "bounded", "bounded", "ended_too_low"]
