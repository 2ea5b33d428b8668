"""A model's graph as a build sees it, for people to look at: every product one node, with its workload."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnx import NodeProto

from compiler.intake.shapes import GivenShapes, given_sets, is_open, sets_of
from compiler.ir.checks import node_name
from compiler.ir.graph import attributes_of
from compiler.ir.own_nodes import OPERATOR, PRODUCT
from compiler.ir.partition import Partition
from compiler.load import load_partition, understood
from compiler.passes.epilogues.affine import merge_affine

MOST = 5000
"""Nodes of a graph that is still shown."""
INPUT, OUTPUT = "Input", "Output"


@dataclass(frozen=True)
class Node:
    """One node: its name in the file, what it is, and the places of the nodes whose results it reads.

    ``workload`` is the key of a product's, else empty. Inputs and outputs of the model are nodes, too.
    """

    name: str
    op: str
    workload: str
    reads: tuple[int, ...]


def outline(partition: Partition) -> list[Node]:
    """The nodes in an order in which each comes behind those that it reads; constants are left out."""
    made: dict[str, int] = {}
    nodes: list[Node] = []
    for name in partition.graph.inputs:
        made[name] = len(nodes)
        nodes.append(Node(name, INPUT, "", ()))
    for node in partition.graph.nodes:
        reads = dict.fromkeys(made[name] for name in node.input if name in made)
        made |= dict.fromkeys(node.output, len(nodes))
        nodes.append(Node(node_name(node), *_what(partition, node), tuple(reads)))
    graph = partition.graph
    for name, public in zip(graph.outputs, graph.output_names, strict=True):
        if name in made:
            nodes.append(Node(public, OUTPUT, "", (made[name],)))
    return nodes


def _what(partition: Partition, node: NodeProto) -> tuple[str, str]:
    """The operator for people, and the workload's key."""
    if node.op_type == PRODUCT:
        workload = partition.products[attributes_of(node)["index"]].workload
        return str(workload), workload.key
    if node.op_type == OPERATOR:
        return type(partition.operators[attributes_of(node)["index"]].what).__name__, ""
    return node.op_type.removeprefix("Tilefleet"), ""


def outline_child(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """``outline`` for a disposable child: ``{"path": ..., "shapes": {...}, [{...}, ...] or None}`` to JSON.

    Of several sets of shapes the first counts. Empty when there are more than ``MOST`` nodes.
    """
    given: GivenShapes = payload["shapes"]
    path = Path(payload["path"])
    partition = load_partition(path, sets_of(given)[0], is_open(given_sets(given)[0]))
    with understood(path.name):
        merge_affine(partition.graph)
        nodes = outline(partition)
    return [asdict(node) for node in nodes] if len(nodes) <= MOST else []
