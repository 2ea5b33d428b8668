"""Operators of onnxruntime's own domain, as those of ONNX that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compiler.ir.checks import ModelError
from compiler.ir.own_nodes import OWN_DOMAIN, declare_own
from compiler.passes.expand.microsoft import (
    attention,
    codes,
    crops,
    distances,
    earlier,
    experts,
    fused,
    gathered,
    group_query,
    integers,
    matrices,
    normal,
    recurrent,
    rotary,
    windows,
)
from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.shapes.folding import PROPAGATED_ELEMENTS, folded

DOMAIN = "com.microsoft"
_KNOWN = ("", "ai.onnx", OWN_DOMAIN)
"""Domains of the nodes that are inferred from."""
OPSET = 17
"""Of a model that has no operators of ONNX itself."""
FORMS: dict[str, Callable[[Fused], None]] = {
    "Attention": attention.attention,
    "BiasGelu": fused.gelu,
    "CDist": distances.distances,
    "CropAndResize": crops.crop_and_resize,
    "DynamicQuantizeLSTM": recurrent.lstm,
    "DynamicQuantizeMatMul": integers.dynamic_matmul,
    "EmbedLayerNormalization": normal.embed_layer,
    "FastGelu": fused.fast_gelu,
    "FusedConv": fused.convolution,
    "FusedGemm": fused.gemm,
    "FusedMatMul": fused.matmul,
    "ExpandDims": earlier.expanded,
    "GatherBlockQuantized": gathered.block_quantized,
    "GatherND": earlier.gather_nd,
    "Gelu": fused.gelu,
    "GridSample": earlier.same,
    "GroupQueryAttention": group_query.group_query,
    "Inverse": matrices.inverse,
    "MatMulBnb4": codes.coded_matmul,
    "MatMulIntegerToFloat": integers.integer_matmul,
    "MatMulNBits": integers.packed_matmul,
    "MaxpoolWithMask": windows.masked_maximum,
    "MoE": experts.mixture,
    "MultiHeadAttention": attention.multi_head,
    "Pad": earlier.pad,
    "QAttention": attention.quantized,
    "QEmbedLayerNormalization": normal.quantized_embed_layer,
    "QMoE": experts.quantized_mixture,
    "QuickGelu": fused.quick_gelu,
    "Range": earlier.counted,
    "RotaryEmbedding": rotary.embedding,
    "SkipLayerNormalization": normal.skip_layer,
    "SkipSimplifiedLayerNormalization": normal.skip_simplified,
    "TransposeMatMul": fused.matmul,
    "Trilu": earlier.same,
    "UnfoldTensor": windows.unfolded,
}
"""Those of com.microsoft. To add one, write what makes its nodes, and have onnxruntime judge it."""
SINCE = {
    "CropAndResize": 11,
    "GatherND": 11,
    "GridSample": 16,
    "MaxpoolWithMask": 11,
    "MoE": 11,
    "Pad": 11,
    "QEmbedLayerNormalization": 10,
    "QMoE": 13,
    "Range": 11,
    "Trilu": 14,
}
"""The set of ONNX's operators that has what they become, where there are older ones."""
UNDECLARED: dict[str, Callable[[Fused], None]] = {
    "LayerNormalization": normal.layer,
    "SimplifiedLayerNormalization": normal.simplified,
}
"""Those that it writes as if they were ONNX's."""


LARGE_BYTES = 2**16

Forms = Mapping[str, Callable[[Fused], None]]


def to_standard(model: ModelProto, others: Mapping[str, Forms]) -> None:
    """Write nodes of com.microsoft as those of ONNX, in place; unknown ones stay, and may be refused later.

    ``others`` are forms of other domains.
    Raises ModelError for a node that lacks inputs or has something that these cannot say.
    """
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    nodes = list(model.graph.node)
    forms = {DOMAIN: FORMS, **others}
    if all(_form(node, opset, forms) is None for node in nodes):
        return
    if not opset:
        opset = OPSET
        model.opset_import.append(helper.make_opsetid("", opset))
    known = _Known(model)
    for node in nodes:
        write = _form(node, opset, forms)
        if write is None:
            known.nodes.append(node)
            continue
        form = Fused(node, opset, known.value, known.shape, known.is_double)
        if opset < (least := least_opset(node)):
            form.refuse(
                f"needs operator set {least}: convert the model (onnx.version_converter.convert_version)"
            )
        write(form)
        known.nodes += [each for each in form.nodes if not _is_large(each)]
        for each in filter(_is_large, form.nodes):
            known.hold(each)
        if any(each.domain for each in form.nodes):
            declare_own(model)
    del model.graph.node[:]
    model.graph.node.extend(known.nodes)


