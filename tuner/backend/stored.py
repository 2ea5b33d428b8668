"""Tensors of a model in Relax, in the layouts that a plan gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from compiler.ir.graph import Array, OnnxGraph
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions
from compiler.lower.operators.layouts import Generated
from kernels.layout import NCHW, block_of, stored_shape, to_layout
from kernels.operators.relayout import build_relayout, is_free
from kernels.target import Target
from tuner.layouts.plan import Plan


class StoredTensors:
    """The activations made so far, each in the layouts in which it is there."""

    def __init__(self, graph: OnnxGraph, plan: Plan, target: Target, threads: int, builder: Any) -> None:
        self._graph, self._plan, self._target, self._threads = graph, plan, target, threads
        self._builder, self._functions = builder, Functions()
        self._values: dict[tuple[str, str], Any] = {}

    def put(self, name: str, layout: str, value: Any) -> None:
        """Keep ``value`` as what ``name`` is in ``layout``."""
        self._values[name, layout] = value

    def made(self, name: str) -> bool:
        """Whether ``name`` is there by now, in any layout."""
        state = self._plan.states.get(name)
        return state is not None and (name, state.written) in self._values

    def get(self, name: str, layout: str) -> Any:
        """Tensor ``name`` in ``layout``, converted at its first use where the plan has that."""
        if (name, layout) not in self._values:
            state = self._plan.states[name]
            if layout not in state.converted:
                raise AssertionError(f"the plan has {name} in {state}, not in {layout}")
            value = self._values[name, state.written]
            shape = self._graph.tensors[name].shape
            self.put(name, layout, self._converted(value, shape, state.written, layout))
        return self._values[name, layout]

    def generated(self, function: Generated, values: list[Any], layout: str) -> Any:
        """The result of ``function`` for ``values``, all stored in ``layout``."""
        return self._call(
            function.name(layout),
            lambda name: function.build(layout, self._target, self._threads, name),
            values,
            # NCHW is also the word for arrays of other ranks.
            function.out_shape if layout == NCHW else stored_shape(layout, function.out_shape),
        )

    def _converted(self, value: Any, shape: tuple[int, ...], source: str, to: str) -> Any:
        stored = stored_shape(to, shape)
        if is_free(shape, source, to):
            return self._builder.emit(relax.op.reshape(value, stored))
        return self._call(
            "_".join(map(str, ["tilefleet", source, "to", to, *shape])),
            lambda name: build_relayout(shape, source, to, self._target, self._threads, name),
            [value],
            stored,
        )

    def _call(self, name: str, make: Callable[[str], Any], values: list[Any], shape: tuple[int, ...]) -> Any:
        """The result of the function of ours called ``name``."""
        function = self._functions.get(self._builder, name, make)
        return self._builder.emit(relax.call_tir(function, values, relax.TensorType(shape, "float32")))


def constant_operand(value: Array, layout: str) -> Any:
    """A constant of an elementwise operator as it meets activations in ``layout``."""
    if value.size == 1:
        # TVM sets in a number without axes, and takes all that is times zero for zero.
        return constant(value.reshape(() if value.any() else 1))
    image = value.reshape((1,) * (4 - value.ndim) + value.shape)
    if block_of(layout) is not None and image.shape[1] == 1:
        return constant(image[..., np.newaxis])  # the same for all channels
    return constant(to_layout(image, layout))
