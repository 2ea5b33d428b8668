"""One float workload, all that is fused into it included, as onnxruntime runs it inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.peers import Peer
from kernels.kernel import Array
from kernels.workload.activation import PARAMETERS
from kernels.workload.base import Activation, Conv2d, Gemm
from tuner.runtimes.engines import onnx_session

SINGLE = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softplus": "Softplus",
    "elu": "Elu",
    "leaky_relu": "LeakyRelu",
    "hard_sigmoid": "HardSigmoid",
}
"""Activations that are an operator of ONNX."""


def onnxruntime_layer(workload: Conv2d | Gemm, inputs: Sequence[Array], threads: int) -> Peer:
    """onnxruntime on the product and its epilogue; weights and bias are constants, as in a model.

    ``inputs`` are as ``kernels.reference.random_inputs`` gives them.
    """
    import onnxruntime

    session: Any = onnx_session(layer_model(workload, inputs), threads)
    output = onnxruntime.OrtValue.ortvalue_from_numpy(np.empty(workload.out_shape, np.float32))
    binding = session.io_binding()
    fed = {"x": inputs[0], "residual": inputs[-1]}
    for each in session.get_inputs():
        binding.bind_ortvalue_input(each.name, onnxruntime.OrtValue.ortvalue_from_numpy(fed[each.name]))
    binding.bind_ortvalue_output("y", output)
    return Peer(lambda: session.run_with_iobinding(binding), output.numpy)


def layer_model(workload: Conv2d | Gemm, inputs: Sequence[Array]) -> bytes:
    """An ONNX model of the workload: product with bias, then Add of a residual, activation, Clip."""
    epilogue = workload.epilogue
    data, weights, *rest = inputs
    constants = {"w": weights}
    fed = {"x": data.shape}
    if epilogue.bias:
        constants["b"] = rest[0]
    operator, attributes = "Gemm", dict[str, Any]()
    if isinstance(workload, Conv2d):
        operator = "Conv"
        attributes = {
            "kernel_shape": [workload.kh, workload.kw],
            "strides": list(workload.stride),
            "pads": list(workload.pad),
            "dilations": list(workload.dilation),
            "group": workload.groups,
        }
    nodes = [helper.make_node(operator, ["x", *constants], ["product"], **attributes)]
    last = "product"
    if epilogue.residual:
        fed["residual"] = workload.out_shape
    if epilogue.residual and not epilogue.late:
        nodes.append(helper.make_node("Add", [last, "residual"], ["sum"]))
        last = "sum"
    if epilogue.activation is not None:
        written, numbers = activation_nodes(epilogue.activation, last)
        nodes += written
        constants |= numbers
        if epilogue.slope:
            slope = rest[int(epilogue.bias)]
            constants["slope"] = slope.reshape(-1, 1, 1) if isinstance(workload, Conv2d) else slope
        last = "activated"
    if epilogue.late:
        nodes.append(helper.make_node("Add", [last, "residual"], ["sum"]))
        last = "sum"
    if epilogue.clamp is not None:
        ends = dict(zip(("low", "high"), epilogue.clamp, strict=True))
        given = {name: np.float32(end) for name, end in ends.items() if end is not None}
        constants |= {name: np.asarray(end) for name, end in given.items()}
        names = [name if name in given else "" for name in ends]
        nodes.append(helper.make_node("Clip", [last, *names], ["clamped"]))
        last = "clamped"
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in fed.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, workload.out_shape)],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return model


def activation_nodes(activation: Activation, data: str) -> tuple[list[Any], dict[str, Array]]:
    """``activation`` of ``data`` as exporters write it, to ``activated``; and the constants of the nodes."""
    numbers: dict[str, Array] = {}
    nodes: list[Any] = []

    def number(value: float) -> str:
        numbers[f"number{len(numbers)}"] = np.array(value, np.float32)
        return f"number{len(numbers) - 1}"

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        name = f"activated{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    given = {name: getattr(activation, name) for name in PARAMETERS.get(activation.kind, ())}
    match activation.kind:
        case "silu":
            scaled = data if activation.alpha == 1 else add("Mul", data, number(given["alpha"]))
            add("Mul", data, add("Sigmoid", scaled))
        case "hard_swish":
            add("Mul", data, add("HardSigmoid", data, **given))
        case "gelu":
            erf = add("Erf", add("Mul", data, number(0.5**0.5)))
            add("Mul", add("Mul", data, number(0.5)), add("Add", erf, number(1.0)))
        case "tanh_gelu":
            cube = add("Mul", add("Pow", data, number(3.0)), number(0.044715))
            tanh = add("Tanh", add("Mul", add("Add", data, cube), number((2 / np.pi) ** 0.5)))
            add("Mul", add("Mul", data, number(0.5)), add("Add", tanh, number(1.0)))
        case "mish":
            add("Mul", data, add("Tanh", add("Softplus", data)))
        case "prelu":
            add("PRelu", data, "slope")
        case kind:
            add(SINGLE[kind], data, **given)
    nodes[-1].output[0] = "activated"
    return nodes, numbers
