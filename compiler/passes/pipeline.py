"""The passes that turn a model file into a graph of products: all of them, in order, each with its reason.

Who reads the two lists has read what the compiler does. After these, ``tuner/backend/apply.py`` merges batch
norms, fuses chains of convolutions, and chooses layouts and kernels, which takes records and a target.
"""

from __future__ import annotations

from onnx import ModelProto, helper

from compiler.ir.checks import Shapes, check_limits, check_valid
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.ir.own_nodes import LOOP
from compiler.passes.compilation import Compilation, Pass, run
from compiler.passes.conditions import without
from compiler.passes.control_flow.inline_control_flow import inline_control_flow, is_open
from compiler.passes.control_flow.loop_states import drop_loop_states
from compiler.passes.shapes.import_graph import graph_of
from compiler.passes.steps import (
    BOUND_SHAPES,
    CANONICALIZE,
    CANONICALIZE_QUANTIZATION,
    CHECK_STRUCTURE,
    CONVOLVE_IMAGES,
    EXPAND_OTHER_DOMAINS,
    FIND_ASSIGNMENTS,
    FIND_NARROW_WEIGHTS,
    FIX_INPUT_SHAPES,
    FIX_KNOWN_SHAPES,
    FOLD_QUANTIZED,
    FORM_PRODUCTS,
    IMPORT_GRAPH,
    LEGALIZE,
    PROMOTE_HALF,
    RAISE_OLDEST_OPSETS,
    RAISE_OPSET,
    REMOVE_IDENTITIES,
    REMOVE_NEW_IDENTITIES,
    REPLACE_QUANTIZED,
    SEPARATE_OUTPUTS,
    SORT_NODES,
    TRANSPOSE_PRODUCTS,
    fix_shapes,
)


def _inline_control_flow(compilation: Compilation) -> None:
    model = compilation.model
    if any(map(is_open, model.graph.node)):
        check_limits(model)
        check_valid(model)
        drop_loop_states(model)
        fix_shapes(compilation)
        inline_control_flow(model, _graph_of_nested)


def _inline_expanded_loops(compilation: Compilation) -> None:
    inline_control_flow(compilation.model, _graph_of_nested)


def _compile_bodies(compilation: Compilation) -> None:
    assert compilation.partition is not None
    bodies = compilation.partition.bodies
    for node in compilation.graph.nodes:
        if node.op_type == LOOP:
            node.attribute.append(helper.make_attribute("index", len(bodies)))
            body = ModelProto.FromString(attributes_of(node)["body"])
            inner = run(NESTED, Compilation(body, wide=compilation.wide)).partition
            assert inner is not None
            bodies.append(inner)


def _no_control_flow(compilation: Compilation) -> str:
    return without(is_open)(compilation.model)


def _bodies(compilation: Compilation) -> str:
    assert compilation.partition is not None
    loops = sum(node.op_type == LOOP for node in compilation.graph.nodes)
    return "" if loops == len(compilation.partition.bodies) else f"{loops} loops have other bodies"


INLINE_CONTROL_FLOW = Pass("InlineControlFlow", _inline_control_flow, _no_control_flow, once=True)
INLINE_EXPANDED_LOOPS = Pass("InlineExpandedLoops", _inline_expanded_loops, _no_control_flow)
COMPILE_LOOP_BODIES = Pass("CompileLoopBodies", _compile_bodies, _bodies)

STANDARD = (
    SORT_NODES("files may have nodes in any order; all passes read makers first"),
    RAISE_OLDEST_OPSETS("onnx infers nothing of operator sets before 6"),
    SEPARATE_OUTPUTS("each output is a tensor that a node makes, and no other output"),
    INLINE_CONTROL_FLOW("If, Loop, Scan and sequences: later passes know plain nodes alone"),
    CANONICALIZE_QUANTIZATION("one form of quantized operators: QDQ"),
    RAISE_OPSET("what other domains' operators become needs newer operator sets"),
    FIX_KNOWN_SHAPES("expansion needs ranks; who left shapes open is told when all else is in order"),
    EXPAND_OTHER_DOMAINS("com.microsoft and ai.onnx.ml in operators of ONNX"),
    CHECK_STRUCTURE("nothing unknown or damaged goes on"),
    FIX_INPUT_SHAPES("all shapes are known from here on, or the user is told what to give"),
    INLINE_EXPANDED_LOOPS("some expansions are loops"),
    PROMOTE_HALF("no kernel computes in 16 bits"),
    BOUND_SHAPES("where data decide a size: room for the greatest, and a count"),
)
"""A model as its file has it becomes one of standard operators and fixed shapes."""

PRODUCTS = (
    IMPORT_GRAPH("infers shapes, folds constants, expands definitions, drops what nobody reads"),
    LEGALIZE("nodes that TVM gets wrong, as others; while they have ONNX's forms"),
    REMOVE_IDENTITIES("fewer forms for the passes on quantized nodes"),
    REPLACE_QUANTIZED("integer products and operators, before floats are made of them"),
    FIND_NARROW_WEIGHTS("weights of 4 and 8 bits, before they become floats"),
    FOLD_QUANTIZED("what no integer kernel takes is computed in floats"),
    REMOVE_NEW_IDENTITIES("replacing and folding leave some"),
    CANONICALIZE("clamps and means in the form that epilogues and layouts know"),
    TRANSPOSE_PRODUCTS("constant left operands become weights"),
    CONVOLVE_IMAGES("lines, volumes and transposed convolutions as plain ones"),
    COMPILE_LOOP_BODIES("while loops: the body is compiled as a function"),
    FORM_PRODUCTS("each product with its epilogue becomes one node; it takes what is left"),
)
"""The standard model becomes a graph of products and other operators."""

PIPELINE = (*STANDARD, *PRODUCTS)
NESTED = (FIND_ASSIGNMENTS("array[:, i] = v, as Paddle's exporter writes it in loops"), *PIPELINE)
"""Those for the body of a while loop."""


def standard_model(model: ModelProto, shapes: Shapes) -> ModelProto:
    """``model`` written in standard operators, in place; itself. Raises ModelError."""
    return run(STANDARD, Compilation(model, shapes)).model


def _graph_of_nested(model: ModelProto) -> OnnxGraph:
    """The graph of a while loop's body, as far as its shapes go."""
    whole = ModelProto()
    whole.CopyFrom(model)
    return graph_of(run(NESTED[: 1 + len(STANDARD)], Compilation(whole)).model)
