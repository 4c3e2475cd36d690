"""Parsing as translation: trees are read, said and read back, scored as EVALB does, and outputs cannot but be trees."""

import gzip
import random
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from jumok.config.search import SearchOptions, TokenConstraints
from jumok.decoding.rules import MINUS, Moment
from jumok.engines.torch_engine import TorchEngine
from jumok.errors import DataError, JumokError, UsageError
from jumok.lab.claim import Finding
from jumok.lab.claims import table_4
from jumok.lab.laboratory import Lab
from jumok.lab.parsing.brackets import Brackets
from jumok.lab.parsing.drawing import tree_svg
from jumok.lab.parsing.rare import Familiar, word_class
from jumok.lab.parsing.trees import (
    DEEPEST,
    PLACES,
    Leaf,
    Tree,
    bare,
    clean,
    compare,
    flat,
    leaves,
    linearise,
    name_words,
    parse,
    read,
    restore,
    right_branching,
    spans,
)
from jumok.models.base import END
from tests.lab.test_lab import MICRO
from tests.support.helpers import made

RAW = (
    "((S (NP-SBJ-1 (DT The) (NN bank)) (VP (VBD was) (VP (VBN closed) (NP (-NONE- *-1)) "
    "(PP-TMP=2 (IN on) (NP (NNP Monday))) (PRN (-LRB- -LRB-) (ADVP|PRT (RB again)) (-RRB- -RRB-)))) (. .)))"
)


# ------------------------------------------------------------------------------------------ reading


def test_cleaning_drops_traces_what_they_leave_empty_and_function_tags():
    tree = clean(parse(RAW))
    assert str(tree) == (
        "(TOP (S (NP (DT The) (NN bank)) (VP (VBD was) (VP (VBN closed) (PP (IN on) (NP (NNP Monday))) "
        "(PRN (-LRB- -LRB-) (ADVP (RB again)) (-RRB- -RRB-)))) (. .)))"
    )


def test_a_tree_of_traces_alone_is_none():
    assert clean(parse("((S (NP (-NONE- *)) (VP (-NONE- 0))))")) is None


@pytest.mark.parametrize(
    ("label", "plain"),
    [("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("ADVP|PRT", "ADVP"), ("-LRB-", "-LRB-"), ("PRP$", "PRP$"), ("``", "``")],
)
def test_labels_lose_function_tags_and_indices_alone(label, plain):
    assert bare(label) == plain


def test_a_tree_has_a_root_whether_or_not_the_line_has_an_outer_bracket():
    inner = parse("((S (X a)))")
    assert inner == parse("(S (X a))") == parse("(TOP (S (X a)))")
    assert parse("(X a)") == Tree("TOP", (Leaf("X", "a"),))
    assert parse("((S (X a)) (. .))").children == (Tree("S", (Leaf("X", "a"),)), Leaf(".", "."))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "it is empty"),
        ("((S (X a))", "unclosed brackets: 1"),
        ("((S (X a))))", "')' follows the last bracket"),
        ("((S (X a))) b", "'b' follows the last bracket"),
        ("a (S (X a))", "'a' is outside"),
        ("((S))", "'S' is empty"),
        ("()", "is empty"),
        ("((S (X a b)))", "contains a word and something else"),
        ("((S (X a) b))", "contains a word and something else"),
        ("((S ((X a))))", "has no label"),
        ("(" * 100_000, f"more than {DEEPEST} nested brackets"),
    ],
)
def test_a_line_that_is_no_tree_is_told_with_its_file_and_line(tmp_path, line, words):
    path = tmp_path / "trees.mrg.gz"
    path.write_bytes(gzip.compress(f"{RAW}\n{line}\n{RAW}\n".encode()))
    walk = read(path)
    assert clean(next(walk)) is not None
    with pytest.raises(DataError) as error:
        next(walk)
    assert words in str(error.value)
    assert "trees.mrg.gz, line 2" in error.value.where
    assert error.value.hint


# ------------------------------------------------------------------------------------------ symbols


def random_tree(draw: random.Random, depth: int = 0) -> Tree:
    children = tuple(
        random_tree(draw, depth + 1) if depth < 4 and draw.random() < 0.5 else Leaf(draw.choice("AB.,"), f"w{depth}")
        for _ in range(draw.randint(1, 3))
    )
    return Tree(draw.choice(["S", "NP", "VP", "PRT", "TOP"]) if depth else "TOP", children)


