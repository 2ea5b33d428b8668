"""Form products: a convolution or matrix product and what its kernel computes along become one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from onnx import NodeProto, helper

from compiler.analysis.geometry import conv_of, upright
from compiler.analysis.operations import operations
from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array, OnnxGraph
from compiler.ir.not_tunable import NotTunable
from compiler.ir.own_nodes import ATTENTION, MATMUL, OPERATOR, PRODUCT
from compiler.ir.partition import Partition, Product, QuantizedProduct
from compiler.passes.contractions import merge_matmuls
from compiler.passes.contractions.workloads import attention_of, matmul_of
from compiler.passes.epilogues.epilogue import Chain, Wiring
from compiler.passes.epilogues.squeeze import factored
from compiler.passes.precision.narrow import Quanta, narrowed
from compiler.passes.quantize.rewriting import Rewriting
from kernels.workload.base import Conv2d, Epilogue, Gemm, OfActivations

OTHER_PRODUCTS = {
    "ConvInteger": "integer convolution",
    "QLinearConv": "quantized convolution",
    "MatMulInteger": "integer matrix product",
    "QLinearMatMul": "quantized matrix product",
    "Einsum": "einsum",
    "Attention": "attention",
}


def form_products(result: Partition, quantized: Rewriting, quanta: Mapping[str, Quanta], wide: bool) -> None:
    """Replace every product by one node, at the place of the last node that it takes in.

    ``quantized`` has the products and operators of bytes that were found before. Weights that are narrower in
    the file (``quanta``) stay so where products have few rows, unless all are to be ``wide``.
    """
    graph = result.graph
    wiring = Wiring.of(graph)
    refused: dict[str, NotTunable] = {}
    taken: set[str] = set()
    replacement: dict[str, NodeProto] = {}
    for node in graph.nodes:
        first_output = node.output[0]
        if first_output in taken:
            continue
        if node.op_type == PRODUCT:
            node.attribute.append(helper.make_attribute("index", len(result.products)))
            result.products.append(_quantized(quantized.products[first_output]))
            continue
        if node.op_type == OPERATOR:
            node.attribute.append(helper.make_attribute("index", len(result.operators)))
            result.operators.append(quantized.operators[first_output])
            continue
        found = quantized.reasons.get(first_output) or _product(graph, node)
        if found is None:
            continue
        if isinstance(found, str):
            left_to = operations(graph, node)
            refused[first_output] = NotTunable(node_name(node), node.op_type, found, left_to)
            continue
        squeezed = factored(graph, found.workload, found.data, wiring)
        if squeezed is not None and found.data not in taken:
            taken.add(found.data)
            found.data, found.factors = squeezed
        chain = Chain(graph, node, channel_axis=1 if isinstance(found.workload, Conv2d) else -1)
        chain.add_bias(found.bias)
        chain.extend(wiring, taken)
        product = _finish(found, chain)
        if not wide:
            product = _as_narrow(product, quanta.get(node_name(node)))
        taken.update(chained.output[0] for chained in chain.nodes)
        inputs = [name for name in (product.data, product.residual, product.factors) if name]
        replacement[chain.output] = helper.make_node(
            PRODUCT, inputs, [chain.output], name=product.nodes[0], index=len(result.products)
        )
        result.products.append(product)
    _replace(graph, taken, replacement)
    merge_matmuls(graph)
    _take_activations(result)
    left = {node.output[0] for node in graph.nodes if node.op_type != PRODUCT}
    result.not_tunable = [each for output, each in refused.items() if output in left]


def _take_activations(partition: Partition) -> None:
    """Make products of the nodes that multiply activations."""
    graph = partition.graph
    for at, node in enumerate(graph.nodes):
        if node.op_type not in (MATMUL, ATTENTION):
            continue
        workload: OfActivations
        workload, names = matmul_of(graph, node) if node.op_type == MATMUL else attention_of(graph, node)
        graph.nodes[at] = helper.make_node(
            PRODUCT, names, node.output, name=node.name, index=len(partition.products)
        )
        data, *others = names
        nothing = np.zeros(0, np.float32)
        partition.products.append(
            Product(
                workload,
                (node.name,),
                data,
                None,
                node.output[0],
                nothing,
                None,
                None,
                others=tuple(others),
            )
        )


def _replace(graph: OnnxGraph, taken: set[str], replacement: dict[str, NodeProto]) -> None:
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        if node.output[0] in replacement:
            nodes.append(replacement[node.output[0]])
        elif node.output[0] not in taken:
            nodes.append(node)
    graph.nodes = nodes
    used = {name for node in nodes for name in node.input} | set(graph.outputs)
    graph.constants = {name: value for name, value in graph.constants.items() if name in used}


def _quantized(product: QuantizedProduct) -> Product:
    return Product(
        workload=product.workload,
        nodes=product.nodes,
        data=product.data,
        residual=None,
        output=product.output,
        raw_weights=product.constants[0],
        scale=None,
        bias=None,
        constants=product.constants,
        others=product.others,
    )


def _finish(product: Product, chain: Chain) -> Product:
    assert isinstance(product.workload, Conv2d | Gemm)  # the others have an epilogue of their own
    epilogue = Epilogue(
        chain.shift is not None, chain.residual is not None, chain.clamp, chain.activation, chain.late
    )
    return Product(
        workload=replace(product.workload, epilogue=epilogue),
        nodes=tuple(dict.fromkeys(node_name(node) for node in chain.nodes)),
        data=product.data,
        residual=chain.residual,
        output=chain.output,
        raw_weights=product.raw_weights,
        scale=chain.scale,
        bias=None if chain.shift is None else chain.shift.astype(np.float32),
        slope=chain.slope,
        factors=product.factors,
    )


def _as_narrow(product: Product, quanta: Quanta | None) -> Product:
    """The product by weights as narrow as the file has them, where few rows make that worth while."""
    if not isinstance(product.workload, Gemm) or product.scale is not None:
        return product
    found = narrowed(product.workload, product.raw_weights, quanta)
    return product if found is None else replace(product, workload=found[0], constants=found[1])


def _product(graph: OnnxGraph, node: NodeProto) -> Product | str | None:
    """The bare product at ``node``, why there is no kernel for it, or None when it is no product at all."""
    if node.op_type in OTHER_PRODUCTS:
        return f"no kernel for this operator: {OTHER_PRODUCTS[node.op_type]}"
    if node.op_type not in ("Conv", "MatMul", "Gemm"):
        return None
    data, weights = node.input[0], graph.constants.get(node.input[1])
    dtype = graph.tensors[data].dtype
    if dtype != "float32":
        return f"no kernel for {dtype}: kernels compute float32"
    if weights is None:
        return (
            "its weights are computed, not constant"
            if node.op_type == "Conv"
            else _matmul_reason(graph, node)
        )
    if data in graph.constants:
        return "its activations are constant"
    if node.op_type == "Gemm":
        return "it scales an activation by beta"
    try:
        return (_conv if node.op_type == "Conv" else _matmul)(graph, node, data, weights)
    except ModelError:
        raise
    except ValueError as error:
        return str(error)


def _matmul_reason(graph: OnnxGraph, node: NodeProto) -> str:
    if node.input[0] in graph.constants:
        return "its left operand is the constant one; kernels take constant weights on the right"
    return "both operands are activations"


def _conv(graph: OnnxGraph, node: NodeProto, data: str, weights: Array) -> Product | str:
    bias = graph.constants.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if len(node.input) > 2 and node.input[2] and bias is None:
        return "its bias is computed, not constant"
    workload = conv_of(graph, node, weights.shape)
    if isinstance(workload, str):
        return workload
    if bias is not None and bias.shape != weights.shape[:1]:
        raise ModelError(
            f"shapes do not fit together: Conv {node_name(node)!r} has weights of {list(weights.shape)} "
            f"and a bias of {list(bias.shape)}"
        )
    workload = upright(workload)
    return Product(
        workload, (), data, None, node.output[0], weights.reshape(workload.weight_shape), None, bias
    )


def _matmul(graph: OnnxGraph, node: NodeProto, data: str, weights: Array) -> Product | str:
    shape = graph.tensors[data].shape
    if len(shape) < 2 or weights.ndim < 2:
        return "an operand is a vector"
    if any(extent != 1 for extent in weights.shape[:-2]) or weights.ndim > len(shape):
        return "its weights are a batch of matrices"
    k, n = weights.shape[-2:]
    m = int(np.prod(shape[:-1]))
    return Product(Gemm(m, n, k), (), data, None, node.output[0], weights.reshape(k, n), None, None)
