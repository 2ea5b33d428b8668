"""Base of the forms of com.microsoft, and what its optimizer writes for a product and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.form import Form

Array = npt.NDArray[Any]
AXES_AS_INPUT = 13
"""From which operator set on Unsqueeze and ReduceSum have their axes as an input."""
OTHERS_AS_INPUT = 18
"""From which on the other reductions have."""


class Fused(Form):
    """The nodes of ONNX that replace one of com.microsoft; the functions say of tensors."""

    def __init__(
        self,
        node: NodeProto,
        opset: int,
        value_of: Callable[[str], Array | None],
        shape_of: Callable[[str], tuple[int, ...] | None],
        is_double: Callable[[str], bool],
    ) -> None:
        super().__init__(node, opset)
        self._value_of, self._shape_of, self.is_double = value_of, shape_of, is_double

    def inside(self, node: NodeProto) -> Fused:
        """The form of a node of a graph inside this one."""
        return Fused(node, self.opset, self._value_of, self._shape_of, self.is_double)

    def number(self, value: float) -> str:
        """A constant of one float32."""
        return self.constant(np.array(value, np.float32))

    def constant(self, value: Array) -> str:
        """A constant."""
        made = self.add("Constant", [])
        # In its place at once: the helpers of onnx would copy it several times.
        tensor = self.nodes[-1].attribute.add(name="value", type=AttributeProto.TENSOR).t
        tensor.data_type = helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor.dims.extend(value.shape)
        content = value.astype(value.dtype.newbyteorder("<"), "C", copy=False).tobytes()
        del value  # perhaps large, and nobody else's
        tensor.raw_data = content
        return made

    def unsqueezed(self, name: str, *axes: int) -> str:
        """A tensor with more axes, of extent one, at these places of the result."""
        if self.opset < AXES_AS_INPUT:
            return self.add("Unsqueeze", [name], axes=axes)
        return self.add("Unsqueeze", [name, self.constant(np.array(axes))])

    def reduced(self, op: str, name: str, axis: int, keepdims: int = 1) -> str:
        """A reduction along an axis."""
        if self.opset < (AXES_AS_INPUT if op == "ReduceSum" else OTHERS_AS_INPUT):
            return self.add(op, [name], axes=[axis], keepdims=keepdims)
        return self.add(op, [name, self.constant(np.array([axis]))], keepdims=keepdims)

    def value(self, at: int) -> Array:
        """The constant that input ``at`` is; raises ModelError for one that is computed."""
        found = self._value_of(self.needed(at))
        if found is None:
            self.refuse(f"has a computed input {at}; only a constant one is supported")
        return found

    def rank_known(self, name: str) -> int | None:
        """How many axes a tensor has, if that is known yet."""
        found = self._shape_of(name)
        return None if found is None else len(found)

    def rank(self, name: str) -> int:
        """How many axes a tensor has; raises ModelError when that is not known yet."""
        found = self._shape_of(name)
        if found is None:
            self.refuse("has an input of which the number of axes is not known")
        return len(found)

    def extent(self, name: str, axis: int) -> int:
        """The extent of an axis; raises ModelError when that is not known yet."""
        found = self._shape_of(name)
        if found is None or not found[axis]:
            self.refuse("has an input of which the shape is not known")
        return found[axis]

    def extent_known(self, name: str, axis: int) -> int:
        """The extent of an axis, 0 when that is not known yet."""
        found = self._shape_of(name)
        return found[axis] if found else 0

    def finish(self, made: str, output: int = 0) -> None:
        """Say that ``made`` is the node's ``output``, if that is wanted."""
        if output < len(self.node.output) and self.node.output[output]:
            name, wanted = node_name(self.node), [self.node.output[output]]
            self.nodes.append(helper.make_node("Identity", [made], wanted, name=name))

    def only(self, count: int) -> None:
        """Refuse a node where more than the first ``count`` outputs are wanted."""
        if any(self.node.output[count:]):
            self.refuse(f"has more outputs than the {count} that are supported")


