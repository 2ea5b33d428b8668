"""Indices are looked at before anything is read by them; the run ends where one is not within its bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto
from tvm import relax, tirx

from compiler.analysis.bounds import Bound, Limits, bound_of, needs, origin
from compiler.analysis.intervals import Intervals
from compiler.ir.graph import OnnxGraph
from compiler.lower.operators.functions import Functions, name_of
from kernels.loops.open import LENGTH, shapes_of
from kernels.loops.program import NoLoops
from kernels.open_size import Size, expression, size_through
from kernels.operators.bounds import Bounds, build_bounds

BOUNDS = "tilefleet_bounds_"
"""What the functions are called that look; a hash follows."""
ATTRIBUTE = "tilefleet.bounds"
"""Of such a function: of each array its limits and who needs what, as JSON."""


class Looking:
    """What is emitted of a ``graph`` for its nodes to be given nothing but what is within bounds.

    Indices that are inputs of the graph are all looked at by one function, before everything else, as a call
    of TVM's machine takes longer than that. Others are looked at before their node.
    """

    def __init__(self, builder: Any, graph: OnnxGraph, functions: Functions) -> None:
        self._builder, self._graph, self._functions = builder, graph, functions
        self._intervals = Intervals(graph)
        self._bounds: dict[str, Bound] = {}
        self._zero: dict[tuple[str, Limits], Any] = {}

    def begin(self, inputs: Mapping[str, Any]) -> None:
        """Look at the ``inputs``, values by their names."""
        first: dict[tuple[str, Limits], Bound] = {}
        for node in self._graph.nodes:
            bound = bound_of(self._graph, node, self._intervals)
            if bound is None:
                continue
            self._bounds[node.output[0]] = bound
            if (source := origin(self._graph, bound)) in inputs:
                first.setdefault((source, bound.limits), bound)
        if first:
            values = [inputs[name] for name, _ in first]
            zero = self._emit([*first.values()], [name for name, _ in first], values)
            self._zero = dict.fromkeys(first, zero)

    def at(self, node: NodeProto, values: Mapping[str, Any]) -> dict[str, Any]:
        """What ``node`` may read by in the place of its indices, by their name; empty where these are within
        bounds anyway."""
        bound = self._bounds.get(node.output[0])
        if bound is None:
            return {}
        places, key = values[bound.name], (bound.name, bound.limits)
        early = (origin(self._graph, bound), bound.limits)
        zero = self._zero.get(early, self._zero.get(key))
        if zero is None:
            zero = self._zero[key] = self._emit([bound], [bound.name], [places])
        # Nobody but that function knows that it is zero, so nothing is read before that has returned.
        dtype = self._graph.tensors[bound.name].dtype
        nothing = zero if dtype == "int64" else relax.op.astype(zero, dtype)
        return {bound.name: self._builder.emit(relax.op.add(places, nothing))}

    def _emit(self, bounds: Sequence[Bound], names: Sequence[str], values: Sequence[Any]) -> Any:
        arrays = []
        for bound, name in zip(bounds, names, strict=True):
            info = self._graph.tensors[name]
            arrays.append(_array_of(info.shape, info.dtype, bound.limits, _needs(bound)))
        told = json.dumps([[bound.limits, _needs(bound)] for bound in bounds])

        def make(name: str) -> Any:
            return build_bounds(arrays, name).with_attr(ATTRIBUTE, told)

        word = BOUNDS.removeprefix("tilefleet_").rstrip("_")
        function = self._functions.get(self._builder, name_of(word, arrays), make)
        return self._builder.emit(relax.call_tir(function, list(values), relax.TensorType((), "int64")))


def bounded(_builder: Any, _graph: OnnxGraph, _node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``: what a node that needs bounds is given has been looked at already."""
    return inputs[0]


def _needs(bound: Bound) -> str:
    return f"{bound.who} needs {bound.what}"


def _array_of(shape: Sequence[int], dtype: str, limits: Limits, who: str) -> Bounds:
    return Bounds(tuple(shape), dtype, limits, tuple(f"{who} {needs(low, high)}" for low, high in limits))


def open_bounds(
    functions: Sequence[Any], lengths: Sequence[int], lie: Sequence[tuple[Size, ...]], name: str
) -> Any:
    """The function ``name`` that looks for any length as ``functions`` do at ``lengths``; arrays ``lie`` in
    shapes of open sizes. Raises NoLoops where these do not grow with the length."""
    length = tirx.Var(LENGTH, "int64")
    shapes = [*shapes_of(lie, length).values()]
    told = [json.loads(str(function.attrs[ATTRIBUTE])) for function in functions]
    arrays = []
    for at, alike in enumerate(zip(*told, strict=True)):
        limits, texts = [], []
        for pairs in zip(*(limits for limits, _ in alike), strict=True):
            low, high = (_size(ends, lengths) for ends in zip(*pairs, strict=True))
            limits.append((expression(low, length), expression(high, length)))
            texts.append(f"{alike[-1][1]} {needs(_text(low), _text(high))}")
        dtype = str(functions[-1].params[at].dtype)
        arrays.append(Bounds(shapes[at], dtype, tuple(limits), tuple(texts)))
    return build_bounds(arrays, name)


def _size(values: Sequence[int], lengths: Sequence[int]) -> Size:
    size = size_through(values, lengths)
    if size is None:
        raise NoLoops("an axis that is read from does not grow with the open size")
    return size


def _text(size: Size) -> int | str:
    """A size, in messages."""
    if isinstance(size, int):
        return size
    product = {1: "n", -1: "-n"}.get(size.factor, f"{size.factor} n")
    return product + (f" {'-' if size.more < 0 else '+'} {abs(size.more)}" if size.more else "")
