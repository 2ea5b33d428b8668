"""Legalize: nodes that TVM gets wrong are written as others that it gets right."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.graph import OnnxGraph
from compiler.passes.legalize import (
    blocked,
    borders,
    caches,
    cut,
    deformed,
    division,
    einsum,
    empty,
    newer,
    norms,
    numbers,
    older,
    places,
    recurrent,
    regions,
    slopes,
    special,
    spectra,
    windows,
)
from compiler.passes.legalize.writer import Writer

Rule = Callable[[Writer], bool]
"""Writes what replaces a node and says so, or says that nothing need replace it."""

RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), (empty.chosen,)),
    "AveragePool": (empty.seen, windows.padded),
    "BatchNormalization": (older.normalization,),
    "BitShift": (newer.shift,),
    "Cast": (numbers.rounding,),
    "Celu": (slopes.celu, numbers.celu),
    "Col2Im": (places.images,),
    "Concat": (empty.joined,),
    "Conv": (empty.convolved, windows.padded),
    "ConvInteger": (windows.integer_line, windows.padded),
    "ConvTranspose": (empty.convolved, windows.transposed),
    "DFT": (spectra.transform,),
    "DeformConv": (deformed.convolution,),
    "DequantizeLinear": (blocked.dequantized,),
    "Dropout": (numbers.dropout,),
    "Elu": (slopes.elu,),
    "Einsum": (einsum.product,),
    "Equal": (numbers.equal_truths, special.itself, older.broadcast),
    "EyeLike": (numbers.eye,),
    "GatherND": (empty.whole,),
    "GridSample": (empty.seen,),
    "HardSigmoid": (slopes.hard_sigmoid,),
    "Hardmax": (special.hardmax,),
    "LeakyRelu": (slopes.leaky,),
    "Selu": (slopes.selu,),
    "Shrink": (slopes.shrink,),
    "IsInf": (numbers.infinities,),
    "LayerNormalization": (norms.moments,),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), (empty.seen,)),
    "LpPool": (empty.seen, windows.padded),
    "MaxPool": (empty.seen, places.greatest, windows.padded),
    "MaxRoiPool": (empty.seen, regions.pooled),
    "MaxUnpool": (places.unpooled,),
    "Mod": (newer.remainder,),
    "NonMaxSuppression": (regions.suppressed,),
    "OneHot": (numbers.one_hot,),
    "PRelu": (older.prelu, slopes.prelu),
    "Pad": (borders.reflected,),
    "Pow": (numbers.power, older.broadcast),
    "QLinearConv": (windows.padded,),
    "QLinearMatMul": (newer.product,),
    "QuantizeLinear": (blocked.quantized, numbers.by_zero),
    "RMSNormalization": (norms.of_all,),
    "ReverseSequence": (places.reverse,),
    "RoiAlign": (empty.seen, regions.aligned),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), (empty.scattered,)),
    "STFT": (spectra.framed,),
    "Slice": (
        cut.result,
        older.slices,
    ),
    "Split": (empty.parts,),
    "TensorScatter": (caches.written,),
    "Trilu": (numbers.triangle,),
    "SpaceToDepth": (newer.space_to_depth,),
    **dict.fromkeys(("And", "Greater", "Less", "Or", "Xor"), (older.broadcast,)),
    "Sub": (special.less_itself, older.broadcast),
    **dict.fromkeys(("Add", "Div", "Mul"), (special.by_zero, older.broadcast)),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), (special.itself,)),
    **dict.fromkeys(
        (f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "Max", "Mean", "Min", "Prod", "Sum")),
        (empty.reduced, numbers.reduced),
    ),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (recurrent.recurrent,)),
    "ReduceLogSumExp": (empty.reduced, numbers.reduced, special.log_sum_exp),
    "ReduceSumSquare": (empty.reduced, numbers.reduced),
}

LAST: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("Add", "Mul", "Sub"), (division.wrapped,)),
    "BitShift": (division.shifted,),
    **dict.fromkeys(("Div", "Mod"), (division.divided,)),
}
"""The same of nodes that others may have become."""

ALWAYS_WRITTEN = ("DFT", "DeformConv", "Einsum", "GRU", "LSTM", "MaxUnpool", "RNN", "STFT", "TensorScatter")
"""None of these operators is left."""


def legalize(graph: OnnxGraph) -> None:
    """Write every node that TVM's importer gets wrong as others; raises ModelError where there are none."""
    for rules in (RULES, LAST):
        nodes = []
        for node in graph.nodes:
            writer = Writer(graph, node)
            if any(each(writer) for each in rules.get(node.op_type, ())):
                nodes += writer.nodes
            else:
                nodes.append(node)
        graph.nodes = nodes
