"""TVM's functions made plain C functions: pointers in, workspace of the caller, nothing imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.compilation_pipeline import finalize_host_passes
from tvm_ffi import structural

from kernels.emit.compile import MODEL_PIPELINE
from kernels.target import Target

ALIGNMENT = 64
"""Of weights, of tensors between functions, and of workspaces, in bytes: what TVM's code counts on."""
STACK_BYTES = 1024
"""Smaller buffers TVM keeps on the stack (``kMaxStackAlloca`` in tvm/runtime/device_api.h)."""
_ON_STACK = "disable_lower_builtin"
_SCOPE, _ALIGNED, _IMPORTED = "compute_scope", "storage_alignment", "pragma_import_llvm"
_PARALLEL = tirx.ForKind.PARALLEL
_CALLS = ("call_packed", "call_cpacked", "tvm_call_packed", "tvm_call_cpacked")


class NotPlain(Exception):
    """A function that needs more than C has; the message says what it needs."""


@dataclass(frozen=True)
class Unit:
    """One object file. ``workspace`` is how many bytes each function wants to work in, by its name."""

    code: Any
    workspace: Mapping[str, int]


def calls_tvm(function: Any) -> str | None:
    """What ``function`` calls by TVM's own means, which C does not have; None when nothing."""
    found: list[str] = []

    def called(call: Any) -> None:
        if getattr(call.op, "name", "").rpartition(".")[2] in _CALLS:
            found.append(str(call.args[0].value))

    structural.structural_walk(function.body, (tvm.ir.Call, called))
    return found[0] if found else None


def compile_plain(
    functions: Mapping[str, Any], target: Target, symbols: Mapping[str, str], unaligned: Collection[str]
) -> Unit:
    """Compile PrimFuncs for ``target``, each under its name in ``symbols``.

    A function takes a pointer for each of its buffers, then one to its workspace, and returns an int that
    says nothing. Those in ``unaligned`` get buffers of the user's, which are aligned as their elements are.
    Raises NotPlain.
    """
    llvm = tvm.target.Target(target.tvm)
    passes, _, _ = tirx.compilation_pipeline.get_tir_pipeline(MODEL_PIPELINE)
    named = {name: function.with_attr("global_symbol", name) for name, function in functions.items()}
    module = tirx.transform.BindTarget(llvm.with_host(llvm))(tvm.IRModule(named))
    workspace: dict[str, int] = {}
    plain: dict[Any, Any] = {}
    for variable, function in passes(module).functions_items():
        name = variable.name_hint
        maker = _Plain(function, name in unaligned)
        plain[variable] = maker.function(symbols[name])
        workspace[name] = maker.workspace
    lowered = finalize_host_passes()(tvm.IRModule(plain))
    return Unit(tvm.get_global_func("target.build.llvm")(lowered, llvm), workspace)


class _Plain:
    """Takes the body of a packed function out of what unpacks its arguments."""

    def __init__(self, packed: Any, unaligned: bool) -> None:
        self._packed, self._unaligned = packed, unaligned
        self.workspace = 0
        self._taken = 0
        self._base = tirx.Var("workspace", tvm.ir.PointerType(tvm.ir.PrimType("uint8")))

    def function(self, symbol: str) -> Any:
        buffers: list[Any] = []
        texts: list[Any] = []
        scope = None
        for statement in _straight(self._packed.body):
            if isinstance(statement, tirx.DeclBuffer):
                buffers.append(statement.buffer)
            elif isinstance(statement, tirx.AttrStmt):
                if statement.attr_key == _SCOPE:
                    scope = statement
                elif statement.attr_key == _IMPORTED:
                    texts.append(statement)
        assert scope is not None
        pointers = [tirx.Var(f"p{at}", _pointer(buffer)) for at, buffer in enumerate(buffers)]
        inner = tirx.AttrStmt(scope.node, _SCOPE, scope.value, self._planned(scope.body))
        body = tirx.SeqStmt(
            [
                *(tirx.DeclBuffer(buffer, data=p) for buffer, p in zip(buffers, pointers, strict=True)),
                inner,
                tirx.Return(tirx.const(0, "int32")),
            ]
        )
        for buffer in buffers:
            bytes_ = _bytes(buffer.dtype) if self._unaligned else ALIGNMENT
            body = tirx.AttrStmt(buffer, _ALIGNED, tirx.const(bytes_, "int32"), body)
        for text in texts:
            body = tirx.AttrStmt(text.node, _IMPORTED, text.value, body)
        body = tirx.AttrStmt("default", "device_id", tirx.const(0, "int32"), body)
        body = tirx.AttrStmt("default", "device_type", tirx.const(1, "int32"), body)
        made = tirx.PrimFunc([*pointers, self._base], body, tvm.ir.PrimType("int32"), self._packed.attrs)
        return made.without_attr("calling_conv").with_attr("global_symbol", symbol)

    def _planned(self, body: Any) -> Any:
        """``body`` with its larger buffers in the workspace, those of one scope after each other."""
        callbacks = (
            ((tirx.For, tirx.While, tirx.IfThenElse, tirx.AttrStmt), self._scope),
            (tirx.AllocBuffer, self._buffer),
        )
        return structural.structural_mutate(body, callbacks)

    def _scope(self, statement: Any, mutator: Any) -> Any:
        if isinstance(statement, tirx.For) and statement.kind == _PARALLEL:
            raise NotPlain("a loop in parallel")
        taken = self._taken
        result = mutator.default_mutate(statement)
        self._taken = taken
        return result

    def _buffer(self, statement: Any, mutator: Any) -> Any:
        buffer = statement.buffer
        if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
            raise NotPlain(f"a buffer of a size that is not known: {buffer.name}")
        size = prod(int(extent) for extent in buffer.shape) * _bytes(buffer.dtype)
        if statement.annotations.get(_ON_STACK) or (buffer.scope() == "global" and size < STACK_BYTES):
            return statement
        at = tirx.call_intrin("handle", "tirx.handle_add_byte_offset", self._base, self._taken)
        self._taken += -(-size // ALIGNMENT) * ALIGNMENT
        self.workspace = max(self.workspace, self._taken)
        return tirx.DeclBuffer(buffer, data=tirx.reinterpret(_pointer(buffer), at))


def _straight(statement: Any) -> Iterator[Any]:
    """The statements before and with the one that computes, in order."""
    yield statement
    if isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _straight(each)
    elif isinstance(statement, tirx.AttrStmt) and statement.attr_key != _SCOPE:
        yield from _straight(statement.body)


def _bytes(dtype: Any) -> int:
    kind = tvm.DataType(str(dtype))
    return -(-int(kind.bits) // 8) * int(kind.lanes)


def _pointer(buffer: Any) -> Any:
    return tvm.ir.PointerType(tvm.ir.PrimType(str(buffer.dtype)), buffer.scope())
