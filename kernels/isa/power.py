"""Power of 64 bits."""

from __future__ import annotations

from kernels.isa.base import Isa

# TVM guesses the same width, and warns at every build.
POWER = Isa("power", ("powerpc64",), lambda _: "VSX", spec=lambda bits: {"vector-width": bits})
