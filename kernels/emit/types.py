"""Names for TVM's objects. TVM has no types that mypy can read, so all are Any to it: they tell people."""

from __future__ import annotations

from typing import Any, TypeAlias

Expr: TypeAlias = Any
"""A value or a condition."""
Index: TypeAlias = int | Expr
"""A whole number: known while code is made, or an expression."""
Vector: TypeAlias = Any
"""A value of several lanes, or a place (``tir.vector``) of several neighbours."""
Buffer: TypeAlias = Any
"""A flat array that code reads and writes."""
Statement: TypeAlias = Any
"""A part of a function's body."""
PrimFunc: TypeAlias = Any
"""A finished function of TIR."""
Module: TypeAlias = Any
"""Functions together, of TIR or compiled."""
