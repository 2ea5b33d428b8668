"""A model file compiled: as a standard model, as a graph, and as a graph partitioned into products.

Both extraction and build read the same partition, so a log made from a model always fits its build.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx import ModelProto

from compiler.ir.checks import ModelError, OpenShapes, Shapes, first_line
from compiler.ir.graph import OnnxGraph
from compiler.ir.partition import Partition
from compiler.passes.compilation import Compilation, Observer, run
from compiler.passes.control_flow.while_loops import refuse_own
from compiler.passes.open_shapes import advice
from compiler.passes.pipeline import PIPELINE, standard_model
from compiler.passes.shapes.import_graph import graph_of
from compiler.readers.model_file import parse_file


def read_model(path: str | Path, shapes: Shapes | None = None) -> ModelProto:
    """The ONNX or TFLite model at ``path`` in standard operators, with every input's shape fixed.

    ``shapes`` are those that the file leaves open. Raises ModelError for whatever is no usable model. Nothing
    outside the file is read.
    """
    return standard_model(_parsed(path, shapes), shapes or {})


def _parsed(path: str | Path, shapes: Shapes | None) -> ModelProto:
    model = parse_file(Path(path), shapes, tables=True)
    refuse_own(model)
    return model


def load_graph(path: str | Path, shapes: Shapes | None = None) -> OnnxGraph:
    """Read the model at ``path``, fold its constants and infer all shapes.

    Raises ModelError as ``read_model`` does, and for a tensor of unknown shape or too large.
    """
    try:
        return graph_of(read_model(path, shapes))
    except OpenShapes as error:
        raise _advice(error, path, shapes) from None


def load_partition(
    path: str | Path, shapes: Shapes | None = None, wide: bool = False, observer: Observer | None = None
) -> Partition:
    """Read and compile the model at ``path``; raises ModelError as ``load_graph`` does.

    Weights that are narrower than float32 in the file stay so where products have few rows, unless all are to
    be ``wide``. ``observer`` is told of every pass.
    """
    with understood(Path(path).name):
        try:
            compilation = Compilation(_parsed(path, shapes), shapes or {}, wide)
            found = run(PIPELINE, compilation, observer).partition
        except OpenShapes as error:
            raise _advice(error, path, shapes) from None
        assert found is not None
        return found


def _advice(error: OpenShapes, path: str | Path, shapes: Shapes | None) -> ModelError:
    def read(more: Shapes) -> OnnxGraph:
        return graph_of(read_model(path, {**(shapes or {}), **more}))

    return advice(error, read)


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Make a ModelError of whatever damage to the file ``name`` leads to.

    It takes forms that no list of checks foresees: text that is no text, ...
    """
    try:
        yield
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ModelError(f"{name} is damaged or cannot be understood ({reason})") from error
