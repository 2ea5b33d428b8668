"""What the kernels of a calibration have in common.

They are written once for every machine. Each takes ``given``, two numbers that say how much it does, a list,
and ``out``, what it leaves. So the difference of two calls tells what a step takes without the call.
"""

from __future__ import annotations

from typing import Any

from worker.build.build import ENTRY

WORD = 8
"""Bytes of a list's element: one instruction loads such by its number, and was measured."""
INT, LONG, BYTE, FLOAT = "int32", "int64", "uint8", "float32"
BYTES = 256
"""Of the table that kernels of instructions read: a byte is loaded by its number alone everywhere."""
OUT = 1024
"""Numbers that a kernel may leave, so that no compiler leaves out what it computes."""


def function(elements: int, dtype: str) -> Any:
    """A function of the two numbers, a list of so many elements, and what it leaves."""
    from kernels.emit.function import Function

    # The list is not the first: what empties caches before a call keeps the first argument.
    shapes = {"given": (2,), "list": (elements,), "out": (OUT,)}
    return Function(ENTRY, shapes, {**dict.fromkeys(shapes, INT), "list": dtype})
