"""Characters at most of words that the database keeps: by themselves, as clients need them without it."""

from __future__ import annotations

NAME = 200
"""What a job is called, and who submitted it."""
LABEL = 64
