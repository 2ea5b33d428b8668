"""Products of two activations: what is taken in with them, and that a build of them is right."""

import numpy as np
import pytest
from test_apply import build_and_compare
from tiny_models import model, node, save

from compiler.ir.graph import attributes_of
from compiler.ir.own_nodes import PRODUCT
from compiler.load import load_partition

pytestmark = pytest.mark.usefixtures("avx2")

HEADS = {"split": np.array([2, 37, 3, 24]), "join": np.array([2, 37, 72])}


def heads(name, source, perm):
    return [
        node("MatMul", [source, f"w{name}"], f"{name}p"),
        node("Reshape", [f"{name}p", "split"], f"{name}r"),
        node("Transpose", [f"{name}r"], name, perm=perm),
    ]


def kinds(path):
    partition = load_partition(path)
    products = partition.products
    return [
        products[attributes_of(each)["index"]].workload.kind if each.op_type == PRODUCT else each.op_type
        for each in partition.graph.nodes
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_transposes_and_factors_around_products_are_taken_in(tmp_path, threads):
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
    build_and_compare(path, threads=threads)
    found = kinds(path)
    assert found.count("matmul") == 2
    assert not {"MatMul", "Transpose", "Mul", "Div"} & set(found)


def test_what_others_read_is_not_taken_in(tmp_path):
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
    build_and_compare(save(tmp_path, made))


def test_products_that_follow_each_other(tmp_path):
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
    build_and_compare(path)
    assert kinds(path) == ["matmul", "matmul", "gemm", "matmul"]


@pytest.mark.parametrize(
    ("matrices", "columns", "before", "after", "left"),
    [
        ((2, 6, 10), (10, 8), [1, 0], [0, 2, 1], ["Reshape", "Transpose"]),
        ((2, 6, 10), (10, 1), None, [1, 0, 2], ["Reshape", "Reshape", "Transpose"]),
        ((3, 2, 6, 10), (1, 10, 3), [0, 2, 1], [3, 0, 1, 2], ["Reshape"]),
        ((6, 10), (4, 10, 3), [0, 2, 1], [0, 2, 1], []),
        ((1, 6, 10), (4, 10, 3), [1, 0, 2], None, ["Transpose", "Transpose", "Transpose"]),
        ((6, 10), (10, 1), None, None, ["Reshape", "Reshape"]),
        ((1, 6, 10), (10, 5), None, [2, 1, 0], ["Transpose", "Reshape"]),
        ((7, 1), (1, 1), None, None, ["Reshape"]),
    ],
)
def test_constants_on_the_left_are_weights(tmp_path, matrices, columns, before, after, left):
    nodes = [node("MatMul", ["w", "turned" if before else "x"], "product")]
    x = columns
    if before:
        x = tuple(columns[before.index(axis)] for axis in range(len(columns)))
        nodes.insert(0, node("Transpose", ["x"], "turned", perm=before))
    if after:
        nodes.append(node("Transpose", ["product"], "y", perm=after))
    path = save(tmp_path, model(nodes, {"x": x}, [nodes[-1].output[0]], {"w": matrices}))
    build_and_compare(path)
    found = kinds(path)
    assert found.count("gemm") == 1
    assert [kind for kind in found if kind != "gemm"] == left


def test_a_constant_on_the_left_of_another(tmp_path):
    nodes = [
        node("MatMul", ["w", "x"], "first"),
        node("Transpose", ["first"], "turned", perm=[1, 0]),
        node("MatMul", ["v", "turned"], "second"),
        node("MatMul", ["v", "turned"], "third"),
        node("Transpose", ["third"], "z", perm=[1, 0]),
        node("Add", ["second", "third"], "y"),
    ]
    path = save(tmp_path, model(nodes, {"x": (10, 7)}, ["y", "z"], {"w": (6, 10), "v": (9, 7)}))
    build_and_compare(path)
    assert kinds(path).count("gemm") == 3


def test_einsum_by_a_constant_is_a_product(tmp_path):
    nodes = [node("Einsum", ["x", "w"], "y", equation="bsd,dhe->bshe")]
    made = model(nodes, {"x": (2, 5, 6)}, ["y"], {"w": (6, 3, 4)})
    assert [str(product.workload) for product in load_partition(save(tmp_path, made)).products] == [
        "gemm 10x6 by 6x12"
    ]


def attention(mask=(), after=(), scale="Div", grouped=False):
    """What torch writes for self-attention of 3 heads."""
    keys = [*heads("k", "x", [0, 2, 3, 1]), *heads("v", "x", [0, 2, 1, 3])]
    if grouped:
        keys = [
            *(each for name in "kv" for each in heads(name, "x", [0, 2, 1, 3])),
            *(
                each
                for name in "kv"
                for each in (
                    node("Unsqueeze", [name, "two"], f"{name}u"),
                    node("Expand", [f"{name}u", "wide"], f"{name}e"),
                    node("Reshape", [f"{name}e", "flat"], f"{name}w"),
                )
            ),
            node("Transpose", ["kw"], "kt", perm=[0, 1, 3, 2]),
        ]
    k, v = ("kt", "vw") if grouped else ("k", "v")
    return [
        *heads("q", "x", [0, 2, 1, 3]),
        *keys,
        node("MatMul", ["q", k], "scores"),
        node(scale, ["scores", "five"], "scaled"),
        *mask,
        node("Softmax", ["masked" if mask else "scaled"], "weights", axis=-1),
        *after,
        node("MatMul", ["guarded" if after else "weights", v], "mixed"),
        node("Transpose", ["mixed"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["back", "join"], "joined"),
        node("MatMul", ["joined", "wo"], "y"),
    ]


CONSTANTS = {"five": np.float32(5), **HEADS, "wo": (72, 20)} | {f"w{name}": (50, 72) for name in "qkv"}
ROWS = np.arange(37)[:, None]
HIDDEN = np.where(np.arange(37) > ROWS, -np.inf, 0).astype(np.float32)
PADDED = np.repeat([[True, False]], [30, 7], 1)[:, None, None]
NOTHING = np.float32(np.finfo(np.float32).min)
ATTENTIONS = {
    "plain": (attention(), {}),
    "causal": (attention([node("Add", ["scaled", "m"], "masked")]), {"m": HIDDEN}),
    "computed mask": (
        attention([node("ReduceMax", ["x"], "most", axes=[2]), node("Unsqueeze", ["most", "two"], "m"),
            node("Transpose", ["m"], "t", perm=[0, 1, 3, 2]),
            node("Add", ["t", "scaled"], "masked")]),
        {"two": np.array([1])},
    ),
    "hidden": (attention([node("Where", ["m", "scaled", "low"], "masked")]), {"m": PADDED, "low": NOTHING}),
    "filled": (
        attention([node("Where", ["m", "low", "scaled"], "masked")]),
        {"m": ~PADDED, "low": np.float32(-np.inf)},
    ),
    "guarded": (
        attention(
            [node("Add", ["scaled", "m"], "masked")],
            [node("IsNaN", ["weights"], "no"), node("Where", ["no", "zero", "weights"], "guarded")],
        ),
        {"m": np.where(ROWS == 4, -np.inf, HIDDEN).astype(np.float32), "zero": np.float32(0)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attentions_are_one_node(tmp_path, name):
    nodes, more = ATTENTIONS[name]
    path = save(tmp_path, model(nodes, {"x": (2, 37, 50)}, ["y"], CONSTANTS | more))
    found = kinds(path)
    assert found.count("attention") == 1
    assert not {"MatMul", "matmul", "Softmax", "IsNaN"} & set(found)
    build_and_compare(path, threads=2)


def test_keys_that_are_repeated_for_groups_of_queries_are_not_copied(tmp_path):
    more = {
        **{f"w{name}": (50, 24) for name in "kv"},
        "split": np.array([2, 37, -1, 12]),
        "wide": np.array([2, 2, 3, 37, 12]),
        "flat": np.array([2, 6, 37, 12]),
        "two": np.array([2]),
    }
    path = save(tmp_path, model(attention(grouped=True), {"x": (2, 37, 50)}, ["y"], CONSTANTS | more))
    found = kinds(path)
    assert found.count("attention") == 1
    assert "Expand" not in found
    build_and_compare(path)


@pytest.mark.parametrize(
    "mask",
    [
        [node("Where", ["m", "scaled", "low"], "masked")],
        [node("Mul", ["scaled", "m"], "masked")],
        [node("Add", ["scaled", "m"], "added"), node("Mul", ["added", "five"], "masked")],
    ],
)
def test_what_is_no_attention_is_computed_as_it_is(tmp_path, mask):
    more = {"m": PADDED if mask[0].op_type == "Where" else HIDDEN.clip(-1), "low": np.float32(-1e4)}
    path = save(tmp_path, model(attention(mask), {"x": (2, 37, 50)}, ["y"], CONSTANTS | more))
    assert kinds(path).count("matmul") == 2
    build_and_compare(path)


def test_the_operator_attention_is_one_node(tmp_path):
    nodes = [
        node("Attention", ["q", "k", "v"], "causal", is_causal=1, q_num_heads=6, kv_num_heads=2),
        node("Attention", ["causal", "k", "v", "m"], "y", q_num_heads=6, kv_num_heads=2),
    ]
    inputs = {"q": (2, 19, 48), "k": (2, 19, 16), "v": (2, 19, 16), "m": (19, 19)}
    path = save(tmp_path, model(nodes, inputs, ["y"], opset=23, ir_version=10))
    found = kinds(path)
    assert found.count("attention") == 2
    assert set(found) == {"attention", "Reshape"}
    assert [product.workload.causal for product in load_partition(path).products] == [0, None]
    build_and_compare(path)
