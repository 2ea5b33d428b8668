"""Which x86 processors run code of a target, as C asks the processor: bits of cpuid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm.target.codegen import llvm_get_cpu_features

from kernels.target import Target

# Intel SDM, volume 2A, CPUID. What is left out is in no code that is made of arithmetic (AES, SHA), or came
# with one of these (LZCNT with BMI).
_BITS = {
    "leaf1_ecx": {
        "sse3": 0,
        "ssse3": 9,
        "fma": 12,
        "sse4.1": 19,
        "sse4.2": 20,
        "movbe": 22,
        "popcnt": 23,
        "avx": 28,
        "f16c": 29,
    },
    "leaf7_ebx": {
        "bmi": 3,
        "avx2": 5,
        "bmi2": 8,
        "avx512f": 16,
        "avx512dq": 17,
        "avx512ifma": 21,
        "avx512cd": 28,
        "avx512bw": 30,
        "avx512vl": 31,
    },
    "leaf7_ecx": {
        "avx512vbmi": 1,
        "avx512vbmi2": 6,
        "gfni": 8,
        "avx512vnni": 11,
        "avx512bitalg": 12,
        "avx512vpopcntdq": 14,
    },
    "leaf7_edx": {"avx512fp16": 23},
    "leaf71_eax": {"avxvnni": 4, "avx512bf16": 5},
}
_OSXSAVE = 1 << 27
_YMM, _ZMM = 0x6, 0xE6


@dataclass(frozen=True)
class Needs:
    """Bits that must be set: of cpuid's registers by leaf, and of what the system keeps (XCR0)."""

    registers: dict[str, int]
    kept: int

    def c(self) -> str:
        """The initializer of a C struct that has the registers in order, then XCR0."""
        return "{" + ", ".join(f"0x{value:x}u" for value in (*self.registers.values(), self.kept)) + "}"


def needs_of(target: Target) -> Needs | None:
    """What a processor needs for code of ``target``; None where C has no way to ask."""
    if not target.triple.startswith("x86_64"):
        return None
    with tvm.target.Target(target.tvm):
        features = {str(each) for each in llvm_get_cpu_features()}
    registers = {
        register: sum(1 << bit for feature, bit in bits.items() if feature in features)
        for register, bits in _BITS.items()
    }
    if "avx" in features:
        registers["leaf1_ecx"] |= _OSXSAVE
    kept = _ZMM if "avx512f" in features else _YMM if "avx" in features else 0
    return Needs(registers, kept)


def check(needs: Sequence[Needs]) -> str:
    """C: ``this_cpu``, and whether it ``has`` what code needs; asks no more than one of ``needs`` wants.

    On a virtual machine each question is an exit to the host, of some ten microseconds.
    """
    seldom = any(need.registers["leaf71_eax"] for need in needs)
    return _CHECK.replace("@LEAF71@\n", _LEAF71 if seldom else "")


_LEAF71 = """\
  if (words[0] == 0) return cpu;
  cpuid(7, 1, words);
  cpu.leaf71_eax = words[0];
"""
_CHECK = """\
typedef struct {
  uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf71_eax, kept;
} Cpu;

static void cpuid(uint32_t leaf, uint32_t part, uint32_t words[4]) {
  __asm__ volatile("cpuid"
                   : "=a"(words[0]), "=b"(words[1]), "=c"(words[2]), "=d"(words[3])
                   : "a"(leaf), "c"(part));
}

static Cpu this_cpu(void) {
  Cpu cpu = {0, 0, 0, 0, 0, 0};
  uint32_t words[4], high;
  cpuid(1, 0, words);
  cpu.leaf1_ecx = words[2];
  /* Who has AVX has leaf 7. */
  if ((cpu.leaf1_ecx & 0x18000000u) != 0x18000000u) return cpu;
  __asm__ volatile("xgetbv" : "=a"(cpu.kept), "=d"(high) : "c"(0));
  cpuid(7, 0, words);
  cpu.leaf7_ebx = words[1], cpu.leaf7_ecx = words[2], cpu.leaf7_edx = words[3];
@LEAF71@
  return cpu;
}

static int has(const Cpu *cpu, const Cpu *need) {
  uint32_t missing = need->leaf1_ecx & ~cpu->leaf1_ecx;
  missing |= need->leaf7_ebx & ~cpu->leaf7_ebx;
  missing |= need->leaf7_ecx & ~cpu->leaf7_ecx;
  missing |= need->leaf7_edx & ~cpu->leaf7_edx;
  missing |= need->leaf71_eax & ~cpu->leaf71_eax;
  missing |= need->kept & ~cpu->kept;
  return !missing;
}
"""
