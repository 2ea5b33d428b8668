"""Convolutions that are written as others: what is listed of them, and that a build of them is right.

``tests/tuner/operators/windows.py`` has every form of each alone.
"""

import numpy as np
import pytest
from test_apply import TARGET, build_and_compare, random_inputs
from test_apply import computed as results
from tiny_models import model, node, save

from compiler.intake.extract import extract
from kernels.numerics import Numerics
from tuner.backend.apply import build_model
from tuner.runtimes.engines import onnx_session

pytestmark = pytest.mark.usefixtures("avx2")


def listed(path):
    found = extract(path)
    assert found.not_tunable == ()
    return [(str(o.workload), nodes) for o in found.operators for nodes in o.nodes]


BATCH_NORM = {name: np.linspace(0.5, 1.5, 8, dtype=np.float32) for name in ("g", "b", "m", "v")}


def test_a_run_of_lines_is_computed_as_images_from_end_to_end(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], "first", pads=[2, 2], strides=[2]),
        node("BatchNormalization", ["first", "g", "b", "m", "v"], "norm"),
        node("Relu", ["norm"], "relu"),
        node("Conv", ["relu", "u", "bias"], "second", group=8, dilations=[2], pads=[2, 2]),
        node("Add", ["second", "relu"], "sum"),
        node("PRelu", ["sum", "slope"], "prelu"),
        node("MaxPool", ["prelu"], "pool", kernel_shape=[3], strides=[2], pads=[1, 0]),
        node("Concat", ["pool", "pool"], "joined", axis=-1),
        node("Mul", ["joined", "row"], "y"),
        node("ReduceMean", ["relu"], "mean", axes=[1]),
    ]
    constants = {"w": (8, 3, 5), "u": (8, 1, 3), "bias": (8,), "slope": (8, 1), "row": (1, 8, 20)}
    made = model(nodes, {"x": (2, 3, 41)}, ["y", "mean"], {**constants, **BATCH_NORM})
    path = save(tmp_path, made)
    assert listed(path) == [
        ("2x conv 3x1x41 -> 8, 1x5/1x2 +bias +relu", ("first", "norm", "relu")),
        ("2x conv 8x1x21 -> 8, 1x3 d1x2 g8 +bias +residual +prelu", ("second", "sum", "prelu")),
    ]
    build_and_compare(path)


def test_what_a_matrix_product_takes_in_stays_with_it(tmp_path):
    nodes = [
        node("MatMul", ["x", "w"], "product"),
        node("Add", ["product", "bias"], "sum"),
        node("Conv", ["sum", "u"], "y"),
    ]
    path = save(tmp_path, model(nodes, {"x": (1, 4, 9)}, ["y"], {"w": (9, 6), "bias": (6,), "u": (2, 4, 3)}))
    assert listed(path) == [
        ("gemm 4x9 by 9x6 +bias", ("product", "sum")),
        ("conv 4x1x6 -> 2, 1x3", ("y",)),
    ]


def test_long_windows_of_one_row_stand_upright(tmp_path):
    nodes = [node("Conv", ["x", "w"], "frames", strides=[5], pads=[7, 3]), node("Relu", ["frames"], "y")]
    path = save(tmp_path, model(nodes, {"x": (2, 2, 170)}, ["y"], {"w": (9, 2, 32)}))
    assert listed(path) == [("2x conv 2x170x1 -> 9, 32x1/5x1 +relu", ("frames", "y"))]
    build_and_compare(path)


@pytest.mark.parametrize("shape", [(1, 3, 9, 8), (1, 3, 11)])
def test_zeros_around_the_data_are_padding(tmp_path, shape):
    axes = len(shape) - 2
    widths = np.array([0, 0, *range(1, axes + 1), 0, 0, *range(2, axes + 2)])
    nodes = [node("Pad", ["x", "widths"], "pad"), node("Conv", ["pad", "w"], "conv", pads=[1] * 2 * axes)]
    nodes += [node("Pad", ["conv", "more"], "y", mode="reflect")]
    more = np.array([0] * (2 * axes + 3) + [1])
    constants = {"widths": widths, "more": more, "w": (4, 3, *[3] * axes)}
    path = save(tmp_path, model(nodes, {"x": shape}, ["y"], constants))
    ((_, names),) = listed(path)
    assert names == ("conv",)
    build_and_compare(path)


