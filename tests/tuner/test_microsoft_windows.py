"""Crops, windows, masked pools, tables of bytes and weights that are codes, as com.microsoft has them."""

import numpy as np
import pytest
import tvm
from microsoft_case import RNG, Case, compare, floats, run, whole
from onnx import TensorProto
from tiny_models import save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import read_model
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model

IMAGES = floats(2, 3, 7, 6)
BOXES = np.concatenate(
    [
        RNG.uniform(-0.3, 1.3, (5, 4)).astype(np.float32),
        np.float32([[0, 0, 1, 1], [1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [0, 0, np.inf, 1]]),
    ]
)
"""Whole images, turned ones, a point, and what is partly outside."""
OF = whole(0, 2, len(BOXES), dtype=np.int32)


def crop(size, boxes=BOXES, of=OF, **more):
    return Case("CropAndResize", (IMAGES, boxes, of), (np.int32(size),), **more)


def strange(*shape):
    """Numbers, some of them no numbers or infinite."""
    data = floats(*shape)
    return np.where(RNG.random(shape) < 0.1, RNG.choice(np.float32([np.nan, np.inf, -np.inf]), shape), data)


def pooled(shape, masks, opset=17, **more):
    mask = (RNG.random((*masks, *shape[2:])) > 0.2) * whole(-2, 9, *masks, *shape[2:], dtype=np.int32)
    return Case("MaxpoolWithMask", (strange(*shape), mask.astype(np.int32)), opset=opset, **more)


def embedded(kind, segments, mask, opset=17):
    low = -128 if kind == np.int8 else 0
    tables = [whole(low, low + 256, *shape, dtype=kind) for shape in ((12, 8), (9, 8), (2, 8), (8,), (8,))]
    scales = [floats(1, scale=0.05).reshape(shape) for shape in ([], [1], [], [1], [])]
    zeros = [whole(low, low + 256, 1, dtype=kind).reshape(shape) for shape in ([1], [], [], [1], [])]
    if not segments:
        for each in (tables, scales, zeros):
            each[2] = None
    ids = [whole(0, 12, 2, 5, dtype=np.int32), whole(0, 2, 2, 5, dtype=np.int32) if segments else None]
    tokens = whole(0, 3, 2, 5, dtype=np.int32) if mask else None
    kinds = (TensorProto.FLOAT, TensorProto.INT32)
    return Case(
        "QEmbedLayerNormalization",
        ids,
        [*tables, tokens, *scales, *zeros],
        opset,
        outputs=2,
        kinds=kinds,
        epsilon=1e-5,
    )


def coded(k, n, block, kind, shape=(3,)):
    packed, scales = whole(0, 256, (n * k + 1) // 2, dtype=np.uint8), floats(-(-n * k // block))
    return Case(
        "MatMulBnb4", (floats(*shape, k),), (packed, scales), K=k, N=n, block_size=block, quant_type=kind
    )


CASES = [
    *(crop(size) for size in ([4, 5], [1, 3], [7, 1], [2, 12])),
    *(crop(size, opset=opset, mode="nearest") for size, opset in (([3, 5], 17), ([13, 1], 9))),
    crop([2, 2], extrapolation_value=2.5),
    Case("UnfoldTensor", (floats(2, 3, 4),), size=2),
    Case("UnfoldTensor", (floats(2, 5, 4),), opset=9, dim=-2, size=2, step=2),
    Case(
        "UnfoldTensor",
        (whole(-9, 9, 4, 3, dtype=np.int64),),
        kinds=(TensorProto.INT64,),
        dim=0,
        size=3,
        step=1,
    ),
    pooled((2, 3, 8), (1, 1), kernel_shape=[3], pads=[1, 1], strides=[2]),
    pooled((2, 3, 7, 6), (2, 1), kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1]),
    pooled((2, 3, 7, 6), (3, 3), 10, kernel_shape=[3, 2], auto_pad="SAME_UPPER", strides=[2, 2]),
    pooled((2, 3, 8, 8), (2, 3), 18, kernel_shape=[3, 4], auto_pad="SAME_LOWER", storage_order=1),
    pooled((1, 2, 4, 5, 6), (1, 2), kernel_shape=[2, 2, 3], pads=[0, 1, 2, 1, 0, 1], strides=[1, 2, 1]),
    pooled((2, 3, 7, 6), (2, 3), kernel_shape=[3, 2], auto_pad="VALID", strides=[2, 2]),
    *(
        embedded(kind, segments, mask, opset)
        for kind, segments, mask, opset in (
            (np.uint8, True, True, 17),
            (np.int8, False, True, 9),
            (np.int8, True, False, 18),
        )
    ),
    coded(32, 6, 16, 0),
    coded(33, 5, 64, 1, (2, 3)),
    coded(7, 3, 256, 1, (1,)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_onnxruntime_computes(tmp_path, case):
    extract(compare(tmp_path, case, 1e-5))


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("case", [CASES[3], CASES[11]], ids=str)
def test_it_is_built(tmp_path, case):
    executable, _ = build_model(save(tmp_path, case.model()), {}, CATALOGUE["x86-avx2"])
    feeds = map(tvm.runtime.tensor, case.feeds.values())
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](*feeds).numpy()
    np.testing.assert_allclose(result, run(case.model(), case.feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("avx2")
def test_a_crop_of_an_image_that_is_not_there_ends_the_run(tmp_path):
    case = crop([1, 1], np.float32([[0, 0, 1, 1]]), np.int32([1]), mode="nearest")
    executable, _ = build_model(save(tmp_path, case.model()), {}, CATALOGUE["x86-avx2"])
    main, (_, boxes, _) = relax.VirtualMachine(executable, tvm.cpu())["main"], case.data
    for image in (-1, 2):
        with pytest.raises(Exception, match="needs an index"):
            main(*map(tvm.runtime.tensor, (IMAGES, boxes, np.int32([image]))))


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (crop([0, 2]), "two positive numbers"),
        (crop([2, 2], mode="cubic"), "mode 'cubic'"),
        (Case("UnfoldTensor", (floats(2, 4),), size=5), "windows of 5"),
        (Case("UnfoldTensor", (floats(2, 4),), size=2, dim=2), "axis 2 of 2"),
        (pooled((2, 3, 7, 6), (1, 3)), "kernel_shape of"),
        (pooled((2, 3, 7, 6), (1, 3), kernel_shape=[9, 2]), r"windows of \[9, 2\]"),
        (pooled((2, 3, 7, 6), (1, 3), kernel_shape=[3, 2], pads=[3, 0, 0, 0]), "pads of"),
        (coded(32, 6, 24, 0), "blocks of 24"),
        (
            Case("MatMulBnb4", *coded(32, 6, 16, 0).operands, N=6),
            "lacks its attributes K, block_size, quant_type",
        ),
        (
            Case("MatMulBnb4", *coded(32, 6, 16, 0).operands, K=64, N=6, block_size=16, quant_type=0),
            "do not go",
        ),
        (
            Case(
                "MatMulBnb4", *coded(32, 6, 16, 0).operands, K=32, N=6, block_size=16, quant_type=0, transB=0
            ),
            "not transposed",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_is_refused_by_node(tmp_path, case, words):
    with pytest.raises(ModelError, match=rf"node 'y' \({case.op}\).*{words}"):
        read_model(save(tmp_path, case.model()))


def test_weights_of_four_bits_for_some_processors_alone_are_refused_with_another_way(tmp_path):
    case = Case("MatMulFpQ4", (floats(3, 64),), (whole(0, 256, 160, dtype=np.uint8), np.int64([64, 4])))
    with pytest.raises(ModelError, match="MatMulNBits"):
        read_model(save(tmp_path, case.model()))
