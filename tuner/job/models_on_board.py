"""The tuned model beside the untuned one on a board that is no machine of ours: both run whole, in turns."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import tvm

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.comparison import Send
from tuner.backend.draws import feeds_of
from tuner.backend.executable import compile_module
from tuner.backend.manifest import Manifest, describe
from tuner.backend.on_board import SESSION_S, Board
from tuner.frontend.graph import load_partition
from tuner.job.delivery_child import cold_functions
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from worker.measure.session import connect, take
from worker.measure.wire import Wire

ROUNDS = 5
"""Turns of each; by a simulated clock all take the same, and one is enough."""


def time_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: what ``tuner.job.in_place:time_in_child`` answers, of whole models alone: no ``configs``.

    ``payload`` is its, with the address of a ``board``. Where both models are the same, neither is run, and
    both are said to take a second.
    """
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target = targets.from_json(payload["target"])
    records = [Record.from_json(each) for each in payload["records"]]
    tuned, manifest, inputs = _lowered(payload, target, records)
    untuned, plain, _ = _lowered(payload, target, [])
    pairs = [(layer.workload.key, layer.config) for layer in plain.layers if layer.workload and layer.config]
    answer = {
        "configs": [],
        "untuned": [{"key": key, "config": config.to_json()} for key, config in dict.fromkeys(pairs)],
    }
    if manifest.configs == plain.configs:
        return {**answer, "tuned_s": 1.0, "untuned_s": 1.0}
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        executables = [compile_module(module, target) for module in (tuned, untuned)]
        send({"stage": "built"})
        take(lock, send)
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        cold = cold_functions(manifest) | cold_functions(plain)
        board = Board(wire, Path(folder), cold, lambda: send({"stage": "call"}))
        models = [board.load(*each) for each in zip((tuned, untuned), executables, strict=True)]
        seconds: list[list[float]] = [[], []]
        for _ in range(1 if models[0].simulated else ROUNDS):
            for model, mine in zip(models, seconds, strict=True):
                model(*inputs)
                mine.append(sum(taken for _, taken in model.seconds))
    tuned_s, untuned_s = map(statistics.median, seconds)
    return {**answer, "tuned_s": tuned_s, "untuned_s": untuned_s}


def _lowered(
    payload: dict[str, Any], target: Target, records: list[Record]
) -> tuple[Any, Manifest, list[Any]]:
    """The model's functions as ``records`` make them, what they are, and inputs for them."""
    partition, threads = load_partition(payload["model"], payload["shapes"]), payload["threads"]
    relayouts = list(read_relayouts(payload["relayouts"])) if records else []
    numerics = Numerics(payload["numerics"])
    plan = plan_of(partition, {}, target, threads, records, numerics, relayouts=relayouts)
    module = lower_partition(partition, plan, target, threads)
    inputs = [*map(tvm.runtime.tensor, feeds_of(partition.graph).values())]
    return module, describe(partition, plan, target, threads), inputs
