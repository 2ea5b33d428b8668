"""Parameters that several routes share, long curves made short, and long answers sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from server.http.problems import invalid

Item = TypeVar("Item")
CURVE_POINTS = 200


Limit = Annotated[int, Query(ge=1, le=500, description="Most entries of a page.")]
# Row ids are 64-bit; a larger number is no id of ours, and no database takes it.
AfterId = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the page before.")]
JobId = Annotated[int, Path(ge=1, lt=2**63, description="The job's id.")]
Search = Annotated[
    str | None,
    Query(
        max_length=200, description="Words that must all be in the workload's text.", examples=["conv 3x3"]
    ),
]
Threads = Annotated[int, Query(ge=1, le=4096, description="Threads that the kernel runs on.")]


def known_parameters(request: Request) -> None:
    """Refuse what the route has no query parameter for: a filter that is none would go unnoticed."""
    known = sorted(_names(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none"
            raise invalid(f"no query parameter {name!r}; {there}", "query", name)


def _names(dependant: Dependant) -> set[str]:
    inner = (name for each in dependant.dependencies for name in _names(each))
    return {each.alias for each in dependant.query_params} | {*inner}


def thin(points: Sequence[Item], limit: int = CURVE_POINTS) -> Sequence[Item]:
    """At most ``limit`` of the points, evenly spread, the first and the last among them."""
    if len(points) <= limit:
        return points
    step = (len(points) - 1) / (limit - 1)
    return [points[round(step * at)] for at in range(limit)]


def checked_once(answer: BaseModel) -> Response:
    """An answer with many entries: it is not checked once more, nor made into Python's lists on the way."""
    return Response(answer.model_dump_json(), media_type="application/json")
