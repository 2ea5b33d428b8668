"""Try a model's import before anything is tuned: what cannot be built is refused at once."""

from __future__ import annotations

from onnx import NodeProto
from tvm import relax

from compiler.analysis.tvm_support import unsupported_nodes
from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import STRINGS
from compiler.ir.own_nodes import COMPUTED, CUT, LOOP, OPERATOR, PRODUCT, RECURRENT
from compiler.ir.partition import Partition
from compiler.lower.operators import rule_of
from compiler.lower.operators.border import border_of, scales_of_sums
from compiler.lower.operators.left_to_tvm import TvmImporter, quiet
from kernels.target import CATALOGUE

LISTED = 10
"""How many nodes a refusal lists."""
WAY_OUT = "export the model without them, or cut it before them"


def try_import(partition: Partition) -> None:
    """Import every node of a partition that TVM is to compute, without generating code.

    Raises ModelError that lists the nodes that cannot be imported and why.
    """
    unsupported = unsupported_nodes(partition.graph)
    if unsupported:
        reasons = {entry.node: f": {entry.reason}" for entry in partition.not_tunable}
        names = [(node.op_type, node_name(node)) for node in unsupported[:LISTED]]
        listed = ", ".join(f"{op} (node {name!r}{reasons.get(name, '')})" for op, name in names)
        raise ModelError(f"nothing here computes these operators: {listed}; {WAY_OUT}")
    with quiet():
        refused = _Trial(partition.graph).refused()
    for body in partition.bodies:
        try_import(body)
    if refused:
        raise ModelError("; ".join([*dict.fromkeys(refused[:LISTED]), WAY_OUT]))


class _Trial(TvmImporter):
    """Imports one node after another, from the types that ONNX says its inputs have."""

    def refused(self) -> list[str]:
        """What is wrong with each node that cannot be imported."""
        found = []
        self.opset = self._graph.opset
        self._parse_graph_initializers(None)
        tensors = {n: info for n, info in self._graph.tensors.items() if n not in self._nodes}
        given = {n: self._new_var(n, i.shape, i.dtype) for n, i in tensors.items() if i.dtype != STRINGS}
        with self.bb.function("main", params=list(given.values())):
            with self.bb.dataflow():
                for node in self._graph.nodes:
                    self._nodes |= {name: given[name] for name in node.input if name in given}
                    try:
                        self._import(node)
                    except ModelError as error:
                        found.append(str(error))
                # A function that is left without a result makes TVM complain.
                result = self.bb.emit_output(relax.const(0))
            self.bb.emit_func_output(result)
        return found

    def _import(self, node: NodeProto) -> None:
        """Raises ModelError for what TVM cannot import, or imports as something else."""
        if any(self._graph.tensors[name].dtype == STRINGS for name in (*node.input, *node.output) if name):
            raise ModelError(f"node {node_name(node)!r} ({node.op_type}) computes with strings")
        rule = rule_of(self._graph, node, CATALOGUE["x86-avx2"], 1)
        ours = (PRODUCT, OPERATOR, RECURRENT, CUT, LOOP)
        if node.op_type in ours or (rule is not None and rule.function is not None):
            return
        if border_of(self._graph, node) is not None or scales_of_sums(self._graph, node) is not None:
            return
        if node.op_type in COMPUTED:
            self.computed(node)
        else:
            self.left_to_tvm(node)
        self.check(node)
