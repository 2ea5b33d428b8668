"""Narrow weights: products may keep weights as narrow as the file has them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, attributes_of, is_quantized_constant
from compiler.ir.own_nodes import ROUNDED
from compiler.passes.epilogues.epilogue import Wiring
from kernels.workload.base import Gemm
from kernels.workload.narrow import NarrowGemm

Array = npt.NDArray[Any]
Narrowed = tuple[NarrowGemm, tuple[Array, ...]]
FEW_ROWS = 16
"""Products of more rows take their time for multiply-adds, and unpacking would only add to that."""
MOVES = ("Reshape", "Slice", "Transpose", "Mul")
"""What the floats may go through: they are moved, or multiplied by constants."""
LEAST_WEIGHTS = 1 << 14
"""Fewer float16 weights are in a cache anyhow."""


@dataclass(frozen=True)
class Quanta:
    """Weights (k, n) of ``(quantum - zero) * scale``: quanta uint8, the others float32 of the same shape.

    Data are ``rounded`` to int8 in blocks of so many of a row, or not, where that is nothing.
    """

    quanta: Array
    scale: Array
    zero: Array
    rounded: int = 0


def quantized_weights(graph: OnnxGraph) -> dict[str, Quanta]:
    """What matrix products of floats have as constants of 4 and 8 bits, by the names of their nodes."""
    wiring = Wiring.of(graph)
    found = {}
    for node in graph.nodes:
        if node.op_type not in ("MatMul", "Gemm") or graph.tensors[node.input[0]].dtype != "float32":
            continue
        rounded = sum(int(each.value) for each in node.metadata_props if each.key == ROUNDED)
        if math.prod(graph.tensors[node.output[0]].shape[:-1]) > FEW_ROWS and not rounded:
            continue
        quanta = _read(graph, wiring, node.input[1])
        if quanta is not None and attributes_of(node).get("transB", 0):
            quanta = Quanta(quanta.quanta.T, quanta.scale.T, quanta.zero.T)
        if quanta is not None:
            found[node_name(node)] = replace(quanta, rounded=rounded)
    return found


def _read(graph: OnnxGraph, wiring: Wiring, name: str) -> Quanta | None:
    """The quanta behind ``name``, moved as the floats are that a DequantizeLinear makes of them."""
    moves: list[NodeProto] = []
    while (node := wiring.writers.get(name)) is not None and node.op_type in MOVES:
        moves.append(node)
        name = node.input[0]
    if node is None or not is_quantized_constant(node, graph.constants):
        return None
    quanta: Array = graph.constants[node.input[0]].astype(np.int32)
    scale, zero = _spread(graph, node, quanta.shape) or (None, None)
    if scale is None or zero is None or quanta.max(initial=0) - quanta.min(initial=0) > 255:
        return None
    for move in reversed(moves):
        if move.op_type == "Mul":
            factor = graph.constants.get(move.input[1])
            if factor is None or np.broadcast_shapes(factor.shape, scale.shape) != scale.shape:
                return None
            scale = scale * factor
            continue
        if not _begins(graph, move):
            return None
        quanta, scale, zero = (_moved(graph, move, array) for array in (quanta, scale, zero))
    if quanta.ndim != 2:
        return None
    low = min(0, int(quanta.min(initial=0)))
    first = 0 if not low else -8 if low >= -8 and quanta.max(initial=0) < 8 else -128
    return Quanta((quanta - first).astype(np.uint8), scale, zero - np.float32(first))


def _spread(graph: OnnxGraph, node: NodeProto, shape: tuple[int, ...]) -> tuple[Array, Array] | None:
    """Scale and zero of each element of a DequantizeLinear, float32."""
    attributes = attributes_of(node)
    scale = graph.constants[node.input[1]]
    zero = graph.constants[node.input[2]] if len(node.input) > 2 and node.input[2] else np.zeros(scale.shape)
    if scale.dtype != np.float32 or zero.shape != scale.shape:
        return None
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    found = []
    for values in (scale, zero.astype(np.float32)):
        if block:
            values = np.repeat(values, block, axis)
            values = values[tuple(slice(0, extent) for extent in shape)]
        elif values.size > 1:
            values = values.reshape([-1 if at == axis % len(shape) else 1 for at in range(len(shape))])
        try:
            found.append(np.broadcast_to(values, shape) if values.size > 1 else np.full(shape, values.item()))
        except ValueError:
            return None
    return found[0].astype(np.float32), found[1].astype(np.float32)


def _begins(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether ``node`` is no Slice, or one of each element from the first on."""
    if node.op_type != "Slice":
        return True
    begins, steps = (graph.constants.get(name) for name in (node.input[1], [*node.input, "", ""][4]))
    stepped = len(node.input) > 4 and (steps is None or bool(np.any(steps != 1)))
    return begins is not None and not begins.any() and not stepped


def _moved(graph: OnnxGraph, node: NodeProto, array: Array) -> Array:
    """What ``node`` does to an array."""
    shape = graph.tensors[node.output[0]].shape
    if node.op_type == "Reshape":
        return array.reshape(shape)
    if node.op_type == "Transpose":
        return array.transpose(attributes_of(node).get("perm", range(array.ndim)[::-1]))
    part: Array = array[tuple(slice(0, extent) for extent in shape)]
    return part


def narrowed(gemm: Gemm, weights: Array, quanta: Quanta | None) -> Narrowed | None:
    """The product with its weights as narrow as they were, and its constants; None where it is none such.

    ``weights`` are the floats (k, n). Only what says exactly the same takes their place.
    """
    if gemm.m > FEW_ROWS and (quanta is None or not quanta.rounded):
        return None
    shared: dict[str, Any] = {"m": gemm.m, "n": gemm.n, "k": gemm.k, "epilogue": gemm.epilogue}
    if quanta is not None and quanta.quanta.shape == weights.shape:
        found = _of_quanta(shared, quanta)
        if found is not None and np.array_equal((quanta.quanta - quanta.zero) * quanta.scale, weights):
            return found
    if weights.size >= LEAST_WEIGHTS and gemm.m <= FEW_ROWS:
        with np.errstate(over="ignore"):
            halves = weights.astype(np.float16)
        if np.array_equal(halves.astype(np.float32), weights):
            return NarrowGemm(bits=16, **shared), (halves,)
    return None


def _of_quanta(shared: dict[str, Any], it: Quanta) -> Narrowed | None:
    bits, k = 4 if it.quanta.max() < 16 else 8, len(it.quanta)
    changes = (it.scale[1:] != it.scale[:-1]) | (it.zero[1:] != it.zero[:-1])
    block = min(it.rounded, k) or math.gcd(*(np.flatnonzero(changes.any(1)) + 1).tolist()) or k
    scale, zero = it.scale[::block], it.zero[::block]
    usual = bool(np.all(zero == 2 ** (bits - 1)))
    try:
        shared |= {"block": block, "zeros": not usual, "rounded": bool(it.rounded)}
        gemm = NarrowGemm(bits=bits, **shared)  # type: ignore[arg-type]
    except ValueError:  # blocks that fill no words
        return None
    return gemm, (it.quanta, scale) if usual else (it.quanta, scale, zero)
