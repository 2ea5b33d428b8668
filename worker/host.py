"""This machine as a target: the instruction set it really has, its vector registers, its caches."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target

HOST = "host"
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_MAX_KHZ = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
_LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
}
"""x86-64 levels, best first, by the flags that each adds to the one after it."""
_SPELLED = {  # LLVM's name of a feature -> the kernel's, where they differ by more than punctuation.
    "64bit": "lm",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand",
    "sahf": "lahf_lm",
    "sha": "sha_ni",
    "shstk": "user_shstk",
    "sse3": "pni",
}
_UNFLAGGED = {"crc32", "x87", "64bit-mode", "mmx"}
"""What comes with another feature or with the architecture and has no flag of its own."""
_DEFAULT_BYTES = {1: 32 * 1024, 2: 256 * 1024, 3: 0}


def host_target() -> Target:
    """The target of this machine, called ``host``. Imports TVM, which takes seconds."""
    machine = platform.machine()
    triple, sizes = f"{machine}-linux-gnu", cache_bytes(_CACHES)
    if machine == "x86_64":
        flags = cpu_flags(_CPUINFO.read_text())
        bits, registers = x86_vectors(flags)
        cpu = x86_cpu(flags, _llvm_cpu(), _llvm_features)
    else:
        bits, registers, cpu = 128, 32, "generic"
    return Target(
        name=HOST,
        triple=triple,
        cpu=cpu,
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


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The flags of the first core in the text of /proc/cpuinfo."""
    line = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def x86_vectors(flags: frozenset[str]) -> tuple[int, int]:
    """Width in bits and number of the vector registers."""
    if set(_LEVELS["x86-64-v4"].split()) <= flags:
        return 512, 32
    return (256, 16) if "avx" in flags else (128, 16)


def x86_cpu(flags: frozenset[str], cpu: str, features_of: Callable[[str], Iterable[str]]) -> str:
    """The LLVM cpu to generate code for: ``cpu`` only if the machine has all of its features.

    A virtual machine often hides some (AVX-512 above all) while LLVM goes by the model number; then the
    highest x86-64 level that the flags allow.
    """
    required = {name for name in features_of(cpu) if not _is_hint(name)}
    spelled = {_SPELLED.get(name, name.replace(".", "_").replace("-", "_")) for name in required}
    if cpu and spelled <= flags:
        return cpu
    best = "x86-64"
    for level, added in reversed(_LEVELS.items()):
        if not set(added.split()) <= flags:
            break
        best = level
    return best


def _is_hint(name: str) -> bool:
    """Whether LLVM's feature is advice for tuning and no instruction set, which unknown ones count as."""
    words = "fast- slow- allow- prefer- idiv false-deps- no-bypass- sbb- tagged- tuning use-"
    words += " macrofusion branchfusion vzeroupper ermsb nopl"
    return name in _UNFLAGGED or name.startswith(tuple(words.split()))


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


def _llvm_features(cpu: str) -> list[str]:
    import tvm
    from tvm.target.codegen import llvm_get_cpu_features

    target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": cpu})
    return [str(feature) for feature in llvm_get_cpu_features(target)]
