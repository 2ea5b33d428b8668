"""The cheapest layout of every tensor of a graph: an exact minimum by eliminating one tensor after another.

Pure: what a graph's nodes cost in which layouts comes in as tables (``Link``).

A tensor's state is the layout it is written in and the layouts it is converted to besides; a conversion is
paid once, whoever reads the result. A node couples what it reads with what it writes, so all costs are
tables over one or two tensors, and a tensor is eliminated by minimising over its states for every
combination of its neighbours' (min-sum variable elimination; on a chain this is the shortest path).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Convert = Callable[[str, str, str], float]
"""(tensor, from, to) -> seconds."""

LARGEST_TABLE = 1_000_000
"""Entries of the largest table that is worked with; graphs that need more lose a choice or two."""


@dataclass(frozen=True)
class Tensor:
    """``written``: the layouts that its writer may choose from; ``readable``: all that it may have."""

    written: tuple[str, ...]
    readable: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """The node that writes ``target`` reads ``source``; ``seconds`` by (layout read, layout written).

    Pairs that are not listed cannot be had. ``target`` is None for a node whose result has no layouts: then
    the second layout is the empty word.
    """

    source: str
    target: str | None
    seconds: Mapping[tuple[str, str], float]


class State(NamedTuple):
    """What becomes of one tensor."""

    written: str
    converted: tuple[str, ...] = ()

    def has(self, layout: str) -> bool:
        """Whether readers find the tensor in ``layout``."""
        return layout == self.written or layout in self.converted


@dataclass(frozen=True)
class Solution:
    """States by tensor, the layout that each link reads, and the cost of all in seconds."""

    states: Mapping[str, State]
    reads: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class _Table:
    """Costs over the states of ``names``, one axis each."""

    names: tuple[str, ...]
    costs: Array


def solve(
    tensors: Mapping[str, Tensor],
    links: Sequence[Link],
    convert: Convert,
    largest_table: int = LARGEST_TABLE,
) -> Solution:
    """The assignment of least cost. Raises ValueError when no assignment serves every link.

    Where a table would get larger than ``largest_table`` the tensor with most neighbours is kept in the
    first layout of its ``written`` beforehand, and the result is the best under that restriction.
    """
    states = {name: _states(tensor) for name, tensor in tensors.items()}
    tables = [_conversions(name, states[name], convert) for name in tensors]
    tables += [_link_table(link, states) for link in links]
    chosen = _eliminate(states, tables, largest_table)
    total = sum(float(table.costs[tuple(chosen[name] for name in table.names)]) for table in tables)
    if math.isinf(total):
        raise ValueError("no choice of layouts serves every node of the graph")
    final = {name: states[name][chosen[name]] for name in tensors}
    return Solution(final, tuple(_read(link, final) for link in links), total)


def _states(tensor: Tensor) -> list[State]:
    """All states, those with fewer conversions first: of equal costs the first is taken."""
    found = []
    for count in range(len(tensor.readable)):
        for written in tensor.written:
            others = [layout for layout in tensor.readable if layout != written]
            found += [State(written, extra) for extra in itertools.combinations(others, count)]
    return found


def _conversions(name: str, states: list[State], convert: Convert) -> _Table:
    costs = [sum(convert(name, state.written, to) for to in state.converted) for state in states]
    return _Table((name,), np.array(costs, np.float64))


def _link_table(link: Link, states: Mapping[str, list[State]]) -> _Table:
    if link.target is None:
        row = [_cheapest(link, state, "")[0] for state in states[link.source]]
        return _Table((link.source,), np.array(row, np.float64))
    costs = {
        (state, written): _cheapest(link, state, written)[0]
        for state in states[link.source]
        for written in {state.written for state in states[link.target]}
    }
    rows = [[costs[read, to.written] for to in states[link.target]] for read in states[link.source]]
    return _Table((link.source, link.target), np.array(rows, np.float64))


def _cheapest(link: Link, state: State, written: str) -> tuple[float, str]:
    """The least seconds of a link that finds its source in ``state``, and the layout to read then."""
    options = [
        (seconds, read) for (read, to), seconds in link.seconds.items() if to == written and state.has(read)
    ]
    return min(options, default=(math.inf, ""), key=lambda option: option[0])


def _read(link: Link, states: Mapping[str, State]) -> str:
    written = "" if link.target is None else states[link.target].written
    return _cheapest(link, states[link.source], written)[1]


def _eliminate(states: dict[str, list[State]], tables: list[_Table], largest: int) -> dict[str, int]:
    """The number of the best state of each tensor."""
    left, fixed = list(tables), dict[str, int]()
    order: list[tuple[str, _Table]] = []
    remaining = dict.fromkeys(states)
    while remaining:
        neighbours = _neighbours(left, remaining)
        name = min(remaining, key=lambda name: _size(neighbours[name] | {name}, states))
        if _size(neighbours[name] | {name}, states) > largest:
            widest = max(remaining, key=lambda name: len(neighbours[name]))
            fixed[widest] = _plain(widest, states[widest], left)
            left = [_restrict(table, widest, fixed[widest]) for table in left]
            del remaining[widest]
            continue
        near = [table for table in left if name in table.names]
        joined = _join(name, near, states)
        order.append((name, joined))
        left = [table for table in left if name not in table.names]
        left.append(_Table(joined.names[:-1], joined.costs.min(axis=-1)))
        del remaining[name]
    chosen = dict(fixed)
    for name, joined in reversed(order):
        row = joined.costs[tuple(chosen[other] for other in joined.names[:-1])]
        chosen[name] = int(np.argmin(row))
    return chosen


def _neighbours(tables: list[_Table], names: Mapping[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names}
    for table in tables:
        for name in table.names:
            found[name].update(other for other in table.names if other != name)
    return found


def _size(names: set[str], states: Mapping[str, list[State]]) -> int:
    return math.prod(len(states[name]) for name in names)


def _plain(name: str, states: list[State], tables: list[_Table]) -> int:
    """The first state with which every table can still be satisfied; without conversions if there is one."""
    near = [(table, table.names.index(name)) for table in tables if name in table.names]
    for number in range(len(states)):
        if all(np.isfinite(table.costs.take(number, axis)).any() for table, axis in near):
            return number
    return len(states) - 1


def _restrict(table: _Table, name: str, state: int) -> _Table:
    if name not in table.names:
        return table
    axis = table.names.index(name)
    costs = np.take(table.costs, np.array([state]), axis).squeeze(axis)
    return _Table(table.names[:axis] + table.names[axis + 1 :], costs)


def _join(name: str, tables: list[_Table], states: Mapping[str, list[State]]) -> _Table:
    """The sum of ``tables``, with ``name`` as its last axis."""
    others = sorted({other for table in tables for other in table.names} - {name})
    names = (*others, name)
    total = np.zeros([len(states[other]) for other in names])
    for table in tables:
        axes = sorted(range(len(table.names)), key=lambda axis: names.index(table.names[axis]))
        shape = [len(states[other]) if other in table.names else 1 for other in names]
        total += table.costs.transpose(axes).reshape(shape)
    return _Table(names, total)
