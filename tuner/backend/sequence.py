"""The calls of a small model as one: for each TVM's virtual machine takes longer than many kernels.

``main`` becomes one call of a function that calls the others as the machine would, by TVM's own convention
for packed functions, so that these are compiled, kept and checked as they are without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.lower.operators.constants import constant
from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.emit.refusal import Errors
from kernels.emit.tir import scratch
from kernels.open_size import Size
from tuner.backend.arena import Arena, arena_of
from tuner.backend.objects import TRUSTED
from tuner.backend.program import Call, NotStraight, Port, Program, Storage, program_of
from tuner.backend.structures import (
    ADDRESS,
    ANY_BYTES,
    DATA,
    NONE,
    PADDING,
    TENSOR,
    TYPE,
    VALUE,
    as_pointer,
    field_of,
    null,
    pointer,
    set_fields,
    stack,
    tensor_fields,
)

PART = "tilefleet.part_of_loop"
"""Attribute of a function that another calls by its name."""
SEQUENCE = "tilefleet_sequence"
"""What the function is called that calls the others."""
CALLS = "tilefleet.calls"
"""Attribute of a ``main`` that does nothing but call such a function: that one's name."""
MOST_WEIGHT, MOST_ARENA = 4 << 20, 256 << 10
"""Bytes of weights, and of tensors at a time, of models whose run some microseconds matter to."""
LEAST_CALLS, LEAST_ARENA = 2, 1024
"""Less than that many bytes TVM puts on the stack, where nothing is aligned as the functions want it."""
Shape = tuple[Size, ...]
Kind = tuple[Shape, str]
"""Shape and dtype."""


def sequenced(module: Any, name: str = SEQUENCE) -> Any:
    """``module``, as ``lower_partition`` returns it, with one call in ``main``, of a function called
    ``name``; itself where that is no gain.

    That is so of larger models, and of those whose steps are not all calls of functions that are there.
    """
    main = module["main"]
    several = isinstance(main.ret_ty, relax.TupleType)
    names = [f"output{at}" for at in range(len(main.ret_ty.fields) if several else 1)]
    if _weight(main) > MOST_WEIGHT or any(PART in (each.attrs or {}) for each in module.functions.values()):
        return module
    try:
        program = program_of(module, [each.name for each in main.params], names)
    except NotStraight:
        return module
    if program.copies or len(program.calls) < LEAST_CALLS or has_bfloat16(program):
        return module
    sequence = CallSequence(program, name)
    if sequence.arena.bytes > MOST_ARENA:
        return module
    builder = relax.BlockBuilder()
    # The function checks what it gets itself, so for the machine that is anything: two calls fewer for each.
    parameters = [relax.Var(each.name, relax.AnyType()) for each in main.params]
    with builder.function("main", parameters, attrs={"relax.force_pure": True}):
        builder.add_func(sequence.function(), name)
        outputs = [builder.emit(_allocated(each)) for each in program.outputs]
        arguments = [*parameters, *map(constant, program.constants), *outputs]
        builder.emit(relax.Call(relax.ExternFunc(name), arguments, ty_args=[relax.AnyType()]))
        builder.emit_func_output(relax.Tuple(outputs) if several else outputs[0])
    made = builder.finalize()
    made["main"] = made["main"].with_attrs(main.attrs).with_attr(CALLS, name)
    for called, each in program.functions.items():
        made[called] = each.with_attr(TRUSTED, True)
    return made


def _allocated(output: Port) -> Any:
    """A tensor for an output. TVM's passes would have the machine forget it, one call more for each."""
    size, kind = relax.ShapeExpr([max(1, output.bytes)]), "uint8"
    storage = relax.op.memory.alloc_storage(size, 0, "global", kind)
    return relax.op.memory.alloc_tensor(storage, 0, relax.ShapeExpr(output.shape), output.dtype)


def has_bfloat16(program: Program) -> bool:
    """Whether a function takes bfloat16, which TVM's passes make uint16 of in a function that has buffers of
    it: its tensors would be others than the functions expect."""
    kinds = (each.dtype for function in program.functions.values() for each in function.params)
    return any(str(kind).startswith("bfloat") for kind in kinds)


