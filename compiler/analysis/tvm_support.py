"""Which operators TVM's importer takes."""

from __future__ import annotations

from onnx import NodeProto
from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

from compiler.ir.graph import OnnxGraph
from compiler.ir.own_nodes import COMPUTED, CUT, FRAMES, INTERLEAVE, LOOP, OPERATOR, PRODUCT, RECURRENT


def unsupported_nodes(graph: OnnxGraph) -> list[NodeProto]:
    """The nodes that neither TVM nor a function of ours computes."""
    known = _get_convert_map().keys() | {
        PRODUCT,
        OPERATOR,
        RECURRENT,
        INTERLEAVE,
        FRAMES,
        CUT,
        LOOP,
        *COMPUTED,
    }
    return [node for node in graph.nodes if node.op_type not in known]
