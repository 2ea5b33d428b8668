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
from kernels.emit.hvx_memory import LINE
from kernels.emit.refusal import TEXTS, Refusal
from kernels.isa.hexagon import HEXAGON
from kernels.target import Target
from tuner.backend.arena import ALIGNMENT
from tuner.clibrary.parallel import Fork, NotShared, captured_by, launch, serial, share, shares_of, unpacking

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
    """One object file. ``workspace`` is how many bytes each function wants to work in, by its name; ``forks``
    are its loops in parallel, which C must start."""

    code: Any
    workspace: Mapping[str, int]
    forks: tuple[Fork, ...]


def calls_tvm(function: Any) -> str | None:
    """What ``function`` calls by TVM's own means, which C does not have; None when nothing."""
    found: list[str] = []

    def called(call: Any) -> None:
        if getattr(call.op, "name", "").rpartition(".")[2] in _CALLS:
            found.append(str(call.args[0].value))

    structural.structural_walk(function.body, (tvm.ir.Call, called))
    return found[0] if found else None


def compile_plain(
    functions: Mapping[str, Any],
    target: Target,
    threads: int,
    symbols: Mapping[str, str],
    unaligned: Collection[str],
    apart: str,
    pipeline: str = MODEL_PIPELINE,
    length: str | None = None,
) -> Unit:
    """Compile PrimFuncs for ``target`` by the passes of ``pipeline``, each under its name in ``symbols``.

    A function takes a pointer for each of its buffers, then one to its workspace, for several ``threads`` one
    more for who runs its loops in parallel, then an int64 if an open size is called ``length`` in them, and
    returns 0, or a refusal's number, from one on. Those in ``unaligned`` get buffers of the user's, which
    are aligned as their elements are. They call ``apart``, a C function without parameters that does nothing
    and is compiled elsewhere. Raises NotPlain.
    """
    llvm = tvm.target.Target(target.tvm)
    passes, _, _ = tirx.compilation_pipeline.get_tir_pipeline(pipeline)
    named = {name: function.with_attr("global_symbol", name) for name, function in functions.items()}
    module = tirx.transform.BindTarget(llvm.with_host(llvm))(tvm.IRModule(named))
    workspace: dict[str, int] = {}
    plain: dict[Any, Any] = {}
    forks: list[Fork] = []
    for variable, function in passes(module).functions_items():
        name = variable.name_hint
        # LLVM may read buffers of one workspace together (kernels/emit/hvx_memory.py).
        unit = LINE if target.isa is HEXAGON else ALIGNMENT
        maker = _Plain(function, symbols[name], threads, name in unaligned, apart, length, unit)
        plain[variable] = maker.function()
        plain |= {tvm.ir.GlobalVar(part): body for part, body in maker.parts.items()}
        workspace[name] = maker.workspace
        forks += maker.forks
    lowered = finalize_host_passes()(tvm.IRModule(plain))
    return Unit(tvm.get_global_func("target.build.llvm")(lowered, llvm), workspace, tuple(forks))


