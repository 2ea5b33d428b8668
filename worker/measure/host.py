"""This machine as a target: the instruction set it really has, its vector registers, its caches."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from worker.measure.instruction_sets import arm_code, cpu_flags, x86_code, x86_vectors

HOST = "host"
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_MAX_KHZ = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_DEFAULT_BYTES = {1: 32 * 1024, 2: 256 * 1024, 3: 0}


def host_target() -> Target:
    """The target of this machine, called ``host``. Imports TVM, which takes seconds."""
    machine = platform.machine()
    triple, sizes = f"{machine}-linux-gnu", cache_bytes(_CACHES)
    flags, features_of = cpu_flags(_CPUINFO.read_text()), partial(llvm_features, triple)
    bits, registers = 128, 32
    cpu, features = "generic", tuple[str, ...]()
    if machine == "x86_64":
        bits, registers = x86_vectors(flags)
        cpu, features = x86_code(flags, _llvm_cpu(), llvm_cpus(triple), features_of)
    elif machine == "aarch64":
        cpu, features = arm_code(flags, _llvm_cpu(), features_of)
    return Target(
        name=HOST,
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bits=bits,
        vector_registers=registers,
        l1_bytes=sizes[1],
        l2_bytes=sizes[2],
        l3_bytes=sizes[3],
        hz=clock_hz(_MAX_KHZ),
    )


def host_target_in_child(_: Any) -> dict[str, Any]:
    """Child: ``host_target`` as JSON, for callers that do not want to import TVM."""
    return targets.to_json(host_target())


def cache_bytes(folder: Path) -> dict[int, int]:
    """Bytes of the data caches by level, as sysfs tells them; usual sizes where it does not."""
    sizes = dict(_DEFAULT_BYTES)
    for index in folder.glob("index*"):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            sizes[int(level)] = int(size[:-1]) * 1024
    return sizes


def clock_hz(file: Path) -> int:
    """The highest clock rate by sysfs; 0 where it does not tell, as on most virtual machines."""
    try:
        return 1000 * int(file.read_text())
    except (OSError, ValueError):
        return 0


def _llvm_cpu() -> str:
    from tvm.target.codegen import llvm_get_system_cpu

    return str(llvm_get_system_cpu())


def llvm_cpus(triple: str) -> list[str]:
    """All that LLVM knows of an architecture."""
    from tvm.target.codegen import llvm_get_cpu_archlist

    return [str(cpu) for cpu in llvm_get_cpu_archlist(_llvm_target(triple, "generic"))]


def llvm_features(triple: str, cpu: str) -> frozenset[str]:
    """The features that LLVM counts to a cpu."""
    from tvm.target.codegen import llvm_get_cpu_features

    return frozenset(str(feature) for feature in llvm_get_cpu_features(_llvm_target(triple, cpu)))


def _llvm_target(triple: str, cpu: str) -> Any:
    import tvm

    return tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
