"""Rows whose number is known only at run time, in tiles of nearly the same height."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr, Index


@dataclass(frozen=True)
class OpenRows:
    """``rows``, at least one, in as few tiles as there can be of at most ``most``; their heights differ by
    one. There is code for each height up to ``most``, of which a tile chooses."""

    rows: Expr
    most: int

    @property
    def tiles(self) -> Expr:
        """How many there are."""
        return quotient(self.rows + (self.most - 1), self.most)

    def each(self, emit: Callable[[int, Index], None]) -> None:
        """``emit(height, first row)`` for every tile."""
        with T.serial(0, held(self.tiles)) as tile:
            self.tile(tile, emit)

    def tile(self, number: Index, emit: Callable[[int, Index], None]) -> None:
        """``emit(height, first row)`` for the tile of that number."""
        count = held(self.tiles)
        low = held(quotient(self.rows, count))
        higher = held(self.rows - low * count)
        top = held(number * low + tir.least(number, higher))
        height = held(low + (number < higher).astype("int32"))
        chosen(height, range(1, self.most + 1), lambda each: emit(each, top))


def held(value: Expr) -> Expr:
    """``value`` in a register, about which TVM's simplifier knows nothing: with all that goes into sizes that
    are known at run time it takes a minute for a function. LLVM sees through it."""
    register = tir.registers(1, "int32")
    tir.store(register, value, 0)
    return T.Bind(register[0])


def quotient(one: Expr, other: Index) -> Expr:
    """``one / other`` rounded down, of what is never negative: TVM need not prove that."""
    return tirx.truncdiv(one, tir.index(other))


def chosen(value: Expr, among: Sequence[int], emit: Callable[[int], None]) -> None:
    """``emit`` for the one of ``among``, in order, that ``value`` is: it is one of them."""
    if len(among) == 1:
        emit(among[0])
        return
    half = len(among) // 2
    tir.choose(
        value < among[half],
        lambda: chosen(value, among[:half], emit),
        lambda: chosen(value, among[half:], emit),
    )
