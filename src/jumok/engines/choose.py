"""The choice of an engine: the fast one where it supports what is asked for, torch for everything else.

An engine is loaded when it is first needed, so that torch is loaded only where it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from jumok.config.search import EngineOptions, SearchOptions, TokenConstraints, check_support
from jumok.errors import MissingPackage, Unsupported
from jumok.extras import hint, is_installed
from jumok.messages import Message

if TYPE_CHECKING:
    from jumok.engines.interface import Engine, FastEngine, Forcing
    from jumok.engines.torch_engine import TorchEngine
    from jumok.models.base import Seq2Seq
    from jumok.storage.bundle import Bundle


@dataclass(eq=False)
class Engines:
    """The engines of a model, or of several whose probabilities are averaged."""

    bundles: Sequence[Bundle]
    options: EngineOptions
    say: Callable[[str], None]  # gets one line for each reason why torch is used instead of the engine asked for
    reasons: list[Message] = field(default_factory=list)  # those reported

    @cached_property
    def torch(self) -> TorchEngine:
        """The reference engine, which has every feature."""
        if not is_installed("torch"):
            raise MissingPackage("engines.no_torch", advice=hint("torch"))
        from jumok.decoding.ensemble import Ensemble
        from jumok.engines.torch_engine import TorchEngine
        from jumok.storage import checkpoint

        device, deterministic = self.options.device, self.options.deterministic
        models = [cast("Seq2Seq", checkpoint.with_model(bundle).model.to(device)) for bundle in self.bundles]
        surfaces = self.bundles[0].vocabularies.target.surfaces
        model = Ensemble(models) if len(models) > 1 else models[0]
        return TorchEngine(model, device=device, surfaces=surfaces, deterministic=deterministic)

    @cached_property
    def fast(self) -> FastEngine | None:
        """The fast engine; None where it was not asked for, or cannot run this model, which is reported."""
        if self.options.engine == "torch":
            return None
        try:
            return self._make_fast()
        except Unsupported as error:
            self._report(error.values["reason"])
            return None

    def _make_fast(self) -> FastEngine:
        if self.options.device != "cpu":
            reason = Message("engines.only_on_cpu", {"device": self.options.device})
            raise Unsupported("engines.unsupported", reason=reason)
        if len(self.bundles) > 1:
            raise Unsupported("engines.unsupported", reason=Message("engines.one_model_at_a_time"))
        [bundle], shortlist = self.bundles, self.options.shortlist
        if self.options.engine == "ctranslate2":
            from jumok.engines.ctranslate2_engine import CTranslate2Engine

            precision, deterministic = self.options.precision or "int8", self.options.deterministic
            return CTranslate2Engine(bundle, precision=precision, shortlist=shortlist, deterministic=deterministic)
        from jumok.engines.native_engine import NativeEngine

        return NativeEngine(bundle, shortlist=shortlist)

    @property
    def description(self) -> str:
        """The engine of ordinary searches, in a few words."""
        return "torch" if self.fast is None else self.fast.description

    def choose(self, options: SearchOptions, constraints: Sequence[TokenConstraints] | None = None) -> Engine:
        """Return the engine for this search."""
        if self.fast is None:
            return self.torch
        try:
            check_support(self.fast.name, self.fast.supported, options, constraints)
        except Unsupported as error:
            self._report(error.values["reason"])
            return self.torch
        return self.fast

    @property
    def forcing(self) -> Forcing:
        """The engine that scores and aligns given translations, and finds alternatives: native if used, else torch."""
        fast = self.fast
        return cast("Forcing", fast) if fast is not None and fast.name == "native" else self.torch

    def _report(self, reason: Message) -> None:
        """Say once why torch is used; an error where it is not installed."""
        if not is_installed("torch"):
            from jumok.kernels import library

            values: dict[str, Any] = {"reason": reason, "folder": self.bundles[0].folder, "advice": hint("torch")}
            if library.load() is None and sys.platform == "linux":
                raise MissingPackage("engines.needs_torch_or_compiler", **values)
            raise MissingPackage("engines.needs_torch", **values)
        if reason not in self.reasons:
            self.reasons.append(reason)
            self.say(f"with the torch engine: {reason}")
