"""The targets that tests of kernels generate code for, and the code."""

from dataclasses import replace

from kernels.emit.compile import compile_module
from kernels.target import CATALOGUE
from kernels.workload.base import RELU, Epilogue

AVX2, AVX512, RPI4 = (CATALOGUE[name] for name in ("x86-avx2", "x86-avx512", "rpi4"))
# Vectors of other lengths than the machine's: the compiler splits or pads them, the kernel's logic runs.
WIDTHS = [replace(AVX2, vector_bits=bits, vector_registers=32) for bits in (128, 512)]
ALL = Epilogue(bias=True, residual=True, clamp=RELU)


def assembly_of(kernel, workload, config, target):
    """The machine code for ``target``, as text."""
    return compile_module(kernel.build(workload, config, target, 1, "main"), target).inspect_source("asm")
