"""Text to text: the facade everyone uses.

>>> model = jumok.load("runs/tiny")
>>> model.translate("A man rides a bike.").text
>>> best = model.translate(["…", "…"], beam=4, attention=True)
>>> best[0].score, best[0].attention.cross.shape          # (layers, heads, target, source)
>>> for word in model.stream("A dog runs."): print(word, end="", flush=True)
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from jumok import bundle
from jumok.bundle import Bundle
from jumok.decoding.graph import Graph
from jumok.decoding.hypothesis import NEVER, Hypothesis
from jumok.engines.options import ANYTHING, Options, Wish
from jumok.errors import ModelFileError, UnknownName, UsageError
from jumok.text.vocabulary import END, MASK, SEPARATOR, START
from jumok.text.words import says, words_of

if TYPE_CHECKING:
    from jumok.engines.ctranslate2_engine import CTranslate2Engine
    from jumok.engines.native_engine import NativeEngine
    from jumok.engines.torch_engine import TorchEngine
    from jumok.evaluate import Evaluation
    from jumok.viz import AttentionView

CHUNK = 1_024  # lines that are sorted and decoded together
HOLE = "<mask>"  # where a word is missing
ENGINES = ("auto", "native", "ctranslate2", "torch")


@dataclass(frozen=True)
class Word:
    """A word of a translation and the probability that the model gave it, after the words before."""

    text: str
    probability: float


@dataclass(frozen=True)
class Translation:
    """One translation; `alternatives` are the next best.

    `attention` and `alignment`, pairs of source word and word from 0, only where they were asked for.
    """

    source: str
    text: str
    score: float  # log-probability over the length penalty; nan where text alone was asked for
    log_probability: float
    tokens: tuple[str, ...] = ()
    token_scores: tuple[float, ...] = ()
    words: tuple[Word, ...] = ()
    alternatives: tuple["Translation", ...] = ()
    attention: "AttentionView | None" = None
    alignment: tuple[tuple[int, int], ...] | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def pharaoh(self) -> str:
        """The alignment as word aligners write it: 0-0 1-2 2-1."""
        return " ".join(f"{source}-{target}" for source, target in self.alignment or ())

    def to_json(self) -> dict[str, Any]:
        """Plain values, attention left out."""
        values = asdict(self) | {"alternatives": [other.to_json() for other in self.alternatives]}
        del values["attention"]
        return values


@dataclass(frozen=True)
class Wishes:
    """What translations must and must not have: the same for all texts, or one for each."""

    prefix: str | Sequence[str] | None = None  # how the translation begins
    require: Sequence[str] | Sequence[Sequence[str]] | None = None  # words or phrases that are in it, in any order
    forbid: Sequence[str] | Sequence[Sequence[str]] | None = None  # words or phrases that are not

    @property
    def any(self) -> bool:
        return bool(self.prefix or self.require or self.forbid)

    def of(self, count: int) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Prefix, required and forbidden phrases of each of `count` texts."""
        given = self.prefix or ""
        prefixes = [given] * count if isinstance(given, str) else list(given)
        required, forbidden = self._each(self.require, count), self._each(self.forbid, count)
        for name, found in (("prefix", prefixes), ("require", required), ("forbid", forbidden)):
            if len(found) != count:
                raise UsageError(
                    f"{len(found)} of {name!r} for {count} texts", hint="give one for all, or one for each"
                )
        return list(zip(prefixes, required, forbidden, strict=True))

    @staticmethod
    def _each(given: Sequence[str] | Sequence[Sequence[str]] | None, count: int) -> list[tuple[str, ...]]:
        if not given or isinstance(given[0], str):
            return [tuple(map(str, given or ()))] * count
        return [tuple(one) for one in given]


def load(path: str | Path, *, others: Sequence[str | Path] = (), **choices: Any) -> "Translator":
    """Load the translator of a run folder or an exported bundle; with `others`, an ensemble.

    Further choices are those of `Translator`: engine, device, precision, shortlist, deterministic, say.
    """
    return Translator.load(path, others=others, **choices)


