"""A model made ready for a runtime, in a child: converters and compilers may hang or crash."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from compiler.load import load_partition
from compiler.readers.model_file import read_as_written
from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.apply import build_default, build_model, export
from tuner.backend.definition import Undefined, define
from tuner.backend.draws import random_feeds
from tuner.clibrary import extras
from tuner.clibrary.build import Made, Model, make, write
from tuner.clibrary.stock import make_stock
from tuner.clibrary.toolchain import link_shared
from tuner.clibrary.wheel import link_loadable
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from tuner.runtimes.engines import Unable, read_arrays
from tuner.runtimes.operators import refuse_unknown
from tuner.runtimes.prepare import prepared

NAME = "net"
"""What C libraries are called."""


def define_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: make inputs and outputs of ``model`` with ``shapes`` in the files ``feeds`` and ``values``.

    Returns the ``inputs`` and ``outputs`` by name, in order, ``by`` whom they are, or ``why`` nobody says so.
    ``nudged`` is a file of the outputs for inputs that differ by no more than rounding does. ModelError names
    operators that no runtime knows.
    """
    model = read_as_written(payload["model"], payload["shapes"])
    refuse_unknown(model)
    constants = {each.name for each in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name not in constants:
            kind = value.type.tensor_type
            dtype = np.dtype(_dtype(kind.elem_type)).name
            inputs[value.name] = (tuple(dim.dim_value for dim in kind.shape.dim), dtype)
    feeds = random_feeds(inputs)
    np.savez(payload["feeds"], *feeds.values())
    found: dict[str, Any] = {"inputs": list(inputs), "outputs": [each.name for each in model.graph.output]}
    try:
        definition = define(model, feeds)
    except Undefined as reason:
        return {**found, "by": "", "why": str(reason)}
    np.savez(payload["values"], *(definition.values[name] for name in found["outputs"]))
    np.savez(payload["nudged"], *(definition.nudged[name] for name in found["outputs"]))
    return {**found, "by": definition.by, "why": ""}


def prepare_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: ``path``, the file that the library ``name`` reads, or ``why`` it has none.

    Its converter is looked for in the folders ``tools`` too.
    """
    sys.path += payload["tools"]
    model = read_as_written(payload["model"], payload["shapes"])
    feeds = read_arrays(payload["feeds"], payload["inputs"])
    folder = Path(payload["folder"])
    try:
        return {"path": str(prepared(payload["name"], Path(payload["model"]), model, feeds, folder))}
    except Unable as reason:
        return {"why": str(reason)}


def build_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: a build by TVM's default (``how`` is ``default``, or ``default library`` for one in C), of ours
    as a ``module``, or as a ``library``.

    Returns its ``path``, the names of its ``inputs`` and ``outputs``, and the ``tolerance`` of its outputs.
    """
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    model, shapes, threads = payload["model"], payload["shapes"], payload["threads"]
    target, folder = targets.from_json(payload["target"]), Path(payload["folder"])
    graph = load_partition(model, shapes).graph
    about = {"inputs": list(graph.inputs), "outputs": graph.output_names}
    path = folder / f"{NAME}.so"
    if payload["how"] == "default":
        export(build_default(model, target, shapes), path)
        return {"path": str(path), **about}
    if payload["how"] == "default library":
        stock = make_stock(Path(model), shapes, target, NAME, about["inputs"], about["outputs"])
        return {"path": str(_linked(stock, folder, alone=False)), **about}
    records = [Record.from_json(each) for each in payload["records"]]
    relayouts, numerics = list(read_relayouts(payload["relayouts"])), Numerics(payload["numerics"])
    if payload["how"] == "module":
        executable, manifest = build_model(
            model, {}, target, threads, shapes, records, numerics, relayouts=relayouts
        )
        export(executable, path)
        return {"path": str(path), **about, "tolerance": manifest.tolerance}
    given = Model(Path(model), shapes, records, relayouts, numerics, threads)
    made = make(given, [target], NAME, Path(model).name, "", embed=True)
    return {"path": str(_linked(made, folder)), **about, "tolerance": made.manifests[0].tolerance}


def _linked(made: Made, folder: Path, alone: bool = True) -> Path:
    """A shared library of ``made``, which needs what C gives, or the same and libm."""
    path = folder / f"{NAME}.so"
    write(made, folder, alone)
    objects = [folder / f"{NAME}.o", *(folder / each for each in extras.objects(made.library))]
    if made.library.threads > 1:
        link_loadable(made.library, objects, path)
    else:
        link_shared(objects, path)
    return path


def _dtype(elem_type: int) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(elem_type)
