"""How a model with its weights in other files comes: as a zip."""

from __future__ import annotations

from pathlib import Path

ARCHIVE = b"PK\x03\x04"
"""What a zip file begins with."""


def is_archive(path: Path) -> bool:
    """Whether the file at ``path`` is a zip."""
    with path.open("rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE
