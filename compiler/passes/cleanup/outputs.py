"""Separate outputs: inputs given back, constants, and one tensor given twice get a node of their own."""

from __future__ import annotations

from onnx import ModelProto, ValueInfoProto, helper

from compiler.ir.names import fresh, names_of

NAME = "tilefleet.name"
"""Key of the metadata of an output: what the file calls it, where the graph calls it something else."""


def separate_outputs(model: ModelProto) -> None:
    """Let every output of ``model`` be a tensor of its own that a node makes, in place."""
    graph = model.graph
    known = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    kinds = {value.name: value.type for value in graph.input}
    kinds |= {
        tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    if len(known.union(value.name for value in graph.output)) == len(known) + len(graph.output):
        return
    taken = set(names_of(graph))
    for value in graph.output:
        if value.name not in known:
            known.add(value.name)
            continue
        name = value.name
        if name in kinds:
            value.type.CopyFrom(kinds[name])
        value.name = fresh(f"{name}/result", taken)
        value.metadata_props.add(key=NAME, value=name)
        graph.node.append(helper.make_node("Identity", [name], [value.name], name=value.name))


def name_of(value: ValueInfoProto) -> str:
    """What the file calls an output."""
    return next((each.value for each in value.metadata_props if each.key == NAME), str(value.name))
