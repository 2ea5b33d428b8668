"""How each operator of floats is computed: a file each for those that we compute or know layouts of.

Whatever neither ``COMPUTED`` (``compiler/ir/own_nodes.py``: functions of ours for NCHW, as lrn.py) nor
``RULES`` has, such as reductions, is left to TVM: ``left_to_tvm.py``.
For docs/extending.md: an operator that is generated for every layout is ``kernels/operators/NAME.py``, which
builds and predicts it, and a rule here (as pool.py) with its line in ``RULES``.
"""

from __future__ import annotations

from onnx import NodeProto

from compiler.analysis.pooling import POOLS
from compiler.ir.elementwise import BINARY, UNARY
from compiler.ir.graph import OnnxGraph
from compiler.ir.own_nodes import FRAMES, INTERLEAVE
from compiler.lower.operators.concat import concat_rule
from compiler.lower.operators.elementwise import binary_rule, unary_rule
from compiler.lower.operators.frames import frames_rule
from compiler.lower.operators.interleave import depth_to_space_rule, interleave_rule
from compiler.lower.operators.layouts import Rule, RuleOf, is_image
from compiler.lower.operators.pool import pool_rule
from compiler.lower.operators.resize import resize_rule
from kernels.target import Target

RULES: dict[str, RuleOf] = {
    **dict.fromkeys(UNARY, unary_rule),
    **dict.fromkeys(BINARY, binary_rule),
    **dict.fromkeys(POOLS, pool_rule),
    "Concat": concat_rule,
    "DepthToSpace": depth_to_space_rule,
    FRAMES: frames_rule,
    INTERLEAVE: interleave_rule,
    "Resize": resize_rule,
    "Upsample": resize_rule,
}


def rule_of(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """How ``node`` works in layouts, or None when it only does in NCHW."""
    if len([name for name in node.output if name]) != 1 or not is_image(graph, node.output[0]):
        return None
    rule = RULES.get(node.op_type)
    return None if rule is None else rule(graph, node, target, threads)
