"""How wide the vectors are of functions that are made without knowing the target."""

from __future__ import annotations

VECTOR_BYTES = 64
"""LLVM makes several of a target's own vectors of one that is wider."""


def lanes_of(dtype: str) -> int:
    """Elements of a vector."""
    size = 1 if dtype == "bool" else int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
    return VECTOR_BYTES // size
