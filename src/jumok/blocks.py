"""Texts that are translated together: their ids before the search, their translations after it; no torch.

A `Block` encodes texts and divides them into groups that are searched alike.  The functions turn hypotheses into
translations: text, words with probabilities, word alignment and attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from jumok.config.search import Constraints, SearchOptions, TokenConstraints
from jumok.decoding.hypothesis import Hypothesis
from jumok.errors import ModelFileError, UsageError
from jumok.text.boundaries import contains_word
from jumok.text.symbols import END, START
from jumok.translation import Contents, Translation, split_words

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from jumok.config.keywords import ConstraintKeywords
    from jumok.data.lexicon import Lexicon
    from jumok.reports.attention import AttentionView
    from jumok.text.vocabulary import Vocabularies, Vocabulary


class Group(NamedTuple):
    """Texts of a block that are searched together."""

    rows: list[int]
    options: SearchOptions
    constraints: list[TokenConstraints] | None


class Block:
    """Texts that are translated together; blank ones are in no group."""

    def __init__(
        self,
        vocabularies: Vocabularies,
        texts: Sequence[str],
        options: SearchOptions,
        constraints: ConstraintKeywords,
        contents: Contents,
        *,
        first: int,
    ) -> None:
        """`constraints` are those of all texts or of each; `first` is the number of the first text in its file."""
        self.vocabulary, self.options, self.contents, self.first = vocabularies.target, options, contents, first
        self.texts = [_replace_surrogates(text) for text in texts]
        self.sources = vocabularies.source.encode_all(self.texts)
        rows = [row for row, ids in enumerate(self.sources) if ids]
        self.constraints = Constraints.of(len(self.texts), **constraints) if constraints else None
        if self.constraints is not None:
            self.groups = self._divide(rows, self.constraints)
        else:
            self.groups = [Group(rows, _widen(options), None)] if rows else []
        chosen = options.mbr or constraints or options.n_best > 1  # among several hypotheses
        self.is_bare = not (contents.details or chosen)  # texts and scores are all that is asked for

    def _divide(self, rows: Sequence[int], constraints: Sequence[Constraints]) -> list[Group]:
        """Divide rows by the kinds of their constraints, so that no text changes how another is searched."""
        encoded = {row: constraints[row].encode(self.vocabulary) for row in rows}
        groups = []
        for kinds in sorted({bound.kinds for bound in encoded.values()}):
            some = [row for row in rows if encoded[row].kinds == kinds]
            each = [encoded[row] for row in some] if any(kinds) else None
            groups.append(Group(some, _widen(self.options, forbidding=kinds[2]), each))
        return groups

    def list_arguments(self, group: Group, progress: Callable[[int], None]) -> dict[str, Any]:
        """Return the arguments of an engine's `decode` and `submit`."""
        return {
            "sources": [self.sources[row] for row in group.rows],
            "options": group.options,
            "constraints": group.constraints,
            "numbers": [self.first + row for row in group.rows],
            "details": self.contents.details,
            "progress": progress,
        }

    def drop_impossible(self, row: int, hypotheses: Sequence[Hypothesis], folder: Path) -> list[Hypothesis]:
        """Return the hypotheses whose probability is a number or was not computed; an error if there are none."""
        possible = [h for h in hypotheses if isfinite(h.score) or not h.scored]
        if not possible and self.constraints and self.constraints[row]:
            raise UsageError("translator.contradiction", number=self.first + row + 1)
        if not possible:
            raise ModelFileError("translator.no_probabilities", folder=folder)
        return possible

    def choose(self, row: int, hypotheses: Sequence[Hypothesis]) -> Sequence[Hypothesis]:
        """Return the n best hypotheses of a text, without forbidden words where that is possible."""
        forbidden = self.constraints[row].forbid if self.constraints else ()
        allowed = [h for h in hypotheses if not contains(self.vocabulary, h, forbidden)] or hypotheses
        ranked = rank_by_consensus(self.vocabulary, allowed) if self.options.mbr else allowed
        return ranked[: self.options.n_best]


