"""Lists in pages, and the parameters that several routes share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from fastapi import Path, Query
from pydantic import BaseModel, Field

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """A part of a list."""

    items: list[Item] = Field(description="The entries of this page.")
    next: str | None = Field(description="Give it as `after` for the next page; null on the last one.")


class Items(BaseModel, Generic[Item]):
    """A list short enough to come whole."""

    items: list[Item] = Field(description="All entries.")


Limit = Annotated[int, Query(ge=1, le=500, description="Most entries of a page.")]
# Row ids are 64-bit; a larger number is no id of ours, and no database takes it.
AfterId = Annotated[int | None, Query(ge=0, lt=2**63, description="The `next` of the page before.")]
JobId = Annotated[int, Path(ge=1, lt=2**63, description="The job's id.")]
Threads = Annotated[int, Query(ge=1, le=4096, description="Threads that the kernel runs on.")]
