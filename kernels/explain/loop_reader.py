"""From a PrimFunc to its loop nest."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextlib import suppress

from tvm.target.codegen import llvm_get_intrinsic_name

from kernels.emit import code_shape, mma
from kernels.emit.tvm import ir, tirx
from kernels.emit.types import Buffer, Expr, PrimFunc, Statement
from kernels.explain.loop_index import Index
from kernels.explain.loop_nest import Access, Body, Branch, Loop, Nest, Node, Straight, children

REGISTERS = "registers"
_UNIT = {
    "tilefleet_mma_add": (1, {2: mma.SIDE, 3: mma.SIDE}),
    "tilefleet_mma_add_pair": (2, {3: mma.SIDE, 4: 2 * mma.SIDE}),
    "tilefleet_mma_copy_pair": (0, {1: 2 * mma.SIDE, 2: 2 * mma.SIDE}),
    "tilefleet_mma_move": (0, {1: mma.SIDE * mma.SIDE, 2: mma.SIDE * mma.SIDE}),
}
"""Functions of ``kernels/emit/mma.py``, which are no TIR: outer products of ``mma.SIDE`` floats by as many,
and the elements at each address among the arguments. Those without products write to the first."""
_NO_WORK = ("tirx.address_of", "tirx.reinterpret", "llvm.prefetch", code_shape.ORDER)
_WRAPPING = {"llvm.vp.add": tirx.Add, "llvm.vp.sub": tirx.Sub, "llvm.vp.mul": tirx.Mul}
"""Operations of ``kernels/int8/wrapping.py``, and what they are where they do not wrap."""
_INTEGER_PRODUCTS = {
    "pmadd.wd": 2,
    "pmaddw.d.512": 2,
    "pmadd.ub.sw": 2,
    "pmaddubs.w.512": 2,
    "vpdpbusd": 4,
    "smull": 1,
    "umull": 1,
    "vmulls": 1,
    "vmullu": 1,
    "sdot": 4,
    "udot": 4,
    "smmla": 8,
    "ummla": 8,
}
"""Products in a lane of the result, by how LLVM's intrinsics for them are called."""
_OPERATIONS: dict[type, tuple[str, Callable[[int, int], int]]] = {
    tirx.Add: ("+", operator.add),
    tirx.Sub: ("-", operator.sub),
    tirx.Mul: ("*", operator.mul),
    tirx.FloorDiv: ("//", operator.floordiv),
    tirx.FloorMod: ("%", operator.mod),
    tirx.Min: ("min", min),
    tirx.Max: ("max", max),
    tirx.And: ("and", lambda one, other: int(one and other)),
    tirx.Or: ("or", lambda one, other: int(one or other)),
    tirx.EQ: ("==", operator.eq),
    tirx.NE: ("!=", operator.ne),
    tirx.LT: ("<", operator.lt),
    tirx.LE: ("<=", operator.le),
    tirx.GT: (">", operator.gt),
    tirx.GE: (">=", operator.ge),
}


def read(function: PrimFunc) -> Nest:
    """The nest of a PrimFunc as ``Kernel.build`` makes it."""
    reader = _Reader(function)
    body = reader.body(function.body)
    filled = {
        name: sorted(sources - {name, REGISTERS})
        for name, sources in reader.sources.items()
        if name.startswith("scratch")
    }
    return Nest(body, reader.sizes, reader.widths, filled, reader.accumulators)


