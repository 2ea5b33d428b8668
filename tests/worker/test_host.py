import dataclasses
import json
import re

import numpy as np
import pytest
import tvm

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.reference import max_error, random_inputs, reference
from kernels.target import CATALOGUE, from_json, to_json
from kernels.workload.base import Conv2d, Gemm
from kernels.workload.qconv2d import QConv2d
from worker.measure.host import cache_bytes, clock_hz, host_target


@pytest.mark.parametrize("workload", [Gemm(37, 50, 64), Conv2d(1, 16, 14, 14, 32, 3, 3)], ids=str)
def test_code_for_the_host_runs_here_and_is_right(workload):
    target = host_target()
    config = registry.recommendations(workload, target)[0]
    kernel = registry.kernel(config.kernel)
    inputs = random_inputs(workload, np.random.default_rng())
    packed = [inputs[0], kernel.pack(workload, config, target, inputs[1])]
    out = np.full(workload.out_shape, np.nan, np.float32)
    tensors = [tvm.runtime.tensor(array) for array in (*packed, out)]
    compile_module(kernel.build(workload, config, target, 1, "main"), target)["main"](*tensors)
    assert max_error(tensors[-1].numpy(), reference(workload, inputs)) < kernel.tolerance


@pytest.mark.skipif(not host_target().has("avx512vnni"), reason="this machine has no VNNI of 512 bits")
def test_int8_for_the_host_uses_vnni():
    target, conv = host_target(), QConv2d(1, 64, 14, 14, 64, 1, 1)
    config = registry.recommendations(conv, target)[0]
    module = compile_module(registry.kernel(config.kernel).build(conv, config, target, 1, "main"), target)
    assert re.search(r"vpdpbusd\s.*%zmm", module.inspect_source("asm"))


def test_records_of_a_host_without_features_keep_their_key():
    old = dataclasses.replace(CATALOGUE["x86-avx512"], name="host")
    assert from_json(json.loads(json.dumps(to_json(old)))).key == "8bdf365267236260"
    assert dataclasses.replace(old, features=("+avx512vnni",)).key != old.key


def test_caches_are_read_from_sysfs_and_guessed_where_it_is_silent(tmp_path):
    caches = [("Data", 1, "48K"), ("Instruction", 1, "64K"), ("Unified", 2, "2048K")]
    for number, values in enumerate(caches):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in zip(("type", "level", "size"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    assert cache_bytes(tmp_path) == {1: 48 << 10, 2: 2 << 20, 3: 0}
    assert cache_bytes(tmp_path / "nowhere") == {1: 32 << 10, 2: 256 << 10, 3: 0}


def test_clock_rate_is_sysfs_or_unknown(tmp_path):
    (tmp_path / "khz").write_text("2400000\n")
    assert clock_hz(tmp_path / "khz") == 2_400_000_000
    assert clock_hz(tmp_path / "none") == 0
