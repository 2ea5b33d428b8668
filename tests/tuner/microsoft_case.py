"""Models of one operator of com.microsoft, and what onnxruntime computes of them beside what they become."""

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tiny_models import node, save

from compiler.load import read_model

RNG = np.random.default_rng(5)


def floats(*shape, scale=1.0) -> Any:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def whole(low, high, *shape, dtype) -> Any:
    return RNG.integers(low, high, shape).astype(dtype)


class Case:
    """One node: ``data`` are inputs of the model, ``constants`` follow them, then ``behind``, inputs again.

    None leaves one out. Outputs are of ``kinds``, those behind of float32.
    """

    def __init__(
        self,
        op,
        data,
        constants=(),
        opset=17,
        outputs=1,
        domain="com.microsoft",
        kinds=(),
        behind=(),
        **attributes,
    ):
        self.op, self.data, self.opset, self.outputs, self.kinds = op, data, opset, outputs, kinds
        self.behind = behind
        self.constants, self.domain, self.attributes = constants, domain, attributes

    def __str__(self):
        words = (self.op, self.opset, *(f"{name}={value}" for name, value in self.attributes.items()))
        return " ".join(map(str, (*words, len(self.constants))))

    @property
    def operands(self):
        return self.data, self.constants

    @property
    def feeds(self):
        places = [*enumerate(self.data), *enumerate(self.behind, len(self.data) + len(self.constants))]
        return {f"x{i}": value for i, value in places if value is not None}

    def model(self):
        inputs = [*self.data, *self.constants, *self.behind]
        names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
        wanted = range(self.outputs) if "num_heads" in self.attributes else (self.outputs - 1,)
        outputs = ["y", *(f"y{i}" if i in wanted else "" for i in range(1, self.outputs))]
        made = node(self.op, names, outputs, domain=self.domain, **self.attributes)
        others = iter(self.kinds)
        results = [
            helper.make_tensor_value_info(name, next(others, TensorProto.FLOAT), None)
            for name in outputs
            if name
        ]
        kinds = {n: helper.np_dtype_to_tensor_dtype(value.dtype) for n, value in self.feeds.items()}
        values = [helper.make_tensor_value_info(n, kinds[n], value.shape) for n, value in self.feeds.items()]
        constants = [
            numpy_helper.from_array(value, name)
            for name, value in zip(names[len(self.data) :], self.constants, strict=False)
            if name
        ]
        graph = helper.make_graph([made], "one", values, results, constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run(made, feeds):
    return onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)


def compare(tmp_path, case, tolerance=1e-4):
    """What ``case`` becomes computes what it is; the file that it is in."""
    path = save(tmp_path, case.model())
    read = read_model(path)
    assert {each.domain for each in read.graph.node} == {""}
    for each in read.graph.node:
        each.ClearField("name")  # onnxruntime wants them to differ
    for found, expected in zip(run(read, case.feeds), run(case.model(), case.feeds), strict=True):
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * largest)
    return path
