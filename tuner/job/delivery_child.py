"""A model built from records, checked and timed in the child of a board's worker."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import tvm
from tvm import relax

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.workload.base import OfActivations
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Main, Send, check_and_locate
from tuner.backend.definition import Array
from tuner.backend.draws import random_feeds
from tuner.backend.executable import compile_module
from tuner.backend.manifest import Manifest
from tuner.backend.on_board import SESSION_S, Board, BoardModel
from tuner.backend.profile import Profile, profile, profile_of
from tuner.backend.shape_sets import Lowered, Variant, lower_sets
from tuner.intake.shapes import sets_of
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from tuner.operators.functions import function_name
from worker.measure.session import connect, crash_of, take
from worker.measure.wire import Wire

ROUNDS, LEAST, LONGEST_S = 31, 5, 20.0
"""Runs that are timed; when they have taken so long, fewer, but so many at least."""
BOARD_ROUNDS = 7
_KIND = re.compile(r"^(?:tilefleet_)?(.+?)(?:_\d.*|\d+)?$")
"""What a function computes, of its name."""


def deliver_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Delivery`` of ``model`` (a path) as ``records`` and ``relayouts`` build it.

    ``payload`` has ``shapes`` (one set or several), ``target``, ``threads``, ``numerics`` as well, the ``id``
    of the board, and ``lock``, which is held while the model runs: here, or on the ``board`` at that address.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    numerics, relayouts = Numerics(payload["numerics"]), list(read_relayouts(payload["relayouts"]))
    records = [Record.from_json(each) for each in payload["records"]]
    # What is left open is timed at its usual length.
    shapes = sets_of(payload["shapes"])
    lowered = lower_sets(payload["model"], target, threads, shapes, records, numerics, relayouts)
    # On a board functions are called one by one whatever the module does; here its calls are timed.
    executable = compile_module(lowered.delivered() if "board" in payload else lowered.module, target)
    send({"stage": "built"})
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        if "board" not in payload:
            return _here(payload, lowered.variants, executable, lock, send).to_json()
        take(lock, send)
        wire = Wire(lambda: connect(payload["board"], SESSION_S))
        cold = {name for each in lowered.variants for name in cold_functions(each.manifest)}
        board = Board(wire, Path(folder), cold, lambda: send({"stage": "call"}))
        return _on_board(payload, lowered, board, board.load(lowered.module, executable), send).to_json()


def _here(
    payload: dict[str, Any], variants: Sequence[Variant], executable: Any, lock: TextIO, send: Send
) -> Delivery:
    """On this machine: all sets of shapes are checked, and then timed."""
    machine = relax.VirtualMachine(executable, tvm.cpu())
    checks: dict[str, Check] = {}
    for each in variants:
        found = check_and_locate(
            lambda: machine["main"], _build_of(payload, each, variants), send, where=f"board {payload['id']}"
        )
        if found.wrong:
            return Delivery.of_all({each.name: Delivery(found)})
        checks[each.name] = found
    take(lock, send)
    times = (clock_of(payload["threads"]), ROUNDS, LEAST, LONGEST_S, lambda: send({"stage": "run"}))
    timed = {}
    for each, (name, found) in zip(variants, checks.items(), strict=True):
        timed[name] = _delivery(each, found, profile(machine, _arguments(each), *times))
    return Delivery.of_all(timed)


def _on_board(
    payload: dict[str, Any], lowered: Lowered, board: Board, model: BoardModel, send: Send
) -> Delivery:
    """On a board: one set of shapes after another."""
    where, sha256 = f"board {payload['id']}", hashlib.sha256(model.path.read_bytes()).hexdigest()
    found: dict[str, Delivery] = {}
    for each in lowered.variants:
        main = model.at(each.entry)
        checked = check_on_board(main.itself, _build_of(payload, each, lowered.variants), board, where, send)
        if checked.wrong:
            return Delivery.of_all({each.name: Delivery(checked)}, sha256)
        found[each.name] = _delivery(each, checked, profile_on_board(main, _arguments(each)))
    return Delivery.of_all(found, sha256)


def check_on_board(
    load: Callable[[], Main],
    build: Build,
    board: Board,
    where: str,
    send: Send,
    feeds: Mapping[str, Array] | None = None,
) -> Check:
    """Compare what ``load`` gives, which runs on ``board``, with its definition; a crash is wrong, too."""
    try:
        # Each run may take minutes there.
        return check_and_locate(
            load, build, send, where=where, load_other=board.load, feeds=feeds, thorough=False
        )
    except RuntimeError as error:  # as TVM's client has it from the board
        crash = crash_of(str(error))
        if not crash or "SIGKILL" in crash:  # which no code sends itself
            raise
        return Check(build.tolerance, wrong=f"the module does not run: {crash}", where=where)


def _build_of(payload: dict[str, Any], variant: Variant, every: Sequence[Variant]) -> Build:
    manifest, number = variant.manifest, every.index(variant)
    files = [file for file, of in payload.get("inputs", ()) if of == number]
    target, threads = manifest.target, manifest.threads
    (shapes,) = sets_of(variant.shapes)
    return Build(payload["model"], shapes, target, threads, manifest.configs, manifest.tolerance, files)


def cold_functions(manifest: Manifest) -> set[str]:
    """What the functions of layers with weights are called: those are timed with cold ones."""
    return {
        function_name(layer.workload, layer.config)
        for layer in manifest.layers
        if layer.workload and layer.config and not isinstance(layer.workload, OfActivations)
    }


def _arguments(variant: Variant) -> list[Any]:
    return [*map(tvm.runtime.tensor, random_feeds(variant.inputs).values())]


def _delivery(variant: Variant, checked: Check, found: Profile) -> Delivery:
    operators = operators_of(found, variant.manifest)
    other_s = sum(each["seconds"] for each in operators if not each["key"])
    shapes = {name: list(shape) for name, shape in variant.manifest.inputs.items()}
    return Delivery(checked, found.seconds, found.spread, other_s, operators=operators, shapes=shapes)


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

    Functions whose names differ in the shapes or the number behind them alone are one kind.
    """
    known = {
        function_name(layer.workload, layer.config): (str(layer.workload), layer.workload.key)
        for layer in manifest.layers
        if layer.workload and layer.config
    }
    taken: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for function, (calls, seconds) in found.calls.items():
        kind = known.get(function) or (kind_of(function), "")
        count, total = taken[kind]
        taken[kind] = (count + calls, total + seconds)
    listed = sorted(taken.items(), key=lambda each: -each[1][1])
    return [
        {"name": name, "key": key, "calls": calls, "seconds": seconds}
        for (name, key), (calls, seconds) in listed
    ]


def kind_of(function: str) -> str:
    """What kind of function one is by its name: without the shapes or the number behind it."""
    return _KIND.sub(r"\1", function)


def clock_of(threads: int) -> Callable[[], float]:
    """What to time with: one thread by its own processor time, which others on the machine add little to."""
    return time.thread_time if threads == 1 else time.perf_counter