class _Reader:
    """Walks the statements of one function; every variable is known by what it stands for."""

    def __init__(self, function: PrimFunc) -> None:
        self.scope: dict[Expr, Index] = {}
        self.names: dict[Expr, str] = {}
        self.sizes: dict[str, int] = {}
        self.widths: dict[str, int] = {}
        self.accumulators = 0
        self.loops = 0
        self.sources: dict[str, set[str]] = {}
        """By buffer: those whose values reach it, also through registers."""
        self._from: dict[Expr, set[str]] = {}
        """By variable that holds a loaded value: the buffers it came from."""
        for argument in function.params:
            self._name(argument, argument.name)

    def body(self, statement: Statement, depth: int = 0) -> Body:
        """The nodes of a statement, inside of ``depth`` loops."""
        nodes: list[Node] = []
        if statement is not None:
            self._read(statement, nodes, depth)
        return tuple(node for node in nodes if not _is_empty(node))

    def _read(self, statement: Statement, nodes: list[Node], depth: int) -> None:
        if isinstance(statement, tirx.SeqStmt):
            for part in statement.seq:
                self._read(part, nodes, depth)
        elif isinstance(statement, tirx.For):
            self._loop(statement, nodes, depth)
        elif isinstance(statement, tirx.IfThenElse):
            self._branch(statement, nodes, depth)
        elif isinstance(statement, tirx.DeclBuffer):
            self.names[statement.buffer] = self.names[statement.data.args[0]]
        elif isinstance(statement, tirx.AllocBuffer):
            self._allocate(statement.buffer)
        elif isinstance(statement, tirx.AttrStmt):
            self._read(statement.body, nodes, depth)
        else:
            if not nodes or not isinstance(nodes[-1], Straight):
                nodes.append(Straight())
            last = nodes[-1]
            assert isinstance(last, Straight)
            self._straight(statement, last)

    def _branch(self, statement: Statement, nodes: list[Node], depth: int) -> None:
        condition = self._index(statement.condition)
        if condition.constant is not None:
            chosen = statement.then_case if condition.constant else statement.else_case
            nodes.extend(self.body(chosen, depth))
            return
        then = self.body(statement.then_case, depth)
        nodes.append(Branch(condition, then, self.body(statement.else_case, depth)))

    def _loop(self, statement: Statement, nodes: list[Node], depth: int) -> None:
        start, extent = self._index(statement.min), self._index(statement.extent)
        if extent.constant == 0:
            return
        if extent.constant == 1:
            self.scope[statement.loop_var] = start
            self._read(statement.body, nodes, depth)
            return
        self.loops += 1
        number, name = self.loops, _name_of(statement, depth)
        self.scope[statement.loop_var] = Index.variable(number, name)
        kind = str(tirx.ForKind(statement.kind).name).lower()
        nodes.append(Loop(number, name, start, extent, kind, self.body(statement.body, depth + 1)))

    def _allocate(self, buffer: Buffer) -> None:
        elements = 1
        for extent in buffer.shape:
            elements *= int(extent)
        if buffer.scope() == "local":
            self.names[buffer] = REGISTERS
            self.accumulators = max(self.accumulators, elements)
            return
        name = f"scratch{sum(name.startswith('scratch') for name in self.sizes) + 1}"
        self._name(buffer, name)

    def _name(self, buffer: Buffer, name: str) -> None:
        elements = 1
        shape = buffer.shape if hasattr(buffer, "shape") else buffer.ty.shape
        for extent in shape:
            elements *= int(extent)
        self.names[buffer] = name
        dtype = str(buffer.dtype if hasattr(buffer, "dtype") else buffer.ty.dtype)
        self.widths[name] = int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
        self.sizes[name] = elements * self.widths[name]

    def _straight(self, statement: Statement, into: Straight) -> None:
        if isinstance(statement, tirx.Bind):
            if _is_integer(statement.value):
                with suppress(ValueError):
                    self.scope[statement.var] = self._index(statement.value)
                    return
                # It comes from memory, so nobody knows it here. As a loop's extent it says how many steps run
                # in the first of two loops that share them: the second then has them all.
                self.scope[statement.var] = Index.number(0)
            self._from[statement.var] = self._value(statement.value, into)
        elif isinstance(statement, tirx.BufferStore):
            self._store(statement, into)
        elif isinstance(statement, tirx.Evaluate):
            self._value(statement.value, into)
        else:
            raise ValueError(f"cannot explain a {type(statement).__name__}")

    def _store(self, statement: Statement, into: Straight) -> None:
        name, value = self.names[statement.buffer], statement.value
        terms = [*map(_unconverted, _sides(value, tirx.Add))]
        if name == REGISTERS and any(_sides(term, tirx.Mul) for term in terms):
            into.multiply_adds[_lanes(value)] += 1
            sources: set[str] = set()
            for term in terms:
                sources |= self._all(_sides(term, tirx.Mul) or (term,), into)
        else:
            sources = self._value(value, into)
        if name != REGISTERS:
            self._access(name, statement.indices[0], True, into)
        known = self.sources.setdefault(name, set())
        known |= sources

    def _value(self, value: Expr, into: Straight) -> set[str]:
        """Count what computing a value takes; the buffers that it comes from."""
        if isinstance(value, ir.TensorLoad):
            name = self.names[value.source]
            if name == REGISTERS:
                return self.sources.get(REGISTERS, set())
            self._access(name, value.indices[0], False, into)
            return {name}
        if isinstance(value, tirx.Var):
            return self._from.get(value, set())
        if isinstance(value, (tirx.Broadcast, tirx.Cast)):
            return self._value(value.value, into)
        if isinstance(value, tirx.Shuffle):
            return self._all(value.vectors, into)
        if hasattr(value, "args"):
            return self._call(value, into)
        if hasattr(value, "a") and not _is_integer(value):
            into.others[_lanes(value)] += 1
            return self._all((value.a, value.b), into)
        return set()

    def _call(self, call: Expr, into: Straight) -> set[str]:
        function = _called(call)
        if function in (code_shape.PREFETCH, code_shape.TOUCH):
            return set()
        if function in _UNIT:
            self._unit(call, *_UNIT[function], into)
            return set()
        if function in _WRAPPING:
            into.others[_lanes(call)] += 1
        elif products := _integer_products(call, function):
            into.multiply_adds[products] += 1
        elif function not in _NO_WORK:
            into.calls[function] += 1
        return self._all(call.args, into)

    def _unit(self, call: Expr, products: int, places: dict[int, int], into: Straight) -> None:
        """A call of POWER10's matrix unit, or for it."""
        if products:
            into.multiply_adds[mma.SIDE * mma.SIDE] += products
        names = {}
        for at, elements in places.items():
            load = call.args[at].args[0]
            names[at] = self.names[load.source]
            if names[at] != REGISTERS:
                self._access(names[at], load.indices[0], not products and at == 1, into, elements)
        if not products:
            known = self.sources.setdefault(names[1], set())
            known |= self.sources.get(REGISTERS, set()) if names[2] == REGISTERS else {names[2]}

    def _all(self, values: Iterable[Expr], into: Straight) -> set[str]:
        return set().union(*(self._value(value, into) for value in values))

    def _access(self, name: str, index: Expr, written: bool, into: Straight, lanes: int = 1) -> None:
        if isinstance(index, tirx.Ramp):
            index, lanes = index.base, int(index.lanes)
        access = Access(name, self._index(index), lanes, written)
        into.accesses[name, access.index.text, lanes, written] = access

    def _index(self, value: Expr) -> Index:
        """An integer expression in terms of the loops' variables."""
        if isinstance(value, int):
            return Index.number(value)
        if isinstance(value, tirx.IntImm):
            return Index.number(int(value.value))
        if isinstance(value, tirx.Var) and value in self.scope:
            return self.scope[value]
        if isinstance(value, tirx.Cast):
            return self._index(value.value)
        if hasattr(value, "args") and _called(value) in (code_shape.EXTENT, code_shape.FRESH):
            return self._index(value.args[1])
        operation = _OPERATIONS.get(type(value))
        if operation is None:
            raise ValueError(f"cannot explain the index {value}")
        return Index.operation(*operation, self._index(value.a), self._index(value.b))


