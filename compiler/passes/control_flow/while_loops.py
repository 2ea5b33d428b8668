"""While loops (data decide the trip count): the body is compiled as a function, called by one node."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import NoReturn

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes

from compiler.ir.checks import ModelError, nested, node_name
from compiler.ir.graph import Array, OnnxGraph, TensorInfo
from compiler.ir.names import fresh, reads
from compiler.ir.own_nodes import LOOP, OWN_DOMAIN
from compiler.passes.control_flow.inline import Written

Read = Callable[[ModelProto], OnnxGraph]
"""Makes a graph of the model that a body is."""
HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
WAY_OUT = "export the loop with a constant number of turns, or cut the model before it"


def refuse_own(model: ModelProto) -> None:
    """Raise ModelError where a file has nodes that only this package writes."""
    if any(node.domain == OWN_DOMAIN for node in model.graph.node):
        raise ModelError(f"the model has operators that are not standard ONNX, of {OWN_DOMAIN}")


def kept(
    node: NodeProto,
    model: ModelProto,
    known: Mapping[str, Array],
    tensors: Mapping[str, TensorInfo],
    taken: set[str],
    read: Read,
) -> Written:
    """``node``, a Loop, as one of ours with all that its body reads as inputs.

    Raises ModelError where a value changes its shape from turn to turn, or where nothing limits how many
    values are collected.
    """
    return _Kept(node, model, known, tensors, taken).written(read)


class _Kept:
    def __init__(
        self,
        node: NodeProto,
        model: ModelProto,
        known: Mapping[str, Array],
        tensors: Mapping[str, TensorInfo],
        taken: set[str],
    ) -> None:
        self.node, self._model, self._known, self._tensors, self._taken = node, model, known, tensors, taken
        self.body = next(nested(node))
        self.states = len(node.input) - 2
        self._spread: dict[int, TensorInfo] = {}
        if len(self.body.input) != 2 + self.states or len(self.body.output) != 1 + len(node.output):
            self._refuse("has a nested graph with other inputs or outputs than its own")
        if any(value.type.HasField("sequence_type") for value in self.body.input):
            self._refuse(
                "hands a sequence from turn to turn, and data tell how many turns there are: export it with "
                "what each turn makes as a result of the turn, which Loop stacks, and not SequenceInsert"
            )
        limit = node.input[0]
        self.most = max(0, int(known[limit].item())) if limit in known else None

    def written(self, read: Read) -> Written:
        around = [name for name in dict.fromkeys(self._captured()) if name not in self._known]
        body = self._model_of(around)
        try:
            graph = read(body)
        except ModelError as error:
            raise ModelError(f"in node {node_name(self.node)!r} ({self.node.op_type}): {error}") from None
        made = [graph.tensors[name] for name in graph.outputs[1:]]
        if self._alike(made):
            return self.written(read)
        for name, before, after in zip(self.node.input[2:], self._firsts(), made, strict=False):
            if before != after:
                self._refuse(
                    f"makes {after.dtype} of {list(after.shape)} of {name!r}, which is {before.dtype} of "
                    f"{list(before.shape)}: data end it, so all its values must keep their shapes; {WAY_OUT}"
                )
        return self._node(body, around, made)

    def _alike(self, made: list[TensorInfo]) -> bool:
        """Whether states that are one number in another shape than they begin with are made alike here.

        What a turn makes of one number gets that shape. What no turn reads begins in the shape that turns
        give it: that of a variable that a program does not set before the loop.
        """
        used = {name for node in self.body.node for name in reads(node)}
        used |= {value.name for value in self.body.output}
        found = False
        for at, (before, after) in enumerate(zip(self._firsts(), made, strict=False)):
            output = self.body.output[1 + at]
            if before == after or before.elem_type != after.elem_type or math.prod(before.shape) != 1:
                continue
            if math.prod(after.shape) == 1:
                shape, name = (self._fresh(f"{output.name}/{word}") for word in ("shape", "state"))
                tensor = numpy_helper.from_array(np.array(before.shape, np.int64), shape)
                self.body.initializer.append(tensor)
                self.body.node.append(helper.make_node("Reshape", [output.name, shape], [name], name=name))
                output.CopyFrom(helper.make_tensor_value_info(name, before.elem_type, before.shape))
            elif self.body.input[2 + at].name in used or len(before.shape) > len(after.shape):
                continue
            else:
                self._spread[at] = after
            found = True
        return found

    def _captured(self) -> list[str]:
        """What the body reads of the graph around it."""
        own = {value.name for value in self.body.input} | {each.name for each in self.body.initializer}
        own |= {name for each in self.body.node for name in each.output}
        used = [name for each in self.body.node for name in reads(each)]
        used += [value.name for value in self.body.output]
        return [name for name in used if name and name not in own]

    def _firsts(self) -> list[TensorInfo]:
        """Shapes and types of the values that a turn hands on to the next."""
        firsts = [self._info(name) for name in self.node.input[2:]]
        return [self._spread.get(at, info) for at, info in enumerate(firsts)]

    def _info(self, name: str) -> TensorInfo:
        if name not in self._tensors:
            self._refuse(f"reads {name!r}, the shape of which cannot be determined")
        info = self._tensors[name]
        if info.elem_type in HALVES:
            self._refuse(f"is ended by data and reads floats of 16 bits, {name!r}; export it as float32")
        return info

    def _model_of(self, around: list[str]) -> ModelProto:
        """The body as a model of a turn's number, a truth, the values, and what it reads around it."""
        ranks = [len(value.type.tensor_type.shape.dim) for value in self.body.input[:2]]
        kinds = (TensorProto.INT64, TensorProto.BOOL)
        infos = [TensorInfo((1,) * rank, kind) for rank, kind in zip(ranks, kinds, strict=True)]
        infos += [*self._firsts(), *map(self._info, around)]
        names = [*(value.name for value in self.body.input), *around]
        inputs = [
            helper.make_tensor_value_info(name, info.elem_type, info.shape)
            for name, info in zip(names, infos, strict=True)
        ]
        constants = [
            numpy_helper.from_array(np.asarray(self._known[name]), name)
            for name in dict.fromkeys(self._captured())
            if name in self._known
        ]
        nodes, outputs = list(self.body.node), []
        for at, value in enumerate(self.body.output):
            # A result may be an input, a constant, or there twice.
            outputs.append(f"{value.name}/result{at}")
            nodes.append(helper.make_node("Identity", [value.name], [outputs[-1]], name=outputs[-1]))
        graph = helper.make_graph(
            nodes,
            "body",
            inputs,
            [helper.make_value_info(name, TypeProto()) for name in outputs],
            [*self.body.initializer, *constants],
        )
        made = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=8)
        for value, found in zip(graph.output, infer_shapes(made).graph.output, strict=True):
            value.type.tensor_type.elem_type = found.type.tensor_type.elem_type
        return helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=8)

    def _node(self, body: ModelProto, around: list[str], made: list[TensorInfo]) -> Written:
        written = Written()
        outputs, shapes = [], []
        lines = []
        for at, name in enumerate(self.node.output):
            if at < self.states or not name:
                outputs.append(name or self._fresh("unused"))
                shapes.append((made[at].shape, made[at].elem_type))
                if at >= self.states:
                    self._room(outputs[-1])
                    shapes[-1] = ((self.most or 1, *made[at].shape), made[at].elem_type)
                continue
            outputs.append(self._fresh(f"{name}/room"))
            shapes.append(((self._room(name), *made[at].shape), made[at].elem_type))
            lines.append((outputs[-1], name))
        outputs.append(self._fresh("turns"))
        shapes.append(((1,), TensorProto.INT64))
        first, condition = [*self.node.input, ""][:2]
        inputs = [self._given(first, np.array([2**62])), self._given(condition, np.array([True]))]
        for constant in inputs:
            if isinstance(constant, TensorProto):
                written.constants.append(constant)
        names = [each.name if isinstance(each, TensorProto) else each for each in inputs]
        states = list(self.node.input[2:])
        for at, info in self._spread.items():
            shape = numpy_helper.from_array(np.array(info.shape, np.int64), self._fresh("shape"))
            written.constants.append(shape)
            states[at] = self._fresh("first")
            written.node("Expand", [self.node.input[2 + at], shape.name], states[at], self.node)
        made_node = helper.make_node(
            LOOP,
            [*names, *states, *around],
            outputs,
            name=node_name(self.node),
            domain=OWN_DOMAIN,
            body=body.SerializeToString(),
            states=self.states,
            room=json.dumps(shapes),
        )
        written.nodes.append(made_node)
        zero = numpy_helper.from_array(np.array([0]), self._fresh("zero"))
        if lines:
            written.constants.append(zero)
        for room, name in lines:
            written.node("Slice", [room, zero.name, outputs[-1], zero.name], name, self.node)
        return written

    def _room(self, name: str) -> int:
        """How many values may be collected."""
        if self.most is None:
            self._refuse(
                f"collects {name or 'values'!r} until data end it, and no constant limits its turns; "
                f"{WAY_OUT}"
            )
        return self.most

    def _given(self, name: str, default: Array) -> str | TensorProto:
        return name or numpy_helper.from_array(default, self._fresh("given"))

    def _fresh(self, name: str) -> str:
        return fresh(f"{node_name(self.node)}/{name}", self._taken)

    def _refuse(self, reason: str) -> NoReturn:
        raise ModelError(f"node {node_name(self.node)!r} ({self.node.op_type}) {reason}")
