"""Limits of tensors, whatever the inputs hold: they bound how many rows there can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from compiler.ir.graph import Array, TensorInfo, attributes_of
from compiler.passes.shapes.evaluate import Uncomputed
from compiler.passes.shapes.folding import evaluate_node

Floats = npt.NDArray[np.float64]
Interval = tuple[Floats, Floats]
"""The least and the greatest of each element, or of all."""
DEEPEST = 150
"""Tensors that are made of so many, one after the other, are not looked into."""
MOST = 1 << 14
"""Elements of larger tensors are not told apart."""
ROUNDING = 2.0**-22
"""By this part of it a float may be off for each operation."""
ANY: Interval = (np.array(-np.inf), np.array(np.inf))


class Limits:
    """Those of the tensors that ``nodes`` make; ``sizes`` are known already."""

    def __init__(
        self,
        nodes: Sequence[NodeProto],
        constants: Mapping[str, Array],
        tensors: Mapping[str, TensorInfo],
        sizes: Mapping[str, npt.NDArray[Any]],
        opset: int,
    ) -> None:
        self.constants, self.tensors, self.opset, self._sizes = constants, tensors, opset, sizes
        self._makers = {name: node for node in nodes for name in node.output if name}
        self._known: dict[str, Interval] = {}

    def of(self, name: str, depth: int = 0) -> Interval:
        """Those of a tensor; infinite where none are known."""
        if name not in self._known:
            self._known[name] = self._of_type(name)
            if depth < DEEPEST:
                self._known[name] = self._found(name, depth)
        return self._known[name]

    def endless(self, name: str) -> list[str]:
        """The inputs that leave the numbers of ``name`` without a limit."""
        found, pending, seen = [], [name], set()
        while pending:
            each = pending.pop()
            if each in seen or not each or all(np.isfinite(end).all() for end in self.of(each)):
                continue
            seen.add(each)
            if each in self._makers:
                pending += self._makers[each].input
            else:
                found.append(each)
        return found

    def _of_type(self, name: str) -> Interval:
        """What a narrow type can hold: the greatest of a wide one are no limit for anything."""
        info = self.tensors.get(name)
        kind = np.dtype(np.float32 if info is None else info.dtype)
        if kind.kind == "b":
            return np.array(0.0), np.array(1.0)
        if kind.kind in "iu" and kind.itemsize < 4:
            limits = np.iinfo(kind)
            return np.array(float(limits.min)), np.array(float(limits.max))
        return (np.array(0.0), ANY[1]) if kind.kind == "u" else ANY

    def _found(self, name: str, depth: int) -> Interval:
        widest, known, node = self._of_type(name), self.constants.get(name), self._makers.get(name)
        if name in self._sizes:
            counts = self._sizes[name]
            ends = np.array([[size.low, size.high] for size in counts.reshape(-1)], np.float64)
            return ends[:, 0].reshape(counts.shape), ends[:, 1].reshape(counts.shape)
        if known is not None:
            if known.dtype.kind not in "fiub" or not known.size:
                return widest
            value = np.asarray(known, np.float64)
            return self._few(value, value)
        if node is not None and _hands_on(node, name):
            low, high = self.of(node.input[0], depth + 1)
            return np.array(low.min()), np.array(high.max())
        if node is None or name != node.output[0] or name not in self.tensors:
            return widest
        fixed = FIXED.get(node.op_type)
        if fixed is not None:
            return np.array(fixed[0]), np.array(fixed[1])
        rule = RULES.get(node.op_type)
        if rule is None or any(each and each not in self.tensors for each in node.input):
            return widest
        operands = [self.of(each, depth + 1) if each else ANY for each in node.input]
        with np.errstate(all="ignore"):
            found = rule(self, node, operands)
            low, high = (np.where(np.isnan(end), other, end) for end, other in zip(found, ANY, strict=True))
            if np.dtype(self.tensors[name].dtype).kind == "f" and node.op_type not in EXACT:
                low, high = _wider(low, high, ROUNDING)
        return self._few(np.maximum(low, widest[0]), np.minimum(high, widest[1]))

    def _few(self, low: Floats, high: Floats) -> Interval:
        if low.size > MOST or not low.size:
            return np.array(low.min(initial=np.inf)), np.array(high.max(initial=-np.inf))
        return low, high

    def wide(self, name: str, ends: Interval) -> Interval | None:
        """``ends`` of ``name`` for each of its elements; None where these are too many."""
        shape = self.tensors[name].shape
        if prod(shape) > MOST:
            return None
        low, high = (np.broadcast_to(end, shape) for end in ends)
        return low, high


def _hands_on(node: NodeProto, name: str) -> bool:
    """Whether ``name`` is one of several results and has numbers of the first operand."""
    return node.op_type == "Split" or (node.op_type == "TopK" and name == node.output[0])


def _wider(low: Floats, high: Floats, part: float) -> Interval:
    """With what rounding may add."""
    return low - abs(low) * part, high + abs(high) * part


Rule = Callable[[Limits, NodeProto, Sequence[Interval]], Interval]


def _rising(function: Callable[..., Any]) -> Rule:
    """A function of elements that makes more of more."""

    def rule(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
        return function(*(low for low, _ in operands)), function(*(high for _, high in operands))

    return rule


def _falling(function: Callable[[Any], Any]) -> Rule:
    def rule(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
        (low, high), *_rest = operands
        return function(high), function(low)

    return rule


def _between(*ends: Any) -> Interval:
    """The least and the greatest of arrays, element by element."""
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    return low, high


def _difference(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = operands
    return low - most, high - least


def _times(one: Interval, other: Interval) -> Interval:
    products = [np.where((a == 0) | (b == 0), 0.0, a * b) for a in one for b in other]
    return _between(*products)


def _product(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
    return _times(operands[0], operands[1])


def _quotient(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = operands
    if least.min(initial=1) <= 0 <= most.max(initial=-1):
        return ANY
    found = _times((low, high), (1 / most, 1 / least))
    whole = np.dtype(limits.tensors[node.input[0]].dtype).kind in "iu"
    return (np.floor(found[0]), np.ceil(found[1])) if whole else found


def _inverse(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    least, most = operands[0]
    return ANY if least.min(initial=1) <= 0 <= most.max(initial=-1) else (1 / most, 1 / least)


def _size(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    return np.maximum(np.maximum(low, -high), 0), np.maximum(abs(low), abs(high))


def _power(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    power = limits.constants.get(node.input[1])
    if power is None or power.size != 1:
        return ANY
    low, high = operands[0]
    exponent = float(power.reshape(-1)[0])
    if exponent > 0 and low.min(initial=0) >= 0:
        return low**exponent, high**exponent
    if exponent > 0 and exponent % 2 == 0:
        low, high = _size(limits, node, operands)
        return low**exponent, high**exponent
    return ANY


def _rest(_: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    """Of a division by numbers above zero; with ``fmod`` it has the sign of what is divided."""
    (low, high), (least, most) = operands
    if least.min(initial=1) <= 0:
        return ANY
    signed = attributes_of(node).get("fmod", 0)
    return (np.maximum(low, -most) if signed else 0 * most), (np.minimum(high, most) if signed else most)


def _clipped(_: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    given = attributes_of(node)
    if "min" in given or "max" in given:
        least, most = given.get("min", -np.inf), given.get("max", np.inf)
        return np.clip(low, least, most), np.clip(high, least, most)
    if len(node.input) > 1 and node.input[1]:
        low, high = np.maximum(low, operands[1][0]), np.maximum(high, operands[1][1])
    if len(node.input) > 2 and node.input[2]:
        low, high = np.minimum(low, operands[2][0]), np.minimum(high, operands[2][1])
    return low, high


def _chosen(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
    (least, most), (low, high), (other_low, other_high) = operands
    under = np.where(least > 0, low, np.where(most < 1, other_low, np.minimum(low, other_low)))
    return under, np.where(least > 0, high, np.where(most < 1, other_high, np.maximum(high, other_high)))


def _cast(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    kind = helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"])
    if kind.kind in "iu":
        low, high = np.trunc(low), np.trunc(high)
        # What leaves the type comes in at its other end.
        ends = np.iinfo(kind)
        return (low, high) if ends.min <= low.min() and high.max() <= ends.max else ANY
    return (low, high) if kind.kind == "f" else ANY


def _moved(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    """Elements put elsewhere: of a Concat those of all operands, else of the first."""
    many = len(operands) if node.op_type == "Concat" else 1
    wide = [limits.wide(name, ends) for name, ends in zip(node.input[:many], operands, strict=False)]
    rest = _constants(limits, node.input[many:])
    if rest is not None and all(ends is not None for ends in wide):
        made = []
        for end in (0, 1):
            values = {name: np.array(ends[end]) for name, ends in zip(node.input, wide, strict=False) if ends}
            try:
                made.append(evaluate_node(node, values | rest, limits.opset))
            except (Uncomputed, ValueError, IndexError):
                break
        else:
            return np.asarray(made[0], np.float64), np.asarray(made[1], np.float64)
    lows, highs = zip(*operands[:many], strict=True)
    return np.array(min(low.min() for low in lows)), np.array(max(high.max() for high in highs))


def _constants(limits: Limits, names: Sequence[str]) -> dict[str, Array] | None:
    """Those of ``names`` by name; None where one is computed."""
    found = {name: limits.constants[name] for name in names if name in limits.constants}
    return found if all(name in found for name in names if name) else None


def _reduced(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    wide = limits.wide(node.input[0], operands[0])
    rest = _constants(limits, node.input[1:])
    before, after = (prod(limits.tensors[name].shape) for name in (node.input[0], node.output[0]))
    running = node.op_type == "CumSum"
    many = max(limits.tensors[node.input[0]].shape, default=1) if running else before // max(1, after)
    if wide is not None and rest is not None:
        low, high = (evaluate_node(node, {node.input[0]: np.array(end)} | rest, limits.opset) for end in wide)
    else:
        low, high = (np.array(end) for end in (operands[0][0].min(), operands[0][1].max()))
        if running:
            low, high = np.minimum(low * many, 0), np.maximum(high * many, 0)
        elif node.op_type == "ReduceSum":
            low, high = low * many, high * many
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    sums = np.dtype(limits.tensors[node.input[0]].dtype).kind == "f" and node.op_type not in EXACT
    return _wider(low, high, many * ROUNDING) if sums else (low, high)


def _matrices(limits: Limits, node: NodeProto, operands: Sequence[Interval]) -> Interval:
    """A product of arrays between known numbers."""
    depth = limits.tensors[node.input[0]].shape[-1]
    low, high = _times(*((np.array(low.min()), np.array(high.max())) for low, high in operands[:2]))
    return _wider(low * depth, high * depth, depth * ROUNDING)


def _place(limits: Limits, node: NodeProto, _: Sequence[Interval]) -> Interval:
    shape = limits.tensors[node.input[0]].shape
    return np.array(0.0), np.array(float(max(0, shape[attributes_of(node).get("axis", 0)] - 1)))


def _sum(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    for least, most in operands[1:]:
        low, high = low + least, high + most
    return low, high


def _fold(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(_: Limits, __: NodeProto, operands: Sequence[Interval]) -> Interval:
        low, high = operands[0]
        for least, most in operands[1:]:
            low, high = function(low, least), function(high, most)
        return low, high

    return rule


FIXED: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "Softmax", "Softsign"), (0.0, 1.0)),
    **dict.fromkeys(("Tanh", "Sin", "Cos", "Erf", "Sign", "Softsign"), (-1.0, 1.0)),
}
EXACT = {
    *("Ceil", "Clip", "Floor", "Identity", "Max", "Min", "Neg", "Relu", "Round", "Where", "Abs", "ReduceMax"),
    *(
        "ReduceMin",
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
    ),
    *("Unsqueeze", "Dropout"),
}
"""Operators that round nothing."""
MOVING = (
    *(
        "Concat",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Reshape",
    ),
    *("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVING, _moved),
    **dict.fromkeys(("CumSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _reduced),
    **dict.fromkeys(("ArgMax", "ArgMin"), _place),
    "Abs": _size,
    "Add": _sum,
    "Cast": _cast,
    "Ceil": _rising(np.ceil),
    "Clip": _clipped,
    "Div": _quotient,
    "Exp": _rising(np.exp),
    "Floor": _rising(np.floor),
    "Log": _rising(np.log),
    "MatMul": _matrices,
    "Max": _fold(np.maximum),
    "Min": _fold(np.minimum),
    "Mod": _rest,
    "Mul": _product,
    "Neg": _falling(np.negative),
    "Pow": _power,
    "Reciprocal": _inverse,
    "Relu": _rising(lambda value: np.maximum(value, 0)),
    "Round": _rising(np.rint),
    "Softplus": _rising(lambda value: np.logaddexp(value, 0)),
    "Sqrt": _rising(np.sqrt),
    "Sub": _difference,
    "Sum": _sum,
    "Where": _chosen,
}
