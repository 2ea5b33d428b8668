"""A function of a lowered model as a straight list of calls on storages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import tvm
from tvm import relax

from compiler.ir.graph import Array

SIZES = "vm.builtin.tensor_to_shape"
"""What TVM's machine reads sizes from a tensor by."""
Kind = Literal["input", "output", "constant", "temporary"]


class NotStraight(Exception):
    """A model that is no such list; the message says what it needs."""


@dataclass(frozen=True)
class Storage:
    """Where a tensor lies: the caller's input or output number ``index``, a constant, or a temporary."""

    kind: Kind
    index: int


@dataclass(frozen=True)
class Call:
    """One call of ``function``: what it reads and what it writes, in the order of its parameters."""

    function: str
    reads: tuple[Storage, ...]
    writes: tuple[Storage, ...]


@dataclass(frozen=True)
class Port:
    """An input or an output of the model, dense."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Its size."""
        return prod(self.shape) * self.element_bytes

    @property
    def element_bytes(self) -> int:
        """The size of an element."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Cut:
    """Of output number ``output`` as many elements count along some axes as data say when it runs.

    ``counts`` has for each such axis an array of int64 and the place in it.
    """

    output: int
    counts: Mapping[int, tuple[Storage, int]]


@dataclass(frozen=True)
class Program:
    """A model: ``calls`` in order, then ``copies`` into outputs that no call writes, then ``cuts``.

    ``temporaries`` are sizes in bytes, ``functions`` the PrimFuncs that are called, by name.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[Array, ...]
    temporaries: tuple[int, ...]
    calls: tuple[Call, ...]
    copies: tuple[tuple[Storage, int], ...]
    functions: Mapping[str, Any]
    cuts: tuple[Cut, ...] = ()


def program_of(
    module: Any, inputs: list[str], outputs: list[str], entry: str = "main", cuts: bool = False
) -> Program:
    """The program of the function ``entry`` of a module as ``lower_partition`` returns it.

    ``inputs`` and ``outputs`` are names. Raises NotStraight for a step that is no call of a function, and for
    sizes known only when it runs, other than those of outputs where ``cuts`` are wanted.
    """
    passes = tvm.transform.Sequential(
        [relax.transform.RewriteDataflowReshape(), relax.transform.ToNonDataflow()]
    )
    return _Walk(passes(module), entry, cuts).program(inputs, outputs)


@dataclass(frozen=True)
class _Part:
    """Of what lies in ``storage``, a tensor of the type ``whole``, what counts."""

    storage: Storage
    whole: Any
    counts: Mapping[int, tuple[Storage, int]]


