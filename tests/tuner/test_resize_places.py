"""Where Resize reads: the very elements that onnxruntime reads, for every pair of extents up to 40."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.lower.operators.resize_taps import Line, taps_of
from tuner.runtimes.engines import onnx_session

MOST = 40
WAYS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
OLD = "tf_half_pixel_for_nn"
CROP, REGION = "tf_crop_and_resize", np.float32([0.1, 0.8])
NEAR = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
PAIRS = [(n, m) for n, m in itertools.product(range(1, MOST + 1), repeat=2) if n != m]


def _session(by, rank, opset, **attributes):
    """A Resize of matrices or vectors whose region, scales and sizes are inputs."""
    region = 2 * rank if attributes["coordinate_transformation_mode"] == CROP else 0
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * rank),
        helper.make_tensor_value_info("region", TensorProto.FLOAT, [region]),
        helper.make_tensor_value_info(by, TensorProto.INT64 if by == "sizes" else TensorProto.FLOAT, [rank]),
    ]
    names = ["x", "region", "", by] if by == "sizes" else ["x", "region", by]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    node = helper.make_node("Resize", names, ["y"], **attributes)
    graph = helper.make_graph([node], "one", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx_session(model.SerializeToString(), 1, optimised=False)


def _bytes(attributes):
    return {name: value.encode() if isinstance(value, str) else value for name, value in attributes.items()}


def _line(before, after, scale, way):
    part = (float(REGION[0]), float(REGION[1])) if way == CROP else (0.0, 1.0)
    return Line(before, after, float(scale), part)


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("way", [*WAYS, OLD, CROP])
def test_the_nearest_element_is_onnxruntimes(way, near):
    attributes = {"mode": "nearest", "coordinate_transformation_mode": way, "nearest_mode": near}
    by = "scales" if near == "floor" or way == OLD else "sizes"
    session = _session(by, 1, 11 if way == OLD else 13, **attributes)
    region = REGION if way == CROP else np.zeros(0, np.float32)
    wrong = []
    for before, after in PAIRS:
        scale = np.float32(after) / np.float32(before)
        said = np.int64([after]) if by == "sizes" else np.float32([scale])
        # Nothing of the input is 0, which is what lies outside of it.
        data = np.arange(1, before + 1, dtype=np.float32)
        theirs = session.run(None, {"x": data, "region": region, by: said})[0]
        if len(theirs) == before:
            continue  # a scale so near one that nothing changes: copied
        taps = taps_of(_line(before, len(theirs), scale, way), 0, _bytes(attributes))
        ours = np.where(taps.outside, 0, data[taps.indices[:, 0]])
        if not np.array_equal(ours, theirs):
            wrong.append((before, after))
    assert wrong == []


@pytest.mark.parametrize("more", [{}, {"antialias": 1}, {"antialias": 1, "exclude_outside": 1}], ids=str)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("way", [*WAYS, CROP])
def test_weights_are_onnxruntimes(way, mode, more):
    attributes = {"mode": mode, "coordinate_transformation_mode": way, **more}
    session = _session("sizes", 2, 19, **attributes)
    region = np.float32([0, REGION[0], 1, REGION[1]]) if way == CROP else np.zeros(0, np.float32)
    for before, after in PAIRS[::17]:
        feeds = {"x": np.eye(before, dtype=np.float32), "region": region, "sizes": np.int64([before, after])}
        theirs = session.run(None, feeds)[0].T
        scale = np.float32(after) / np.float32(before)
        taps = taps_of(_line(before, after, scale, way), 0, _bytes(attributes))
        ours = np.zeros((after, before))
        for row, places, weights in zip(ours, taps.indices, taps.weights, strict=True):
            np.add.at(row, places, weights)
        ours[taps.outside] = 0
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5, err_msg=f"{before} to {after}")
