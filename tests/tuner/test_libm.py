"""A built model needs nothing of libm, whatever it computes and for whatever machine."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model

UNARY = (
    *(
        "Exp",
        "Log",
        "Sigmoid",
        "Tanh",
        "Erf",
        "Sin",
        "Cos",
        "Tan",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Softplus",
    ),
    *("Mish", "Elu", "Selu", "HardSwish", "Softsign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal"),
)
BETWEEN = ("Asin", "Acos", "Atanh")
COUNT = 37
TARGETS = {
    "x86-64-v2": replace(CATALOGUE["x86-avx2"], cpu="x86-64-v2", vector_bits=128),
    **{
        name: CATALOGUE[name]
        for name in ("x86-avx2", "rpi4", "rpi4-32", "power10", "riscv-k1", "hexagon-v66")
    },
}
ALLOWED = re.compile(r"TVM\w+|mem(cpy|set|move)|__aeabi_\w+|__hexagon_\w+|__\w+hf\w*2|__gnu_\w+_ieee")
"""TVM's runtime, what moves memory, and compiler-rt."""


def model(kind):
    """Each operator as an output of its own, softmax and a power with them."""
    nodes = [helper.make_node(op, ["x"], [op], name=op) for op in UNARY]
    nodes += [helper.make_node("Tanh", ["x"], ["between"])]
    nodes += [helper.make_node(op, ["between"], [op], name=op) for op in BETWEEN]
    nodes += [
        helper.make_node("Pow", ["x", "y"], ["Pow"]),
        helper.make_node("Mod", ["x", "y"], ["Mod"], fmod=1),
        helper.make_node("Softmax", ["x"], ["Softmax"]),
        helper.make_node("LogSoftmax", ["x"], ["LogSoftmax"]),
        helper.make_node("Acosh", ["Cosh"], ["Acosh"]),
        helper.make_node("Pow", ["x", "third"], ["Cube"]),
    ]
    outputs = [*UNARY, *BETWEEN, "Pow", "Mod", "Softmax", "LogSoftmax", "Acosh", "Cube"]
    three = np.array(3, helper.tensor_dtype_to_np_dtype(kind))
    graph = helper.make_graph(
        nodes,
        "functions",
        [helper.make_tensor_value_info(name, kind, [3, COUNT]) for name in ("x", "y")],
        [helper.make_tensor_value_info(name, kind, [3, COUNT]) for name in outputs],
        [numpy_helper.from_array(three, "third")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("functions") / "model.onnx"
    path.write_bytes(model(TensorProto.FLOAT).SerializeToString())
    return path


@pytest.mark.parametrize("name", TARGETS)
def test_a_built_model_needs_nothing_of_libm(path, tmp_path, name):
    executable, _ = build_model(path, {}, TARGETS[name])
    said = []

    def link(output, objects, **_):
        command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "--no-undefined", "--error-limit=0"]
        done = subprocess.run([*command, *objects, "-o", output], capture_output=True, text=True, check=False)
        said.append(done.stderr)
        Path(output).touch()

    executable.export_library(str(tmp_path / "model.so"), fcompile=link)
    (text,) = said
    missing = set(re.findall(r"undefined symbol: (\S+)", text))
    assert "TVMBackendAllocWorkspace" in missing or any(each.startswith("TVMFFI") for each in missing), text
    assert [each for each in sorted(missing) if not ALLOWED.fullmatch(each)] == []


def test_all_functions_give_what_onnxruntime_does(path):
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")
    rng = np.random.default_rng()
    # Not far from 0: the last bit of a Tanh near 1 decides much of its Atanh.
    given = {name: rng.uniform(0.1, 2.5, (3, COUNT)).astype(np.float32) for name in ("x", "y")}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    executable, _ = build_model(path, {}, TARGETS["x86-avx2"])
    machine = relax.VirtualMachine(executable, tvm.cpu())
    got = machine["main"](*(tvm.runtime.tensor(given[name]) for name in ("x", "y")))
    for output, ours, theirs in zip(session.get_outputs(), got, session.run(None, given), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=3e-6, atol=3e-6, err_msg=output.name)
