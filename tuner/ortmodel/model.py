"""The model that onnxruntime loads: parts of it as single nodes of ours, the others as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, ValueInfoProto, helper

from compiler.ir.checks import Shapes, fix_input_shapes, nested
from compiler.ir.names import fresh, names_of, reads
from compiler.passes.cleanup.topological_sort import sort
from compiler.readers.model_file import parse_file
from tuner.clibrary.library import Library
from tuner.ortmodel.abi import ELEMENT_TYPES
from tuner.ortmodel.library import domain_of

IR_VERSION, OPSET = 8, 17
"""Of a model that has nothing but our operators; onnxruntimes since 1.13 read it."""


@dataclass(frozen=True)
class Region:
    """The nodes of a model that one operator of ours computes, by their number, and what it is called.

    ``path`` is a model of them alone, which takes ``shapes``; ``inputs`` and ``outputs`` are its tensors.
    """

    name: str
    nodes: frozenset[int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    path: Path
    shapes: Shapes | None = None


def fixed_model(path: Path, shapes: Shapes | None) -> ModelProto:
    """The model at ``path`` with the shapes of its inputs fixed, a TFLite one as ONNX. Raises ModelError."""
    model = parse_file(path, shapes)
    fix_input_shapes(model, shapes or {})
    return model


def plain_model(path: Path, shapes: Shapes | None) -> ModelProto:
    """The model at ``path`` as onnxruntime would run it without us. Raises ModelError.

    Its shapes are fixed, except where it has branches: one that is not taken may fit none, and onnxruntime
    may crash of that.
    """
    fixed = fixed_model(path, shapes)
    branches = any(True for node in fixed.graph.node for _ in nested(node))
    return parse_file(path, shapes) if branches else fixed


def whole(name: str, plain: ModelProto, path: Path, shapes: Shapes | None) -> Region:
    """All of a model as one region."""
    constants = {tensor.name for tensor in plain.graph.initializer}
    inputs = tuple(value.name for value in plain.graph.input if value.name not in constants)
    # What no node makes is there already, and a node makes a tensor once; the operator gives it, too.
    taken, outputs = (
        set(names_of(plain.graph)) - {name for node in plain.graph.node for name in node.output},
        [],
    )
    for value in plain.graph.output:
        outputs.append(fresh(value.name, taken))
    return Region(name, frozenset(range(len(plain.graph.node))), inputs, tuple(outputs), path, shapes)


def ports_of(model: ModelProto) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of every input of a model whose shapes are fixed."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kinds = {value.name: value.type.tensor_type for value in model.graph.input if value.name not in constants}
    return {
        name: (
            tuple(dim.dim_value for dim in kind.shape.dim),
            str(helper.tensor_dtype_to_np_dtype(kind.elem_type)),
        )
        for name, kind in kinds.items()
    }


def rewired(plain: ModelProto, name: str, parts: Sequence[tuple[Region, Library]]) -> ModelProto:
    """``plain`` with each region as one node of the library called ``name``; what nothing reads is left out.

    Without parts it is ``plain``.
    """
    if not parts:
        return plain
    domain = domain_of(name)
    ours = [
        helper.make_node(region.name, region.inputs, region.outputs, name=region.name, domain=domain)
        for region, _ in parts
    ]
    taken = frozenset().union(*(region.nodes for region, _ in parts))
    model = ModelProto()
    model.CopyFrom(plain)
    graph = model.graph
    left = [node for index, node in enumerate(plain.graph.node) if index not in taken]
    del graph.node[:]
    graph.node.extend([*left, *ours])
    _drop_unread(model)
    if len(graph.node) == len(ours):
        del model.opset_import[:]
        del model.functions[:]
        model.opset_import.append(helper.make_opsetid("", OPSET))
        model.ir_version = IR_VERSION
    model.opset_import.append(helper.make_opsetid(domain, 1))
    sort(model)
    known = {value.name: value for _, library in parts for value in _values(library, 1)}
    taken_in = {value.name: value for _, library in parts for value in _values(library, 0)}
    for value in graph.input:
        if value.name in taken_in:
            value.CopyFrom(taken_in[value.name])
    results = {value.name for value in graph.output}
    for value in graph.output:
        if value.name in known:
            value.CopyFrom(known[value.name])
    del graph.value_info[:]
    graph.value_info.extend(value for name, value in known.items() if name not in results)
    return model


def _values(library: Library, which: int) -> list[ValueInfoProto]:
    """The inputs (0) or outputs (1) of a library; what is not always the same of a shape has a name."""
    first = library.ports[0][which]
    if library.open is not None:
        shapes: Sequence[Sequence[object]] = (library.open.inputs, library.open.outputs)[which]
        several = [[size if isinstance(size, int) else None for size in shape] for shape in shapes]
    else:
        every = zip(*([port.shape for port in ports[which]] for ports in library.ports), strict=True)
        several = [
            [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)]
            for shapes in every
        ]
    return [
        helper.make_tensor_value_info(
            port.name,
            ELEMENT_TYPES[port.dtype],
            [f"{port.name}_{axis}" if size is None else size for axis, size in enumerate(shape)],
        )
        for port, shape in zip(first, several, strict=True)
    ]


def _drop_unread(model: ModelProto) -> None:
    """Leave out nodes and constants whose results nothing reads, in place."""
    graph = model.graph
    nodes = list(graph.node)
    wanted = {value.name for value in graph.output}
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    kept: set[int] = set()
    pending = list(wanted)
    while pending:
        index = makers.get(pending.pop())
        if index is None or index in kept:
            continue
        kept.add(index)
        more = set(reads(nodes[index])) - wanted
        wanted |= more
        pending += more
    constants = {tensor.name for tensor in graph.initializer}
    tensors = [tensor for tensor in graph.initializer if tensor.name in wanted]
    inputs = [value for value in graph.input if value.name not in constants or value.name in wanted]
    for field, values in ((graph.node, [nodes[i] for i in sorted(kept)]), (graph.initializer, tensors)):
        del field[:]
        field.extend(values)
    del graph.input[:]
    graph.input.extend(inputs)