def least_opset(node: NodeProto) -> int:
    """The set of ONNX's operators that has what ``node`` becomes; 0 where it does not matter."""
    return SINCE.get(node.op_type, 0) if node.domain == DOMAIN else 0


def _form(node: NodeProto, opset: int, forms: Mapping[str, Forms]) -> Callable[[Fused], None] | None:
    if node.domain in forms:
        return forms[node.domain].get(node.op_type)
    if node.domain or (node.op_type == "LayerNormalization" and opset >= normal.SINCE):
        return None
    return UNDECLARED.get(node.op_type)


def _is_large(node: NodeProto) -> bool:
    """Whether ``node`` is a constant that is better not copied wherever nodes are."""
    return node.op_type == "Constant" and len(node.attribute[0].t.raw_data) > LARGE_BYTES


class _Known:
    """What is known of tensors where the nodes so far have been written."""

    def __init__(self, model: ModelProto) -> None:
        self.nodes: list[NodeProto] = []
        self._model = model
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._shapes = {name: tuple(tensor.dims) for name, tensor in self._constants.items()}
        self._doubles: set[str] = set()
        self._seen = 0
        self._left: list[NodeProto] = []
        # Values decide shapes where there are few of them; weights are inputs here.
        self._values: dict[str, Array] = {}
        self._bare = ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import)
        self._bare.graph.name = "ranks"
        self._bare.graph.input.extend(
            value for value in model.graph.input if value.name not in self._constants
        )
        for name, tensor in self._constants.items():
            if prod(tensor.dims) <= PROPAGATED_ELEMENTS:
                self._values[name] = numpy_helper.to_array(tensor)
            else:
                kind = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
                self._bare.graph.input.append(kind)

    def hold(self, constant: NodeProto) -> None:
        """Let a Constant be an initializer of the model."""
        name, tensor = constant.output[0], self._model.graph.initializer.add()
        tensor.CopyFrom(constant.attribute[0].t)
        tensor.name = name
        self._constants[name], self._shapes[name] = tensor, tuple(tensor.dims)
        self._bare.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))

    def value(self, name: str) -> Array | None:
        """The value of a constant, None for what is computed."""
        if name in self._constants:
            return numpy_helper.to_array(self._constants[name])
        for node in self.nodes:
            if name in node.output and node.op_type == "Constant" and node.attribute[0].HasField("t"):
                return numpy_helper.to_array(node.attribute[0].t)
        return None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The extents of a tensor, 0 for what nobody can tell; None where not even their number is known."""
        if name not in self._shapes:
            self._infer()
        return self._shapes.get(name)

    def is_double(self, name: str) -> bool:
        """Whether a tensor is known to be of float64."""
        self._infer()
        return name in self._doubles

    def _infer(self) -> None:
        """Take in the nodes that were written since the last time."""
        new = [node for node in self.nodes[self._seen :] if node.domain in _KNOWN]
        if self._seen == len(self.nodes) > 0:
            return
        self._seen, self._left = len(self.nodes), self._left + new
        # What does not fit together is refused when all is written.
        with suppress(ModelError):
            self._left, tensors = folded(self._bare, self._left, self._values)
            self._shapes |= {name: info.shape for name, info in tensors.items()}
            self._doubles |= {n for n, info in tensors.items() if info.elem_type == TensorProto.DOUBLE}
        some = ModelProto()
        some.CopyFrom(self._bare)
        some.graph.node.extend(self._left)
        some.graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)
            for name, value in self._values.items()
            if value.size <= PROPAGATED_ELEMENTS
        )
        found = onnx.shape_inference.infer_shapes(some).graph
        for value in (*found.input, *found.value_info):
            if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
                self._doubles.add(value.name)
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes.setdefault(value.name, tuple(dim.dim_value for dim in dims))
