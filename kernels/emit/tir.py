"""Small builders over TVM's IR builder that all kernels share: indices, vectors, workspaces, loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from kernels.arithmetic import even
from kernels.emit.tvm import T, ir, tirx
from kernels.emit.types import Buffer, Expr, Index, Vector

F32 = "float32"
SLACK = "tilefleet.slack"
"""What marks workspaces that are longer than what is used of them."""


def index(value: Index) -> Expr:
    """``value`` as a 32-bit index expression."""
    return tirx.const(value, "int32") if isinstance(value, int) else value


def number(value: float) -> Expr:
    """A float32 constant."""
    return tirx.const(float(value), F32)


def vector(start: Index, lanes: int) -> Vector:
    """The index of ``lanes`` consecutive elements from ``start``."""
    return tirx.Ramp(index(start), index(1), lanes) if lanes > 1 else index(start)


def splat(value: Expr, lanes: int) -> Vector:
    """``value`` in every one of ``lanes`` lanes."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def zeros(lanes: int) -> Vector:
    """A vector of zeros."""
    return splat(number(0.0), lanes)


def least(one: Index, other: Index) -> Index:
    """The smaller of two indices, folded when both are known."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return tirx.Min(index(one), index(other))


def most(one: Index, other: Index) -> Index:
    """The larger of two indices, folded when both are known."""
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return tirx.Max(index(one), index(other))


@dataclass(frozen=True)
class From:
    """A flat ``array`` from ``start`` on, for code that reads and stores it as one of its own."""

    array: Buffer
    start: Index

    @property
    def dtype(self) -> Any:
        """What its elements are."""
        return self.array.dtype

    def place(self, at: Index | Vector) -> Index | Vector:
        """Where ``at`` is in the array."""
        if isinstance(at, tirx.Ramp):
            return tirx.Ramp(at.base + self.start, at.stride, at.lanes)
        return at + self.start

    def __getitem__(self, at: Index | Vector) -> Vector:
        return self.array[self.place(at)]


def store(buffer: Buffer, value: Vector, at: Index | Vector) -> None:
    """``buffer[at] = value``."""
    if isinstance(buffer, From):
        buffer, at = buffer.array, buffer.place(at)
    T.buffer_store(buffer, value, [at])


def const(value: int, dtype: str = "int32", lanes: int = 1) -> Vector:
    """An integer constant in each of ``lanes`` lanes."""
    return splat(tirx.const(value, dtype), lanes)


def truth(value: bool) -> Expr:
    """A known condition."""
    return tirx.const(value, "bool")


def negation(condition: Expr) -> Expr:
    """Whether ``condition`` is false, as a number: TVM turns the comparisons in a ``Not`` round, and takes
    ``y <= x`` for what is not ``x < y``, which NaN is neither."""
    return tirx.Cast("bool", tirx.Cast("int8", condition) ^ tirx.const(1, "int8"))


def of_type(dtype: str, lanes: int) -> str:
    """TVM's name of a vector type."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def convert(value: Vector, dtype: str, lanes: int) -> Vector:
    """``value`` converted element by element."""
    return tirx.Cast(of_type(dtype, lanes), value)


def reinterpret(value: Vector, dtype: str, lanes: int) -> Vector:
    """The bits of ``value`` as another type."""
    return tirx.reinterpret(of_type(dtype, lanes), value)


def scratch(elements: int, dtype: str = F32, scope: str = "global", slack: int = 0) -> Buffer:
    """A flat workspace in memory, or in that of another ``scope``, with ``slack`` elements that nobody uses
    behind the others: LLVM may read them."""
    more = {"annotations": {SLACK: slack}} if slack else {}
    return T.alloc_buffer((elements + slack,), dtype, scope=scope, **more)


def registers(elements: int, dtype: str = F32) -> Buffer:
    """A flat buffer that lives in registers as long as every index into it is constant."""
    # Else TVM takes it from its workspace: two calls around each micro-kernel, and spills in some.
    on_stack = {"disable_lower_builtin": True}
    return T.alloc_buffer((elements,), dtype, scope="local", annotations=on_stack)


def loop(extent: Index, threads: int = 1) -> AbstractContextManager[Expr]:
    """A loop over ``range(extent)``, parallel when ``threads`` is above one."""
    frame: AbstractContextManager[Expr] = (T.parallel if threads > 1 else T.serial)(0, extent)
    return frame


def blocks(total: int, most: int, block: Callable[[int, Expr], None]) -> None:
    """``block(size, first)`` over ``range(total)`` in blocks of at most ``most``, as even as can be."""
    base = 0
    for size, count in even(total, most):
        with loop(count) as number:
            block(size, T.Bind(base + number * size))
        base += count * size


@contextmanager
def when(condition: Expr | None) -> Iterator[None]:
    """``with when(condition): emit`` puts what is emitted under a condition, or under none when None."""
    if condition is None:
        yield
        return
    with T.If(condition), T.Then():
        yield


def with_llvm(text: str) -> AbstractContextManager[Expr]:
    """Within it, what is emitted may call functions that ``text`` defines in LLVM's language."""
    frame: AbstractContextManager[Expr] = T.attr(
        tirx.const(0, "int32"), "pragma_import_llvm", ir.StringImm(text)
    )
    return frame


def choose(condition: Expr | None, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """Emit ``then`` where ``condition`` holds and ``otherwise`` elsewhere; only ``then`` when None."""
    if condition is None:
        then()
        return
    with T.If(condition):
        with T.Then():
            then()
        with T.Else():
            otherwise()
