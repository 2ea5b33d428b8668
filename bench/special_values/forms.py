"""The operators, each with inputs and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.special_values.branch import Branch, Form

IMAGE = (2, 8, 5, 7)
MATRIX = (4, 9)


def one(op: str, *shape: int, **attributes: Any) -> Form:
    """An operator of one input."""
    return lambda b: b.node(op, b.input(*(shape or IMAGE)), **attributes)


def _two(op: str, first: Sequence[int] = IMAGE, other: Sequence[int] = IMAGE, **attributes: Any) -> Form:
    return lambda b: b.node(op, b.input(*first), b.input(*other), **attributes)


def _three(op: str) -> Form:
    return lambda b: b.node(op, b.input(*MATRIX), b.input(*MATRIX), b.input(1, 9))


def _with(op: str, *values: float | None, **attributes: Any) -> Form:
    """An operator of an input and numbers; None is one left out."""

    def make(b: Branch) -> str:
        given = ("" if value is None else b.const(value) for value in values)
        return b.node(op, b.input(*IMAGE), *given, **attributes)

    return make


def _of_itself(op: str) -> Form:
    def make(b: Branch) -> str:
        x = b.input(*MATRIX)
        return b.node(op, x, x)

    return make


def _truth(make: Form) -> Form:
    return lambda b: b.node("Cast", make(b), to=b.code)


def _reduced(op: str, axes: Sequence[int] | None, **attributes: Any) -> Form:
    def make(b: Branch) -> str:
        given = [] if axes is None else [b.whole(*axes)]
        return b.node(op, b.input(3, 8, 5, 9), *given, **attributes)

    return make


def _conv(
    shape: Sequence[int], filters: int, window: Sequence[int], group: int = 1, **attributes: Any
) -> Form:
    def make(b: Branch) -> str:
        weights = b.weights(filters, shape[1] // group, *window)
        return b.node("Conv", b.input(*shape), weights, b.weights(filters), group=group, **attributes)

    return make


def _attention(b: Branch) -> str:
    scores = b.node("MatMul", b.input(1, 2, 6, 8), b.input(1, 2, 8, 10))
    return b.node("MatMul", b.node("Softmax", scores, axis=-1), b.input(1, 2, 10, 8, plain=True))


def _norm(op: str, *shape: int, parameters: int = 2, **attributes: Any) -> Form:
    def make(b: Branch) -> str:
        channels = shape[-1] if op == "LayerNormalization" else shape[1]
        given = [b.weights(channels) for _ in range(parameters)]
        if parameters == 4:
            given[3] = b.const(b.rng.uniform(0.5, 2, channels))
        return b.node(op, b.input(*shape), *given, **attributes)

    return make


def _where(b: Branch) -> str:
    condition = b.node("Greater", b.input(*MATRIX), b.const(0.0))
    return b.node("Where", condition, b.input(*MATRIX), b.input(*MATRIX))


def _without_nan(b: Branch) -> str:
    x = b.input(*MATRIX)
    return b.node("Where", b.node("IsNaN", x), b.const(0.0), x)


def _top(largest: int, output: int) -> Form:
    def make(b: Branch) -> str:
        return b.all_of("TopK", [b.input(3, 17), b.whole(4)], 2, largest=largest)[output]

    return make


def _quantized(dtype: Any, zero: int, back: bool, channels: bool = False) -> Form:
    def make(b: Branch) -> str:
        scale, zeros = (np.linspace(0.02, 0.1, 8), np.full(8, zero)) if channels else (0.05, zero)
        numbers = [b.const(scale), b.const(zeros, dtype)]
        made = b.node("QuantizeLinear", b.input(*IMAGE), *numbers, axis=1)
        return b.node("DequantizeLinear", made, *numbers, axis=1) if back else made

    return make


def _dynamic(b: Branch) -> str:
    return b.node("DequantizeLinear", *b.all_of("DynamicQuantizeLinear", [b.input(3, 40)], 3))


def _resize(mode: str, down: float, across: float) -> Form:
    """Without its edges, where onnxruntime multiplies what it does not need by zero."""

    def make(b: Branch) -> str:
        scales = b.const([1, 1, down, across], np.float32)
        made = b.node("Resize", b.input(1, 8, 9, 10), "", scales, mode=mode)
        return b.node("Slice", made, b.whole(3, 3), b.whole(-3, -3), b.whole(2, 3))

    return make


def _sampled(mode: str, padding: str) -> Form:
    """At places inside, so that all weights are above zero."""

    def make(b: Branch) -> str:
        places = b.const(b.rng.uniform(-0.7, 0.7, (1, 5, 3, 2)))
        return b.node("GridSample", b.input(1, 4, 6, 7), places, mode=mode, padding_mode=padding)

    return make


def _padded(mode: str) -> Form:
    return lambda b: b.node("Pad", b.input(1, 4, 6, 7), b.whole(0, 0, 1, 2, 0, 0, 2, 1), mode=mode)


def _scattered(reduction: str) -> Form:
    def make(b: Branch) -> str:
        # Each place once: of several, which comes first is open.
        places = np.argsort(b.rng.random((4, 9)), axis=0)[:3]
        given = [b.const(places, np.int64), b.input(3, 9)]
        return b.node("ScatterElements", b.input(*MATRIX), *given, axis=0, reduction=reduction)

    return make


def _recurrent(op: str, gates: int, **attributes: Any) -> Form:
    def make(b: Branch) -> str:
        weights = [b.weights(1, gates * 8, each) for each in (6, 8)]
        return b.node(
            op, b.input(5, 2, 6), *weights, b.weights(1, 2 * gates * 8), hidden_size=8, **attributes
        )

    return make


_UNARY = (
    *("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Erf", "Tanh", "Sigmoid", "Sin"),
    *("Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Reciprocal", "Relu"),
    *("LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Mish"),
    *("ThresholdedRelu", "Identity", "Shrink", "GlobalMaxPool", "GlobalAveragePool", "Gelu"),
)
_WINDOWS = {
    "3x3": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "2x2 s2": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "3x3 s2": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]},
}
_AXES = {"last": [-1], "channel": [1], "rows": [2], "image": [2, 3], "batch": [0], "all": None}
_TYPES = {"int8": 3, "uint8": 2, "int16": 5, "uint16": 4, "int32": 6, "int64": 7, "bool": 9, "double": 11}
_BYTES = ((np.int8, 0), (np.int8, -3), (np.uint8, 128), (np.uint8, 0))

FORMS: dict[str, Form] = {
    **{op: one(op) for op in _UNARY},
    "Gelu tanh": one("Gelu", approximate="tanh"),
    "Elu 0.5": one("Elu", alpha=0.5),
    "ThresholdedRelu -1": one("ThresholdedRelu", alpha=-1.0),
    "HardSigmoid 1": one("HardSigmoid", alpha=1.0, beta=0.0),
    "LeakyRelu -1": one("LeakyRelu", alpha=-0.5),
    "Shrink bias": one("Shrink", lambd=0.3, bias=0.1),
    "PRelu": lambda b: b.node("PRelu", b.input(*IMAGE), b.weights(8, 1, 1)),
    "PRelu computed": _two("PRelu"),
    "Clip": _with("Clip", -0.5, 1.0),
    "Clip low": _with("Clip", -0.5),
    "Clip high": _with("Clip", None, 0.5),
    **{f"{op} two": _two(op) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")},
    **{f"{op} rows": _two(op, (4, 6, 9), (6, 1)) for op in ("Add", "Mul", "Div", "Max", "Min")},
    **{f"{op} number": _with(op, 0.5) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{f"{op} 0": _with(op, 0.0) for op in ("Add", "Mul", "Div", "Pow")},
    **{f"{op} self": _of_itself(op) for op in ("Sub", "Mul", "Div", "Max")},
    **{f"Pow {power}": _with("Pow", power) for power in (0.5, 2.0, 3.0, -1.0, 1.7)},
    "Pow of 2": lambda b: b.node("Pow", b.const(2.0), b.input(*MATRIX)),
    "Div into": lambda b: b.node("Div", b.const(1.0), b.input(*MATRIX)),
    "Mod": _with("Mod", 0.75, fmod=1),
    "Mod two": _two("Mod", MATRIX, MATRIX, fmod=1),
    **{f"{op} three": _three(op) for op in ("Max", "Min", "Sum", "Mean")},
    **{
        f"{op} {name}": _truth(make)
        for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        for name, make in {"two": _two(op, MATRIX, MATRIX), "self": _of_itself(op)}.items()
    },
    "IsNaN": _truth(one("IsNaN")),
    "IsInf": _truth(one("IsInf")),
    "IsInf above": _truth(one("IsInf", detect_negative=0)),
    "Where": _where,
    "Where NaN": _without_nan,
    **{f"Cast {name}": one("Cast", to=code) for name, code in _TYPES.items()},
    **{
        f"Reduce{op} {name}": _reduced(f"Reduce{op}", axes, keepdims=len(name) % 2)
        for op in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
        for name, axes in _AXES.items()
    },
    **{
        f"{op} {axis} {last}": one(op, 4, 6, 9, axis=axis, select_last_index=last)
        for op in ("ArgMax", "ArgMin")
        for axis in (0, 1, 2)
        for last in (0, 1)
    },
    **{
        f"{op} {axis}": one(op, 4, 6, 9, axis=axis)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for axis in (1, 2)
    },
    **{f"TopK {largest} {output}": _top(largest, output) for largest in (0, 1) for output in (0, 1)},
    **{
        f"{op} {name}": one(op, 1, 8, 9, 11, **more)
        for op in ("MaxPool", "AveragePool")
        for name, more in _WINDOWS.items()
    },
    "MaxPool 1-D": one("MaxPool", 1, 4, 15, kernel_shape=[3], strides=[2]),
    "MaxPool dilated": one("MaxPool", 1, 4, 9, 11, kernel_shape=[3, 3], dilations=[2, 2]),
    "MaxPool 3-D": one("MaxPool", 1, 2, 5, 6, 7, kernel_shape=[2, 2, 2]),
    "LpPool": one("LpPool", 1, 4, 9, 11, kernel_shape=[3, 3], p=2),
    "Conv 1x1": _conv((1, 16, 9, 8), 16, (1, 1)),
    "Conv 3x3": _conv((1, 16, 26, 24), 16, (3, 3), pads=[1, 1, 1, 1]),
    "Conv 3x3 s2": _conv((1, 16, 26, 24), 16, (3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    "Conv 5x5": _conv((1, 3, 24, 26), 8, (5, 5), pads=[2, 2, 2, 2]),
    "Conv depthwise": _conv((1, 16, 14, 15), 16, (3, 3), group=16, pads=[1, 1, 1, 1]),
    "Conv grouped": _conv((1, 16, 14, 15), 16, (3, 3), group=4, pads=[1, 1, 1, 1]),
    "Conv dilated": _conv((1, 8, 14, 15), 16, (3, 3), dilations=[2, 2]),
    "Conv 1-D": _conv((1, 8, 40), 16, (3,), pads=[1, 1]),
    "ConvTranspose": lambda b: b.node(
        "ConvTranspose", b.input(1, 8, 9, 10), b.weights(8, 8, 3, 3), b.weights(8), strides=[2, 2]
    ),
    "MatMul": lambda b: b.node("MatMul", b.input(6, 16), b.weights(16, 24)),
    "Gemm": lambda b: b.node("Gemm", b.input(5, 16), b.weights(24, 16), b.weights(24), transB=1),
    "Gemv": lambda b: b.node("Gemm", b.input(1, 64), b.weights(24, 64), b.weights(24), transB=1),
    "MatMul two": lambda b: b.node("MatMul", b.input(2, 6, 8), b.input(2, 8, 5, plain=True)),
    "Attention": _attention,
    "BatchNormalization": _norm("BatchNormalization", *IMAGE, parameters=4),
    "LayerNormalization": _norm("LayerNormalization", 3, 5, 16),
    "InstanceNormalization": _norm("InstanceNormalization", 2, 4, 5, 7),
    "LRN": one("LRN", 1, 8, 5, 6, size=3, alpha=0.3),
    "MeanVarianceNormalization": one("MeanVarianceNormalization"),
    "CumSum": lambda b: b.node("CumSum", b.input(*MATRIX), b.const(1, np.int64)),
    "Einsum": lambda b: b.node("Einsum", b.input(3, 5), b.input(5, 4, plain=True), equation="ij,jk->ik"),
    **{f"ScatterElements {each}": _scattered(each) for each in ("none", "add", "mul", "max", "min")},
    **{
        f"Quantize {np.dtype(dtype).name} {zero}{' channels' * channels}{' back' * back}": _quantized(
            dtype, zero, back, channels
        )
        for dtype, zero in _BYTES
        for back in (False, True)
        for channels in (False, True)
    },
    "DynamicQuantizeLinear": _dynamic,
    "DynamicQuantizeLinear bytes": lambda b: b.all_of("DynamicQuantizeLinear", [b.input(3, 40)], 3)[0],
    "Resize nearest": _resize("nearest", 2, 2),
    "Resize linear": _resize("linear", 2, 1.5),
    "Resize cubic": _resize("cubic", 2, 2),
    **{
        f"GridSample {mode} {padding}": _sampled(mode, padding)
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
    },
    **{f"Pad {mode}": _padded(mode) for mode in ("constant", "edge", "reflect")},
    "Transpose": one("Transpose", *IMAGE, perm=[0, 2, 3, 1]),
    "Concat": _two("Concat", axis=1),
    "Slice": lambda b: b.node("Slice", b.input(*IMAGE), b.whole(1), b.whole(4), b.whole(2)),
    "Gather": lambda b: b.node("Gather", b.input(6, 9), b.whole(5, 0, 3)),
    "DepthToSpace": one("DepthToSpace", *IMAGE, blocksize=2),
    "LSTM": _recurrent("LSTM", 4),
    "LSTM clip": _recurrent("LSTM", 4, clip=2.0),
    "GRU": _recurrent("GRU", 3),
    "RNN": _recurrent("RNN", 1),
    "RNN Relu": _recurrent("RNN", 1, activations=["Relu"]),
}
"""Every operator, by its name and what is particular."""
