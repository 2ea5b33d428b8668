"""A model in pieces: what comes before a choice is a result, and what comes behind is given to it.

Where little differences become great ones on the way, no result says much of a build; each piece does, on
what the definition has before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt
from onnx import AttributeProto, GraphProto, ModelProto, ValueInfoProto, helper

from compiler.ir.graph import OnnxGraph
from tuner.backend.choices import CHOICES, feeds_of_choices, feeds_of_steps, is_step

Array = npt.NDArray[Any]

QUANTIZING = {
    *("DynamicQuantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulNBits", "QAttention"),
    *("QuantizeLinear",),
}
"""Operators that round their first input to quanta, where a little difference becomes that of one."""
MOST = 256
"""Places at which a model is cut."""


def cuts_of(model: ModelProto, graph: OnnxGraph, chaotic: bool, coarse: bool) -> list[str]:
    """The tensors at which to cut: what feeds choices; where results are ``coarse`` what feeds steps, and of
    a ``chaotic`` model what is quantized as well. ``graph`` is the model with its constants folded."""
    names = feeds_of_choices(model)
    if chaotic or coarse:
        names += feeds_of_steps(model, graph)
    if chaotic:
        names += [node.input[0] for node in model.graph.node if node.op_type in QUANTIZING]
    made = {name for node in model.graph.node for name in node.output}
    outside = _read_inside(model.graph)
    return [name for name in dict.fromkeys(names) if name in made and name not in outside][:MOST]


def exact_inputs(model: ModelProto, given: Collection[str]) -> set[str]:
    """The inputs of which a choice is made, or which are rounded to quanta, at once; and of those that were
    ``given`` because of a cut what goes into a step."""
    nodes = model.graph.node
    read = {name for node in nodes if node.op_type in {*CHOICES, *QUANTIZING} for name in node.input}
    stepped = {name for node in nodes if is_step(node) for name in node.input}
    return read.intersection(each.name for each in model.graph.input) | stepped.intersection(given)


def cut(model: ModelProto, values: Mapping[str, Array]) -> tuple[ModelProto, dict[str, str]]:
    """The model cut at the tensors in ``values``, and what each is called where it is an input: a result as
    it was, read by others as that input."""
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    given = {}
    for name, value in values.items():
        given[name] = f"{name}/given"
        while given[name] in taken:
            given[name] += "_"
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(helper.make_tensor_value_info(given[name], kind, value.shape))
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = given.get(name, name)
    there = {each.name for each in graph.output}
    graph.output.extend(ValueInfoProto(name=name) for name in values if name not in there)
    for each in graph.output:
        if each.name in values:
            shaped = values[each.name]
            kind = helper.np_dtype_to_tensor_dtype(shaped.dtype)
            each.CopyFrom(helper.make_tensor_value_info(each.name, kind, shaped.shape))
    return result, given


def _read_inside(graph: GraphProto, deep: bool = False) -> set[str]:
    """The tensors that subgraphs read."""
    found: set[str] = set()
    for node in graph.node:
        found |= set(node.input) if deep else set()
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found |= _read_inside(attribute.g, True)
    return found
