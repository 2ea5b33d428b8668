"""Pairs of convolutions that one chain kernel can compute: only the second reads the first's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
from onnx import helper

from compiler.ir.graph import Array, attributes_of
from compiler.ir.own_nodes import PRODUCT
from compiler.ir.partition import Partition, Product
from kernels.workload.base import Conv2d, ConvChain, QConv2d, QConvChain


def pairs_of(partition: Partition) -> dict[int, int]:
    """By the index of a first product, that of the second one of a pair that can be a chain."""
    graph, products = partition.graph, partition.products
    if partition.bodies:
        return {}  # bodies of loops may read what they are not handed
    readers = Counter(name for node in graph.nodes for name in node.input)
    readers.update(graph.outputs)
    reader = {product.data: index for index, product in enumerate(products)}
    return {
        at: reader[first.output]
        for at, first in enumerate(products)
        if readers[first.output] == 1
        and first.output in reader
        and workload_of(first, products[reader[first.output]]) is not None
    }


def workload_of(first: Product, second: Product) -> ConvChain | QConvChain | None:
    """The chain that the two would be, or None where there is no such workload."""
    one, two = first.workload, second.workload
    if first.residual or any(each.factors or each.others for each in (first, second)):
        return None
    try:
        if isinstance(one, Conv2d) and isinstance(two, Conv2d):
            return ConvChain(one, two)
        if isinstance(one, QConv2d) and isinstance(two, QConv2d):
            return QConvChain(one, two)
    except ValueError:  # the matrix of a row of pixels, or what chains do not compute between or behind
        pass
    return None


def chain_of(first: Product, second: Product) -> Product | None:
    """The two as one product, or None where there is no such workload."""
    workload = workload_of(first, second)
    if workload is None:
        return None
    constants: tuple[Array, ...] = (*_constants(first), *_constants(second))
    return Product(
        workload,
        (*first.nodes, *second.nodes),
        first.data,
        second.residual,
        second.output,
        np.zeros(0, np.float32),
        None,
        None,
        constants,
    )


def _constants(product: Product) -> tuple[Array, ...]:
    """Weights and bias, or all of a quantized product's, as ``reference.random_inputs`` orders them."""
    if product.constants:
        return product.constants
    return (product.weights(),) if product.bias is None else (product.weights(), product.bias)


def merge(partition: Partition, firsts: Collection[int]) -> None:
    """Make chains of the pairs that begin with the products of these indices, in place.

    A chain has the place of its first among the products, and that of its second among the nodes.
    """
    pairs, graph = pairs_of(partition), partition.graph
    firsts = set(firsts)
    seconds = {pairs[at]: at for at in firsts}
    products: list[Product] = []
    places: dict[int, int] = {}
    for at, product in enumerate(partition.products):
        if at in seconds:
            continue
        if at in firsts:
            chained = chain_of(product, partition.products[pairs[at]])
            assert chained is not None  # ``pairs_of`` lists no others
            product, places[pairs[at]] = chained, len(products)
        else:
            places[at] = len(products)
        products.append(product)
    nodes = []
    for node in graph.nodes:
        if node.op_type != PRODUCT:
            nodes.append(node)
            continue
        index = attributes_of(node)["index"]
        if index in firsts:
            continue
        names = [*node.input]
        if index in seconds:
            names[0] = products[places[index]].data
        nodes.append(helper.make_node(PRODUCT, names, node.output, name=node.name, index=places[index]))
    partition.products[:], graph.nodes = products, nodes
