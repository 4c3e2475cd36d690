"""The languages of a server: what it translates from and to, by any code that a client may use.

Clients write languages in many ways: `en`, `EN`, `en-US`, `zh`, `zt`, `pb`.  Inside, a language is its canonical BCP 47
tag (text/languages.py); what an answer says is the code of the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from jumok.errors import UsageError
from jumok.server.refusals import Refusal
from jumok.text.languages import describe, find_match

if TYPE_CHECKING:
    from jumok.service.models import ServedModel
    from jumok.text.detection import Detector

AUTO = "auto"
OTHER_CODES = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}  # of LibreTranslate


class HasModels(Protocol):
    """Whatever serves models by name."""

    @property
    def models(self) -> Mapping[str, ServedModel]: ...


@dataclass(frozen=True)
class Guess:
    """A language that a text may be in, and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Languages:
    """The pairs that the models of a service translate."""

    def __init__(self, service: HasModels) -> None:
        self._service = service
        self._detectors: dict[tuple[str, ...], Detector] = {}
        self._loading: asyncio.Future[None] | None = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every pair that is served, in the order of the models."""
        pairs = {pair_of(model): None for model in self._service.models.values()}
        return [pair for pair in pairs if pair is not None]

    @property
    def sources(self) -> list[str]:
        """Languages that can be translated from."""
        return list(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def targets(self) -> list[str]:
        """Languages that can be translated to."""
        return list(dict.fromkeys(target for _, target in self.pairs))

    @property
    def all(self) -> list[str]:
        """All languages of both sides, sorted."""
        return sorted({*self.sources, *self.targets})

    def find(self, code: str, among: Sequence[str] | None = None) -> str | None:
        """Return the served language that a client's code means; None if there is none."""
        served = self.all if among is None else among
        try:
            match = find_match(code, served)
            if match is None and code.strip().lower() in OTHER_CODES:
                match = find_match(OTHER_CODES[code.strip().lower()], served)
        except UsageError:
            return None
        return match

    def targets_of(self, source: str) -> list[str]:
        """Return the languages that a source can be translated to."""
        return [target for one, target in self.pairs if one == source]

    def detect(self, text: str, among: Sequence[str] | None = None) -> list[Guess]:
        """Return the languages that a text may be in, likeliest first; confidence 0 where nothing tells.

        Without `warm_up`, the first text in one of several languages of the same script takes half a second.
        """
        served = tuple(self.all)
        if served not in self._detectors:
            self._load(served)
        ranked = self._detectors[served].rank(text)
        return [Guess(*one) for one in ranked if among is None or one.language in among]

    def _load(self, served: tuple[str, ...]) -> None:
        from jumok.text.detection import Detector  # imported here, because numpy takes a fifth of the start

        detector = Detector(served)
        detector.rank("the and der die 그리고")  # loads the statistics
        self._detectors = {served: detector}

    async def warm_up(self, deadline: float | None) -> None:
        """Load the statistics of languages in a thread, once for all requests that wait for them.

        A request whose deadline passes meanwhile is refused with 503; loading goes on for the next one.
        """
        while (served := tuple(self.all)) not in self._detectors:
            if self._loading is None or self._loading.done():
                self._loading = asyncio.ensure_future(asyncio.to_thread(self._load, served))
            try:
                async with asyncio.timeout(None if deadline is None else max(0.0, deadline - monotonic())):
                    await asyncio.shield(self._loading)
            except TimeoutError:
                raise Refusal(503, "server.loading_languages").retry_after(1) from None


def pair_of(model: ServedModel) -> tuple[str, str] | None:
    """Return the languages of a model; None for a language model and for one that does not know them."""
    if model.generates or model.source is None or model.target is None:
        return None
    return model.source, model.target


def name_in(tag: str, interface: str = "en") -> str:
    """Return the name of a language in the language of a page: English, Korean, or else its own."""
    language = describe(tag)
    if interface.startswith("ko"):
        return language.korean
    return language.own if interface == tag and interface != "en" else language.english
