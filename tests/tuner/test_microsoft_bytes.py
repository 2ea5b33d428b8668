"""Operators of com.microsoft on bytes and few bits: written as ONNX's they compute what onnxruntime does."""

import ml_dtypes
import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from qdq_models import run
from tiny_models import model, save
from tvm import relax

from compiler.ir.checks import ModelError
from compiler.load import load_graph, load_partition, read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.runtimes.engines import onnx_session

RNG = np.random.default_rng(5)
MICROSOFT = "com.microsoft"


def _model(op, data, constants, kind, opset=21, **attributes):
    """One node whose inputs are named x0, x1, ...; ``constants`` are by place."""
    names = [f"x{at}" for at in range(len(data) + len(constants))]
    inputs = [
        helper.make_tensor_value_info(f"x{at}", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for at, value in data.items()
    ]
    held = [numpy_helper.from_array(value, f"x{at}") for at, value in constants.items()]
    made = helper.make_node(op, names, ["y"], name="y", domain=MICROSOFT, **attributes)
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([made], "one", inputs, [output], held)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _by_onnxruntime(made, feeds):
    return onnx_session(made.SerializeToString(), 1, optimised=False).run(None, feeds)[0]


INDICES = np.int64([[0, 3, -1, 7], [8, -9, 5, -8]])
"""Of 8 rows: 8 and -9 are outside."""


def _table(bits, shape, block, axis, zeros, kind):
    """(table, scales, zero points) as constants at their places."""
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    if kind == "uint8":
        packed = [*shape[:-1], shape[-1] * bits // 8]
        found = {0: RNG.integers(0, 256, packed).astype(np.uint8)}
        points = RNG.integers(0, 256, [*blocks[:-1], -(-blocks[-1] * bits // 8)]).astype(np.uint8)
    else:
        dtype = getattr(ml_dtypes, kind)
        low = -8 if kind == "int4" else 0
        found = {0: RNG.integers(low, low + 16, shape).astype(dtype)}
        points = RNG.integers(low, low + 16, blocks).astype(dtype)
    found[2] = RNG.standard_normal(blocks).astype(np.float32)
    return found | ({3: points} if zeros else {})


TABLES = [
    *((bits, (8, 64), 32, 0, 1, zeros, "uint8") for bits in (2, 4, 8) for zeros in (False, True)),
    *((4, (8, 72), 32, 0, 1, zeros, "uint8") for zeros in (False, True)),
    *((4, (8, 40), 16, 0, 1, zeros, kind) for zeros in (False, True) for kind in ("int4", "uint4")),
    (4, (8, 3, 33), 16, 0, 2, True, "int4"),
    (4, (40, 8), 16, 1, 0, True, "int4"),
    (4, (8, 48), 16, 0, 0, True, "uint4"),
    (4, (3, 8, 20), 16, 1, 2, True, "int4"),
    (4, (2, 8, 20), 16, 1, 0, False, "uint4"),
]


@pytest.mark.parametrize("row", TABLES, ids=str)
def test_rows_of_a_table(tmp_path, row):
    bits, shape, block, gather, along, zeros, kind = row
    constants = _table(bits, shape, block, along, zeros, kind)
    more = {"bits": bits} if kind == "uint8" else {}
    made = _model(
        "GatherBlockQuantized",
        {1: INDICES},
        constants,
        TensorProto.FLOAT,
        block_size=block,
        gather_axis=gather,
        quantize_axis=along - len(shape),
        **more,
    )
    expected = _by_onnxruntime(made, {"x1": INDICES})
    path = save(tmp_path, made)
    read = read_model(path)
    for each in read.graph.node:
        each.ClearField("name")  # onnxruntime wants them to differ
    np.testing.assert_allclose(_by_onnxruntime(read, {"x1": INDICES}), expected, rtol=1e-6, atol=1e-6)
    graph = load_graph(path)
    assert graph.tensors["y"].shape == expected.shape
    # Packed as in the file where a row is whole, and never floats.
    read_ones = {name for each in graph.nodes for name in each.input} & set(graph.constants)
    tables = [graph.constants[name] for name in read_ones]
    assert all(value.dtype == np.uint8 or value.size < np.prod(shape) for value in tables)
    if gather < len(shape) - 1 and not shape[-1] % 8:
        assert max(value.size for value in tables if value.dtype == np.uint8) * 8 == np.prod(shape) * bits


@pytest.mark.usefixtures("avx2")
def test_a_module_takes_rows_of_a_table(tmp_path):
    constants = _table(4, (8, 64), 32, 1, True, "int4")
    indices = INDICES.astype(np.int32)
    made = _model("GatherBlockQuantized", {1: indices}, constants, TensorProto.FLOAT, block_size=32)
    executable, _ = build_model(save(tmp_path, made), {}, CATALOGUE["x86-avx2"])
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(indices)).numpy()
    np.testing.assert_allclose(result, _by_onnxruntime(made, {"x1": indices}), rtol=1e-6, atol=1e-6)
    assert not result[1, :2].any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block_size": 16}, "scales of"),
        ({"gather_axis": 2}, "gathers along axis 2"),
        ({"bits": 3}, "3 bits"),
    ],
    ids=str,
)
def test_tables_that_do_not_fit_are_refused(tmp_path, change, words):
    constants = _table(4, (8, 64), 32, 1, False, "uint8")
    attributes = {"block_size": 32, "bits": 4, **change}
    made = _model("GatherBlockQuantized", {1: INDICES}, constants, TensorProto.FLOAT, **attributes)
    with pytest.raises(ModelError, match=rf"node 'y' \(GatherBlockQuantized\).*{words}"):
        read_model(save(tmp_path, made))


F, U, S = np.float32, np.uint8, np.int8
STEPS = {"xs": F(0.02), "xz": U(7), "ys": F(0.005), "yz": U(120), "low": U(3), "ws": F(0.01), "wz": S(0)}


def _bytes_model(nodes, shape, constants, opset=13):
    made = model(nodes, {"x": shape}, ["y"], constants, opset=opset, dtype=TensorProto.UINT8)
    made.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return made


def _node(op, names, output="y", **attributes):
    return helper.make_node(op, names, [output], name=output, domain=MICROSOFT, **attributes)


CONVOLVED = ["xs", "xz", "w", "ws", "wz", "ys", "yz"]
LAST = [
    ("QLinearConv", (2, 7, 6, 4), CONVOLVED, {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("QLinearConv", (2, 9, 4), [*CONVOLVED[:2], "line", *CONVOLVED[3:]], {}),
    (
        "QLinearAveragePool",
        (2, 7, 6, 4),
        ["xs", "xz", "ys", "yz"],
        {"kernel_shape": [3, 2], "strides": [2, 1]},
    ),
    ("QLinearGlobalAveragePool", (2, 7, 6, 4), ["xs", "xz", "ys", "low"], {}),
    ("QLinearGlobalAveragePool", (2, 3, 4, 5, 6), ["xs", "xz", "ys", "low"], {}),
]


@pytest.mark.parametrize(("op", "shape", "names", "attributes"), LAST)
def test_channels_that_are_last(tmp_path, op, shape, names, attributes):
    weights = {
        "w": RNG.integers(-64, 64, (6, 2, 3, 2)).astype(S),
        "line": RNG.integers(-64, 64, (6, 4, 3)).astype(S),
    }
    constants = {name: (STEPS | weights)[name] for name in names}
    nodes = [_node(op, ["x", *names], channels_last=1, **attributes)]
    run(tmp_path, _bytes_model(nodes, shape, constants), 1)


@pytest.mark.parametrize("dtype", [U, S])
def test_the_largest_byte_of_channels_that_are_last(tmp_path, dtype):
    data = RNG.integers(0, 256, (2, 7, 6, 4)).astype(U).view(dtype)
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    more = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "ceil_mode": 1}
    made = _model("NhwcMaxPool", {0: data}, {}, kind, opset=17, **more)
    (output,) = load_graph(save(tmp_path, made)).outputs
    expected = _by_onnxruntime(made, {"x0": data})
    assert load_graph(tmp_path / "model.onnx").tensors[output].shape == expected.shape
    read = read_model(tmp_path / "model.onnx")
    for each in read.graph.node:
        each.ClearField("name")
    np.testing.assert_array_equal(_by_onnxruntime(read, {"x0": data}), expected)
    made = _model("NhwcMaxPool", {0: data}, {}, kind, opset=11, **more)
    with pytest.raises(ModelError, match="operator set 12"):
        read_model(save(tmp_path, made))


def test_a_chain_turns_its_channels_once(tmp_path):
    """What onnxruntime's optimizer writes of a network: only its ends are turned."""
    weights = RNG.integers(-64, 64, (6, 4, 3, 3)).astype(S)
    nodes = [
        _node("QLinearConv", ["x", *CONVOLVED], "c", channels_last=1, pads=[1, 1, 1, 1]),
        _node("NhwcMaxPool", ["c"], "m", kernel_shape=[2, 2], strides=[2, 2]),
        _node("QLinearGlobalAveragePool", ["m", "ys", "yz", "ys", "yz"], channels_last=1),
    ]
    # There are six results: one may be the neighbour of onnxruntime's.
    partition = run(tmp_path, _bytes_model(nodes, (1, 8, 8, 4), STEPS | {"w": weights}), 1, share=0.2)
    turned = [node for node in partition.graph.nodes if node.op_type == "Transpose"]
    assert len(turned) == 2
    (product,) = partition.products
    assert product.workload.kind == "qconv2d"


def test_a_choice_of_bytes(tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL),
        _node("QLinearWhere", ["b", "x", "xs", "xz", "other", "ys", "yz", "ys", "yz"]),
    ]
    other = RNG.integers(0, 256, (3, 8)).astype(U)
    held = {name: STEPS[name] for name in ("xs", "xz", "ys", "yz")}
    run(tmp_path, _bytes_model(nodes, (3, 8), held | {"other": other}), 1)


def test_what_is_refused_gets_advice_that_fits(tmp_path):
    """The optimizer is blamed for what it writes alone."""
    for op, blamed in (("QLinearReduceMean", False), ("NhwcFusedConv", True)):
        with pytest.raises(ModelError, match=f"com.microsoft.{op}") as refusal:
            load_partition(save(tmp_path, _bytes_model([_node(op, ["x"])], (1, 4, 6, 6), {})))
        assert ("without onnxruntime's optimizer" in str(refusal.value)) == blamed
