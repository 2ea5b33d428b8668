"""Targets: names, keys, and what TVM makes of the catalogue."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import tvm
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_get_cpu_features

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.space import Config
from kernels.target import CATALOGUE, from_json, to_json
from kernels.targets import x86_features
from kernels.workload.base import Conv2d, Gemm, QConv2d
from worker.measure import plausible


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_tvm_accepts_the_target(name: str) -> None:
    target = CATALOGUE[name]
    assert target.name == name
    assert str(tvm.target.Target(target.tvm).attrs["mcpu"]) == target.cpu
    assert from_json(to_json(target)) == target


def test_key_ignores_the_name_only() -> None:
    target = CATALOGUE["x86-avx2"]
    assert replace(target, name="other").key == target.key
    assert replace(target, l2_bytes=target.l2_bytes * 2).key != target.key
    assert target.lanes() == 8
    assert target.lanes("int8") == 32


def test_records_of_targets_that_did_not_change_keep_their_key() -> None:
    keys = {"x86-avx2": "8bcc2ca45dd9b0fc", "x86-avx512": "8bdf365267236260", "rpi4": "3771e3606f15ec26"}
    assert {name: CATALOGUE[name].key for name in keys} == keys  # as they were before these facts
    old = to_json(CATALOGUE["rpi4"])
    for fact in ("integer_vector_bits", "integer_vector_registers", "matrix", "hz"):
        del old[fact]
    assert from_json(old).key == keys["rpi4"]
    power10 = CATALOGUE["power10"]
    assert replace(power10, matrix="").key != power10.key


def test_a_fact_that_no_machine_has_is_refused_and_with_any_other_all_is_computed() -> None:
    shape = {"data_dtype": "int8", "weight_range": (-127, 127)}
    conv = {"n": 1, "in_c": 8, "in_h": 6, "in_w": 6, "out_c": 8, "kh": 3, "kw": 3}
    workloads = [Gemm(8, 8, 8), Conv2d(**conv), QConv2d(**conv, **shape)]  # type: ignore[arg-type]
    refused = set()
    for name in ("x86-avx2", "hexagon-v68"):
        plain = to_json(CATALOGUE[name])
        facts = [fact for fact, value in plain.items() if isinstance(value, (int, float))]
        for fact, value in ((fact, value) for fact in facts for value in (0, 1e-300, 0.001, 1, 8)):
            if isinstance(value, float) and isinstance(plain[fact], int):
                continue
            try:
                target = from_json({**plain, fact: value})
            except ValueError as error:
                refused.add(re.findall(r"target (\w+):", str(error))[0])
                continue
            for workload in workloads:
                assert plausible.least_s_of(workload, target, 1) > 0
                registry.recommendations(workload, target, any_layout=True)  # of some there are none
    assert refused >= {"vector_registers", "line_bytes", "fmas_per_cycle", "loads_per_cycle"}
    assert refused.isdisjoint({"hz", "l3_bytes", "fast_bytes"})


def test_what_kernels_ask_of_a_target() -> None:
    hexagon, graviton = CATALOGUE["hexagon-v68"], CATALOGUE["graviton3"]
    assert (hexagon.lanes(), hexagon.lanes("int32"), hexagon.lanes("uint8")) == (4, 32, 128)
    assert [graviton.has(name) for name in ("dotprod", "i8mm", "sme")] == [True, True, False]
    assert CATALOGUE["rpi5"].has("dotprod")
    assert not CATALOGUE["rpi4"].has("dotprod")


def test_kernels_for_32_bit_arm_use_no_instruction_that_they_know_of_64_bits_alone() -> None:
    """LLVM ends the process over an instruction that it cannot select."""
    features = ("+neon", "+dotprod", "+i8mm")
    target = replace(
        CATALOGUE["rpi4-32"], cpu="cortex-a710", triple="armv8-linux-gnueabihf", features=features
    )
    assert [target.has(feature[1:]) for feature in features] == [True, False, False]
    shape = {"data_dtype": "int8", "weight_range": (-127, 127)}
    for conv in (QConv2d(1, 6, 6, 32, 32, 1, 1, **shape), QConv2d(1, 6, 6, 32, 32, 3, 3, groups=4, **shape)):
        for kernel in registry.applicable(conv, target):
            module = compile_module(
                kernel.build(conv, kernel.recommend(conv, target), target, 1, "main"), target
            )
            assert "vmlal" in module.inspect_source("asm")


def test_features_are_instruction_sets_of_the_processor() -> None:
    """LLVM takes any word for a feature in silence. HVX is an option that no Hexagon's name implies."""
    processors = {"generic-rv64": "spacemit-x60"}
    for target in (target for target in CATALOGUE.values() if "hexagon" not in target.triple):
        spec = {name: value for name, value in target.tvm.items() if name != "mattr"}
        spec["mcpu"] = processors.get(target.cpu, target.cpu)
        known = llvm_get_cpu_features(tvm.target.Target(spec))
        assert {feature[1:] for feature in target.features} <= {str(name) for name in known}, target.name