def test_symbols_and_words_give_the_tree_back():
    draw = random.Random(1)
    for tree in (random_tree(draw) for _ in range(300)):
        assert parse(str(tree)) == tree
        for words in ("same", "tags", "places"):
            assert restore(linearise(tree, words=words), leaves(tree)) == tree


def test_a_tree_is_said_in_one_symbol_for_each_bracket_and_each_word():
    tree = parse("((S (NP (DT The) (NN bank)) (VP (VBD closed)) (. .)))")
    assert linearise(tree) == "(S (NP XX XX )NP (VP XX )VP XX )S"
    assert linearise(tree, words="tags") == "(S (NP DT NN )NP (VP VBD )VP . )S"
    assert linearise(tree, words="places") == "(S (NP 1 2 )NP (VP 3 )VP 4 )S"
    assert name_words([Leaf("X", "x")] * (PLACES + 2), "places")[-3:] == [str(PLACES), "1", "2"]


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        ("", "it is empty"),
        ("XX XX", "is outside"),
        ("(S XX XX", "unclosed brackets: 1"),
        ("(S XX XX )NP", "closes 'S'"),
        ("(S XX XX )S )S", "follows the last bracket"),
        ("(S XX )S", "1 of 2 words are missing"),
        ("(S XX XX XX )S", "more words than the sentence"),
        ("(S (NP )NP XX XX )S", "is empty"),
        ("(S " * 1000, "nested brackets"),
    ],
)
def test_symbols_that_are_no_tree_over_the_words_are_told(symbols, words):
    with pytest.raises(DataError, match=words.replace("(", r"\(")):
        restore(symbols, [Leaf("A", "a"), Leaf("B", "b")])


def test_rare_words_become_what_they_look_like():
    familiar = Familiar.learn([["the", "Mr.", "00.0"], ["the", "Mr.", "1.5"]], least=2)
    assert familiar.words(["The", "Mr.", "Vinken", "chaired", "35.2"]) == ["the", "Mr.", "~Aa~en", "~a~ed", "~0"]
    assert familiar.words(["a", "The"]) == ["~a", "~Aa"]
    assert [word_class(word) for word in ("IBM", "mid-1990s", "--", "state-owned")] == ["~A", "~a0-~s", "~", "~a-~ed"]
    assert Familiar.learn([["35.2"], ["11.9"]], least=2).words(["47.1"]) == ["00.0"]


# ------------------------------------------------------------------------------------------ scores, worked by hand

TRUE = parse("((S (NP (DT a) (NN b)) (VP (VBD c) (NP (NN d) (NN e))) (. .)))")
# Words a b c d e take the places 0 to 5; the full stop takes none.
# S 0-5, NP 0-2, VP 2-5, NP 3-5: four phrases; TOP is not counted.


def test_a_tree_compared_with_itself_is_all_right():
    same = compare([TRUE, TRUE], [TRUE, TRUE])
    assert (same.matched, same.gold, same.predicted, same.complete) == (8, 8, 8, 2)
    assert same.f1 == same.recall == same.precision == same.complete_match == 100.0


def test_crossing_and_missing_brackets():
    found = parse("((S (NP (DT a) (NN b)) (VP (VBD c) (NN d)) (NN e) (. .)))")
    # S 0-5 and NP 0-2 are right; VP 2-4 is not; NP 3-5 is missing: 2 of 4 found, 2 of 3 right.
    # F1 = 2 · 1/2 · 2/3 / (1/2 + 2/3) = (2/3) / (7/6) = 4/7
    score = compare([TRUE], [found])
    assert (score.matched, score.gold, score.predicted, score.complete) == (2, 4, 3, 0)
    assert score.recall == 50.0
    assert score.precision == pytest.approx(200 / 3)
    assert score.f1 == pytest.approx(400 / 7)


def test_the_score_of_several_sentences_is_of_all_their_phrases_together():
    other = parse("((S (X a)))")  # one phrase: S 0-1
    wrong = parse("((NP (X a)))")
    score = compare([TRUE, other], [TRUE, wrong])  # 4 of 5 right, both ways; one of two sentences whole
    assert score.f1 == pytest.approx(80.0)
    assert score.complete_match == 50.0


