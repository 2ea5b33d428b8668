"""Where the greatest element of each window lies, the first of several: the second result of MaxPool."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from onnx import NodeProto
from tvm import te, tirx

from compiler.ir.graph import OnnxGraph, attributes_of


def places(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. Places count through the whole array, as int64."""
    attributes, shape = attributes_of(node), graph.tensors[node.input[0]].shape
    size, out = shape[2:], graph.tensors[node.output[0]].shape
    rank = len(size)
    windows = list(
        zip(attributes["kernel_shape"], attributes["strides"], attributes["dilations"], strict=True)
    )
    pads = attributes["pads"]

    def compute(data: Any) -> Any:
        def near(at: Sequence[Any], taps: Sequence[Any]) -> tuple[Any, list[Any], Any]:
            """(whether it is inside, where, its place in the plane)."""
            spots = [
                at[2 + axis] * step + taps[axis] * spread - pads[axis]
                for axis, (_, step, spread) in enumerate(windows)
            ]
            inside = tirx.all(*(tirx.all(spot >= 0, spot < size[axis]) for axis, spot in enumerate(spots)))
            place = spots[0]
            for axis in range(1, rank):
                place = place * size[axis] + spots[axis]
            return inside, spots, place

        def taps(name: str) -> list[Any]:
            return [te.reduce_axis((0, taps), f"{name}{axis}") for axis, (taps, _, _) in enumerate(windows)]

        first, second = taps("k"), taps("j")
        least, nowhere = te.min_value(data.dtype), tirx.const(prod(size), "int32")

        def best(*at: Any) -> Any:
            inside, spots, _ = near(at, first)
            return te.max(tirx.if_then_else(inside, data(*at[:2], *spots), least), axis=first)

        most = te.compute(out, best, name="best")

        def where(*at: Any) -> Any:
            inside, spots, place = near(at, second)
            found = tirx.if_then_else(inside, data(*at[:2], *spots).equal(most(*at)), False)
            return te.min(tirx.if_then_else(found, place.astype("int32"), nowhere), axis=second)

        spot = te.compute(out, where, name="place")

        def result(*at: Any) -> Any:
            plane = (at[0] * shape[1] + at[1]).astype("int64")
            return plane * tirx.const(prod(size), "int64") + spot(*at).astype("int64")

        return te.compute(out, result, name="result")

    return builder.emit(builder.call_te(compute, inputs[0], primfunc_name_hint="max_places"))
