"""The OpenAPI description, made from the table of routes and the models that validate requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

import jumok
from jumok.server.routes import Route

REFERENCES = "#/components/schemas/{model}"
REFUSALS = {
    "400": "A parameter is missing or wrong.",
    "401": "A key is needed.",
    "403": "The key, the host or the origin is not allowed.",
    "404": "There is no such thing.",
    "408": "The request took too long to arrive.",
    "413": "The request is too large.",
    "422": "The request is refused because it made an engine fail.",
    "429": "The server is busy; Retry-After says when to try again.",
    "431": "The headers are too large.",
    "503": "The engine is not available; Retry-After says when to try again.",
}


def describe(routes: Iterable[Route], *, root_path: str = "") -> dict[str, Any]:
    """Return the description of all routes."""
    shown = [route for route in routes if route.described]
    models = list(dict.fromkeys(route.request for route in shown if route.request is not None))
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCES)
    schemas: dict[str, Any] = dict(definitions.get("$defs", {}))
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_route(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jumok serve",
            "version": jumok.__version__,
            "description": "Translation by models trained with Jumok, for clients of LibreTranslate, DeepL and others.",
        },
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas | {"Refusal": {"type": "object"}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "deepl": {"type": "apiKey", "in": "header", "name": "Authorization"},
            },
        },
        "security": [{}, {"bearer": []}],
    }


def _describe_route(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "tags": [route.api.title],
        "summary": route.summary,
        "operationId": _identify(route),
        "responses": {str(route.status): _describe_answer(route, schemas)} | _refusals(),
    }
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]
    if route.request is not None:
        if route.method in ("GET", "DELETE"):
            parameters += _describe_query(route.request)
        else:
            described["requestBody"] = _describe_body(route)
    if parameters:
        described["parameters"] = parameters
    return described


def _identify(route: Route) -> str:
    """Return a name for the endpoint that is unique and made of letters."""
    words = re.findall(r"\w+", route.path) or ["page"]
    return "_".join([route.method.lower(), *words])


def _describe_body(route: Route) -> dict[str, Any]:
    assert route.request is not None
    schema = {"$ref": REFERENCES.format(model=route.request.__name__)}
    if route.uploads:
        return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    kinds = ["application/json"]
    if route.api.name in ("libretranslate", "deepl"):
        kinds.append("application/x-www-form-urlencoded")
    return {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}


def _describe_query(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = model.model_json_schema(ref_template=REFERENCES)
    needed = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": one}
        for name, one in schema.get("properties", {}).items()
    ]


def _describe_answer(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.status == 204:
        return {"description": "Done."}
    if route.answer is None:
        return {"description": "The answer.", "content": {route.media_type: {"schema": {"type": "string"}}}}
    schema = TypeAdapter(route.answer).json_schema(ref_template=REFERENCES, mode="serialization")
    schemas |= schema.pop("$defs", {})
    title = schema.get("title")
    if title and schema.get("type") == "object" and "properties" in schema:
        schemas[title] = schema
        schema = {"$ref": REFERENCES.format(model=title)}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _refusals() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": REFERENCES.format(model="Refusal")}}}
    return {status: {"description": reason, "content": content} for status, reason in REFUSALS.items()}
