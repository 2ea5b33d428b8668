"""From TIR to machine code."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tvm import s_tir, tirx
from tvm.tirx.compilation_pipeline import (
    finalize_device_passes,
    finalize_host_passes,
    get_tir_pipeline,
)

from kernels.emit import fast_memory
from kernels.emit.differences import keep_differences
from kernels.emit.hvx_memory import keep_inside
from kernels.emit.tvm import tvm
from kernels.emit.types import Module, PrimFunc
from kernels.emit.vector_math.lower import lower as without_libm
from kernels.emit.wraps import keep_wraps
from kernels.target import Target

PIPELINE = "tilefleet"
"""The name under which TVM knows the passes for one kernel."""
MODEL_PIPELINE = "tilefleet_model"
"""The name under which TVM knows the passes for a module of kernels and of functions of TVM's own."""
KERNEL_ATTRIBUTE = "tilefleet.kernel"
"""What marks a kernel among the functions of such a module."""


def compile_module(func: PrimFunc, target: Target) -> Module:
    """Compile one PrimFunc for ``target`` in this process; a ``tvm.runtime.Module``, called by its name."""
    module = tvm.IRModule({func.attrs["global_symbol"]: func})
    return tvm.tirx.build(module, target=tvm.target.Target(target.tvm), pipeline=PIPELINE)


def compile_object(func: PrimFunc, target: Target) -> bytes:
    """Compile one PrimFunc for ``target``; an object file that exports ``__tvm_ffi_<its name>``."""
    # TVM writes objects to files only.
    with tempfile.TemporaryDirectory(prefix="tilefleet-object-") as folder:
        path = Path(folder) / "kernel.o"
        compile_module(func, target).write_to_file(str(path), "o")
        return path.read_bytes()


def _kernel_passes() -> Any:
    """The passes of TVM's default pipeline that explicit TIR needs.

    Leaving out those for schedules, other devices and common subexpressions (LLVM finds these itself) makes
    the same machine code in about half the time. StorageRewrite must stay out: it undoes
    what keeps accumulators off the heap (``tir.registers``).
    """
    return tvm.ir.transform.Sequential(
        [
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LowerOpaqueBlock(),
            tirx.transform.FlattenBuffer(),
            tirx.transform.NarrowDataType(32),
            tirx.transform.VectorizeLoop(True),
            tirx.transform.UnrollLoop(),
            tirx.transform.StmtSimplify(),
            tirx.transform.VerifyMemory(),
            tirx.transform.AnnotateEntryFunc(),
            tirx.transform.SplitHostDevice(),
            tirx.transform.MakePackedAPI(),
        ]
    )


def _host_passes() -> Any:
    """TVM's last passes for code of the host, and ours for what lies in fast memory."""

    def lower(module: Module, _context: Any) -> Module:
        return fast_memory.lower(module)

    return tvm.ir.transform.Sequential(
        [finalize_host_passes(), tvm.transform.module_pass(lower, opt_level=0)]
    )


def _kernel_pipeline() -> Any:
    """The passes of one kernel, which calls nothing of libm either: its time is to be that in a model."""

    def lower(module: Module, _context: Any) -> Module:
        return keep_inside(without_libm(_kernel_passes()(keep_differences(module))))

    passes = tvm.transform.module_pass(lower, opt_level=0)
    return passes, _host_passes, finalize_device_passes


def _model_pipeline() -> Any:
    """Kernels through their own passes, all else through TVM's default ones; nothing calls libm."""
    stock, _, device_passes = get_tir_pipeline("default")

    def lower(module: Module, _context: Any) -> Module:
        kernels: dict[Any, Any] = {}
        others: dict[Any, Any] = {}
        for name, function in keep_differences(module).functions_items():
            is_kernel = function.attrs is not None and KERNEL_ATTRIBUTE in function.attrs
            (kernels if is_kernel else others)[name] = function
        lowered = stock(keep_wraps(tvm.IRModule(others)))
        lowered.update(_kernel_passes()(tvm.IRModule(kernels)))
        return keep_inside(without_libm(lowered))

    return tvm.transform.module_pass(lower, opt_level=0), _host_passes, device_passes


tirx.register_tir_pipeline(PIPELINE, _kernel_pipeline)
tirx.register_tir_pipeline(MODEL_PIPELINE, _model_pipeline)
