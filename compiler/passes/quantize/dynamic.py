"""Dynamic quantization: products of data that are quantized at run time, with a computed scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto

from compiler.ir.graph import attributes_of
from compiler.passes.quantize.rewriting import Rewriting, per_axis

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DynamicTail:
    """What makes floats of the sums of a node: ``sum * (step * unit) + addend``, by these ``nodes``.

    ``step`` is the name of one float32; ``unit`` and ``addend`` are float32, one value a filter.
    """

    nodes: tuple[NodeProto, ...]
    step: str
    unit: Array
    addend: Array

    @property
    def output(self) -> str:
        """The floats."""
        return str(self.nodes[-1].output[0])


def dynamic_tail(rewriting: Rewriting, node: NodeProto, filters: int) -> DynamicTail | None:
    """What only the sums of ``node`` go through: Cast, Mul by a computed scale and perhaps Add of a bias.

    Filters are the last axis. None where it is anything else.
    """
    wiring, rank = rewriting.wiring, len(rewriting.graph.tensors[node.output[0]].shape)
    cast = wiring.only_reader(node.output[0])
    if cast is None or cast.op_type != "Cast" or attributes_of(cast)["to"] != TensorProto.FLOAT:
        return None
    scaled = wiring.only_reader(cast.output[0])
    if scaled is None or scaled.op_type != "Mul":
        return None
    found = _scale(rewriting, _other(scaled, cast.output[0]), rank, filters)
    if found is None:
        return None
    step, unit = found
    nodes, addend = [cast, scaled], np.zeros(filters, np.float32)
    reader = wiring.only_reader(scaled.output[0])
    if reader is not None and reader.op_type == "Add":
        bias = _filters(rewriting, _other(reader, scaled.output[0]), rank, filters)
        if bias is not None:
            nodes.append(reader)
            addend = bias
    return DynamicTail(tuple(nodes), step, unit, addend)


def _scale(rewriting: Rewriting, name: str, rank: int, filters: int) -> tuple[str, Array] | None:
    """(the computed part, the constant part) of a scale, if the first is one number that is there by now."""
    unit, writer = np.ones(filters, np.float32), rewriting.wiring.writers.get(name)
    if writer is not None and writer.op_type == "Mul":
        for step in writer.input:
            constant = _filters(rewriting, _other(writer, step), rank, filters)
            if constant is not None:
                name, unit = step, constant
    info = rewriting.graph.tensors.get(name)
    if info is None or info.dtype != "float32" or any(extent != 1 for extent in info.shape):
        return None
    there = name in rewriting.graph.inputs or name in rewriting.graph.constants
    if not there and not any(name in node.output for node in rewriting.nodes):
        return None
    return name, unit


def _filters(rewriting: Rewriting, name: str, rank: int, filters: int) -> Array | None:
    """A float32 constant with one value, or one a filter, as one a filter; None for anything else."""
    constant = rewriting.graph.constants.get(name)
    if constant is None or constant.dtype != np.float32:
        return None
    values = per_axis(constant, rank, rank - 1, filters)
    return None if values is None else np.broadcast_to(values, (filters,)).copy()


def _other(node: NodeProto, name: str) -> str:
    return str(node.input[1] if node.input[0] == name else node.input[0])
