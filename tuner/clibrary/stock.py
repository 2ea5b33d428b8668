"""A model as TVM's own lowering makes it, as a C library: to time it where TVM's runtime is not."""

from __future__ import annotations

from pathlib import Path

import tvm
from tvm.relax.backend.cpu_generic import pipeline

from compiler.ir.checks import ModelError, Shapes
from compiler.load import read_model
from compiler.lower.operators.left_to_tvm import import_whole
from kernels.target import Target
from tuner.backend.program import NotStraight, program_of
from tuner.clibrary.build import Made, compiled
from tuner.clibrary.library import Library
from tuner.clibrary.weights import weights_of

_TVM = "default"
"""TVM's own passes over functions."""


def make_stock(
    path: Path, shapes: Shapes | None, target: Target, name: str, inputs: list[str], outputs: list[str]
) -> Made:
    """``path`` by TVM's default passes, on one thread; its functions may call libm.

    ``inputs`` and ``outputs`` are the names of the model's. Raises ModelError for what TVM cannot import, and
    for what only its runtime can do.
    """
    machine = tvm.target.Target(target.tvm)
    passes = (*pipeline.library_dispatch_passes(machine), *pipeline.legalize_passes(machine))
    with machine:
        module = tvm.transform.Sequential(passes)(import_whole(read_model(path, shapes)))
    try:
        program = program_of(module, inputs, outputs)
    except NotStraight as reason:
        raise ModelError(f"cannot be written as C: {reason}") from None
    variants, code = compiled([program], target, 1, name, name, _TVM)
    library = Library(name, path.name, "", "", tuple(variants), weights_of([program]), True, 1)
    return Made(library, (code,), ())
