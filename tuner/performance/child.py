"""A model built and run on a board, in a child: what each of its functions takes."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from compiler.load import load_partition
from compiler.lower.operators.functions import function_name
from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.comparison import Build, Send
from tuner.backend.draws import feeds_of
from tuner.backend.executable import Compiled, compile_module
from tuner.backend.manifest import Manifest, describe
from tuner.backend.on_board import SESSION_S, Board
from tuner.job.delivery_child import check_on_board, cold_functions, kind_of
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from tuner.performance.assembly import assembly_of
from tuner.performance.timed import Part, Timed
from worker.measure.session import connect, take
from worker.measure.wire import Wire


def time_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: ``check``, whether the built model is right, ``timed``, what it takes, and ``assembly``.

    ``payload`` is that of ``deliver_in_child``, for one set of shapes and a ``board``, with ``known``, the
    hashes of objects whose assembly is not asked for. Assemblies come by the hash of their object.
    """
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    records = [Record.from_json(each) for each in payload["records"]]
    relayouts, numerics = list(read_relayouts(payload["relayouts"])), Numerics(payload["numerics"])
    partition = load_partition(payload["model"], payload["shapes"])
    plan = plan_of(partition, {}, target, threads, records, numerics, relayouts=relayouts)
    module = lower_partition(partition, plan, target, threads)
    executable, manifest = compile_module(module, target), describe(partition, plan, target, threads)
    send({"stage": "built"})
    build = Build(payload["model"], payload["shapes"], target, threads, manifest.configs, manifest.tolerance)
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        take(lock, send)
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        board = Board(wire, Path(folder), cold_functions(manifest), lambda: send({"stage": "call"}))
        model = board.load(module, executable)
        check = check_on_board(model.itself, build, board, f"board {payload['id']}", send)
        if check.wrong:
            return {"check": vars(check)}
        if not model.seconds:  # nobody could say what is right, so it did not run
            model(*map(tvm.runtime.tensor, feeds_of(partition.graph).values()))
    timed = Timed(parts_of(model.seconds, manifest, executable.compiled))
    wanted = {each.code for each in timed.parts} - {*payload["known"]}
    assembly = {
        each.sha256: assembly_of(name, each.function, target)
        for name, each in executable.compiled.items()
        if each.sha256 in wanted
    }
    return {"check": vars(check), "timed": timed.to_json(), "assembly": assembly}


def parts_of(
    calls: Sequence[tuple[str, float]], manifest: Manifest, compiled: Mapping[str, Compiled]
) -> tuple[Part, ...]:
    """The parts of a model whose ``calls`` of functions took so long, in the order in which they ran."""
    layers = defaultdict(list)
    for layer in manifest.layers:
        if layer.workload and layer.config:
            layers[function_name(layer.workload, layer.config)].append(layer)
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for name, taken in calls:
        seconds[name].append(taken)
    parts = []
    for function, each in seconds.items():
        code = compiled[function]
        mine = layers.get(function)
        if mine is None:
            name = f"{kind_of(function)} {_shapes(code.function)}"
            parts.append(Part(name, name, (), None, len(each), sum(each), code.sha256))
            continue
        workload, config = mine[0].workload, mine[0].config
        assert workload
        assert config
        nodes = tuple(node for layer in mine for node in layer.nodes)
        about = (str(workload), workload.key, nodes, config.to_json())
        parts.append(Part(*about, len(each), sum(each), code.sha256))
    return tuple(parts)


def _shapes(function: Any) -> str:
    """Type and shape of all that a PrimFunc reads and writes."""
    kinds = [parameter.ty for parameter in function.params]
    return ", ".join(f"{kind.dtype} {'x'.join(str(int(each)) for each in kind.shape) or 1}" for kind in kinds)