def test_punctuation_takes_no_place_and_other_signs_do():
    moved = parse("((S (NP (DT a) (NN b) (. .)) (VP (VBD c) (NP (, ,) (NN d) (NN e)))))")
    assert compare([TRUE], [moved]).f1 == 100.0
    alone = parse("((S (NP (DT a) (NN b)) (VP (VBD c) (NP (NN d) (NN e))) (NP (. .))))")  # an NP of no words
    assert compare([TRUE], [alone]).f1 == 100.0
    dollars = parse("((S (NP ($ $) (CD 5)) (VP (VBD c))))")  # S 0-3, NP 0-2, VP 2-3
    assert spans(dollars) == {("S", 0, 3): 1, ("NP", 0, 2): 1, ("VP", 2, 3): 1}


def test_phrases_of_one_span_count_as_often_as_they_are_there():
    once = parse("((S (NP (NN a)) (VP (VB b))))")  # S 0-2, NP 0-1, VP 1-2
    twice = parse("((S (NP (NP (NN a))) (S (VP (VB b)))))")  # S 0-2, NP 0-1 twice, S 1-2, VP 1-2
    score = compare([twice], [once])
    assert (score.matched, score.gold, score.predicted) == (3, 5, 3)
    back = compare([once], [twice])
    assert (back.matched, back.gold, back.predicted) == (3, 3, 5)
    assert compare([twice], [twice]).matched == 5


def test_advp_and_prt_are_the_same():
    one, other = (parse(f"((S (VP (VB go) ({label} (RP on)))))") for label in ("PRT", "ADVP"))
    assert compare([one], [other]).f1 == 100.0
    assert compare([one], [parse("((S (VP (VB go) (NP (RP on)))))")]).f1 < 100.0


def test_no_tree_has_no_phrase_and_other_words_are_refused():
    score = compare([TRUE, TRUE], [None, TRUE])
    assert (score.matched, score.gold, score.predicted, score.sentences) == (4, 8, 4, 2)
    with pytest.raises(UsageError, match="different words"):
        compare([TRUE], [parse("((S (X a)))")])
    assert compare([parse("((X (. .)))")], [None]).sentences == 0
    assert compare([], []).f1 == 0.0


def test_trees_that_know_nothing():
    words = leaves(TRUE)
    assert spans(flat(words)) == {("S", 0, 5): 1}
    assert spans(right_branching(words, "VP")) == {("S", 0, 5): 1, **{("VP", start, 5): 1 for start in (1, 2, 3)}}
    assert leaves(right_branching(words, "VP")) == words
    for few in (words[:1], words[-1:], words[:2]):
        assert leaves(right_branching(few, "VP")) == list(few)


# ------------------------------------------------------------------------------------------ well-formed outputs

SURFACES = ["", "", "", "", "", "", "", "", "(", ")", " ", " (S", " )S", " (NP", " )NP", " (VP", " )VP", " XX", " NN"]
SURFACES += ["a", " (LONELY", "b", "c"]  # as many as the models of tests have symbols
COUNTS = [1, 2, 3, 7, 4]


def sources() -> list[list[int]]:
    return [[8 + (3 * count + place) % 11 for place in range(count)] for count in COUNTS]


def check(hypothesis, count: int, limit: int) -> None:
    assert hypothesis.ended
    assert len(hypothesis.ids) <= limit
    symbols = "".join(SURFACES[token] for token in hypothesis.body)
    tree = restore(symbols, [Leaf("NN", f"w{place}") for place in range(count)])
    assert len(leaves(tree)) == count


@pytest.mark.parametrize("beam", [1, 4, 21])
@pytest.mark.parametrize("extra", [4, 40])
def test_every_output_of_random_weights_is_a_tree_over_its_words(beam, extra):
    for seed in range(4):
        engine = TorchEngine(made(seed=seed).eval())
        ruling = Brackets(SURFACES, ["XX", "NN"]).ruling(COUNTS)
        options = SearchOptions(beam=beam, n_best=min(beam, 3), extra_length=extra, length_penalty=0.3)
        for count, hypotheses in zip(COUNTS, engine.decode(sources(), options, ruling=ruling), strict=True):
            assert hypotheses
            for one in hypotheses:
                check(one, count, count + extra)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1, sample=True, n_best=5, extra_length=30, temperature=3.0),
        SearchOptions(beam=6, groups=3, n_best=4, extra_length=30),
        SearchOptions(beam=4, extra_length=30, coverage=0.2),
    ],
    ids=["sampling", "groups", "coverage"],
)
def test_the_rule_holds_in_every_kind_of_search(options):
    engine = TorchEngine(made(seed=3).eval(), batch_tokens=24)  # several batches: rows are not places
    ruling = Brackets(SURFACES, ["XX"]).ruling(COUNTS)
    for count, hypotheses in zip(COUNTS, engine.decode(sources(), options, ruling=ruling), strict=True):
        for one in hypotheses:
            check(one, count, count + 30)


