"""A model built from records and run whole in the child of a board's worker, with whatever data."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from compiler.load import load_partition
from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Main, Send, check_and_locate
from tuner.backend.draws import feeds_of
from tuner.backend.executable import compile_module
from tuner.backend.manifest import describe
from tuner.backend.on_board import SESSION_S, Board
from tuner.backend.profile import Profile, profile
from tuner.job.delivery_child import (
    LEAST,
    LONGEST_S,
    ROUNDS,
    check_on_board,
    clock_of,
    cold_functions,
    operators_of,
    profile_on_board,
    run_on_board,
)
from tuner.job.profile import Ran, WrongInputs, read_inputs, to_tensor
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from worker.measure.session import connect, take
from worker.measure.wire import Wire

RUN = {"stage": "run"}
BOARD_ROUNDS = 7


def profile_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: ``Ran`` of a model, as JSON, or ``invalid`` and where it is (``at``) of what the user gave.

    ``payload`` is that of ``deliver_in_child``, with ``inputs``, tensors by name as the API has them or None,
    and ``outputs``, whether they come back.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    partition = load_partition(payload["model"], payload["shapes"])
    feeds = feeds_of(partition.graph)
    if payload["inputs"] is not None:
        inputs = {name: (info.shape, info.dtype) for name, info in partition.graph.inputs.items()}
        try:
            feeds = read_inputs(payload["inputs"], inputs)
        except WrongInputs as error:
            return {"invalid": str(error), "at": "inputs"}
    records = [Record.from_json(each) for each in payload["records"]]
    relayouts = list(read_relayouts(payload["relayouts"]))
    plan = plan_of(
        partition, {}, target, threads, records, Numerics(payload["numerics"]), relayouts=relayouts
    )
    module = lower_partition(partition, plan, target, threads)
    executable, manifest = compile_module(module, target), describe(partition, plan, target, threads)
    send({"stage": "built"})
    build = Build(payload["model"], payload["shapes"], target, threads, manifest.configs, manifest.tolerance)
    arguments = [*map(tvm.runtime.tensor, feeds.values())]
    outputs: dict[str, dict[str, Any]] = {}
    where = f"board {payload['id']}"

    def kept(main: Main) -> Main:
        """``main``, which leaves its outputs."""

        def call(*given: Any) -> Any:
            result = main(*given)
            arrays = [result] if hasattr(result, "numpy") else result
            if payload["outputs"]:
                outputs.update(
                    zip(
                        partition.graph.output_names,
                        (to_tensor(each.numpy()) for each in arrays),
                        strict=True,
                    )
                )
            return result

        return call

    def ran(check: Check, found: Profile | None = None) -> dict[str, Any]:
        delivery = Delivery(check)
        if found is not None:
            operators = operators_of(found, manifest)
            delivery = Delivery(check, found.seconds, found.spread, operators=operators)
        return Ran(
            delivery,
            payload["id"],
            manifest.estimate_s,
            manifest.count("log"),
            manifest.count("analysis"),
            executable.memory.weights,
            executable.memory.workspace,
            outputs,
        ).to_json()

    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        if "board" not in payload:
            machine = relax.VirtualMachine(executable, tvm.cpu())
            check = check_and_locate(lambda: kept(machine["main"]), build, send, where=where, feeds=feeds)
            if check.wrong:
                return ran(check)
            take(lock, send)
            times = (clock_of(threads), ROUNDS, LEAST, LONGEST_S, partial(send, RUN))
            return ran(check, profile(machine, arguments, *times))
        take(lock, send)
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        board = Board(wire, Path(folder), cold_functions(manifest), lambda: send({"stage": "call"}))
        model = board.load(module, executable)
        check = check_on_board(lambda: kept(model), build, board, where, send, feeds)
        if check.wrong:
            return ran(check)
        return ran(check, profile_on_board(run_on_board({"": model}, arguments, BOARD_ROUNDS)[""]))
