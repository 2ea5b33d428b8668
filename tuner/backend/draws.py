"""Inputs that a check draws: all rows of a table, long and short lengths, both ends of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.ir.graph import OnnxGraph, TensorInfo

Array = npt.NDArray[Any]
Feeds = dict[str, Array]

_MOVES = {
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Transpose",
    "Expand",
    "Tile",
    "Slice",
    "Split",
}
_NUMBERS = {
    "Cast",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Where",
    "And",
    "Or",
    "Not",
    "Max",
    "Min",
}
"""Operators of which every number is an operand like any other."""
_EXACT = {"Mul", "Div", "Neg", "Abs", "Sign", "Relu", "Clip"}
"""The same of floats: next to the largest integers a sum loses what is added, in each order another part."""
_LENGTHS = {"GRU": 4, "LSTM": 4, "RNN": 4, "ReverseSequence": 1}
"""Which input of an operator has lengths of sequences; they are along the first axis of its first input, but
of ReverseSequence."""


DIVISOR = 9
"""The largest that is drawn of integers that may divide."""


@dataclass(frozen=True)
class Range:
    """The integers that an input may hold, as the graph has it: rows of a table, or lengths."""

    low: int
    high: int
    of: str
    """What they are places in: ``rows of 'wte'``."""
    length: bool = False
    """Whether they are lengths of sequences."""

    def narrowed(self, other: Range | None) -> Range:
        """What both allow."""
        if other is None:
            return self
        least = min((self, other), key=lambda each: each.high - each.low)
        return replace(least, low=max(self.low, other.low), high=min(self.high, other.high))


@dataclass(frozen=True)
class Draw:
    """Values for all inputs; ``name`` says what is peculiar to them, empty for the usual ones.

    What is ``optional`` counts only where the definition makes numbers of it.
    """

    name: str
    feeds: Mapping[str, Array]
    optional: bool = False


def random_feeds(inputs: Mapping[str, tuple[tuple[int, ...], str]], seed: int = 0) -> Feeds:
    """Random values for inputs of these shapes and types, where nothing else is known of them.

    Integers of 8 and 16 bits take all values. Wider ones are mostly indices and lengths: those are 0 or 1,
    which are seldom out of range.
    """
    rng, feeds = np.random.default_rng(seed), {}
    for name, (shape, dtype) in inputs.items():
        kind = np.dtype(dtype)
        if kind.kind in "iu" and kind.itemsize <= 2:
            feeds[name] = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        elif kind.kind in "iub":
            feeds[name] = rng.integers(0, 2, shape).astype(kind)
        else:
            feeds[name] = rng.standard_normal(shape).astype(kind)
    return feeds


def plain_feeds(graph: OnnxGraph, seed: int = 0) -> Feeds:
    """Random values for the inputs of a graph, see ``random_feeds``."""
    return random_feeds({name: (info.shape, info.dtype) for name, info in graph.inputs.items()}, seed)


def feeds_of(graph: OnnxGraph, seed: int = 0) -> Feeds:
    """The same, of tables all rows."""
    return dict(next(draws_of(graph, seed)).feeds)


def draws_of(graph: OnnxGraph, seed: int = 0) -> Iterator[Draw]:
    """What to compare a build on: of a model that takes wide integers or truths several draws."""
    ranges, rng = ranges_of(graph), np.random.default_rng(seed + 1)
    wide = {name: info for name, info in graph.inputs.items() if _is_wide(info)}
    usual = plain_feeds(graph, seed)
    yield Draw("", usual | {name: _usual(usual[name], ranges.get(name), rng) for name in wide})
    if not wide:
        return
    for number, (name, short) in enumerate((("long lengths", False), ("short lengths", True)), 1):
        usual = plain_feeds(graph, seed + number)
        changed = {each: _at_length(info, ranges.get(each), short, rng) for each, info in wide.items()}
        yield Draw(name, usual | changed)
    if numbers := _numbers(graph, wide.keys() - ranges.keys()):
        ends = {name: _ends(wide[name]) for name in numbers}
        yield Draw("the ends of integers", usual | ends, optional=True)


def fallbacks_of(graph: OnnxGraph, seed: int = 0) -> Iterator[Draw]:
    """What to try where the definition refuses all those: it is mostly an index or a length of which nobody
    knew how large it may be, or a 0 that divides. Nothing where inputs have neither integers nor truths."""
    if not any(np.dtype(info.dtype).kind in "iub" for info in graph.inputs.values()):
        return
    ranges, rng = ranges_of(graph), np.random.default_rng(seed + 1)
    usual = plain_feeds(graph, seed)
    whole = {name: info for name, info in graph.inputs.items() if np.dtype(info.dtype).kind in "iu"}
    small = {name: _above_zero(info, ranges.get(name), rng) for name, info in whole.items()}
    yield Draw("small integers", usual | small)
    yield Draw("", usual)
    for name, value in (("ones", 1), ("zeros", 0)):
        yield Draw(
            name,
            usual
            | {
                each: np.full_like(usual[each], value)
                for each, info in graph.inputs.items()
                if _is_wide(info)
            },
        )


def ranges_of(graph: OnnxGraph) -> dict[str, Range]:
    """The ranges of the inputs that are places in tables or lengths and nothing else than moved before."""
    readers, found = graph.consumers(), {}
    for name, info in graph.inputs.items():
        if np.dtype(info.dtype).kind not in "iu":
            continue
        range_: Range | None = None
        todo, seen = [(name, 0)], set()
        while todo:
            tensor, moved = todo.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            for node in readers.get(tensor, ()):
                place = list(node.input).index(tensor)
                if node.op_type in _MOVES and place == 0:
                    todo += [(output, moved) for output in node.output]
                elif node.op_type in ("Concat", "Cast") and _is_integer(graph, node.output[0]):
                    todo.append((node.output[0], moved))
                elif node.op_type in ("Add", "Sub") and (shift := _shift(graph, node, place)) is not None:
                    todo.append((node.output[0], moved + shift))
                elif (limit := _limit(graph, node, place)) is not None:
                    limit = replace(limit, low=limit.low - moved, high=limit.high - moved)
                    range_ = limit.narrowed(range_)
        if range_ is not None and range_.low <= range_.high:
            found[name] = range_
    return found


def _limit(graph: OnnxGraph, node: Any, place: int) -> Range | None:
    """What an operator allows of the integers at one of its inputs."""
    kind = node.op_type
    attributes = {each.name: each.i for each in node.attribute}
    if kind in _LENGTHS and place == _LENGTHS[kind]:
        axis = attributes.get("time_axis", 0) if kind == "ReverseSequence" else attributes.get("layout", 0)
        return Range(
            1, graph.tensors[node.input[0]].shape[axis], f"steps of {node.name or kind!r}", length=True
        )
    if kind == "OneHot" and place == 0 and node.input[1] in graph.constants:
        return Range(
            0, int(graph.constants[node.input[1]].reshape(-1)[0]) - 1, f"classes of {node.name or kind!r}"
        )
    if place != 1 or kind not in ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"):
        return None
    shape = _shape(graph, node.input[0])
    if not shape:
        return None
    if kind in ("GatherND", "ScatterND"):
        batch = attributes.get("batch_dims", 0)
        axes = shape[batch : batch + _shape(graph, node.input[1])[-1]]
        extent = min(axes, default=0)
    else:
        extent = shape[attributes.get("axis", 0)]
    return Range(0, extent - 1, f"rows of {node.input[0]!r}") if extent else None


def _shape(graph: OnnxGraph, name: str) -> tuple[int, ...]:
    return graph.constants[name].shape if name in graph.constants else graph.tensors[name].shape


def _shift(graph: OnnxGraph, node: Any, place: int) -> int | None:
    other = node.input[1 - place]
    value = graph.constants.get(other)
    if (
        value is None
        or value.size != 1
        or value.dtype.kind not in "iu"
        or (node.op_type == "Sub" and place == 1)
    ):
        return None
    return int(value.reshape(-1)[0]) * (1 if node.op_type == "Add" else -1)


def _is_integer(graph: OnnxGraph, name: str) -> bool:
    return name in graph.tensors and np.dtype(graph.tensors[name].dtype).kind in "iu"


def _is_wide(info: TensorInfo) -> bool:
    kind = np.dtype(info.dtype)
    return kind.kind == "b" or (kind.kind in "iu" and kind.itemsize > 2)


def _numbers(graph: OnnxGraph, names: Any) -> set[str]:
    """The inputs that are compared, chosen among, or made floats that are multiplied, and nothing else: no
    result can be out of range of anything, or lost in a sum, however large they are."""
    readers, found = graph.consumers(), set()
    for name in names:
        todo, seen, fine = [name], set(), True
        while todo and fine:
            tensor = todo.pop()
            if tensor in seen or tensor not in graph.tensors:
                continue
            seen.add(tensor)
            kind = np.dtype(graph.tensors[tensor].dtype).kind
            for node in readers.get(tensor, ()):
                # A float of any size may become an integer again, which processors disagree about.
                back = node.op_type == "Cast" and kind == "f" and _is_integer(graph, node.output[0])
                known = _MOVES | _NUMBERS | {"Concat"} | (_EXACT if kind == "f" else set())
                fine = fine and not back and node.op_type in known
                todo += node.output
        if fine and np.dtype(graph.inputs[name].dtype).kind in "iu":
            found.add(name)
    return found


def _usual(value: Array, range_: Range | None, rng: np.random.Generator) -> Array:
    """Rows from all of a table, the last and the first among them; ``value`` where there is no table."""
    if range_ is None:
        return value
    drawn = rng.integers(range_.low, range_.high, value.shape, endpoint=True).astype(value.dtype)
    flat = drawn.reshape(-1)
    if not range_.length:
        flat[:1], flat[1:2] = range_.high, range_.low
    return flat.reshape(value.shape)


def _above_zero(info: TensorInfo, range_: Range | None, rng: np.random.Generator) -> Array:
    """Numbers that divide: small ones, as others would make most quotients 0."""
    low, high = (1, DIVISOR) if range_ is None else (range_.low, min(range_.high, DIVISOR))
    return rng.integers(min(max(low, 1), high), high, info.shape, endpoint=True).astype(info.dtype)


def _ends(info: TensorInfo) -> Array:
    kind = np.dtype(info.dtype)
    return np.resize(np.array([np.iinfo(kind).max, np.iinfo(kind).min, 0, 1], kind), info.shape)


def _at_length(info: TensorInfo, range_: Range | None, short: bool, rng: np.random.Generator) -> Array:
    """What an input holds where sequences are long or short: masks begin with ones."""
    shape, kind = info.shape, np.dtype(info.dtype)
    if range_ is not None and range_.length:
        return np.full(shape, range_.low if short else range_.high, kind)
    if range_ is not None:
        return _usual(np.zeros(shape, kind), range_, rng)
    last = shape[-1] if shape else 1
    length = max(1, last // 8) if short else last
    return np.broadcast_to(np.arange(last) < length, shape or (1,)).astype(kind).reshape(shape)
