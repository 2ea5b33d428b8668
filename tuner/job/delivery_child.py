"""A model built from records, checked and timed in the child of a board's worker."""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.workload.base import OfActivations
from tuner.backend.apply import function_name, lower_partition, plan_of
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Main, Send, check_and_locate, feeds_of
from tuner.backend.executable import compile_module
from tuner.backend.manifest import describe
from tuner.backend.on_board import SESSION_S, Board, BoardModel
from tuner.frontend.graph import load_partition
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from worker.measure.session import connect, crash_of, take
from worker.measure.wire import Wire

ROUNDS, LEAST, LONGEST_S = 31, 5, 20.0
"""Runs that are timed; when they have taken so long, fewer, but so many at least."""
BOARD_ROUNDS = 7


def deliver_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Delivery`` of ``model`` (a path) as ``records`` and ``relayouts`` build it.

    ``payload`` has ``shapes``, ``target``, ``threads``, ``numerics`` as well, the ``id`` of the board, and
    ``lock``, which is held while the model runs: here, or on the ``board`` at that address.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    numerics, relayouts = Numerics(payload["numerics"]), list(read_relayouts(payload["relayouts"]))
    records = [Record.from_json(each) for each in payload["records"]]
    partition = load_partition(payload["model"], payload["shapes"])
    plan = plan_of(partition, {}, target, threads, records, numerics, relayouts=relayouts)
    module = lower_partition(partition, plan, target, threads)
    executable, manifest = compile_module(module, target), describe(partition, plan, target, threads)
    send({"stage": "built"})
    build = Build(payload["model"], payload["shapes"], target, threads, manifest.configs, manifest.tolerance)
    layers = {
        function_name(layer.workload, layer.config)
        for layer in manifest.layers
        if layer.workload and layer.config
    }
    arguments = [*map(tvm.runtime.tensor, feeds_of(partition.graph).values())]
    where, sha256 = f"board {payload['id']}", ""
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        if "board" in payload:
            take(lock, send)
            wire = Wire(lambda: connect(payload["board"], SESSION_S))
            cold = {
                function_name(layer.workload, layer.config)
                for layer in manifest.layers
                if layer.workload and layer.config and not isinstance(layer.workload, OfActivations)
            }
            board = Board(wire, Path(folder), cold, lambda: send({"stage": "call"}))
            model = board.load(module, executable)
            sha256 = hashlib.sha256(model.path.read_bytes()).hexdigest()
            try:
                checked = check_and_locate(lambda: model, build, send, where=where, load_other=board.load)
            except RuntimeError as error:  # as TVM's client has it from the board
                crash = crash_of(str(error))
                if not crash or "SIGKILL" in crash:  # which no code sends itself
                    raise
                checked = Check(build.tolerance, wrong=f"the module does not run: {crash}", where=where)
            if checked.wrong:
                return Delivery(checked, sha256=sha256).to_json()
            seconds, layer_s = time_on_board(model, arguments, layers)
        else:
            machine = relax.VirtualMachine(executable, tvm.cpu())
            checked = check_and_locate(lambda: machine["main"], build, send, where=where)
            if checked.wrong:
                return Delivery(checked).to_json()
            take(lock, send)
            seconds, layer_s = time_model(machine, arguments, layers, threads, send)
    middle = statistics.median(seconds)
    low, _, high = statistics.quantiles([*seconds, *seconds], n=4, method="inclusive")
    spread, other_s = (high - low) / middle, max(0.0, middle - layer_s)
    return Delivery(checked, middle, spread, other_s, sha256=sha256).to_json()


def time_on_board(
    model: BoardModel, arguments: Sequence[Any], layers: Collection[str]
) -> tuple[list[float], float]:
    """Seconds of each run on a board, the sum of its calls, and what ``layers`` take of one.

    By a simulated clock all runs take the same: one is enough, and the check was one.
    """
    runs = [model.seconds] if model.seconds else []
    while len(runs) < (1 if model.simulated else BOARD_ROUNDS):
        model(*arguments)
        runs.append(model.seconds)
    whole = [sum(seconds for _, seconds in run) for run in runs]
    parts = [sum(seconds for name, seconds in run if name in layers) for run in runs]
    return whole, statistics.median(parts)


def time_model(
    machine: Any, arguments: Sequence[Any], layers: Collection[str], threads: int, send: Send
) -> tuple[list[float], float]:
    """Seconds of each run of ``main``, and what the functions called ``layers`` take of one.

    Runs that are timed whole and runs whose calls are timed one by one take turns.
    """
    clock = clock_of(threads)
    main: Main = machine["main"]
    calls: list[float] = []
    began = 0.0

    def instrument(_: Any, name: str, before: bool, __: Any, *___: Any) -> int:
        nonlocal began
        if name in layers:
            if before:
                began = clock()
            else:
                calls.append(clock() - began)
        return 0

    whole: list[float] = []
    parts: list[list[float]] = []
    started = time.perf_counter()
    main(*arguments)
    for turn in range(ROUNDS):
        if turn >= LEAST and time.perf_counter() - started > LONGEST_S:
            break
        machine.set_instrument(None)
        began = clock()
        main(*arguments)
        whole.append(clock() - began)
        machine.set_instrument(instrument)
        calls.clear()
        main(*arguments)
        parts.append([*calls])
        send({"stage": "run"})
    return whole, sum(map(statistics.median, zip(*parts, strict=True)))


def clock_of(threads: int) -> Callable[[], float]:
    """What to time with: one thread by its own processor time, which others on the machine add little to."""
    return time.thread_time if threads == 1 else time.perf_counter
