"""A model on its way through the passes, and what a pass is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import ModelProto

from compiler.ir.checks import Shapes
from compiler.ir.graph import OnnxGraph
from compiler.ir.partition import Partition
from compiler.passes.precision.narrow import Quanta
from compiler.passes.quantize.rewriting import Rewriting


@dataclass
class Compilation:
    """A model on its way through the passes.

    The first passes change ``model`` in place. ``ImportGraph`` makes ``partition`` of it, and those behind
    change that. ``shapes`` are those of inputs that the file leaves open; ``wide`` makes
    floats of narrow weights. ``quantized`` and ``quanta`` are what one pass finds for ``FormProducts``.
    """

    model: ModelProto
    shapes: Shapes = field(default_factory=dict)
    wide: bool = False
    partition: Partition | None = None
    quantized: Rewriting | None = None
    quanta: Mapping[str, Quanta] = field(default_factory=dict)

    @property
    def graph(self) -> OnnxGraph:
        """The graph of the partition; AssertionError before there is one."""
        assert self.partition is not None
        return self.partition.graph


@dataclass(frozen=True)
class Pass:
    """One step: what it does to a compilation, and what ``ensures`` that it did.

    That tells what is wrong, nothing where all is well. It holds to the end of the passes over models, or of
    those over graphs, unless ``once``: later passes may undo it then. ``why`` the pass is there, and there in
    the order, is said in ``pipeline.py``.
    """

    name: str
    run: Callable[[Compilation], object]
    ensures: Callable[[Compilation], str] = lambda compilation: ""
    once: bool = False
    why: str = ""

    def __call__(self, why: str) -> Pass:
        """The same with its reason."""
        return replace(self, why=why)


Observer = Callable[[Pass, Compilation], None]
"""Is told of each pass, when it has run."""


def run(passes: Sequence[Pass], compilation: Compilation, observer: Observer | None = None) -> Compilation:
    """Run ``passes`` in order. Raises ModelError for a model that cannot be used."""
    for each in passes:
        each.run(compilation)
        if observer is not None:
            observer(each, compilation)
    return compilation
