"""The passes: each with its function and what holds after it. ``pipeline.py`` has their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from onnx import ModelProto, NodeProto

from compiler.ir.checks import MAX_NODES, OpenShapes, check_structure, fix_input_shapes
from compiler.ir.graph import OnnxGraph
from compiler.ir.partition import Partition
from compiler.passes.bounded_shapes.bound import bound
from compiler.passes.canonicalize.clips import canonicalize
from compiler.passes.canonicalize.rewrite import rewrite
from compiler.passes.cleanup.opsets import raise_oldest, raise_opset
from compiler.passes.cleanup.outputs import separate_outputs
from compiler.passes.cleanup.topological_sort import sort
from compiler.passes.compilation import Compilation, Pass
from compiler.passes.conditions import (
    all_formed,
    fixed_inputs,
    known_shapes,
    no_operators,
    no_quantized_constants,
    opset_from,
    own_outputs,
    rooms,
    sorted_nodes,
    standard_domains,
    unchanged_by,
    wide_constants,
    without,
)
from compiler.passes.contractions.products import form_products
from compiler.passes.contractions.transpose import transpose_products
from compiler.passes.control_flow.assigned import assign
from compiler.passes.convolutions import as_images
from compiler.passes.expand import microsoft, onnx_ml
from compiler.passes.legalize import ALWAYS_WRITTEN, legalize
from compiler.passes.precision.half import promote_half
from compiler.passes.precision.narrow import quantized_weights
from compiler.passes.quantize.operators import QLINEAR
from compiler.passes.quantize.qdq_form import to_qdq_form
from compiler.passes.quantize.replace import replace_quantized
from compiler.passes.shapes.empty import hold_empty
from compiler.passes.shapes.folding import fold_quantized
from compiler.passes.shapes.import_graph import graph_of

FORMS = {microsoft.DOMAIN: microsoft.FORMS, onnx_ml.DOMAIN: onnx_ml.FORMS}


def _model(change: Callable[[ModelProto], object]) -> Callable[[Compilation], None]:
    """A pass over the model, which ``CheckStructure`` refuses unread where it has too many nodes."""

    def run_it(compilation: Compilation) -> None:
        if len(compilation.model.graph.node) <= MAX_NODES:
            change(compilation.model)

    return run_it


def _graph(change: Callable[[OnnxGraph], object]) -> Callable[[Compilation], None]:
    def run_it(compilation: Compilation) -> None:
        change(compilation.graph)

    return run_it


def fix_shapes(compilation: Compilation) -> None:
    """Give every input its shape, and constants to what reads one without elements."""
    fix_input_shapes(compilation.model, compilation.shapes)
    hold_empty(compilation.model)


def _fix_known_shapes(compilation: Compilation) -> None:
    if len(compilation.model.graph.node) <= MAX_NODES:
        with suppress(OpenShapes):
            fix_shapes(compilation)


def _least_opset(node: NodeProto) -> int:
    return max(onnx_ml.least_opset(node), microsoft.least_opset(node))


def _raise_opset(model: ModelProto) -> None:
    raise_opset(model, _least_opset)


def _has_other_form(node: NodeProto) -> bool:
    return node.op_type in FORMS.get(node.domain, ())


def _expand(model: ModelProto) -> None:
    microsoft.to_standard(model, {onnx_ml.DOMAIN: onnx_ml.FORMS})


def _import(compilation: Compilation) -> None:
    graph = graph_of(compilation.model)
    census = Counter(node.op_type for node in graph.nodes)
    compilation.partition = Partition(graph, census=dict(census.most_common()))
    compilation.model = ModelProto()  # its weights are the graph's now


def _replace_quantized(compilation: Compilation) -> None:
    compilation.quantized = replace_quantized(compilation.graph)


def _find_quanta(compilation: Compilation) -> None:
    if not compilation.wide:
        compilation.quanta = quantized_weights(compilation.graph)


def _form_products(compilation: Compilation) -> None:
    assert compilation.partition is not None
    assert compilation.quantized is not None
    form_products(compilation.partition, compilation.quantized, compilation.quanta, compilation.wide)


def _of_model(holds: Callable[[ModelProto], str]) -> Callable[[Compilation], str]:
    return lambda compilation: holds(compilation.model)


def _of_graph(holds: Callable[[OnnxGraph], str]) -> Callable[[Compilation], str]:
    return lambda compilation: holds(compilation.graph)


def _formed(compilation: Compilation) -> str:
    assert compilation.partition is not None
    return all_formed(compilation.partition) or known_shapes(compilation.graph)


_no_identities = _of_graph(no_operators("Identity", "Sum"))

SORT_NODES = Pass("SortNodes", _model(sort), _of_model(sorted_nodes))
RAISE_OLDEST_OPSETS = Pass("RaiseOldestOpsets", _model(raise_oldest), _of_model(opset_from(lambda node: 6)))
SEPARATE_OUTPUTS = Pass("SeparateOutputs", lambda it: separate_outputs(it.model), _of_model(own_outputs))
CANONICALIZE_QUANTIZATION = Pass(
    "CanonicalizeQuantization", _model(to_qdq_form), _of_model(without(lambda node: node.op_type in QLINEAR))
)
RAISE_OPSET = Pass("RaiseOpset", _model(_raise_opset), _of_model(opset_from(_least_opset)))
FIX_KNOWN_SHAPES = Pass("FixKnownShapes", _fix_known_shapes)
EXPAND_OTHER_DOMAINS = Pass(
    "ExpandOtherDomains",
    _model(_expand),
    _of_model(without(lambda node: node.op_type in FORMS.get(node.domain, ()))),
)
CHECK_STRUCTURE = Pass("CheckStructure", lambda it: check_structure(it.model), _of_model(standard_domains))
FIX_INPUT_SHAPES = Pass("FixInputShapes", fix_shapes, _of_model(fixed_inputs))
PROMOTE_HALF = Pass("PromoteHalf", lambda it: promote_half(it.model), _of_model(wide_constants))
BOUND_SHAPES = Pass("BoundDataDependentShapes", lambda it: bound(it.model), _of_model(rooms))
FIND_ASSIGNMENTS = Pass("FindAssignments", lambda it: assign(it.model))

IMPORT_GRAPH = Pass("ImportGraph", _import, _of_graph(known_shapes))
LEGALIZE = Pass("Legalize", _graph(legalize), _of_graph(no_operators(*ALWAYS_WRITTEN, outputs=True)))
REMOVE_IDENTITIES = Pass("RemoveIdentities", _graph(rewrite), _no_identities, once=True)
REPLACE_QUANTIZED = Pass("ReplaceQuantized", _replace_quantized)
FIND_NARROW_WEIGHTS = Pass("FindNarrowWeights", _find_quanta)
FOLD_QUANTIZED = Pass("FoldQuantized", _graph(fold_quantized), _of_graph(no_quantized_constants))
REMOVE_NEW_IDENTITIES = Pass("RemoveNewIdentities", _graph(rewrite), _no_identities)
CANONICALIZE = Pass("Canonicalize", _graph(canonicalize), _of_graph(unchanged_by(canonicalize)))
TRANSPOSE_PRODUCTS = Pass(
    "TransposeProducts", _graph(transpose_products), _of_graph(unchanged_by(transpose_products))
)
CONVOLVE_IMAGES = Pass("ConvolveImages", _graph(as_images), _of_graph(unchanged_by(as_images)))
FORM_PRODUCTS = Pass("FormProducts", _form_products, _formed)
