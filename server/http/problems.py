"""Errors as problem bodies (RFC 9457, ``application/problem+json``)."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import chain
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException

from server.db.documents import DamagedError
from worker.shortage import Shortage, shortage

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
Methods = dict[str, set[str]]
"""The methods of each path of the API."""


class InvalidInput(BaseModel):
    """One thing that is wrong with the input."""

    loc: list[str | int] = Field(description="Where: body, query or path, and the way down to the field.")
    msg: str = Field(description="What is wrong with it.")


class ProblemBody(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(default="about:blank", description="What kind of problem this is.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What went wrong here and what to do about it.")
    instance: str = Field(description="The path that was asked for.")
    errors: list[InvalidInput] = Field(default_factory=list, description="Each invalid input, for 422.")


class Problem(HTTPException):
    """Raise to answer with a problem body.

    It is an ``HTTPException`` because those pass unchanged through FastAPI's reading of the body.
    """

    def __init__(self, status: int, detail: str, errors: Sequence[InvalidInput] = ()) -> None:
        super().__init__(status, detail)
        self.errors = list(errors)


def invalid(detail: str, *loc: str | int) -> Problem:
    """A 422 about the input at ``loc``."""
    return Problem(422, detail, [InvalidInput(loc=list(loc), msg=detail)] if loc else [])


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI entries of the problems that a route can answer with."""
    return {
        status: {
            "model": ProblemBody,
            "description": HTTPStatus(status).phrase,
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/ProblemBody"},
                    "example": _EXAMPLES.get(status, _example(status, HTTPStatus(status).phrase)),
                }
            },
        }
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem body; none shows a stack trace."""
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(DataError, _on_data)
    app.add_exception_handler(OperationalError, _on_lost_database)
    app.add_exception_handler(DamagedError, _on_damage)
    app.add_exception_handler(OSError, _on_system)
    app.add_exception_handler(Shortage, _on_shortage)
    app.add_exception_handler(Exception, _on_crash)


def body_of(
    path: str,
    status: int,
    detail: str,
    errors: Sequence[InvalidInput] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The response for a problem."""
    body = ProblemBody(
        title=HTTPStatus(status).phrase, status=status, detail=detail, instance=path, errors=list(errors)
    )
    return JSONResponse(body.model_dump(), status_code=status, media_type=MEDIA_TYPE, headers=headers)


async def on_http(request: Request, error: Exception) -> JSONResponse:
    """The answer to an error that a route, or the lack of one, has raised."""
    assert isinstance(error, HTTPException)
    errors = error.errors if isinstance(error, Problem) else []
    if error.status_code == 400 and isinstance(error.__cause__, UnicodeDecodeError):
        return body_of(request.url.path, 422, "invalid input: the body is no JSON in UTF-8")
    headers = dict(error.headers or {})
    methods = _methods(request) if error.status_code in (405, 422) else set()
    if error.status_code == 422 and request.method not in methods:  # /jobs/labels is no job
        error = HTTPException(405)
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(methods)) or headers.get("Allow", "")
    return body_of(request.url.path, error.status_code, str(error.detail), errors, headers)


def methods_of(prefix: str, routers: Iterable[APIRouter]) -> Methods:
    """The methods of each path of ``routers``, with ``prefix`` before it."""
    found: Methods = {}
    for route in chain.from_iterable(router.routes for router in routers):
        if isinstance(route, APIRoute):
            found.setdefault(prefix + route.path_format, set()).update(route.methods or ())
    return found


def _methods(request: Request) -> set[str]:
    """What a path of the API can be asked by; each route knows its own methods alone."""
    found: set[str] = set()
    paths: Methods = request.app.state.methods
    if request.url.path in paths:  # it is a name of its own, and no job or record that is called so
        return paths[request.url.path]
    for path, methods in paths.items():
        pattern = re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path))
        if re.fullmatch(pattern, request.url.path):
            found |= methods
    return found


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if request.method not in _methods(request):
        return await on_http(request, HTTPException(422))
    errors = [InvalidInput(loc=list(e["loc"]), msg=str(e["msg"])) for e in error.errors()]
    detail = "; ".join(f"{'.'.join(map(str, e.loc))}: {e.msg}" for e in errors)
    return body_of(request.url.path, 422, f"invalid input: {detail}", errors)


async def _on_data(request: Request, error: Exception) -> JSONResponse:
    # PostgreSQL, unlike SQLite, takes no NUL in a text.
    return body_of(request.url.path, 422, "a value of the request is none that a database takes (NUL in it?)")


async def _on_lost_database(request: Request, error: Exception) -> JSONResponse:
    log.error("%s: %s", request.url.path, error)
    why = request.app.state.services.db.why_away(error)
    if "is full" in why:
        return body_of(request.url.path, 507, why)
    return body_of(request.url.path, 503, "the database does not answer; try again later")


async def _on_damage(request: Request, error: Exception) -> JSONResponse:
    """What cannot be read is not there; lists have the others."""
    return body_of(request.url.path, 404, f"{error}; restore it from a backup (docs/operations.md)")


async def _on_system(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, OSError)
    log.exception("%s", request.url.path, exc_info=error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" with {error.filename}" if error.filename else ""
        return body_of(request.url.path, 507, f"the disk{where} is full: free some of it")
    if short := shortage(error):
        return body_of(request.url.path, 503, f"{short}; try again later", headers={"Retry-After": "5"})
    if name := error.filename2 or error.filename:  # removed, without its rights, of another kind
        why = f"the server cannot use {name}: {error.strerror}; mend that there, and try again"
        return body_of(request.url.path, 503, why)
    return await _on_crash(request, error)


async def _on_shortage(request: Request, error: Exception) -> JSONResponse:
    return body_of(request.url.path, 503, f"{error}; try again later", headers={"Retry-After": "5"})


async def _on_crash(request: Request, error: Exception) -> JSONResponse:
    # The ASGI server logs it, with its trace.
    return body_of(request.url.path, 500, "the server failed at this request; its log says why")


def _example(status: int, detail: str, **more: Any) -> dict[str, Any]:
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return {**body, "instance": "/api/v1/...", "errors": [], **more}


_EXAMPLES: dict[int, dict[str, Any]] = {
    404: _example(404, "there is no job 12"),
    409: _example(409, "job 12 is done and cannot be cancelled"),
    413: _example(413, "the body is larger than the limit of 512 MB (TILEFLEET_MAX_MODEL_MB)"),
    422: _example(
        422,
        "unknown target 'arm'; there are: host, x86-avx2",
        errors=[{"loc": ["body", "target"], "msg": "unknown target 'arm'; there are: host, x86-avx2"}],
    ),
}
