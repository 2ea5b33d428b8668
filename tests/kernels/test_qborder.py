import numpy as np
import pytest
import tvm
from guarded import guarded
from operators_guarded import HOST, random_bytes

from kernels.emit.compile import compile_module
from kernels.int8.quantization import Quantization
from kernels.operators.int8.border import build_dequantize, build_dequantize_sums, build_quantize
from kernels.operators.int8.relayout import build_qrelayout

CODES = [Quantization("uint8", 0.0173, 3), Quantization("int8", 0.5, -128), Quantization("int8", 0.25, 127)]


def run(function, *data_and_out):
    *data, out = map(guarded, data_and_out)
    arguments = (tvm.runtime.from_dlpack(buffer) for buffer in (*data, out))
    compile_module(function, HOST)["main"](*arguments)
    return out


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", [(5,), (3, 37), (2, 64, 33, 17)])
def test_quantizing_rounds_ties_to_even_and_saturates(code, shape):
    rng = np.random.default_rng()
    real = rng.normal(0, 100 * code.scale, shape).astype(np.float32)
    ties = (rng.integers(-300, 300, shape) + 0.5).astype(np.float32) * np.float32(code.scale)
    real = np.where(rng.random(shape) < 0.3, ties, real)
    real.flat[:5] = np.inf, -np.inf, 3e38, -3e38, np.nan
    for threads in (1, 3):
        got = run(build_quantize(shape, code, HOST, threads, "main"), real, np.zeros(shape, code.dtype))
        assert np.array_equal(got, code.quanta(real))


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("shape", [(5,), (3, 37), (2, 64, 33, 17)])
def test_dequantizing(code, shape):
    data = random_bytes(shape, code.dtype, np.random.default_rng())
    for threads in (1, 3):
        function = build_dequantize(shape, code, HOST, threads, "main")
        got = run(function, data, np.zeros(shape, np.float32))
        assert np.array_equal(got, code.real(data))


@pytest.mark.parametrize("shape", [(5,), (3, 37), (2, 33, 17, 64)])
@pytest.mark.parametrize("single", [True, False])
def test_dequantizing_sums(shape, single):
    rng = np.random.default_rng()
    data = rng.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
    scales = rng.uniform(0.001, 2, 1 if single else shape[-1]).astype(np.float32)
    for threads in (1, 3):
        function = build_dequantize_sums(shape, scales.size, HOST, threads, "main")
        got = run(function, data, scales, np.zeros(shape, np.float32))
        assert np.array_equal(got, data.astype(np.float32) * scales)


@pytest.mark.parametrize("channels", [2, 3, 5, 9, 16, 70])
@pytest.mark.parametrize("plane", [(1, 3), (4, 4), (3, 11), (67, 41)])
def test_bytes_change_layout(channels, plane):
    shape = (2, channels, *plane)
    nchw = random_bytes(shape, "int8", np.random.default_rng())
    nhwc = np.ascontiguousarray(nchw.transpose(0, 2, 3, 1))
    threads = (1, 3) if channels % 2 else (3, 1)  # either way is shared by threads for every other shape
    there = build_qrelayout(shape, True, "int8", HOST, threads[0], "main")
    assert np.array_equal(run(there, nchw, ~nhwc), nhwc)
    back = build_qrelayout(shape, False, "int8", HOST, threads[1], "main")
    assert np.array_equal(run(back, nhwc, ~nchw), nchw)
