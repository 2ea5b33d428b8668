"""Models of each kind that a C library is built of, with odd shapes."""

from collections.abc import Callable

import numpy as np
from onnx import ModelProto, TensorProto
from qdq_models import Qdq
from tiny_models import model, node


def convolutions() -> ModelProto:
    """A residual, a concat and a pool; outputs that others read, and one that is an input."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "v"], "c", pads=[1, 1, 1, 1]),
        node("Add", ["c", "b"], "d"),
        node("MaxPool", ["d"], "e", kernel_shape=[3, 3], strides=[2, 2]),
        node("Conv", ["d", "u"], "f", strides=[2, 2]),
        node("Concat", ["e", "f"], "g", axis=1),
        node("GlobalAveragePool", ["g"], "h"),
        node("Flatten", ["h"], "i"),
        node("Gemm", ["i", "t", "s"], "j"),
        node("Softmax", ["j"], "y"),
        node("Identity", ["x"], "z"),
        node("Reshape", ["d", "shape"], "flat"),
    ]
    constants = {"w": (13, 5, 3, 3), "v": (13, 13, 3, 3), "u": (7, 13, 3, 3), "t": (20, 11), "s": (11,)}
    constants |= {"shape": np.array([-1, 13])}
    return model(nodes, {"x": (1, 5, 17, 19)}, ["y", "z", "d", "flat"], constants)


def quantized() -> ModelProto:
    """Convolutions of bytes with a sum and a pool between them."""
    made = Qdq()
    x = made.through("x", 0.05, 120)
    bias = made.constant(np.linspace(-1, 1, 24).astype(np.float32))
    a = made.add("Conv", [x, made.weights((24, 9, 3, 3), 0), bias], pads=[1, 1, 1, 1])
    a = made.through(made.add("Relu", [a]), 0.1)
    b = made.through(made.add("Conv", [a, made.weights((24, 24, 1, 1), 0)]), 0.1, 110)
    c = made.through(made.add("Add", [a, b]), 0.15, 90)
    d = made.add("GlobalAveragePool", [c])
    return made.model({"x": (1, 9, 11, 13)}, [made.through(d, 0.1, 90), c])


def attention() -> ModelProto:
    """A layer of a transformer behind an embedding."""
    nodes = [node("Gather", ["table", "ids"], "x")]
    for name, turn in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{name}"], f"{name}p"),
            node("Reshape", [f"{name}p", "split"], f"{name}r"),
            node("Transpose", [f"{name}r"], name, perm=turn),
        ]
    nodes += [
        node("MatMul", ["q", "k"], "scores"),
        node("Softmax", ["scores"], "weights", axis=-1),
        node("MatMul", ["weights", "v"], "mixed"),
        node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], "joined"),
        node("MatMul", ["joined", "wo"], "out"),
        node("Add", ["out", "x"], "sum"),
        node("LayerNormalization", ["sum", "scale", "shift"], "normal"),
        node("MatMul", ["normal", "up"], "wide"),
        node("Erf", ["wide"], "bent"),
        node("MatMul", ["bent", "down"], "narrow"),
        node("Add", ["narrow", "normal"], "y"),
    ]
    constants = {f"w{name}": (30, 30) for name in "qkvo"} | {"up": (30, 70), "down": (70, 30)}
    constants |= {"table": (50, 30), "scale": (30,), "shift": (30,)}
    constants |= {"split": np.array([1, 21, 3, 10]), "join": np.array([1, 21, 30])}
    made = model(nodes, {"ids": (1, 21)}, ["y"], constants)
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return made


def recurrent() -> ModelProto:
    """An LSTM, both ways, whose weights are more than an L1, and a GRU."""
    nodes = [
        node(
            "LSTM", ["x", "w", "r", "b"], ["steps", "last", "cell"], hidden_size=60, direction="bidirectional"
        ),
        node("Transpose", ["steps"], "turned", perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "shape"], "flat"),
        node("GRU", ["flat", "gw", "gr"], ["y", "end"], hidden_size=9),
    ]
    constants = {"w": (2, 240, 5), "r": (2, 240, 60), "b": (2, 480), "gw": (1, 27, 120), "gr": (1, 27, 9)}
    constants |= {"shape": np.array([17, 1, 120])}
    return model(nodes, {"x": (17, 1, 5)}, ["y", "end", "cell"], constants)


def places() -> ModelProto:
    """What is not zero: data decide how many there are, along either axis."""
    nodes = [
        node("NonZero", ["x"], "y"),
        node("Transpose", ["y"], "w"),
        node("Relu", ["x"], "z"),
    ]
    found = model(nodes, {"x": (3, 5, 4)}, ["y", "w", "z"])
    for output in found.graph.output[:2]:
        output.type.tensor_type.elem_type = TensorProto.INT64
    return found


MODELS: dict[str, Callable[[], ModelProto]] = {
    each.__name__: each for each in (convolutions, quantized, attention, recurrent)
}


def feeds(inputs: object, rng: np.random.Generator) -> list[np.ndarray]:
    """Random values for the ports of a library."""
    return [
        rng.standard_normal(port.shape).astype(port.dtype)
        if port.dtype.startswith("float")
        else rng.integers(0, 40, port.shape).astype(port.dtype)
        for port in inputs
    ]
