"""The structures of TVM's C interface, written and read by generated code (``tvm/ffi/c_api.h``, DLPack)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import tirx as T

# Fields of a DLTensor and of a TVMFFIAny (``TVMStructFieldKind`` in tvm/tirx/builtin.h).
ADDRESS, DATA, SHAPE, STRIDES, AXES, CODE, BITS, LANES, OFFSET, DEVICE, DEVICE_TYPE = range(11)
TYPE, PADDING, VALUE = 13, 14, 15
CPU = 1
ANY_BYTES = 16
"""A ``TVMFFIAny``; what it says of itself when it is nothing or a pointer to a tensor."""
NONE, TENSOR = 0, 7


def stack(what: str, count: int) -> Any:
    """Room for ``count`` of a structure, until the function returns."""
    return T.Bind(pointer("tirx.tvm_stack_alloca", what, count))


def pointer(operator: str, *arguments: Any) -> Any:
    """What an operator of TIR gives as a pointer."""
    return tirx.call_intrin("handle", operator, *arguments)


def null() -> Any:
    """The null pointer."""
    return tirx.reinterpret("handle", tirx.const(0, "uint64"))


def as_pointer(handle: Any, dtype: str) -> Any:
    """``handle`` as a pointer to elements of ``dtype``."""
    return tirx.reinterpret(tvm.ir.PointerType(tvm.ir.PrimType(dtype)), handle)


def field_of(structures: Any, number: int, where: int, dtype: str = "handle") -> Any:
    """A field of one of an array of structures."""
    return tirx.call_intrin(dtype, "tirx.tvm_struct_get", structures, number, where)


def set_fields(structures: Any, number: int, values: Mapping[int, Any]) -> None:
    """Write fields of one of an array of structures."""
    for where, value in values.items():
        T.evaluate(tirx.call_intrin("int32", "tirx.tvm_struct_set", structures, number, where, value))


def tensor_fields(data: Any, shape: Any, strides: Any, axes: int, dtype: str) -> dict[int, Any]:
    """The fields of a DLTensor on the processor; ``strides`` may be null, which is a dense one."""
    kind = tvm.DataType(dtype)
    return {
        DATA: data,
        SHAPE: shape,
        STRIDES: strides,
        AXES: tirx.const(axes, "int32"),
        CODE: tirx.const(int(kind.type_code), "uint8"),
        BITS: tirx.const(int(kind.bits), "uint8"),
        LANES: tirx.const(1, "uint16"),
        OFFSET: tirx.const(0, "uint64"),
        DEVICE: tirx.const(0, "int32"),
        DEVICE_TYPE: tirx.const(CPU, "int32"),
    }
