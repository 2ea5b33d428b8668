"""Operators of com.microsoft: written as ONNX's they compute what onnxruntime computes of them."""

import numpy as np
import pytest
import tvm
from microsoft_case import Case, compare, floats, run, whole
from onnx import TensorProto, helper
from tiny_models import model, node, save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model

ROWS, X = floats(3, 5, 8), floats(1, 4, 7, 6)
SCALE, SHIFT, BIAS = floats(8), floats(8), floats(8)
PACKED = whole(0, 256, 6, 2, 16, dtype=np.uint8)
"""Weights of 6 outputs from 40 inputs, two blocks of 32 to each, of 4 bits."""
ORDER = whole(0, 3, 40, dtype=np.int32)


def blobs(*shape):
    return whole(0, 256, *shape, dtype=np.uint8)


W, B, Z = floats(8, 4, 3, 3, scale=0.2), floats(8), floats(1, 8, 5, 4)
IDS = whole(0, 12, 2, 5, dtype=np.int32)
TABLES = (floats(12, 8), floats(9, 8), floats(2, 8), SCALE, SHIFT)
BYTES = whole(0, 256, 8, 6, dtype=np.uint8)
QKV, QKV_BIAS = floats(8, 24, scale=0.3), floats(24)
HEADS = floats(2, 5, 8)
PADDING = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
ANGLES = (floats(16, 4), floats(16, 4))
PLACES = whole(0, 16, 2, 5, dtype=np.int64)


def grouped(batch, tokens, past, lengths, packed):
    """Inputs of a GroupQueryAttention of 4 heads of queries, 2 of keys, 32 numbers each."""
    parts = [floats(batch, tokens, heads * 32) for heads in (4, 2, 2)]
    new = [np.concatenate(parts, axis=2), None, None] if packed else parts
    old = [floats(batch, 2, past, 32) if past else None for _ in range(2)]
    return (*new, *old, np.int32(lengths))


