"""Unroll Loop, Scan and SequenceMap: the nodes of all turns, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper

from compiler.ir.checks import ModelError, graphs_of, nested, node_name
from compiler.ir.graph import Array, TensorInfo, attributes_of
from compiler.ir.names import fresh, reads
from compiler.passes.control_flow.inline import Written, inline
from compiler.passes.control_flow.scan import AXES_AS_INPUTS, at_once
from compiler.passes.control_flow.trip_counts import trips
from compiler.passes.shapes.axis_range import check_range

LOOPS = ("Loop", "Scan", "SequenceMap")
MOST_NODES = 8192
"""All turns of a loop come to at most so many."""
WITHOUT_BATCH = 9
"""The version of Scan since which there is no batch axis."""


def unrolled(
    node: NodeProto,
    model: ModelProto,
    known: Mapping[str, Array],
    tensors: Mapping[str, TensorInfo],
    lists: Mapping[str, Sequence[str]],
    taken: set[str],
) -> Written | None:
    """All turns of ``node``; None where it is not known yet how many there are, or there are too many.

    ``known`` and ``tensors`` are the values and shapes, and ``lists`` the sequences, that are known.
    Raises ModelError that names the node where there are too many, or none.
    """
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    turns = _Turns(node, taken, opset)
    if node.op_type == "Loop":
        count = trips(node, turns.body, known, opset)
        # Of one with too many turns the build makes a function, as of one that data end.
        return None if count is None or turns.too_many(count) else turns.loop(count)
    if node.op_type == "SequenceMap":
        if node.input[0] not in lists:
            return None
        return turns.map([lists.get(name) for name in node.input], len(lists[node.input[0]]))
    return turns.scan(tensors)


def decides(node: NodeProto) -> list[str]:
    """The names of what may decide how many turns there are."""
    return [name for name in (reads(node) if node.op_type == "Loop" else node.input) if name]


class _Turns:
    def __init__(self, node: NodeProto, taken: set[str], opset: int) -> None:
        self.node, self._taken, self._opset = node, taken, opset
        self.body: GraphProto = next(nested(node))
        self._written = Written()
        self._size = sum(len(graph.node) for graph in graphs_of(self.body))

    def too_many(self, count: int) -> bool:
        """Whether so many turns would be too many nodes."""
        return count * self._size > MOST_NODES

    def loop(self, count: int) -> Written:
        states = len(self.node.input) - 2
        ranks = [len(value.type.tensor_type.shape.dim) for value in self.body.input[:2]]

        def given(turn: int) -> list[str]:
            number = np.full([1] * ranks[0], turn, np.int64)
            return [self._constant(number), self._constant(np.full([1] * ranks[1], True))]

        results = self._run(count, list(self.node.input[2:]), given, first=1)
        self._finish(count, results[:states], results[states:], [0] * len(results), [])
        return self._written

    def scan(self, tensors: Mapping[str, TensorInfo]) -> Written | None:
        attributes = attributes_of(self.node)
        if self._opset < WITHOUT_BATCH:
            self._refuse(f"is of operator set {self._opset}; convert the model to a newer one")
        many = attributes["num_scan_inputs"]
        states = len(self.node.input) - many
        names = list(self.node.input[states:])
        if any(name not in tensors for name in names):
            return None
        if written := at_once(self.node, self._opset, tensors, self._taken):
            return written
        shapes = [tensors[name].shape for name in names]
        axes = attributes.get("scan_input_axes", [0] * many)
        for shape, axis in zip(shapes, axes, strict=True):
            check_range(self.node, [axis], len(shape))
        backwards = attributes.get("scan_input_directions", [0] * many)
        counts = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
        if len(counts) != 1:
            self._refuse(f"scans inputs of different lengths {sorted(counts)}")
        (count,) = counts

        def given(turn: int) -> list[str]:
            slices = []
            for name, axis, back in zip(names, axes, backwards, strict=True):
                if not count:
                    slices.append(self._constant(_slice_of(tensors[name], axis)))
                    continue
                place = self._constant(np.array(count - 1 - turn if back else turn, np.int64))
                slices.append(self._fresh(f"{turn}/{name}"))
                self._written.node("Gather", [name, place], slices[-1], self.node, axis=axis)
            return slices

        results = self._run(count, list(self.node.input[:states]), given, first=0, states_first=True)
        outputs = len(self.node.output) - states
        stacked = list(attributes.get("scan_output_axes", [0] * outputs))
        back = list(attributes.get("scan_output_directions", [0] * outputs))
        self._finish(count, results[:states], results[states:], stacked, back)
        return self._written

    def map(self, lists: Sequence[Sequence[str] | None], count: int) -> Written:
        """SequenceMap: an input is a sequence, or a tensor that every turn gets."""
        names = list(self.node.input)

        def given(turn: int) -> list[str]:
            return [name if each is None else each[turn] for name, each in zip(names, lists, strict=True)]

        results = self._run(count, [], given, first=0)
        for output, parts in zip(self.node.output, results, strict=True):
            if output:
                self._written.node("SequenceConstruct", parts, output, self.node)
        return self._written

    def _run(
        self,
        count: int,
        states: list[str],
        given: Callable[[int], list[str]],
        first: int,
        states_first: bool = False,
    ) -> list[list[str]]:
        """Write all turns: the values of each state, its first one included, and of each other result.

        ``first`` is how many results of the body come before its states. Where there is no turn and other
        results are wanted, one is written: what it would make has their shape, and nobody reads it.
        """
        body = self.body
        wanted = (len(self.node.input), first + len(self.node.output))
        if (len(body.input), len(body.output)) != wanted:
            self._refuse("has a nested graph with other inputs or outputs than its own")
        if self.too_many(count):
            self._refuse(
                f"computes {self._size} nodes {count} times; at most {MOST_NODES} nodes are written for it"
            )
        values = [[name] for name in states]
        place = 0 if states_first else len(body.input) - len(states)
        inputs = [value.name for value in body.input[place : place + len(states)]]
        # States that every turn leaves as they are: weights, mostly.
        still = {
            name: state
            for name, result, state in zip(inputs, body.output[first:], states, strict=False)
            if name == result.name
        }
        others: list[list[str]] = [[] for _ in body.output[first + len(states) :]]
        inner, shared = self._invariant(still)
        one = any(self.node.output[len(states) :]) and self.node.op_type != "SequenceMap"
        for turn in range(count or int(one)):
            current = [each[-1] for each in values]
            passed = [*current, *given(turn)] if states_first else [*given(turn), *current]
            names = {value.name: name for value, name in zip(body.input, passed, strict=True)}
            ends = [
                still.get(value.name, "") or self._fresh(f"{turn}/{value.name}")
                for value in body.output[first:]
            ]
            outs = [*[""] * first, *ends]
            prefix = f"{node_name(self.node)}/{turn}"
            self._written.add(inline(self.node, inner, outs, self._taken, {**shared, **names}, prefix))
            for each, name in zip([*values, *others], ends, strict=True):
                each.append(name)
        return [*values, *others]

    def _invariant(self, still: Mapping[str, str]) -> tuple[GraphProto, dict[str, str]]:
        """The body without what is the same in every turn, which is written once; and the names that has."""
        varying = {value.name for value in self.body.input} - still.keys()
        inner, outer = GraphProto(), GraphProto()
        inner.output.extend(self.body.output)
        outer.initializer.extend(self.body.initializer)
        for each in self.body.node:
            if varying.intersection(reads(each)) or each.op_type.startswith(("Random", "Bernoulli")):
                varying.update(each.output)
                inner.node.append(each)
            else:
                outer.node.append(each)
        own = [tensor.name for tensor in outer.initializer]
        own += [name for each in outer.node for name in each.output if name]
        shared = {**still, **{name: self._fresh(name) for name in own}}
        self._written.add(inline(self.node, outer, [], self._taken, shared))
        return inner, shared

    def _finish(
        self,
        count: int,
        states: list[list[str]],
        scans: list[list[str]],
        axes: list[int],
        backwards: list[int],
    ) -> None:
        """The value of each state after all turns, and the values of each other result stacked."""
        outputs = list(self.node.output)
        for name, values in zip(outputs, states, strict=False):
            if name:
                self._written.node("Identity", [values[count]], name, self.node)
        for place, (name, values) in enumerate(zip(outputs[len(states) :], scans, strict=False)):
            if not name:
                continue
            wide = [self._unsqueezed(value, axes[place]) for value in values]
            if not count:
                nobody = self._constant(np.zeros(0, np.int64))
                self._written.node("Gather", [*wide, nobody], name, self.node, axis=axes[place])
                continue
            ordered = wide[::-1] if backwards and backwards[place] else wide
            self._written.node("Concat", ordered, name, self.node, axis=axes[place])

    def _unsqueezed(self, name: str, axis: int) -> str:
        wide = self._fresh(f"{name}/row")
        if self._opset < AXES_AS_INPUTS:
            self._written.node("Unsqueeze", [name], wide, self.node, axes=[axis])
        else:
            self._written.node("Unsqueeze", [name, self._constant(np.array([axis]))], wide, self.node)
        return wide

    def _constant(self, value: Array) -> str:
        name = self._fresh("constant")
        self._written.constants.append(numpy_helper.from_array(value, name))
        return name

    def _fresh(self, name: str) -> str:
        return fresh(f"{node_name(self.node)}/{name}", self._taken)

    def _refuse(self, reason: str) -> NoReturn:
        raise ModelError(f"node {node_name(self.node)!r} ({self.node.op_type}) {reason}")


def _slice_of(info: TensorInfo, axis: int) -> Array:
    """A turn's share of a tensor, as zeros."""
    shape = list(info.shape)
    del shape[axis]
    return np.zeros(shape, info.dtype)