@pytest.mark.parametrize("block", ["9x3", "6x4"])
def test_code_for_a_core_with_sve_is_neon_alone(block: str) -> None:
    """The simulated Graviton 3 has no SVE, and no kernel asks for it; LLVM would use it by itself here."""
    target = CATALOGUE["graviton3"]
    conv = Conv2d(1, 32, 14, 14, 32, 3, 3, pad=(1, 1, 1, 1))
    config = Config.of("fconv", block=block, channels=4, order="ws", windows=196)
    module = compile_module(registry.kernel("fconv").build(conv, config, target, 1, "main"), target)
    code = module.inspect_source("asm")
    assert re.search(r"\tfmla\s+v\d", code)
    assert not re.search(r"\b[zp]\d+\b|ptrue|addvl|cntw", code)


def test_no_packet_of_hexagon_loads_what_it_stores() -> None:
    """QEMU does that wrong after a conditional instruction. This config has such packets if LLVM may."""
    target = CATALOGUE["hexagon-v66"]
    conv = QConv2d(1, 7, 7, 160, 160, 3, 3, pad=(1, 1, 1, 1), groups=160, data_zero=9)
    config = Config.of("qdepthwise_hvx", requant="exact", rows=7, tall=2, touch=0, wide=1)
    function = registry.kernel(config.kernel).build(conv, config, target, 1, "main")
    assert "mem_noshuf" not in compile_module(function, target).inspect_source("asm")


def test_machines_that_llvm_does_not_know_are_refused() -> None:
    """TVM ends with the process over such a triple."""
    plain = to_json(CATALOGUE["x86-avx2"])
    for machine in (
        "zzz",
        "x86",
        "X86_64",
        "x86_64zzz",
        "aarch64zzz",
        "armzzz",
        "armhf",
        "power",
        "riscv64gc",
    ):
        with pytest.raises(ValueError, match=f"triple: no code can be generated for '{machine}'"):
            from_json(plain | {"triple": f"{machine}-linux-gnu"})
    known = (
        "x86_64 i686 aarch64 arm64 arm armv7 armv7l armv8 powerpc64le hexagon riscv64 loongarch64 mips64el"
    )
    for machine in known.split():
        target = from_json(plain | {"triple": f"{machine}-linux-gnu", "cpu": "generic"})
        assert llvm_get_cpu_archlist(tvm.target.Target({"kind": "llvm", "mtriple": target.triple}))


def test_vector_instructions_of_x86_are_those_that_llvm_knows() -> None:
    """Of every processor, and with every feature of any of them added or taken away."""
    plain = replace(CATALOGUE["x86-avx2"], cpu="x86-64")
    by_llvm = tvm.get_global_func("target.target_has_feature")
    cpus = [str(cpu) for cpu in llvm_get_cpu_archlist(tvm.target.Target(plain.tvm))]
    targets = [replace(plain, cpu=cpu) for cpu in cpus]
    features = {
        str(feature) for each in targets for feature in llvm_get_cpu_features(tvm.target.Target(each.tvm))
    }
    everything = tuple(f"+{feature}" for feature in x86_features.ASKED)
    for feature in sorted(features):
        targets += [
            replace(plain, features=(f"+{feature}",)),
            replace(plain, features=(*everything, f"-{feature}")),
            replace(plain, features=(f"-{feature}", *everything)),
        ]
    assert len(cpus) > 100
    assert len(features) > 100
    for target in targets:
        for feature in x86_features.ASKED:
            known = x86_features.has(target, feature)
            assert known == bool(by_llvm(feature, tvm.target.Target(target.tvm))), (target, feature)


def test_unknown_fields_are_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        from_json(to_json(CATALOGUE["x86-avx2"]) | {"colour": "red"})
