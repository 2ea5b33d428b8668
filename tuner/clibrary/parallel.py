"""Loops in parallel made functions of their own, each call of which does one share of the iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

SLOT = "int64"
"""What a pointer or a number is handed over as, whatever the machine."""
_SLOT_BITS = 64


class NotShared(Exception):
    """A loop that cannot be shared; the message says why."""


@dataclass(frozen=True)
class Fork:
    """``symbol``, which C defines, calls ``part`` with each number below ``shares``, in any order."""

    symbol: str
    part: str
    shares: int


def serial(loop: Any) -> Any:
    """``loop`` by one thread."""
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)


def shares_of(loop: Any, threads: int) -> tuple[int, int]:
    """How many shares a loop has, and the iterations of each but the last; TVM's runtime splits it so too.

    Raises NotShared.
    """
    if not isinstance(loop.extent, tirx.IntImm):
        raise NotShared("a loop in parallel of a length that is not known")
    extent = int(loop.extent)
    step = -(-extent // threads)
    return -(-extent // step), step


def captured_by(loop: Any) -> list[Any]:
    """What the body of ``loop`` uses of what is around it: buffers, pointers, numbers. Raises NotShared."""
    found = list(tirx.analysis.undefined_vars(loop))
    for variable in found:
        if not is_buffer_var(variable) and not _is_pointer(variable.ty) and _type(variable).lanes != 1:
            raise NotShared(f"a loop in parallel that needs a vector of what is around it: {variable.name}")
    return found


def launch(captured: list[Any], symbol: str, team: Any) -> Any:
    """What stands where the loop stood: hands over what is ``captured``, and calls ``symbol``."""
    slots = tirx.decl_buffer((max(1, len(captured)),), SLOT, scope="local", name="captured")
    on_stack = {"disable_lower_builtin": tirx.const(True, "bool")}
    stores = [tirx.BufferStore(slots, _packed(variable), [index]) for index, variable in enumerate(captured)]
    call = tirx.call_extern("int32", symbol, tirx.address_of(slots[0]), team)
    return tirx.SeqStmt([tirx.AllocBuffer(slots, annotations=on_stack), *stores, tirx.Evaluate(call)])


def unpacking(captured: list[Any], pointer: Any) -> list[Any]:
    """Statements that define what is ``captured``, from where ``pointer`` says."""
    slots = tirx.decl_buffer((max(1, len(captured)),), SLOT, name="handed")
    statements = [tirx.DeclBuffer(slots, data=pointer)]
    for index, variable in enumerate(captured):
        if is_buffer_var(variable):
            where = tvm.ir.PointerType(variable.ty.dtype, variable.ty.storage_scope)
            statements.append(tirx.DeclBuffer(variable, data=tirx.reinterpret(where, slots[index])))
        else:
            statements.append(tirx.Bind(variable, _unpacked(variable, slots[index])))
    return statements


def share(loop: Any, body: Any, number: Any, step: int) -> Any:
    """The iterations of share ``number``, one after the other."""
    dtype, extent = loop.loop_var.ty.dtype, int(loop.extent)
    first = tirx.Cast(dtype, number) * step
    # Where all shares are equal, the length is a constant, which the compiler makes use of.
    length = (
        tirx.const(step, dtype) if extent % step == 0 else tirx.min(tirx.const(step, dtype), extent - first)
    )
    within = tirx.Var("within", dtype)
    begins = tirx.Bind(loop.loop_var, loop.min + first + within)
    return tirx.For(within, tirx.const(0, dtype), length, tirx.ForKind.SERIAL, tirx.SeqStmt([begins, body]))


def _packed(variable: Any) -> Any:
    if is_buffer_var(variable):
        return tirx.reinterpret(SLOT, variable.data)
    if _is_pointer(variable.ty):
        return tirx.reinterpret(SLOT, variable)
    dtype = _type(variable)
    if str(dtype).startswith(("float", "bfloat")):
        return tirx.Cast(SLOT, tirx.reinterpret(f"int{dtype.bits}", variable))
    return tirx.Cast(SLOT, variable)


def _unpacked(variable: Any, slot: Any) -> Any:
    if _is_pointer(variable.ty):
        return tirx.reinterpret(variable.ty, slot)
    dtype = _type(variable)
    if str(dtype).startswith(("float", "bfloat")):
        return tirx.reinterpret(str(dtype), tirx.Cast(f"int{dtype.bits}", slot))
    return tirx.Cast(str(dtype), slot)


def _is_pointer(kind: Any) -> bool:
    return isinstance(kind, tvm.ir.PointerType)


def _type(variable: Any) -> Any:
    return tvm.DataType(str(variable.ty.dtype if hasattr(variable.ty, "dtype") else variable.ty))
