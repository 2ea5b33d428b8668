"""A loop that data end as one function: it calls those of its body until one of them says so.

The values that a turn hands on lie in the results of the function; a turn makes new ones beside them, which
are copied over them when all of it is computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from onnx import NodeProto
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import attributes_of
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import OPAQUE
from kernels.arithmetic import ceil_div
from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.emit.refusal import Errors
from kernels.emit.tir import scratch, when
from tuner.backend.arena import ALIGNMENT
from tuner.backend.program import NotStraight, Port, Program, Storage, program_of
from tuner.backend.sequence import LEAST_ARENA, PART, CallSequence, has_bfloat16
from tuner.backend.structures import as_pointer
from tuner.backend.turns import ATTRIBUTE, Turns


@dataclass(frozen=True)
class Looping:
    """The function of a loop, what it calls, and the constants that it takes."""

    function: Any
    parts: dict[str, Any]
    constants: Sequence[Any]

    def call(self, builder: Any, node: NodeProto, inputs: Sequence[Any], types: Sequence[Any]) -> list[Any]:
        """The results of ``node`` in a Relax function that is being built, of these ``types``."""
        name = str(self.function.attrs["global_symbol"])
        function = builder.add_func(self.function.with_attr("op_pattern", OPAQUE), name)
        values = [builder.emit(relax.op.reshape(each, (1,))) for each in inputs[:2]]
        values += [*inputs[2:], *map(constant, self.constants)]
        made = builder.emit(relax.call_tir(function, values, list(types)))
        return [builder.emit(relax.TupleGetItem(made, place)) for place in range(len(types))]


def looping(node: NodeProto, module: Any) -> Looping:
    """The function of ``node``, a loop whose body is lowered to ``module``. Raises ModelError."""
    attributes = attributes_of(node)
    inputs, outputs = len(module["main"].params), len(node.output)
    try:
        program = program_of(
            module, [f"input{at}" for at in range(inputs)], [f"output{at}" for at in range(outputs)]
        )
    except NotStraight as reason:
        raise ModelError(
            f"node {node_name(node)!r} (Loop) is ended by data, but inside it {reason}"
        ) from None
    if has_bfloat16(program):
        raise ModelError(f"node {node_name(node)!r} (Loop) ends by data and computes with bfloat16")
    text = hashlib.sha256(attributes["body"] + tvm.ir.save_json(module).encode()).hexdigest()[:12]
    name = f"tilefleet_loop_{text}"
    names, parts = {}, {}
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            # Those of a loop inside are called by the names that they have.
            inner = PART in (function.attrs or {})
            part = variable.name_hint if inner else f"{name}_{variable.name_hint}"
            names[variable.name_hint] = part
            parts[part] = function.with_attrs({"global_symbol": part, PART: 1})
    calls = tuple(replace(call, function=names[call.function]) for call in program.calls)
    functions = {names[each]: function for each, function in program.functions.items()}
    program = replace(program, calls=calls, functions=functions)
    states = int(attributes["states"])
    rooms = [shape for shape, _ in json.loads(attributes["room"])[states:-1]]
    turns = Turns.of(program, states, [shape[0] for shape in rooms])
    loop = _Loop(program, turns, rooms, name)
    return Looping(loop.function(), parts, program.constants)


class _Loop(CallSequence):
    """Makes the function. Its arguments are the limit, whether there is a turn, the first values, what is
    read around it, the constants; the last values, what is collected (``rooms`` are their shapes), and the
    number of turns."""

    def __init__(self, body: Program, turns: Turns, rooms: Sequence[Sequence[int]], name: str) -> None:
        self._body, self._turns, self._rooms = body, turns, rooms
        super().__init__(turns.program, name)
        self._aside, self._end = {}, self.arena.bytes
        for at in turns.aside:
            self._aside[at] = self._end
            self._end += ceil_div(turns.sizes[at], ALIGNMENT) * ALIGNMENT

    def function(self) -> Any:
        """The PrimFunc."""
        body, states = self._body, self._turns.states
        with IRBuilder() as builder, T.prim_func(s_tir=True):
            T.func_name(self._name)
            attributes = {"global_symbol": self._name, "tirx.is_scheduled": True, KERNEL_ATTRIBUTE: True}
            T.func_attr(attributes | {PART: 1, ATTRIBUTE: self._turns.to_json()})
            limit, going = T.arg("limit", T.Buffer((1,), "int64")), T.arg("going", T.Buffer((1,), "bool"))
            given = [_argument("given", at, each) for at, each in enumerate(body.inputs[2:])]
            self._handles = {each: T.arg(f"{each.kind}{each.index}", T.handle()) for each in self._given}
            results = body.outputs[1:]
            lasts = [_argument("last", at, each) for at, each in enumerate(results[:states])]
            rooms = [
                _argument("room", at, replace(each, shape=tuple(shape)))
                for at, (shape, each) in enumerate(zip(self._rooms, results[states:], strict=True))
            ]
            turns = T.arg("turns", T.Buffer((1,), "int64"))
            turn, on = scratch(LEAST_ARENA // 8, "int64"), scratch(LEAST_ARENA, "bool")
            self._buffers = [turn, on, *lasts, *given[states:]]
            self._arena = scratch(max(self._end, LEAST_ARENA), "uint8")
            self._prepare()
            for first, last, port in zip(given, lasts, results, strict=False):
                _copy(_bytes(last.data, port.bytes), 0, _bytes(first.data, port.bytes), 0, port.bytes)
            for room, port, shape in zip(rooms, results[states:], self._rooms, strict=True):
                size = port.bytes * shape[0]
                with T.serial(0, size) as at:
                    T.buffer_store(_bytes(room.data, size), tirx.const(0, "uint8"), [at])
            T.buffer_store(turn, tirx.const(0, "int64"), [0])
            T.buffer_store(on, going[0], [0])
            with Errors.known():
                going_on = tirx.And(turn[0] < limit[0], on[0])
                with T.While(tirx.And(going_on, self._errors.none)):
                    for call in self._program.calls:
                        self._call(call)
                    with when(self._errors.none):
                        self._end_turn([on, *lasts, *rooms], turn)
                self._errors.end()
            T.buffer_store(turns, turn[0], [0])
        return builder.get()

    def _end_turn(self, results: Sequence[Any], turn: Any) -> None:
        """Put what the calls of a turn make in its place."""
        for at, place in self._aside.items():
            size = self._body.outputs[at].bytes
            _copy(self._arena, place, self._held(self._turns.sources[at], size), 0, size)
        for at, (result, port) in enumerate(zip(results, self._body.outputs, strict=True)):
            source, start = self._turns.sources[at], 0
            collected = at > self._turns.states
            whole = port.bytes * (self._rooms[at - self._turns.states - 1][0] if collected else 1)
            to = tirx.Cast("int32", turn[0]) * port.bytes if collected else 0
            held = self._arena
            if at in self._aside:
                start = self._aside[at]
            elif source.kind == "temporary":
                start = self.arena.temporaries[source.index]
            else:
                held = self._held(source, port.bytes)
            _copy(_bytes(result.data, whole), to, held, start, port.bytes)
        T.buffer_store(turn, turn[0] + tirx.const(1, "int64"), [0])

    def _held(self, storage: Storage, size: int) -> Any:
        """What an input or a constant holds, as bytes."""
        return _bytes(self._data(storage, self._arena), size)


def _argument(name: str, at: int, port: Port) -> Any:
    return T.arg(f"{name}{at}", T.Buffer(port.shape, port.dtype))


def _bytes(data: Any, size: int) -> Any:
    """What lies at ``data``, byte by byte."""
    return T.decl_buffer((size,), "uint8", data=as_pointer(data, "uint8"))


def _copy(to: Any, start: Any, source: Any, begin: Any, size: int) -> None:
    with T.serial(0, size) as at:
        T.buffer_store(to, source[begin + at], [start + at])
