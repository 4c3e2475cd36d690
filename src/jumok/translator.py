"""Text to text: the facade everyone uses.

>>> model = jumok.load("runs/tiny")
>>> model.translate("A man rides a bike.").text
>>> best = model.translate(["…", "…"], beam=4, attention=True)
>>> best[0].score, best[0].attention.cross.shape          # (layers, heads, target, source)
>>> for word in model.stream("A dog runs."): print(word, end="", flush=True)

Keywords are the fields of `SearchOptions` and `Constraints` (config/search.py).  Where such a value is already made, it
is given as `options` or `constraints`, and keywords change it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from jumok.config.search import ConstraintKeywords, Constraints, SamplingKeywords, SearchKeywords, SearchOptions
from jumok.decoding.graph import Graph
from jumok.decoding.hypothesis import NEVER, Hypothesis
from jumok.engines.choose import Engines
from jumok.engines.options import Count, EngineKeywords, EngineOptions, FastEngine, silent
from jumok.errors import ModelFileError, UsageError, check_names
from jumok.storage import bundle
from jumok.storage.bundle import Bundle
from jumok.text.boundaries import says, words_of
from jumok.text.vocabulary import END, MASK, SEPARATOR, START
from jumok.translation import (
    ContentKeywords,
    Contents,
    TranslateKeywords,
    Translation,
    Word,
    replace_surrogates,
    split_words,
)

if TYPE_CHECKING:
    from jumok.engines.torch_engine import TorchEngine
    from jumok.evaluation.evaluate import Evaluation
    from jumok.reports.attention import AttentionView

CHUNK = 1_024  # lines that are sorted and decoded together
HOLE = "<mask>"  # where a word is missing


class EvaluateKeywords(SearchKeywords, total=False):
    """How to search, and how to score: see `evaluation.evaluate.evaluate`."""

    tokenize: str
    compare: str | None
    ter: bool
    perplexity: bool


def load(
    path: str | Path,
    *,
    others: Sequence[str | Path] = (),
    say: Callable[[str], None] = lambda text: None,
    **choices: Unpack[EngineKeywords],
) -> Translator:
    """Load the translator of a run folder or an exported bundle; with `others`, an ensemble.

    Choices are those of `EngineOptions`: engine, device, precision, shortlist, deterministic.  `say` is told in one
    line why torch was taken instead of the engine asked for.
    """
    return Translator.load(path, others=others, say=say, **choices)


class Translator:
    """A model, its vocabularies and its engines: the fast one where it can, torch for everything else."""

    def __init__(
        self,
        found: Bundle,
        *,
        others: Sequence[Bundle] = (),
        say: Callable[[str], None] = lambda text: None,
        **choices: Unpack[EngineKeywords],
    ) -> None:
        """`others` are models over the same vocabulary; their probabilities are averaged with the first's.

        With `deterministic` a text gets the same translation and the same scores, to the last bit, whatever is
        translated with it.  The native engine always gives that; ctranslate2, and torch where it has no kernels, then
        take one sentence at a time.
        """
        check_names("choice", choices, {*EngineKeywords.__annotations__, "others", "say"})
        self.bundle, self.recipe, self.card, self.folder = found, found.recipe, found.card, found.folder
        self.vocabularies, self.folders = found.vocabularies, [one.folder for one in (found, *others)]
        for one in others:
            if one.vocabularies.digest != self.vocabularies.digest:
                raise ModelFileError(
                    "models can be put together only over the same vocabulary",
                    where=f"{one.folder} has another one than {found.folder}",
                    hint="train both on the same text with the same vocabulary.size",
                )
        self.engines = Engines([found, *others], EngineOptions(**choices), say)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        others: Sequence[str | Path] = (),
        say: Callable[[str], None] = lambda text: None,
        **choices: Unpack[EngineKeywords],
    ) -> Translator:
        """The model of a run folder or of an exported bundle, alone or with others."""
        check_names("choice", choices, {*EngineKeywords.__annotations__, "others", "say"})  # before anything is read
        return cls(bundle.read(path), others=[bundle.read(one) for one in others], say=say, **choices)

    @property
    def engine(self) -> TorchEngine:
        """The reference engine, which can do everything; torch is loaded when it is first needed."""
        return self.engines.torch

    @engine.setter
    def engine(self, engine: TorchEngine) -> None:
        self.engines.torch = engine

    @property
    def fast(self) -> FastEngine | None:
        """The fast engine, or None where it was not asked for or cannot run this model."""
        return self.engines.fast

    @property
    def engine_name(self) -> str:
        """What ordinary searches run on, in a few words."""
        return self.engines.description

    @property
    def deterministic(self) -> bool:
        return self.engines.options.deterministic

    @property
    def model(self) -> Any:
        """The torch model; who changes its weights loads the translator with engine="torch", or others translate."""
        return self.engine.model

    def options(self, **keywords: Unpack[SearchKeywords]) -> SearchOptions:
        """Search options: the recipe's, changed by what is given and not None."""
        usual = self.recipe.decoding
        options = SearchOptions(beam=usual.beam, length_penalty=usual.length_penalty, extra_length=usual.extra_length)
        return options.change(**keywords)

    def _options(self, options: SearchOptions | None, keywords: SearchKeywords) -> SearchOptions:
        """Those given, or the recipe's, changed by keywords."""
        return self.options(**keywords) if options is None else options.change(**keywords)

    @overload  # a str is also a Sequence[str]: the first that fits is taken
    def translate(self, text: str, **keywords: Unpack[TranslateKeywords]) -> Translation: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Sequence[str], **keywords: Unpack[TranslateKeywords]) -> list[Translation]: ...

    def translate(
        self, text: str | Sequence[str], **keywords: Unpack[TranslateKeywords]
    ) -> Translation | list[Translation]:
        """Translate a sentence or a list of them.

        Search: beam, length_penalty, extra_length, n_best (how many), exact, min_length, no_repeat, groups and
        diversity, coverage; sample, temperature, top_k, top_p, seed; mbr (draw that many, take the one most like the
        others).  Constraints: prefix, require, forbid: the same for all, or one for each sentence.
        More to know: attention=True, align=True; less, and faster: details=False, no tokens and words.
        """
        texts = [text] if isinstance(text, str) else list(text)
        done = list(self.lines(texts, chunk=max(1, len(texts)), **keywords))
        return done[0] if isinstance(text, str) else done

    def lines(
        self,
        texts: Iterable[str],
        *,
        chunk: int = CHUNK,
        first: int = 0,
        progress: Count = silent,
        **keywords: Unpack[TranslateKeywords],
    ) -> Iterator[Translation]:
        """Translate a stream of lines in order, in bounded memory; `first` is the number of the first in its file."""
        if self.recipe.data.text is not None:
            raise self._other("translates")
        search, constraints, contents = _split(keywords)
        options, walk = self._options(keywords.get("options"), search), iter(texts)
        waiting: deque[Callable[[], list[Translation]]] = deque()
        while block := list(islice(walk, chunk)):
            each = Constraints.of(len(block), **constraints)
            waiting.append(self._begin(block, options, each, contents, first=first, progress=progress))
            first += len(block)
            if len(waiting) > (chunk > 1):  # one block is read and written while another is decoded
                yield from waiting.popleft()()
        while waiting:
            yield from waiting.popleft()()

    def _begin(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        constraints: Sequence[Constraints],
        contents: Contents,
        *,
        first: int,
        progress: Count,
    ) -> Callable[[], list[Translation]]:
        """Begin to translate, in the background where the engine can; the function waits for the translations."""
        texts = list(map(replace_surrogates, texts))
        sources = self.vocabularies.source.encode_all(texts)
        encode = self.vocabularies.target.encode
        encoded = {row: constraints[row].encode(encode) for row, ids in enumerate(sources) if ids}
        waiting: list[tuple[list[int], Callable[[], list[list[Hypothesis]]]]] = []
        for kinds in sorted({one.kinds for one in encoded.values()}):  # one text never decides how another is searched
            rows = [row for row, one in encoded.items() if one.kinds == kinds]
            searched, each = _widen(options, forbidding=kinds[2]), [encoded[row] for row in rows]
            found = self.engines.choose(searched, each).submit(
                [sources[row] for row in rows], searched, constraints=each if any(kinds) else None,
                numbers=[first + row for row in rows], details=contents.details, progress=progress,
            )  # fmt: skip
            waiting.append((rows, found))
        bare = not (contents.details or options.mbr or any(constraints)) and options.n_best == 1

        def collect() -> list[Translation]:
            results = [Translation(text, "", 0.0, 0.0) for text in texts]  # a blank line stays blank
            found = [pair for rows, wait in waiting for pair in zip(rows, map(self._sound, wait()), strict=True)]
            if bare:
                said = self.vocabularies.target.decode_all([hypotheses[0].body for _, hypotheses in found])
                for (row, (one, *_)), text in zip(found, said, strict=True):
                    results[row] = Translation(texts[row], text, one.score, one.log_probability)
                return results
            for row, hypotheses in found:
                allowed = [h for h in hypotheses if not self._says(h, constraints[row].forbid)] or hypotheses
                chosen = (self._most_like_the_others(allowed) if options.mbr else allowed)[: options.n_best]
                made = [self._translation(texts[row], sources[row], h, contents) for h in chosen]
                results[row] = replace(made[0], alternatives=tuple(made[1:])) if len(made) > 1 else made[0]
            return results

        return collect

    def _sound(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The hypotheses with a probability, or never asked for it; a model that gives none is a bad model file."""
        sound = [one for one in hypotheses if isfinite(one.score) or not one.scored]
        if not sound:
            what = "the model gives no probabilities: its weights are not numbers, or far too large"
            raise ModelFileError(what, where=f"in {self.folder}", hint="try: jumok model average RUN")
        return sound

    def _says(self, hypothesis: Hypothesis, words: Sequence[str]) -> bool:
        text = self.vocabularies.target.decode(hypothesis.body) if words else ""
        return any(says(text, word) for word in words)

    def _most_like_the_others(self, samples: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Minimum Bayes risk: samples by their mean chrF against all samples, best first, each once."""
        from jumok.evaluation.ngrams import chrf_matrix

        texts = [self.vocabularies.target.decode(h.body) for h in samples]
        times = Counter(texts)
        likeness = chrf_matrix(list(times)) @ list(times.values()) / len(texts)
        means = dict(zip(times, likeness.tolist(), strict=True))
        first = dict(reversed(list(zip(texts, samples, strict=True))))
        return [replace(first[text], score=means[text]) for text in sorted(first, key=lambda text: -means[text])]

    def _translation(self, text: str, source: list[int], hypothesis: Hypothesis, contents: Contents) -> Translation:
        vocabulary, body = self.vocabularies.target, list(hypothesis.body)
        if not contents.details:
            return Translation(text, vocabulary.decode(body), hypothesis.score, hypothesis.log_probability)
        return Translation(
            source=text,
            text=vocabulary.decode(body),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(vocabulary.pieces(hypothesis.ids)),
            token_scores=hypothesis.token_scores,
            words=split_words(body, hypothesis.token_scores, vocabulary),
            attention=self._view(text, source, body) if contents.attention else None,
            alignment=self._links(source, body) if contents.align else None,
        )

    def _links(self, source: list[int], target: list[int]) -> tuple[tuple[int, int], ...]:
        from jumok.evaluation.alignment import word_links

        weights = self.engine.aligned([(source, target)])[0].float().cpu().numpy()
        read = source[: weights.shape[1] - 1]  # an absurdly long one is cut
        sides = (self.vocabularies.source.pieces([*read, END]), self.vocabularies.target.pieces([*target, END]))
        return tuple(sorted(word_links(weights, *(words_of(pieces) for pieces in sides)), key=lambda link: link[::-1]))

    def alternatives(
        self,
        text: str,
        prefix: str = "",
        *,
        count: int = 5,
        options: SearchOptions | None = None,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Translation]:
        """Translations that go on differently behind a prefix (at the first word, without one), best first."""
        source, chosen = self.vocabularies.source.encode(text), self._options(options, keywords)
        if not source:
            return []
        start = self.vocabularies.target.encode(prefix)
        found = self.engine.alternatives(source, start, count, chosen)
        return [self._translation(text, source, hypothesis, Contents()) for hypothesis in found]

    def graph(self, text: str, **keywords: Unpack[SearchKeywords]) -> list[dict[str, Any]]:
        """The search as data: every continuation that the beam looked at, with its parent and its fate."""
        source, graph, options = self.vocabularies.source.encode(text), Graph(), self.options(**keywords)
        if source:
            self.engine.watch(source, options, graph.grow)
        nodes = graph.sentences.get(0, [])
        pieces = self.vocabularies.target.pieces([node.token for node in nodes])
        return [node._asdict() | {"piece": piece} for node, piece in zip(nodes, pieces, strict=True)]

    def stream(
        self, text: str, *, options: SearchOptions | None = None, **keywords: Unpack[SearchKeywords]
    ) -> Iterator[str]:
        """The translation piece by piece as it is made, greedily (or sampled with sample=True)."""
        chosen, source = self._options(options, keywords), self.vocabularies.source.encode(text)
        if source:
            yield from self._pieces(self.engine.stream(source, chosen))

    def generate(self, prompt: str = "", *, length: int = 200, **keywords: Unpack[SamplingKeywords]) -> Iterator[str]:
        """What a model of a text says after a prompt, piece by piece as it is made: so many tokens, drawn by chance.

        Options: temperature (0 is always the likeliest), top_k, top_p, seed.
        """
        check_names("option", keywords, {*SamplingKeywords.__annotations__, "length"})
        if self.recipe.data.text is None or not hasattr(self.model, "start"):
            raise self._other("goes on with a text")
        ids = [*self.vocabularies.target.encode(prompt)] if prompt else []
        options = self.options(sample=True, extra_length=length, min_length=len(ids) + length, **keywords)
        never = [token for token in NEVER if token != SEPARATOR]  # a line may end
        yield from self._pieces(self.engine.stream([], options, prefix=ids, never=never), ids)

    def _pieces(self, tokens: Iterable[int], before: Sequence[int] = ()) -> Iterator[str]:
        """The text of tokens as they come, after those that were there before."""
        decode, made = self.vocabularies.target.decode, list(before)
        said = decode(made) if made else ""
        for token in tokens:
            made.append(token)
            now = decode(made)
            if now.startswith(said) and not now.endswith("\ufffd"):  # wait while a character is incomplete
                yield now[len(said) :]
                said = now
        yield decode(made)[len(said) :]

    def fill(self, text: str, *, n_best: int = 5) -> list[list[Word]]:
        """The likeliest words for every <mask> in a text, best first, by a model that learnt to fill in (BERT)."""
        import torch

        if not hasattr(self.model, "fill"):
            raise self._other("fills in words")
        vocabulary = self.vocabularies.target
        ids = vocabulary.encode_parts(text.split(HOLE), MASK)
        if MASK not in ids:
            raise UsageError(f"there is no {HOLE} in the text", where=f"in {text}", hint=f'try: "A man {HOLE} a bike."')
        with torch.inference_mode():
            logits = self.model.fill(torch.tensor([ids]))  # (holes, V)
            logits[:, [*NEVER, END]] = -torch.inf
            found = logits.softmax(dim=-1).topk(min(n_best, logits.shape[-1]), dim=-1)
        rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [[Word(vocabulary.decode([token]), chance) for token, chance in zip(*row, strict=True)] for row in rows]

    def _other(self, what: str) -> UsageError:
        """This model is of another kind than one that does this."""
        verb = "translate" if self.recipe.data.text is None else "fill" if hasattr(self.model, "fill") else "generate"
        hint = f"try: jumok {verb} {self.folder}"
        return UsageError(
            f"this is no model that {what}: it is a {self.recipe.model.kind}", where=f"in {self.folder}", hint=hint
        )

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """The model's score of given translations."""
        pairs = [
            (self.vocabularies.source.encode(source), self.vocabularies.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        scored = self.engine.score(pairs, length_penalty=self.recipe.decoding.length_penalty)
        pieces = self.vocabularies.target.pieces
        return [
            Translation(source, target, h.score, h.log_probability, tuple(pieces(h.ids)), h.token_scores)
            for source, target, h in zip(sources, targets, scored, strict=True)
        ]

    def attention(self, text: str, translation: str | None = None, **keywords: Unpack[SearchKeywords]) -> AttentionView:
        """Attention of every layer and head for a sentence and its translation (its own best, unless given)."""
        source, options = self.vocabularies.source.encode(text), self.options(**keywords)
        if translation is None:
            hypothesis = self.engine.decode([source], options)[0][0]
            return self._view(text, source, list(hypothesis.body))
        return self._view(text, source, self.vocabularies.target.encode(translation))

    def _view(self, text: str, source: list[int], target: list[int]) -> AttentionView:
        from jumok.reports.attention import AttentionView

        maps = self.engine.attention(source, target)
        if not any(len(layers) for layers in vars(maps).values()):
            raise UsageError("this model has no attention to look at", where=f"in {self.folder}")
        vocabulary = self.vocabularies.target
        encoder, decoder, cross = (m.float().cpu().numpy() for m in vars(maps).values())
        return AttentionView(
            source=tuple(self.vocabularies.source.pieces([*source, END])),
            target=tuple(vocabulary.pieces([*target, END])),
            encoder=encoder,
            decoder=decoder,
            cross=cross,
            fed=tuple(vocabulary.pieces([START, *target])),
            text=text,
            translation=vocabulary.decode(target),
        )

    def evaluate(self, source: str | Path, target: str | Path, **keywords: Unpack[EvaluateKeywords]) -> Evaluation:
        """BLEU and chrF with their signatures on a test set of two files; ter=True and perplexity=True add those."""
        from jumok.data.corpora import test_set
        from jumok.evaluation.evaluate import evaluate

        check_names("option", keywords, EvaluateKeywords.__annotations__)
        return evaluate(self, test_set(str(source), str(target), None), **keywords)


def _split(keywords: TranslateKeywords) -> tuple[SearchKeywords, ConstraintKeywords, Contents]:
    """How to search, the constraints of all texts or of each, and what translations hold."""
    check_names("option", keywords, {*TranslateKeywords.__annotations__, "chunk", "first", "progress"})
    given = {name: value for name, value in keywords.items() if value is not None}
    search, bound, contents = (
        {name: value for name, value in given.items() if name in kind.__annotations__}
        for kind in (SearchKeywords, ConstraintKeywords, ContentKeywords)
    )
    bound = asdict(keywords.get("constraints") or Constraints()) | bound
    return cast(SearchKeywords, search), cast(ConstraintKeywords, bound), Contents(**cast(Any, contents))


def _widen(options: SearchOptions, *, forbidding: bool) -> SearchOptions:
    """The engine's options: several hypotheses, where one of them is chosen afterwards."""
    if options.mbr:
        return replace(options, n_best=max(options.mbr, options.n_best))
    return replace(options, n_best=options.beam) if forbidding and not options.sample else options
