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
from typing import Any, Self, TextIO

import tvm
from tvm import relax
from tvm_ffi import structural_equal

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
from tuner.intake.shapes import sets_of
from tuner.job.race import race
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts, read_relayouts
from tuner.operators.functions import function_name
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
    this took are in ``surer_s``. The other model's configs are in ``untuned``, a list of
    ``{"key", "config"}``.
    """
    started, surer_s = time.perf_counter(), 0.0
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    records = [Record.from_json(each) for each in payload["records"]]
    tuned = _Built.of(payload, records, list(read_relayouts(payload["relayouts"])), send)
    untuned = _Built.of(payload, [], [], send) if payload.get("race") else None
    with Path(payload["lock"]).open("w") as lock, tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        parts = payload, tuned, untuned, Path(folder), lock, send
        if "board" in payload:
            delivery = _on_board(*parts)
        else:
            delivery, surer_s = _here(*parts, started + payload.get("race", 0.0))
    found = delivery.to_json()
    return found if untuned is None else found | {"untuned": untuned.configs, "surer_s": surer_s}


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

    @property
    def configs(self) -> list[dict[str, Any]]:
        """The config of each layer, of all sets of shapes, as ``{"key", "config"}``."""
        layers = [layer for each in self.variants for layer in each.manifest.layers]
        found = [(each.workload.key, each.config) for each in layers if each.workload and each.config]
        return [{"key": key, "config": config.to_json()} for key, config in dict.fromkeys(found)]

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
) -> tuple[Delivery, float]:
    """On this machine: all sets of shapes are checked, then timed call by call, then raced. The second value
    is how many seconds, at most ``until`` that time, the races took to be surer."""
    variants, threads = tuned.variants, payload["threads"]
    machine = relax.VirtualMachine(tuned.compile(send), tvm.cpu())
    files = {}
    for name, rival in tuned.rivals(untuned).items() if untuned else ():
        files[name] = folder / f"{name}.so"
        export(rival.compile(send, whole=True), files[name])
    checks: dict[str, Check] = {}
    for each in variants:
        found = check_and_locate(
            lambda: machine["main"], _build_of(payload, each, variants), send, where=f"board {payload['id']}"
        )
        if found.wrong:
            return Delivery.of_all({each.name: Delivery(found)}), 0.0
        checks[each.name] = found
    take(lock, send)
    told = partial(send, {"stage": "run"})
    timed, surer_s = dict[str, Delivery](), 0.0
    for each, (name, found) in zip(variants, checks.items(), strict=True):
        feeds = random_feeds(each.inputs)
        arguments = [*map(tvm.runtime.tensor, feeds.values())]
        profiled = profile(machine, arguments, clock_of(threads), ROUNDS, LEAST, LONGEST_S, told)
        verdict = None
        if files:
            more_s = (until - time.perf_counter()) / (len(variants) - len(timed))
            verdict, more_s = race(files, Path(payload["model"]), feeds, threads, more_s, told)
            surer_s += more_s
        timed[name] = replace(_delivery(each, found, profiled), verdict=verdict)
    return Delivery.of_all(timed), surer_s


def _on_board(
    payload: dict[str, Any], tuned: _Built, untuned: _Built | None, folder: Path, lock: TextIO, send: Send
) -> Delivery:
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
    where, sha256 = f"board {payload['id']}", hashlib.sha256(models[DELIVERED].path.read_bytes()).hexdigest()
    found: dict[str, Delivery] = {}
    for each in tuned.variants:
        entered = {name: model.at(each.entry) for name, model in models.items()}
        main = entered[DELIVERED]
        checked = check_on_board(main.itself, _build_of(payload, each, tuned.variants), board, where, send)
        if checked.wrong:
            return Delivery.of_all({each.name: Delivery(checked)}, sha256)
        arguments = [*map(tvm.runtime.tensor, random_feeds(each.inputs).values())]
        runs = run_on_board(entered, arguments, BOARD_ROUNDS)
        timed = _delivery(each, checked, profile_on_board(runs[DELIVERED]))
        found[each.name] = replace(timed, verdict=_verdict_on_board(runs) if untuned else None)
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
