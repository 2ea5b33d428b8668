"""Integers that leave their type begin again at its other end, in chains and in reductions."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from test_division import of_integers
from tiny_models import save
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
pytestmark = [pytest.mark.usefixtures("avx2")]
# What a simplifier that knows no ends takes for x, for true, or for something above zero.
CHAINS = {
    "four times and a quarter": [("Mul", "x four", "m"), ("Div", "m four", "y")],
    "the rest of four times": [("Mul", "x three", "m"), ("Mod", "m three", "y")],
    "a square": [("Mul", "x x", "m"), ("GreaterOrEqual", "m zero", "y")],
    "one more": [("Add", "x one", "m"), ("Greater", "m x", "y")],
    "one less": [("Sub", "x one", "m"), ("Less", "m x", "y")],
    "a sum": [("Add", "x z", "m"), ("Greater", "m x", "y")],
    "a difference": [("Sub", "x z", "m"), ("Sub", "m x", "n"), ("Greater", "n zero", "y")],
    "half a sum": [("Add", "x z", "m"), ("Div", "m two", "y")],
}
# Of these onnxruntime makes the greatest int32.
REDUCED = {
    "a sum of squares": [("Mul", "x x", "m"), ("ReduceSum", "m axis", "n"), ("Less", "n zero", "y")],
    "a product": [("ReduceProd", "z axis", "m"), ("Less", "m zero", "y")],
}
SIGNED = {
    "what is not below zero": [("Abs", "x", "m"), ("GreaterOrEqual", "m zero", "y")],
    "the other sign": [("Neg", "x", "m"), ("Greater", "m zero", "y")],
}


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
def test_integers_wrap(tmp_path, kind):
    chains = CHAINS if kind == "uint32" else CHAINS | SIGNED | REDUCED
    ends, rng = np.iinfo(kind), np.random.default_rng()
    x, z = (rng.integers(ends.min, ends.max, 37, kind, endpoint=True) for _ in "xz")
    x[:4] = ends.min, ends.max, 0, ends.max // 2 + 1
    z |= 1  # else a product of so many is 0
    numbers = {
        name: np.array(value, kind) for value, name in enumerate(("zero", "one", "two", "three", "four"))
    }
    constants = {**numbers, "axis": np.array([0])}
    feeds = {"x": x, "z": z}
    nodes = [
        helper.make_node(op, [_of(each, at, constants) for each in ins.split()], [f"{out}{at}"])
        for at, chain in enumerate(chains.values())
        for op, ins, out in chain
    ]
    model = of_integers(nodes, feeds, constants)
    kept = [value for value in model.graph.output if value.name.startswith("y")]
    for value, chain in zip(kept, chains.values(), strict=True):
        if chain[-1][0] in ("Greater", "GreaterOrEqual", "Less"):
            value.type.tensor_type.elem_type = TensorProto.BOOL
    del model.graph.output[:]
    model.graph.output.extend(kept)
    path = save(tmp_path, model)
    executable, _ = build_model(path, {}, TARGET)
    results = run(relax.VirtualMachine(executable, tvm.cpu())["main"], feeds)
    wanted = dict(zip(chains, onnxruntime.InferenceSession(path).run(None, feeds), strict=True))
    with np.errstate(over="ignore"):
        wanted["a sum of squares"] = (x * x).sum(dtype=kind, keepdims=True) < 0
        wanted["a product"] = z.prod(dtype=kind, keepdims=True) < 0
    for name, result in zip(chains, results, strict=True):
        np.testing.assert_array_equal(result, wanted[name], name)


def _of(name, at, constants):
    return name if name in constants or name in "xz" else f"{name}{at}"
