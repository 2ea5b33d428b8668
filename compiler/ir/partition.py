"""What a model's graph is when its products are found: what extraction lists and what a build replaces.

A product is a convolution or matrix product with everything that one kernel computes along with it: bias,
folded batch norm and scaling, a residual, an activation, a clamp.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.ir.graph import Array, OnnxGraph
from compiler.ir.not_tunable import NotTunable
from kernels.operators.int8.base import QOperator
from kernels.workload.base import Conv2d, Workload
from kernels.workload.qconv2d import QConv2d


@dataclass(frozen=True)
class QuantizedProduct:
    """A quantized workload of the graph between the tensors ``data`` and ``output``, with its constants.

    ``others`` are the step and the zero point of data that are quantized as they come.
    """

    workload: QConv2d
    constants: tuple[Array, ...]
    nodes: tuple[str, ...]
    data: str
    output: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuantizedOperator:
    """What one integer function computes from tensors ``inputs`` to ``output``; ``name`` is a node's."""

    name: str
    what: QOperator
    inputs: tuple[str, ...]
    output: str


@dataclass
class Product:
    """One workload of the model with its constants; ``data`` and ``residual`` are tensors of the graph.

    ``others`` are what a product of activations takes after its data; such have no constants. A quantized
    product has step and zero point there where its data are quantized at run time. ``constants`` are a
    quantized product's, as its kernels take them after the data: weights, bias and, unless the result is
    int32, multiplier and shift, or unit and addend of such data. Those of floats have ``raw_weights``,
    ``scale``, ``bias`` and ``slope`` instead; one by narrow weights has these as ``constants``, and its bias.
    ``factors`` is a tensor of one number an input channel that the data, or the weights, are multiplied by.
    """

    workload: Workload
    nodes: tuple[str, ...]
    data: str
    residual: str | None
    output: str
    raw_weights: Array
    scale: Array | None
    bias: Array | None
    constants: tuple[Array, ...] = ()
    others: tuple[str, ...] = ()
    slope: Array | None = None
    factors: str | None = None

    def weights(self) -> npt.NDArray[np.float32]:
        """Weights of ``workload.weight_shape`` with all scaling folded in."""
        if self.scale is None:
            return np.ascontiguousarray(self.raw_weights, np.float32)
        scale = self.scale.reshape((-1, 1, 1, 1) if isinstance(self.workload, Conv2d) else (1, -1))
        return np.ascontiguousarray(self.raw_weights * scale.astype(np.float32), np.float32)


@dataclass
class Partition:
    """The graph with every product as one node, the products in order, and what could not be one.

    ``operators`` are the other integer functions, each also one node of the graph. ``bodies`` are
    those of while loops; the attribute ``index`` of a loop's node is its place there.
    """

    graph: OnnxGraph
    products: list[Product] = field(default_factory=list)
    not_tunable: list[NotTunable] = field(default_factory=list)
    operators: list[QuantizedOperator] = field(default_factory=list)
    bodies: list[Partition] = field(default_factory=list)
    census: dict[str, int] = field(default_factory=dict)
    """How many nodes of each of ONNX's operators it is made of, as it is built: what constants alone decide
    is left out, and other domains' operators are those that they stand for."""
