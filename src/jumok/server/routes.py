"""Routes: one table row per endpoint, from which requests are routed, validated and described.

    Route("POST", "/translate", translate, api=API, summary="Translate texts.", request=TranslateRequest, answer=…)

A handler is an async function of a `Call`; it returns a pydantic model, a list of them, plain values or an `Answer`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from jumok.server.exchange import Answer, Exchange
from jumok.server.refusals import Refusal, Shape, libretranslate_shape

if TYPE_CHECKING:
    from jumok.server.front import Front
    from jumok.server.keys import Key

M = TypeVar("M", bound=BaseModel)
Who = Literal["everyone", "users", "admins"]
NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Api:
    """What the endpoints of one protocol share."""

    name: str  # in metrics, logs and as the tag in the description
    title: str
    shape: Shape = libretranslate_shape  # of errors
    key_in: tuple[str, ...] = ()  # parameters that may hold the key
    no_key: tuple[int, str] | None = None  # status and text where a key is needed and none is given
    wrong_key: tuple[int, str] | None = None
    too_fast: str | None = None  # text where a key's rate is exceeded, with {rate}


@dataclass
class Call:
    """A request that was admitted: its parameters, and what its answer will say about itself."""

    front: Front
    exchange: Exchange
    route: Route
    id: str
    path: Mapping[str, str]
    deadline: float  # on the monotonic clock
    values: dict[str, Any] = field(default_factory=dict)
    key: Key | None = None
    headers: dict[str, str] = field(default_factory=dict)
    texts: int = 0
    characters: int = 0

    def parse(self, model: type[M]) -> M:
        """Return the parameters as the model that describes them; a refusal names the first that does not fit."""
        try:
            return model.model_validate(self.values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            parameter = ".".join(str(part) for part in first["loc"]) or "body"
            if first["type"] == "missing":
                raise Refusal(400, "server.missing_parameter", parameter=parameter) from None
            raise Refusal(400, "server.bad_parameter", parameter=parameter, reason=first["msg"]) from None


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    """One endpoint."""

    method: str
    path: str  # with names in braces
    handle: Handler
    api: Api
    summary: str
    request: type[BaseModel] | None = None
    answer: Any = None  # a type that pydantic knows; None is a body of another kind, or no body
    status: int = 200
    media_type: str = "application/json"
    who: Who = "users"
    works: bool = False  # whether it needs an engine: refused early where too much is waiting
    uploads: bool = False
    described: bool = True

    @property
    def pattern(self) -> re.Pattern[str]:
        """The path as a regular expression."""
        return re.compile(NAME.sub(r"(?P<\1>[^/]+)", self.path))


class Table:
    """All routes, found by method and path."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self.fixed: dict[str, dict[str, Route]] = {}
        self.patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        named: dict[str, dict[str, Route]] = {}
        for route in routes:
            place = named if "{" in route.path else self.fixed
            methods = place.setdefault(route.path, {})
            assert route.method not in methods, f"two routes for {route.method} {route.path}"
            methods[route.method] = route
        self.patterns = [(next(iter(methods.values())).pattern, methods) for methods in named.values()]

    def find(self, path: str) -> tuple[dict[str, Route], dict[str, str]] | None:
        """Return the routes of a path by method, and the names in the path; None where there are none."""
        methods = self.fixed.get(path) or (self.fixed.get(path.rstrip("/")) if path != "/" else None)
        if methods is not None:
            return methods, {}
        for pattern, methods in self.patterns:
            if match := pattern.fullmatch(path):
                return methods, match.groupdict()
        return None


__all__ = ["Answer", "Api", "Call", "Handler", "Route", "Table"]
