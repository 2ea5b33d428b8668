"""Which nodes of a model become operators of ours, where some of it is not computed here.

A node is ours when a model of it alone is. Regions are as large as can be: nodes that are connected, with no
way out of one and into it again through a node that is onnxruntime's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from compiler.intake.trial import try_import
from compiler.ir.checks import ModelError, Shapes, first_line, nested, node_name
from compiler.ir.names import reads
from compiler.ir.own_nodes import PRODUCT, RECURRENT
from compiler.load import load_partition
from compiler.passes.cleanup.topological_sort import sort
from compiler.passes.epilogues.affine import merge_affine
from compiler.passes.shapes.folding import NEVER_FOLDED, PROPAGATED_ELEMENTS
from tuner.clibrary.header import C_TYPES
from tuner.ortmodel.abi import ELEMENT_TYPES
from tuner.ortmodel.model import Region
from tuner.ortmodel.session import NotRun, Ports, inferred

Refusal = Callable[[Path], str]
"""Why a model is not computed here; empty where it is."""
NO_PRODUCT = "no convolution or matrix product is near that an operator would be worth its while for"
_SHAPES = ("Shape", "Size")


def import_refusal(path: Path, shapes: Shapes | None = None) -> str:
    """Why the model at ``path`` cannot be imported; empty where it can."""
    try:
        partition = load_partition(path, shapes)
        merge_affine(partition.graph)
        try_import(partition)
    except ModelError as error:
        return first_line(error)
    return ""


@dataclass(frozen=True)
class Left:
    """A node that stays with onnxruntime, and why."""

    node: str
    op: str
    reason: str


class Parts:
    """The nodes of ``plain``, and which of them are ours; files of models are written to ``folder``.

    ``fixed`` is the same with the shapes of its inputs fixed.
    """

    def __init__(self, name: str, plain: ModelProto, fixed: ModelProto, folder: Path) -> None:
        self._name, self._folder = name, folder
        self._model = ModelProto()
        self._model.CopyFrom(plain)
        sort(self._model)
        self._constants = {tensor.name: tensor for tensor in self._model.graph.initializer}
        self._kinds = _known_shapes(fixed, folder)
        self._write_shapes()
        self._nodes = list(self._model.graph.node)
        self._makers = {name: at for at, node in enumerate(self._nodes) for name in node.output if name}
        self._fixed = self._constant_nodes()
        self._reasons: dict[int, str] = {}
        self._known: dict[str, str] = {}
        for at in range(len(self._nodes)):
            if at not in self._fixed and (reason := self._unfit(at) or self._why_not(at, import_refusal)):
                self._reasons[at] = reason

    @property
    def model(self) -> ModelProto:
        """The model whose nodes the regions number."""
        return self._model

    def left(self) -> list[Left]:
        """The nodes that are not ours."""
        nodes = ((self._nodes[at], reason) for at, reason in sorted(self._reasons.items()))
        return [Left(node_name(node), node.op_type, reason) for node, reason in nodes]

    def refuse(self, region: Region, refusal: Refusal, reason: str) -> None:
        """Leave to onnxruntime the nodes of ``region`` that ``refusal`` says something of, else all of it."""
        found = {at: why for at in sorted(region.nodes) if (why := self._why_not(at, refusal))}
        self._reasons |= found or dict.fromkeys(region.nodes, reason)

    def regions(self) -> list[Region]:
        """The regions of the nodes that are ours, in an order in which they can be computed.

        What cannot be imported together, and what has no product, is left to onnxruntime from then on.
        """
        found: list[Region] = []
        for nodes in self._components():
            region = self._region(f"{self._name}_{len(found)}", nodes)
            if reason := import_refusal(region.path) or _without_product(region.path):
                self._reasons |= dict.fromkeys(nodes, reason)
                continue
            found.append(region)
        return found

    def _write_shapes(self) -> None:
        """Make constants of shapes that are known, as a region need not give a tensor for its shape alone."""
        for node in self._model.graph.node:
            if node.op_type not in _SHAPES or node.domain or node.input[0] not in self._kinds:
                continue
            shape = [dim.dim_value for dim in self._kinds[node.input[0]].type.tensor_type.shape.dim]
            part = {each.name: each.i for each in node.attribute}
            value = np.array(shape[part.get("start", 0) : part.get("end")], np.int64)
            if node.op_type == "Size":
                value = np.array(_elements(shape), np.int64)
            name, (output,) = node.name, node.output
            constant = numpy_helper.from_array(value, output)
            node.CopyFrom(helper.make_node("Constant", [], [output], name=name, value=constant))

    def _constant_nodes(self) -> set[int]:
        """The nodes whose results are the same in every run."""
        fixed: set[int] = set()
        names = set(self._constants)
        for at, node in enumerate(self._nodes):
            if node.op_type in NEVER_FOLDED or any(True for _ in nested(node)):
                continue
            if all(name in names for name in node.input if name):
                fixed.add(at)
                names.update(node.output)
        return fixed

    def _unfit(self, at: int) -> str:
        node = self._nodes[at]
        if any(True for _ in nested(node)):
            return "it has a graph inside"
        for name in filter(None, (*node.input, *node.output)):
            if self._is_constant(name):
                continue
            if name not in self._kinds:
                return f"the shape of {name!r} is not known before it runs"
            kind = self._kinds[name].type.tensor_type.elem_type
            dtype = str(helper.tensor_dtype_to_np_dtype(kind))
            if dtype not in C_TYPES:
                return f"{name!r} is of {dtype}, which C has no type for"
        return ""

    def _is_constant(self, name: str) -> bool:
        return name in self._constants or self._makers.get(name) in self._fixed

    def _why_not(self, at: int, refusal: Refusal) -> str:
        """What ``refusal`` says of a model of one node; those that are alike are asked once."""
        node = self._nodes[at]
        words = [refusal.__qualname__, node.domain, node.op_type, *map(str, sorted(map(str, node.attribute)))]
        for name in node.input:
            tensor = self._constants.get(name)
            if tensor is not None:
                content = tensor.SerializeToString() if _elements(tensor.dims) <= PROPAGATED_ELEMENTS else b""
                words += [str(tensor.data_type), str(list(tensor.dims)), hashlib.sha256(content).hexdigest()]
            elif self._makers.get(name) in self._fixed:
                words.append(name)
            else:
                words.append(str(self._kinds[name].type) if name in self._kinds else "")
        key = "\n".join([*words, str(len(node.output))])
        if key not in self._known:
            self._known[key] = refusal(self._region(f"{self._name}_node", {at}).path)
        return self._known[key]

    def _components(self) -> list[set[int]]:
        """Nodes of ours that are connected and between which no other node is, in order.

        A node's level is how often a way to it came from onnxruntime's nodes back to ours: nodes of one level
        have nothing of onnxruntime's between them.
        """
        ours = {at for at in range(len(self._nodes)) if at not in self._reasons and at not in self._fixed}
        level = dict.fromkeys(range(len(self._nodes)), 0)
        group = {at: at for at in ours}

        def root(at: int) -> int:
            while group[at] != at:
                at = group[at]
            return at

        for at, node in enumerate(self._nodes):
            before = {self._makers[name] for name in reads(node) if name in self._makers} - self._fixed
            back = at in ours
            level[at] = max((level[b] + (back and b not in ours) for b in before), default=0)
            for b in before & ours if back else ():
                if level[b] == level[at]:
                    group[root(b)] = root(at)
        found: dict[int, set[int]] = {}
        for at in sorted(ours):
            found.setdefault(root(at), set()).add(at)
        return sorted(found.values(), key=lambda nodes: (level[min(nodes)], min(nodes)))

    def _region(self, name: str, nodes: Iterable[int]) -> Region:
        """The region of ``nodes``, with a model of it in a file."""
        taken = set(nodes)
        constants: dict[str, TensorProto] = {}
        helpers: set[int] = set()
        inputs: dict[str, None] = {}
        pending = [each for at in sorted(taken) for each in self._nodes[at].input if each]
        made = {each for at in taken for each in self._nodes[at].output}
        while pending:
            wanted = pending.pop(0)
            maker = self._makers.get(wanted)
            if wanted in self._constants:
                constants[wanted] = self._constants[wanted]
            elif maker is not None and maker in self._fixed:
                if maker in helpers:
                    continue
                helpers.add(maker)
                pending += [each for each in self._nodes[maker].input if each]
            elif wanted not in made:
                inputs[wanted] = None
        results = {value.name for value in self._model.graph.output}
        read = {
            each
            for at, node in enumerate(self._nodes)
            if at not in taken
            for each in reads(node)
            if each in made
        }
        outputs = [
            each for at in sorted(taken) for each in self._nodes[at].output if each in read or each in results
        ]
        outputs = outputs or [each for at in sorted(taken) for each in self._nodes[at].output[:1]]
        graph = helper.make_graph(
            [self._nodes[at] for at in sorted(taken | helpers)],
            name,
            [self._kinds[each] for each in inputs],
            [self._kinds[each] for each in outputs],
            list(constants.values()),
        )
        imports = self._model.opset_import
        made_model = helper.make_model(
            graph, opset_imports=imports, ir_version=max(4, self._model.ir_version)
        )
        path = self._folder / f"{name}.onnx"
        path.write_bytes(made_model.SerializeToString())
        return Region(name, frozenset(taken), tuple(inputs), tuple(outputs), path)


def _without_product(path: Path) -> str:
    kinds = {node.op_type for node in load_partition(path).graph.nodes}
    return "" if kinds & {PRODUCT, RECURRENT} else NO_PRODUCT


def _elements(dims: Iterable[int]) -> int:
    count = 1
    for extent in dims:
        count *= extent
    return count


def _known_shapes(model: ModelProto, folder: Path) -> dict[str, ValueInfoProto]:
    """The tensors whose types and shapes are known beforehand, without those of constants."""
    known = _inferred(model, {})
    if any(name not in known for node in model.graph.node for name in node.output if name):
        with suppress(NotRun):
            known = _inferred(model, inferred(model, folder))
    return known


def _inferred(model: ModelProto, more: Ports) -> dict[str, ValueInfoProto]:
    """The same by onnx alone, with what ``more`` is known of some."""
    skeleton = ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import)
    graph = skeleton.graph
    graph.name = "shapes"
    graph.node.extend(model.graph.node)
    made = {name for node in model.graph.node for name in node.output}
    results = {value.name: value for value in model.graph.output if value.name in made}
    graph.output.extend(value for name, value in results.items() if name not in more)
    for name, (shape, dtype) in more.items():
        graph.value_info.append(helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], shape))
    constants = {tensor.name for tensor in model.graph.initializer}
    graph.input.extend(value for value in model.graph.input if value.name not in constants)
    for tensor in model.graph.initializer:
        if _elements(tensor.dims) <= PROPAGATED_ELEMENTS:
            graph.initializer.append(tensor)
        else:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    try:
        found = onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except Exception as error:  # the C++ side raises its own types as well as plain RuntimeError
        raise ModelError(f"its shapes cannot be inferred: {first_line(error)}") from None
    known: dict[str, ValueInfoProto] = {}
    for value in (*found.input, *found.value_info, *found.output):
        kind = value.type.tensor_type
        if value.name in constants or kind.elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
            continue
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            known[value.name] = value
    return known
