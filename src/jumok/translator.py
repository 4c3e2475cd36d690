"""Text to text: loads a model, picks its engine and translates; what the command line and Python programs use.

>>> model = jumok.load("runs/tiny")
>>> model.translate("A man rides a bike.").text
>>> best = model.translate(["…", "…"], beam=4, attention=True)
>>> best[0].score, best[0].attention.cross.shape          # (layers, heads, target, source)
>>> for word in model.stream("A dog runs."): print(word, end="", flush=True)

Keywords are the fields of `SearchOptions` and `Constraints` (config/search.py).  A value of one of these classes is
given as `options` or `constraints`, and keywords change it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from jumok.blocks import Block, link_words, list_beginnings, render, stream_text, view_attention
from jumok.config.search import (
    SAMPLING,
    Constraints,
    Count,
    EngineOptions,
    SearchOptions,
    list_features,
    silent,
)
from jumok.decoding.hypothesis import Hypothesis
from jumok.engines.choose import Engines
from jumok.errors import ModelFileError, UnknownName, UsageError
from jumok.storage import bundle as bundles
from jumok.text.symbols import NEVER
from jumok.text.vocabulary import END, MASK, SEPARATOR
from jumok.translation import Contents, Translation, Word

if TYPE_CHECKING:
    from jumok.config.keywords import (
        ConstraintKeywords,
        EngineKeywords,
        EvaluateKeywords,
        SamplingKeywords,
        SearchKeywords,
        TranslateKeywords,
    )
    from jumok.data.lexicon import Lexicon
    from jumok.engines.interface import FastEngine
    from jumok.engines.torch_engine import TorchEngine
    from jumok.evaluation.evaluate import Evaluation
    from jumok.reports.attention import AttentionView

CHUNK = 1_024  # lines that are sorted and decoded together
ALIGNED = 256  # translations whose attention is in memory at once
HOLE = "<mask>"  # stands for a missing word
SEARCH, BOUNDS, CONTENTS = (tuple(kind.__dataclass_fields__) for kind in (SearchOptions, Constraints, Contents))
TRANSLATE = {*SEARCH, *BOUNDS, *CONTENTS, "options", "constraints", "chunk", "first", "progress"}
EVALUATE = {*SEARCH, "tokenize", "compare", "ter", "perplexity"}
GENERATE = {*SAMPLING, "length"}


def load(
    path: str | Path,
    *,
    others: Sequence[str | Path] = (),
    say: Callable[[str], None] = lambda text: None,
    **choices: Unpack[EngineKeywords],
) -> Translator:
    """Load the translator of a run folder or an exported bundle; with `others`, an ensemble.

    Choices are those of `EngineOptions`: engine, device, precision, shortlist, deterministic.  `say` gets a line where
    torch is used instead of the engine asked for.
    """
    return Translator.load(path, others=others, say=say, **choices)


class Translator:
    """A model, its vocabularies and its engines: the fast one where it can, torch for everything else."""

    def __init__(
        self,
        bundle: bundles.Bundle,
        *,
        others: Sequence[bundles.Bundle] = (),
        say: Callable[[str], None] = lambda text: None,
        options: EngineOptions | None = None,
        **choices: Unpack[EngineKeywords],
    ) -> None:
        """`others` are models over the same vocabulary; their probabilities are averaged with the first's.

        With `deterministic` the translation and the scores of a text do not depend on the texts translated with it,
        bit for bit.  The native engine always guarantees that; ctranslate2, and torch where it has no kernels, then
        take one sentence at a time.  `options` are given instead of choices.
        """
        self.bundle, self.recipe, self.card, self.folder = bundle, bundle.recipe, bundle.card, bundle.folder
        self.vocabularies, self.folders = bundle.vocabularies, [part.folder for part in (bundle, *others)]
        for other in others:
            if other.vocabularies.digest != self.vocabularies.digest:
                raise ModelFileError("translator.other_vocabulary", other=other.folder, folder=bundle.folder)
        self.engines = Engines([bundle, *others], options or EngineOptions.of(**choices), say)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        others: Sequence[str | Path] = (),
        say: Callable[[str], None] = lambda text: None,
        options: EngineOptions | None = None,
        **choices: Unpack[EngineKeywords],
    ) -> Translator:
        """Load the model of a run folder or of an exported bundle, alone or with others."""
        options = options or EngineOptions.of(**choices)  # a misspelt choice is reported before anything is read
        return cls(bundles.read(path), others=[bundles.read(other) for other in others], say=say, options=options)

    @property
    def engine(self) -> TorchEngine:
        """The reference engine, which has every feature; torch is loaded when it is first needed."""
        return self.engines.torch

    @engine.setter
    def engine(self, engine: TorchEngine) -> None:
        self.engines.torch = engine

    @property
    def fast(self) -> FastEngine | None:
        """The fast engine; None where it was not asked for or cannot run this model."""
        return self.engines.fast

    @property
    def engine_name(self) -> str:
        """The engine of ordinary searches, in a few words."""
        return self.engines.description

    @property
    def languages(self) -> tuple[str, str] | None:
        """The BCP 47 tags of source and target, such as ("en", "de"); None if they are unknown."""
        return self.bundle.languages

    @property
    def deterministic(self) -> bool:
        return self.engines.options.deterministic

    @property
    def model(self) -> Any:
        """The torch model.  To change its weights, load with engine="torch": other engines copy them."""
        return self.engine.model

    def options(self, **keywords: Unpack[SearchKeywords]) -> SearchOptions:
        """Return the recipe's search options, changed by keywords that are given and not None."""
        return SearchOptions.of(self.recipe.decoding, **keywords)

    def _choose_options(self, options: SearchOptions | None, keywords: SearchKeywords) -> SearchOptions:
        """Return the options given, or the recipe's, changed by keywords."""
        if options is None:
            return self.options(**keywords)
        return options.change(**keywords) if keywords else options

    @overload  # a str is also a Sequence[str], so the order matters
    def translate(self, text: str, **keywords: Unpack[TranslateKeywords]) -> Translation: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, text: Sequence[str], **keywords: Unpack[TranslateKeywords]) -> list[Translation]: ...

    def translate(
        self, text: str | Sequence[str], **keywords: Unpack[TranslateKeywords]
    ) -> Translation | list[Translation]:
        """Return the translation of a sentence, or the translations of a list of sentences.

        Search: beam, length_penalty, extra_length, n_best (how many), exact, min_length, no_repeat, groups and
        diversity, coverage; sample, temperature, top_k, top_p, seed; mbr (the number of samples, of which the one most
        like the others is returned).  Constraints: prefix, require, forbid, the same for all sentences or one for each.
        Contents: attention=True and align=True add to them; details=False leaves out tokens and words, and is faster.
        """
        texts = [text] if isinstance(text, str) else list(text)
        translations = list(self.lines(texts, chunk=len(texts) + 1, **keywords))
        return translations[0] if isinstance(text, str) else translations

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
            raise UsageError("translator.cannot_translate", **self._describe_kind())
        search, constraints, contents = _split(keywords)
        options, lines = self._choose_options(keywords.get("options"), search), iter(texts)
        running: deque[tuple[Block, list[Callable[[], list[list[Hypothesis]]]]]] = deque()
        while some := list(islice(lines, chunk)):
            block = Block(self.vocabularies, some, options, constraints, contents, first=first)
            calls = [(self.engines.choose(*group[1:]), block.list_arguments(group, progress)) for group in block.groups]
            first += len(some)
            if not running and (chunk == 1 or len(some) < chunk):  # there is nothing to do in the meantime
                yield from self.finish(block, [engine.decode(**arguments) for engine, arguments in calls])
                continue
            running.append((block, [engine.submit(**arguments) for engine, arguments in calls]))
            if len(running) > 1:  # one block is read and written while another is decoded
                yield from self._collect(*running.popleft())
        while running:
            yield from self._collect(*running.popleft())

    def _collect(self, block: Block, running: Sequence[Callable[[], list[list[Hypothesis]]]]) -> list[Translation]:
        """Wait for the hypotheses of a block; return its translations."""
        return self.finish(block, [wait() for wait in running])

    def finish(self, block: Block, hypotheses: Sequence[list[list[Hypothesis]]]) -> list[Translation]:
        """Return the translations of a block from the hypotheses of its groups; a blank line stays blank.

        For callers that search themselves, as the engine processes of a server do.
        """
        results = [Translation(text, "", 0.0, 0.0) for text in block.texts]
        groups = zip(block.groups, hypotheses, strict=True)
        every = [pair for group, each in groups for pair in zip(group.rows, each, strict=True)]
        rows, ranked = [row for row, _ in every], [block.drop_impossible(*pair, self.folder) for pair in every]
        if block.is_bare:
            texts = self.vocabularies.target.decode_all([several[0].ids for several in ranked])
            for row, (best, *_), text in zip(rows, ranked, texts, strict=True):
                results[row] = Translation(block.texts[row], text, best.score, best.log_probability)
            return results
        chosen = [block.choose(row, several) for row, several in zip(rows, ranked, strict=True)]
        aligned = zip(rows, chosen if block.contents.align else [()] * len(rows), strict=True)
        links = self._link([(block.sources[row], list(h.body)) for row, several in aligned for h in several])
        for row, several in zip(rows, chosen, strict=True):
            text, source = block.texts[row], block.sources[row]
            translations = [self._render(text, source, hypothesis, block.contents) for hypothesis in several]
            if block.contents.align:
                translations = [replace(one, alignment=next(links)) for one in translations]
            first, *others = translations
            results[row] = replace(first, alternatives=tuple(others)) if others else first
        return results

    def _render(self, text: str, source: list[int], hypothesis: Hypothesis, contents: Contents) -> Translation:
        """Return the translation that a hypothesis is, with the contents that are asked for."""
        translation, body = render(self.vocabularies.target, text, hypothesis, contents), list(hypothesis.body)
        if contents.attention:
            translation = replace(translation, attention=self._view_attention(text, source, body))
        return translation

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[tuple[int, int], ...]]:
        """Return the word alignment of given translations: pairs of source word and target word, counted from 0."""
        sides = self.vocabularies.source.encode_all(sources), self.vocabularies.target.encode_all(targets)
        return list(self._link(list(zip(*sides, strict=True))))

    def _link(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield the word alignment of sources and their translations; attention is computed for some at a time.

        It is that of the head that the model's card names.
        """
        layer, head = self.bundle.aligning or (None, None)
        for start in range(0, len(pairs), ALIGNED):
            some = pairs[start : start + ALIGNED]
            for (source, target), weights in zip(some, self.engines.forcing.align(some, layer, head), strict=True):
                yield link_words(self.vocabularies, weights, source, target, self._lexicon)

    @cached_property
    def _lexicon(self) -> Lexicon | None:
        from jumok.data.lexicon import load_shortlist

        return load_shortlist(self.bundle)

    def alternatives(
        self,
        text: str,
        prefix: str = "",
        *,
        count: int = 5,
        options: SearchOptions | None = None,
        **keywords: Unpack[SearchKeywords],
    ) -> list[Translation]:
        """Return translations that continue a prefix in different ways (or differ in the first word), best first.

        The last word of the prefix may be incomplete, unless a space follows it.
        """
        source, chosen = self.vocabularies.source.encode(text), self._choose_options(options, keywords)
        if not source:
            return []
        fast = self.engines.fast
        supported = fast is not None and fast.supported >= set(list_features(chosen))
        forcing = self.engines.forcing if supported else self.engine
        hypotheses = forcing.alternatives(source, list_beginnings(self.vocabularies.target, prefix), count, chosen)
        return [self._render(text, source, hypothesis, Contents()) for hypothesis in hypotheses]

    def graph(self, text: str, tokens: Sequence[str] = (), **keywords: Unpack[SearchKeywords]) -> list[dict[str, Any]]:
        """Return the search as data: every continuation that the beam considered, its parent, and why it died.

        The translation begins with `tokens`, pieces of the vocabulary.
        """
        from jumok.decoding.graph import Graph

        source, graph, options = self.vocabularies.source.encode(text), Graph(), self.options(**keywords)
        if source:
            self.engine.watch(source, options, graph.grow, self.vocabularies.target.find_ids(tokens))
        nodes = graph.sentences.get(0, [])
        pieces = self.vocabularies.target.pieces([node.token for node in nodes])
        verdicts = graph.explain(0, options.length_penalty)
        texts = self.vocabularies.target.decode_all([graph.path(0, number) for number in range(len(nodes))])
        return [
            node._asdict() | verdict._asdict() | {"piece": piece, "text": whole}
            for node, verdict, piece, whole in zip(nodes, verdicts, pieces, texts, strict=True)
        ]

    def stream(
        self, text: str, *, options: SearchOptions | None = None, **keywords: Unpack[SearchKeywords]
    ) -> Iterator[str]:
        """Yield the translation piece by piece as it is decoded, greedily (or sampled with sample=True)."""
        chosen, source = self._choose_options(options, keywords), self.vocabularies.source.encode(text)
        if source:
            yield from stream_text(self.vocabularies.target, self.engine.stream(source, chosen))

    def generate(self, prompt: str = "", *, length: int = 200, **keywords: Unpack[SamplingKeywords]) -> Iterator[str]:
        """Continue a prompt with a language model: yield `length` sampled tokens, piece by piece.

        Options: temperature (0 is always the likeliest), top_k, top_p, seed.
        """
        for name in keywords.keys() - GENERATE:
            raise UnknownName("translator.unknown_option", name, GENERATE)
        if self.recipe.data.text is None or not hasattr(self.model, "start"):
            raise UsageError("translator.cannot_generate", **self._describe_kind())
        ids = [*self.vocabularies.target.encode(prompt)] if prompt else []
        options = self.options(sample=True, extra_length=length, min_length=len(ids) + length, **keywords)
        never = [token for token in NEVER if token != SEPARATOR]  # a text may continue on the next line
        tokens = self.engine.stream([], options, prefix=ids, never=never)
        yield from stream_text(self.vocabularies.target, tokens, ids)

    def fill(self, text: str, *, n_best: int = 5) -> list[list[Word]]:
        """Return the likeliest words for every <mask> in a text, best first, by a model that fills in words (BERT)."""
        import torch

        if not hasattr(self.model, "fill"):
            raise UsageError("translator.cannot_fill", **self._describe_kind())
        vocabulary = self.vocabularies.target
        ids = vocabulary.encode_parts(text.split(HOLE), MASK)
        if MASK not in ids:
            raise UsageError("translator.no_mask", mask=HOLE, text=text)
        with torch.inference_mode():
            logits = self.model.fill(torch.tensor([ids]))  # (holes, V)
            logits[:, [*NEVER, END]] = -torch.inf
            top = logits.softmax(dim=-1).topk(min(n_best, logits.shape[-1]), dim=-1)
        rows = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        return [[Word(vocabulary.decode([token]), chance) for token, chance in zip(*row, strict=True)] for row in rows]

    def _describe_kind(self) -> dict[str, Any]:
        """Return the values of an error about a model of another kind: the kind, and the verb that it is for."""
        verb = "translate" if self.recipe.data.text is None else "fill" if hasattr(self.model, "fill") else "generate"
        return {"kind": self.recipe.model.kind, "folder": self.folder, "verb": verb}

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation]:
        """Return the model's scores of given translations."""
        pairs = [
            (self.vocabularies.source.encode(source), self.vocabularies.target.encode(target))
            for source, target in zip(sources, targets, strict=True)
        ]
        scored = self.engines.forcing.score(pairs, length_penalty=self.recipe.decoding.length_penalty)
        pieces = self.vocabularies.target.pieces
        return [
            Translation(source, target, h.score, h.log_probability, tuple(pieces(h.ids)), h.token_scores)
            for source, target, h in zip(sources, targets, scored, strict=True)
        ]

    def attention(self, text: str, translation: str | None = None, **keywords: Unpack[SearchKeywords]) -> AttentionView:
        """Return the attention of every layer and head over a sentence and its translation (the best, unless given)."""
        source, options = self.vocabularies.source.encode(text), self.options(**keywords)
        if translation is None:
            hypothesis = self.engine.decode([source], options)[0][0]
            return self._view_attention(text, source, list(hypothesis.body))
        return self._view_attention(text, source, self.vocabularies.target.encode(translation))

    def _view_attention(self, text: str, source: list[int], target: list[int]) -> AttentionView:
        maps = self.engine.attention(source, target)
        if not any(len(layers) for layers in vars(maps).values()):
            raise UsageError("translator.no_attention", folder=self.folder)
        arrays = [layers.float().cpu().numpy() for layers in vars(maps).values()]
        return view_attention(self.vocabularies, arrays, text, source, target)

    def evaluate(self, source: str | Path, target: str | Path, **keywords: Unpack[EvaluateKeywords]) -> Evaluation:
        """Return BLEU and chrF with their signatures on a test set of two files; TER and perplexity where asked for."""
        from jumok.data.corpora import read_test_set
        from jumok.evaluation.evaluate import evaluate

        for name in keywords.keys() - EVALUATE:
            raise UnknownName("translator.unknown_option", name, EVALUATE)
        return evaluate(self, read_test_set(str(source), str(target), None), **keywords)


def _split(keywords: TranslateKeywords) -> tuple[SearchKeywords, ConstraintKeywords, Contents]:
    """Split keywords into how to search, the constraints of all texts or of each, and what translations hold."""
    for name in keywords.keys() - TRANSLATE:
        raise UnknownName("translator.unknown_option", name, TRANSLATE)
    given = {name: value for name, value in keywords.items() if value is not None}
    search, bound, contents = (
        {name: value for name, value in given.items() if name in names} for names in (SEARCH, BOUNDS, CONTENTS)
    )
    if (constraints := keywords.get("constraints")) is not None:
        bound = asdict(constraints) | bound
    bound = {name: value for name, value in bound.items() if value}
    contents["details"] = any(contents.get(name, name == "details") for name in CONTENTS)
    return cast("SearchKeywords", search), cast("ConstraintKeywords", bound), Contents(**cast(Any, contents))