class Translator:
    """A model, its vocabularies and its engines: the fast one where it can, torch for everything else."""

    def __init__(
        self,
        found: Bundle,
        *,
        others: Sequence[Bundle] = (),
        device: str = "cpu",
        engine: str = "auto",
        precision: str | None = None,
        shortlist: bool = False,
        deterministic: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`others` are models over the same vocabulary; their probabilities are averaged with the first's.

        `engine` is auto (native where it can do what is asked, else torch), native, ctranslate2 or torch.  `precision`
        is for ctranslate2; a `shortlist` for native and ctranslate2.  `say` is told, once and in one line, why torch
        was taken instead of the engine that was named.

        `deterministic`: a text gets the same translation and the same scores, to the last bit, whatever is translated
        with it.  The native engine always gives that; ctranslate2, and torch where it has no kernels, then take one
        sentence at a time.
        """
        if engine not in ENGINES:
            raise UnknownName("engine", engine, ENGINES, where="in --engine")
        self.bundle, self.others, self.device = found, tuple(others), device
        self.recipe, self.card, self.folder = found.recipe, found.card, found.folder
        self.vocabularies, self.folders = found.vocabularies, [one.folder for one in (found, *others)]
        for one in others:
            if one.vocabularies.digest != self.vocabularies.digest:
                raise ModelFileError(
                    "models can be put together only over the same vocabulary",
                    where=f"{one.folder} has another one than {found.folder}",
                    hint="train both on the same text with the same vocabulary.size",
                )
        self.wanted, self.precision, self.shortlist = engine, precision, shortlist
        self.deterministic = deterministic
        self.say, self.told = say, set[str]()

    @classmethod
    def load(cls, path: str | Path, *, others: Sequence[str | Path] = (), **choices: Any) -> "Translator":
        """The model of a run folder or of an exported bundle, alone or with others."""
        return cls(bundle.read(path), others=[bundle.read(one) for one in others], **choices)

    @cached_property
    def engine(self) -> "TorchEngine":
        """The reference engine, which can do everything; torch is loaded when it is first needed."""
        from jumok import checkpoint
        from jumok.decoding.ensemble import Ensemble
        from jumok.engines.torch_engine import TorchEngine

        models = [checkpoint.with_model(one).model.to(self.device) for one in (self.bundle, *self.others)]
        together: Any = Ensemble(models) if self.others else models[0]  # type: ignore[arg-type]
        surfaces = self.vocabularies.target.surfaces
        return TorchEngine(together, device=self.device, surfaces=surfaces, deterministic=self.deterministic)

    @property
    def engine_name(self) -> str:
        """What ordinary searches run on, as one says it."""
        if self.fast is None:
            return "torch"
        name = f"ctranslate2 {self.precision or 'int8'}" if self.wanted == "ctranslate2" else "native"
        return f"{name}{' with shortlist' if self.fast.shortlist else ''}"

    @property
    def model(self) -> Any:
        """The torch model; who changes its weights loads the translator with engine="torch", or others translate."""
        return self.engine.model

    @cached_property
    def fast(self) -> "NativeEngine | CTranslate2Engine | None":
        """The fast engine, or None where it was not wanted or cannot run this model, which is told."""
        if self.wanted == "torch":
            return None
        made: NativeEngine | CTranslate2Engine | str = "the fast engines run one model at a time"
        if self.device != "cpu":
            made = f"the fast engines run on the processor, not on {self.device}"
        elif not self.others:
            made = self._exported() if self.wanted == "ctranslate2" else self._native()
        if isinstance(made, str):
            self._fall_back(made)
            return None
        return made

    def _native(self) -> "NativeEngine | str":
        """Our own engine, or why not."""
        from jumok.engines.native_engine import NativeEngine, obstacle

        return obstacle(self.recipe.model) or NativeEngine(self.bundle, shortlist=self.shortlist)

    def _exported(self) -> "CTranslate2Engine | str":
        """CTranslate2, or why not."""
        from jumok.engines.ctranslate2_engine import CTranslate2Engine, obstacle

        chosen: dict[str, Any] = {"shortlist": self.shortlist, "deterministic": self.deterministic}
        chosen["precision"] = self.precision or "int8"
        return obstacle(self.bundle) or CTranslate2Engine(self.bundle, **chosen)

    def _fall_back(self, reason: str) -> None:
        """Tell, once, why the torch engine does it."""
        if reason not in self.told:
            self.told.add(reason)
            self.say(f"with the torch engine: {reason}")

    def _engine_for(self, options: Options, wishes: Sequence[Wish]) -> "NativeEngine | CTranslate2Engine | TorchEngine":
        """The engine that does this search."""
        if self.fast is None:
            return self.engine
        if (missing := self.fast.why_not(options, wishes)) is not None:
            self._fall_back(
                f"the {'CTranslate2' if self.wanted == 'ctranslate2' else 'native'} engine has no {missing}"
            )
            return self.engine
        return self.fast

    def options(self, **chosen: Any) -> Options:
        """Search options: the recipe's, overridden by what is given and not None."""
        decoding = self.recipe.decoding
        defaults = {
            "beam": decoding.beam,
            "length_penalty": decoding.length_penalty,
            "extra_length": decoding.extra_length,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        unknown = set(given) - set(Options.__dataclass_fields__)
        if unknown:
            raise UsageError(f"translate has no option {sorted(unknown)[0]!r}")
        merged = defaults | given
        if not given.get("sample"):
            merged["beam"] = max(merged["beam"], given.get("best", 1)) if "beam" not in given else merged["beam"]
        return Options(**merged)

    @overload
    def translate(self, text: str, **options: Any) -> Translation: ...
    @overload
    def translate(self, text: Sequence[str], **options: Any) -> list[Translation]: ...

    def translate(self, text: str | Sequence[str], **options: Any) -> Translation | list[Translation]:
        """Translate a sentence or a list of them.

        Search: beam, length_penalty, extra_length, best (how many), exact, shortest, no_repeat, groups and diversity,
        coverage; sample, temperature, top_k, top_p, seed; mbr (draw that many, take the one most like the others).
        Wishes: prefix, require, forbid: the same for all, or one for each sentence.
        More to know: attention=True, align=True; less, and faster: details=False, no tokens and words.
        """
        if self.recipe.data.text is not None:
            raise self._other("translates")
        texts = [text] if isinstance(text, str) else list(text)
        done = self._begin(texts, Order.of(self, options))()
        return done[0] if isinstance(text, str) else done

    def _begin(
        self,
        texts: Sequence[str],
        order: "Order",
        *,
        first: int = 0,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Callable[[], list[Translation]]:
        """Begin to translate, in the background where the engine can; the function waits for the translations."""
        texts = list(map(whole, texts))
        sources = self.vocabularies.source.encode_all(texts)
        full = [row for row, ids in enumerate(sources) if ids]
        wanted = order.wishes.of(len(texts))
        wishes = {row: self.wish(*wanted[row]) for row in full}
        waiting: list[tuple[list[int], Callable[[], list[list[Hypothesis]]]]] = []
        for kind in sorted({wish.kind for wish in wishes.values()}):  # how one is searched is not for others to decide
            rows = [row for row in full if wishes[row].kind == kind]
            options, wished = order.search(kind.forbid), [wishes[row] for row in rows]
            more: dict[str, Any] = {"wishes": wished if any(kind) else None, "numbers": [first + row for row in rows]}
            more |= {"details": order.details, "progress": progress}
            found = self._engine_for(options, wished).submit([sources[row] for row in rows], options, **more)
            waiting.append((rows, found))

        def collect() -> list[Translation]:
            results = [Translation(text, "", 0.0, 0.0) for text in texts]  # a blank line stays blank
            found = [pair for rows, wait in waiting for pair in zip(rows, map(self._sound, wait()), strict=True)]
            if order.bare:
                said = self.vocabularies.target.decode_all([hypotheses[0].body for _, hypotheses in found])
                for (row, (one, *_)), text in zip(found, said, strict=True):
                    results[row] = Translation(texts[row], text, one.score, one.log_probability)
                return results
            for row, hypotheses in found:
                forbidden = wanted[row][2]
                clean = [h for h in hypotheses if not self._says(h, forbidden)] or hypotheses
                chosen = self._most_like_the_others(clean) if order.mbr else clean
                made = [self._translation(texts[row], sources[row], h, order) for h in chosen[: order.options.best]]
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

    def wish(self, prefix: str = "", require: Sequence[str] = (), forbid: Sequence[str] = ()) -> Wish:
        """Wishes in words as the engine reads them."""
        if not (prefix or require or forbid):
            return ANYTHING
        encode = self.vocabularies.target.encode
        phrases = tuple(tuple(encode(phrase)) for phrase in require)
        return Wish(tuple(encode(prefix)), tuple(filter(None, phrases)), tuple(filter(None, forbid)))

    def _says(self, hypothesis: Hypothesis, words: Sequence[str]) -> bool:
        text = self.vocabularies.target.decode(hypothesis.body) if words else ""
        return any(says(text, word) for word in words)

    def _most_like_the_others(self, samples: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Minimum Bayes risk: samples by their mean chrF against all samples, best first, each once."""
        from jumok.metrics import chrf_matrix

        texts = [self.vocabularies.target.decode(h.body) for h in samples]
        times = Counter(texts)
        likeness = chrf_matrix(list(times)) @ list(times.values()) / len(texts)
        means = dict(zip(times, likeness.tolist(), strict=True))
        first = dict(reversed(list(zip(texts, samples, strict=True))))
        return [replace(first[text], score=means[text]) for text in sorted(first, key=lambda text: -means[text])]

    def _translation(self, text: str, source: list[int], hypothesis: Hypothesis, order: "Order") -> Translation:
        vocabulary, body = self.vocabularies.target, list(hypothesis.body)
        if not order.details:
            return Translation(text, vocabulary.decode(body), hypothesis.score, hypothesis.log_probability)
        return Translation(
            source=text,
            text=vocabulary.decode(body),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            tokens=tuple(vocabulary.pieces(hypothesis.ids)),
            token_scores=hypothesis.token_scores,
            words=self._words(hypothesis),
            attention=self._view(text, source, body) if order.attention else None,
            alignment=self._links(source, body) if order.align else None,
        )

    def _words(self, hypothesis: Hypothesis) -> tuple[Word, ...]:
        """The words of a translation, each with the product of the probabilities of its subwords."""
        decode, body, found = self.vocabularies.target.decode, hypothesis.body, list[Word]()
        numbers, start = words_of(self.vocabularies.target.pieces(body)), 0
        for stop in range(1, len(body) + 1):
            if stop < len(body) and numbers[stop] == numbers[stop - 1]:
                continue
            if text := decode(body[start:stop]):  # a space alone belongs to the word behind it
                found.append(Word(text, exp(sum(hypothesis.token_scores[start:stop]))))
                start = stop
        return tuple(found)

    def _links(self, source: list[int], target: list[int]) -> tuple[tuple[int, int], ...]:
        from jumok.metrics import word_links

        weights = self.engine.aligned([(source, target)])[0].float().cpu().numpy()
        read = source[: weights.shape[1] - 1]  # an absurdly long one is cut
        sides = (self.vocabularies.source.pieces([*read, END]), self.vocabularies.target.pieces([*target, END]))
        return tuple(sorted(word_links(weights, *(words_of(pieces) for pieces in sides)), key=lambda link: link[::-1]))

    def alternatives(self, text: str, prefix: str = "", *, count: int = 5, **options: Any) -> list[Translation]:
        """Translations that go on differently behind a prefix (at the first word, without one), best first."""
        source, order = self.vocabularies.source.encode(text), Order.of(self, options)
        if not source:
            return []
        start = self.vocabularies.target.encode(prefix)
        found = self.engine.alternatives(source, start, count, order.options)
        return [self._translation(text, source, hypothesis, order) for hypothesis in found]

    def graph(self, text: str, **options: Any) -> list[dict[str, Any]]:
        """The search as data: every continuation that the beam looked at, with its parent and its fate."""
        source, graph = self.vocabularies.source.encode(text), Graph()
        if source:
            self.engine.watch(source, self.options(**options), graph.grow)
        nodes = graph.sentences.get(0, [])
        pieces = self.vocabularies.target.pieces([node.token for node in nodes])
        return [node._asdict() | {"piece": piece} for node, piece in zip(nodes, pieces, strict=True)]

    def lines(
        self,
        texts: Iterable[str],
        *,
        chunk: int = CHUNK,
        first: int = 0,
        progress: Callable[[int], None] = lambda sentences: None,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translate a stream of lines in order, in bounded memory; `first` is the number of the first in its file."""
        if self.recipe.data.text is not None:
            raise self._other("translates")
        walk, order = iter(texts), Order.of(self, options)
        waiting: deque[Callable[[], list[Translation]]] = deque()
        while block := list(islice(walk, chunk)):
            waiting.append(self._begin(block, order, first=first, progress=progress))
            first += len(block)
            if len(waiting) > (chunk > 1):  # one block is read and written while another is decoded
                yield from waiting.popleft()()
        while waiting:
            yield from waiting.popleft()()

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """The translation piece by piece as it is made, greedily (or sampled with sample=True)."""
        source = self.vocabularies.source.encode(text)
        if not source:
            return
        said, ids = "", []
        for token in self.engine.stream(source, self.options(**{"beam": 1, **options})):
            ids.append(token)
            now = self.vocabularies.target.decode(ids)
            if now.startswith(said) and not now.endswith("\ufffd"):  # wait while a character is incomplete
                yield now[len(said) :]
                said = now
        yield self.vocabularies.target.decode(ids)[len(said) :]

    def generate(self, prompt: str = "", *, length: int = 200, **options: Any) -> Iterator[str]:
        """What a model of a text says after a prompt, piece by piece as it is made: so many tokens, drawn by chance.

        Options: temperature (0 is always the likeliest), top_k, top_p, seed.
        """
        if self.recipe.data.text is None or not hasattr(self.model, "start"):
            raise self._other("goes on with a text")
        vocabulary = self.vocabularies.target
        ids = [*vocabulary.encode(prompt)] if prompt else []
        chosen = self.options(**{"sample": True, **options}, extra_length=length, shortest=len(ids) + length)
        never = [token for token in NEVER if token != SEPARATOR]  # a line may end
        said, made = vocabulary.decode(ids), list(ids)
        for token in self.engine.stream([], chosen, prefix=ids, never=never):
            made.append(token)
            now = vocabulary.decode(made)
            if now.startswith(said) and not now.endswith("\ufffd"):  # wait while a character is incomplete
                yield now[len(said) :]
                said = now
        yield vocabulary.decode(made)[len(said) :]

    def fill(self, text: str, *, best: int = 5) -> list[list[Word]]:
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
            found = logits.softmax(dim=-1).topk(min(best, logits.shape[-1]), dim=-1)
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
        scored = self.engine.score(pairs, alpha=self.recipe.decoding.length_penalty)
        pieces = self.vocabularies.target.pieces
        return [
            Translation(source, target, h.score, h.log_probability, tuple(pieces(h.ids)), h.token_scores)
            for source, target, h in zip(sources, targets, scored, strict=True)
        ]

    def attention(self, text: str, translation: str | None = None, **options: Any) -> "AttentionView":
        """Attention of every layer and head for a sentence and its translation (its own best, unless given)."""
        source = self.vocabularies.source.encode(text)
        if translation is None:
            hypothesis = self.engine.decode([source], self.options(**options))[0][0]
            return self._view(text, source, list(hypothesis.body))
        return self._view(text, source, self.vocabularies.target.encode(translation))

    def _view(self, text: str, source: list[int], target: list[int]) -> "AttentionView":
        from jumok.viz import AttentionView

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

    def evaluate(self, source: str | Path, target: str | Path, **options: Any) -> "Evaluation":
        """BLEU and chrF with their signatures on a test set of two files; ter=True and perplexity=True add those."""
        from jumok.evaluate import evaluate

        return evaluate(self, str(source), str(target), **options)


def whole(text: str) -> str:
    """The text with a mark in place of half characters (lone surrogates, which JSON lets through)."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class Order:
    """All that was asked for: how to search, what for, and what else to tell."""

    options: Options
    wishes: Wishes = Wishes()
    mbr: int = 0
    attention: bool = False
    align: bool = False
    details: bool = True  # tokens and words with their probabilities

    @classmethod
    def of(cls, translator: Translator, given: dict[str, Any]) -> "Order":
        rest = {name: value for name, value in given.items() if value is not None}
        wishes = Wishes(**{name: rest.pop(name) for name in ("prefix", "require", "forbid") if name in rest})
        own = {name: rest.pop(name) for name in ("mbr", "attention", "align", "details") if name in rest}
        if own.get("mbr"):
            rest = {"temperature": 0.5} | rest | {"sample": True}  # at 1 too many samples are far off (LOG.md)
        if own.get("attention") or own.get("align"):
            own["details"] = True
        return cls(translator.options(**rest), wishes, **own)

    @property
    def bare(self) -> bool:
        """Whether the text of the best translation is all that is wanted."""
        return not (self.details or self.mbr or self.wishes.any) and self.options.best == 1

    def search(self, forbidding: bool) -> Options:
        """The engine's options: several hypotheses, where one of them is chosen afterwards."""
        if self.mbr:
            return replace(self.options, best=max(self.mbr, self.options.best))
        return replace(self.options, best=self.options.beam) if forbidding and not self.options.sample else self.options
