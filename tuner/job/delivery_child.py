"""A model built from records, checked, and raced beside the untuned one in the child of a board's worker."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TextIO

import tvm
from tvm import relax
from tvm_ffi import structural_equal

from compiler.intake.shapes import sets_of
from compiler.lower.operators.functions import function_name
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload.base import OfActivations
from tuner.backend.apply import export
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Main, Send, check_and_locate
from tuner.backend.definition import Array
from tuner.backend.draws import random_feeds
from tuner.backend.executable import compile_module
from tuner.backend.manifest import Manifest
from tuner.backend.on_board import SESSION_S, Board, BoardModel
from tuner.backend.profile import Profile, profile, profile_of
from tuner.backend.shape_sets import Lowered, Variant, lower_sets
from tuner.backend.verdict import DELIVERED, UNTUNED, Verdict
from tuner.job.race import race
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts, read_relayouts
from worker.measure.session import connect, crash_of, take
from worker.measure.wire import Wire

ROUNDS, LEAST, LONGEST_S = 11, 5, 20.0
"""Runs in which each call is timed; when they have taken so long, fewer, but so many at least."""
BOARD_ROUNDS = 21
Calls = Sequence[tuple[str, float]]
"""Function and seconds of each call of a run."""
_KIND = re.compile(r"^(?:tilefleet_)?(.+?)(?:_\d.*|\d+)?$")
"""What a function computes, of its name."""


def deliver_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Delivery`` of ``model`` (a path) as ``records`` and ``relayouts`` build it.

    ``payload`` has ``shapes`` (one set or several), ``target``, ``threads``, ``numerics`` as well, the
    ``id`` of the board, and ``lock``, which is held while models run: here, or on the ``board`` at that
    address. With ``race`` the delivery has a verdict: the model is raced beside the one that a build without
    records makes. That makes it surer until so many seconds after the start of this call; the seconds that
    this took are in ``surer_s``. ``same`` says that both are one model. Where the untuned model wins,
    ``instead`` is its ``Delivery``, checked and timed in the same call.
    """
    started = time.perf_counter()
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    records = [Record.from_json(each) for each in payload["records"]]
    tuned = _Built.of(payload, records, list(read_relayouts(payload["relayouts"])), send)
    untuned = _Built.of(payload, [], [], send) if payload.get("race") else None
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        parts = payload, tuned, untuned, Path(folder), lock, send
        if "board" in payload:
            return _on_board(*parts)
        return _here(*parts, started + payload.get("race", 0.0))


