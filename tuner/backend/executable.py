"""A lowered model as an executable of TVM's virtual machine, made of objects that may be kept from before."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import vm_build
from tvm.runtime import _ffi_api as runtime_api

from kernels.isa.registry import isa_of
from kernels.target import Target
from tuner.backend.entry import lowered_main
from tuner.backend.objects import ObjectCache, compiled
from tuner.backend.sequence import CALLS
from worker.build.toolchain import ZIG

LINK_TIMEOUT_S = 120
STORAGE = "relax.vm.alloc_storage"


def compile_module(module: Any, target: Target) -> Any:
    """The Relax executable of what ``lower_partition`` returned: as ``relax.build`` makes it, but function by
    function.

    ``main`` of a small model is machine code where this machine can run it, and so check it.
    """
    machine = tvm.target.Target(target.tvm)
    with machine:
        module = relax.get_pipeline("default")(module)
    constants = dict((module.attrs or {}).get("const_name_to_constant", {}))
    memory = Memory.of(module)
    builder = relax.ExecBuilder()
    if CALLS in module["main"].attrs and target.isa is isa_of(platform.machine()):
        module = lowered_main(builder, module)
    else:
        module = vm_build._vmcodegen(builder, module, "bytecode")
    functions = {
        variable.name_hint: function
        for variable, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    libraries, compilations = [], {}
    with tempfile.TemporaryDirectory(prefix="tilefleet-objects-") as folder:
        objects = compiled(functions, target, ObjectCache.of_environment())
        for name, content in zip(sorted(functions), objects, strict=True):
            path = Path(folder) / "function.o"
            path.write_bytes(content)
            compilations[name] = Compiled(functions[name], hashlib.sha256(content).hexdigest())
            libraries.append(runtime_api.ModuleLoadStaticLibrary(str(path), [name]))
    linked = vm_build._vmlink(
        builder=builder,
        target=machine,
        tir_mod=None,
        tir_pipeline="default",
        ext_libs=libraries,
        params=constants,
    )
    return ModelExecutable(linked.mod, str(machine), memory, compilations)


@dataclass(frozen=True)
class Compiled:
    """A PrimFunc, and the hash of the object that was made of it."""

    function: Any
    sha256: str


@dataclass(frozen=True)
class Memory:
    """Bytes that a model needs beside its code: constants, and storages between its functions."""

    weights: int
    workspace: int

    @classmethod
    def of(cls, module: Any) -> Memory:
        """Those of a Relax module whose memory is planned; of functions that take turns the largest."""
        weights: dict[Any, int] = {}
        workspace = [0]

        def visit(expression: Any) -> None:
            if isinstance(expression, tvm.ir.GenericConst) and hasattr(expression.value, "numpy"):
                weights[expression] = expression.value.numpy().nbytes
            if isinstance(expression, relax.Call) and expression.op == tvm.ir.Op.get(STORAGE):
                size = expression.args[0]
                # Of what data decide the size of, nothing is known.
                known = isinstance(size, relax.ShapeExpr) and isinstance(size.values[0], tirx.IntImm)
                workspace[-1] += int(size.values[0]) if known else 0

        for function in module.functions.values():
            if isinstance(function, relax.Function):
                workspace.append(0)
                relax.analysis.post_order_visit(function.body, visit)
        return cls(sum(weights.values()), max(workspace))


class ModelExecutable(vm_build.VMExecutable):  # type: ignore[misc]  # TVM is Any to mypy
    """An executable that links its objects when it is exported, or before it runs.

    ``compiled`` are the functions in it by name.
    """

    def __init__(self, mod: Any, machine: str, memory: Memory, compiled: Mapping[str, Compiled]) -> None:
        super().__init__(mod)
        self._machine, self.memory, self.compiled = machine, memory, compiled

    def export_library(self, file_name: Any, *, fcompile: Any = None, **_: Any) -> None:
        """Write it as a shared library, linked by ``fcompile`` where that is given."""
        self.mod.export_library(str(file_name), fcompile=fcompile or link, fpack_imports=self._pack)

    def _pack(self, module: Any, is_system_lib: bool, prefix: str, folder: str) -> str:
        """What is no code, the weights above all, as an object for the same machine."""
        path = str(Path(folder) / "imports.o")
        packed = runtime_api.ModulePackImportsToLLVM(module, is_system_lib, self._machine, prefix)
        packed.write_to_file(path, "o")
        return path


def link(output: str, objects: list[str], options: Any = None, **_: Any) -> None:
    """Link by the ELF linker that comes with zig: no compiler is needed on the machine."""
    command = [str(ZIG), "ld.lld", "-shared", "-Bsymbolic", "-z", "now", "--hash-style=both"]
    command += [*objects, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LINK_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"linking {output} failed: {done.stderr.strip()[-500:]}")
