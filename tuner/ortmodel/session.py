"""Models run by onnxruntime with our library, in a child of their own: what they compute, and how fast."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from tuner.backend.definition import Array
from tuner.backend.draws import random_feeds
from tuner.runtimes import turns
from worker.children.nursery import ChildError, Nursery

TIMEOUT_S, MEMORY_BYTES = 600.0, 16 << 30
Ports = Mapping[str, tuple[tuple[int, ...], str]]
"""Shape and type of each input, by its name."""


_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({name})": name for name in ("float16", "bool")},
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class NotRun(Exception):
    """onnxruntime could not run a model; the message says why."""


@dataclass(frozen=True)
class Turns:
    """Median seconds of a run of onnxruntime alone and of it with our library, in turns in one process."""

    plain_s: float
    ours_s: float

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return self.plain_s / self.ours_s


def here() -> str:
    """Why nothing can be run with onnxruntime here; empty where it can."""
    return "" if importlib.util.find_spec("onnxruntime") else "the package onnxruntime is not installed"


def computed(model: Path, library: Path, threads: int, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of ``model``, which has operators of ``library``; raises NotRun."""
    values, results = model.with_suffix(".feeds.npz"), model.with_suffix(".results.npz")
    np.savez(values, *feeds.values())
    told = {"names": list(feeds), "feeds": str(values), "results": str(results)}
    try:
        _called("compute", {"model": str(model), "library": str(library), "threads": threads, **told})
        return _load(results)
    finally:
        values.unlink()
        results.unlink(missing_ok=True)


def compared(plain: Path, ours: Path, library: Path, threads: int, ports: Ports) -> Turns:
    """Time both models on the same random values of their inputs ``ports``; raises NotRun."""
    told: dict[str, Any] = {"plain": str(plain), "model": str(ours), "library": str(library)}
    told |= {
        "threads": threads,
        "ports": [(name, list(shape), dtype) for name, (shape, dtype) in ports.items()],
    }
    return Turns(**_called("take_turns", told))


def inferred(model: ModelProto, folder: Path) -> Ports:
    """The tensors of ``model`` whose shapes onnxruntime knows beforehand: it knows operators that onnx does
    not. Raises NotRun."""
    path, asked = folder / "all_tensors.onnx", ModelProto()
    asked.CopyFrom(model)
    given = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in given]
    asked.graph.output.extend(ValueInfoProto(name=name) for name in names)
    path.write_bytes(asked.SerializeToString())
    found = _called("shapes", {"model": str(path)})
    path.unlink()
    return {name: (tuple(shape), dtype) for name, shape, dtype in found}


def session(model: Path, library: Path | None, threads: int) -> Any:
    """onnxruntime's session with all its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if library is not None:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def shapes(payload: dict[str, Any]) -> list[tuple[str, list[int], str]]:
    """Child: the results of a model whose shapes are known."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    ports = onnxruntime.InferenceSession(payload["model"], options, ["CPUExecutionProvider"]).get_outputs()
    return [
        (port.name, port.shape, _TYPES[port.type])
        for port in ports
        if port.type in _TYPES and all(isinstance(extent, int) for extent in port.shape)
    ]


def compute(payload: dict[str, Any]) -> None:
    """Child: write what a model computes."""
    found = session(Path(payload["model"]), Path(payload["library"]), payload["threads"])
    feeds = dict(zip(payload["names"], _load(Path(payload["feeds"])), strict=True))
    np.savez(payload["results"], *found.run(None, feeds))


def take_turns(payload: dict[str, Any]) -> dict[str, float]:
    """Child: the median seconds of a model without and with our library."""
    threads = payload["threads"]
    sessions = {
        "plain_s": session(Path(payload["plain"]), None, threads),
        "ours_s": session(Path(payload["model"]), Path(payload["library"]), threads),
    }
    feeds = random_feeds({name: (tuple(shape), dtype) for name, shape, dtype in payload["ports"]})
    found = turns.take_turns({name: partial(each.run, None, feeds) for name, each in sessions.items()})
    return {name: statistics.median(each.fair(threads)) for name, each in found.items()}


def _called(function: str, payload: Mapping[str, Any]) -> Any:
    if reason := here():
        raise NotRun(reason)
    with Nursery(("tuner.ortmodel.session",)) as nursery:
        try:
            return nursery.call(
                f"tuner.ortmodel.session:{function}",
                dict(payload),
                timeout_s=TIMEOUT_S,
                memory_bytes=MEMORY_BYTES,
            )
        except ChildError as error:
            raise NotRun(f"onnxruntime does not run it: {error}") from None


def _load(path: Path) -> list[Array]:
    with np.load(path) as file:
        return [file[name] for name in file.files]