class _Plain:
    """Takes the body of a packed function out of what unpacks its arguments.

    ``workspace`` is what it wants in bytes, ``parts`` are the bodies of its loops in parallel by their names.
    """

    def __init__(
        self,
        packed: Any,
        symbol: str,
        threads: int,
        unaligned: bool,
        apart: str,
        length: str | None,
        unit: int,
    ) -> None:
        self._packed, self._symbol, self._threads, self._unaligned = packed, symbol, threads, unaligned
        self._length, self._unit = length, unit
        self.workspace = 0
        self.parts: dict[str, Any] = {}
        self.forks: list[Fork] = []
        self._taken = 0
        self._base = _bytes_at("workspace")
        self._team = _bytes_at("team")
        self._inside = False
        self._apart, self._loops = apart, 0
        self._refused: str | None = None
        self._aligned: list[Any] = []
        self._texts: list[Any] = []
        # All functions of a library are compiled together, so each has names of its own for its refusals.
        self._texts_of, self._names_of = {}, {}
        for code, needs in enumerate((packed.attrs or {}).get(TEXTS, ()), start=1):
            made, own = Refusal(str(needs)), f"{symbol}_refusal{code}"
            self._names_of[made.symbol], self._texts_of[made.text] = own, made.as_code(own, code)

    def function(self) -> Any:
        """It as a plain function; raises NotPlain."""
        buffers: list[Any] = []
        lengths: list[Any] = []
        scope = None
        for statement in _straight(self._packed.body):
            if isinstance(statement, tirx.DeclBuffer):
                buffers.append(statement.buffer)
            elif isinstance(statement, tirx.Bind) and statement.var.name == self._length:
                lengths.append(statement.var)
            elif isinstance(statement, tirx.AttrStmt):
                if statement.attr_key == _SCOPE:
                    scope = statement
                elif statement.attr_key == _IMPORTED:
                    self._texts.append(statement)
        assert scope is not None
        self._aligned = buffers
        pointers = [tirx.Var(f"p{at}", _pointer(buffer)) for at, buffer in enumerate(buffers)]
        more = [self._base, self._team] if self._threads > 1 else [self._base]
        if self._length is not None:
            more += lengths[:1] or [tirx.Var(self._length, "int64")]
        inner = tirx.AttrStmt(scope.node, _SCOPE, scope.value, self._planned(scope.body))
        declared = [tirx.DeclBuffer(buffer, data=p) for buffer, p in zip(buffers, pointers, strict=True)]
        return self._made(self._symbol, [*pointers, *more], [*declared, inner])

    def _made(self, symbol: str, parameters: list[Any], statements: list[Any]) -> Any:
        body = tirx.SeqStmt([*statements, tirx.Return(tirx.const(0, "int32"))])
        for buffer in self._aligned:
            bytes_ = _bytes(buffer.dtype) if self._unaligned else ALIGNMENT
            body = tirx.AttrStmt(buffer, _ALIGNED, tirx.const(bytes_, "int32"), body)
        for text in self._texts:
            body = tirx.AttrStmt(text.node, _IMPORTED, text.value, body)
        body = tirx.AttrStmt("default", "device_id", tirx.const(0, "int32"), body)
        body = tirx.AttrStmt("default", "device_type", tirx.const(1, "int32"), body)
        made = tirx.PrimFunc(parameters, body, tvm.ir.PrimType("int32"), self._packed.attrs)
        return made.without_attr("calling_conv").with_attr("global_symbol", symbol)

    def _planned(self, body: Any) -> Any:
        """``body`` with its larger buffers in the workspace, those of one scope after each other."""
        callbacks = (
            ((tirx.For, tirx.While, tirx.IfThenElse, tirx.AttrStmt), self._scope),
            (tirx.SeqStmt, self._sequence),
            (tirx.AllocBuffer, self._buffer),
            (tvm.ir.StringImm, self._name),
        )
        planned = structural.structural_mutate(body, callbacks)
        if self._refused:
            raise NotPlain(self._refused)
        return planned

    def _scope(self, statement: Any, mutator: Any) -> Any:
        if isinstance(statement, tirx.For) and statement.kind == _PARALLEL:
            if self._threads > 1:
                try:
                    return self._shared(statement, mutator)
                except NotShared as reason:
                    return self._refuse(statement, str(reason))
            statement = serial(statement)
        if isinstance(statement, tirx.AttrStmt) and statement.attr_key == _IMPORTED:
            text = str(statement.value.value)
            code = tvm.ir.StringImm(self._texts_of.get(text, text))
            statement = tirx.AttrStmt(statement.node, _IMPORTED, code, statement.body)
        taken, inner = self._taken, isinstance(statement, tirx.For | tirx.While)
        self._loops += inner
        result = mutator.default_mutate(statement)
        self._loops -= inner
        self._taken = taken
        return result

    def _sequence(self, statement: Any, mutator: Any) -> Any:
        """A call before and after what uses buffers of the workspace within a loop.

        A module allocates and frees there. Without a call LLVM keeps the constants of all that the loop does
        in vector registers, and has too few for the accumulators of a product in it.
        """
        first = next((at for at, each in enumerate(statement.seq) if _takes_workspace(each)), None)
        if first is not None and self._loops:
            call = tirx.Evaluate(tirx.call_extern("int32", self._apart))
            statement = tirx.SeqStmt([*statement.seq[:first], call, *statement.seq[first:], call])
        return mutator.default_mutate(statement)

    def _name(self, text: Any, _mutator: Any) -> Any:
        own = self._names_of.get(str(text.value))
        return text if own is None else tvm.ir.StringImm(own)

    def _refuse(self, statement: Any, reason: str) -> Any:
        # An exception of ours would come out of TVM as another.
        self._refused = self._refused or reason
        return statement

    def _shared(self, loop: Any, mutator: Any) -> Any:
        """A loop in parallel as the start of its part; each share has a piece of the workspace."""
        shares, step = shares_of(loop, self._threads)
        if self._inside:
            raise NotShared("a loop in parallel within another")
        self._inside = True
        around = self._base, self._taken, self.workspace
        self._base, self._taken, self.workspace = _bytes_at("piece"), 0, 0
        self._loops += 1
        body = mutator.default_mutate(loop).body
        self._loops -= 1
        own, piece = self._base, self.workspace
        self._base, self._taken, self.workspace = around
        self._inside = False
        self.workspace = max(self.workspace, self._taken + shares * piece)

        part = f"{self._symbol}_part{len(self.forks)}"
        fork = Fork(f"{self._symbol}_fork{len(self.forks)}", part, shares)
        self.forks.append(fork)
        number, handed = tirx.Var("number", "int32"), tirx.Var("handed", _pointer_to("int64"))
        work = share(loop, body, number, step)
        captured = [each for each in captured_by(work) if not each.same_as(number) and not each.same_as(own)]
        inside = [each for each in captured if not each.same_as(self._base)]
        at = tirx.call_intrin(
            "handle",
            "tirx.handle_add_byte_offset",
            self._base,
            self._taken + tirx.Cast("int64", number) * piece,
        )
        mine = [tirx.Bind(own, tirx.reinterpret(_pointer_to("uint8"), at))] if piece else []
        everything = [*inside, *([self._base] if piece else [])]
        self.parts[part] = self._made(part, [handed, number], [*unpacking(everything, handed), *mine, work])
        return launch(everything, fork.symbol, self._team)

    def _buffer(self, statement: Any, mutator: Any) -> Any:
        buffer = statement.buffer
        size = _size(buffer)
        if size is None:
            return self._refuse(statement, f"a buffer of a size that is not known: {buffer.name}")
        if not _takes_workspace(statement):
            return statement
        at = tirx.call_intrin("handle", "tirx.handle_add_byte_offset", self._base, self._taken)
        self._taken += -(-size // self._unit) * self._unit
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


def _takes_workspace(statement: Any) -> bool:
    """Whether TVM would allocate it at run time."""
    if not isinstance(statement, tirx.AllocBuffer) or statement.annotations.get(_ON_STACK):
        return False
    size = _size(statement.buffer)
    return size is not None and (statement.buffer.scope() != "global" or size >= STACK_BYTES)


def _size(buffer: Any) -> int | None:
    """Its bytes; None when they are not known."""
    if not all(isinstance(extent, tirx.IntImm) for extent in buffer.shape):
        return None
    return prod(int(extent) for extent in buffer.shape) * _bytes(buffer.dtype)


def _bytes_at(name: str) -> Any:
    return tirx.Var(name, _pointer_to("uint8"))


def _pointer_to(dtype: str) -> Any:
    return tvm.ir.PointerType(tvm.ir.PrimType(dtype))


def _bytes(dtype: Any) -> int:
    kind = tvm.DataType(str(dtype))
    return -(-int(kind.bits) // 8) * int(kind.lanes)


def _pointer(buffer: Any) -> Any:
    return tvm.ir.PointerType(tvm.ir.PrimType(str(buffer.dtype)), buffer.scope())