def _name_of(statement: Statement, depth: int) -> str:
    """The loop's own name where it was given one (``ho.outer``), else a letter."""
    own = str(statement.loop_var.name)
    return own if own.startswith(("ko.", "ho.")) or own in ("wo", "hi") else _letter(depth)


def _letter(depth: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[depth % 26]


def _is_empty(node: Node) -> bool:
    if isinstance(node, Straight):
        return not (node.multiply_adds or node.others or node.accesses or node.calls)
    return not children(node)


def _called(call: Expr) -> str:
    """The name of what is called."""
    function = str(call.op.name)
    if function in ("tirx.call_llvm_intrin", "tirx.call_llvm_pure_intrin"):
        return str(llvm_get_intrinsic_name(int(call.args[0].value)))
    return str(call.args[0].value) if function == "tirx.call_extern" else function


def _integer_products(call: Expr, function: str) -> int:
    """How many products an instruction adds; sums of neighbours are products by one and count as none."""
    name = next((name for name in _INTEGER_PRODUCTS if f".{name}" in function), None)
    if name is None or _is_of_ones(call.args[-1]):
        return 0
    return _INTEGER_PRODUCTS[name] * _lanes(call)


def _is_of_ones(value: Expr) -> bool:
    """Whether a vector has nothing but ones and zeros of 16 bits, also as pairs in words of 32 bits."""
    if hasattr(value, "args") and _called(value) == "tirx.reinterpret":
        return _is_of_ones(value.args[0])
    word = value.value if isinstance(value, tirx.Broadcast) else None
    return isinstance(word, tirx.IntImm) and int(word.value) in (1, 1 << 16, 1 | 1 << 16)


def _sides(value: Expr, operation: type[Expr]) -> tuple[Expr, ...]:
    """Both operands where ``value`` is that operation, also one that wraps; else none."""
    if isinstance(value, operation):
        return value.a, value.b
    if hasattr(value, "args") and _WRAPPING.get(_called(value)) is operation:
        return tuple(value.args[1:3])
    return ()


def _unconverted(value: Expr) -> Expr:
    return value.value if isinstance(value, tirx.Cast) else value


def _dtype(value: Expr) -> str:
    return str(value.ty.dtype)


def _is_integer(value: Expr) -> bool:
    return _dtype(value).startswith(("int", "bool")) and "x" not in _dtype(value)


def _lanes(value: Expr) -> int:
    return int(_dtype(value).partition("x")[2] or 1)
