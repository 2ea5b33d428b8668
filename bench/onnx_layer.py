"""One float workload, all that is fused into it included, as onnxruntime runs it inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.peers import Peer, onnx_session
from kernels.kernel import Array
from kernels.workload.base import Conv2d, Gemm


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
    """An ONNX model of the workload: product with bias, then Add of a residual, then Clip."""
    from onnx import TensorProto, helper, numpy_helper

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