@dataclass(frozen=True)
class _Built:
    """A model as some records have it: what is lowered, and the target to compile it for."""

    lowered: Lowered
    target: Target

    @classmethod
    def of(
        cls, payload: dict[str, Any], records: Sequence[Record], relayouts: Sequence[Relayouts], send: Send
    ) -> Self:
        """The payload's model; what is left open is timed at its usual length."""
        target, numerics = targets.from_json(payload["target"]), Numerics(payload["numerics"])
        shapes, threads = sets_of(payload["shapes"]), payload["threads"]
        lowered = lower_sets(payload["model"], target, threads, shapes, records, numerics, relayouts)
        send({"stage": "lowered"})
        return cls(lowered, target)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What it is for each set of shapes."""
        return self.lowered.variants

    def rivals(self, untuned: Self | None) -> dict[str, Self]:
        """Who races: it, and the ``untuned`` model unless that is one and the same."""
        if untuned is None or structural_equal(self.lowered.module, untuned.lowered.module):
            return {DELIVERED: self}
        return {DELIVERED: self, UNTUNED: untuned}

    def compile(self, send: Send, whole: bool = False) -> Any:
        """The executable: as it is delivered where it shall be ``whole``, else each call by itself."""
        module = self.lowered.delivered() if whole else self.lowered.module
        executable = compile_module(module, self.target)
        send({"stage": "built"})
        return executable


def _here(
    payload: dict[str, Any],
    tuned: _Built,
    untuned: _Built | None,
    folder: Path,
    lock: TextIO,
    send: Send,
    until: float,
) -> dict[str, Any]:
    """On this machine: all sets of shapes are checked, then timed call by call, then raced, which makes the
    gain surer ``until`` that time."""
    rivals = tuned.rivals(untuned)
    files = {}
    for name, rival in rivals.items() if untuned else ():
        files[name] = folder / f"{name}.so"
        export(rival.compile(send, whole=True), files[name])
    timed, surer_s = _alone(payload, tuned, lock, send), 0.0
    if files and not any(each.check.wrong for each in timed.values()):
        told = partial(send, {"stage": "run"})
        for number, each in enumerate(tuned.variants):
            feeds, more_s = random_feeds(each.inputs), until - time.perf_counter()
            share_s = more_s / (len(timed) - number)
            verdict, more_s = race(files, Path(payload["model"]), feeds, payload["threads"], share_s, told)
            timed[each.name] = replace(timed[each.name], verdict=verdict)
            surer_s += more_s
    return _answer(timed, rivals, surer_s, lambda untuned: _alone(payload, untuned, lock, send))


def _alone(payload: dict[str, Any], built: _Built, lock: TextIO, send: Send) -> dict[str, Delivery]:
    """A model by itself on this machine, for each set of shapes; a wrong one is not timed."""
    machine = relax.VirtualMachine(built.compile(send), tvm.cpu())
    checks: dict[str, Check] = {}
    for each in built.variants:
        found = check_and_locate(
            lambda: machine["main"],
            _build_of(payload, each, built.variants),
            send,
            where=f"board {payload['id']}",
        )
        if found.wrong:
            return {each.name: Delivery(found)}
        checks[each.name] = found
    take(lock, send)
    timed, told = dict[str, Delivery](), partial(send, {"stage": "run"})
    for each in built.variants:
        arguments = [*map(tvm.runtime.tensor, random_feeds(each.inputs).values())]
        profiled = profile(machine, arguments, clock_of(payload["threads"]), ROUNDS, LEAST, LONGEST_S, told)
        timed[each.name] = _delivery(each, checks[each.name], profiled)
    return timed


def _on_board(
    payload: dict[str, Any], tuned: _Built, untuned: _Built | None, folder: Path, lock: TextIO, send: Send
) -> dict[str, Any]:
    """On a board: one set of shapes after another, functions called one by one, the models in turns."""
    rivals = tuned.rivals(untuned)
    # On a board functions are called one by one whatever the module does.
    executables = {name: each.compile(send, whole=True) for name, each in rivals.items()}
    take(lock, send)
    wire = Wire(lambda: connect(payload["board"], SESSION_S))
    cold = {
        name for rival in rivals.values() for each in rival.variants for name in cold_functions(each.manifest)
    }
    board = Board(wire, folder, cold, lambda: send({"stage": "call"}))
    models = {name: board.load(each.lowered.module, executables[name]) for name, each in rivals.items()}
    runs: dict[str, dict[str, list[Calls]]] = {}

    def checked(name: str, variant: Variant, main: BoardModel) -> Check:
        build = _build_of(payload, variant, rivals[name].variants)
        return check_on_board(main.itself, build, board, f"board {payload['id']}", send)

    timed: dict[str, Delivery] = {}
    for each in tuned.variants:
        entered = {name: model.at(each.entry) for name, model in models.items()}
        found = checked(DELIVERED, each, entered[DELIVERED])
        if found.wrong:
            timed = {each.name: Delivery(found)}
            break
        arguments = [*map(tvm.runtime.tensor, random_feeds(each.inputs).values())]
        mine = runs[each.entry] = run_on_board(entered, arguments, BOARD_ROUNDS)
        verdict = _verdict_on_board(mine) if untuned else None
        timed[each.name] = replace(_delivery(each, found, profile_on_board(mine[DELIVERED])), verdict=verdict)

    def instead(untuned: _Built) -> dict[str, Delivery]:
        """It was run already, and is checked."""
        timed: dict[str, Delivery] = {}
        for each in untuned.variants:
            found = checked(UNTUNED, each, models[UNTUNED].at(each.entry))
            if found.wrong:
                return {each.name: Delivery(found)}
            timed[each.name] = _delivery(each, found, profile_on_board(runs[each.entry][UNTUNED]))
        return timed

    sha256 = {name: hashlib.sha256(each.path.read_bytes()).hexdigest() for name, each in models.items()}
    return _answer(timed, rivals, 0.0, instead, sha256)


def _answer(
    timed: Mapping[str, Delivery],
    rivals: Mapping[str, _Built],
    surer_s: float,
    instead: Callable[[_Built], Mapping[str, Delivery]],
    sha256: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The answer of a delivery; if the untuned model wins, ``instead`` checks and times that."""
    delivery = Delivery.of_all(timed, sha256.get(DELIVERED, ""))
    found = delivery.to_json() | {"surer_s": surer_s, "same": UNTUNED not in rivals}
    if delivery.verdict is None or not delivery.verdict.lost:
        return found
    other = {
        name: replace(each, verdict=verdict and verdict.of_untuned)
        for name, each in instead(rivals[UNTUNED]).items()
        for verdict in [timed[name].verdict]
    }
    untuned = replace(Delivery.of_all(other, sha256.get(UNTUNED, "")), untuned=True)
    return found | {"instead": untuned.to_json()}


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


def _delivery(variant: Variant, checked: Check, found: Profile) -> Delivery:
    operators = operators_of(found, variant.manifest)
    other_s = sum(each["seconds"] for each in operators if not each["key"])
    shapes = {name: list(shape) for name, shape in variant.manifest.inputs.items()}
    return Delivery(checked, found.seconds, found.spread, other_s, operators=operators, shapes=shapes)


def run_on_board(
    models: Mapping[str, BoardModel], arguments: Sequence[Any], rounds: int
) -> dict[str, list[Calls]]:
    """What the calls of each of ``models`` took in so many runs, made in turns.

    By a simulated clock all runs take the same: one is enough, and the check was one.
    """
    runs: dict[str, list[Calls]] = {
        name: [model.seconds] if model.seconds else [] for name, model in models.items()
    }
    simulated = any(model.simulated for model in models.values())
    while (turn := min(map(len, runs.values()))) < (1 if simulated else rounds):
        for name, model in models.items():
            if len(runs[name]) == turn:
                model(*arguments)
                runs[name].append(model.seconds)
    return runs


def profile_on_board(runs: Sequence[Calls]) -> Profile:
    """The profile of runs on a board: what one takes is the sum of its calls."""
    return profile_of([_total_s(run) for run in runs], runs)


def _verdict_on_board(runs: Mapping[str, Sequence[Calls]]) -> Verdict:
    turns = range(len(runs[DELIVERED]))
    return Verdict.of([{name: [_total_s(mine[turn])] for name, mine in runs.items()} for turn in turns])


def _total_s(calls: Calls) -> float:
    return sum(seconds for _, seconds in calls)


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
