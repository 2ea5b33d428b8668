"""LSTMs in graphs: names that lie close together, and weights of bytes."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model


@pytest.mark.parametrize("steps", [1, 3])
def test_a_node_may_be_called_like_its_only_output(tmp_path: Path, steps: int) -> None:
    """Its other results, which nobody reads, get names of their own, also where there is but one step."""
    rng = np.random.default_rng()
    shapes = {"w": (1, 28, 5), "r": (1, 28, 7), "b": (1, 56)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("f"), n) for n, s in shapes.items()]
    node = helper.make_node("LSTM", ["x", *shapes], ["lstm"], name="lstm", hidden_size=7)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (steps, 2, 5)), ("lstm", (steps, 1, 2, 7)))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    path = tmp_path / "lstm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    data = rng.standard_normal((steps, 2, 5)).astype("f")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data))
    (right,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    np.testing.assert_allclose(found.numpy(), right, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "gates", "attributes"),
    [
        ("LSTM", 4, {}),
        ("GRU", 3, {"linear_before_reset": 0}),
        ("GRU", 3, {"linear_before_reset": 1}),
        ("RNN", 1, {}),
    ],
)
def test_weights_larger_than_the_first_cache_are_read_to_and_fro(
    tmp_path: Path, kind: str, gates: int, attributes: dict[str, int], direction: str
) -> None:
    steps, batch, width, hidden = 5, 2, 6, 107 if gates > 1 else 211
    rng = np.random.default_rng()
    both = 2 if direction == "bidirectional" else 1
    shapes = {
        "w": (both, gates * hidden, width),
        "r": (both, gates * hidden, hidden),
        "b": (both, 2 * gates * hidden),
    }
    weights = [
        numpy_helper.from_array((rng.standard_normal(s) / 9).astype("f"), n) for n, s in shapes.items()
    ]
    node = helper.make_node(
        kind, ["x", *shapes], ["y"], hidden_size=hidden, direction=direction, **attributes
    )
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (steps, batch, width)), ("y", (steps, both, batch, hidden)))
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    path = tmp_path / "cell.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    data = rng.standard_normal((steps, batch, width)).astype("f")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data))
    (right,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    np.testing.assert_allclose(found.numpy(), right, atol=1e-5)


@pytest.mark.parametrize(
    ("direction", "per_row", "batch", "hidden", "dtype", "low", "high", "zero"),
    [
        ("forward", False, 2, 7, "uint8", 0, 256, 125),
        ("bidirectional", True, 1, 19, "uint8", 0, 256, 128),
        ("bidirectional", False, 5, 24, "int8", -64, 65, 0),
        ("reverse", True, 1, 33, "uint8", 0, 256, 20),
        ("forward", False, 1, 97, "uint8", 0, 256, 128),  # larger than L1
    ],
)
@pytest.mark.parametrize("pairs", [True, False])
def test_data_and_states_become_bytes_as_onnxruntime_makes_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    direction: str,
    per_row: bool,
    batch: int,
    hidden: int,
    dtype: str,
    low: int,
    high: int,
    zero: int,
    pairs: bool,
) -> None:
    """DynamicQuantizeLSTM: far nearer to it than the same LSTM of floats is, with x86's pairs and without."""
    if not pairs:
        monkeypatch.setattr("kernels.operators.whole.why_not_x86", lambda target: "as elsewhere")
    rng, ways = np.random.default_rng(), 2 if direction == "bidirectional" else 1
    steps, inputs = 3, 12
    scales = (ways, 4 * hidden) if per_row else (ways,)
    constants = {
        "w": rng.integers(low, high, (ways, inputs, 4 * hidden)).astype(dtype),
        "r": rng.integers(low, high, (ways, hidden, 4 * hidden)).astype(dtype),
        "b": rng.standard_normal((ways, 8 * hidden)).astype("f"),
        "w_scale": rng.uniform(0.002, 0.004, scales).astype("f"),
        "w_zero": np.full(scales, zero, dtype),
        "r_scale": rng.uniform(0.004, 0.008, scales).astype("f"),
        "r_zero": np.full(scales, zero, dtype),
    }
    shapes = {"x": (steps, batch, inputs), "h": (ways, batch, hidden), "c": (ways, batch, hidden)}
    quantized = ["w_scale", "w_zero", "r_scale", "r_zero"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        ["x", "w", "r", "b", "n" if batch == 1 else "", "h", "c", "", *quantized],
        ["y", "last_h", "last_c"],
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
    )
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    if batch == 1:
        values.append(helper.make_tensor_value_info("n", TensorProto.INT32, (1,)))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in node.output]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", values, results, weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "lstm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # each of several would quantize its part of the batch by itself
    session, far = onnxruntime.InferenceSession(str(path), options), []
    for number in range(3):  # a state halfway between two bytes may become either
        feeds = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
        if batch == 1:
            feeds["n"] = np.array([steps - number], np.int32)
        made = main(*map(tvm.runtime.tensor, feeds.values()))
        both = zip(made, session.run(None, feeds), strict=True)
        far.append(max(float(np.abs(found.numpy() - right).max()) for found, right in both))
    assert min(far) < 2e-6, far
    assert max(far) < 0.05, far
