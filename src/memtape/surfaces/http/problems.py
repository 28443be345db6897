"""Errors as problems (RFC 9457): a `MemtapeError` by its row in `translate`, an error of the framework by its status."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from memtape.errors import FieldProblem, Invalid, Locked, MemtapeError, Unknown
from memtape.surfaces.registry import Operation, find
from memtape.surfaces.translate import json_text, problem, problem_object


def add_problems(app: FastAPI, derived: Mapping[str, Operation]) -> None:
    """Answer every error as a problem."""
    app.add_exception_handler(MemtapeError, _memtape_problem)
    app.add_exception_handler(HTTPException, partial(_framework_problem, derived))
    app.add_exception_handler(RequestValidationError, _validation_problem)


def problem_response(body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
    status = body["status"]
    assert isinstance(status, int)
    return Response(json_text(body), status, headers, media_type="application/problem+json")


async def _memtape_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, MemtapeError)
    return problem_response(problem(error), {"retry-after": "1"} if isinstance(error, Locked) else None)


async def _framework_problem(derived: Mapping[str, Operation], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and request.url.path.startswith("/v1/"):
        try:
            find(request.url.path.removeprefix("/v1/"), derived)
        except Unknown as unknown:
            return problem_response(problem(unknown))
    if error.status_code == 404 and detail == "Not Found":
        detail = f"There is no page or operation at {request.url.path}. /v1/openapi.json lists the operations"
    if error.status_code == 405:
        operation = derived.get(request.url.path.removeprefix("/v1/"))
        reads = operation is not None and not operation.writes
        allowed = "GET or POST" if reads else (error.headers or {}).get("Allow", "another method")
        detail = f"{request.method} is not allowed for {request.url.path}. Use {allowed}"
    return problem_response(problem_object(error.status_code, status_title(error.status_code), detail), error.headers)


async def _validation_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [
        FieldProblem(".".join(str(part) for part in each["loc"][1:]) or "input", str(each["msg"]).lower(), "Correct it")
        for each in error.errors()
    ]
    return problem_response(problem(Invalid(*problems[0], *problems[1:])))


def status_title(status: int) -> str:
    return HTTPStatus(status).phrase.capitalize()
