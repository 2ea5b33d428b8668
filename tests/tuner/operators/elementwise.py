"""Operators that take elements one by one: functions, arithmetic, comparisons, casts."""

import numpy as np
from one_operator import Constant, case, const, floats, integers, positive, scalar, truths
from onnx import TensorProto as T

# fmt: off

X, BETWEEN = floats(2, 3, 5) * 2, np.linspace(-0.95, 0.95, 24, dtype=np.float32).reshape(2, 3, 4)
ROW, COLUMN, DOUBLE = floats(5, seed=5), floats(2, 3, 1, seed=6), floats(2, 3, dtype=np.float64)
FOUR = floats(2, 3, 4, 5)
LONG, LONGS = integers(2, 3, 5, low=-(2**40), high=2**40), integers(5, low=2**33, high=2**34, seed=7)
SMALL, SMALLS = integers(2, 3, 4), np.array([2, -3, 1, -1], np.int64)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 0.5, 3e38, -1e-40], np.float32)
BYTES = {
    dtype: integers(3, 4, low=low, high=high, dtype=dtype)
    for dtype, low, high in (
        ("int8", -128, 128), ("uint8", 0, 256), ("uint32", 2**31, 2**32), ("uint64", 2**62, 2**63)
    )
}

UNARY = [
    *(case(op, X) for op in (
        "Abs", "Asinh", "Atan", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "HardSigmoid",
        "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "Relu", "Round", "Selu", "Shrink", "Sigmoid",
        "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu",
    )),
    *(case(op, BETWEEN) for op in ("Acos", "Asin", "Atanh")),
    *(case(op, positive(2, 3, 5)) for op in ("Log", "Reciprocal", "Sqrt")), case("Acosh", positive(2, 3) + 1),
    case("Gelu", X, opset=20), case("Gelu", X, opset=20, approximate="tanh"), case("Celu", X, alpha=0.5),
    case("Celu", X, opset=12), case("Celu", floats()), case("Swish", X, opset=24, alpha=1.5),
    case("Round", np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6], np.float32)),
    *(case(op, ODD) for op in ("Abs", "Ceil", "Round", "IsNaN", "Sigmoid", "Tanh", "Exp", "Neg")),
    case("IsInf", ODD, opset=20), case("IsInf", ODD, opset=20, detect_negative=0),
    case("IsInf", ODD, opset=20, detect_positive=0), case("Elu", X, alpha=0.3),
    case("LeakyRelu", X, alpha=0.3), case("LeakyRelu", X, opset=6),
    case("HardSigmoid", X, alpha=0.3, beta=0.4), case("Selu", X, alpha=2.0, gamma=0.5),
    case("ThresholdedRelu", X, alpha=0.3), case("Shrink", X, lambd=0.7, bias=0.2),
    case("Shrink", SMALL, lambd=2.0, bias=0.0),
    *(case("Shrink", np.arange(9).astype(kind), lambd=2.0, bias=bias)
        for kind in (np.uint8, np.int8, np.uint64) for bias in (0.0, 2.6, -1.0)),
    *(case(op, DOUBLE) for op in ("Abs", "Exp", "Floor", "Sigmoid", "Tanh", "Erf", "Softplus", "Relu",
        "LeakyRelu", "HardSigmoid")),
    *(case(op, DOUBLE, refused=True) for op in ("Selu", "Elu")),
    *(case(op, LONG) for op in ("Abs", "Neg", "Sign", "Relu", "Identity")),
    *(case(op, BYTES["int8"]) for op in ("Abs", "Neg", "Sign", "Relu")),
    *(case("BitwiseNot", BYTES[dtype]) for dtype in ("int8", "uint8", "uint64")), case("Not", truths(3, 4)),
    case("PRelu", X, COLUMN), case("PRelu", X, ROW), case("PRelu", FOUR, floats(3, 1, 1)),
    case("PRelu", FOUR, floats(1)),
    case("PRelu", FOUR, floats(3), opset=6, judge=case("PRelu", FOUR, floats(3).reshape(3, 1, 1))),
    case("Softmax", X), case("Softmax", X, axis=1), case("Softmax", X, opset=11),
    case("Softmax", X, opset=11, axis=2), case("Softmax", X, opset=11, axis=-2),
    case("Softmax", DOUBLE, axis=0), case("LogSoftmax", X, axis=1), case("LogSoftmax", X, opset=11),
    case("Hardmax", X), case("Hardmax", X, axis=1), case("Hardmax", X, opset=11),
]