def test_a_transposed_convolution_is_one_of_its_phases(tmp_path):
    nodes = [
        node("ConvTranspose", ["x", "w", "bias"], "up", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["up", "g", "b", "m", "v"], "norm"),
        node("Sub", ["one", "norm"], "turned"),
        node("Clip", ["turned", "low", "high"], "clip"),
        node(
            "ConvTranspose",
            ["clip", "u"],
            "deep",
            group=8,
            strides=[3, 2],
            pads=[2, 0, 1, 3],
            dilations=[1, 2],
        ),
        node("DepthToSpace", ["deep"], "y", blocksize=2, mode="CRD"),
    ]
    ends = {"one": np.float32(1), "low": np.float32(-1), "high": np.float32(2)}
    constants = {"w": (6, 8, 4, 4), "bias": (8,), "u": (8, 1, 5, 3), **ends}
    path = save(tmp_path, model(nodes, {"x": (2, 6, 5, 7)}, ["y"], {**constants, **BATCH_NORM}))
    assert listed(path) == [
        ("2x conv 6x5x7 -> 32, 2x2 +bias +clip", ("up", "norm", "turned", "clip")),
        ("2x conv 8x10x14 -> 16, 2x3 g8", ("deep",)),
        ("2x conv 8x10x14 -> 8, 1x3 g8", ("deep",)),
    ]
    build_and_compare(path)


