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
from kernels.target import CATALOGUE

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
}
DOUBLE_ULPS = {"exp10": 300}
"""Where more than 8: what is stated of float64."""


def loop(name, dtype):
    """A vectorised loop over the function's arguments."""
    arity = REFERENCES[name].__code__.co_argcount if name in ("pow", "atan2") else 1
    arguments = [te.placeholder((COUNT,), dtype, name=f"x{i}") for i in range(arity)]
    write = getattr(tirx, name)
    result = te.compute((COUNT,), lambda i: write(*(each[i] for each in arguments)), name="result")
    schedule = Schedule(te.create_prim_func([*arguments, result]).with_attr("global_symbol", name))
    _, inner = schedule.split(schedule.get_loops(schedule.get_sblock("result"))[0], [None, LANES])
    schedule.vectorize(inner)
    return schedule.mod["main"]


def built(dtype, target):
    functions = {name: loop(name, dtype) for name in REFERENCES}
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
    return np.concatenate(parts)


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
    x = samples(np.float32, np.random.randint(1 << 30))
    got = run(single, name, x)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64))
    error = units(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= 2, (x[worst], got[worst], want[worst])
    zero = (got == 0) & (np.abs(want) < np.finfo(np.float32).smallest_subnormal)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("name", REFERENCES)
def test_float64_is_right_to_what_is_stated(double, name):
    x = samples(np.float64, np.random.randint(1 << 30))
    got = run(double, name, x)
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x)
    error = units(got, want)
    worst = int(np.argmax(error))
    assert error[worst] <= DOUBLE_ULPS.get(name, 8), (x[worst], got[worst], want[worst])


@pytest.mark.parametrize("target", ["x86-avx2", "rpi4", "rpi4-32", "power10", "riscv-k1"])
def test_loops_are_vectors_and_call_nothing(target):
    assembly = built("float32", target).inspect_source("asm")
    called = set(re.findall(r"\b(?:call|callq|bl|blx|jmp)\s+(\w+)", assembly))
    assert called & {f"{name}{end}" for name in REFERENCES for end in ("", "f")} == set()
    assert not [name for name in called if name.startswith("tilefleet_")]