BINARY = [
    *(case(op, X, other) for op in ("Add", "Sub", "Mul", "Div") for other in (ROW, COLUMN)),
    *(case(op, LONG, LONGS) for op in ("Add", "Sub", "Div", "Less", "GreaterOrEqual", "Equal")),
    *(case(op, DOUBLE, DOUBLE + 1) for op in ("Add", "Div", "Max")),
    *(case(op, a, a[::-1].copy()) for op in ("Add", "Sub", "Mul") for a in (BYTES["int8"], BYTES["uint8"],
        BYTES["uint32"])),
    case("Mul", LONG, const(3)), case("Add", ROW, scalar(1.5)), case("Div", SMALL, SMALLS),
    case("Div", SMALL.astype(np.int32), SMALLS.astype(np.int32)),
    case("Div", BYTES["uint8"], const(7, dtype=np.uint8)),
    case("Div", BYTES["int8"], const(-7, dtype=np.int8)), case("Div", X, scalar(0)),
    case("Mod", SMALL, SMALLS), case("Mod", SMALL, SMALLS, fmod=1), case("Mod", X, ROW, fmod=1),
    case("Mod", BYTES["uint8"], const(7, dtype=np.uint8)),
    case("Mod", BYTES["int8"], const(-7, dtype=np.int8)), case("Pow", positive(2, 3), floats(3)),
    case("Pow", X, scalar(2)), case("Pow", X, scalar(3)), case("Pow", X, scalar(0.5)),
    case("Pow", SMALL, scalar(2, np.int64)), case("Pow", X, scalar(2, np.int64)),
    case("Pow", X, scalar(3, np.int32)), case("Pow", positive(2, 3), scalar(2, np.float64)),
    case("Pow", SMALL, scalar(2.0)), case("Pow", LONGS, scalar(1, np.int64)),
    case("Pow", LONGS // 16 + 1, scalar(2, np.int64)), case("Pow", LONGS // 2**13 + 1, scalar(3.0)),
    case("Pow", np.int32([46341, -50000, 3]), scalar(2.0)),
    case("Pow", positive(2, 3), floats(2, 3), opset=7),
    *(case(op, X, ROW) for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")),
    case("Less", X, ROW, opset=7), case("Equal", SMALL, SMALLS, opset=7),
    case("Equal", truths(3, 4), truths(4)), case("Equal", ODD, ODD),
    case("Less", BYTES["uint64"], const(2**62, dtype=np.uint64)),
    *(case(op, truths(3, 4), truths(4, seed=8)) for op in ("And", "Or", "Xor")),
    *(case(op, a, a[::-1].copy()) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for a in
        (BYTES["uint8"], LONG)),
    case("BitShift", BYTES["uint8"], const(1, 2, 3, 7, dtype=np.uint8), direction="LEFT"),
    case("BitShift", BYTES["uint8"], const(1, 2, 3, 7, dtype=np.uint8), direction="RIGHT"),
    case("BitShift", BYTES["uint64"], const(1, 2, 40, 7, dtype=np.uint64), direction="RIGHT"),
    case("BitShift", SMALL, SMALLS, opset=28, direction="LEFT", refused=True),
    case("Mod", X, ROW, opset=28), case("Mod", np.round(X), np.float32([2, -1, 3, -2, 1]), opset=28),
    *(case(op, X, ROW, COLUMN) for op in ("Min", "Max", "Sum", "Mean")),
    *(case(op, X) for op in ("Min", "Max", "Sum", "Mean")), case("Max", LONG, LONGS),
    case("Min", BYTES["int8"], BYTES["int8"][:1]), case("Min", X, X[::-1].copy(), opset=6),
    case("Sum", X, X, opset=6), case("Max", X, scalar(0.5)), case("Min", scalar(-0.5), X, opset=8),
    case("Min", X, Constant(np.full((1, 1, 1, 1), 0.5, np.float32))),
    *(case(op, FOUR, floats(3), opset=6, broadcast=1, axis=1, judge=case(op, FOUR, floats(3).reshape(3, 1,
        1))) for op in ("Add", "Less")),
    case("Mul", FOUR, floats(5), opset=6, broadcast=1), case("Where", truths(3, 1), X, ROW),
    case("Where", truths(2, 3, 5), LONG, LONGS),
    case("Where", truths(2), DOUBLE.T.copy(), DOUBLE.T.copy() * 2),
    case("Where", truths(3, 4), truths(4), truths(4, seed=8)), case("Clip", X, scalar(-1), scalar(0.5)),
    case("Clip", X, None, scalar(0.5)), case("Clip", X, scalar(0.5)), case("Clip", X),
    case("Clip", X, opset=6, min=-0.5, max=0.5), case("Clip", X, opset=6, max=0.5), case("Clip", X, opset=6),
    case("Clip", LONG, scalar(-(2**35), np.int64), scalar(2**35, np.int64)),
    case("Clip", DOUBLE, scalar(0.1, np.float64)),
    case("Clip", BYTES["int8"], scalar(-3, np.int8), scalar(9, np.int8)),
    case("Clip", X, np.array(-0.5, np.float32), np.array(0.5, np.float32)),
    case("Clip", X, scalar(0.5), scalar(-0.5)),
]

CASTS = [
    *(case("Cast", X * 3, to=to) for to in (T.INT64, T.INT32, T.INT8, T.DOUBLE, T.BOOL, T.FLOAT16)),
    *(case("Cast", LONG, to=to) for to in (T.FLOAT, T.DOUBLE, T.INT32, T.UINT8, T.BOOL)),
    *(case("Cast", truths(3, 4), to=to) for to in (T.FLOAT, T.INT64, T.UINT8)),
    case("Cast", DOUBLE * 1e10, to=T.INT64), case("Cast", positive(3, 4) * 50, to=T.UINT8),
    case("Cast", BYTES["uint64"], to=T.DOUBLE), case("Cast", DOUBLE, to=T.FLOAT), case("Cast", X, to=T.FLOAT),
    case("Cast", np.array([0.0, -0.0, 0.3, np.nan], np.float32), to=T.BOOL),
    case("Cast", X, opset=6, to=T.INT32), case("Cast", X, to=T.STRING, refused=True),
    case("CastLike", X, LONGS), case("CastLike", LONG, DOUBLE),
]
HALF = floats(2, 3, 4, 5, dtype=np.float16)
HALVES = [
    *(case(op, HALF) for op in ("Relu", "Sigmoid", "Exp", "Erf", "Softmax", "GlobalAveragePool")),
    *(case(op, HALF, HALF) for op in ("Add", "Div", "Less")), case("Elu", HALF),
    case("MaxPool", HALF, kernel_shape=[2, 2]), case("ReduceMean", HALF, const(1)),
    case("Gelu", HALF, opset=20),
]
CASES = UNARY + BINARY + CASTS + HALVES
