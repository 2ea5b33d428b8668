import numpy as np
import pytest
import tvm

from kernels import registry
from kernels.compile import compile_module
from kernels.reference import max_error, random_inputs, reference
from kernels.workload import Conv2d, Gemm
from worker.host import cache_bytes, clock_hz, cpu_flags, host_target, x86_cpu, x86_vectors

LEVEL_2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
V3 = frozenset(LEVEL_2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


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


def test_the_cpu_that_llvm_names_counts_only_with_all_its_features():
    features = {
        "znver4": ["avx512f", "avx2", "sse4.2", "lzcnt", "fast-lzcnt"],
        "haswell": ["avx2", "sse4.2", "lzcnt", "sse3", "64bit-mode", "macrofusion"],
    }
    assert x86_cpu(V3, "haswell", features.__getitem__) == "haswell"
    assert x86_cpu(V3, "znver4", features.__getitem__) == "x86-64-v3"
    assert x86_cpu(V4 - {"sse4_2"}, "znver4", features.__getitem__) == "x86-64"


def test_the_level_is_the_highest_whose_predecessors_hold_too():
    def unknown(_):
        return ["something-new"]

    assert x86_cpu(V4, "next", unknown) == "x86-64-v4"
    assert x86_cpu(V4 - {"avx512vl"}, "next", unknown) == "x86-64-v3"
    assert x86_cpu(V3 - {"fma"}, "next", unknown) == "x86-64-v2"


def test_vectors_follow_the_flags():
    assert x86_vectors(V4) == (512, 32)
    assert x86_vectors(V3) == (256, 16)
    assert x86_vectors(frozenset(["pni"])) == (128, 16)


def test_flags_are_read_from_cpuinfo():
    assert cpu_flags("model name\t: AMD\nflags\t\t: fpu avx2\n\nflags\t: other\n") == {"fpu", "avx2"}
    assert cpu_flags("") == frozenset()


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
