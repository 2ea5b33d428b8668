import itertools

import numpy as np
import pytest

from kernels.reference import max_error, random_inputs, reference
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm

FULL = Epilogue(bias=True, residual=True, clamp=(-1.0, 2.0))


def naive(conv, data, weights):
    """The definition, one output element at a time, in double precision."""
    out = np.zeros(conv.out_shape)
    depth, filters = conv.in_c // conv.groups, conv.out_c // conv.groups
    for n, k, y, x in np.ndindex(*conv.out_shape):
        for c, r, s in itertools.product(range(depth), range(conv.kh), range(conv.kw)):
            row = y * conv.stride[0] + r * conv.dilation[0] - conv.pad[0]
            column = x * conv.stride[1] + s * conv.dilation[1] - conv.pad[1]
            if 0 <= row < conv.in_h and 0 <= column < conv.in_w:
                value = data[n, k // filters * depth + c, row, column]
                out[n, k, y, x] += float(value) * float(weights[k, c, r, s])
    return out


@pytest.mark.parametrize(
    "conv",
    [
        Conv2d(1, 3, 6, 5, 4, 3, 3, pad=(1, 1, 1, 1)),
        Conv2d(2, 4, 7, 6, 6, 3, 2, stride=(2, 3), pad=(0, 1, 2, 0), groups=2, epilogue=FULL),
        Conv2d(1, 4, 7, 7, 4, 3, 3, pad=(2, 2, 2, 2), dilation=(2, 1), groups=4, epilogue=FULL),
        Conv2d(1, 2, 1, 1, 3, 5, 5, pad=(2, 2, 2, 2), epilogue=Epilogue(bias=True, clamp=RELU)),
    ],
    ids=str,
)
def test_convolution_is_the_definition(conv):
    inputs = random_inputs(conv, np.random.default_rng(1))
    expected = naive(conv, *inputs[:2])
    if conv.epilogue.bias:
        expected += inputs[2][:, None, None]
    if conv.epilogue.residual:
        expected += inputs[3]
    if conv.epilogue.clamp:
        expected = np.clip(expected, *conv.epilogue.clamp)
    result = reference(conv, inputs)
    assert max_error(result, expected) < 1e-14


def test_gemm_is_the_definition():
    gemm = Gemm(3, 5, 4, epilogue=Epilogue(bias=True, residual=True, clamp=RELU))
    data, weights, bias, residual = inputs = random_inputs(gemm, np.random.default_rng(1))
    product = np.einsum("mk,kn->mn", data.astype(np.float64), weights)
    expected = np.maximum(product + bias + residual, 0)
    assert max_error(reference(gemm, inputs), expected) < 1e-14


def test_a_missing_input_is_named():
    conv = Conv2d(1, 1, 3, 3, 1, 1, 1, epilogue=Epilogue(bias=True))
    with pytest.raises(ValueError, match=r"takes inputs of \[.*\(1,\)\]"):
        reference(conv, random_inputs(conv, np.random.default_rng(0))[:2])


def test_error_of_a_result_that_is_not_a_number_is_infinite():
    assert max_error(np.array([np.nan, 1]), np.array([1, 1])) == np.inf
    assert max_error(np.array([1.5, 4]), np.array([1, 5])) == 0.2
