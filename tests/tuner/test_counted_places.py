"""Places and counts beyond the part that counts end a run, whatever room there is, as in onnxruntime."""

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model
from tuner.backend.comparison import run

TARGET = CATALOGUE["x86-avx2"]
pytestmark = pytest.mark.usefixtures("avx2")
FLOAT, LONG = TensorProto.FLOAT, TensorProto.INT64
ROWS = 4
COUNTED = [("Greater", "s least", "m", {}), ("Compress", "x m", "t", {"axis": 0})]
PLACES = [[0, 1], [1, -2], [2, 0], [0, -3], [3, 3], [-4, 0], [-(1 << 63), 0], [1 << 40, 0]]
# Of one row, and of an element of one.
WHOLE, SINGLE = np.array(PLACES), np.stack([PLACES, np.zeros_like(PLACES)], -1)
CASES = {
    "gather": ([("Gather", "t i", "y", {"axis": 0})], WHOLE, FLOAT),
    "places of 32 bits": ([("Gather", "t i", "y", {"axis": 0})], WHOLE[:6].astype(np.int32), FLOAT),
    "elements": ([("GatherElements", "t i", "y", {"axis": 0})], np.stack([PLACES, PLACES], -1), FLOAT),
    "coordinates": ([("GatherND", "t i", "y", {})], SINGLE, FLOAT),
    "rows": ([("GatherND", "t i", "y", {})], WHOLE[..., None], FLOAT),
    "scatter": ([("ScatterND", "t i u", "y", {})], SINGLE, FLOAT),
    "scattered elements": (
        [("ScatterElements", "t i uu", "y", {"axis": 0})],
        np.stack([PLACES] * 2, -1),
        FLOAT,
    ),
    "the last": ([("Gather", "t end", "y", {"axis": 0})], None, FLOAT),
    "the best two": ([("TopK", "t two", "y j", {"axis": 0})], None, FLOAT),
    "as many as data say": (
        [
            ("Cast", "m", "n", {"to": LONG}),
            ("ReduceSum", "n", "k", {"keepdims": 0}),
            ("Add", "k one", "more", {}),
            ("TopK", "x more", "y j", {"axis": 0}),
        ],
        None,
        FLOAT,
    ),
    "the place of the greatest": ([("ArgMax", "t", "y", {"axis": 0})], None, LONG),
    "a mean of whole numbers": (
        [("Cast", "t", "w", {"to": LONG}), ("ReduceMean", "w", "y", {"axes": [0]})],
        None,
        LONG,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_count_is_not_read(tmp_path, name):
    nodes, places, kind = CASES[name]
    x = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2) - 3
    feeds = {"x": x, "s": np.zeros(ROWS, np.float32)}
    if places is not None:
        feeds["i"] = places[0]
    constants = {
        "least": np.float32(0.5),
        "end": np.array(-1),
        "one": np.array([1]),
        "two": np.array([2]),
        "u": np.float32([7, 8]),
        "uu": np.float32([[7, 8], [9, 10]]),
    }
    nodes = [*COUNTED, *nodes]
    read = {each for _, ins, _, _ in nodes for each in ins.split()}
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), outs.split(), outs, **more) for op, ins, outs, more in nodes],
        "counted",
        [
            helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for each, value in feeds.items()
        ],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value, each) for each, value in constants.items() if each in read],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    executable, _ = build_model(path, {}, TARGET)
    main, session = relax.VirtualMachine(executable, tvm.cpu())["main"], onnxruntime.InferenceSession(path)
    ended = 0
    for count in (2, 0, ROWS):
        feeds["s"] = np.float32([1] * count + [0] * (ROWS - count))[::-1].copy()
        for some in [None] if places is None else places:
            if some is not None:
                feeds["i"] = some
            try:
                (wanted,) = session.run(["y"], feeds)
            except Exception:  # its own types
                ended += 1
                with pytest.raises(Exception, match=r"needs (an index|a lack of elements) from"):
                    run(main, feeds)
                continue
            np.testing.assert_array_equal(run(main, feeds)[0], wanted)
    assert ended or name == "a mean of whole numbers"


def test_the_least_are_of_what_counts_where_that_is_not_a_number(tmp_path):
    graph = helper.make_graph(
        [
            helper.make_node("Greater", ["s", "least"], ["m"]),
            helper.make_node("Compress", ["x", "m"], ["t"], axis=0),
            helper.make_node("Shape", ["t"], ["n"]),
            helper.make_node("TopK", ["t", "n"], ["y", "j"], axis=0, largest=0),
        ],
        "least",
        [helper.make_tensor_value_info(name, FLOAT, [3]) for name in "xs"],
        [helper.make_tensor_value_info("y", FLOAT, None), helper.make_tensor_value_info("j", LONG, None)],
        [numpy_helper.from_array(np.float32(0.5), "least")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    executable, _ = build_model(path, {}, TARGET)
    feeds = {"x": np.float32([np.nan, 1, 7]), "s": np.float32([1, 1, 0])}
    values, places = run(relax.VirtualMachine(executable, tvm.cpu())["main"], feeds)
    np.testing.assert_array_equal(values, np.float32([1, np.nan]))
    assert places.tolist() == [1, 0]
