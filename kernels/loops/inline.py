"""Formulas put into each other, so that a chain of operators is one formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.sym.analyzer import Analyzer
from tvm_ffi import StructuralKey

from kernels.emit.tvm import ir, tirx, tvm
from kernels.emit.types import Buffer, Expr
from kernels.loops.expressions import (
    COMPARISONS,
    CONDITIONAL,
    any_node,
    cost_of,
    dtype_of,
    has_vectors,
    is_call,
    is_lazy,
    loads_of,
    mutate,
)
from kernels.loops.program import NoLoops, Program, Stage

CHEAP = 8
"""What may be computed several times, in additions."""
LONGEST = 400
"""How large a formula may get that cannot be cut in pieces, in additions."""

Place = Callable[[Buffer, Sequence[Expr]], Expr]
"""(an array, indices) -> the load from where its elements lie."""


def kept_stages(program: Program) -> list[Stage]:
    """The stages to store: outputs, reductions, results that are dear to compute again, and results that must
    be the same each time."""
    by_buffer = {stage.buffer: stage for stage in program.stages}
    kept = {stage.buffer for stage in program.stages if stage.reduced or stage.buffer in program.outputs}
    kept |= _compared_products(program, by_buffer, kept)
    # From the last to the first: by then it is known how often the readers of a stage are computed.
    times: Counter[Any] = Counter()
    for stage in reversed(program.stages):
        if stage.buffer in kept:
            times[stage.buffer] = stage.elements
        elif times[stage.buffer] > stage.elements and _is_dear(stage, by_buffer, kept):
            kept.add(stage.buffer)
            times[stage.buffer] = stage.elements
        for source, places in _reads(stage).items():
            if source in by_buffer:
                times[source] += times[stage.buffer] * places
    return [stage for stage in program.stages if stage.buffer in kept]


def _compared_products(program: Program, by_buffer: Mapping[Buffer, Stage], kept: set[Buffer]) -> set[Buffer]:
    """The float products that are read beside their own maximum or minimum.

    ``a * b - max(a * b)``, of softmax, becomes a fused multiply-add, which does not round its product. Of
    large numbers the difference is not 0 then, but as large as the rounding of the maximum.
    """
    readers = Counter(source for stage in program.stages for source in _reads(stage))
    found = set()
    for reduction in program.stages:
        if reduction.combiner not in (tirx.Max, tirx.Min):
            continue
        left = [(source, False) for source in _reads(reduction)]
        while left:
            buffer, shared = left.pop()
            stage, shared = by_buffer.get(buffer), shared or readers[buffer] > 1
            if stage is None or buffer in kept:
                continue
            if isinstance(stage.value, ir.TensorLoad):  # the same value from another place
                left.append((stage.value.source, shared))
            elif shared and isinstance(stage.value, tirx.Mul) and dtype_of(stage.value).startswith("float"):
                found.add(buffer)
    return found


def _is_dear(stage: Stage, by_buffer: Mapping[Buffer, Stage], kept: set[Buffer]) -> bool:
    """Whether computing an element of ``stage`` once more takes longer than loading it."""
    cost, seen, left = 0, {stage.buffer}, [stage]
    while left:
        each = left.pop()
        if is_lazy(each.value):
            return True
        cost += cost_of(each.value)
        for source in _reads(each):
            if source in by_buffer and source not in kept and source not in seen:
                seen.add(source)
                left.append(by_buffer[source])
    return cost > CHEAP


def _reads(stage: Stage) -> Counter[Any]:
    """How many different elements of each array one element of ``stage`` needs."""
    places = {(load.source, _key(load.indices)) for load in loads_of(stage.value)}
    return Counter(source for source, _ in places)


def _key(indices: Sequence[Expr]) -> Any:
    """The same for indices that are written alike."""
    return StructuralKey(indices)  # type: ignore[call-arg]  # the second is made of the first


@dataclass
class Formulas:
    """Values of stages as formulas of what is stored; shared parts get a name, in ``bindings``, in order."""

    stages: Mapping[Buffer, Stage]
    """Those that are put into others."""
    place: Place
    analyzer: Any = field(default_factory=Analyzer)
    bindings: list[tuple[Any, Expr]] = field(default_factory=list)
    _known: dict[Any, Expr] = field(default_factory=dict)
    _lazy: int = 0

    def of(self, stage: Stage, indices: Sequence[Expr], reduced: Sequence[Expr] = ()) -> Expr:
        """What ``stage`` computes at ``indices``: before it is combined, if it is."""
        axes = (*stage.axes, *stage.reduced)
        values = dict(zip(axes, (*indices, *reduced), strict=True))
        return self._rewritten(stage.value, values)

    def _rewritten(self, expr: Expr, values: Mapping[Any, Expr]) -> Expr:
        def variable(node: Any, _: Any) -> Expr:
            value = values.get(node)
            if value is None:
                return node
            return value if dtype_of(value) == dtype_of(node) else tirx.Cast(dtype_of(node), value)

        def load(node: Any, mutator: Any) -> Expr:
            indices = [self.analyzer.simplify(mutator.mutate(index)) for index in node.indices]
            return self._element(node.source, indices)

        def call(node: Any, mutator: Any) -> Expr:
            if not is_call(node, CONDITIONAL):
                made = mutator.default_mutate(node)
                # By itself, so that just this is computed one by one.
                return made if has_vectors(node) else self._named("scalar", made)
            condition, then, otherwise = node.args
            return self._chosen(mutator, condition, then, otherwise, True)

        def select(node: Any, mutator: Any) -> Expr:
            return self._chosen(mutator, node.condition, node.true_value, node.false_value, False)

        def comparison(node: Any, mutator: Any) -> Expr:
            made = mutator.default_mutate(node)
            return self.analyzer.simplify(made) if dtype_of(node.a).startswith("int") else made

        return mutate(
            expr,
            (ir.TensorLoad, load),
            (tirx.Var, variable),
            (tvm.ir.Call, call),
            (tirx.Select, select),
            *((kind, comparison) for kind in COMPARISONS),
        )

    def _chosen(self, mutator: Any, condition: Expr, then: Expr, otherwise: Expr, lazy: bool) -> Expr:
        condition = mutator.mutate(condition)
        if not any_node(condition, tirx.Sub, lambda node: not dtype_of(node).startswith("int")):
            condition = self.analyzer.simplify(condition)  # which takes x + y - y for x, also of floats
        if isinstance(condition, tirx.IntImm):
            return mutator.mutate(then if condition.value else otherwise)
        if not lazy:
            return tirx.Select(condition, mutator.mutate(then), mutator.mutate(otherwise))
        self._lazy += 1
        parts = [mutator.mutate(each) for each in (then, otherwise)]
        self._lazy -= 1
        return tirx.if_then_else(condition, *parts)

    def _element(self, buffer: Buffer, indices: list[Expr]) -> Expr:
        stage = self.stages.get(buffer)
        if stage is None:
            return self.place(buffer, indices)
        key = (buffer, _key(indices))
        if key in self._known:
            return self._known[key]
        value = self._named(stage.buffer.name, self.of(stage, indices))
        if not self._lazy:
            self._known[key] = value
        return value

    def _named(self, hint: str, value: Expr) -> Expr:
        """A name for ``value``, where that may be computed in any case."""
        if isinstance(value, (ir.TensorLoad, tirx.Var, tirx.IntImm, tirx.FloatImm)):
            return value
        if self._lazy:
            if cost_of(value) > LONGEST:
                raise NoLoops("a formula with conditions gets too long")
            return value
        if dtype_of(value) == "bool":
            return value
        name = tirx.Var(hint, dtype_of(value))
        self.bindings.append((name, value))
        return name
