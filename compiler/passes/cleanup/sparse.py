"""Sparse constants become dense ones before anything else reads the model."""

from __future__ import annotations

import math

import numpy as np
from onnx import ModelProto, SparseTensorProto, TensorProto, helper, numpy_helper

from compiler.ir.checks import ModelError, check_size, check_tensor, graphs_of, node_name


def make_dense(model: ModelProto) -> None:
    """Write sparse initializers and Constants of ``model`` densely, in place; ModelError for damaged ones."""
    graphs = list(graphs_of(model.graph))
    for graph in graphs:
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            graph.initializer.append(_dense(sparse, name, f"sparse initializer {name!r}"))
        del graph.sparse_initializer[:]
    for nodes in (*(graph.node for graph in graphs), *(function.node for function in model.functions)):
        for node in nodes:
            sparse = [each for each in node.attribute if each.name == "sparse_value"]
            if node.op_type != "Constant" or not sparse:
                continue
            value = _dense(sparse[0].sparse_tensor, "", f"the sparse tensor of node {node_name(node)!r}")
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("value", value))


def _dense(sparse: SparseTensorProto, name: str, where: str) -> TensorProto:
    shape = tuple(sparse.dims)
    if sparse.values.data_type in (TensorProto.STRING, TensorProto.UNDEFINED):
        raise ModelError(f"{where} has no numbers")
    if sparse.indices.data_type != TensorProto.INT64:
        raise ModelError(f"{where} has indices that are no int64")
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{where} has a negative dimension: {list(shape)}")
    for part in (sparse.values, sparse.indices):
        check_tensor(part, where)
    values, indices = (numpy_helper.to_array(part) for part in (sparse.values, sparse.indices))
    check_size(math.prod(shape) * values.itemsize, where, shape)
    wanted = ((values.size,), (values.size, len(shape)))
    if values.ndim != 1 or indices.shape not in wanted:
        raise ModelError(
            f"{where} of {len(shape)} axes has values of {list(values.shape)} and indices of "
            f"{list(indices.shape)}"
        )
    extents = np.array(shape if indices.ndim == 2 else math.prod(shape))
    if ((indices < 0) | (indices >= extents)).any():
        raise ModelError(f"{where} has indices outside of {list(shape)}")
    result = np.zeros(shape, values.dtype)
    if indices.ndim == 2:
        result[tuple(indices.T)] = values
    else:
        result.reshape(-1)[indices] = values
    return numpy_helper.from_array(result, name)
