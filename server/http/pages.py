"""Parameters that several routes share, and long curves made short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Path, Query

Item = TypeVar("Item")
CURVE_POINTS = 200


Limit = Annotated[int, Query(ge=1, le=500, description="Most entries of a page.")]
# Row ids are 64-bit; a larger number is no id of ours, and no database takes it.
AfterId = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the page before.")]
JobId = Annotated[int, Path(ge=1, lt=2**63, description="The job's id.")]
Threads = Annotated[int, Query(ge=1, le=4096, description="Threads that the kernel runs on.")]


def thin(points: Sequence[Item], limit: int = CURVE_POINTS) -> Sequence[Item]:
    """At most ``limit`` of the points, evenly spread, the first and the last among them."""
    if len(points) <= limit:
        return points
    step = (len(points) - 1) / (limit - 1)
    return [points[round(step * at)] for at in range(limit)]
