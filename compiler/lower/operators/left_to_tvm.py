"""All operators that no file beside this one computes, such as Softmax: by TVM's importer, NCHW.

``compiler/analysis/tvm_support.py`` says which it can import. ``compiler/passes/legalize/`` writes those that
it gets wrong as other nodes before. ``tuner/backend/fusion.py`` fuses and splits what comes out.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

from onnx import ModelProto, NodeProto
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph
from compiler.ir.own_nodes import COMPUTED
from compiler.lower.operators.constants import constant


def import_whole(model: ModelProto) -> Any:
    """The Relax module of an unpartitioned model, as TVM imports it; raises ModelError when it cannot."""
    with quiet():
        try:
            return from_onnx(model, keep_params_in_input=False)
        except Exception as error:  # converters raise whatever they happen to run into
            raise ModelError(f"TVM cannot import the model: {_reason(error)}") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The importer warns about renamed inputs, and prints before it raises."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


class TvmImporter(ONNXGraphImporter):  # type: ignore[misc]  # TVM is untyped
    """TVM's importer of ``graph``, whose tensors it has in ``_nodes``."""

    def __init__(self, graph: OnnxGraph) -> None:
        # A size of 0 would be an open one to TVM, where only the file said it.
        super().__init__({name: [*info.shape] for name, info in graph.inputs.items()}, None)
        self._nodes: dict[str, Any]
        self._graph = graph

    def _parse_graph_initializers(self, graph: Any) -> None:
        for name, value in self._graph.constants.items():
            self._nodes[name] = constant(value)

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Done before, with a better message."""

    def computed(self, node: NodeProto) -> None:
        """Let the function that ``COMPUTED`` names compute ``node``, from ``_nodes`` to ``_nodes``."""
        compute = resolve_name(COMPUTED[node.op_type])
        made = compute(self.bb, self._graph, node, [self._nodes.get(name) for name in node.input])
        self._nodes.update(zip(node.output, made if isinstance(made, list) else [made], strict=False))

    def left_to_tvm(self, node: NodeProto) -> None:
        """Let TVM's converter compute ``node``, from ``_nodes`` to ``_nodes``; ModelError if it cannot."""
        try:
            super()._construct_nodes(SimpleNamespace(node=[node]))
        except Exception as error:  # converters raise whatever they happen to run into
            name = node_name(node)
            raise ModelError(f"TVM cannot import node {name!r} ({node.op_type}): {_reason(error)}") from error

    def check(self, node: NodeProto) -> None:
        """Refuse what TVM computes in another type or shape than ONNX says."""
        for name in filter(None, node.output):
            info, made = self._graph.tensors[name], self.bb.normalize(self._nodes[name]).ty
            shape, dtype = tuple(int(extent) for extent in made.shape.values), made.dtype.dtype
            if (shape, dtype) != (info.shape, info.dtype):
                raise ModelError(
                    f"TVM computes node {node_name(node)!r} ({node.op_type}) as {dtype} of {list(shape)}, "
                    f"not as {info.dtype} of {list(info.shape)}"
                )


def _reason(error: Exception) -> str:
    """What TVM says, in one line, and of operators just the names."""
    line = next((line for line in str(error).strip().split("\n")[::-1] if not line.startswith("#")), "")
    return re.sub(r'ir\.Op\([^"]*name="([^"]*)".*?support_level=\d+\)', r"\1", line).strip().rstrip(".")
