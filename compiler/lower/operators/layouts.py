"""How a node works in layouts other than NCHW."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onnx import NodeProto

from compiler.ir.graph import Array, OnnxGraph
from kernels.emit.types import PrimFunc
from kernels.target import Target

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Generated:
    """A function of ours for any layout: ``build(layout, target, threads, name)``.

    ``kind`` and ``numbers`` are its name, the layout between them; ``out_shape`` is the result's, NCHW. It
    takes the node's inputs, or, where it has ``tables``, what the rule reads and then these constants.
    """

    kind: str
    numbers: tuple[int | str, ...]
    build: Callable[[str, Target, int, str], PrimFunc]
    out_shape: Shape
    tables: tuple[Array, ...] | None = None

    def name(self, layout: str) -> str:
        """What the function is called for tensors in ``layout``: a name in C as well."""
        return "_".join(map(str, ("tilefleet", self.kind, layout, *self.numbers))).replace("-", "minus")


@dataclass(frozen=True)
class Rule:
    """A node that reads the activations ``reads`` in the layout that it writes, in ``seconds`` by layout.

    It is computed by ``function`` of all its inputs, or by TVM's operator, which takes any shape.
    """

    reads: tuple[str, ...]
    seconds: Callable[[str], float]
    function: Generated | None = None


RuleOf = Callable[[OnnxGraph, NodeProto, Target, int], Rule | None]
"""(graph, node, target, threads) -> how the node works in layouts, None when it only does in NCHW."""


def is_image(graph: OnnxGraph, name: str) -> bool:
    """Whether ``name`` is an activation that layouts are about: four axes, float32, not constant."""
    info = graph.tensors.get(name)
    if info is None or name in graph.constants:
        return False
    return len(info.shape) == 4 and info.dtype == "float32"


def if_images(
    graph: OnnxGraph,
    reads: Iterable[str],
    seconds: Callable[[str], float],
    function: Generated | None = None,
) -> Rule | None:
    """The rule, where all that it reads are images."""
    names = tuple(dict.fromkeys(reads))
    return Rule(names, seconds, function) if names and all(is_image(graph, name) for name in names) else None
