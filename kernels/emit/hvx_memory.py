"""Vectors of Hexagon's HVX touch no line of memory (128 bytes) in which their array has no byte.

Of several loads a known distance apart LLVM makes loads of the whole lines around all of them, and of one
more behind the last. That one has a byte of them where all distances are whole lines, else it may have none.
Of a vector of 64 bytes it makes one of 128.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kernels.emit.tir import SLACK
from kernels.emit.tvm import ir, structural, tirx, tvm
from kernels.emit.types import Expr, Module, PrimFunc
from kernels.emit.vector_math.called import linked
from kernels.isa.hexagon import HEXAGON
from kernels.isa.registry import isa_of

LINE = 128
"""Bytes of a vector, of what a load or store at a whole one touches, and of the slack (``tir.scratch``) of a
workspace in which vectors overlap."""
_HALF = LINE // 2
"""From so many bytes on LLVM takes a vector for one of HVX's."""
_V6, _WORDS, _TRUTHS = "llvm.hexagon.V6", "<32 x i32>", f"<{LINE} x i1>"
_DECLARED = f"""
declare {_WORDS} @{_V6}.valignb.128B({_WORDS}, {_WORDS}, i32)
declare {_WORDS} @{_V6}.vlalignb.128B({_WORDS}, {_WORDS}, i32)
declare {_TRUTHS} @{_V6}.pred.scalar2.128B(i32)
declare {_TRUTHS} @{_V6}.pred.scalar2v2.128B(i32)
declare {_TRUTHS} @{_V6}.pred.and.n.128B({_TRUTHS}, {_TRUTHS})
declare void @{_V6}.vS32b.qpred.ai.128B({_TRUTHS}, ptr, {_WORDS})"""
_ENDS = f"""  %first = ptrtoint ptr %at to i32
  %line = and i32 %first, -{LINE}
  %here = inttoptr i32 %line to ptr
  %last = add i32 %first, {{last}}
  %other = and i32 %last, -{LINE}
  %there = inttoptr i32 %other to ptr
"""
"""The line of a vector's first byte, and that of its last one, which may be the same."""


def keep_inside(module: Module) -> Module:
    """Keep the vectors of functions for Hexagon inside. Loops must be vectorised before."""
    functions = {name: _kept(function) for name, function in module.functions_items()}
    return tvm.IRModule(functions, attrs=module.attrs)


class _Kind(NamedTuple):
    """Integers of a vector: TVM's name, LLVM's, and how many bytes they and each of them have."""

    name: str
    llvm: str
    bytes: int
    each: int


def _kept(function: PrimFunc) -> PrimFunc:
    if isa_of(str(function.attrs["target"].attrs["mtriple"])) is not HEXAGON:
        return function
    texts: dict[str, str] = {}
    analyzer = tvm.sym.analyzer.Analyzer()
    longer: set[Any] = set()

    def bound(statement: Any) -> Any:
        if str(statement.var.ty) in ("int32", "int64"):
            analyzer.bind(statement.var, statement.value)
        return statement

    def allocated(statement: Any) -> Any:
        if SLACK in statement.annotations:
            longer.add(statement.buffer)
        return statement

    def inside(node: Any, kind: _Kind) -> bool:
        """Whether LLVM may read such loads together."""
        return node.source in longer or _is_whole(node.indices[0].base, kind.each, analyzer)

    def load(node: Any) -> Any:
        kind = _kind(node, node.indices)
        if kind is None or (not kind.bytes % LINE and inside(node, kind)):
            return node
        name = f"tilefleet_hvx_load_{kind.name}"
        texts[name] = _half_load(name, kind) if kind.bytes < LINE else _load(name, kind)
        return tirx.call_extern(kind.name, name, _address(node.source, node.indices))

    def store(node: Any) -> Any:
        kind = _kind(node.value, node.indices)
        if kind is None or kind.bytes >= LINE:
            return node
        name = f"tilefleet_hvx_store_{kind.name}"
        texts[name] = _half_store(name, kind)
        return tirx.Evaluate(tirx.call_extern("void", name, _address(node.buffer, node.indices), node.value))

    structural.structural_map(function.body, ((tirx.Bind, bound), (tirx.AllocBuffer, allocated)))
    body = structural.structural_map(function.body, ((ir.TensorLoad, load), (tirx.BufferStore, store)))
    return linked(function.with_body(body), {"": _DECLARED, **texts} if texts else {})


