"""Integer HVX on the simulated Hexagon: fp32 kernels are scalar there, integers have vectors of 1024 bits."""

import json
import re

import numpy as np
import pytest
from candidates import connect, load, on_board
from tvm.script.ir_builder import tirx as T

from kernels.emit import tir
from kernels.emit.compile import compile_module, compile_object
from kernels.emit.function import Function
from kernels.int8.hvx import instructions as hvx
from kernels.int8.reference import multiply
from kernels.target import CATALOGUE
from worker.build.toolchain import link
from worker.fleet.drivers.sim_models import SIM_MODELS

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

TARGET = CATALOGUE[SIM_MODELS["hexagon-sim"].target]
LANES = TARGET.lanes("int32")
ROWS, COLUMNS, DEPTH = 32, 64, 64
DOT = "llvm.hexagon.V6.vrmpybusv.acc.128B"  # 32 sums of four products of unsigned by signed bytes


def matrix_product(step, lanes):
    """int32 C[ROWS, COLUMNS] from A[ROWS, DEPTH // 4] and B[DEPTH // 4, COLUMNS], words of four bytes."""
    words = DEPTH // 4
    shapes = {"a": (ROWS * words,), "b": (words * COLUMNS,), "c": (ROWS * COLUMNS,)}
    function = Function("main", shapes, dict.fromkeys(shapes, "int32"))
    with function as (a, b, c), T.serial(0, ROWS) as i, T.serial(0, COLUMNS // lanes) as j:
        out = tir.vector(i * COLUMNS + j * lanes, lanes)
        T.buffer_store(c, tir.splat(T.int32(0), lanes), [out])
        with T.serial(0, words) as k:
            row, column = a[i * words + k], b[tir.vector(k * COLUMNS + j * lanes, lanes)]
            T.buffer_store(c, step(c[out], tir.splat(row, lanes), column), [out])
    return function.result()


def dot(total, row, column):
    return T.call_llvm_pure_intrin(f"int32x{LANES}", T.llvm_lookup_intrinsic_id(DOT), total, row, column)


def multiply_add(total, row, column):
    return total + row * column


@pytest.fixture(scope="module")
def run(simulated_boards, simulated_dir):
    """(function, a, b) -> (c, simulated seconds, counters, assembly)."""
    names = iter(range(100))

    def run(function, a, b):
        module = compile_module(function, TARGET)
        text = module.inspect_source("asm")
        number = next(names)
        module.write_to_file(str(simulated_dir / f"hvx{number}.o"))
        path = simulated_dir / f"hvx{number}.so"
        path.write_bytes(link((simulated_dir / f"hvx{number}.o").read_bytes()))
        session = connect(simulated_boards["hexagon-sim"], timeout=60)
        module = load(session, path)
        arguments = on_board(session, a, b, np.zeros(ROWS * COLUMNS, "int32"))
        (seconds,) = module.time_evaluator("main", session.cpu(0), number=1, repeat=1)(*arguments).results
        stats = json.loads(session.get_function("tilefleet.stats")())
        return arguments[2].numpy().reshape(ROWS, COLUMNS), seconds, stats, text

    return run


@pytest.fixture
def run_any(simulated_boards, simulated_dir):
    """(function, int32 arrays) -> its last argument, of their size."""

    def run(function, *arrays):
        path = simulated_dir / "any.so"
        path.write_bytes(link(compile_object(function, TARGET)))
        session = connect(simulated_boards["hexagon-sim"], timeout=60)
        arguments = on_board(session, *arrays, np.zeros_like(arrays[0]))
        load(session, path)["main"](*arguments)
        return arguments[-1].numpy()

    return run


def test_dot_products_of_bytes(run):
    rng = np.random.default_rng()
    a = rng.integers(0, 256, (ROWS, DEPTH), dtype="uint8")
    b = rng.integers(-128, 128, (DEPTH, COLUMNS), dtype="int8")
    packed = np.ascontiguousarray(b.reshape(DEPTH // 4, 4, COLUMNS).transpose(0, 2, 1))
    arguments = a.view("int32").ravel(), packed.view("int32").ravel()
    result, seconds, stats, text = run(matrix_product(dot, LANES), *arguments)
    assert (result == a.astype("int32") @ b.astype("int32")).all()
    assert "vrmpy" in text
    # Each dot product is an instruction of a packet that the clock has counted and charged.
    assert stats["instructions"] >= ROWS * COLUMNS // LANES * DEPTH // 4
    assert stats["cycles"] >= stats["instructions"]
    assert seconds == pytest.approx(stats["cycles"] / SIM_MODELS["hexagon-sim"].hz, rel=1e-3)


@pytest.mark.parametrize(("how", "least"), [("high", 2), ("exact", -31)])
def test_sums_are_scaled_exactly(run_any, how, least):
    """Words of all sizes by scales of all sizes; beyond any byte results need not be told apart."""
    count, rng = 4096, np.random.default_rng()
    value = (rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 31, count)).astype("int32")
    value[:2] = -(1 << 31), (1 << 31) - 1
    multiplier = rng.integers(1 << 30, 1 << 31, count).astype("int32")
    multiplier[::9], multiplier[::11] = 1 << 30, 0
    shift = rng.integers(least, 31, count, endpoint=True).astype("int32")
    names = ("value", "multiplier", "shift", "result")
    function = Function("main", dict.fromkeys(names, (count,)), dict.fromkeys(names, "int32"))
    with function as (*given, out), tir.with_llvm(hvx.LLVM), T.serial(0, count // LANES) as turn:
        at = tir.vector(turn * LANES, LANES)
        number, *scale = (T.Bind(each[at]) for each in given)
        T.buffer_store(out, hvx.scaling(*scale, how)(number), [at])
    result = run_any(function.result(), value, multiplier, shift)
    expected = multiply(value.astype("int64"), multiplier, shift)
    assert (np.clip(result, -999, 999) == np.clip(expected, -999, 999)).all()


def test_vectors_of_int32_beat_the_scalar_core(run):
    rng = np.random.default_rng()
    a = rng.integers(-1000, 1000, (ROWS, DEPTH // 4), dtype="int32")
    b = rng.integers(-1000, 1000, (DEPTH // 4, COLUMNS), dtype="int32")
    taken = {}
    for lanes in (1, LANES):
        result, taken[lanes], stats, text = run(matrix_product(multiply_add, lanes), a.ravel(), b.ravel())
        assert (result == a @ b).all(), lanes
        assert ("vmem(" in text) == (lanes > 1)
        assert min(stats["loads"], stats["stores"]) > 0
    assert 5 * taken[LANES] < taken[1]


def test_nothing_behind_an_array_is_read():
    """Of two runs that overlap LLVM would read the whole vectors around them, and one more."""
    function = Function("main", {"data": (192,), "out": (128,)}, dict.fromkeys(("data", "out"), "uint8"))
    with function as (data, out), tir.with_llvm(hvx.LLVM):
        hvx.write(out, hvx.words("vaddw", hvx.read(data, 0), hvx.read(data, 64)), 0)
    text = compile_module(function.result(), TARGET).inspect_source("asm")
    assert len(re.findall(r"= vmemu\(", text)) == 2
    assert not re.search(r"v\d+ = vmem\(", text)
