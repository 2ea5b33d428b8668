"""What holds after a pass: conditions of the pipeline, which tests verify after every pass."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from onnx import ModelProto, NodeProto, TensorProto

from compiler.ir.graph import SIZED_BY_DATA, OnnxGraph, is_quantized_constant
from compiler.ir.names import reads
from compiler.ir.own_nodes import OPERATOR, OWN_DOMAIN, PRODUCT
from compiler.ir.partition import Partition

OfModel = Callable[[ModelProto], str]
OfGraph = Callable[[OnnxGraph], str]
"""What is wrong with it, empty where nothing is."""
STANDARD_DOMAINS = ("", "ai.onnx", OWN_DOMAIN)


def sorted_nodes(model: ModelProto) -> str:
    """Makers come before readers."""
    known = {each.name for each in (*model.graph.input, *model.graph.initializer)}
    for node in model.graph.node:
        if missing := {name for name in reads(node) if name} - known:
            return f"{node.op_type} reads {min(missing)!r}, which is not made yet"
        known.update(node.output)
    return ""


def own_outputs(model: ModelProto) -> str:
    """A node makes each output, and no two outputs are one tensor."""
    outputs = [each.name for each in model.graph.output]
    made = {name for node in model.graph.node for name in node.output}
    if lost := set(outputs) - made:
        return f"no node makes the output {min(lost)!r}"
    return "" if len(set(outputs)) == len(outputs) else "two outputs are one tensor"


def opset_from(least: Callable[[NodeProto], int]) -> OfModel:
    """The model's operator set of ONNX is what its nodes need at ``least``."""

    def holds(model: ModelProto) -> str:
        version = max(
            (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0
        )
        wanted = max(map(least, model.graph.node), default=0)
        return f"operator set {version} is below {wanted}" if 0 < version < wanted else ""

    return holds


def without(what: Callable[[NodeProto], bool]) -> OfModel:
    """No node of the model is ``what``."""

    def holds(model: ModelProto) -> str:
        return next((f"there is {node.op_type}" for node in model.graph.node if what(node)), "")

    return holds


def standard_domains(model: ModelProto) -> str:
    """All operators are ONNX's or our own."""
    others = (node for node in model.graph.node if node.domain not in STANDARD_DOMAINS)
    return next((f"{node.op_type} is of {node.domain}" for node in others), "")


def fixed_inputs(model: ModelProto) -> str:
    """Every input has a shape without open extents."""
    for value in model.graph.input:
        shape = value.type.tensor_type
        if not shape.HasField("shape") or any(not each.HasField("dim_value") for each in shape.shape.dim):
            return f"input {value.name!r} is open"
    return ""


def wide_constants(model: ModelProto) -> str:
    """No constant has floats of 16 bits."""
    halves = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return next(
        (f"{each.name!r} has 16 bits" for each in model.graph.initializer if each.data_type in halves), ""
    )


def rooms(model: ModelProto) -> str:
    """There is room for each result that data decide the size of; of Unique no pass knows how much."""
    known = {each.name for each in model.graph.value_info}
    for node in model.graph.node:
        if (
            node.op_type in SIZED_BY_DATA
            and node.op_type != "Unique"
            and not known.issuperset(filter(None, node.output))
        ):
            return f"{node.op_type} has no room"
    return ""


def known_shapes(graph: OnnxGraph) -> str:
    """The shape and type of every tensor are known, and makers come before readers."""
    made = {*graph.inputs, *graph.constants, ""}
    for node in graph.nodes:
        if missing := {*node.input} - made:
            return f"{node.op_type} reads {min(missing)!r}, which is not made yet"
        made.update(node.output)
        if unknown := {name for name in node.output if name} - graph.tensors.keys():
            return f"{min(unknown)!r} has no shape"
    lost = {*graph.outputs} - made
    return f"nothing makes the output {min(lost)!r}" if lost else ""


def no_operators(*kinds: str, outputs: bool = False) -> OfGraph:
    """None of ``kinds`` is left, but to make an output unless ``outputs`` have none either."""

    def holds(graph: OnnxGraph) -> str:
        may_stay = () if outputs else graph.outputs
        left = (node for node in graph.nodes if node.op_type in kinds and node.output[0] not in may_stay)
        return next((f"there is {node.op_type} of {node.output[0]!r}" for node in left), "")

    return holds


def no_quantized_constants(graph: OnnxGraph) -> str:
    """Quantized constants are floats, or a product's."""
    left = (node for node in graph.nodes if is_quantized_constant(node, graph.constants))
    return next((f"{node.output[0]!r} is quantized" for node in left), "")


def unchanged_by(change: Callable[[OnnxGraph], object]) -> OfGraph:
    """A pass that has run has nothing more to do."""

    def holds(graph: OnnxGraph) -> str:
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.nodes]
        copy = replace(graph, nodes=nodes, constants=dict(graph.constants), tensors=dict(graph.tensors))
        change(copy)
        if [_form(node) for node in copy.nodes] == [_form(node) for node in graph.nodes]:
            return ""
        return f"it would write {_kinds(copy.nodes)} for {_kinds(graph.nodes)}"

    return holds


def all_formed(partition: Partition) -> str:
    """Each product and operator is one node, which has its place in the list."""
    for kind, found in ((PRODUCT, partition.products), (OPERATOR, partition.operators)):
        nodes = [node for node in partition.graph.nodes if node.op_type == kind]
        places = sorted(each.i for node in nodes for each in node.attribute if each.name == "index")
        if places != list(range(len(found))):
            return f"{len(nodes)} nodes {kind} have the places {places} of {len(found)}"
    return ""


def _form(node: NodeProto) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    return node.op_type, tuple(node.input), tuple(node.output)


def _kinds(nodes: Collection[NodeProto]) -> list[str]:
    return [node.op_type for node in nodes]