def test_the_rule_holds_behind_a_prefix_and_scores_stay_those_of_the_model():
    engine = TorchEngine(made(seed=2).eval())
    ruling = Brackets(SURFACES, ["XX"]).ruling(COUNTS)
    wishes = [TokenConstraints(prefix=(13, 17))] * len(COUNTS)
    for count, source, [one] in zip(
        COUNTS,
        sources(),
        engine.decode(sources(), SearchOptions(extra_length=20), constraints=wishes, ruling=ruling),
        strict=True,
    ):
        assert one.ids[:2] == (13, 17)
        check(one, count, count + 22)
        [scored] = engine.score([(source, one.body)])
        assert scored.log_probability == pytest.approx(one.log_probability, abs=1e-4)


def test_without_the_rule_random_weights_say_no_trees():
    engine = TorchEngine(made(seed=1).eval())
    said = [one.body for [one] in engine.decode(sources(), SearchOptions(beam=4, extra_length=40))]
    assert any(table_4.tree_of("".join(SURFACES[token] for token in ids), [Leaf("X", "x")]) is None for ids in said)


def allowed(history: list[int], *, words: int, limit: int = 100, **more: object) -> set[str]:
    rule = Brackets(SURFACES, ["XX", "NN"], **more).rule([words], [limit])
    logits = torch.zeros(1, len(SURFACES))
    rule(logits, Moment(len(history), torch.tensor([history], dtype=torch.long).view(1, -1), torch.tensor([0])))
    return {"END" if token == END else SURFACES[token].strip() for token in (logits[0] > MINUS).nonzero().flatten()}


S, NP, VP, WORD = 11, 13, 15, 17
OPENING = {"(S", "(NP", "(VP"}


def test_what_may_follow_what():
    words = {"XX", "NN"}
    assert allowed([], words=2) == OPENING
    assert allowed([S], words=2) == OPENING | words  # nothing empty is closed
    assert allowed([S, NP, WORD], words=2) == OPENING | words | {")NP"}  # by its own label
    assert allowed([S, NP, WORD, NP + 1], words=2) == OPENING | words  # the first waits for all words
    assert allowed([S, NP, WORD, NP + 1, WORD], words=2) == {")S"}
    assert allowed([S, NP, WORD, NP + 1, VP, WORD], words=2) == {")VP"}
    assert allowed([S, WORD, WORD, S + 1], words=2) == {"END"}
    assert allowed([S, NP], words=2, deepest=2) == words
    assert allowed([], words=2, limit=5) == OPENING  # (S XX XX )S END: no room for anything else
    assert allowed([S], words=2, limit=6) == words
    assert allowed([S], words=2, limit=7) == OPENING | words


def test_symbols_in_turn_are_said_one_after_the_other_and_again_from_the_first():
    first, second = 17, 18
    assert allowed([S], words=3, in_turn=True) == OPENING | {"XX"}
    assert allowed([S, first], words=3, in_turn=True) == OPENING | {"NN"}
    assert allowed([S, first, second], words=3, in_turn=True) == OPENING | {"XX"}
    assert allowed([S, first, second, first], words=3, in_turn=True) == {")S"}
    with pytest.raises(UsageError, match="no symbol 'YY'"):
        Brackets(SURFACES, ["XX", "YY"], in_turn=True)


def test_a_tree_that_cannot_fit_and_a_vocabulary_without_brackets_are_told():
    with pytest.raises(UsageError, match="does not fit into 4 symbols"):
        Brackets(SURFACES, ["XX"]).rule([2], [4])
    with pytest.raises(UsageError, match="no symbols for words"):
        Brackets(SURFACES, ["YY"])
    with pytest.raises(UsageError, match="no pair of brackets"):
        Brackets([" XX", " (S"], ["XX"])


# ------------------------------------------------------------------------------------------ the claim

NOUNS, VERBS = ("dog", "cat", "bank", "house"), ("sees", "likes", "owns")


