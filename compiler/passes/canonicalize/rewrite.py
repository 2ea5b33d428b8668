"""Rewrites that leave fewer kinds of nodes to think about: they change names and operators, never results."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, TensorInfo, attributes_of, is_quantized_constant


def rewrite(graph: OnnxGraph) -> None:
    """Drop nodes that do nothing; write Gemm as MatMul and Add, Sum as Add."""
    for step in (_drop_identities, _split_sums, _split_gemms):
        graph.nodes = [new for node in graph.nodes for new in step(graph, node)]
        if step is _drop_identities:
            _bypass(graph)


def _drop_identities(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    if (
        node.op_type == "CastLike"
        and node.input[0] in graph.constants
        and node.output[0] not in graph.outputs
    ):
        kind = helper.tensor_dtype_to_np_dtype(graph.tensors[node.input[1]].elem_type)
        graph.constants[node.output[0]] = graph.constants[node.input[0]].astype(kind)
        return []
    if _never_chooses(graph, node) and node.output[0] not in graph.outputs:
        return [helper.make_node("Identity", [node.input[2]], [node.output[0]])]
    if _does_nothing(graph, node) and node.output[0] not in graph.outputs:
        return [helper.make_node("Identity", [node.input[0]], [node.output[0]])]
    return [node]


def _does_nothing(graph: OnnxGraph, node: NodeProto) -> bool:
    if node.op_type == "Dropout":
        readers = graph.consumers() if len(node.output) > 1 else {}
        training = len(node.input) > 2 and node.input[2]
        mask_used = any(name in readers or name in graph.outputs for name in node.output[1:])
        constant_off = training in graph.constants and not graph.constants[str(training)].any()
        return not mask_used and (not training or constant_off)
    if node.op_type == "Cast" and node.output[0] in graph.tensors:
        return graph.tensors[node.input[0]].elem_type == graph.tensors[node.output[0]].elem_type
    return node.op_type == "Identity" or (node.op_type == "Sum" and len(node.input) == 1)


def _never_chooses(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether a Where is its last operand."""
    if (
        node.op_type != "Where"
        or node.input[0] not in graph.constants
        or graph.constants[node.input[0]].any()
    ):
        return False
    return graph.tensors[node.input[2]] == graph.tensors[node.output[0]]


def _bypass(graph: OnnxGraph) -> None:
    """Let the readers of an identity read what it reads."""
    source: dict[str, str] = {}
    kept: list[NodeProto] = []
    for node in graph.nodes:
        for position, name in enumerate(node.input):
            node.input[position] = source.get(name, name)
        if node.op_type == "Identity" and node.output[0] not in graph.outputs:
            source[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    graph.nodes = kept


def _split_sums(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    if node.op_type != "Sum" or len(node.input) < 2:
        return [node]
    nodes, total = [], node.input[0]
    for position, name in enumerate(node.input[1:], start=1):
        last = position == len(node.input) - 1
        output = node.output[0] if last else graph.fresh(f"{node.output[0]}/sum{position}")
        if not last:
            shapes = (graph.tensors[total].shape, graph.tensors[name].shape)
            info = TensorInfo(np.broadcast_shapes(*shapes), graph.tensors[name].elem_type)
            graph.tensors[output] = info
        nodes.append(helper.make_node("Add", [total, name], [output], name=node_name(node)))
        total = output
    return nodes


def _split_gemms(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    """Gemm as [Transpose,] MatMul[, Add]; alpha and beta go into constants, or the node stays as it is."""
    if node.op_type != "Gemm":
        return [node]
    if node.input[1] not in graph.constants:
        return [node] if _by_quanta(graph, node) else _split_gemm_of_activations(graph, node)
    attributes = attributes_of(node)
    addend = node.input[2] if len(node.input) > 2 else ""
    beta, alpha = attributes.get("beta", 1.0), attributes.get("alpha", 1.0)
    if addend and beta != 1.0 and addend not in graph.constants:
        return [node]
    name, output, data = node_name(node), node.output[0], node.input[0]
    info = graph.tensors[data]
    nodes: list[NodeProto] = []
    if attributes.get("transA", 0):
        turned = graph.fresh(f"{output}/transposed")
        graph.tensors[turned] = TensorInfo(info.shape[::-1], info.elem_type)
        nodes.append(helper.make_node("Transpose", [data], [turned], name=name, perm=[1, 0]))
        data = turned
    weights = graph.constants[node.input[1]]
    weights = weights.T if attributes.get("transB", 0) else weights
    if alpha != 1.0:
        weights = (weights * np.asarray(alpha, weights.dtype)).astype(weights.dtype)
    factor = graph.constant(f"{output}/weights", weights)
    product = graph.fresh(f"{output}/product") if addend else output
    graph.tensors[product] = TensorInfo(graph.tensors[output].shape, info.elem_type)
    nodes.append(helper.make_node("MatMul", [data, factor], [product], name=name))
    if addend:
        if beta != 1.0:
            value = graph.constants[addend]
            scaled = (value * np.asarray(beta, value.dtype)).astype(value.dtype)
            addend = graph.constant(f"{output}/bias", scaled)
        nodes.append(helper.make_node("Add", [product, addend], [output], name=name))
    return nodes


def _by_quanta(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether the factor is a quantized constant: these products are found as they stand."""
    makers = (each for each in graph.nodes if each.output[0] == node.input[1])
    return any(is_quantized_constant(each, graph.constants) for each in makers)


def _split_gemm_of_activations(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    """The same where both factors are computed; what alpha and beta scale is computed too."""
    info = graph.tensors[node.output[0]]
    if info.dtype != "float32":
        return [node]
    attributes = attributes_of(node)
    name, output, nodes = node_name(node), node.output[0], []

    def add(op: str, inputs: list[str], shape: tuple[int, ...], **more: Any) -> str:
        made = graph.fresh(f"{output}/{op}")
        graph.tensors[made] = TensorInfo(shape, info.elem_type)
        nodes.append(helper.make_node(op, inputs, [made], name=name, **more))
        return made

    def scaled(tensor: str, factor: float) -> str:
        if factor == 1.0:
            return tensor
        constant = graph.constant(f"{output}/factor", np.array(factor, np.float32))
        return add("Mul", [tensor, constant], graph.tensors[tensor].shape)

    factors = [
        add("Transpose", [factor], graph.tensors[factor].shape[::-1], perm=[1, 0])
        if attributes.get(turned, 0)
        else factor
        for factor, turned in zip(node.input[:2], ("transA", "transB"), strict=True)
    ]
    result = scaled(add("MatMul", factors, info.shape), attributes.get("alpha", 1.0))
    if len(node.input) > 2 and node.input[2]:
        result = add("Add", [result, scaled(node.input[2], attributes.get("beta", 1.0))], info.shape)
    nodes[-1].output[0] = output
    return nodes
