"""Integer operators on a simulated board: the reference to the last bit, and floats as ONNX says."""

from functools import partial

import numpy as np
import pytest

from kernels.emit.compile import compile_module
from kernels.int8.quantization import Quantization
from kernels.operators.int8.add import QAdd
from kernels.operators.int8.base import from_stored, stored, to_stored
from kernels.operators.int8.border import build_dequantize, build_quantize
from kernels.operators.int8.concat import QConcat
from kernels.operators.int8.lookup import QLookup
from kernels.operators.int8.mul import QMul
from kernels.operators.int8.pool import QPool
from kernels.operators.int8.relayout import build_qrelayout
from kernels.operators.pool import Pool
from kernels.target import CATALOGUE
from worker.build.build import ENTRY

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(600)]

SHAPE, PLANES = (1, 37, 9, 11), (1, 37, 1, 1)
U8, S8 = Quantization("uint8", 0.02, 120), Quantization("int8", 0.03, -4)
OPERATORS = {
    "add": QAdd.of(SHAPE, U8, S8, U8),
    "add by planes": QAdd.of(SHAPE, U8, S8, U8, None, PLANES),
    "multiply": QMul.of(SHAPE, U8, S8, S8),
    "multiply by planes": QMul.of(SHAPE, S8, S8, U8, (3, 200), PLANES),
    "lookup": QLookup.of(SHAPE, S8, U8, np.tanh),
    "lookup by unsigned bytes": QLookup.of(SHAPE, U8, S8, np.sin),
    "clip": QLookup.of(SHAPE, S8, S8, lambda real: real.clip(0, 2)),
    "max": QPool.of(Pool("max", SHAPE, (5, 6), (3, 3), (2, 2), (1, 1)), S8, S8),
    "average": QPool.of(Pool("average", SHAPE, (9, 11), (3, 3), (1, 1), (1, 1)), U8, S8),
    "global average": QPool.of(Pool("average", SHAPE, (1, 1), (9, 11), (1, 1), (0, 0)), S8, U8),
    "concat": QConcat((SHAPE, SHAPE), 1, "uint8"),
}


@pytest.fixture(params=["rpi4-sim", "rpi4-32-sim", "hexagon-sim"])
def board(request, simulated_boards):
    return simulated_boards[request.param]


@pytest.fixture
def target(board):
    return CATALOGUE[board.target]


@pytest.fixture
def run(board, run_on):
    return partial(run_on, board)


def random_bytes(shape, dtype):
    limits = np.iinfo(dtype)
    return np.random.default_rng().integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_exact(run, target, name):
    operator = OPERATORS[name]
    if isinstance(operator, QAdd | QMul):
        shapes = (SHAPE, operator.second or SHAPE)
        inputs = [random_bytes(*each) for each in zip(shapes, operator.dtypes[:2], strict=True)]
    else:
        inputs = [random_bytes(SHAPE, operator.dtype) for _ in range(2 if name == "concat" else 1)]
    expected = operator.reference(*inputs)
    out = np.zeros(stored(operator.out_shape), operator.result_dtype)
    function = operator.build(target, 1, ENTRY)
    got = run(function, *map(to_stored, inputs), *operator.constants(), out)
    assert np.array_equal(from_stored(got), expected)


@pytest.mark.parametrize("code", [U8, S8, Quantization("uint8", 117.3, 0), Quantization("int8", 3e-6, 127)])
def test_borders_round_as_onnx_says(run, target, code):
    rng = np.random.default_rng()
    real = rng.normal(0, 100 * code.scale, SHAPE).astype(np.float32)
    ties = (rng.integers(-300, 300, SHAPE) + 0.5).astype(np.float32) * np.float32(code.scale)
    ties = np.nextafter(ties, ties + rng.integers(-1, 2, SHAPE).astype(np.float32))
    real = np.where(rng.random(SHAPE) < 0.5, ties, real)
    ends = np.array([np.inf, -np.inf, 3e38, -3e38, 1e-40, -1e-40, 0.0, -0.0], np.float32)
    real.reshape(-1)[: ends.size] = ends
    got = run(build_quantize(SHAPE, code, target, 1, ENTRY), real, np.zeros(SHAPE, code.dtype))
    assert np.array_equal(got, code.quanta(real))
    back = run(build_dequantize(SHAPE, code, target, 1, ENTRY), got, np.zeros_like(real))
    assert np.array_equal(back, code.real(got))


def test_what_is_no_number_becomes_the_least_byte(run, target):
    real = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF] * 50, np.uint32).view(np.float32)
    got = run(build_quantize(real.shape, S8, target, 1, ENTRY), real, np.zeros(real.shape, np.int8))
    assert (got == -128).all()


@pytest.mark.parametrize("cpu", ["hexagon-v66", "hexagon-v68"])
def test_borders_and_tables_are_vector_code_on_hexagon(cpu):
    target = CATALOGUE[cpu]
    for function in (
        build_quantize(SHAPE, U8, target, 1, ENTRY),
        build_dequantize(SHAPE, S8, target, 1, ENTRY),
        OPERATORS["lookup"].build(target, 1, ENTRY),
    ):
        assert "vlut32" in compile_module(function, target).inspect_source("asm")


@pytest.mark.parametrize("channels", [3, 37])
def test_bytes_change_layout(run, target, channels):
    shape = (1, channels, 9, 11)
    data = random_bytes(shape, "uint8")
    nhwc = to_stored(data)
    there = build_qrelayout(shape, True, "uint8", target, 1, ENTRY)
    assert np.array_equal(run(there, data, np.zeros_like(nhwc)), nhwc)
    back = build_qrelayout(shape, False, "uint8", target, 1, ENTRY)
    assert np.array_equal(run(back, nhwc, np.zeros_like(data)), data)
