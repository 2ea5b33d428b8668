"""The model after each pass as text, for ``tilefleet build --dump-ir``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper

from compiler.ir.checks import MAX_NODES
from compiler.ir.graph import OnnxGraph
from compiler.ir.partition import Partition
from compiler.passes.compilation import Compilation, Pass

SHOWN = 4
"""Constants of up to so many elements are shown with their values, others with their type alone."""
LONGEST = 80


class IrDump:
    """An observer of passes that writes a file for each into ``folder``: ``01-SortNodes.txt``, ..."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, each: Pass, compilation: Compilation) -> None:
        """Write what ``each`` has left."""
        self._count += 1
        lines = [f"# {each.name}: {each.why}", *ir_text(compilation)]
        path = self._folder / f"{self._count:02}-{each.name}.txt"
        path.write_text("\n".join(lines) + "\n")


def ir_text(compilation: Compilation) -> Iterator[str]:
    """The lines of a compilation: the model before it is imported, else the partition."""
    if compilation.partition is None:
        yield from _model(compilation.model)
    else:
        yield from _partition(compilation.partition)


def _model(model: ModelProto) -> Iterator[str]:
    graph = model.graph
    yield f"opsets {[(each.domain or 'ai.onnx', each.version) for each in model.opset_import]}"
    for what, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            kind = value.type.tensor_type
            shape = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
            known = str(shape) if kind.HasField("shape") else ""
            yield f"{what} {value.name}: {_type_name(kind.elem_type)}{known}"
    for tensor in graph.initializer:
        yield f"constant {tensor.name}: {_type_name(tensor.data_type)}{list(tensor.dims)}"
    yield from _nodes(graph.node[:MAX_NODES])


def _partition(partition: Partition) -> Iterator[str]:
    graph = partition.graph
    for name, info in graph.inputs.items():
        yield f"input {name}: {info.dtype}{list(info.shape)}"
    yield from (f"output {name}" for name in graph.outputs)
    yield from (f"constant {name}: {_array(value)}" for name, value in graph.constants.items())
    yield from _nodes(graph.nodes, _types(graph))
    for at, product in enumerate(partition.products):
        yield f"product {at}: {product.workload} of {', '.join(product.nodes)}"
    yield from (f"operator {at}: {each.what}" for at, each in enumerate(partition.operators))
    yield from (f"not tunable: {each.node} ({each.op}): {each.reason}" for each in partition.not_tunable)
    for at, body in enumerate(partition.bodies):
        yield from (f"body {at}: {line}" for line in _partition(body))


def _types(graph: OnnxGraph) -> dict[str, str]:
    return {name: f"{info.dtype}{list(info.shape)}" for name, info in graph.tensors.items()}


def _nodes(nodes: Iterable[NodeProto], types: Mapping[str, str] | None = None) -> Iterator[str]:
    for node in nodes:
        results = ", ".join(
            f"{name}: {types[name]}" if types and name in types else name for name in node.output
        )
        domain = f"{node.domain}." if node.domain else ""
        said = ", ".join(map(_attribute, node.attribute))
        yield f"{results} = {domain}{node.op_type}({', '.join(node.input)}){f' {{{said}}}' if said else ''}"


def _attribute(attribute: AttributeProto) -> str:
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        inner = [attribute.g, *attribute.graphs]
        return f"{attribute.name} = graph of {sum(len(each.node) for each in inner)} nodes"
    if attribute.type == AttributeProto.TENSOR:
        return f"{attribute.name} = {_type_name(attribute.t.data_type)}{list(attribute.t.dims)}"
    text = str(helper.get_attribute_value(attribute))
    return f"{attribute.name} = {text if len(text) <= LONGEST else text[:LONGEST] + '...'}"


def _array(value: np.ndarray[Any, Any]) -> str:
    shown = f" {value.tolist()}" if value.size <= SHOWN else ""
    return f"{value.dtype}{list(value.shape)}{shown}"


def _type_name(elem_type: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(elem_type)) if elem_type else "?"
