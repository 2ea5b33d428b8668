"""Lists as the API gives them: whole or in pages."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, Field

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """A part of a list."""

    items: list[Item] = Field(description="The entries of this page.")
    next: str | None = Field(description="Give it as `after` for the next page; null on the last one.")


class Items(BaseModel, Generic[Item]):
    """A list short enough to come whole."""

    items: list[Item] = Field(description="All entries.")