def _activated(form: Fused, data: str, name: bytes, params: list[float]) -> str:
    op = name.decode()
    if op in ("", "Relu", "Tanh", "Sigmoid"):
        return form.add(op, [data]) if op else data
    if op == "LeakyRelu":
        return form.add(op, [data], **({"alpha": params[0]} if params else {}))
    if op == "Clip" and len(params) == 2:
        low = form.add("Max", [data, form.number(params[0])])
        return form.add("Min", [low, form.number(params[1])])
    if op != "HardSigmoid":
        form.refuse(f"has the activation {op!r}, which is not supported")
    return form.add(op, [data], **dict(zip(("alpha", "beta"), params, strict=False)))


def convolution(form: Fused) -> None:
    """FusedConv: a convolution, a sum, an activation."""
    activation = form.attributes.pop("activation", b"")
    params = list(form.attributes.pop("activation_params", ()))
    inputs = [form.needed(0), form.needed(1)] + ([form.given(2)] if form.given(2) else [])
    data = form.add("Conv", inputs, **form.attributes)
    if form.given(3):
        data = form.add("Add", [data, form.given(3)])
    form.finish(_activated(form, data, activation, params))


def gemm(form: Fused) -> None:
    """FusedGemm: a matrix product and an activation."""
    activation = form.attributes.pop("activation", b"")
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    params = [form.attributes.pop(name) for name in names if name in form.attributes]
    data = form.add("Gemm", [form.needed(0), form.needed(1), form.given(2)], **form.attributes)
    form.finish(_activated(form, data, activation, params))


def matmul(form: Fused) -> None:
    """FusedMatMul: transposed operands, and a factor."""
    if any(form.attributes.get(name, 0) for name in ("transBatchA", "transBatchB")):
        form.refuse("transposes batches, which is not supported")
    operands = []
    for at, name in enumerate(("transA", "transB")):
        operand = form.needed(at)
        if form.attributes.get(name, 0):
            rank = form.rank(operand)
            if rank < 2:
                form.refuse("transposes a vector")
            operand = form.add("Transpose", [operand], perm=[*range(rank - 2), rank - 1, rank - 2])
        operands.append(operand)
    product = form.add("MatMul", operands)
    alpha = form.attributes.get("alpha", 1.0)
    form.finish(product if alpha == 1 else form.add("Mul", [product, form.number(alpha)]))


def _erf_gelu(form: Fused, data: str) -> str:
    half = form.add("Mul", [data, form.number(0.5)])
    erf = form.add("Erf", [form.add("Mul", [data, form.number(0.5**0.5)])])
    return form.add("Mul", [half, form.add("Add", [erf, form.number(1.0)])])


def gelu(form: Fused) -> None:
    """Gelu and BiasGelu, by erf."""
    data = form.needed(0)
    form.finish(_erf_gelu(form, form.add("Add", [data, form.given(1)]) if form.given(1) else data))


def tanh_gelu(form: Fused, data: str) -> str:
    """The Gelu of ``data`` by tanh."""
    square = form.add("Mul", [data, data])
    inner = form.add(
        "Add", [form.add("Mul", [square, form.number(0.035677408136300125)]), form.number(0.7978845608028654)]
    )
    tanh = form.add("Tanh", [form.add("Mul", [data, inner])])
    half = form.add("Mul", [data, form.number(0.5)])
    return form.add("Mul", [half, form.add("Add", [tanh, form.number(1.0)])])


def fast_gelu(form: Fused) -> None:
    """FastGelu, by tanh."""
    data = form.needed(0)
    form.finish(tanh_gelu(form, form.add("Add", [data, form.given(1)]) if form.given(1) else data))


def quick_gelu(form: Fused) -> None:
    """QuickGelu, by a sigmoid."""
    scaled = form.add("Mul", [form.needed(0), form.number(form.attributes.get("alpha", 1.702))])
    form.finish(form.add("Mul", [form.needed(0), form.add("Sigmoid", [scaled])]))
