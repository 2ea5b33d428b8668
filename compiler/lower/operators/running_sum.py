"""CumSum and CumProd, by a function of ours (``kernels/operators/running_sum.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from onnx import NodeProto
from tvm import relax

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.functions import Functions, name_of
from kernels.operators.running_sum import RunningSum, build_running_sum


def running_sum(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. The axis is a constant."""
    info, axis = graph.tensors[node.input[0]], graph.constants[node.input[1]]
    attributes = attributes_of(node)
    along, rank = int(axis.reshape(())), len(info.shape)
    if not -rank <= along < rank:
        raise ModelError(
            f"node {node_name(node)!r} ({node.op_type}) has axis {along} for an array of {rank} axes"
        )
    along %= rank
    sides = prod(info.shape[:along]), info.shape[along], prod(info.shape[along + 1 :])
    exclusive, reverse = (bool(attributes.get(name, 0)) for name in ("exclusive", "reverse"))
    it = RunningSum(*sides, info.dtype, exclusive, reverse, node.op_type == "CumProd")
    function = Functions().get(builder, name_of("running_sum", it), lambda name: build_running_sum(it, name))
    value = builder.emit(relax.op.reshape(inputs[0], sides))
    made = builder.emit(relax.call_tir(function, [value], relax.TensorType(sides, info.dtype)))
    return builder.emit(relax.op.reshape(made, info.shape))
