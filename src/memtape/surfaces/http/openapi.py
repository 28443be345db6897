"""The OpenAPI document: that of the framework, with the params and results of the operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from memtape.surfaces.registry import Operation, UntitledSchema, params_schema
from memtape.surfaces.translate import Input, inputs

RUN_REEXAMINATIONS = "/v1/runs/{run}/re-examinations"


def openapi_document(app: FastAPI, derived: Mapping[str, Operation]) -> dict[str, Any]:
    """The OpenAPI document of the framework, with the params and results of the operations added."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title="memtape", version="1", description=(__doc__ or "").split("\n")[0], routes=app.routes)
    refs, models = models_json_schema(
        [pair for known in derived.values() for pair in ((known.params, "validation"), (known.result, "serialization"))],
        ref_template="#/components/schemas/{model}",
        schema_generator=UntitledSchema,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas |= {**models.get("$defs", {}), "Problem": _PROBLEM_SCHEMA}
    for known in derived.values():
        for method, entry in document["paths"][f"/v1/{known.name}"].items():
            asked = refs[known.params, "validation"]
            if method == "post":
                required = any(field.required for field in inputs(params_schema(known)))
                entry["requestBody"] = {"required": required, "content": {"application/json": {"schema": asked}}}
            else:
                fields = schemas[asked["$ref"].rpartition("/")[2]]["properties"]
                entry["parameters"] = [_parameter(field, fields) for field in inputs(params_schema(known))]
            if known.writes:
                entry["parameters"] = [
                    {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
                ]
            returned = {"application/json": {"schema": refs[known.result, "serialization"]}}
            entry["responses"] = {"200": {"description": known.summary, "content": returned}, "default": _PROBLEM}
    if "list_reexaminations" in derived:
        listed = derived["list_reexaminations"]
        returned = {"application/json": {"schema": refs[listed.result, "serialization"]}}
        document["paths"][RUN_REEXAMINATIONS]["get"] |= {
            "parameters": [
                {"name": "run", "in": "path", "required": True, "schema": _TEXT,
                 "description": "the run, or the id of a decision"},
                {"name": "agent", "in": "query", "required": False, "schema": _TEXT,
                 "description": "the agent; default: the server's agent, else the one that has the run"},
            ],
            "responses": {"200": {"description": listed.summary, "content": returned}, "default": _PROBLEM},
        }  # fmt: skip
    app.openapi_schema = document
    return document


def _parameter(field: Input, schemas: Mapping[str, Any]) -> dict[str, Any]:
    schema = schemas[field.name]
    shaped = {"content": {"application/json": {"schema": schema}}} if field.kind == "json" else {"schema": schema}
    return {"name": field.name, "in": "query", "required": field.required, "description": field.help, **shaped}


_TEXT = {"type": "string"}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {name: {"type": "string"} for name in ("type", "title", "detail", "field", "fix")}
    | {
        "status": {"type": "integer"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {name: {"type": "string"} for name in ("field", "problem", "fix")}},
        },
    },
}
_PROBLEM = {
    "description": "What is wrong, and what to do about it.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
