"""Axes that nodes name: those that data do not have are refused, and none is taken for another."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tiny_models import model, node, save

from compiler.ir.checks import ModelError
from compiler.load import load_partition
from compiler.passes.shapes.axis_range import check_range

FAR = (3, -4, 2**63 - 1, -(2**63), 2**32, 2**32 + 1, -(2**32))
"""The axes of three that are too far, or that 32 bits make others of."""
BYTES = {"step": np.float32([0.1, 0.2, 0.3]), "zero": np.zeros(3, np.uint8)}
CASES = {
    **{
        f"{op} {opset}": (opset, op, ["x"], {})
        for op, opset in (
            *(("ArgMax", 13), ("Hardmax", 13), ("LogSoftmax", 13), ("LpNormalization", 18)),
            *(("Softmax", 11), ("Softmax", 13), ("Split", 11)),
        )
    },
    "Concat": (18, "Concat", ["x", "x"], {}),
    "Gather": (18, "Gather", ["x", "places"], {}),
    "GatherElements": (18, "GatherElements", ["x", "each"], {}),
    "Scatter": (10, "Scatter", ["x", "each", "x"], {}),
    "ScatterElements": (18, "ScatterElements", ["x", "each", "x"], {}),
    "QuantizeLinear": (18, "QuantizeLinear", ["x", "step", "zero"], {}),
    "LayerNormalization": (18, "LayerNormalization", ["x", "ones"], {"axis": 2}),
    "RMSNormalization": (23, "RMSNormalization", ["x", "ones"], {"axis": 2}),
    "Compress": (18, "Compress", ["x", "some"], {}),
    **{f"{op} 11": (11, op, ["x"], {"axes": [1]}) for op in ("ReduceMax", "ReduceSum", "Squeeze")},
    "Slice 9": (9, "Slice", ["x"], {"axes": [1], "starts": [0], "ends": [1]}),
    **{op: (18, op, ["x", "axis"], {}) for op in ("CumSum", "ReduceMax", "Squeeze")},
    "Slice": (18, "Slice", ["x", "places", "more", "axis"], {}),
}
CONSTANTS = {
    **BYTES,
    "places": np.array([0]),
    "more": np.array([1]),
    "each": np.zeros((4, 1, 3), np.int64),
    "ones": np.ones(3, np.float32),
    "some": np.array([True]),
}


def read(tmp_path, case, axis):
    opset, op, names, attributes = CASES[case]
    constants = {name: CONSTANTS[name] for name in names if name in CONSTANTS}
    if "axis" in names:
        constants["axis"] = np.array(axis if op == "CumSum" else [axis])
    else:
        attributes = {**attributes, **({"axes": [axis]} if "axes" in attributes else {"axis": axis})}
    made = model([node(op, names, "y", **attributes)], {"x": (4, 1, 3)}, ["y"], constants, opset=opset)
    kinds = {"ArgMax": TensorProto.INT64, "QuantizeLinear": TensorProto.UINT8}
    made.graph.output[0].type.tensor_type.elem_type = kinds.get(op, TensorProto.FLOAT)
    return load_partition(save(tmp_path, made))


@pytest.mark.parametrize("case", CASES)
def test_an_axis_that_data_do_not_have_is_refused(tmp_path, case):
    good = CASES[case][3].get("axis", 2 if case == "QuantizeLinear" else 1)
    read(tmp_path, case, good)
    for axis in FAR:
        with pytest.raises(ModelError, match=rf"node 'y' \({CASES[case][1]}\)"):
            read(tmp_path, case, axis)


@pytest.mark.parametrize(
    ("op", "rank", "more", "ends"),
    [("Flatten", 3, (0, 1), (-3, 3)), ("OneHot", 2, (1, 1), (-3, 2)), ("ReduceSum", 0, (0, 0), (-1, 0))],
)
def test_as_many_axes_as_there_are(op, rank, more, ends):
    each = helper.make_node(op, ["x"], ["y"], name="it")
    check_range(each, ends, rank, *more)
    for axis in (ends[0] - 1, ends[1] + 1):
        with pytest.raises(ModelError, match=f"from {ends[0]} to {ends[1]}, as its data have {rank}"):
            check_range(each, [axis], rank, *more)


@pytest.mark.parametrize("batches", [2, -1, -4, 2**31, 2**32, 2**32 - 4])
def test_batch_axes_that_there_are_not(tmp_path, batches):
    """onnx's shape inference reads other memory for them, or takes them for others."""
    made = model(
        [node("GatherND", ["x", "each"], "y", batch_dims=batches)],
        {"x": (4, 1, 3)},
        ["y"],
        {"each": np.zeros((4, 1), np.int64)},
        opset=18,
    )
    with pytest.raises(ModelError, match=r"node 'y' \(GatherND\) .*batch"):
        load_partition(save(tmp_path, made))


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (2, 1), (0, 2**32 + 1)])
def test_a_sequence_is_turned_along_its_first_two_axes(tmp_path, axes):
    time, batch = axes
    nodes = [node("ReverseSequence", ["x", "lengths"], "y", time_axis=time, batch_axis=batch)]
    made = model(nodes, {"x": (3, 3, 3)}, ["y"], {"lengths": np.array([1, 2, 3])}, opset=18)
    with pytest.raises(ModelError, match=r"node 'y' \(ReverseSequence\) needs the axes 0 and 1"):
        load_partition(save(tmp_path, made))
