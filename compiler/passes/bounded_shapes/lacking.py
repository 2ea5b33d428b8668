"""Runs that end where data have fewer elements than a node needs, before anything is computed of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from compiler.ir.checks import node_name
from compiler.ir.own_nodes import NEEDS
from compiler.passes.bounded_shapes.state import Axes, Fill, Size, State, exactly


def enough(state: State, name: str, least: Mapping[int, int], fill: Fill) -> str:
    """``name``; the run ends where it has fewer than ``least`` elements along these axes.

    What does not count is ``fill`` where that had to be looked at.
    """
    axes = state.axes_of(name)
    for axis, count in least.items():
        if axes[axis].low < count:
            there = behind(state, none_lacks(state, exactly(count), axes[axis]), axes[axis])
            name = state.masked(counted(state, name, axes | {axis: there}), fill, [axis])
            state.axes[name] = axes
    return name


def none_lacks(state: State, size: Size, there: Size) -> str:
    """A zero, int64 of one element, that is there where ``size`` elements are; else the run ends."""
    zero = state.constant(np.array([0]))
    less = state.add("Sub", [state.count(size), state.count(there)])
    less = state.add("Where", [state.add("Less", [less, zero]), zero, less])
    needs = [f"node {node_name(state.around)!r} ({state.around.op_type})", "a lack of elements"]
    name = state.add("Gather", [zero, less])
    state.nodes[-1].metadata_props.add(key=NEEDS, value=json.dumps(needs))
    return name


def behind(state: State, zero: str, size: Size) -> Size:
    """``size``, which is not known before ``zero`` is."""
    return Size(size.low, size.high, state.add("Add", [state.count(size), zero]))


def counted(state: State, name: str, axes: Axes) -> str:
    """``name``; as many of its elements count as ``axes`` say."""
    made = state.add("Identity", [name])
    state.axes[made] = axes
    return made