def hand_made(number: int) -> str:
    draw = random.Random(number)
    one, other, verb = draw.choice(NOUNS), draw.choice(NOUNS), draw.choice(VERBS)
    more = f" (PP (IN in) (NP (DT the) (NN {draw.choice(NOUNS)})))" if draw.random() < 0.5 else ""
    goal = f"(NP (NP (DT a) (NN {other})){more})" if more else f"(NP (DT a) (NN {other}))"
    return f"((S (NP-SBJ (DT the) (NN {one})) (VP (VBZ {verb}) {goal}) (. .)))"


@pytest.fixture
def treebank(tmp_path) -> Path:
    """A folder of small trees of our own, laid out as the treebank is."""
    folder = tmp_path / "data" / "treebank-sample"
    folder.mkdir(parents=True)
    for split, start, count in (("train", 0, 120), ("val", 1000, 8), ("test", 2000, 12)):
        lines = "".join(f"{hand_made(start + number)}\n" for number in range(count))
        (folder / f"{split}.mrg.gz").write_bytes(gzip.compress(lines.encode()))
    return folder.parent


def micro(tmp_path: Path, data: Path | None, **changes: object) -> Lab:
    common = MICRO | {"decoding.extra_length": 300, "training.valid_pairs": 4} | changes
    return Lab(tmp_path / "lab", factor=0.02, common=common, data=data)


@pytest.mark.parametrize("words", ["places", "tags", "same"])
def test_every_output_of_the_claim_is_a_tree_and_with_the_rule_off_the_claim_does_not_hold(tmp_path, treebank, words):
    lab = micro(tmp_path, treebank)
    numbers = table_4.measure(lab, beam=2, words=words)
    checks = table_4.check(numbers)
    assert checks[0].holds
    assert numbers["trees"]["model"] == numbers["sentences"]["test"] == 12
    sabotaged = table_4.measure(lab, rule=False, beam=2, words=words)
    assert not table_4.check(sabotaged)[0].holds
    assert sabotaged["scores"]["model"] == sabotaged["scores"]["free"]
    for language in ("en", "ko"):
        for found in (numbers, sabotaged):
            for picture in table_4.draw(found, language):
                ElementTree.fromstring(picture.svg)
            assert table_4.tabulate(found).cells(language)


def test_a_parser_that_learns_beats_trees_that_know_nothing_and_one_that_does_not_fails(tmp_path, treebank):
    large = {"model.d_model": 32, "model.d_ff": 64, "training.steps": 100, "data.tokens_per_batch": 512}
    large |= {"training.tokens_per_update": 512, "model.dropout": 0.0, "training.warmup": 10}
    numbers = table_4.measure(micro(tmp_path, treebank, **large), beam=4)
    assert table_4.check(numbers)[1].holds
    numbers = table_4.measure(micro(tmp_path, treebank), beam=1)
    assert not Finding(table_4.CLAIM, numbers, "quick", 1.0).holds


def test_nothing_of_the_treebank_is_kept_in_a_finding(tmp_path, treebank):
    numbers = table_4.measure(micro(tmp_path, treebank), beam=1)
    assert not any(word in repr(numbers) for word in (*NOUNS, *VERBS))


def test_where_the_treebank_is_not_it_is_asked_for(tmp_path):
    with pytest.raises(JumokError, match="treebank-sample") as error:
        table_4.measure(micro(tmp_path, None))
    assert "--data" in error.value.hint


def test_a_drawn_tree_is_xml_whatever_its_words_are():
    words = [Leaf("X", "<script>&\x00"), Leaf(".", ".")]
    svg = tree_svg(flat(words, "<S>"), title="<b>")
    ElementTree.fromstring(svg)
    assert "<script" not in svg
    ElementTree.fromstring(tree_svg(parse("((A (B (C (D x)))) (E y))")))


# ------------------------------------------------------------------------------------------ the treebank itself


@pytest.fixture(scope="module")
def real() -> Path:
    import os

    folder = Path(os.environ.get("JUMOK_DATA", "")) / "treebank-sample"
    if "JUMOK_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("the treebank is not part of jumok: set JUMOK_DATA to the folder that holds treebank-sample")
    return folder


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_every_tree_of_the_treebank_survives_the_round_trip(real, split):
    trees = [tree for found in read(real / f"{split}.mrg.gz") if (tree := clean(found)) is not None]
    assert len(trees) == {"train": 3396, "val": 273, "test": 245}[split]
    for tree in trees:
        assert restore(linearise(tree), leaves(tree)) == tree
        assert parse(str(tree)) == tree
    assert compare(trees, trees).f1 == 100.0
