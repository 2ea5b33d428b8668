"""GridSample: of images by a function of ours (``kernels/operators/sampling.py``), else by TVM's formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto
from tvm import relax

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.functions import Functions, name_of
from kernels.operators.sampling import Sampling, build_sampling

METHODS = {"linear": "bilinear", "cubic": "bicubic"}
"""TVM's words for ONNX's newer ones."""
FAR = 1e4
"""Images from the middle of one."""


def sampling(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    info, attributes = graph.tensors[node.input[0]], attributes_of(node)
    method, padding = (
        attributes.get(name, default).decode()
        for name, default in (("mode", b"bilinear"), ("padding_mode", b"zeros"))
    )
    method, aligned = METHODS.get(method, method), bool(attributes.get("align_corners", 0))
    data, grid = inputs
    if len(info.shape) != 4 or method == "bicubic" or info.dtype != "float32":
        axes = len(info.shape)
        grid = builder.emit(relax.op.permute_dims(grid, [0, axes - 1, *range(1, axes - 1)]))
        layout = "NCHW" if axes == 4 else "NCDHW"
        if padding != "reflection":
            # All places so far outside are alike, and TVM's whole numbers hold no farther ones.
            grid = builder.emit(relax.op.clip(grid, -FAR, FAR))
        return builder.emit(relax.op.image.grid_sample(data, grid, method, layout, padding, aligned))
    out = graph.tensors[node.output[0]].shape
    it = Sampling(info.shape, out[2:], method == "nearest", padding, aligned)
    function = Functions().get(builder, name_of("sampling", it), lambda name: build_sampling(it, name))
    return builder.emit(relax.call_tir(function, [data, grid], relax.TensorType(out, info.dtype)))
