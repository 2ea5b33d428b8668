"""Matrix products, normalizations, attention, recurrence, quantization."""

import numpy as np
from one_operator import Constant, case, const, floats, integers, positive, reals, scalar, truths

# fmt: off

WHOLE = np.int64


X, IMAGE = floats(2, 3, 4), floats(2, 4, 3, 5)
A, B, DOUBLE = floats(3, 4), floats(4, 5, seed=5), floats(3, 4, dtype=np.float64)
LONG = integers(3, 4, low=-(2**33), high=2**33)
W = Constant(floats(4, 5, seed=6))
FOURS = [Constant(positive(4) + i) for i in range(4)]
BYTES = integers(3, 4, low=0, high=200, dtype=np.uint8)
SIGNED = integers(4, 5, low=-90, high=90, dtype=np.int8)
S, Z, BELOW = scalar(0.03), scalar(120, np.uint8), scalar(-5, np.int8)
FAR = np.array([[-3, -1e-30, -0.0, 0, 1e-30, 2, np.inf, -np.inf, np.nan] * 3], np.float32)
ODD = (1e-45, 1e-38, 1e38, -0.1)

PRODUCTS = [
    case("MatMul", A, B), case("MatMul", A, W), case("MatMul", X, W), case("MatMul", X, floats(2, 4, 5)),
    case("MatMul", floats(4), B), case("MatMul", X, floats(4)), case("MatMul", A, Constant(floats(4))),
    case("MatMul", Constant(floats(4)), B), case("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2)),
    case("MatMul", DOUBLE, DOUBLE.T.copy()), case("MatMul", LONG, integers(4, 2)),
    case("MatMul", integers(3, 4, dtype=np.int32), Constant(integers(4, 2, dtype=np.int32))),
    case("MatMul", floats(4), floats(4)), case("MatMul", DOUBLE, Constant(DOUBLE.T.copy())),
    case("MatMul", LONG, Constant(integers(4, 2))),
    *(case("Gemm", A if not ta else A.T.copy(), B if not tb else B.T.copy(), c, transA=ta, transB=tb,
        alpha=0.5, beta=2.0) for ta, tb, c in ((0, 0, floats(5)), (1, 0, floats(3, 5)), (0, 1,
        scalar(2.0)), (1, 1, floats(3, 1)))),
    case("Gemm", A, W), case("Gemm", A, W, Constant(floats(5)), beta=0.5), case("Gemm", A, B, opset=11),
    case("Gemm", A, B, floats(3, 1), opset=7), case("Gemm", A, W, floats(5), alpha=0.3),
    case("Gemm", DOUBLE, Constant(floats(4, 2, dtype=np.float64)), Constant(floats(2, dtype=np.float64))),
    case("Gemm", LONG, Constant(integers(4, 2)), alpha=2.0),
    case("Gemm", A, B, floats(5), opset=6, broadcast=1),
    case("Gemm", integers(3, 4), integers(4, 2), integers(2)),
    *(case("Einsum", *args, equation=eq) for eq, args in (("ij,jk->ik", (A, B)), ("bij,bjk->bik", (X,
        floats(2, 4, 5))), ("ij->ji", (A,)), ("ij->i", (A,)), ("bhid,bhjd->bhij", (IMAGE, floats(2, 4,
        6, 5))), ("...ij,...jk->...ik", (X, floats(2, 4, 5))), ("ii->i", (floats(3, 3),)), ("i,j->ij",
        (floats(3), floats(4))), ("ij,jk", (A, B)), ("bij->b", (X,)),
        ("...ij,jk->...ik", (IMAGE, floats(5, 2))), ("b...i,j...i->j...b", (X, floats(5, 3, 4))),
        ("bhwc,hkc->bhwk", (floats(2, 3, 4, 5), floats(3, 6, 5))), ("bij,bjk->ki", (X, floats(2, 4, 5))),
        ("ij,ij->", (A, A)), ("bsd,dhe->bshe", (X, floats(4, 3, 2))), ("i,ij->j", (floats(3), A)),
        ("bij,kj->bik", (X, Constant(floats(5, 4)))))),
    case("MatMulInteger", BYTES, SIGNED),
    case("MatMulInteger", BYTES, Constant(SIGNED), scalar(7, np.uint8), scalar(-3, np.int8)),
    case("MatMulInteger", BYTES, SIGNED, scalar(7, np.uint8), const(*range(5), dtype=np.int8)),
]
NORMS = [
    *(case("BatchNormalization", x, *FOURS) for x in (IMAGE, floats(3, 4), floats(2, 4, 3))),
    case("BatchNormalization", IMAGE, *FOURS, epsilon=0.1),
    case("BatchNormalization", IMAGE, *FOURS, opset=8),
    case("BatchNormalization", IMAGE, *FOURS, opset=9, momentum=0.5),
    case("BatchNormalization", IMAGE, *(v.value for v in FOURS)),
    case("BatchNormalization", IMAGE, *FOURS, training_mode=1, outputs=3, refused=True),
    case("BatchNormalization", IMAGE, *FOURS, opset=6, is_test=1),
    case("BatchNormalization", IMAGE.astype(np.float64), *(Constant(v.value.astype(np.float64)) for v in
        FOURS)),
    case("BatchNormalization", IMAGE, *(Constant(positive(60)) for _ in range(4)), opset=7, spatial=0,
        refused=True),
    *(case("InstanceNormalization", x, *FOURS[:2]) for x in (IMAGE, floats(2, 4, 6))),
    case("InstanceNormalization", IMAGE, *FOURS[:2], epsilon=0.2),
    case("InstanceNormalization", IMAGE, *FOURS[:2], opset=6),
    case("InstanceNormalization", floats(1, 4, 3, 2, 2), *FOURS[:2]),
    case("LayerNormalization", X, Constant(positive(4))),
    case("LayerNormalization", X, Constant(positive(4)), Constant(floats(4)), epsilon=0.1),
    case("LayerNormalization", X, Constant(positive(3, 4)), Constant(floats(3, 4)), axis=1),
    case("LayerNormalization", X, Constant(positive(4)), outputs=3),
    case("LayerNormalization", X, Constant(positive(3, 4)), Constant(floats(3, 4)), outputs=2, axis=1,
        opset=17),
    case("LayerNormalization", X, Constant(positive(3, 4)), axis=-2),
    case("LayerNormalization", X, positive(4), floats(4)),
    case("LayerNormalization", X.astype(np.float64), Constant(positive(4, dtype=np.float64)), refused=True),
    case("LayerNormalization", X, Constant(positive(2, 3, 4)), axis=0),
    case("LayerNormalization", X, Constant(positive(1)), refused=True),
    case("GroupNormalization", IMAGE, *FOURS[:2], opset=18, num_groups=2, refused=True),
    case("GroupNormalization", IMAGE, *FOURS[:2], opset=21, num_groups=2),
    case("RMSNormalization", X, Constant(positive(4)), opset=23),
    case("RMSNormalization", X, Constant(positive(2, 3, 4)), opset=23, axis=-3),
    case("RMSNormalization", X, Constant(positive(3, 4)), opset=23, axis=1, epsilon=0.1),
    case("LRN", IMAGE, size=4001), case("LRN", IMAGE, size=0, refused=True),
    case("LRN", IMAGE, size=3), case("LRN", IMAGE, size=5, alpha=0.1, beta=0.5, bias=2.0),
    case("RandomNormalLike", X, refused=True), case("Bernoulli", X, opset=15, refused=True),
    case("LpNormalization", X, p=1, refused=True), case("MeanVarianceNormalization", IMAGE, opset=13),
    case("MeanVarianceNormalization", IMAGE, axes=[2, 3]),
]
Q, KEPT = floats(2, 3, 4, 8), np.eye(4, dtype=bool) | truths(4, 4)
MIXED = [
    case("Attention", Q, Q, Q, opset=23), case("Attention", Q, Q, Q, opset=23, is_causal=1),
    case("Attention", floats(2, 4, 12), floats(2, 4, 12), floats(2, 4, 12), opset=23, q_num_heads=3,
        kv_num_heads=3),
    case("Attention", Q, Q, Q, opset=23, scale=0.3, softcap=2.0),
    case("Attention", Q, Q, Q, floats(4, 4), opset=23), case("Attention", Q, Q, Q, KEPT, opset=23),
    case("Attention", Q, floats(2, 3, 11, 8), floats(2, 3, 11, 5), floats(2, 1, 4, 11), opset=23),
    case("Attention", floats(2, 6, 4, 8), Q, Q, opset=23, is_causal=1), case("Attention", Q, Q, Q, opset=24),
    case("Attention", floats(2, 4, 24), floats(2, 7, 12), floats(2, 7, 6), opset=23, q_num_heads=4,
        kv_num_heads=2, scale=0.4),
    case("Attention", Q, Q, Q, None, floats(2, 3, 5, 8), floats(2, 3, 5, 8, seed=7), opset=23, outputs=3,
        is_causal=1),
    case("Attention", Q, Q, Q, None, None, None, np.array([2, 4]), opset=24, is_causal=1),
    case("Attention", Q, Q, Q, KEPT, opset=23, is_causal=1),
    case("RotaryEmbedding", Q, floats(10, 4), floats(10, 4), integers(2, 4, low=0, high=9), opset=23),
    case("QuantizeLinear", A, S, Z), case("QuantizeLinear", A, S),
    # Blocks of a scale each, the last one shorter.
    *(case("QuantizeLinear", 99 * floats(6, 8), Constant(positive(3, 8)), Constant(integers(3, 8, low=low,
        high=99, dtype=kind)), opset=21, axis=0, block_size=2)
        for kind, low in ((np.int8, -99), (np.uint8, 0), (np.int16, -99), (np.uint16, 0))),
    case("QuantizeLinear", floats(2, 7), positive(2, 3), opset=21, axis=-1, block_size=3),
    *(case("DequantizeLinear", integers(6, 8, low=low, high=low + 255, dtype=kind), Constant(positive(3, 8)),
        Constant(integers(3, 8, low=1, high=99, dtype=kind)), opset=21, axis=0, block_size=2)
        for kind, low in ((np.int8, -128), (np.uint8, 0), (np.int16, -32768), (np.uint16, 65000))),
    case("DequantizeLinear", integers(2, 7, dtype=np.int8), positive(2, 3), opset=21, block_size=3),
    case("DequantizeLinear", integers(2, 6, dtype=np.int32), positive(2, 3), opset=21, block_size=2,
        refused=True),
    case("QuantizeLinear", A, S, scalar(-5, np.int8), opset=10),
    case("QuantizeLinear", A, Constant(positive(4)), Constant(integers(4, dtype=np.int8)), axis=1),
    case("QuantizeLinear", A, Constant(positive(3)), Constant(integers(3, dtype=np.int8)), axis=0),
    case("QuantizeLinear", A, Constant(positive(4)), Constant(integers(4, dtype=np.int8)), axis=-1),
    case("QuantizeLinear", A * 1000, S, scalar(5, np.int16), opset=21), case("QuantizeLinear", IMAGE, S, Z),
    case("QuantizeLinear", A, np.array(0.03, np.float32), np.array(7, np.uint8)),
    case("QuantizeLinear", A, Constant(positive(3, 2)), axis=1, block_size=2, opset=21),
    case("QuantizeLinear", integers(3, 4, dtype=np.int32), S, Z, refused=True),
    *(case("QuantizeLinear", FAR, scalar(step), zero) for step in (0, -0.0) for zero in (Z, BELOW)),
    *(case("QuantizeLinear", FAR[:, :6], scalar(step), zero) for step in ODD for zero in (Z, BELOW)),
    *(case("DequantizeLinear", BYTES, scalar(step), Z) for step in (0, *ODD)),
    case("QuantizeLinear", A, reals(0.1, 0, -0.2, 1e-40), const(1, 2, 3, 4, dtype=np.uint8), axis=1),
    case("DequantizeLinear", BYTES, reals(0.1, 0, -0.2, 1e-40), const(1, 2, 3, 4, dtype=np.uint8), axis=1),
    case("QuantizeLinear", A, Constant(positive(4)), axis=1), case("DequantizeLinear", BYTES, S, Z),
    case("DequantizeLinear", BYTES, S), case("DequantizeLinear", SIGNED, S, scalar(3, np.int8), opset=10),
    case("DequantizeLinear", SIGNED, Constant(positive(5)), Constant(integers(5, dtype=np.int8)), axis=1),
    case("DequantizeLinear", integers(3, 4, low=-9999, high=9999, dtype=np.int32), S),
    case("DequantizeLinear", integers(3, 4, dtype=np.int16), S, scalar(3, np.int16), opset=21),
    case("DequantizeLinear", SIGNED, Constant(positive(4)), Constant(integers(4, dtype=np.int8)), axis=0),
    case("DequantizeLinear", BYTES, np.array(0.03, np.float32), np.array(7, np.uint8)),
    case("DequantizeLinear", BYTES, Constant(positive(3, 2)), axis=1, block_size=2, opset=21),
    case("DynamicQuantizeLinear", A, outputs=3), case("DynamicQuantizeLinear", positive(3, 4), outputs=3),
    case("QLinearMatMul", BYTES, S, Z, Constant(SIGNED), scalar(0.02), scalar(3, np.int8), scalar(0.5),
        scalar(100, np.uint8)),
    *(case(op, positive(3, 4) / 2, refused=True) for op in ("Bernoulli", "Multinomial", "Optional")),
    case("HannWindow", scalar(8, np.int64), opset=17),
    *(case("DFT", floats(2, 9, 3, parts), opset=17, **more) for parts in (1, 2) for more in ({}, {"axis": 2},
        {"axis": -2, "inverse": 1})),
    case("DFT", floats(2, 9, 1), opset=17, onesided=1),
    case("DFT", floats(2, 9, 1), scalar(6, WHOLE), opset=17),
    case("DFT", floats(2, 5, 2), scalar(8, WHOLE), scalar(1, WHOLE), opset=20),
    case("DFT", floats(3, 6, 2, 1), None, scalar(-3, WHOLE), opset=20, onesided=1),
    case("STFT", floats(2, 30), scalar(5, WHOLE), None, scalar(9, WHOLE), opset=17),
    case("STFT", floats(2, 40, 1), scalar(3, WHOLE), Constant(positive(8)), opset=17, onesided=0),
    case("STFT", floats(1, 20, 1), scalar(4, WHOLE), Constant(positive(8)), scalar(8, WHOLE), opset=17),
    case("STFT", floats(1, 16, 2), scalar(4, np.int64), None, scalar(8, np.int64), opset=17, onesided=0,
        refused=True),
    *(case(op, A, integers(3, low=0, high=4)) for op in ("NegativeLogLikelihoodLoss",
        "SoftmaxCrossEntropyLoss")),
    case("RandomNormal", shape=[2, 3], refused=True),
]
CASES = PRODUCTS + NORMS + MIXED
