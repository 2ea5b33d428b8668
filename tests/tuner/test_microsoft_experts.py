"""Mixtures of experts: what they become is what onnxruntime computes of them, and is built so."""

import numpy as np
import pytest
import tvm
from microsoft_case import Case, compare, floats, run, whole
from tiny_models import save
from tvm import relax

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import read_model
from kernels.target import CATALOGUE
from kernels.workload.narrow import NarrowGemm
from tuner.backend.apply import build_model
from tuner.backend.evaluation import TO_BYTES

EXPERTS, HIDDEN, INNER = 4, 32, 48


def mixture(activation="relu", shape=(2, 3, HIDDEN), biases=(True, True), router=None, opset=17, **more):
    rows = int(np.prod(shape[:-1]))
    wide = INNER * (2 if activation == "swiglu" else 1)
    router = floats(rows, EXPERTS) if router is None else np.float32(router)
    layers = [
        floats(EXPERTS, wide, HIDDEN, scale=0.3),
        floats(EXPERTS, wide) if biases[0] else None,
        floats(EXPERTS, HIDDEN, INNER, scale=0.3),
        floats(EXPERTS, HIDDEN) if biases[1] else None,
    ]
    if activation == "swiglu":
        more.setdefault("swiglu_fusion", 1)
    attributes = {"k": 2, "activation_type": activation, **more}
    return Case("MoE", (floats(*shape), router), layers, opset, **attributes)


def of_bits(bits, block=0, zeros=False, activation="silu", weights=None, opset=17, rows=6, **more):
    wide = INNER * (2 if activation == "swiglu" else 1)
    layers, points = [], []
    for outputs, inputs in ((wide, HIDDEN), (HIDDEN, INNER)):
        blocks = [inputs // block] if block else []
        layers += [
            whole(0, 256, EXPERTS, outputs, inputs * bits // 8, dtype=np.uint8),
            floats(EXPERTS, outputs, *blocks, scale=0.1),
            floats(EXPERTS, outputs),
        ]
        packed = [outputs, -(-blocks[0] * bits // 8)] if block else [outputs * bits // 8]
        points.append(whole(0, 256, EXPERTS, *packed, dtype=np.uint8) if zeros else None)
    if block:
        more["block_size"] = block
    if activation == "swiglu":
        more["swiglu_fusion"] = 1
    attributes = {"k": 2, "activation_type": activation, "expert_weight_bits": bits, **more}
    return Case(
        "QMoE",
        (floats(rows, HIDDEN), floats(rows, EXPERTS)),
        [*layers, None, None, None, *points, None],
        opset,
        behind=() if weights is None else (np.float32(weights),),
        **attributes,
    )


SCORES = [
    [1, 1, 1, 1],
    [np.nan, 1, 2, 3],
    [np.inf, 1, 2, 0],
    [0, 0, 200, 0],
    [2, 2, 1, 2],
    [-np.inf, 0, 1, 1],
]
"""Scores that tie, and scores from which no weights follow."""
WEIGHTS = [[1, -1, 0, 2], [0, 0, 0, 0], [0.5, 2, 1, -3], [-1, -1, -3, -1], [3, 2, 1, 1], [-2, 1, 5, 0.25]]
CASES = [
    *(mixture(kind, opset=opset) for kind in ("relu", "gelu") for opset in (9, 13, 18)),
    *(mixture(kind, normalize_routing_weights=1) for kind in ("silu", "identity", "swiglu")),
    mixture("swiglu", swiglu_limit=0.7, activation_alpha=1.7, activation_beta=1.0),
    mixture("silu", biases=(False, True), k=1),
    mixture("gelu", biases=(True, False), k=4, shape=(5, HIDDEN)),
    mixture(use_sparse_mixer=1),
    mixture(router=SCORES),
    mixture(router=SCORES, normalize_routing_weights=1),
    mixture(shape=(2, 0, HIDDEN)),
    *(of_bits(bits, 16, zeros) for bits in (2, 4) for zeros in (False, True)),
    *(of_bits(bits, 0, zeros, "swiglu") for bits in (2, 4, 8) for zeros in (False, True)),
    of_bits(4, opset=11, k=3),
    of_bits(4, activation="relu", weights=WEIGHTS),
    of_bits(4, activation="relu", weights=WEIGHTS, normalize_routing_weights=1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_onnxruntime_computes(tmp_path, case):
    extract(compare(tmp_path, case))


@pytest.mark.parametrize("case", [of_bits(8, 16, True), of_bits(4, 16, accuracy_level=4)], ids=str)
def test_data_stay_floats_where_onnxruntime_rounds_them(tmp_path, case):
    compare(tmp_path, case, tolerance=TO_BYTES)


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize(
    ("case", "kind"),
    [(mixture("swiglu", router=SCORES), "gemm"), (of_bits(4, 16, True), "narrow_gemm")],
    ids=str,
)
def test_both_layers_of_all_experts_are_one_product_each(tmp_path, case, kind):
    path = save(tmp_path, case.model())
    executable, manifest = build_model(path, {}, CATALOGUE["x86-avx2"])
    assert sorted(layer.workload.k for layer in manifest.layers) == [EXPERTS, HIDDEN, EXPERTS * INNER]
    assert sum(layer.workload.kind == kind for layer in manifest.layers) >= 2
    assert all(
        layer.workload.bits == 4 for layer in manifest.layers if isinstance(layer.workload, NarrowGemm)
    )
    feeds = map(tvm.runtime.tensor, case.feeds.values())
    result = relax.VirtualMachine(executable, tvm.cpu())["main"](*feeds).numpy()
    np.testing.assert_allclose(result, run(case.model(), case.feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (mixture("tanh"), "activation 'tanh'"),
        (mixture("swiglu", swiglu_fusion=2), "swiglu_fusion 1 alone"),
        (mixture(k=5), "chooses 5 of 4"),
        (mixture(use_sparse_mixer=1, k=1), "sparse mixer that chooses 1"),
        (Case("MoE", mixture().data, [*mixture().constants, floats(2, 2, 2)]), "third layer"),
        (Case("MoE", mixture().data, mixture("swiglu").constants), "do not fit together"),
        (of_bits(4, quant_type="nvfp4"), "'nvfp4'"),
        (of_bits(4, fc2_expert_weight_bits=8), "different bits"),
        (Case("QMoE", of_bits(4).data, of_bits(4).constants, block_size=16), "scales of"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_onnxruntime_does_not_compute_is_refused(tmp_path, case, words):
    with pytest.raises(ModelError, match=rf"node 'y' \({case.op}\).*{words}"):
        read_model(save(tmp_path, case.model()))
