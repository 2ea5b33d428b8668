"""The builder of every function that is made of explicit TIR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from math import prod
from typing import Any

from kernels.emit.tir import F32
from kernels.emit.tvm import T, tvm
from kernels.emit.types import Buffer, Index, PrimFunc


class Function:
    """A PrimFunc being built: ``with Function(name, shapes) as buffers: emit``; then ``result()``.

    Its arguments are dense arrays of ``shapes``, float32 unless ``dtypes`` says otherwise, which emitters see
    flat, in the same order; the last ``results`` of them are what it computes. Marked as scheduled, so that
    Relax's default schedules leave it alone.
    """

    def __init__(
        self,
        name: str,
        shapes: Mapping[str, tuple[Index, ...]],
        dtypes: Mapping[str, str] | None = None,
        results: int = 1,
    ) -> None:
        self._name, self._results = name, results
        self._arguments = {each: (shape, (dtypes or {}).get(each, F32)) for each, shape in shapes.items()}
        self._builder = tvm.script.ir_builder.IRBuilder()

    @contextmanager
    def _emit(self) -> Iterator[tuple[Buffer, ...]]:
        with self._builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            T.func_attr({"tirx.noalias": True, "global_symbol": self._name, "tirx.is_scheduled": True})
            # TVM wants every argument before the first declaration.
            arguments = [
                (T.arg(name, T.Buffer(shape, dtype)), prod(shape), dtype)
                for name, (shape, dtype) in self._arguments.items()
            ]
            # Relax takes any function of one input for a reshape until it sees a block.
            with T.sblock("root") if len(arguments) - self._results == 1 else nullcontext():
                yield tuple(
                    T.decl_buffer((size,), dtype, data=argument.data) for argument, size, dtype in arguments
                )

    def __enter__(self) -> tuple[Buffer, ...]:
        self._context = self._emit()
        return self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def result(self) -> PrimFunc:
        """The finished PrimFunc."""
        return self._builder.get()
