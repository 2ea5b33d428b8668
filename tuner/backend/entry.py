"""``main`` of a small model as machine code, in place of instructions for TVM's virtual machine.

The machine takes a quarter of a microsecond for each output that it allocates. This function allocates all
of them at once and hands out views, which takes a tenth of that. The machine calls it as it calls whatever
TVM compiles for it: with itself, its registers (the arguments, the result, and as many more as it was told),
its constants and its functions. What it reads and makes of these has its layout from ``tvm/ffi/c_api.h``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import vm_build
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm_ffi import Shape, structural

from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.emit.refusal import CALL
from tuner.backend.arena import ALIGNMENT
from tuner.backend.program import Port
from tuner.backend.sequence import CALLS
from tuner.backend.structures import (
    ADDRESS,
    ANY_BYTES,
    CPU,
    DATA,
    PADDING,
    TYPE,
    VALUE,
    as_pointer,
    field_of,
    pointer,
    set_fields,
    stack,
    tensor_fields,
)

ENTRY = "__vmtir__main"
"""What the machine looks for where ``main`` is compiled, among packed functions."""
SYMBOL = "__tvm_ffi_"
PACKED = 1
"""``CallingConv::kCPackedFunc``: a function of ``TVMFFIAny`` as they are, which TVM does not unpack."""
TENSOR_OBJECT, HEADER_BYTES, VALUE_AT = 70, 24, 8
"""What a ``TVMFFIAny`` that owns a tensor says of itself; what is before the DLTensor in its object; where
a ``TVMFFIAny`` has its value."""
NUMBER = (1 << 56) - 1
"""The bits of an argument of the machine that say which it is; the others say that it is a constant."""
BYTE = tvm.DataType("uint8")
ALLOCATE, TENSOR, TUPLE = (f"vm.builtin.{name}" for name in ("alloc_storage", "alloc_tensor", "make_tuple"))
VIEW = "TVMFFITensorCreateUnsafeView"
DONE = tirx.const(0, "int32")


def lowered_main(builder: Any, module: Any) -> Any:
    """``module``, whose ``main`` is one that ``sequenced`` made and TVM's passes prepared, without it: in the
    machine's tables in ``builder`` and with its code as a PrimFunc."""
    function = module["main"]
    several = isinstance(function.ret_ty, relax.TupleType)
    kinds = function.ret_ty.fields if several else [function.ret_ty]
    outputs = [Port("", tuple(map(int, each.shape)), str(each.dtype)) for each in kinds]
    name = str(function.attrs[CALLS])
    left = vm_build._vmcodegen(builder, module, "compiled")
    entry = left.get_global_var(ENTRY)
    constants = _constants_for(left[entry], name)
    left.update_func(entry, _Entry(builder, name, len(function.params), constants, outputs).function(several))
    return left


def _constants_for(code: Any, callee: str) -> list[int]:
    """The numbers of the constants that TVM's own code of ``main`` calls ``callee`` with."""
    found: list[int] = []

    def called(call: Any) -> None:
        if len(call.args) > 2 and getattr(call.args[2], "value", "") == callee:
            gets = [each for each in call.args[3:] if each.args[0].name == "c"]
            found.extend(int(each.args[1]) for each in gets)

    structural.structural_walk(code.body, (tvm.ir.Call, called))
    return found