def _widen(options: SearchOptions, *, forbidding: bool = False) -> SearchOptions:
    """Return the options for the engine, with several hypotheses if one of them is chosen afterwards."""
    if options.mbr:
        return replace(options, n_best=max(options.mbr, options.n_best))
    return replace(options, n_best=options.beam) if forbidding and not options.sample else options


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON allows, by the replacement character."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def render(vocabulary: Vocabulary, text: str, hypothesis: Hypothesis, contents: Contents) -> Translation:
    """Return the translation of a text; with details, its tokens and its words with their probabilities."""
    body = list(hypothesis.body)
    translation = Translation(text, vocabulary.decode(body), hypothesis.score, hypothesis.log_probability)
    if not contents.details:
        return translation
    return replace(
        translation,
        tokens=tuple(vocabulary.pieces(hypothesis.ids)),
        token_scores=hypothesis.token_scores,
        words=split_words(body, hypothesis.token_scores, vocabulary),
    )


def list_beginnings(vocabulary: Vocabulary, prefix: str) -> list[TokenConstraints]:
    """Return how a translation with this prefix may begin: with its subwords, or with others of its last word."""
    tokens, opening = vocabulary.split_prefix(prefix) if prefix.strip() else ([], "")
    begun = TokenConstraints(prefix=tuple(tokens), opening=opening)
    whole = TokenConstraints(prefix=tuple(vocabulary.encode(prefix)))
    return [whole, begun] if opening.strip() else [begun]


def contains(vocabulary: Vocabulary, hypothesis: Hypothesis, words: Sequence[str]) -> bool:
    """Return whether a hypothesis contains one of these words."""
    text = vocabulary.decode(hypothesis.body) if words else ""
    return any(contains_word(text, word) for word in words)


def rank_by_consensus(vocabulary: Vocabulary, samples: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Minimum Bayes risk: return the distinct samples by their mean chrF against all samples, best first."""
    from jumok.evaluation.ngrams import chrf_matrix

    texts = [vocabulary.decode(sample.body) for sample in samples]
    counts = Counter(texts)
    similarity = chrf_matrix(list(counts)) @ list(counts.values()) / len(texts)
    means = dict(zip(counts, similarity.tolist(), strict=True))
    first = dict(reversed(list(zip(texts, samples, strict=True))))
    return [replace(first[text], score=means[text]) for text in sorted(first, key=lambda text: -means[text])]


def link_words(
    vocabularies: Vocabularies,
    weights: np.ndarray,
    source: Sequence[int],
    target: Sequence[int],
    lexicon: Lexicon | None = None,
) -> tuple[tuple[int, int], ...]:
    """Return pairs of source word and target word, from 0, that translate each other; by target word.

    `weights` (T, S), END included, is the attention of one head, `lexicon` the shortlist of the model, if it has one.
    """
    from jumok.evaluation.linking import find_evidence, link

    pieces = vocabularies.source.pieces(source), vocabularies.target.pieces(target)
    evidence = find_evidence(lexicon, source, target, vocabularies.target.forms)
    links = link(weights[: len(target), : len(source)], *pieces, evidence)
    return tuple(sorted(links, key=lambda pair: pair[::-1]))


def view_attention(
    vocabularies: Vocabularies, maps: Sequence[np.ndarray], text: str, source: Sequence[int], target: Sequence[int]
) -> AttentionView:
    """Return the maps of encoder, decoder and cross-attention with the pieces that they are over."""
    from jumok.reports.attention import AttentionView

    vocabulary, (encoder, decoder, cross) = vocabularies.target, maps
    return AttentionView(
        source=tuple(vocabularies.source.pieces([*source, END])),
        target=tuple(vocabulary.pieces([*target, END])),
        encoder=encoder,
        decoder=decoder,
        cross=cross,
        fed=tuple(vocabulary.pieces([START, *target])),
        text=text,
        translation=vocabulary.decode(target),
    )


def stream_text(vocabulary: Vocabulary, tokens: Iterable[int], before: Sequence[int] = ()) -> Iterator[str]:
    """Yield the text of tokens as they arrive; it follows the text of the tokens `before`."""
    ids = list(before)
    printed = vocabulary.decode(ids) if ids else ""
    for token in tokens:
        ids.append(token)
        text = vocabulary.decode(ids)
        if text.startswith(printed) and not text.endswith("\ufffd"):  # wait while a character is incomplete
            yield text[len(printed) :]
            printed = text
    yield vocabulary.decode(ids)[len(printed) :]
