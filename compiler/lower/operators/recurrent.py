"""LSTM, GRU and RNN in one direction, as ``compiler/passes/legalize/recurrent.py`` writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import NodeProto
from tvm import relax

from compiler.ir.graph import Array, OnnxGraph, attributes_of
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions, function_name, name_of
from kernels import registry
from kernels.operators.cells import Cell
from kernels.operators.recurrent.recurrence import Recurrence, overlaps, pack_inputs, pack_recurrent
from kernels.operators.recurrent.steps import build_recurrent
from kernels.target import Target
from kernels.workload.base import Gemm
from kernels.workload.epilogue import Epilogue


def recurrent(
    builder: Any,
    functions: Functions,
    graph: OnnxGraph,
    node: NodeProto,
    inputs: Sequence[Any],
    target: Target,
) -> list[Any]:
    """The results of ``node`` for its ``inputs`` (Relax values)."""
    it, data = _recurrence(graph, node), inputs[0]
    known = graph.constants.get(node.input[1])
    if known is None:
        weights = _packed(builder, it, inputs[1], graph.tensors[node.input[1]].shape, target)
    else:
        weights = constant(pack_recurrent(it, known, target))
    others = [value for value in inputs[2:] if value is not None]
    if it.width and not it.lengths and not overlaps(target):
        *others, _, bias = others
        data = _multiplied(builder, functions, it, data, graph.constants[node.input[-2]], bias, target)
        it = replace(it, width=0)
    elif it.width:
        others[-2] = constant(pack_inputs(it, graph.constants[node.input[-2]], target))
    values = [data, weights, *others]
    function = functions.get(
        builder, name_of("recurrent", it), lambda name: build_recurrent(it, target, name)
    )
    count = 3 if it.kind == "LSTM" else 2
    shapes = list(it.shapes(target).values())[-count:]
    types = [relax.TensorType(shape, "float32") for shape in shapes]
    made = builder.emit(relax.call_tir(function, values, types))
    return [builder.emit(relax.TupleGetItem(made, place)) for place in range(count)]


def _multiplied(
    builder: Any, functions: Functions, it: Recurrence, data: Any, weights: Array, bias: Any, target: Target
) -> Any:
    """The product of the data of one row, and its bias, by itself: as the analysis has it."""
    workload = Gemm(it.steps, len(weights), it.width, epilogue=Epilogue(bias=True))
    config = registry.recommendations(workload, target)[0]
    kernel = registry.kernel(config.kernel)
    packed = kernel.pack(workload, config, target, np.ascontiguousarray(weights.T)).astype(np.float32)
    lines = builder.emit(relax.op.reshape(data, workload.data_shape))
    function = functions.get(
        builder,
        function_name(workload, config),
        lambda name: kernel.build(workload, config, target, 1, name),
    )
    made = relax.call_tir(
        function, [lines, constant(packed), bias], relax.TensorType(workload.out_shape, "float32")
    )
    return builder.emit(relax.op.reshape(builder.emit(made), (it.steps, 1, len(weights))))


def _packed(builder: Any, it: Recurrence, weights: Any, shape: tuple[int, ...], target: Target) -> Any:
    """Weights that are computed, in the order in which they are read: a zero before them fills the gaps."""
    places = np.arange(1, math.prod(shape) + 1, dtype=np.int32).reshape(shape)
    flat = relax.op.reshape(weights, (math.prod(shape),))
    line = relax.op.concat([constant(np.zeros(1, np.float32)), builder.emit(flat)], axis=0)
    return builder.emit(relax.op.take(builder.emit(line), constant(pack_recurrent(it, places, target)), 0))


def _recurrence(graph: OnnxGraph, node: NodeProto) -> Recurrence:
    attributes, weights = attributes_of(node), graph.tensors[node.input[1]]
    steps, batch, width = graph.tensors[node.input[0]].shape
    names = [name.decode() for name in attributes["cells"]]
    factors = zip(names, attributes["alphas"], attributes["betas"], strict=True)
    return Recurrence(
        kind=attributes["kind"].decode(),
        steps=steps,
        batch=batch,
        hidden=weights.shape[1],
        cells=tuple(Cell(*each) for each in factors),
        reverse=bool(attributes["reverse"]),
        clip=attributes.get("clip"),
        cell_clip=attributes.get("cell_clip"),
        reset_after=bool(attributes["reset_after"]),
        coupled=bool(attributes["coupled"]),
        peepholes=bool(attributes["peepholes"]),
        whole=None if weights.dtype == "float32" else weights.dtype,
        lengths=bool(attributes["lengths"]),
        width=width if attributes["product"] else 0,
    )
