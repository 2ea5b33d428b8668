"""One model from its file to its time, in a child of its own: what is known is sent at once."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
from onnx import ModelProto
from tvm import relax

from bench.corpus.entries import Entry, Input
from bench.corpus.inputs import feeds_for, first_states, inputs_of, shapes_of
from bench.corpus.references import defined
from bench.corpus.shares import measure
from compiler.intake.assemble import assembled
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.ir.partition import Partition
from compiler.load import load_partition
from compiler.readers.model_file import read_as_written
from kernels.target import Target
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.comparison import run
from tuner.backend.definition import Array, Definition, Undefined
from tuner.backend.difference import compared
from tuner.backend.error import error_of
from tuner.backend.executable import compile_module
from tuner.backend.manifest import describe
from tuner.backend.sequence import sequenced
from tuner.log.record import read_log
from tuner.log.relayouts import read_relayouts
from tuner.runtimes.prepare import FOREIGN, installed, load
from tuner.runtimes.turns import take_turns
from worker.measure.host import host_target

PEER_ERROR = 0.02
"""How far one of those may be off; it is timed only if it computes the model."""
LONGEST_S = 20.0
Send = Callable[[dict[str, Any]], None]


def try_model(payload: dict[str, Any], send: Send) -> None:
    """Child: send what becomes of the file ``path``, one part of its row after the other.

    ``payload`` has the entry's ``name`` and ``inputs``, the lines of a ``log`` to build by, how many
    ``rounds`` of turns to time, a ``seed`` for the inputs, and the libraries to do ``without``.
    """
    path, inputs = Path(payload["path"]), {name: Input(**each) for name, each in payload["inputs"].items()}
    entry = Entry(payload["name"], payload["path"], inputs=inputs)
    target = host_target()
    try:
        shapes = shapes_of(path, entry)
        kept = {name: shape for name, shape in shapes.items() if name not in entry.constants}
        with assembled(path, entry.constants) as file:
            # What an upload does.
            extract(file, kept)
            began = time.process_time()
            partition = load_partition(file, kept)
    except ModelError as error:
        send({"accepted": False, "reason": str(error)})
        return
    send(
        {
            "accepted": True,
            "shapes": {name: list(each.shape) for name, each in partition.graph.inputs.items()},
        }
    )
    # The others get the file as it is, and with it what is no input of ours any more.
    with assembled(path, {}) as file:
        model = read_as_written(file, shapes)
    fed = feeds_for(inputs_of(model), entry, payload["seed"]) | first_states(path, model)
    feeds = {name: fed[name] for name in partition.graph.inputs}
    try:
        module, executable, tolerance = _build(partition, target, payload["log"], began, send)
    except Exception as error:  # TVM's passes raise whatever they happen to run into
        send({"builds": False, "reason": f"{type(error).__name__}: {str(error).strip()[:300]}"})
        return
    machine = relax.VirtualMachine(executable, tvm.cpu())
    whole = sequenced(module)
    # Of most models that is the same.
    main = machine["main"]
    if whole is not module:
        main = relax.VirtualMachine(compile_module(whole, target), tvm.cpu())["main"]
    run(main, feeds)
    send({"ran": True})
    definition = None
    try:
        definition = defined(path, model, fed)
        # Of streaming models it is of a second run, which begins with what the first one left.
        again = {name: definition.feeds[name] for name in partition.graph.inputs}
        made = dict(zip(partition.graph.output_names, run(main, again), strict=True))
        found = compared(made, definition, tolerance)
        worst = max(found.errors.values(), default=None)
        send({"right": not found.wrong, "max_error": worst, "check": str(found), "by": definition.by})
        # Saturated outputs, say, would be right of many a wrong model. Only floats were nudged.
        changed = any(error_of(definition.nudged[name], value) for name, value in definition.values.items())
        send({"blunt": not changed and any(value.dtype.kind == "f" for value in fed.values())})
    except Undefined as reason:
        send({"check": f"not checked: {reason}"})
    arguments = [*map(tvm.runtime.tensor, feeds.values())]
    shares = measure(machine, arguments, module)
    send({"own_share": shares.own_share, "foreign": shares.foreign(), "ours_ms": shares.whole_s * 1e3})
    rounds = max(3, min(payload["rounds"], int(LONGEST_S / shares.whole_s / 3)))
    runs = {"ours": lambda: main(*arguments)}
    with TemporaryDirectory(prefix="tilefleet-corpus-") as folder:
        runs |= _peers(path, model, fed, Path(folder), definition, payload["without"], send)
        _time(runs, rounds, send)


def _build(
    partition: Partition, target: Target, log: Sequence[str], began: float, send: Send
) -> tuple[Any, Any, float]:
    """The lowered module, the executable, and how far its outputs may be off."""
    records, relayouts = list(read_log(log)), list(read_relayouts(log))
    plan = plan_of(partition, {}, target, 1, records, relayouts=relayouts)
    module = lower_partition(partition, plan, target, 1)
    imported = time.process_time()
    send({"import_s": imported - began, "import_mb": _peak_mb()})
    executable = compile_module(module, target)
    manifest = describe(partition, plan, target, 1)
    ours = sum(layer.config is not None for layer in manifest.layers)
    send({"builds": True, "build_s": time.process_time() - imported, "build_mb": _peak_mb()})
    send({"layers": len(manifest.layers), "own_layers": ours})
    return module, executable, manifest.tolerance


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _peers(
    path: Path,
    model: ModelProto,
    feeds: Mapping[str, Array],
    folder: Path,
    definition: Definition | None,
    without: Mapping[str, str],
    send: Send,
) -> dict[str, Callable[[], object]]:
    """Every library that computes the model; why others do not is sent, and which one is tried."""
    runs: dict[str, Callable[[], object]] = {}
    unable = dict(without)
    for name in sorted(installed().keys() - without.keys()):
        send({"trying": name})
        try:
            peer = load(name, path, model, feeds, folder)
            if name in FOREIGN and (wrong := _wrong(peer.outputs(), definition)):
                unable[name] = wrong
            else:
                runs[name] = peer.run
        except Exception as error:  # libraries raise what they like; the others are timed all the same
            unable[name] = f"{type(error).__name__}: {str(error).strip()[:150]}"
    send({"trying": "", "unable": unable})
    return runs


def _time(runs: Mapping[str, Callable[[], object]], rounds: int, send: Send) -> None:
    """Ours and every peer in turns."""
    turns = take_turns(runs, rounds)
    ms = {name: float(np.median(each.fair(1))) * 1e3 for name, each in turns.items()}
    ours_ms = ms.pop("ours")
    row: dict[str, Any] = {"ours_ms": ours_ms, "peers_ms": ms}
    if ms:
        best = min(ms, key=lambda name: ms[name])
        row |= {"best_peer": best, "ratio_best": ms[best] / ours_ms}
    if "onnxruntime" in ms:
        row["ratio_onnxruntime"] = ms["onnxruntime"] / ours_ms
    send(row)


def _wrong(outputs: Sequence[Array], definition: Definition | None) -> str:
    """How the outputs of a peer are wrong; empty where they are right, or nobody knows."""
    if definition is None:
        return ""
    for value, right in zip(outputs, definition.values.values(), strict=False):
        if value.size != right.size:
            return f"its output has the shape {list(value.shape)}, which should be {list(right.shape)}"
        error = error_of(value.reshape(right.shape), right)
        if error > PEER_ERROR:
            return f"its output is off by {error:.2g}"
    return ""