class _Walk:
    def __init__(self, module: Any, entry: str, cuts: bool) -> None:
        self._functions = {
            variable.name_hint: function
            for variable, function in module.functions_items()
            if isinstance(function, tvm.tirx.PrimFunc)
        }
        self._main, self._cuts = module[entry], cuts
        self._extents: dict[Any, tuple[Storage, int]] = {}
        self._values: dict[Any, Any] = {}
        self._constants: list[Array] = []
        self._known: dict[Any, Storage] = {}
        self._temporaries: list[int] = []
        self._calls: list[Call] = []

    def program(self, inputs: list[str], outputs: list[str]) -> Program:
        for index, parameter in enumerate(self._main.params):
            self._values[parameter] = Storage("input", index)
        ports = [_port(name, each.ty) for name, each in zip(inputs, self._main.params, strict=True)]
        for block in self._main.body.blocks:
            for binding in block.bindings:
                self._values[binding.var] = value = self._value(binding.value)
                if isinstance(binding, relax.MatchCast) and isinstance(binding.ty, relax.ShapeType):
                    self._extents |= {each: (value, at) for at, each in enumerate(binding.ty.values)}
        result, kind = self._value(self._main.body.body), self._main.body.body.ty
        results = list(result) if isinstance(result, tuple) else [result]
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        parts = {at: each for at, each in enumerate(results) if isinstance(each, _Part)}
        kinds = [parts[at].whole if at in parts else each for at, each in enumerate(kinds)]
        results = [each.storage if isinstance(each, _Part) else each for each in results]
        calls, copies, placed = _into_outputs(self._calls, results)
        cuts = tuple(
            Cut(at, {axis: (placed.get(of, of), place) for axis, (of, place) in part.counts.items()})
            for at, part in parts.items()
        )
        return Program(
            tuple(ports),
            tuple(_port(name, each) for name, each in zip(outputs, kinds, strict=True)),
            tuple(self._constants),
            tuple(self._temporaries),
            calls,
            copies,
            {call.function: self._functions[call.function] for call in calls},
            cuts,
        )

    def _value(self, expression: Any) -> Any:
        """The storage of an expression, or a tuple of such."""
        if isinstance(expression, relax.Var):
            return self._values[expression]
        if isinstance(expression, tvm.ir.GenericConst):
            return self._constant(expression)
        if isinstance(expression, relax.Tuple):
            return tuple(self._value(field) for field in expression.fields)
        if isinstance(expression, relax.TupleGetItem):
            return self._value(expression.tuple_value)[expression.index]
        operator = getattr(getattr(expression, "op", None), "name", "")
        if operator == "relax.reshape":
            return self._value(expression.args[0])
        if operator == "relax.call_tir" and len(expression.args) == 2:
            return self._call(expression)
        what = operator or type(expression).__name__
        if operator.startswith("relax.call_") and hasattr(expression.args[0], "global_symbol"):
            what = expression.args[0].global_symbol
        if what == SIZES and self._cuts:
            return self._value(expression.args[1])
        if what == SIZES:
            raise NotStraight(
                "data decide how many results there are (NonMaxSuppression, NonZero); cut the model before"
            )
        raise NotStraight(f"{what} is computed by TVM's runtime alone")

    def _call(self, call: Any) -> Any:
        name = call.args[0].name_hint
        reads = self._value(call.args[1])
        if (part := self._part(call, reads)) is not None:
            return part
        if any(isinstance(each, _Part) for each in reads):
            raise NotStraight("data decide the sizes of what it computes with")
        kinds = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
        writes = []
        for kind in kinds:
            writes.append(Storage("temporary", len(self._temporaries)))
            self._temporaries.append(_port(name, kind).bytes)
        self._calls.append(Call(name, tuple(reads), tuple(writes)))
        return tuple(writes) if isinstance(call.ty, relax.TupleType) else writes[0]

    def _part(self, call: Any, reads: tuple[Any, ...]) -> _Part | None:
        """What a call makes that does nothing but cut (``compiler/lower/operators/cut.py``)."""
        if isinstance(call.ty, relax.TupleType) or not self._extents:
            return None
        counts = {
            axis: self._extents[extent]
            for axis, extent in enumerate(call.ty.shape.values)
            if extent in self._extents
        }
        if not counts:
            return None
        return _Part(reads[0], call.args[1].fields[0].ty, counts)

    def _constant(self, constant: Any) -> Storage:
        array = np.ascontiguousarray(constant.value.numpy())
        # The same numbers are kept once, whoever made them.
        key = (str(array.dtype), array.tobytes())
        if key not in self._known:
            self._known[key] = Storage("constant", len(self._constants))
            self._constants.append(array)
        return self._known[key]


def _into_outputs(
    calls: list[Call], results: list[Storage]
) -> tuple[tuple[Call, ...], tuple[tuple[Storage, int], ...], Mapping[Storage, Storage]]:
    """Each temporary that is a result lies in the first output that it is; other results are copied.

    Returns calls, copies, and which temporary lies where.
    """
    placed: dict[Storage, Storage] = {}
    copies: list[tuple[Storage, int]] = []
    for index, result in enumerate(results):
        if result.kind == "temporary" and result not in placed:
            placed[result] = Storage("output", index)
        else:
            copies.append((placed.get(result, result), index))
    moved = tuple(
        Call(
            call.function,
            tuple(placed.get(each, each) for each in call.reads),
            tuple(placed.get(each, each) for each in call.writes),
        )
        for call in calls
    )
    return moved, tuple(copies), placed


def _port(name: str, kind: Any) -> Port:
    """A tensor of a type; NotStraight where its size is not known."""
    shape = getattr(kind, "shape", None)
    extents = getattr(shape, "values", shape)
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        raise NotStraight(f"the size of {name!r} is known only when it runs")
    return Port(name, tuple(int(extent) for extent in extents), str(kind.dtype.dtype))
