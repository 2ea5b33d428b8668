"""What comes before and after an operator, so that both are computed as one, or in another layout."""

from __future__ import annotations

from bench.special_values.branch import Branch, Form, Fusion


def _node(op: str, *values: float, **attributes: float) -> Fusion:
    return lambda b, x: b.node(op, x, *map(b.const, values), **attributes)


def _chain(*fusions: Fusion) -> Fusion:
    def make(b: Branch, x: str) -> str:
        for fusion in fusions:
            x = fusion(b, x)
        return x

    return make


FUSIONS: dict[str, Fusion] = {
    "alone": lambda b, x: x,
    "Relu": _node("Relu"),
    "Relu6": _node("Clip", 0.0, 6.0),
    "Clip": _node("Clip", -1.0, 1.0),
    "Clip low": _chain(_node("Max", -0.5), _node("Min", 2.0)),
    "LeakyRelu": _node("LeakyRelu", alpha=0.1),
    "HardSwish": _node("HardSwish"),
    "SiLU": lambda b, x: b.node("Mul", x, b.node("Sigmoid", x)),
    "Sigmoid": _node("Sigmoid"),
    "Gelu": _node("Gelu"),
    "Softplus": _node("Softplus"),
    "Mul": _node("Mul", 0.5),
    "Add Relu": _chain(_node("Add", 0.25), _node("Relu")),
    "Neg Max": _chain(_node("Neg"), _node("Max", 0.1)),
    "Reciprocal": _chain(_node("Abs"), _node("Add", 0.1), _node("Reciprocal")),
    "ReduceMax": lambda b, x: b.node("ReduceMax", x, b.whole(-1)),
    "ReduceMin": lambda b, x: b.node("ReduceMin", x, b.whole(-1)),
    "Softmax": _node("Softmax", axis=-1),
}
"""By name: what follows."""


def between_convolutions(op: str, **attributes: object) -> Form:
    """An operator of images between two pointwise convolutions, whose layouts it has then."""

    def make(b: Branch) -> str:
        data = b.node("Conv", b.input(1, 16, 9, 11), b.weights(16, 16, 1, 1), b.weights(16))
        return b.node("Conv", b.node(op, data, **attributes), b.weights(16, 16, 1, 1), b.weights(16))

    return make


_POOL = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
IN_LAYOUTS: dict[str, Form] = {
    **{
        op: between_convolutions(op)
        for op in ("Relu", "Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid", "Softplus", "Tanh")
    },
    **{op: between_convolutions(op) for op in ("Abs", "Elu", "Erf", "Exp", "Neg", "Sqrt", "GlobalMaxPool")},
    "MaxPool": between_convolutions("MaxPool", **_POOL),
    "AveragePool": between_convolutions("AveragePool", **_POOL),
}
"""By name: operators that are computed in every layout of images."""
