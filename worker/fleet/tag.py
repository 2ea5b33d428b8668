"""A board's tags, by which jobs ask for it. Clients read this file, so it imports little."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Tag = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.:-]+$")]
"""What a job can ask for by name."""
