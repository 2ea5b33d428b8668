"""Small builders over TVM's IR builder that all kernels share: vectors, arguments, epilogue.

TVM objects are untyped and appear as ``Any``. An index or an extent may be a Python int or an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from kernels.layout import PLAIN, Layouts, stored_shape
from kernels.workload import Workload

F32 = "float32"


def index(value: Any) -> Any:
    """``value`` as a 32-bit index expression."""
    return tirx.const(value, "int32") if isinstance(value, int) else value


def number(value: float) -> Any:
    """A float32 constant."""
    return tirx.const(float(value), F32)


def vector(start: Any, lanes: int) -> Any:
    """The index of ``lanes`` consecutive elements from ``start``."""
    return tirx.Ramp(index(start), index(1), lanes) if lanes > 1 else index(start)


def splat(value: Any, lanes: int) -> Any:
    """``value`` in every one of ``lanes`` lanes."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def zeros(lanes: int) -> Any:
    """A vector of zeros."""
    return splat(number(0.0), lanes)


def least(one: Any, other: Any) -> Any:
    """The smaller of two indices, folded when both are known."""
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return tirx.Min(index(one), index(other))


def most(one: Any, other: Any) -> Any:
    """The larger of two indices, folded when both are known."""
    if isinstance(one, int) and isinstance(other, int):
        return max(one, other)
    return tirx.Max(index(one), index(other))


def store(buffer: Any, value: Any, at: Any) -> None:
    """``buffer[at] = value``."""
    T.buffer_store(buffer, value, [at])


def scratch(elements: int) -> Any:
    """A flat float32 workspace in memory."""
    return T.alloc_buffer((elements,), F32)


def registers(elements: int) -> Any:
    """A flat float32 buffer that lives in registers as long as every index into it is constant."""
    # Else TVM takes it from its workspace: two calls around each micro-kernel, and spills in some.
    on_stack = {"disable_lower_builtin": True}
    return T.alloc_buffer((elements,), F32, scope="local", annotations=on_stack)


def loop(extent: Any, threads: int = 1) -> Any:
    """A loop over ``range(extent)``, parallel when ``threads`` is above one."""
    return (T.parallel if threads > 1 else T.serial)(0, extent)


@contextmanager
def when(condition: Any) -> Iterator[None]:
    """``with when(condition): emit`` puts what is emitted under a condition, or under none when None."""
    if condition is None:
        yield
        return
    with T.If(condition), T.Then():
        yield


def choose(condition: Any, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """Emit ``then`` where ``condition`` holds and ``otherwise`` elsewhere; only ``then`` when None."""
    if condition is None:
        then()
        return
    with T.If(condition):
        with T.Then():
            then()
        with T.Else():
            otherwise()


@dataclass(frozen=True)
class Arguments:
    """A kernel function's buffers, all flat; ``bias`` and ``residual`` are None when there is none."""

    workload: Workload
    data: Any
    weights: Any
    bias: Any
    residual: Any
    out: Any

    def finish(self, value: Any, at: Any, lanes: int) -> Any:
        """``value`` with the epilogue's residual (read at element ``at`` of the output) and clamp applied.

        The bias is not added here: kernels start their accumulators from it.
        """
        if self.residual is not None:
            value = value + self.residual[vector(at, lanes)]
        low, high = self.workload.epilogue.clamp or (None, None)
        if low is not None:
            value = tirx.Max(value, splat(number(low), lanes))
        if high is not None:
            value = tirx.Min(value, splat(number(high), lanes))
        return value

    def store_out(self, value: Any, at: Any, lanes: int) -> None:
        """Store ``finish(value)`` to ``lanes`` elements of the output from ``at``."""
        store(self.out, self.finish(value, at, lanes), vector(at, lanes))


class Function:
    """A PrimFunc being built: ``with Function(...) as args: emit``; then ``result()``.

    Marked as scheduled, so that Relax's default schedules leave it alone.
    """

    def __init__(self, workload: Workload, name: str, packed_length: int, layouts: Layouts = PLAIN) -> None:
        self._workload, self._name, self._packed_length = workload, name, packed_length
        self._layouts = layouts
        self._builder = IRBuilder()

    @contextmanager
    def _emit(self) -> Iterator[Arguments]:
        with self._builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            T.func_attr({"tirx.noalias": True, "global_symbol": self._name, "tirx.is_scheduled": True})
            yield self._arguments()

    def __enter__(self) -> Arguments:
        self._context = self._emit()
        return self._context.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def result(self) -> Any:
        """The finished PrimFunc."""
        return self._builder.get()

    def _arguments(self) -> Arguments:
        workload = self._workload
        data, out = workload.data_shape, workload.out_shape
        if self._layouts != PLAIN:
            data, out = stored_shape(self._layouts.data, data), stored_shape(self._layouts.out, out)
        shapes: dict[str, tuple[int, ...]] = {"data": data, "weights": (self._packed_length,)}
        if workload.epilogue.bias:
            shapes["bias"] = (workload.bias_length,)
        if workload.epilogue.residual:
            shapes["residual"] = out
        shapes["out"] = out
        # TVM wants every argument before the first declaration.
        arguments = {name: T.arg(name, T.Buffer(shape, F32)) for name, shape in shapes.items()}
        flat = {name: _flat(buffer, shapes[name]) for name, buffer in arguments.items()}
        return Arguments(
            workload, flat["data"], flat["weights"], flat.get("bias"), flat.get("residual"), flat["out"]
        )


def _flat(buffer: Any, shape: tuple[int, ...]) -> Any:
    elements = 1
    for extent in shape:
        elements *= extent
    return T.decl_buffer((elements,), F32, data=buffer.data)
