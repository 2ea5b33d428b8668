"""Products of two activations: what is taken in with them, and that a build of them is right."""

import numpy as np
import pytest
from test_apply import avx2, build_and_compare, onnxruntime  # noqa: F401  # fixtures
from tiny_models import model, node, save

from tuner.frontend.graph import load_partition

HEADS = {"split": np.array([2, 37, 3, 24]), "join": np.array([2, 37, 72])}


def heads(name, source, perm):
    return [
        node("MatMul", [source, f"w{name}"], f"{name}p"),
        node("Reshape", [f"{name}p", "split"], f"{name}r"),
        node("Transpose", [f"{name}r"], name, perm=perm),
    ]


def kinds(path):
    return [each.op_type for each in load_partition(path).graph.nodes]


@pytest.mark.parametrize("threads", [1, 2])
def test_transposes_and_factors_around_products_are_taken_in(onnxruntime, tmp_path, threads):  # noqa: F811
    nodes = [
        *heads("q", "x", [0, 2, 1, 3]),
        *heads("k", "x", [0, 2, 3, 1]),
        *heads("v", "x", [0, 2, 1, 3]),
        node("Mul", ["q", "half"], "scaled"),
        node("MatMul", ["scaled", "k"], "scores"),
        node("Div", ["scores", "three"], "divided"),
        node("Relu", ["divided"], "some"),
        node("MatMul", ["some", "v"], "mixed"),
        node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], "joined"),
        node("MatMul", ["joined", "wo"], "y"),
    ]
    constants = {"half": np.float32(0.5), "three": np.float32(3), **HEADS, "wo": (72, 20)}
    constants |= {f"w{name}": (50, 72) for name in "qkv"}
    path = save(tmp_path, model(nodes, {"x": (2, 37, 50)}, ["y"], constants))
    build_and_compare(onnxruntime, path, threads=threads)
    found = kinds(path)
    assert found.count("TilefleetMatMul") == 2
    assert not {"MatMul", "Transpose", "Mul", "Div"} & set(found)


def test_what_others_read_is_not_taken_in(onnxruntime, tmp_path):  # noqa: F811
    nodes = [
        node("Transpose", ["x"], "turned", perm=[0, 2, 1]),
        node("Mul", ["turned", "half"], "scaled"),
        node("Relu", ["scaled"], "read"),
        node("MatMul", ["scaled", "x"], "product"),
        node("Mul", ["product", "half"], "output"),
        node("Transpose", ["output"], "last", perm=[2, 0, 1]),
        node("Div", ["half", "output"], "over"),
        node("MatMul", ["read", "over"], "y"),
        node("MatMul", ["last", "y"], "z"),
        node("Transpose", ["y"], "u", perm=[1, 0, 2]),
    ]
    made = model(nodes, {"x": (9, 9, 9)}, ["output", "z", "y", "u"], {"half": np.float32(0.5)})
    build_and_compare(onnxruntime, save(tmp_path, made))


def test_products_that_follow_each_other(onnxruntime, tmp_path):  # noqa: F811
    nodes = [
        node("MatMul", ["x", "y"], "first"),
        node("Transpose", ["first"], "turned", perm=[1, 0, 2]),
        node("MatMul", ["turned", "y"], "second"),
        node("Transpose", ["second"], "upright", perm=[0, 2, 1]),
        node("MatMul", ["w", "upright"], "third"),
        node("MatMul", ["third", "batch"], "z"),
    ]
    constants = {"w": (7, 11), "batch": (11, 11, 5)}
    path = save(tmp_path, model(nodes, {"x": (11, 11, 11), "y": (11, 11, 11)}, ["z"], constants))
    build_and_compare(onnxruntime, path)
    assert kinds(path).count("TilefleetMatMul") == 4


def test_einsum_by_a_constant_is_a_product(tmp_path):
    nodes = [node("Einsum", ["x", "w"], "y", equation="bsd,dhe->bshe")]
    made = model(nodes, {"x": (2, 5, 6)}, ["y"], {"w": (6, 3, 4)})
    assert [str(product.workload) for product in load_partition(save(tmp_path, made)).products] == [
        "gemm 10x6 by 6x12"
    ]
