"""A model built from records, checked and timed in the child of a board's worker."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.workload.base import OfActivations
from tuner.backend.apply import function_name, lower_partition, plan_of
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Send, check_and_locate, feeds_of
from tuner.backend.executable import compile_module
from tuner.backend.manifest import Manifest, describe
from tuner.backend.on_board import SESSION_S, Board, BoardModel
from tuner.backend.profile import Profile, profile, profile_of
from tuner.backend.sequence import sequenced
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
    # On a board functions are called one by one whatever the module does; here its calls are timed.
    delivered = sequenced(module) if "board" in payload else module
    executable, manifest = compile_module(delivered, target), describe(partition, plan, target, threads)
    send({"stage": "built"})
    build = Build(payload["model"], payload["shapes"], target, threads, manifest.configs, manifest.tolerance)
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
            found = profile_on_board(model, arguments)
        else:
            machine = relax.VirtualMachine(executable, tvm.cpu())
            checked = check_and_locate(lambda: machine["main"], build, send, where=where)
            if checked.wrong:
                return Delivery(checked).to_json()
            take(lock, send)
            found = profile(
                machine,
                arguments,
                clock_of(threads),
                ROUNDS,
                LEAST,
                LONGEST_S,
                lambda: send({"stage": "run"}),
            )
    operators = operators_of(found, manifest)
    other_s = sum(each["seconds"] for each in operators if not each["key"])
    return Delivery(
        checked, found.seconds, found.spread, other_s, sha256=sha256, operators=operators
    ).to_json()


def profile_on_board(model: BoardModel, arguments: Sequence[Any]) -> Profile:
    """What runs on a board take, as the sum of their calls.

    By a simulated clock all runs take the same: one is enough, and the check was one.
    """
    runs = [model.seconds] if model.seconds else []
    while len(runs) < (1 if model.simulated else BOARD_ROUNDS):
        model(*arguments)
        runs.append(model.seconds)
    return profile_of([sum(seconds for _, seconds in run) for run in runs], runs)


def operators_of(found: Profile, manifest: Manifest) -> list[dict[str, Any]]:
    """What each workload and each other kind of function takes of a run, the longest first.

    Functions of the same name but for the number behind it are one kind.
    """
    known = {
        function_name(layer.workload, layer.config): (str(layer.workload), layer.workload.key)
        for layer in manifest.layers
        if layer.workload and layer.config
    }
    taken: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for function, (calls, seconds) in found.calls.items():
        kind = known.get(function) or (function.rstrip("_0123456789") or function, "")
        count, total = taken[kind]
        taken[kind] = (count + calls, total + seconds)
    listed = sorted(taken.items(), key=lambda each: -each[1][1])
    return [
        {"name": name, "key": key, "calls": calls, "seconds": seconds}
        for (name, key), (calls, seconds) in listed
    ]


def clock_of(threads: int) -> Callable[[], float]:
    """What to time with: one thread by its own processor time, which others on the machine add little to."""
    return time.thread_time if threads == 1 else time.perf_counter