def _kind(value: Expr, indices: Any) -> _Kind | None:
    """That of a ``value`` at ``indices``; None where LLVM takes it for none of HVX's."""
    kind, text = value.ty.dtype, str(value.ty.dtype)
    neighbours = len(indices) == 1 and isinstance(indices[0], tirx.Ramp) and int(indices[0].stride) == 1
    if not neighbours or not text.startswith(("int", "uint")):
        return None
    each = int(kind.bits) // 8
    size = each * int(kind.lanes)
    return _Kind(text, f"<{kind.lanes} x i{kind.bits}>", size, each) if size >= _HALF else None


def _is_whole(start: Expr, each: int, analyzer: Any) -> bool:
    """Whether elements of so many bytes from ``start`` on are whole lines away from their array's start."""
    known = analyzer.modular_set(start * each)
    return int(known.coeff) % LINE == 0 == int(known.base) % LINE


def _address(buffer: Any, indices: Any) -> Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, [indices[0].base]))


def _load(name: str, kind: _Kind) -> str:
    """At any byte: what is volatile LLVM reads alone."""
    return f"""define linkonce_odr {kind.llvm} @{name}(ptr %at) alwaysinline {{
  %value = load volatile {kind.llvm}, ptr %at, align 1
  ret {kind.llvm} %value
}}"""


def _half_load(name: str, kind: _Kind) -> str:
    places = ", ".join(f"i32 {at}" for at in range(kind.bytes))
    return f"""define linkonce_odr {kind.llvm} @{name}(ptr %at) alwaysinline {{
{_ENDS.format(last=kind.bytes - 1)}  %one = load {_WORDS}, ptr %here, align {LINE}
  %two = load {_WORDS}, ptr %there, align {LINE}
  %words = call {_WORDS} @{_V6}.valignb.128B({_WORDS} %two, {_WORDS} %one, i32 %first)
  %bytes = bitcast {_WORDS} %words to <{LINE} x i8>
  %part = shufflevector <{LINE} x i8> %bytes, <{LINE} x i8> poison, <{kind.bytes} x i32> <{places}>
  %value = bitcast <{kind.bytes} x i8> %part to {kind.llvm}
  ret {kind.llvm} %value
}}"""


def _half_store(name: str, kind: _Kind) -> str:
    """By truths, one a byte, from the first to the last in the first's line, and to the last in the other."""
    places = ", ".join(f"i32 {min(at, kind.bytes)}" for at in range(LINE))
    part = f"<{kind.bytes} x i8>"
    return f"""define linkonce_odr void @{name}(ptr %at, {kind.llvm} %value) alwaysinline {{
{_ENDS.format(last=kind.bytes - 1)}  %part = bitcast {kind.llvm} %value to {part}
  %bytes = shufflevector {part} %part, {part} zeroinitializer, <{LINE} x i32> <{places}>
  %words = bitcast <{LINE} x i8> %bytes to {_WORDS}
  %turned = call {_WORDS} @{_V6}.vlalignb.128B({_WORDS} %words, {_WORDS} %words, i32 %first)
  %end = add i32 %last, 1
  %two = icmp ne i32 %line, %other
  %until = select i1 %two, i32 0, i32 %end
  %from = select i1 %two, i32 0, i32 %first
  %before = call {_TRUTHS} @{_V6}.pred.scalar2.128B(i32 %first)
  %upto = call {_TRUTHS} @{_V6}.pred.scalar2v2.128B(i32 %until)
  %mask = call {_TRUTHS} @{_V6}.pred.and.n.128B({_TRUTHS} %upto, {_TRUTHS} %before)
  call void @{_V6}.vS32b.qpred.ai.128B({_TRUTHS} %mask, ptr %here, {_WORDS} %turned)
  %none = call {_TRUTHS} @{_V6}.pred.scalar2.128B(i32 %from)
  %rest = call {_TRUTHS} @{_V6}.pred.scalar2v2.128B(i32 %end)
  %more = call {_TRUTHS} @{_V6}.pred.and.n.128B({_TRUTHS} %rest, {_TRUTHS} %none)
  call void @{_V6}.vS32b.qpred.ai.128B({_TRUTHS} %more, ptr %there, {_WORDS} %turned)
  ret void
}}"""
