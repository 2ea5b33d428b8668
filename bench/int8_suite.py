"""The convolutions and matrix products of a model as quantized layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kernels.int8.constants import RANGES
from kernels.workload.base import Conv2d, Gemm, QConv2d, Workload

WEIGHT_RANGES = dict(zip((7, 8), RANGES, strict=True))
"""By bits of the weights; onnxruntime recommends 7 (``reduce_range``) where there is no VNNI."""

SUITES = ("mobilenet_v2", "inception_v3", "resnet50")


@dataclass(frozen=True)
class QLayer:
    """A distinct layer, named after its first node of ``count`` in the model."""

    name: str
    conv: QConv2d
    count: int


def layers_of(model: str, weight_bits: int) -> list[QLayer]:
    """The distinct layers of a model of ``bench.models``; activations are uint8 around 128, weights int8."""
    import onnx

    from bench.models import MAKERS
    from compiler.intake.extract import extract

    with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(MAKERS[model](0), path)
        operators = extract(path).operators
    found: dict[QConv2d, list[str]] = {}
    for operator in operators:
        names = found.setdefault(quantized(operator.workload, weight_bits), [])
        names += [nodes[0] for nodes in operator.nodes]
    return [QLayer(f"{model}/{names[0]}", conv, len(names)) for conv, names in found.items()]


def quantized(workload: Workload, weight_bits: int) -> QConv2d:
    """The quantized layer of the same shape; a matrix product is a convolution over its rows."""
    if isinstance(workload, QConv2d):
        return workload
    if isinstance(workload, Conv2d):
        conv = workload
    else:
        assert isinstance(workload, Gemm)  # the models of the suite multiply no activations
        conv = Conv2d(1, workload.k, workload.m, 1, workload.n, 1, 1)
    return QConv2d(
        n=conv.n,
        in_h=conv.in_h,
        in_w=conv.in_w,
        in_c=conv.in_c,
        out_c=conv.out_c,
        kh=conv.kh,
        kw=conv.kw,
        stride=conv.stride,
        pad=conv.pad,
        dilation=conv.dilation,
        groups=conv.groups,
        data_zero=128,
        out_zero=128,
        weight_range=WEIGHT_RANGES[weight_bits],
        scale="small",
    )