def _weight(function: Any) -> int:
    """Bytes of the constants that a function has, equal ones each time."""
    found: list[int] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, tvm.ir.GenericConst) and hasattr(expression.value, "shape"):
            value = expression.value
            found.append(prod(value.shape) * tvm.DataType(str(value.dtype)).bits // 8)

    relax.analysis.post_order_visit(function, visit)
    return sum(found)


@dataclass
class _Tensors:
    """DLTensors that a sequence makes: where each lies in their array, and where its shape does in theirs."""

    numbers: dict[tuple[Storage, Kind], int] = field(default_factory=dict)
    shapes: dict[Shape, int] = field(default_factory=dict)
    extents: int = 0

    def add(self, storage: Storage, kind: Kind) -> None:
        self.numbers.setdefault((storage, kind), len(self.numbers))
        if kind[0] not in self.shapes:
            self.shapes[kind[0]] = self.extents
            self.extents += len(kind[0])


class CallSequence:
    """Makes a function of a program's calls. Its arguments are the inputs, the constants and the outputs."""

    def __init__(self, program: Program, name: str = SEQUENCE) -> None:
        self._program, self._name = program, name
        self.arena: Arena = arena_of(program, dict.fromkeys(program.functions, 0))
        # What is an argument already is handed on where it is of the shape that a function wants.
        self._given: dict[Storage, Kind] = {
            **{
                Storage("constant", at): (each.shape, str(each.dtype))
                for at, each in enumerate(program.constants)
            },
            **{
                Storage("output", at): (self._lies(Storage("output", at), each.shape), each.dtype)
                for at, each in enumerate(program.outputs)
                if at not in {copied for _, copied in program.copies}
            },
        }
        self._tensors = _Tensors()
        for call in program.calls:
            for storage, kind in self._arguments(call):
                if self._given.get(storage) != kind:
                    self._tensors.add(storage, kind)

    def function(self) -> Any:
        """The PrimFunc."""
        program = self._program
        with IRBuilder() as builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            attributes = {"global_symbol": self._name, "tirx.is_scheduled": True, KERNEL_ATTRIBUTE: True}
            T.func_attr(attributes)
            # What comes from outside is checked; the rest is what the machine made.
            self._buffers = [self._input(at, each) for at, each in enumerate(program.inputs)]
            self._handles = {each: T.arg(f"{each.kind}{each.index}", T.handle()) for each in self._given}
            self._arena = scratch(max(self.arena.bytes, LEAST_ARENA), "uint8")
            self._prepare()
            with Errors.known():
                for call in program.calls:
                    self._call(call)
                self._errors.end()
        return builder.get()

    def _prepare(self) -> None:
        """Make the tensors of all calls, which lie in arguments or in ``_arena``."""
        calls = self._program.calls
        most = max((len(call.reads) + len(call.writes) for call in calls), default=0)
        extents = stack("shape", max(1, self._tensors.extents))
        self._made = stack("array", max(1, len(self._tensors.numbers)))
        self._anys = stack("tvm_ffi_any", most + 1)
        self._make_tensors(extents)
        self._errors = Errors()

    def _input(self, at: int, port: Port) -> Any:
        shape = self._lies(Storage("input", at), port.shape)
        extents = [each if isinstance(each, int) else self._extent(each) for each in shape]
        return T.arg(port.name, T.Buffer(extents, port.dtype))

    def _lies(self, storage: Storage, shape: Shape) -> Shape:
        """The shape of a tensor that is ``shape`` in the program."""
        return shape

    def _extent(self, extent: Size) -> Any:
        """An extent in the function that is made."""
        return tirx.const(extent, "int64")

    def _arguments(self, call: Call) -> list[tuple[Storage, Kind]]:
        """Where the arguments of a call lie, and what the function takes them for."""
        wanted = self._program.functions[call.function].params
        return [
            (storage, (tuple(int(extent) for extent in each.shape), str(each.dtype)))
            for storage, each in zip((*call.reads, *call.writes), wanted, strict=True)
        ]

    def _make_tensors(self, extents: Any) -> None:
        numbers = T.decl_buffer((max(1, self._tensors.extents),), "int64", data=as_pointer(extents, "int64"))
        for shape, start in self._tensors.shapes.items():
            for axis, extent in enumerate(shape):
                T.buffer_store(numbers, self._extent(extent), [start + axis])
        arena = self._arena
        for (storage, (shape, dtype)), at in self._tensors.numbers.items():
            start = self._tensors.shapes[shape]
            lies = pointer("tirx.address_of", numbers[start]) if shape else extents
            fields = tensor_fields(self._data(storage, arena), lies, null(), len(shape), dtype)
            set_fields(self._made, at, fields)

    def _data(self, storage: Storage, arena: Any) -> Any:
        if storage.kind == "temporary":
            return pointer("tirx.handle_add_byte_offset", arena.data, self.arena.temporaries[storage.index])
        if storage.kind == "input":
            return self._buffers[storage.index].data
        return field_of(self._handles[storage], 0, DATA)

    def _call(self, call: Call) -> None:
        arguments = self._arguments(call)
        for place, (storage, kind) in enumerate(arguments):
            at = self._tensors.numbers.get((storage, kind))
            made = None if at is None else field_of(self._made, at, ADDRESS)
            tensor = self._handles[storage] if made is None else made
            of_tensor = {TYPE: tirx.const(TENSOR, "int32"), PADDING: tirx.const(0, "int32"), VALUE: tensor}
            set_fields(self._anys, place, of_tensor)
        count = len(arguments)
        set_fields(self._anys, count, {TYPE: tirx.const(NONE, "int32"), PADDING: tirx.const(0, "int32")})
        result = pointer("tirx.handle_add_byte_offset", self._anys, count * ANY_BYTES)
        self._errors.call(f"__tvm_ffi_{call.function}", self._anys, count, result)
