"""Ensembles of trees, by a function of ours (``kernels/operators/trees.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto
from tvm import relax

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.functions import Functions, name_of
from kernels.operators.trees import Trees, build_trees


def trees(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. Raises ModelError where a node asks for a column that the data do not have."""
    data, out = (graph.tensors[name] for name in (node.input[0], node.output[0]))
    roots, records, _, signs, values, targets = node.input[2:]
    if len(data.shape) != 2:
        raise ModelError(f"node {node_name(node)!r} takes rows of numbers, not data of {list(data.shape)}")
    last = int(graph.constants[records][:, 0].max())
    if last >= data.shape[1]:
        raise ModelError(
            f"node {node_name(node)!r} has trees that ask for column {last} of data of {data.shape[1]} "
            "columns"
        )
    said = attributes_of(node)
    operator = said["operator"].decode()
    it = Trees(
        *data.shape,
        trees=graph.tensors[roots].shape[0],
        nodes=graph.tensors[records].shape[0],
        leaves=graph.tensors[values].shape[0],
        results=out.shape[1],
        dtype=out.dtype,
        below=operator.startswith("Less"),
        equal=operator.endswith("OrEqual"),
        signed=bool(signs),
        how=said["how"].decode(),
        single=bool(targets),
    )
    function = Functions().get(builder, name_of("trees", it), lambda name: build_trees(it, name))
    given = [value for at, value in enumerate(inputs) if at != 1 and node.input[at]]
    return builder.emit(relax.call_tir(function, given, relax.TensorType(out.shape, out.dtype)))
