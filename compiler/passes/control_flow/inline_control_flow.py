"""Inline control flow: If, Loop, Scan and sequences of tensors become plain nodes.

An If becomes the branch that it takes, a Loop or Scan the nodes of all its turns, and a sequence the tensors
that are in it. Where only data tells which branch is taken, both are computed and a Where chooses, or the one
that has all the work is a Loop of at most one turn; a Loop that data end stays one node.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from compiler.ir.checks import MAX_NODES, ModelError, node_name
from compiler.ir.graph import Array, TensorInfo
from compiler.ir.names import names_of, reads
from compiler.ir.own_nodes import declare_own
from compiler.passes.cleanup.dead_code import needed
from compiler.passes.control_flow.branches import Choice, branch_of, inlined
from compiler.passes.control_flow.inline import Written
from compiler.passes.control_flow.lazy_branches import lazy
from compiler.passes.control_flow.sequences import SEQUENCES, Sequences, numbers_of, way_out
from compiler.passes.control_flow.unroll import LOOPS, decides, unrolled
from compiler.passes.control_flow.while_loops import Read, kept
from compiler.passes.shapes.blame import blame_inputs
from compiler.passes.shapes.folding import folded

_OPEN = {"If", *LOOPS, *SEQUENCES}


def is_open(node: NodeProto) -> bool:
    """Whether ``inline_control_flow`` writes such a node as others."""
    return node.op_type in _OPEN and node.domain in ("", "ai.onnx")


def inline_control_flow(model: ModelProto, read: Read) -> None:
    """Write plain nodes for all that ``is_open``; input shapes are fixed, and the model is checked.

    A Loop that data end becomes one node; ``read`` makes a graph of its body.

    Raises ModelError that names a node for which that cannot be, or that the value of an input would decide.
    """
    if any(is_open(node) for node in model.graph.node):
        _Settler(model, read).run()


class _Settler:
    def __init__(self, model: ModelProto, read: Read) -> None:
        self._read = read
        self._model, self._nodes = model, list(model.graph.node)
        self._taken = set(names_of(model.graph))
        self._known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._tensors: dict[str, TensorInfo] = {}
        self._initializers: list[TensorProto] = []
        self._sequences = Sequences(model, self._taken)
        self._choices: list[Choice] = []

    def run(self) -> None:
        while any(self._waits(node) for node in self._nodes):
            _, self._tensors = folded(self._model, list(self._ready()), self._known)
            if not self._write():
                self._choose()
            if len(self._nodes) > MAX_NODES:
                raise ModelError(f"its loops and branches come to more than {MAX_NODES} nodes")
        if self._choices:
            self._check_choices()
        graph = self._model.graph
        outputs = [value.name for value in graph.output]
        for name in outputs:
            if name in self._sequences.lists:
                by = next((node.op_type for node in graph.node if name in node.output), "the model")
                raise ModelError(
                    f"output {name!r} is a sequence ({by}); export the model with tensors as outputs"
                )
        self._nodes = needed(self._nodes, outputs)  # a branch that is not taken leaves others behind
        del graph.node[:]
        graph.node.extend(self._nodes)
        graph.initializer.extend(self._initializers)

    def _waits(self, node: NodeProto) -> bool:
        return is_open(node) or self._sequences.has(node)

    def _ready(self) -> Iterator[NodeProto]:
        """The nodes that depend on nothing open: what a branch has that is not taken need not fit."""
        unknown = set(self._sequences.lists)
        for node in self._nodes:
            if self._waits(node) or unknown.intersection(node.input):
                unknown.update(node.output)
            elif any(name not in self._known for name in node.output):
                yield node

    def _write(self) -> bool:
        """Replace whatever is decided by now; whether there was anything."""
        following: list[NodeProto] = []
        moved = False
        for node in self._nodes:
            written = self._written(node) if self._waits(node) else None
            if written is None:
                following.append(node)
                continue
            moved = True
            following += written.nodes
            self._take(written)
        self._nodes = following
        return moved

    def _take(self, written: Written) -> None:
        self._initializers += written.constants
        self._known |= {tensor.name: numpy_helper.to_array(tensor) for tensor in written.constants}

    def _written(self, node: NodeProto) -> Written | None:
        if node.op_type == "If":
            condition: Array | None = self._known.get(node.input[0])
            return None if condition is None else inlined(node, branch_of(node, condition), self._taken)
        if node.op_type in LOOPS:
            return unrolled(node, self._model, self._known, self._tensors, self._sequences.lists, self._taken)
        return self._sequences.written(node, self._known, self._tensors)

    def _choose(self) -> None:
        """Both branches of the first If, which data decides, or a Loop; ModelError for anything else."""
        node = next(node for node in self._nodes if self._waits(node))
        named = f"node {node_name(node)!r} ({node.op_type})"
        if node.op_type == "Loop":
            self._keep(node)
            return
        if node.op_type != "If":
            deciding = [name for name in numbers_of(node) if name not in self._known]
            blame_inputs(
                self._model, self._nodes, node, deciding or decides(node), reads, arrays=not deciding
            )
            raise ModelError(
                f"{named} has a sequence whose length, or a place in it, depends on data{way_out(node)}"
            )
        blame_inputs(self._model, self._nodes, node, [node.input[0]], reads, arrays=False)
        if written := lazy(node, self._taken):
            self._put(node, written)
            return
        choice = Choice(node, self._taken)
        self._choices.append(choice)
        self._put(node, choice.written)

    def _keep(self, node: NodeProto) -> None:
        """A Loop as one node, as data tell how many turns it has."""
        try:
            written = kept(node, self._model, self._known, self._tensors, self._taken, self._read)
        except ModelError:
            blame_inputs(self._model, self._nodes, node, decides(node), reads)
            raise
        declare_own(self._model)
        self._put(node, written)

    def _put(self, node: NodeProto, written: Written) -> None:
        at = next(place for place, each in enumerate(self._nodes) if each is node)
        self._nodes[at : at + 1] = written.nodes
        self._take(written)

    def _check_choices(self) -> None:
        try:
            _, tensors = folded(self._model, self._nodes, dict(self._known))
        except ModelError as error:
            names = ", ".join(repr(node_name(choice.node)) for choice in self._choices)
            raise ModelError(
                f"{error}; data decides {names} (If), so both branches would be computed"
            ) from None
        for choice in self._choices:
            choice.check(self._known, tensors)
