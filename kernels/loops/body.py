"""What one turn of a loop computes, and which of the axes around it are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.emit import tir
from kernels.emit.tvm import T, ir, tirx
from kernels.emit.types import Expr
from kernels.loops.expressions import (
    coefficient,
    dtype_of,
    has_vectors,
    loads_of,
    mutate,
    substitute,
    variables_of,
)

Where = Callable[[Expr], dict[Any, Expr]]
"""The values of the axes in a lane."""
Leave = Callable[[Expr, dict[Any, Expr], Expr], None]
"""Stores a value: (lane, the values of the axes, the value)."""


@dataclass(frozen=True)
class Axis:
    """A loop: its variable from 0 to ``extent``, or to ``count``, at most that many, known at run time."""

    variable: Any
    extent: int
    count: Expr | None = None

    @property
    def end(self) -> Expr:
        """What its variable stays below."""
        dtype = dtype_of(self.variable)
        return tirx.const(self.extent, dtype) if self.count is None else self.count.astype(dtype)


@dataclass
class Body:
    """``value`` after ``bindings``, and the flat index ``at`` where it is stored."""

    axes: list[Axis]
    bindings: list[tuple[Any, Expr]]
    value: Expr
    at: Expr

    @property
    def expressions(self) -> list[Expr]:
        """All that is computed."""
        return [*(value for _, value in self.bindings), self.value]

    def places(self) -> list[Expr]:
        """All flat indices, of loads and of the store."""
        found = [load.indices[0] for each in self.expressions for load in loads_of(each)]
        named: dict[Any, Expr] = {}
        for name, value in self.bindings:
            named[name] = substitute(value, named)
        found = [substitute(each, named) for each in found]
        return [*found, self.at]

    def fuse(self) -> None:
        """Make one axis of neighbours along which all arrays go on as if they were one."""
        places = self.places()
        elsewhere: set[Any] = set()
        for each in self.expressions:
            elsewhere |= variables_of(each, inside_loads=False)
        fused: list[Axis] = []
        for outer in reversed(self.axes):
            inner = fused[0] if fused else None
            known = inner is not None and inner.count is None and outer.count is None
            if inner is not None and known and not {outer.variable, inner.variable} & elsewhere:
                steps = [(coefficient(p, outer.variable), coefficient(p, inner.variable)) for p in places]
                if all(a is not None and b is not None and a == b * inner.extent for a, b in steps):
                    fused[0] = Axis(inner.variable, inner.extent * outer.extent)
                    self._replace({outer.variable: tirx.const(0, dtype_of(outer.variable))})
                    continue
            fused.insert(0, outer)
        self.axes = fused

    def _replace(self, values: Mapping[Any, Expr]) -> None:
        self.bindings = [(name, substitute(value, dict(values))) for name, value in self.bindings]
        self.value = substitute(self.value, dict(values))
        self.at = substitute(self.at, dict(values))

    def bytes(self) -> int:
        """The size of the widest value."""
        widest = 1

        def look(node: Any, mutator: Any) -> Any:
            nonlocal widest
            widest = max(widest, size_of(dtype_of(node)))
            return node if isinstance(node, ir.TensorLoad) else mutator.default_mutate(node)

        for each in self.expressions:
            widest = max(widest, size_of(dtype_of(each)))
            mutate(each, (ir.TensorLoad, look), (tirx.Cast, look))
        return widest

    def emit(self, width: int, dtype: str, where: Where, leave: Leave) -> None:
        """Compute ``width`` values: ``where(lane)`` has the axes' values, ``leave`` stores."""
        # Named values lie in arrays: TVM can name no vectors of truths.
        names = {name: tir.registers(width, dtype_of(name)) for name, _ in self.bindings}

        def each(value: Expr, then: Callable[[Expr, dict[Any, Expr], Expr], None]) -> None:
            if width == 1:
                then(*known(value, tirx.const(0, dtype)))
                return
            loop = T.vectorized if has_vectors(value) else T.serial
            with loop(tirx.const(0, dtype), tirx.const(width, dtype)) as lane:
                then(*known(value, lane))

        def known(value: Expr, lane: Expr) -> tuple[Expr, dict[Any, Expr], Expr]:
            named = {name: tirx.BufferLoad(array, [lane]) for name, array in names.items()}
            values = where(lane)
            return lane, values, substitute(value, {**values, **named})

        for name, value in self.bindings:
            each(value, lambda lane, _, made, array=names[name]: tir.store(array, made, lane))  # type: ignore[misc]
        each(self.value, leave)


def made_body(axes: list[Axis], bindings: Sequence[tuple[Any, Expr]], value: Expr, at: Expr) -> Body:
    """A body with names for what is used more than once, or computed one by one."""
    uses: Counter[Any] = Counter()

    def count(node: Any, _: Any) -> Any:
        uses[node] += 1
        return node

    for each in [*(value for _, value in bindings), value]:
        mutate(each, (tirx.Var, count))
    known: dict[Any, Expr] = {}
    kept = []
    for name, each in bindings:
        made = substitute(each, known)
        if uses[name] > 1 or not has_vectors(made):
            kept.append((name, made))
        else:
            known[name] = made
    return Body(axes, kept, substitute(value, known), substitute(at, known))


def size_of(dtype: str) -> int:
    """Bytes of one value in memory."""
    return 1 if dtype == "bool" else int("".join(c for c in dtype if c.isdigit())) // 8
