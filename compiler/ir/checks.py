"""Checks of an ONNX model that may be damaged or hostile: everything cheap is checked before anything heavy.

Memory and time as such are limited by the child this runs in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from compiler.ir.own_nodes import OWN_DOMAIN

MAX_TENSOR_BYTES = 2 * 1024**3
"""No tensor, weight or activation, may be larger."""
MAX_NODES = 50_000
MOST_AXES = 1024
"""No tensor has more."""
NESTING = ("If", "Loop", "Scan", "SequenceMap")
"""Operators with nested graphs that are read."""

MICROSOFT = "com.microsoft"
WAYS_OUT = {
    "ai.onnx.ml": "do what those of ai.onnx.ml do before or behind the model, and export it without them",
    MICROSOFT: "onnxruntime alone has those of com.microsoft: export the model in ONNX's own operators, "
    "or cut it before them",
    f"{MICROSOFT}.nchwc": "onnxruntime's optimizer writes those for one kind of processor: give the model "
    "that it was made of",
}
"""What to do about operators of other domains."""
OPTIMIZED = {
    *("BiasAdd", "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "BitmaskBiasDropout", "BitmaskDropout"),
    *("DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "FusedMatMulActivation"),
    *("GatedRelativePositionBias", "GemmFastGelu", "GroupNorm", "MatMulNBitsMlp", "MatMulNBitsQkv"),
    *("NhwcConv", "NhwcFusedConv", "PackedAttention", "PackedMultiHeadAttention", "QOrderedAttention"),
    *("QOrderedGelu", "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul"),
    *("RelativePositionBias", "RemovePadding", "RestorePadding", "SkipGroupNorm"),
}
"""Those of com.microsoft that no exporter writes but onnxruntime's optimizer."""
INSTEAD = {
    "MatMulFpQ4": "onnxruntime computes it on some processors alone: quantize the weights for MatMulNBits",
}
"""What to do about others of com.microsoft that have a way of their own."""
OPTIONAL = ("Optional", "OptionalGetElement", "OptionalHasElement")
NO_TENSORS = {
    "map_type": ("a map", "a tensor of its values"),
    "opaque_type": ("of a type of its own", "tensors"),
    "optional_type": ("optional", "a tensor that is always there"),
    "sequence_type": ("a sequence", "one tensor, or one for each element,"),
    "sparse_tensor_type": ("a sparse tensor", "a dense one"),
}
"""What an input or output may be besides a tensor, and what to export in its place."""

Shapes = Mapping[str, Sequence[int]]


class ModelError(ValueError):
    """A model that cannot be used; the message names what is wrong and, where there is one, the way out."""


class OpenShapes(ModelError):
    """Inputs without a known shape; ``declared`` is what the model says of them."""

    def __init__(self, declared: Mapping[str, Sequence[int | str] | None]) -> None:
        self.declared = declared
        listed = ", ".join(f"{name!r} {_text(shape)}" for name, shape in declared.items())
        if len(declared) == 1:
            super().__init__(f"input {listed} has a dynamic shape")
        else:
            super().__init__(f"the inputs {listed} have dynamic shapes")


def _text(shape: Sequence[int | str] | None) -> str:
    """A shape as the model declares it."""
    return "of unknown shape" if shape is None else "[" + ", ".join(map(str, shape)) + "]"


def node_name(node: NodeProto) -> str:
    """The node's name, or its first output's where it has none."""
    return str(node.name or next(iter(node.output), node.op_type))


def check_structure(model: ModelProto) -> None:
    """Refuse what would be unsafe, unbounded or unknown; raises ModelError that names it."""
    check_limits(model)
    if not model.graph.output:
        raise ModelError("the model has no outputs, so there is nothing to compute")
    _check_operators(model.graph.node)
    check_valid(model)


def check_limits(model: ModelProto) -> None:
    """Refuse what would be unsafe or unbounded, also in branches and loops; raises ModelError."""
    if model.ir_version < 3:
        raise ModelError(f"ONNX IR version {model.ir_version} is too old; 3 is the oldest that is read")
    newest = onnx.defs.onnx_opset_version()
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            both = f"{versions[domain]} and {entry.version}"
            raise ModelError(f"the model imports two operator sets of {domain or 'ai.onnx'!r}: {both}")
        if entry.domain in ("", "ai.onnx") and entry.version > newest:
            raise ModelError(
                f"the model uses ONNX operator set {entry.version}; {newest} is the newest known"
            )
    graphs = list(graphs_of(model.graph))
    count = sum(len(graph.node) for graph in graphs)
    if count > MAX_NODES:
        raise ModelError(f"the model has {count} nodes; at most {MAX_NODES} are read")
    for graph in graphs:
        for where, tensor in tensors_of(graph):
            check_tensor(tensor, where)
        for node in graph.node:
            _check_batches(node)


