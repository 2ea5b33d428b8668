"""Quantized models of the benches: what the quantizer wrote, and that the same arguments write it again."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench.quantized_models import SMALL, Style, quantized


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_qdq_models_have_quanta_around_every_product(name, activations):
    model = quantized(name, Style(activations))
    onnx.checker.check_model(model, full_check=True)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    writers = {output: node for node in model.graph.node for output in node.output}
    products = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert products
    for node in products:
        data, weights = (
            writers[writers[name].input[0]] if place == 0 else writers[name]
            for place, name in enumerate(node.input[:2])
        )
        assert data.op_type == "QuantizeLinear"
        assert constants[data.input[2]].dtype == activations
        quanta = constants[weights.input[0]]
        assert quanta.dtype == np.int8
        assert abs(quanta.astype(int)).max() <= 64


def test_small_models_have_what_they_are_for():
    kinds = {name: Counter(node.op_type for node in quantized(name).graph.node) for name in SMALL}
    assert kinds["residual"]["Add"] == 2
    assert kinds["depthwise"]["HardSwish"] == 4
    assert kinds["gated"]["Mul"] == 4
    assert kinds["concat"]["Concat"] == 2
    assert kinds["dense"]["MatMul"] == 1


def test_the_same_arguments_make_the_same_model():
    assert quantized("dense", seed=1) == quantized("dense", seed=1)
    assert quantized("dense", seed=1) != quantized("dense", seed=2)


def test_qoperator_models_have_no_float_product():
    kinds = Counter(node.op_type for node in quantized("residual", Style(form="qoperator")).graph.node)
    assert kinds["QLinearConv"] == 6
    assert kinds["QGemm"] == 1
    assert "Conv" not in kinds
