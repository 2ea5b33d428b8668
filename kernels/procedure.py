"""PrimFuncs over activations that are no workload's kernel: layout changes, pooling, integer operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from kernels import tir

PARALLEL_ELEMENTS = 32 * 1024
"""Loops over fewer elements take about as long as waking another thread."""


def threads_for(elements: int, threads: int) -> int:
    """How many of ``threads`` a loop over ``elements`` is split over: all or one."""
    return threads if elements >= PARALLEL_ELEMENTS else 1


def each_vector(elements: int, lanes: int, threads: int, emit: Callable[[Any, int], None]) -> None:
    """``emit(first, width)`` for runs of up to ``lanes`` elements; the last may overlap the one before."""
    width = min(lanes, 1 << (elements.bit_length() - 1))
    whole = elements // width
    with tir.loop(whole, threads_for(elements, threads)) as turn:
        emit(turn * width, width)
    if elements % width:
        emit(elements - width, width)


class Procedure:
    """A PrimFunc being built: ``with Procedure(name, shapes) as buffers: emit``; then ``result()``.

    Its arguments are dense arrays of ``shapes``, float32 unless ``dtypes`` says otherwise, which emitters see
    flat, in the same order. Marked as scheduled, so that Relax's default schedules leave it alone.
    """

    def __init__(
        self, name: str, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str] | None = None
    ) -> None:
        self._name, self._shapes = name, shapes
        self._dtypes = {each: (dtypes or {}).get(each, tir.F32) for each in shapes}
        self._builder = IRBuilder()

    @contextmanager
    def _emit(self) -> Iterator[tuple[Any, ...]]:
        with self._builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            T.func_attr({"tirx.noalias": True, "global_symbol": self._name, "tirx.is_scheduled": True})
            # TVM wants every argument before the first declaration.
            arguments = [
                (T.arg(name, T.Buffer(shape, self._dtypes[name])), prod(shape), self._dtypes[name])
                for name, shape in self._shapes.items()
            ]
            # A block: Relax takes any function of one argument for a reshape until it sees the body of one.
            with T.sblock("root"):
                yield tuple(
                    T.decl_buffer((size,), dtype, data=argument.data) for argument, size, dtype in arguments
                )

    def __enter__(self) -> tuple[Any, ...]:
        self._context = self._emit()
        return self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def result(self) -> Any:
        """The finished PrimFunc."""
        return self._builder.get()
