"""Real machines by the flags that /proc/cpuinfo shows there, and what code is generated for them."""

from functools import partial
from pathlib import Path

import pytest

from kernels.target import Target
from worker.measure.host import llvm_cpus, llvm_features
from worker.measure.instruction_sets import arm_code, cpu_flags, x86_code, x86_vectors

X86, ARM = "x86_64-linux-gnu", "aarch64-linux-gnu"
MACHINES = {
    text.partition("\n")[0]: cpu_flags(text)
    for text in (Path(__file__).parent / "cpuinfo.txt").read_text().strip().split("\n\n")
}
"""The name of LLVM's cpu with that of the product, and the flags."""
NAMES = {
    "haswell": "AVX2",
    "skylake-avx512": "AVX-512",
    "cascadelake": "AVX-512, VNNI",
    "icelake-server": "AVX-512, VNNI",
    "sapphirerapids": "AVX-512, VNNI, BF16, FP16, AMX",
    "alderlake": "AVX2, VNNI",
    "znver2": "AVX2",
    "znver3": "AVX2",
    "znver4": "AVX-512, VNNI, BF16",
    "znver5": "AVX-512, VNNI, BF16",
    "cortex-a72": "NEON",
    "neoverse-n1": "NEON, FP16, DotProd",
    "neoverse-v1": "NEON, SVE, BF16, FP16, DotProd, I8MM",
    "apple-m1": "NEON, FP16, DotProd",
}
LEVEL_2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
V3 = frozenset(LEVEL_2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def target(flags: frozenset[str], cpu: str) -> Target:
    """What the machine is where LLVM takes it for a ``cpu``."""
    if "asimd" in flags:
        code = arm_code(flags, cpu, partial(llvm_features, ARM))
        return Target("host", ARM, *code, vector_registers=32)
    code = x86_code(flags, cpu, llvm_cpus(X86), partial(llvm_features, X86))
    return Target("host", X86, *code, *x86_vectors(flags))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_real_machine_is_what_llvm_calls_it_with_all_it_has(machine):
    cpu = machine.partition(" ")[0]
    found = target(MACHINES[machine], cpu)
    assert found.cpu == cpu
    assert found.instruction_sets == NAMES[cpu].split(", ")


def test_machines_of_different_features_have_different_keys():
    kinds = {machine.partition(" ")[0]: flags for machine, flags in MACHINES.items()}
    assert len({target(flags, "").key for flags in kinds.values()}) == len(NAMES)


@pytest.mark.parametrize(
    ("machine", "hidden", "taken_for", "cpu", "has"),
    [
        # A hypervisor that calls a Sapphire Rapids model 167, which has no AMX.
        ("sapphirerapids (Xeon Platinum 8480+)", {"vaes"}, "rocketlake", "x86-64-v4", "avx512vnni amx-int8"),
        ("cascadelake (Xeon Platinum 8260M)", {"adx"}, "cascadelake", "x86-64-v4", "avx512vnni"),
        ("alderlake (Core i9-12900HX)", {"gfni"}, "alderlake", "x86-64-v3", "avxvnni"),
        ("znver4 (EPYC 9654)", {"avx512f"}, "znver4", "x86-64-v3", "gfni"),
        # What a compiler never uses may be hidden.
        ("znver4 (EPYC 9654)", {"pku", "wbnoinvd", "clwb"}, "znver4", "znver4", "avx512vnni"),
        ("neoverse-v1 (Graviton 3)", {"sve"}, "neoverse-v1", "generic", "dotprod i8mm"),
    ],
)
def test_where_features_are_hidden_the_rest_is_named(machine, hidden, taken_for, cpu, has):
    found = target(MACHINES[machine] - hidden, taken_for)
    assert found.cpu == cpu
    assert {f"+{name}" for name in has.split()} <= set(found.features)
    assert not {f"+{name}" for name in hidden} & set(found.features)


def test_the_level_is_the_highest_whose_predecessors_hold_too():
    assert target(V4, "").cpu == "x86-64-v4"
    assert target(V4 - {"avx512vl"}, "").cpu == "x86-64-v3"
    assert target(V3 - {"fma"}, "").cpu == "x86-64-v2"
    assert target(V4 - {"sse4_2"}, "znver4").cpu == "x86-64"


def test_a_feature_that_nobody_knows_is_needed():
    features = {"x86-64-v3": {"avx2"}, "next": {"avx2", "something-new"}}
    assert x86_code(V3, "next", features, features.__getitem__) == ("x86-64-v3", ())


def test_vectors_follow_the_flags():
    assert x86_vectors(V4) == (512, 32)
    assert x86_vectors(V3) == (256, 16)
    assert x86_vectors(frozenset(["pni"])) == (128, 16)


def test_flags_are_read_from_cpuinfo():
    assert cpu_flags("model name\t: AMD\nflags\t\t: fpu avx2\n\nflags\t: other\n") == {"fpu", "avx2"}
    assert cpu_flags("vmx flags\t: ept\nFeatures\t: asimd\n") == {"asimd"}
    assert cpu_flags("") == frozenset()
