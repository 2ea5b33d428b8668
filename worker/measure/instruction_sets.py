"""What a processor can execute, from the flags that Linux shows, in LLVM's words.

LLVM goes by the model number, but a virtual machine may hide features of it or make the number up, and an
older kernel does not show all. So code for LLVM's cpu is generated only where all that code is made of is
among the flags, else for a level of the architecture; what a machine has beyond that level is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

FeaturesOf = Callable[[str], Collection[str]]
"""The features that LLVM counts to a cpu."""
_LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
}
"""x86-64 levels, best first, by the flags that each adds to the one after it."""
_X86_FLAGS = {  # LLVM's name of a feature -> the kernel's, where they differ by more than punctuation.
    "64bit": "lm",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "sahf": "lahf_lm",
    "sha": "sha_ni",
    "sse3": "pni",
}
_UNFLAGGED = {"crc32", "x87", "64bit-mode", "mmx"}
"""What comes with another feature or with the architecture and has no flag of its own."""
_HINTS = """fast- faster- slow- allow- prefer- idiv false-deps- no-bypass- sbb- tagged- tuning use- lea- pad-
    branch macrofusion vzeroupper ermsb fsrm nopl"""
"""How LLVM's advice for tuning begins."""
_SYSTEM = """cldemote clflushopt clwb clzero enqcmd fsgsbase fxsr hreset invpcid kl lwp movdir mwaitx pconfig
    pku prefetchi ptwrite rdpid rdpru rdrnd rdseed serialize shstk tsxldtrk uintr usermsr waitpkg wbnoinvd
    widekl xsave"""
"""How the names of instructions begin that no compiler makes of arithmetic."""
_ARM_FLAGS = {
    "bf16": "bf16",
    "complxnum": "fcma",
    "crc": "crc32",
    "dotprod": "asimddp",
    "fp16fml": "asimdfhm",
    "fullfp16": "asimdhp",
    "i8mm": "i8mm",
    "jsconv": "jscvt",
    "lse": "atomics",
    "rcpc": "lrcpc",
    "rdm": "asimdrdm",
    "sha3": "sha3",
    "sve": "sve",
    "sve2": "sve2",
}
"""LLVM's name of a feature -> the kernel's, of those that compilers use for what is not written for them."""


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """The flags of the first core in the text of /proc/cpuinfo."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    return frozenset(found[1].split() if found else ())


def x86_vectors(flags: frozenset[str]) -> tuple[int, int]:
    """Width in bits and number of the vector registers."""
    if set(_LEVELS["x86-64-v4"].split()) <= flags:
        return 512, 32
    return (256, 16) if "avx" in flags else (128, 16)


def x86_code(
    flags: frozenset[str], cpu: str, cpus: Iterable[str], features_of: FeaturesOf
) -> tuple[str, tuple[str, ...]]:
    """The cpu to generate code for, and the features beyond its x86-64 level; ``cpu`` is LLVM's guess.

    Any of the ``cpus`` may have a feature: LLVM has no other list of them.
    """
    plain = {_plain(flag) for flag in flags}

    def has(feature: str) -> bool:
        return _plain(_X86_FLAGS.get(feature, feature)) in plain

    level = _x86_level(flags)
    known = {name for each in cpus for name in features_of(each) if _makes_code(name)}
    present = {name for name in known if has(name)}
    beyond = tuple(f"+{name}" for name in sorted(present - set(features_of(level))))
    whole = cpu and all(has(name) for name in features_of(cpu) if _makes_code(name))
    return (cpu if whole else level), beyond


def arm_code(flags: frozenset[str], cpu: str, features_of: FeaturesOf) -> tuple[str, tuple[str, ...]]:
    """The same for aarch64, whose lowest level is ``generic``."""
    present = {name for name, flag in _ARM_FLAGS.items() if flag in flags}
    whole = cpu and present >= _ARM_FLAGS.keys() & set(features_of(cpu))
    return (cpu if whole else "generic"), tuple(f"+{name}" for name in sorted(present))


def _x86_level(flags: frozenset[str]) -> str:
    best = "x86-64"
    for level, added in reversed(_LEVELS.items()):
        if not set(added.split()) <= flags:
            break
        best = level
    return best


def _makes_code(feature: str) -> bool:
    """Whether code for computing may contain it; what is unknown counts as if it did."""
    return feature not in _UNFLAGGED and not feature.startswith(tuple(f"{_HINTS} {_SYSTEM}".split()))


def _plain(name: str) -> str:
    """Without punctuation: ``avx512_vnni`` of Linux is ``avx512vnni`` of LLVM."""
    return re.sub(r"[^a-z0-9]", "", name)
