import numpy as np
import pytest
from test_apply import build_and_compare
from tiny_models import model, node, save

from compiler.load import load_partition
from tuner.backend.evidence import Evidence

pytestmark = pytest.mark.usefixtures("avx2")

CONSTANTS = {"a": (32, 3, 3, 3), "b": (8, 32, 1, 1), "c": (32, 8, 1, 1), "d": (20, 32, 1, 1), "e": (20,)}


def squeezed(size=14, batch=1, swapped=False, last=None, more=(), outputs=("y",)):
    """A convolution, squeeze and excitation, and a convolution ``last`` that reads their product."""
    factors = ["scale", "x"] if swapped else ["x", "scale"]
    nodes = [
        node("Conv", ["data", "a"], "wide", pads=[1, 1, 1, 1]),
        node("HardSwish", ["wide"], "x"),
        node("GlobalAveragePool", ["x"], "mean"),
        node("Conv", ["mean", "b"], "narrow"),
        node("Relu", ["narrow"], "least"),
        node("Conv", ["least", "c"], "deep"),
        node("Sigmoid", ["deep"], "scale"),
        node("Mul", factors, "scaled"),
        last or node("Conv", ["scaled", "d", "e"], "y"),
        *more,
    ]
    return model(nodes, {"data": [batch, 3, size, size + 1]}, list(outputs), CONSTANTS)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("size", [9, 14])
def test_the_weights_of_the_product_are_scaled(tmp_path, size, swapped):
    path = save(tmp_path, squeezed(size, swapped=swapped))
    partition = load_partition(path)
    assert [product.factors for product in partition.products][-1] == "scale"
    assert "Mul" not in [each.op_type for each in partition.graph.nodes]
    build_and_compare(path)


def test_strides_residuals_and_activations_come_along(tmp_path):
    last = node("Conv", ["scaled", "d", "e"], "half", strides=[2, 2])
    pooled = node("MaxPool", ["data"], "most", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    more = [pooled, node("Conv", ["most", "f"], "side"), node("Add", ["half", "side"], "sum")]
    made = squeezed(last=last, more=[*more, node("Relu", ["sum"], "y")])
    side = np.random.default_rng(1).standard_normal((20, 3, 1, 1)).astype(np.float32)
    made.graph.initializer.extend(model([], {}, [], {"f": side}).graph.initializer)
    path = save(tmp_path, made)
    (product,) = (each for each in load_partition(path).products if each.factors)
    assert product.residual is not None
    build_and_compare(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"size": 5},  # more weights than data
        {"batch": 2},  # factors that differ between images
        {"more": [node("Relu", ["scaled"], "z")], "outputs": ("y", "z")},  # another reader
        {"last": node("Conv", ["scaled", "d", "e"], "y", pads=[1, 1, 1, 1])},
    ],
    ids=str,
)
def test_what_does_not_fit_is_computed_as_it_is(tmp_path, changed):
    path = save(tmp_path, squeezed(**changed))
    found = [product.factors for product in load_partition(path).products]
    assert (found[-1] == "scale") == ("last" in changed)
    build_and_compare(path)


def test_without_a_kernel_the_data_are_scaled(tmp_path, monkeypatch):
    monkeypatch.setattr(Evidence, "options", lambda *_: None)
    manifest = build_and_compare(save(tmp_path, squeezed()))
    assert {layer.config for layer in manifest.layers} == {None}