class _Entry:
    """Writes the function: it hands ``inputs`` arguments to ``callee``, then ``constants``, then outputs."""

    def __init__(
        self, builder: Any, callee: str, inputs: int, constants: Sequence[int], outputs: Sequence[Port]
    ) -> None:
        self._builder, self._callee, self._inputs = builder, callee, inputs
        self._constants, self._outputs = constants, outputs
        # Registers: what is in one when the function ends, the machine frees.
        self._result, self._storage, self._whole = inputs, inputs + 1, inputs + 2
        self._view = inputs + 3

    def function(self, several: bool) -> Any:
        """The PrimFunc; its result is a tuple if there are ``several`` outputs."""
        with IRBuilder() as ir, T.prim_func(s_tir=True):
            T.func_name(ENTRY)
            symbol = {"global_symbol": SYMBOL + ENTRY, "calling_conv": PACKED}
            T.func_attr({**symbol, "tirx.is_scheduled": True, KERNEL_ATTRIBUTE: True})
            T.func_ret(tvm.ir.PrimType("int32"))
            T.arg("self", T.handle())
            given = T.arg("given", T.handle())
            T.arg("count", T.int32())
            T.arg("result", T.handle())
            with (
                T.attr("default", "device_id", DONE),
                T.attr("default", "device_type", tirx.const(CPU, "int32")),
            ):
                self._machine, self._registers, self._pool = (
                    T.Bind(field_of(given, at, VALUE)) for at in range(3)
                )
                outputs = self._views() if several else self._alone()
                self._call(outputs)
                if several:
                    self._set(self._result, TUPLE, *map(self._register, outputs))
                T.Return(DONE)
        return ir.get()

    def _alone(self) -> list[int]:
        """The register of the only output, which is the result."""
        self._allocate(self._result, self._outputs[0], self._outputs[0].bytes)
        return [self._result]

    def _views(self) -> list[int]:
        """The registers of all outputs, which are views of the same bytes."""
        places, size = places_of(self._outputs)
        self._allocate(self._whole, Port("", (size,), "uint8"), size)
        whole = T.Bind(field_of(self._registers, self._whole, VALUE))
        lies = pointer("tirx.handle_add_byte_offset", whole, HEADER_BYTES)
        data = T.Bind(field_of(lies, 0, DATA))
        made = stack("array", len(self._outputs))
        axes = max(1, *(len(each.shape) for each in self._outputs))
        extents = stack("shape", 2 * axes)
        numbers = T.decl_buffer((2 * axes,), "int64", data=as_pointer(extents, "int64"))
        shape, strides = (pointer("tirx.address_of", numbers[start]) for start in (0, axes))
        registers = range(self._view, self._view + len(self._outputs))
        for at, (each, place) in enumerate(zip(self._outputs, places, strict=True)):
            for axis, extent in enumerate(each.shape):
                T.buffer_store(numbers, tirx.const(extent, "int64"), [axis])
                stride = prod(each.shape[axis + 1 :])
                T.buffer_store(numbers, tirx.const(stride, "int64"), [axes + axis])
            there = pointer("tirx.handle_add_byte_offset", data, place)
            set_fields(made, at, tensor_fields(there, shape, strides, len(each.shape), each.dtype))
            # Into the register, which owns it as soon as that says so.
            register = registers[at]
            into = pointer("tirx.handle_add_byte_offset", self._registers, register * ANY_BYTES + VALUE_AT)
            view = tirx.call_extern("int32", VIEW, whole, field_of(made, at, ADDRESS), into)
            with T.Assert(T.Bind(view) == 0, "there is no memory for an output"):
                pass
            kind = {TYPE: tirx.const(TENSOR_OBJECT, "int32"), PADDING: tirx.const(0, "int32")}
            set_fields(self._registers, register, kind)
        return [*registers]

    def _allocate(self, register: int, tensor: Port, size: int) -> None:
        """Put a new tensor of ``size`` bytes into a register."""
        convert = self._builder.convert_constant
        zero, scope = tirx.const(0, "int64"), self._constant(convert("global"))
        room, bytes_ = (self._constant(convert(each)) for each in (Shape((max(1, size),)), BYTE))
        shape, kind = (
            self._constant(convert(each)) for each in (Shape(tensor.shape), tvm.DataType(tensor.dtype))
        )
        self._set(self._storage, ALLOCATE, self._machine, room, zero, bytes_, scope)
        self._set(register, TENSOR, self._register(self._storage), zero, shape, kind)

    def _call(self, outputs: Sequence[int]) -> None:
        """Call the function that computes; it checks the inputs."""
        handed = [
            *((self._registers, at) for at in range(self._inputs)),
            *((self._pool, at) for at in self._constants),
            *((self._registers, at) for at in outputs),
        ]
        anys = stack("tvm_ffi_any", len(handed) + 1)
        for place, (those, at) in enumerate(handed):
            kinds = {TYPE: "int32", PADDING: "int32", VALUE: "handle"}
            set_fields(
                anys, place, {where: field_of(those, at, where, kind) for where, kind in kinds.items()}
            )
        zero = tirx.const(0, "int32")
        set_fields(anys, len(handed), {TYPE: zero, PADDING: zero})
        # TVM hands the error on that such a call left.
        T.evaluate(tirx.call_intrin("int32", CALL, SYMBOL + self._callee, anys, 0, len(handed)))

    def _set(self, register: int, function: str, *arguments: Any) -> None:
        T.evaluate(T.anylist_setitem_call_packed(self._registers, register, function, *arguments))

    def _register(self, at: int) -> Any:
        return T.anylist_getitem(self._registers, at)

    def _constant(self, number: int) -> Any:
        return T.anylist_getitem(self._pool, number & NUMBER)


def places_of(outputs: Sequence[Port]) -> tuple[list[int], int]:
    """Where each output lies in what is allocated for all, and how many bytes that is."""
    places, end = [], 0
    for each in outputs:
        places.append(end)
        end += -(-each.bytes // ALIGNMENT) * ALIGNMENT
    return places, end
