"""Advice for models with open input shapes: which ``--shape`` options to give."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from compiler.ir.checks import ModelError, OpenShapes, Shapes

SIZES = ((224, 128), (512, 512), (32, 64), (64, 16))
"""What free extents may be, of images and of all else: the first that the model takes is told."""


def advice(error: OpenShapes, reads: Callable[[Shapes], object]) -> ModelError:
    """The error that says which shapes to give, as options that can be pasted; ``reads`` tries some."""
    first: dict[str, list[int]] = {}
    for given in _guesses(error.declared):
        first = first or given
        try:
            reads(given)
        except ModelError:
            continue
        first = given
        break
    options = " ".join(
        f"--shape {shlex.quote(name)}={','.join(map(str, shape))}" for name, shape in first.items()
    )
    return ModelError(f"{error}: give {'it' if len(first) == 1 else 'them'}, like {options}")


def _guesses(declared: Mapping[str, Sequence[int | str] | None]) -> Iterator[dict[str, list[int]]]:
    for image, other in SIZES:
        yield {name: list(_guess(shape, image, other)) for name, shape in declared.items()}


def _guess(shape: Sequence[int | str] | None, image: int, other: int) -> Iterator[int]:
    """Extents of an input; of what is unknown altogether, those of an image."""
    shape = ("n", 3, "h", "w") if shape is None else shape
    for axis, extent in enumerate(shape):
        if isinstance(extent, int):
            yield extent
        elif "batch" in extent.lower() or (axis == 0 and len(shape) > 1):
            yield 1
        else:
            yield image if len(shape) == 4 else other