def caches(half):
    """Cosines and sines of 16 places."""
    angles = np.arange(16)[:, None] / 3.0 ** np.arange(half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


CASES = [
    Case("Attention", (HEADS,), (QKV, QKV_BIAS), num_heads=2),
    Case("Attention", (HEADS,), (QKV, QKV_BIAS, PADDING), num_heads=2, opset=12),
    Case("Attention", (HEADS,), (QKV, QKV_BIAS, np.array([4, 2], np.int32)), num_heads=4, scale=0.3),
    Case("Attention", (HEADS,), (QKV, QKV_BIAS), num_heads=4, behind=(np.int32([4, 9, 1, 3]),)),
    Case("Attention", (HEADS,), (QKV, QKV_BIAS, np.int32([4, 2, 0, 5, 10, 0, 5, 10])), num_heads=4),
    Case("MultiHeadAttention", (HEADS,) * 3, (None, np.int32([4, 2, 0, 5, 10, 0, 5, 10])), num_heads=2),
    Case("Attention", (HEADS,), (floats(8, 20), floats(20)), num_heads=2, qkv_hidden_sizes=[8, 8, 4]),
    Case(
        "Attention",
        (HEADS,),
        (QKV, QKV_BIAS, None, floats(2, 2, 2, 3, 4)),
        outputs=2,
        num_heads=2,
        unidirectional=1,
    ),
    Case("MultiHeadAttention", (HEADS, floats(2, 7, 8), floats(2, 7, 8)), num_heads=2),
    Case("MultiHeadAttention", (HEADS,) * 3, (QKV_BIAS, PADDING, floats(1, 2, 5, 5)), num_heads=2),
    Case("MultiHeadAttention", (HEADS,) * 3, opset=13, num_heads=4, unidirectional=1, scale=0.4),
    Case("MultiHeadAttention", (HEADS, floats(2, 2, 7, 4), floats(2, 2, 7, 4)), num_heads=2),
    Case(
        "MultiHeadAttention",
        (HEADS, *(floats(2, 5, 8),) * 2, None, None, None, *(floats(2, 2, 3, 4),) * 2),
        outputs=3,
        num_heads=2,
    ),
    Case("RotaryEmbedding", (HEADS, PLACES), ANGLES),
    Case("RotaryEmbedding", (floats(2, 3, 5, 8), PLACES), ANGLES, interleaved=1),
    Case("RotaryEmbedding", (floats(2, 5, 30), np.array([3])), ANGLES, num_heads=3, rotary_embedding_dim=8),
    Case(
        "QAttention",
        (whole(0, 256, 2, 5, 8, dtype=np.uint8),),
        (
            *(whole(0, 256, 8, 24, dtype=np.uint8), floats(24), np.float32(0.02), np.float32(0.01)),
            *(PADDING, np.uint8(120), np.uint8(128)),
        ),
        num_heads=2,
    ),
    Case("FusedConv", (X,), (W, B), activation="Relu", kernel_shape=[3, 3]),
    Case("FusedConv", (X,), (W,), activation="LeakyRelu", activation_params=[0.2], pads=[1, 1, 1, 1]),
    Case("FusedConv", (X,), (W, B), activation="Clip", activation_params=[-0.25, 0.5], strides=[2, 2]),
    Case("FusedConv", (X,), (W, B), activation="HardSigmoid", activation_params=[0.3, 0.4]),
    Case("FusedConv", (X,), (W, B, Z), activation="Relu"),
    Case("FusedGemm", (floats(3, 8),), (floats(8, 4), floats(4)), activation="Relu", alpha=0.5),
    Case(
        "FusedGemm",
        (floats(8, 3),),
        (floats(4, 8), floats(4)),
        transA=1,
        transB=1,
        activation="LeakyRelu",
        activation_alpha=0.3,
    ),
    Case("FusedMatMul", (ROWS, floats(3, 6, 8)), alpha=0.125, transB=1),
    Case("FusedMatMul", (floats(2, 3, 8, 5),), (floats(8, 4),), transA=1, opset=13),
    Case("FusedMatMul", (ROWS,), (floats(4, 8),), transB=1),
    Case("Gelu", (ROWS,)),
    Case("BiasGelu", (ROWS,), (BIAS,)),
    Case("FastGelu", (ROWS,)),
    Case("FastGelu", (ROWS,), (BIAS,)),
    *(
        Case("CDist", (floats(5, 7),), (floats(9, 7),), opset, metric=metric)
        for opset, metric in ((12, "euclidean"), (17, "sqeuclidean"))
    ),
    Case("QuickGelu", (ROWS,)),
    Case("QuickGelu", (ROWS,), alpha=1.25),
    *(Case("LayerNormalization", (ROWS,), (SCALE, SHIFT), opset=opset, domain="") for opset in (11, 13, 16)),
    Case("LayerNormalization", (ROWS,), (SCALE,), opset=14, domain="", axis=2, epsilon=0.01),
    Case("SimplifiedLayerNormalization", (ROWS,), (SCALE,), domain="", axis=-1, epsilon=1e-4),
    Case("SimplifiedLayerNormalization", (ROWS,), (SCALE,), domain="", opset=18, axis=2),
    *(
        Case("SkipLayerNormalization", (ROWS, floats(3, 5, 8)), rest, opset, outputs, epsilon=1e-5)
        for rest, opset, outputs in (
            ((SCALE, SHIFT, BIAS), 17, 4),
            ((SCALE, SHIFT), 13, 1),
            ((SCALE,), 18, 1),
        )
    ),
    Case("SkipSimplifiedLayerNormalization", (ROWS, floats(3, 5, 8)), (SCALE, BIAS), outputs=4, epsilon=1e-5),
    Case("SkipSimplifiedLayerNormalization", (ROWS, floats(3, 5, 8)), (SCALE,), opset=18),
    Case("EmbedLayerNormalization", (IDS, whole(0, 2, 2, 5, dtype=np.int32)), TABLES, outputs=3),
    Case(
        "EmbedLayerNormalization",
        (IDS,),
        (None, *TABLES[:2], None, *TABLES[3:], PADDING),
        outputs=2,
        kinds=(TensorProto.FLOAT, TensorProto.INT32),
    ),
    Case("EmbedLayerNormalization", (IDS,), (None, *TABLES[:2], None, *TABLES[3:]), opset=13, outputs=3),
    Case("DynamicQuantizeMatMul", (ROWS,), (whole(-128, 128, 8, 6, dtype=np.int8), np.float32(0.02))),
    Case(
        "DynamicQuantizeMatMul",
        (ROWS,),
        (BYTES, floats(6, scale=0.1), whole(100, 150, 6, dtype=np.uint8), floats(6)),
    ),
    Case(
        "MatMulIntegerToFloat",
        (whole(0, 256, 5, 8, dtype=np.uint8),),
        (BYTES, np.float32(0.1), floats(6), np.uint8(120), None, floats(6)),
    ),
    Case("MatMulNBits", (floats(3, 40),), (PACKED, floats(12)), K=40, N=6, bits=4, block_size=32),
    Case(
        "MatMulNBits",
        (floats(2, 3, 40),),
        (PACKED, floats(12), whole(0, 256, 6, dtype=np.uint8)),
        K=40,
        N=6,
        bits=4,
        block_size=32,
    ),
    *(
        Case("MatMulNBits", (floats(3, 40),), rest, K=40, N=6, bits=bits, block_size=16)
        for bits in (2, 4, 8)
        for rest in (
            (blobs(6, 3, 2 * bits), floats(18)),
            (blobs(6, 3, 2 * bits), floats(18), blobs(6, -(-3 * bits // 8))),
        )
    ),
    Case(
        "MatMulNBits",
        (floats(3, 40),),
        (blobs(6, 3, 4), floats(18), floats(6, 3)),
        K=40,
        N=6,
        bits=2,
        block_size=16,
    ),
    *(
        Case(
            "MatMulNBits",
            (floats(3, 40),),
            (blobs(6, 3, 8), floats(18), zeros, ORDER),
            K=40,
            N=6,
            block_size=16,
        )
        for zeros in (None, floats(6, 3))
    ),
    Case("GridSample", (X, floats(1, 3, 5, 2)), opset=11, mode="bicubic", padding_mode="border"),
    Case("GridSample", (X, floats(1, 3, 5, 2)), opset=17, align_corners=1),
    *(Case("Inverse", (floats(*shape),), opset=opset) for shape, opset in (((3, 3), 12), ((2, 5, 5), 17))),
    Case("Inverse", (np.float32([[0, 1, 2], [1, 0, 3], [4, -3, 8]]),)),
    Case("Trilu", (ROWS,), (np.int64(1),), opset=13),
    Case("Trilu", (np.full((4, 4), -np.inf, np.float32),), (np.int64(1),), opset=11),
    Case("Trilu", (ROWS,), (np.int64(-2),), opset=17, upper=0),
    Case("ExpandDims", (ROWS,), (np.int32(-2),), opset=12),
    Case("GatherND", (ROWS, np.int32([[0, 1], [2, 4]]))),
    Case("Pad", (ROWS,), (np.int64([[0, 1, 2, 0, 0, 1]]), np.float32([0.5]))),
    Case("Pad", (ROWS,), (np.int64([0, 1, 2, 0, 0, 1]),), mode="reflect"),
    Case("Pad", (ROWS,), (np.int64([0, -1, 2, 0, 0, 1]),), opset=10, mode="edge"),
    Case("Range", (), (np.float32(1), np.float32([6.5]), np.float32(2))),
    Case("Range", (), (np.float32([1]), np.float32(4))),
    *(
        Case(
            "GroupQueryAttention",
            grouped(batch, tokens, past, lengths, packed),
            (np.int32(total), *(caches(size) if size else ())),
            outputs=3,
            num_heads=4,
            kv_num_heads=2,
            **more,
        )
        for batch, tokens, past, lengths, total, packed, size, more in (
            (1, 5, 0, [4], 5, False, 0, {}),
            (2, 5, 0, [4, 4], 5, True, 16, {"do_rotary": 1}),
            (1, 1, 6, [6], 7, False, 8, {"do_rotary": 1, "rotary_interleaved": 1, "scale": 0.3}),
            (2, 1, 6, [6, 3], 7, True, 8, {"do_rotary": 1}),
            (1, 2, 4, [5], 6, False, 8, {"do_rotary": 1, "softcap": 2.0}),
            (1, 1, 6, [6], 7, False, 0, {"local_window_size": 3}),
            (1, 7, 0, [6], 7, False, 0, {"local_window_size": 3}),
            (2, 5, 0, [4, 1], 5, False, 8, {"do_rotary": 1}),
            (2, 3, 6, [0, 2], 3, False, 0, {}),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_onnxruntime_computes(tmp_path, case):
    extract(compare(tmp_path, case))


def test_an_attention_is_built_as_one(tmp_path):
    """With a mask of padding and causal, as a decoder's of a batch."""
    case = Case("MultiHeadAttention", (HEADS,) * 3, (QKV_BIAS, PADDING), num_heads=2, unidirectional=1)
    path = save(tmp_path, case.model())
    executable, manifest = build_model(path, {}, CATALOGUE["x86-avx2"])
    assert [layer.workload.kind for layer in manifest.layers] == ["attention"]
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](
        *map(tvm.runtime.tensor, case.feeds.values())
    )
    np.testing.assert_allclose(result.numpy(), run(case.model(), case.feeds)[0], rtol=1e-4, atol=1e-5)


def test_a_grouped_attention_with_a_past_is_built_as_one(tmp_path):
    case = Case(
        "GroupQueryAttention",
        grouped(1, 1, 6, [6], packed=False),
        (np.int32(7), *caches(16)),
        outputs=3,
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
    )
    path = save(tmp_path, case.model())
    executable, manifest = build_model(path, {}, CATALOGUE["x86-avx2"])
    assert [layer.workload.kind for layer in manifest.layers] == ["attention"]
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](
        *map(tvm.runtime.tensor, case.feeds.values())
    )
    for result, expected in zip(results, run(case.model(), case.feeds), strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("avx2")
def test_lengths_for_which_a_past_has_no_room_end_the_run(tmp_path):
    """And such as are shorter than the new tokens, as onnxruntime refuses them."""
    case = Case(
        "GroupQueryAttention",
        grouped(1, 2, 4, [5], packed=False),
        (np.int32(6),),
        outputs=3,
        num_heads=4,
        kv_num_heads=2,
    )
    path = save(tmp_path, case.model())
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for found, right in zip(
        main(*map(tvm.runtime.tensor, case.feeds.values())), run(case.model(), case.feeds), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), right, rtol=1e-4, atol=1e-5)
    for length in (6, 0, -1, 2**30, -(2**31)):
        feeds = case.feeds | {"x5": np.int32([length])}
        with pytest.raises(Exception, match="seqlens_k"):
            run(case.model(), feeds)
        words = rf"\(GroupQueryAttention\) needs seqlens_k from 0 to 5, and is given {length}$"
        if not length:
            words = r"needs seqlens_k \+ 1 less the number of new tokens from 0 to 5, and is given -1$"
        with pytest.raises(Exception, match=words):
            main(*map(tvm.runtime.tensor, feeds.values()))


@pytest.mark.usefixtures("avx2")
def test_lengths_that_a_first_prompt_does_not_have_end_the_run(tmp_path):
    heads = {"num_heads": 4, "kv_num_heads": 2}
    given = grouped(2, 3, 0, [2, 1], packed=False)
    case = Case("GroupQueryAttention", given, (np.int32(3),), outputs=3, **heads)
    executable, _ = build_model(save(tmp_path, case.model()), {}, CATALOGUE["x86-avx2"])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for length in (3, -1, 2**31 - 1, -(2**31)):
        feeds = case.feeds | {"x5": np.int32([2, length])}
        with pytest.raises(Exception, match="seqlens_k"):
            run(case.model(), feeds)
        words = rf"\(GroupQueryAttention\) needs seqlens_k from 0 to 2, and is given {length}$"
        with pytest.raises(Exception, match=words):
            main(*map(tvm.runtime.tensor, feeds.values()))


def test_a_chain_is_built_and_its_products_are_tuned(tmp_path):
    """An encoder layer's second half as the optimizer writes it."""
    nodes = [
        node("FusedMatMul", ["x", "w"], "h", domain="com.microsoft", alpha=0.5),
        node("BiasGelu", ["h", "b"], "g", domain="com.microsoft"),
        node("MatMul", ["g", "v"], "m"),
        node("SkipLayerNormalization", ["m", "x", "s", "t", "c"], "y", domain="com.microsoft", epsilon=1e-5),
    ]
    weights = {"w": (8, 16), "b": (16,), "v": (16, 8), "s": (8,), "t": (8,), "c": (8,)}
    made = model(nodes, {"x": (1, 6, 8)}, ["y"], weights)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path, x = save(tmp_path, made), np.random.default_rng().standard_normal((1, 6, 8)).astype(np.float32)
    assert sum(operator.count for operator in extract(path).operators) == 2
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    np.testing.assert_allclose(result.numpy(), run(made, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("FusedConv", (X,), (W,), activation="Softsign"), "activation 'Softsign'"),
        (Case("FusedMatMul", (ROWS, ROWS), transBatchA=1), "transposes batches"),
        (
            Case("MatMulNBits", (floats(3, 40), PACKED), (floats(12),), K=40, N=6, block_size=32),
            "computed input 1",
        ),
        (
            Case("MatMulNBits", (floats(3, 40),), (PACKED, floats(12)), K=80, N=6, block_size=32),
            "do not go with",
        ),
        (Case("MatMulNBits", (floats(3, 40),), (PACKED, floats(2)), K=2**40, N=2**20, block_size=32), "GiB"),
        (Case("BiasGelu", ()), "has no input 0"),
        (Case("MultiHeadAttention", (floats(2, 5, 2, 3, 4),), num_heads=2), "packed"),
        (Case("Attention", (HEADS, QKV), (QKV_BIAS,), num_heads=2), "computed input 1"),
        (Case("SkipLayerNormalization", (ROWS, ROWS), (SCALE,), outputs=2), "mean or the deviation"),
        (Case("LayerNormalization", (ROWS,), (SCALE,), opset=13, domain="", axis=1), "other axes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_said_is_refused_by_node(tmp_path, case, words):
    with pytest.raises(ModelError, match=rf"node 'y' \({case.op}\).*{words}|weight of node 'y'.*{words}"):
        read_model(save(tmp_path, case.model()))


AXES = {
    "zero": np.array([0]),
    "parts": np.array([2, 2]),
    "join": np.array([1, -1, 4]),
    "half": np.array([2]),
    "tail": np.array([2, 4]),
}
SHAPED = {
    "Unsqueeze": [node("Unsqueeze", ["x", "zero"], "e")],
    "Squeeze": [node("Unsqueeze", ["x", "zero"], "u"), node("Squeeze", ["u", "zero"], "e")],
    "Split": [node("Split", ["x", "parts"], ["e", "rest"], axis=0)],
    "Reshape": [node("Reshape", ["x", "join"], "e")],
    "Expand": [node("Shape", ["x"], "s"), node("Expand", ["x", "s"], "e")],
    "computed": [
        node("Shape", ["x"], "s"),
        node("Gather", ["s", "zero"], "rows"),
        node("Div", ["rows", "half"], "halves"),
        node("Concat", ["halves", "tail"], "target", axis=0),
        node("Reshape", ["x", "target"], "e"),
    ],
    "ConstantOfShape": [
        node("Shape", ["x"], "s"),
        node("ConstantOfShape", ["s"], "zeros"),
        node("Add", ["zeros", "x"], "e"),
    ],
}


@pytest.mark.parametrize("how", SHAPED)
@pytest.mark.parametrize("rows", [4, "n"])
def test_ranks_follow_from_small_constants(tmp_path, how, rows):
    """Axes and shapes are initializers, or computed; the shape is the file's or a user's."""
    fused = helper.make_node("FusedMatMul", ["e", "e"], ["y"], domain="com.microsoft", transB=1)
    made = model([*SHAPED[how], fused], {"x": (rows, 4)}, ["y"], AXES, ir_version=8)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    read = read_model(save(tmp_path, made), {"x": (4, 4)})
    for each in read.graph.node:
        each.ClearField("name")
    x = floats(4, 4)
    for found, expected in zip(run(read, {"x": x}), run(made, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


REFUSED = {
    "an end of the used keys": (
        Case("Attention", (HEADS,), (QKV, QKV_BIAS), num_heads=2, behind=(np.int32([3, 5, 0, 0]),)),
        "x3",
        [[-1, 5, 0, 0], [3, -7, 0, 0]],
    ),
    "a position": (Case("RotaryEmbedding", (HEADS, PLACES), ANGLES), "x1", [PLACES - 16, PLACES * 0 + 16]),
    "a position after the first": (
        Case(
            "RotaryEmbedding", (floats(2, 5, 30), np.array([3])), ANGLES, num_heads=3, rotary_embedding_dim=8
        ),
        "x1",
        [[-1], [12]],
    ),
    "a column": (
        Case("ArrayFeatureExtractor", (ROWS, np.array([0, 7])), domain="ai.onnx.ml"),
        "x1",
        [[-1, 0], [3, 8]],
    ),
}


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("what", REFUSED)
def test_what_onnxruntime_refuses_of_data_ends_the_run(tmp_path, what):
    """Negative numbers count from the end nowhere but in operators of ONNX that say so."""
    case, name, bad = REFUSED[what]
    path = save(tmp_path, case.model())
    executable, _ = build_model(path, {}, CATALOGUE["x86-avx2"])
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    feeds = case.feeds
    found = main(*map(tvm.runtime.tensor, feeds.values())).numpy()
    np.testing.assert_allclose(found, run(case.model(), feeds)[0], rtol=1e-4, atol=1e-5)
    words = rf"\({case.op}\) needs {what.removesuffix(' after the first')} from 0 to \d+, and is given -?\d+$"
    for each in bad:
        feeds = case.feeds | {name: np.asarray(each, case.feeds[name].dtype)}
        with pytest.raises(Exception, match=r"range|negative|exceeds"):
            run(case.model(), feeds)
        with pytest.raises(Exception, match=words):
            main(*map(tvm.runtime.tensor, feeds.values()))
