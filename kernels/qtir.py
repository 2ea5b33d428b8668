"""Builders over TVM's IR builder for quantized kernels: arguments of every type, integer vectors.

TVM objects are untyped and appear as ``Any``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.qworkload import QConv2d
from kernels.vectors import split


def const(value: int, dtype: str = "int32", lanes: int = 1) -> Any:
    """An integer constant in each of ``lanes`` lanes."""
    return tir.splat(tirx.const(value, dtype), lanes)


def of_type(dtype: str, lanes: int) -> str:
    """TVM's name of a vector type."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def convert(value: Any, dtype: str, lanes: int) -> Any:
    """``value`` converted element by element."""
    return tirx.Cast(of_type(dtype, lanes), value)


def reinterpret(value: Any, dtype: str, lanes: int) -> Any:
    """The bits of ``value`` as another type."""
    return tirx.reinterpret(of_type(dtype, lanes), value)


def scratch(elements: int, dtype: str) -> Any:
    """A flat workspace in memory."""
    return T.alloc_buffer((elements,), dtype)


def registers(elements: int, dtype: str = "int32") -> Any:
    """A flat buffer that lives in registers as long as every index into it is constant."""
    on_stack = {"disable_lower_builtin": True}  # see tir.registers
    return T.alloc_buffer((elements,), dtype, scope="local", annotations=on_stack)


def store_filters(out: Any, result: Any, at: Any, first: Any, count: int, padded: int, lanes: int) -> None:
    """Store results of filters from ``first`` on to ``out`` from ``at``, as far as they are below ``count``.

    Only the last vector of all, which ends at ``padded``, may go beyond.
    """
    rest = count - (padded - lanes)

    def whole() -> None:
        tir.store(out, result, tir.vector(at, lanes))

    def part() -> None:
        for offset, width, piece in split(result, rest, lanes):
            tir.store(out, piece, tir.vector(at + offset, width))

    if rest == lanes:
        whole()
    else:
        tir.choose(tir.index(first) + lanes <= count, whole, part)


@dataclass(frozen=True)
class QArguments:
    """A quantized kernel's buffers, all flat; ``multiplier`` and ``shift`` are None with int32 output."""

    conv: QConv2d
    data: Any
    weights: Any
    bias: Any
    multiplier: Any
    shift: Any
    out: Any


class QFunction:
    """A PrimFunc being built: ``with QFunction(...) as args: emit``; then ``result()``.

    ``packed`` and ``packed_dtype`` are the packed weights' length and type, ``filters`` the length of the
    bias (and of multiplier and shift, one a channel).
    """

    def __init__(self, conv: QConv2d, name: str, packed: int, packed_dtype: str, filters: int) -> None:
        scales = filters if conv.per_channel else 1
        self._conv, self._name = conv, name
        self._shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "data": (conv.data_shape, conv.data_dtype),
            "weights": ((packed,), packed_dtype),
            "bias": ((filters,), "int32"),
        }
        if conv.scale_length:
            self._shapes |= {"multiplier": ((scales,), "int32"), "shift": ((scales,), "int32")}
        self._shapes["out"] = (conv.out_shape, conv.out_dtype)
        self._builder = IRBuilder()

    @contextmanager
    def _emit(self) -> Iterator[QArguments]:
        with self._builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            T.func_attr({"tirx.noalias": True, "global_symbol": self._name, "tirx.is_scheduled": True})
            # TVM wants every argument before the first declaration.
            arguments = {
                name: T.arg(name, T.Buffer(shape, dtype)) for name, (shape, dtype) in self._shapes.items()
            }
            flat: dict[str, Any] = {"multiplier": None, "shift": None}
            for name, (shape, dtype) in self._shapes.items():
                flat[name] = T.decl_buffer((math.prod(shape),), dtype, data=arguments[name].data)
            yield QArguments(self._conv, **flat)

    def __enter__(self) -> QArguments:
        self._context = self._emit()
        return self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def result(self) -> Any:
        """The finished PrimFunc."""
        return self._builder.get()
