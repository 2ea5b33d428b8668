"""NaN and infinities through built models: none vanishes, and none appears."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from kernels.numerics import Numerics
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.runtimes.engines import onnx_session
from worker.measure.host import host_target

NAN, INF = np.nan, np.inf


def computed(
    tmp_path, nodes, x, constants=(), numerics=Numerics.EXACT_INTEGERS, opset=18, kind=TensorProto.FLOAT
):
    """What a model of an input ``x`` makes of it, its result ``y``."""
    path = tmp_path / "model.onnx"
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), outs.split(), **more) for op, ins, outs, more in nodes],
        "special",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in dict(constants).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    executable, _ = build_model(path, {}, host_target(), numerics=numerics)
    (result,) = run(relax.VirtualMachine(executable, tvm.cpu())["main"], {"x": x})
    return result


def floats(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


CLAMPS = {
    "relu": [("Relu", "c", "y", {})],
    "relu6": [("Clip", "c zero six", "y", {})],
    "max": [("Max", "c six", "y", {})],
    "min": [("Min", "zero c", "y", {})],
}


@pytest.mark.parametrize("clamp", CLAMPS)
@pytest.mark.parametrize("groups", [1, 4, 16])
def test_a_nan_passes_the_clamp_of_a_convolution(tmp_path, clamp, groups):
    x, w = floats(1, 16, 20, 20), floats(16, 16 // groups, 3, 3, seed=2)
    x[0, 3, 5, 6] = NAN
    more = {"pads": [1, 1, 1, 1], "group": groups}
    constants = {"w": w, "zero": np.float32(0), "six": np.float32(6)}
    result = computed(tmp_path, [("Conv", "x w", "c", more), *CLAMPS[clamp]], x, constants, Numerics.EXACT)
    reached = np.zeros(result.shape, bool)
    first = 3 // (16 // groups) * (16 // groups)
    reached[:, first : first + 16 // groups, 4:7, 5:8] = True
    assert np.array_equal(np.isnan(result), reached)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_nan_passes_the_clamp_of_a_matrix_product(tmp_path, rows):
    x = floats(rows, 24)
    x[0, 20] = NAN
    nodes = [("MatMul", "x w", "c", {}), ("Relu", "c", "y", {})]
    result = computed(tmp_path, nodes, x, {"w": floats(24, 40, seed=2)})
    assert np.array_equal(np.isnan(result).all(axis=1), [True] + [False] * (rows - 1))
    assert np.array_equal(np.isnan(result).any(axis=1), [True] + [False] * (rows - 1))


def test_exact_numerics_keep_an_infinity_to_its_window(tmp_path):
    x, w = floats(1, 8, 24, 24), floats(16, 8, 3, 3, seed=2)
    x[0, 3, 10, 10] = INF
    nodes = [("Conv", "x w", "c", {"pads": [1, 1, 1, 1]}), ("Relu", "c", "y", {})]
    exact = computed(tmp_path, nodes, x, {"w": w}, Numerics.EXACT)
    assert not np.isnan(exact).any()
    default = computed(tmp_path, nodes, x, {"w": w})
    near = np.zeros(x.shape[2:], bool)
    near[3:19, 3:19] = True
    np.testing.assert_allclose(default[..., ~near], exact[..., ~near], rtol=1e-4, atol=1e-4)
    # What spreads is NaN, not a number that looks right.
    assert (np.isnan(default) | np.isclose(default, exact, 1e-3, 1e-3)).all()


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    ("op", "more", "shape"),
    [
        ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, (1, 2, 9, 11)),
        ("MaxPool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, (1, 16, 9, 11)),
        ("GlobalMaxPool", {}, (1, 2, 9, 11)),
        ("ReduceMax", {"keepdims": 0}, (99,)),
        ("ReduceMin", {"keepdims": 0}, (3, 33)),
    ],
)
def test_a_nan_is_the_extreme_wherever_it_stands(tmp_path, place, op, more, shape):
    x = floats(*shape)
    x.flat[(0, 48, 98)[place]] = NAN
    result = computed(tmp_path, [(op, "x", "y", more)], x)
    if op == "MaxPool":
        row, column = divmod((0, 48, 98)[place], 11)
        plane = result[0, 0]
        assert np.isnan(plane[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]).all()
        assert (
            np.isnan(result).sum()
            == np.isnan(plane[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]).size
        )
    else:
        assert np.isnan(result.flat[0])
        assert np.isnan(result).sum() == 1


@pytest.mark.parametrize(
    ("op", "more", "constants", "x", "y"),
    [
        ("Sign", {}, {}, [NAN, -2, 0, INF], [NAN, -1, 0, 1]),
        ("ThresholdedRelu", {"alpha": 1.0}, {}, [NAN, -INF, 2, INF, 1], [0, 0, 2, INF, 0]),
        ("Mul x 0", {}, {"c": 0.0}, [NAN, INF, 3], [NAN, NAN, 0]),
        ("Div x 0", {}, {"c": 0.0}, [NAN, 1, -1, 0], [NAN, INF, -INF, NAN]),
        ("Pow x 0.5", {}, {"c": 0.5}, [-INF, -1, 4, NAN], [INF, NAN, 2, NAN]),
        ("ReduceLogSumExp", {}, {}, [INF, 1, 2], [INF]),
        ("ReduceLogSumExp", {"keepdims": 0}, {}, [-INF, -INF], -INF),
        ("Hardmax", {}, {}, [-INF, -INF, -INF], [1, 0, 0]),
        ("Hardmax", {}, {}, [3, NAN, INF], [0, 1, 0]),
        ("Clip", {}, {"c": -1.0, "d": 1.0}, [NAN, INF, -INF, 0.5], [NAN, 1, -1, 0.5]),
        ("Softmax", {}, {}, [INF, 1, 2], [NAN, NAN, NAN]),
        ("Gelu", {}, {}, [INF, NAN, -INF], [INF, NAN, NAN]),
    ],
)
def test_operators_have_the_special_values_of_their_definition(tmp_path, op, more, constants, x, y):
    names = " ".join(["x", *constants])
    values = {name: np.float32(value) for name, value in constants.items()}
    node = (op.split()[0], names, "y", more)
    with np.errstate(invalid="ignore"):
        result = computed(tmp_path, [node], np.array(x, np.float32), values, opset=20)
    np.testing.assert_allclose(result, np.array(y, np.float32), rtol=1e-5)


@pytest.mark.parametrize(
    ("op", "right"), [("Equal", [0, 1, 1]), ("Sub", [NAN, NAN, 0]), ("GreaterOrEqual", [0, 1, 1])]
)
def test_what_meets_itself_is_not_folded(tmp_path, op, right):
    x = np.array([NAN, INF, 2], np.float32)
    nodes = [(op, "x x", "s", {}), ("Cast", "s", "t", {"to": 1}), ("Relu", "t", "y", {})]
    np.testing.assert_array_equal(computed(tmp_path, nodes, x), np.array(right, np.float32))


@pytest.mark.parametrize(("code", "kind"), [(6, np.int32), (7, np.int64), (3, np.int8), (2, np.uint8)])
def test_what_integers_do_not_hold_becomes_what_x86_makes_of_it(tmp_path, code, kind):
    x = np.array([NAN, INF, -INF, 3e38, -3e38, 2.7, -2.7, 300.0, 1e12], np.float32)
    wide = np.int64 if kind is np.int64 else np.int32
    least = np.iinfo(wide).min
    right = np.array([least, least, least, least, least, 2, -2, 300, 0], wide)
    right[-1] = int(x[-1]) if kind is np.int64 else least
    result = computed(tmp_path, [("Cast", "x", "y", {"to": code})], x, kind=code)
    assert np.array_equal(result, right.astype(kind))


@pytest.mark.parametrize("largest", [0, 1])
def test_the_order_of_topk_has_nan_above_all_numbers(tmp_path, largest):
    x = floats(6, 41)
    x[1, 3] = x[2, 40] = x[3, :] = x[4, 0] = NAN
    x[5, 5:9] = INF, -INF, NAN, INF
    nodes = [("TopK", "x k", "y places", {"largest": largest})]
    result = computed(tmp_path, nodes, x, {"k": np.array([6], np.int64)})
    order = np.sort(x, axis=-1)  # NaN last
    right = order[:, ::-1][:, :6] if largest else order[:, :6]
    np.testing.assert_array_equal(result, right)


def test_places_of_extremes_are_those_of_the_first_nan(tmp_path):
    x = floats(5, 3, 17)
    x[0, 1, 4] = x[0, 1, 9] = x[1, 0, 16] = NAN
    x[2] = -INF
    for op, right in (("ArgMax", np.argmax(x, -1)), ("ArgMin", np.argmin(x, -1))):
        nodes = [(op, "x", "y", {"axis": -1, "keepdims": 0})]
        np.testing.assert_array_equal(computed(tmp_path, nodes, x, kind=TensorProto.INT64), right)


def test_a_dynamic_range_with_a_nan_is_nan(tmp_path):
    x = floats(3, 50)
    nodes = [("DynamicQuantizeLinear", "x", "q s z", {}), ("DequantizeLinear", "q s z", "y", {})]
    assert np.isfinite(computed(tmp_path, nodes, x)).all()
    x[1, 17] = NAN
    assert np.isnan(computed(tmp_path, nodes, x)).all()


def test_bytes_saturate_and_nan_is_the_least(tmp_path):
    x = np.array([NAN, INF, -INF, 3e38, 0.1, -0.1] * 20, np.float32)
    nodes = [("QuantizeLinear", "x s z", "y", {})]
    constants = {"s": np.float32(0.1), "z": np.int8(3)}
    result = computed(tmp_path, nodes, x, constants, kind=TensorProto.INT8)
    assert result.tolist() == [-128, 127, -128, 127, 4, 2] * 20


@pytest.mark.parametrize("size", [1e7, 1e20, 3e38])
def test_the_largest_of_products_is_one_of_them(tmp_path, size):
    """A fused multiply-add would subtract the rounded maximum from the product before it is rounded."""
    x = np.float32(size) * np.random.default_rng().uniform(0.5, 1, (60, 7)).astype(np.float32)
    nodes = [("Mul", "x c", "t", {}), ("Softmax", "t", "y", {})]
    result = computed(tmp_path, nodes, x, {"c": np.float32(0.7)})
    scaled = np.float64(x * np.float32(0.7))
    right = np.exp(scaled - scaled.max(-1, keepdims=True))
    np.testing.assert_allclose(result, right / right.sum(-1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", [12582912.0, INF])
def test_a_sum_less_one_of_its_terms_is_rounded(tmp_path, far):
    """Exporters round by it; a simplifier would take it for the other term."""
    x = 5 * floats(3, 17)
    nodes = [("Add", "x c", "a", {}), ("Sub", "a c", "b", {}), ("Neg", "b", "y", {})]
    result = computed(tmp_path, nodes, x, {"c": np.float32(far)})
    np.testing.assert_array_equal(result, -np.round(x) if np.isfinite(far) else np.full_like(x, NAN))


def test_a_choice_by_a_rounded_sum(tmp_path):
    x = 5 * floats(3, 17)
    nodes = [
        ("Add", "x c", "a", {}),
        ("Sub", "a c", "b", {}),
        ("Equal", "b zero", "e", {}),
        ("Where", "e x c", "y", {}),
    ]
    result = computed(tmp_path, nodes, x, {"c": np.float32(12582912), "zero": np.float32(0)})
    np.testing.assert_array_equal(result, np.where(np.round(x) == 0, x, np.float32(12582912)))


@pytest.mark.parametrize("op", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_what_is_not_so_of_a_nan(tmp_path, op):
    """A simplifier takes ``y <= x`` for the opposite of ``x < y``."""
    x = np.where(np.arange(51) % 5, np.repeat(np.float32([1, 2, 3]), 17), NAN).astype(np.float32)
    constants = {"c": np.roll(x, 9)}
    nodes = [(op, "x c", "e", {}), ("Not", "e", "n", {}), ("Where", "n x c", "y", {})]
    compare = getattr(
        np, {"LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal"}.get(op, op.lower())
    )
    right = np.where(~compare(x, constants["c"]), x, constants["c"])
    np.testing.assert_array_equal(computed(tmp_path, nodes, x, constants), right)


def test_a_nan_is_not_zero(tmp_path):
    x = np.where(np.arange(51) % 5, floats(51), NAN).astype(np.float32)
    x[3:9] = 0
    places = computed(tmp_path, [("NonZero", "x", "y", {})], x, kind=TensorProto.INT64)
    np.testing.assert_array_equal(places, [*np.nonzero(x)])


def test_a_zero_more_than_minus_zero_is_zero(tmp_path):
    x = np.float32([-0.0, 0, 2])
    nodes = [("Add", "x c", "a", {}), ("Reciprocal", "a", "y", {})]
    assert computed(tmp_path, nodes, x, {"c": np.float32(0)}).tolist() == [INF, INF, 0.5]


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_a_sample_far_outside_is_what_lies_there(tmp_path, padding):
    grid = np.float32([[[[1e9, 1e9], [-1e30, 0], [INF, -INF]]]])
    image = floats(1, 1, 4, 5)
    nodes = [("GridSample", "image x", "y", {"mode": "cubic", "padding_mode": padding})]
    found = computed(tmp_path, nodes, grid, {"image": image}, opset=20)[0, 0, 0]
    assert np.isfinite(found).all()
    corners = [image[0, 0, -1, -1], image[0, 0, 0, -1]] if padding == "border" else [0, 0]
    np.testing.assert_allclose(found[[0, 2]], corners, atol=1e-6)


SLOPES = [
    ("LeakyRelu", "alpha", (0.0, INF, NAN)),
    ("Elu", "alpha", (-INF, NAN)),
    ("Selu", "alpha", (INF, NAN)),
    ("Selu", "gamma", (0.0,)),
    ("Celu", "alpha", (-1.0, 1e-40)),
    ("HardSigmoid", "alpha", (0.0,)),
    ("Shrink", "lambd", (-INF, -1.0)),
]


def test_activations_by_0_and_by_no_number_are_as_they_are_defined(tmp_path):
    x = np.array([[0.0, 1, -1, 3, -3, 1e-40, -1e-40, 3e38, -3e38, INF, -INF, NAN]], np.float32)
    nodes = [
        (op, "x", f"y{at}_{number}", {name: value})
        for at, (op, name, values) in enumerate(SLOPES)
        for number, value in enumerate(values)
    ]
    nodes += [("PRelu", f"x s{at}", f"p{at}", {}) for at in range(3)]
    slopes = {f"s{at}": np.float32([[value]]) for at, value in enumerate((INF, -INF, NAN))}
    nodes.append(("Concat", " ".join(each[2] for each in nodes), "y", {"axis": 0}))
    result = computed(tmp_path, nodes, x, slopes, Numerics.EXACT)
    session = onnx_session((tmp_path / "model.onnx").read_bytes(), 1, optimised=False)
    (right,) = session.run(None, {"x": x})
    np.testing.assert_allclose(result, right, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("cell", "factors", "expected"),
    [
        ("LeakyRelu", {"activation_alpha": [0.0]}, [NAN, INF, NAN, 0, 2]),
        ("Affine", {"activation_alpha": [0.0], "activation_beta": [3.0]}, [NAN, NAN, NAN, 3, 3]),
        ("HardSigmoid", {"activation_alpha": [0.0]}, [NAN, NAN, NAN, 0.5, 0.5]),
        ("ScaledTanh", {"activation_alpha": [1.0], "activation_beta": [0.0]}, [NAN, NAN, NAN, 0, 0]),
        ("ScaledTanh", {"activation_alpha": [0.0], "activation_beta": [1.0]}, [NAN, 0, 0, 0, 0]),
        ("Elu", {"activation_alpha": [0.0]}, [NAN, INF, 0, 0, 2]),
    ],
)
def test_a_cell_by_0_is_nan_of_what_is_not_finite(tmp_path, cell, factors, expected):
    x = np.float32([NAN, INF, -INF, -3, 2]).reshape(1, 5, 1)
    values = {name: np.full((1, 1, 1), number, np.float32) for name, number in (("w", 1), ("r", 0.5))}
    node = ("RNN", "x w r", "y", {"hidden_size": 1, "activations": [cell], **factors})
    result = computed(tmp_path, [node], x, values)
    np.testing.assert_allclose(result.ravel(), np.float32(expected), rtol=1e-5)
