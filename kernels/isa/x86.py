"""x86 of 64 bits."""

from __future__ import annotations

from kernels.isa.base import Isa

X86 = Isa("x86", ("x86_64",), lambda bits: {512: "AVX-512", 256: "AVX2"}.get(bits, "SSE"))