def _check_batches(node: NodeProto) -> None:
    """Refuse what onnx's shape inference would read other memory for; raises ModelError."""
    for each in node.attribute:
        if node.op_type == "GatherND" and each.name == "batch_dims" and not 0 <= each.i <= MOST_AXES:
            raise ModelError(
                f"node {node_name(node)!r} (GatherND) needs batch_dims below its ranks, not {each.i}"
            )


def check_valid(model: ModelProto) -> None:
    """Refuse what onnx's own checker does; raises ModelError with what it says."""
    try:
        onnx.checker.check_model(_without_weights(model))
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(f"the model is not valid ONNX: {first_line(error)}") from None


def nested(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside ``node``."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """``graph`` and the branches and loops inside it; no other nested graph is read."""
    yield graph
    for node in graph.node:
        for inner in nested(node):
            if node.op_type not in NESTING:
                raise ModelError(
                    f"node {node_name(node)!r} ({node.op_type}) has a nested graph, which is not supported"
                )
            yield from graphs_of(inner)


def _without_weights(model: ModelProto) -> ModelProto:
    """The model with its initializers as mere inputs: checking copies everything it is given."""
    graph, names = model.graph, set()
    bare = ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    bare.graph.name = graph.name or "main"
    bare.graph.node.extend(graph.node)
    bare.graph.output.extend(graph.output)
    for tensor in graph.initializer:
        if tensor.name in names:
            raise ModelError(f"there are two initializers called {tensor.name!r}")
        names.add(tensor.name)
        kind = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        bare.graph.input.append(kind)
    bare.graph.input.extend(value for value in graph.input if value.name not in names)
    for value in (*bare.graph.input, *bare.graph.output):
        # Shapes left out are no fault here: those of inputs are asked for later, the others inferred.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    return bare


def _check_operators(nodes: Sequence[NodeProto]) -> None:
    unknown: dict[str, str] = {}
    for node in nodes:
        if node.domain == OWN_DOMAIN:
            continue
        if node.domain in ("", "ai.onnx") and node.op_type in OPTIONAL:
            raise ModelError(
                f"node {node_name(node)!r} ({node.op_type}) is about values that may be absent, and a build "
                "takes and gives tensors alone: export the model with tensors that are always there"
            )
        if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            unknown.setdefault(name, node_name(node))
    if unknown:
        listed = ", ".join(f"{op} (node {node!r})" for op, node in sorted(unknown.items())[:10])
        ways_out = "".join(f"; {words}" for words in sorted(set(filter(None, map(_way_out, unknown)))))
        raise ModelError(f"the model has operators that are not standard ONNX: {listed}{ways_out}")


def _way_out(op: str) -> str | None:
    """What to do about an operator of another domain, if anything."""
    domain, _, name = op.rpartition(".")
    if domain == MICROSOFT and name in OPTIMIZED:
        return "export the model without onnxruntime's optimizer, which writes " + op
    return INSTEAD.get(name, WAYS_OUT[domain]) if domain == MICROSOFT else WAYS_OUT.get(domain)


def tensors_of(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Every constant that ``graph`` itself has, and what to call it."""
    for tensor in graph.initializer:
        yield f"initializer {tensor.name!r}", tensor
    for node in graph.node:
        for attribute in node.attribute:
            where = f"attribute {attribute.name!r} of node {node_name(node)!r}"
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                raise ModelError(f"{where} is a sparse tensor, which is not supported")
            for tensor in ([attribute.t] if attribute.HasField("t") else []) + list(attribute.tensors):
                yield where, tensor


def check_tensor(tensor: TensorProto, where: str) -> None:
    """Refuse external data, and dimensions that do not go with the data; raises ModelError."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise ModelError(
            f"{where} keeps its data in another file: have that beside the model or give it by --data FILE; "
            "by REST, send a zip of both"
        )
    if tensor.data_type == TensorProto.STRING:
        return
    needed, bits = size_of(tensor, where), _bits(tensor.data_type, where)
    elements = math.prod(tensor.dims)
    if tensor.raw_data:
        held = len(tensor.raw_data)
        if held != needed:
            raise ModelError(f"{where} of {list(tensor.dims)} needs {needed} bytes and has {held}")
        return
    fields = (tensor.float_data, tensor.int32_data, tensor.int64_data, tensor.double_data, tensor.uint64_data)
    held = max(len(field) for field in fields)
    complex_types = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
    expected = elements * 2 if tensor.data_type in complex_types else elements
    if held != expected and bits >= 8:
        raise ModelError(f"{where} of {list(tensor.dims)} needs {expected} values and has {held}")


def size_of(tensor: TensorProto, where: str) -> int:
    """Bytes that a tensor of numbers takes; raises ModelError for more than any real one, or for none."""
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(f"{where} has a negative dimension: {list(tensor.dims)}")
    size: int = (math.prod(tensor.dims) * _bits(tensor.data_type, where) + 7) // 8
    check_size(size, where, tensor.dims)
    return size


def check_size(size: int, where: str, dims: Sequence[int]) -> None:
    """Refuse a tensor of ``size`` bytes that is larger than any real one; raises ModelError."""
    if size > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{where} of {list(dims)} would take {size / 1024**3:.1f} GiB; "
            f"at most {MAX_TENSOR_BYTES // 1024**3} GiB are allowed"
        )


def _bits(data_type: int, where: str) -> int:
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(data_type)
    except KeyError:
        raise ModelError(f"{where} has the unknown data type {data_type}") from None
    name = TensorProto.DataType.Name(data_type)
    return (
        4 if name in ("INT4", "UINT4", "FLOAT4E2M1") else 2 if name.endswith("INT2") else dtype.itemsize * 8
    )


def fix_input_shapes(model: ModelProto, shapes: Shapes) -> None:
    """Write ``shapes`` into the inputs, and drop all shapes that would have to agree with them.

    Raises ModelError for a dimension that stays unknown, and for shapes that do not fit the model.
    """
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    for value in inputs.values():
        _check_kind(value, "input")
    for value in graph.output:
        if not value.type.HasField("sequence_type"):  # which a ZipMap makes, and it is left out
            _check_kind(value, "output")
    for name in shapes:
        if name not in inputs:
            raise ModelError(f"there is no input {name!r}; the inputs are {sorted(inputs)}")
    unknown: dict[str, list[int | str] | None] = {}
    for name, value in inputs.items():
        tensor = value.type.tensor_type
        declared: list[int | str] | None = None
        if tensor.HasField("shape"):
            # Paddle writes -1 where an extent is free.
            declared = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?"
                for d in tensor.shape.dim
            ]
        given = shapes.get(name)
        if given is None and (declared is None or any(isinstance(extent, str) for extent in declared)):
            unknown[name] = declared
            continue
        shape = static_shape(name, declared, given)
        bits = _bits(tensor.elem_type, f"input {name!r}")
        check_size(math.prod(shape) * bits // 8, f"input {name!r}", shape)
        del tensor.shape.dim[:]
        tensor.shape.SetInParent()
        for extent in shape:
            tensor.shape.dim.add().dim_value = extent
    if unknown:
        raise OpenShapes(unknown)
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")


def _check_kind(value: ValueInfoProto, what: str) -> None:
    """Refuse inputs and outputs that are no tensors; raises ModelError."""
    kind = value.type.WhichOneof("value")
    if kind in NO_TENSORS:
        found, instead = NO_TENSORS[kind]
        raise ModelError(
            f"{what} {value.name!r} is {found}, and a build takes and gives tensors alone: export the model "
            f"with {instead} as its {what}"
        )


def static_shape(name: str, declared: Sequence[int | str] | None, given: Sequence[int] | None) -> list[int]:
    """The shape ``given``, if it fits what is declared, or else that, which is all integers then."""
    if given is None:
        return [int(extent) for extent in declared or ()]
    if any(isinstance(extent, bool) or not isinstance(extent, int) or extent < 0 for extent in given):
        raise ModelError(
            f"the shape given for input {name!r} must be integers, none of them negative, got {list(given)}"
        )
    if declared is not None:
        fits = len(declared) == len(given) and all(
            # Exporters of old write 0 where an extent is free.
            not isinstance(d, int) or d in (0, g)
            for d, g in zip(declared, given, strict=True)
        )
        if not fits:
            raise ModelError(
                f"the shape {list(given)} given for input {name!r} does not fit its {_text(declared)}"
            )
    return list(given)


def first_line(error: Exception) -> str:
    """What an error says first."""
    return str(error).strip().split("\n", 1)[0]
