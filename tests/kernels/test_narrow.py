"""Products of few rows by weights that stay narrow in memory: odd shapes beside plain numpy."""

import dataclasses
import random
import re

import numpy as np
import pytest
import tvm
from guarded import guarded
from on_targets import AVX2, assembly_of

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.float.narrow.halves import converts
from kernels.float.narrow.kernel import Narrow
from kernels.reference import max_error, random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import Epilogue, NarrowGemm, from_json, to_json
from kernels.workload.narrow_reference import rounded_data
from worker.measure.host import host_target

KERNEL = Narrow()
ROUNDING = 2e-6
ALL = Epilogue(bias=True, residual=True, clamp=(0.0, 1.5))
ODD = [
    NarrowGemm(1, 1, 1, 4, 1),
    NarrowGemm(1, 17, 40, 4, 32),
    NarrowGemm(3, 33, 65, 4, 16, True, epilogue=ALL),
    NarrowGemm(5, 9, 7, 8, 7),
    NarrowGemm(2, 40, 14, 8, 4, True),
    NarrowGemm(13, 50, 96, 4, 32),
    NarrowGemm(1, 17, 40, 4, 32, rounded=True),
    NarrowGemm(3, 33, 65, 4, 16, True, epilogue=ALL, rounded=True),
    NarrowGemm(5, 9, 7, 8, 7, rounded=True),
    NarrowGemm(2, 40, 28, 8, 8, True, rounded=True),
    NarrowGemm(13, 50, 200, 4, 24, rounded=True),
    NarrowGemm(37, 70, 96, 8, 96, rounded=True),
    NarrowGemm(3, 20, 31, 16, epilogue=ALL),
]
WITHOUT_F16C = dataclasses.replace(AVX2, cpu="x86-64", features=("+avx2", "+fma"))


def error_of(gemm, config, target, threads=1):
    inputs = random_inputs(gemm, np.random.default_rng())
    function = KERNEL.build(gemm, config, target, threads, "candidate")
    out = guarded(np.full(gemm.out_shape, np.nan, np.float32))
    arrays = [inputs[0], *KERNEL.constants(gemm, config, target, inputs), *inputs[1 + gemm.constants :]]
    buffers = [*map(guarded, arrays), out]
    compile_module(function, target)["candidate"](*map(tvm.runtime.from_dlpack, buffers))
    return max_error(out, reference(gemm, inputs))


@pytest.mark.parametrize("gemm", ODD, ids=str)
def test_odd_shapes_are_right(gemm):
    assert from_json(to_json(gemm)) == gemm
    assert [kernel.name for kernel in registry.applicable(gemm, AVX2)] == ["narrow"]
    space = KERNEL.space(gemm, AVX2)
    for config in (KERNEL.recommend(gemm, AVX2), space.sample(random.Random(gemm.key))):
        assert error_of(gemm, config, AVX2) < ROUNDING, config
    assert error_of(gemm, KERNEL.recommend(gemm, AVX2, threads=3), AVX2, threads=3) < ROUNDING


def test_rounded_data_meet_quanta_as_bytes():
    """By the instructions of each kind of machine; the sums of integers are the same by all."""
    gemms = [NarrowGemm(3, 40, 200, bits, 40, rounded=True) for bits in (4, 8)]
    for target, instructions in (
        (AVX2, ("vpmaddubsw", None)),
        (dataclasses.replace(AVX2, features=(*AVX2.features, "+avxvnni")), ("vpdpbusd", "vpdpbusd")),
        (dataclasses.replace(CATALOGUE["x86-avx512"], features=("+avx512vnni",)), ("vpdpbusd", "vpdpbusd")),
    ):
        for gemm, instruction in zip(gemms, instructions, strict=True):
            code = assembly_of(KERNEL, gemm, KERNEL.recommend(gemm, target), target)
            assert (instruction or "vfmadd") in code
            assert instruction or not re.search("vpmaddubsw|vpdpbusd", code)
    host = host_target()
    for gemm in gemms:
        assert error_of(gemm, KERNEL.recommend(gemm, host), host) < ROUNDING
        data = np.zeros((2, gemm.k), np.float32)
        assert not rounded_data(gemm, data).any()


def test_float16_without_an_instruction_for_it():
    assert converts(AVX2)
    assert converts(CATALOGUE["rpi4"])
    assert not converts(WITHOUT_F16C)
    gemm = ODD[-1]
    config = KERNEL.recommend(gemm, AVX2)
    assert "vcvtph2ps" in assembly_of(KERNEL, gemm, config, AVX2)
    bare = assembly_of(KERNEL, gemm, config, WITHOUT_F16C)
    assert "vcvtph2ps" not in bare
    assert not re.search(r"call\w*\s+__\w*h2?f", bare)
    assert error_of(gemm, config, WITHOUT_F16C) < ROUNDING


def test_float16_subnormals_and_ends_are_what_they_are():
    gemm = NarrowGemm(1, 16, 1, 16)
    config = KERNEL.recommend(gemm, AVX2)
    weights = np.array([0, 6e-8, -6e-8, 6.1e-5, 65504, -65504, 1, -1] * 2, np.float16).reshape(1, 16)
    for target in (AVX2, WITHOUT_F16C):
        function = compile_module(KERNEL.build(gemm, config, target, 1, "candidate"), target)["candidate"]
        out = guarded(np.full((1, 16), np.nan, np.float32))
        data = guarded(np.ones((1, 1), np.float32))
        packed = KERNEL.pack(gemm, config, target, weights)
        function(*map(tvm.runtime.from_dlpack, (data, guarded(packed), out)))
        assert np.array_equal(out, weights.astype(np.float32))


def test_every_kind_of_machine_has_a_config():
    for target in CATALOGUE.values():
        if not target.triple.startswith("hexagon"):
            for gemm in ODD[1:]:
                assert (
                    "narrow"
                    in KERNEL.build(gemm, KERNEL.recommend(gemm, target), target, 1, "narrow").script()
                )


def test_what_makes_no_sense_is_refused():
    for wrong, words in (
        ({"bits": 16, "block": 4}, "no block"),
        ({"bits": 4, "block": 12}, "multiple of 8"),
        ({"bits": 8, "block": 0}, "multiple of 4"),
        ({"bits": 8, "block": 65}, "multiple of 4"),
    ):
        with pytest.raises(ValueError, match=words):
            NarrowGemm(1, 8, 64, **wrong)
    with pytest.raises(ValueError, match="quanta below 16, got 16"):
        KERNEL.pack(ODD[0], KERNEL.recommend(ODD[0], AVX2), AVX2, np.full((1, 1), 16, np.uint8))
