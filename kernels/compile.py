"""From TIR to machine code."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tvm

from kernels.target import Target


def compile_module(func: Any, target: Target) -> Any:
    """Compile one PrimFunc for ``target`` in this process; a ``tvm.runtime.Module``, called by its name."""
    name = func.attrs["global_symbol"]
    return tvm.tirx.build(tvm.IRModule({name: func}), target=tvm.target.Target(target.tvm))


def compile_object(func: Any, target: Target) -> bytes:
    """Compile one PrimFunc for ``target``; an object file that exports ``__tvm_ffi_<its name>``."""
    # TVM writes objects to files only.
    with tempfile.TemporaryDirectory(prefix="tilefleet-object-") as folder:
        path = Path(folder) / "kernel.o"
        compile_module(func, target).write_to_file(str(path), "o")
        return path.read_bytes()
