"""Functions in place of libm's: how far off each is, and that vectors of them stay vectors."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import tvm
from guarded import guarded
from tvm import te, tirx
from tvm.s_tir import Schedule

from kernels.emit.compile import MODEL_PIPELINE
from kernels.emit.vector_math import called
from kernels.isa.hexagon import HEXAGON
from kernels.target import CATALOGUE

pytestmark = pytest.mark.xdist_group("vector_math")  # so that what the module shares is built once

COUNT, LANES = 1 << 17, 8


def lifted(function):
    """A function of Python's floats for arrays."""

    def one(*values):
        try:
            return function(*values)
        except OverflowError:
            return math.inf

    return np.vectorize(one, otypes=[np.float64])


REFERENCES = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
    "tanh": np.tanh,
    "erf": lifted(math.erf),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "pow": np.power,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": np.round,
    "nearbyint": np.round,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "Mod": np.fmod,
}
DOUBLE_ULPS = {"exp10": 300, "pow": 3000}
"""Where more than 8: what is stated of float64."""


def arity(name):
    return 2 if name in ("pow", "Mod") else 1


def loop(name, dtype, lanes=LANES):
    """A vectorised loop over the function's arguments."""
    arguments = [te.placeholder((COUNT,), dtype, name=f"x{i}") for i in range(arity(name))]
    write = getattr(tirx, name)
    result = te.compute((COUNT,), lambda i: write(*(each[i] for each in arguments)), name="result")
    schedule = Schedule(te.create_prim_func([*arguments, result]).with_attr("global_symbol", name))
    _, inner = schedule.split(schedule.get_loops(schedule.get_sblock("result"))[0], [None, lanes])
    schedule.vectorize(inner)
    return schedule.mod["main"]


def built(dtype, target, names=REFERENCES, lanes=LANES):
    functions = {name: loop(name, dtype, lanes) for name in names}
    spec = tvm.target.Target(CATALOGUE[target].tvm)
    return tvm.tirx.build(tvm.IRModule(functions), target=spec, pipeline=MODEL_PIPELINE)


@pytest.fixture(scope="module", autouse=True)
def avx2():
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")


@pytest.fixture(scope="module")
def single():
    return built("float32", "x86-avx2")


@pytest.fixture(scope="module")
def double():
    return built("float64", "x86-avx2")


def samples(dtype, seed):
    """Every kind of bits, the sizes that models have, and the ends of the range."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    whole = np.dtype(f"uint{info.bits}")
    edges = [0.0, 1.0, info.tiny, info.smallest_subnormal, info.max, np.inf, np.nan]
    parts = [
        rng.integers(0, np.iinfo(whole).max, COUNT // 2, dtype=whole, endpoint=True).view(dtype),
        (rng.normal(size=COUNT // 4) * 3).astype(dtype),
        rng.uniform(-120, 120, COUNT // 4 - 2 * len(edges)).astype(dtype),
        np.array(edges, dtype),
        -np.array(edges, dtype),
    ]
    values = np.concatenate(parts)
    return np.where(np.isnan(values), np.array(np.nan, dtype), values)  # no signalling ones


def arguments(name, dtype):
    """As many arrays of samples as the function takes; of two, the second is now and then whole or alike."""
    rng = np.random.default_rng()
    first = samples(dtype, rng.integers(1 << 30))
    if arity(name) == 1:
        return [first]
    second = rng.permutation(samples(dtype, rng.integers(1 << 30)))
    second[: COUNT // 4] = rng.integers(-9, 10, COUNT // 4)
    return [np.where(rng.random(COUNT) < 0.01, 1, rng.permutation(first)).astype(dtype), second]


def units(got, want):
    """Errors in units in the last place of ``got``'s type; infinite where one is NaN or infinite alone."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), info.tiny)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / unit
    same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
    error = np.where(same & ~np.isfinite(error), 0, error)
    return np.where(np.isnan(error), np.inf, error)


def run(library, name, *inputs):
    out = guarded(np.zeros_like(inputs[0]))
    library[name](*(tvm.runtime.from_dlpack(each) for each in (*map(guarded, inputs), out)))
    return out


@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_right_to_two_units_in_the_last_place(single, name):
    given = arguments(name, np.float32)
    got = run(single, name, *given)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](*(each.astype(np.float64) for each in given))
    error = units(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= 2, ([each[worst] for each in given], got[worst], want[worst])
    zero = (got == 0) & (np.abs(want) < np.finfo(np.float32).smallest_subnormal)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("name", REFERENCES)
def test_float64_is_right_to_what_is_stated(double, name):
    given = arguments(name, np.float64)
    if name in ("sin", "cos", "tan"):
        given = [np.fmod(given[0], 1e6)]
    got = run(double, name, *given)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](*given)
    error = units(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= DOUBLE_ULPS.get(name, 8), (
        [each[worst] for each in given],
        got[worst],
        want[worst],
    )


@pytest.mark.parametrize("target", ["x86-avx2", "rpi4", "rpi4-32", "power10", "riscv-k1"])
def test_loops_are_vectors_and_call_nothing(target):
    assembly = built("float32", target).inspect_source("asm")
    called = set(re.findall(r"\b(?:call|callq|bl|blx|jmp)\s+(\w+)", assembly))
    assert called & {f"{name}{end}" for name in REFERENCES for end in ("", "f")} == set()
    assert not [name for name in called if name.startswith("tilefleet_")]


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float32", 8), ("float64", 8)])
def test_avx512_scales_by_one_instruction(dtype, lanes):
    names = ("exp", "exp2", "exp10", "sigmoid")
    library = built(dtype, "x86-avx512", names, lanes)
    assert "vscalef" in library.inspect_source("asm")
    if "avx512vl" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX-512 to run what it builds")
    for name in names:
        given = arguments(name, np.dtype(dtype).type)
        with np.errstate(all="ignore"):
            want = REFERENCES[name](*(each.astype(np.float64) for each in given))
        error = units(run(library, name, *given), want)
        assert error.max() <= (2 if dtype == "float32" else DOUBLE_ULPS.get(name, 8))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_and_roots_without_instructions_for_them(monkeypatch, dtype):
    """As on Hexagon."""
    monkeypatch.setattr(called, "isa_of", lambda _: HEXAGON)
    library = built(dtype, "x86-avx2")
    for name in ("sqrt", "rsqrt", "round", "nearbyint", "floor", "ceil", "trunc", "asin"):
        given = arguments(name, np.dtype(dtype).type)
        got = run(library, name, *given)
        with np.errstate(all="ignore"):
            want = REFERENCES[name](*(each.astype(np.float64) for each in given))
        error = units(got, want)
        worst = int(np.argmax(error))
        assert error[worst] <= (3 if name in ("sqrt", "rsqrt", "asin") else 0), (
            name,
            given[0][worst],
            got[worst],
        )
        assert np.array_equal(np.signbit(got), np.signbit(want.astype(dtype))) or name in (
            "sqrt",
            "rsqrt",
            "asin",
        )