@pytest.mark.parametrize(
    ("extents", "taps", "attributes"),
    [
        ((5, 6), (3, 3), {"pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((5, 6), (1, 5), {"strides": [2, 3], "dilations": [1, 2]}),
        ((7,), (2,), {"strides": [3], "dilations": [3], "pads": [1, 2]}),
        ((3, 4, 2), (3, 1, 2), {"strides": [2, 2, 1], "group": 2, "pads": [1, 0, 0, 0, 0, 0]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("computed", [False, True], ids=["constant", "computed"])
def test_an_infinity_reaches_what_a_transposed_convolution_sees_of_it_alone(
    tmp_path, extents, taps, attributes, computed
):
    attributes = {"strides": [2] * len(taps), **attributes}
    nodes = [node("ConvTranspose", ["x", "w", "bias"], "up", **attributes), node("Relu", ["up"], "y")]
    known = {"w": (4, 16, *taps), "bias": (16 * attributes.get("group", 1),)}
    given = {"x": (1, 4, *extents), **(known if computed else {})}
    path = save(tmp_path, model(nodes, given, ["y"], {} if computed else known))
    executable = build_model(path, {}, TARGET, numerics=Numerics("exact"))[0]
    session = onnx_session(path.read_bytes(), 1, optimised=False)
    for value in (np.inf, np.nan):
        for name in given.keys() - {"bias"}:
            inputs = random_inputs(path)
            inputs[name][0, 1, *(size // 2 for size in inputs[name].shape[2:])] = value
            for ours, right in zip(results(executable, inputs), session.run(None, inputs), strict=True):
                np.testing.assert_allclose(ours, right, 1e-4, 1e-4)


def test_a_transposed_convolution_of_weights_that_are_computed_is_a_product(tmp_path):
    made = model([node("ConvTranspose", ["x", "x"], "y")], {"x": (4, 4, 9, 9)}, ["y"], {})
    assert listed(save(tmp_path, made)) == [("matmul 4x 324x4 by 4x81", ("y",))]


def test_an_infinity_of_a_block_reaches_one_place_of_an_image(tmp_path):
    nodes = [node("Col2Im", ["x", "size", "block"], "y", strides=[1, 2], pads=[1, 0, 0, 1])]
    sizes = {"size": np.array([4, 5]), "block": np.array([2, 2])}
    made = model(nodes, {"x": (1, 12, 12)}, ["y"], sizes, opset=18)
    path = save(tmp_path, made)
    executable = build_model(path, {}, TARGET)[0]
    inputs = random_inputs(path)
    inputs["x"][0, 6, 5] = np.inf
    (ours,), (right,) = results(executable, inputs), onnx_session(path.read_bytes(), 1).run(None, inputs)
    assert np.isinf(ours).sum() == 1
    np.testing.assert_allclose(ours, right, 1e-5, 1e-5)


def test_a_transposed_convolution_of_stride_one_is_one_of_turned_weights(tmp_path):
    nodes = [node("ConvTranspose", ["x", "w"], "up", dilations=[2]), node("Relu", ["up"], "y")]
    path = save(tmp_path, model(nodes, {"x": (1, 5, 11)}, ["y"], {"w": (5, 3, 3)}))
    assert listed(path) == [("conv 5x1x11 -> 3, 1x3 d1x2 +relu", ("up", "y"))]
    build_and_compare(path)


def test_a_run_of_volumes_is_computed_as_images_from_end_to_end(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], "first", pads=[1, 1, 0, 1, 1, 2], strides=[1, 2, 1]),
        node("BatchNormalization", ["first", "g", "b", "m", "v"], "norm"),
        node("Relu", ["norm"], "relu"),
        node("Conv", ["relu", "u", "bias"], "second", group=4, dilations=[2, 1, 1], pads=[2, 1, 1, 2, 1, 1]),
        node("Add", ["second", "relu"], "sum"),
        node("MaxPool", ["sum"], "pool", kernel_shape=[3, 2, 2], strides=[2, 2, 1], pads=[1, 0, 0, 1, 1, 0]),
        node("Mul", ["pool", "scale"], "scaled"),
        node("Conv", ["scaled", "point"], "last"),
        node("GlobalAveragePool", ["last"], "mean"),
        node("Concat", ["last", "last"], "y", axis=2),
    ]
    constants = {"w": (8, 3, 3, 3, 3), "u": (8, 2, 3, 3, 3), "bias": (8,), "scale": (8, 1, 1, 1)}
    constants["point"] = (5, 8, 1, 1, 1)
    made = model(nodes, {"x": (2, 3, 6, 9, 8)}, ["y", "mean"], {**constants, **BATCH_NORM})
    path = save(tmp_path, made)
    assert listed(path) == [
        ("12x conv 9x9x8 -> 8, 3x3/2x1 +bias +relu", ("first", "norm", "relu")),
        ("12x conv 24x5x8 -> 8, 3x3 g4 +bias +residual", ("second", "sum")),
        ("6x conv 8x3x7 -> 5, 1x1", ("last",)),
    ]
    build_and_compare(path)


def test_a_transposed_convolution_of_volumes_is_one_of_its_phases(tmp_path):
    nodes = [
        node("ConvTranspose", ["x", "w", "bias"], "up", strides=[2, 2, 1], pads=[1, 0, 1, 0, 1, 1]),
        node("ConvTranspose", ["up", "u"], "wide", group=2, strides=[1, 1, 2], dilations=[2, 1, 1]),
        node("Relu", ["wide"], "y"),
    ]
    constants = {"w": (3, 4, 4, 3, 2), "bias": (4,), "u": (4, 3, 2, 1, 2)}
    path = save(tmp_path, model(nodes, {"x": (2, 3, 4, 5, 6)}, ["y"], constants))
    assert listed(path) == [
        ("10x conv 6x5x6 -> 8, 2x2 +bias", ("up",)),
        ("10x conv 6x5x6 -> 8, 1x2 +bias", ("up",)),
        ("22x conv 8x10x5 -> 12, 1x1 g2 +relu", ("wide", "y")),
    ]
    build_and_compare(path)
