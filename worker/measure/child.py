"""The measuring child: candidates of one workload, one after the other, on one board.

Every stage is announced to the parent, which kills the child when it is silent for too long: TVM's RPC calls
can block for ever.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from kernels import registry
from kernels import target as targets
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts, from_layout, stored_shape, to_layout
from kernels.reference import max_error, random_inputs, reference
from kernels.space import Config
from kernels.workload import base as workloads
from worker.build.build import ENTRY, first_line
from worker.measure import plausible
from worker.measure.quiet import ENOUGH, PATIENCE, Repeats, divider
from worker.measure.session import Send, connect, crash_of, stats_reader, take
from worker.measure.wire import Wire
from worker.outcome import ErrorKind

PROBES = ENOUGH
"""Repeats before it is decided how many more a candidate deserves."""
FAR = 2.0
"""So many times above the cut-off, a candidate is given up after its first repeat: that is no bad luck."""
MIN_REPEATS, MAX_REPEATS = 5, 100_000
KEPT_REPEATS = 50
WARM_REPEAT_S = 1e-3
COUNTERS = ("cycles", "instructions", "loads", "stores", "l1_misses", "l2_misses")
_SPARE_S = 5.0


def measure_in_child(payload: dict[str, Any], send: Send) -> dict[str, str]:
    """Measure ``payload["items"]``; sends ``{"start": id}`` and ``{"id", "outcome"}`` for each.

    A candidate that ends the session costs no more than a new one: the others go on in it. Returns ``{}``
    when all are done, ``{"unreachable": why}`` when there is no session to be had, ``{"lost": why}`` when it
    broke under the candidate started last, without a reason from the board (``suspicion`` is what that is if
    it happens again), and ``{"lie": what}`` when the board said what cannot be.
    """
    problem, items = _Problem(payload), payload["items"]
    over: list[
        _Session
    ] = []  # TVM tells the board of each object that goes; these boards are not there to hear.
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        while items:
            session_s = payload["patience_s"] * len(items) + _SPARE_S
            try:
                session = _Session(problem, Wire(lambda: connect(payload["board"], session_s)))  # noqa: B023  # called at once
            except Exception as error:
                return {"unreachable": first_line(str(error))}
            send({"stage": "connected"})
            run = _Run(session, payload["rounds"], send)
            try:
                run.all(items)
            except plausible.Lie as lie:
                return {"lie": str(lie)}
            except _Failed as lost:
                return {"lost": lost.message, "suspicion": lost.suspicion}
            items = [item for item in items if item["id"] not in run.ended]
            over.append(session)
    return {}


class _Failed(Exception):
    """A candidate's failure; ``kind`` is None, and ``suspicion`` given, when the session broke and nobody
    said why."""

    def __init__(
        self,
        kind: ErrorKind | None,
        message: str,
        session_over: bool = False,
        suspicion: ErrorKind = ErrorKind.CRASH,
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.session_over, self.suspicion = kind, message, session_over, suspicion


class _Run:
    """One session's way through the candidates; ``ended`` are those that have their outcome."""

    def __init__(self, session: _Session, rounds: int, send: Send) -> None:
        # What is deterministic needs no turns.
        self._session, self._rounds, self._send = session, 0 if session.simulated else rounds, send
        self.ended: set[int] = set()

    def all(self, items: list[dict[str, Any]]) -> None:
        """Until all have their outcome or one ends the session; raises _Failed when it just broke."""
        ready: list[tuple[int, _Loaded, dict[str, Any]]] = []
        for item in items:
            number, started = item["id"], time.perf_counter()
            self._send({"start": number})
            try:
                loaded = self._session.load(item)
                outcome = self._session.check(loaded)
                if self._rounds and "error" not in outcome:
                    ready.append((number, loaded, outcome))
                    continue
                if "error" not in outcome:
                    outcome |= _summary(self._session.time(loaded)) | self._session.circumstances(loaded)
            except _Failed as failed:
                if self._failed(number, failed, started):
                    return
                continue
            self._end(number, outcome, started)
        self._interleave(ready)

    def _interleave(self, ready: list[tuple[int, _Loaded, dict[str, Any]]]) -> None:
        """Time the candidates in turns, so that whatever the machine does meets all of them."""
        times = {number: Repeats() for number, _, _ in ready}
        for turn in range(self._rounds):
            for number, loaded, outcome in ready if turn % 2 == 0 else reversed(ready):
                started = time.perf_counter()
                self._send({"start": number})
                try:
                    times[number] += self._session.turn(loaded, self._rounds)
                    outcome |= self._session.circumstances(loaded)
                except _Failed as failed:
                    self._failed(number, failed, started)
                    return
        for number, _, outcome in ready:
            outcome["measure_s"] = outcome["timed_s"]
            self._report(number, outcome | _summary(times[number]))

    def _failed(self, number: int, failed: _Failed, started: float) -> bool:
        """Whether that was the end of the session."""
        if failed.kind is None:
            raise failed
        self._end(number, {"error": failed.kind, "message": failed.message}, started)
        return failed.session_over

    def _end(self, number: int, outcome: dict[str, Any], started: float) -> None:
        self._report(number, outcome | {"measure_s": time.perf_counter() - started})

    def _report(self, number: int, outcome: dict[str, Any]) -> None:
        self.ended.add(number)
        self._send({"id": number, "outcome": outcome})


def _summary(repeats: Repeats) -> dict[str, Any]:
    """Cost and spread; of very many repeats, medians of neighbours are kept."""
    return _cost(repeats.counted) | {"disturbed": not repeats.enough}


def _cost(seconds: list[float]) -> dict[str, Any]:
    if len(seconds) > KEPT_REPEATS:
        seconds = [float(np.median(part)) for part in np.array_split(np.array(seconds), KEPT_REPEATS)]
    if len(seconds) == 1:
        return {"cost_s": seconds[0], "repeats_s": seconds, "spread": 0.0}
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return {"cost_s": middle, "repeats_s": seconds, "spread": (high - low) / middle}


class _Problem:
    """What all sessions of a batch share: inputs, expected result, options.

    ``timed`` are the data of timed calls where those are not the ``inputs``.
    """

    def __init__(
        self, payload: dict[str, Any], timed: Array | None = None, rest: Sequence[Array] = ()
    ) -> None:
        self._payload, self.options = payload, payload["options"]
        self.workload = workloads.from_json(payload["workload"])
        # Fresh inputs each time: no candidate can be right by accident.
        fresh = random_inputs(self.workload, np.random.default_rng())
        self.timed, self.inputs = timed, [fresh[0], *(rest or fresh[1:])]
        self.expected = reference(self.workload, self.inputs)

    @cached_property
    def on_simulated_clock(self) -> _Problem:
        """The same with weights, and data of timed calls, that follow from the workload.

        The time to scale integers depends on their values, and the clock shall say the same each time.
        """
        if self.expected.dtype.kind not in "iu":
            return self
        rng = np.random.default_rng(crc32(self.workload.key.encode()))
        timed, *rest = random_inputs(self.workload, rng)
        return _Problem(self._payload, timed, rest)


@dataclass(frozen=True)
class _Shared:
    """Tensors on the board for the candidates of some layouts; ``rest`` is [bias], [residual], or all
    activations but the first.

    Of quantized workloads it is empty: there the bias depends on the config.
    """

    data: Any
    rest: list[Any]
    out: Any
    out_layout: str
    nothing: Array
    inputs: Array
    timed: Array | None
    """What ``data`` holds while it is checked, and while it is timed where that is something else."""

    @classmethod
    def of(cls, problem: _Problem, layouts: Layouts, wire: Wire) -> _Shared:
        data, *rest = problem.inputs
        if isinstance(problem.workload, workloads.AnyChain):
            # All but a residual depend on the config.
            rest = rest[len(rest) - problem.workload.epilogue.residual :]
        elif not isinstance(problem.workload, workloads.OfActivations):
            # The weights lie as each config wants them.
            constants = (
                problem.workload.constants if isinstance(problem.workload, workloads.NarrowGemm) else 1
            )
            rest = rest[constants:]
        timed = problem.timed
        if layouts != PLAIN:
            data = to_layout(data, layouts.data)
            timed = None if timed is None else to_layout(timed, layouts.data)
            rest = [to_layout(array, layouts.out) if array.ndim == 4 else array for array in rest]
        if problem.workload.unit == "OP":
            rest = []
            # Differs everywhere from what is to be written.
            nothing = ~problem.expected if problem.expected.dtype.kind in "iu" else problem.expected + np.nan
        else:
            shape = problem.workload.out_shape
            shape = shape if layouts == PLAIN else stored_shape(layouts.out, shape)
            nothing = np.full(shape, np.nan, np.float32)
        tensors = [wire.tensor(array) for array in (data, *rest, nothing)]
        return cls(tensors[0], tensors[1:-1], tensors[-1], layouts.out, nothing, data, timed)


class _Loaded:
    """A candidate on the board, with its arguments; ``timed_s`` is the wall time its timer ran.

    No call of it can take less than ``least_s``.
    """

    def __init__(
        self, module: Any, arguments: list[Any], tolerance: float, shared: _Shared, least_s: float
    ) -> None:
        self.module, self.arguments, self.tolerance, self.shared = module, arguments, tolerance, shared
        self.least_s = least_s
        self.number = 1
        self.first = Repeats()
        self.timed_s, self.each_s = 0.0, math.inf


class _Session:
    """One session with the tensors that all candidates use."""

    def __init__(self, problem: _Problem, wire: Wire) -> None:
        self._wire, self._session = wire, wire.session
        self._shared: dict[Layouts, _Shared] = {}
        self._stats, self._divide = stats_reader(self._session), divider(self._session)
        self.simulated = bool(self._stats and self._stats()["simulated"])
        self._problem = problem.on_simulated_clock if self.simulated else problem
        evict = "tilefleet.cold_weights" if self._stats else "cache_flush_cpu_non_first_arg"
        # What one layer has just made for another is not cold.
        warm = isinstance(problem.workload, workloads.OfActivations) or not problem.options["cold"]
        self._preparation = "" if warm else evict

    def load(self, item: dict[str, Any]) -> _Loaded:
        """Upload one candidate with its packed weights."""
        config, target = Config.from_json(item["config"]), targets.from_json(item["target"])
        kernel = registry.kernel(config.kernel)
        try:
            constants = kernel.constants(self._problem.workload, config, target, self._problem.inputs)
        except Exception as error:
            raise _Failed(ErrorKind.BUILD_ERROR, first_line(f"packing the weights: {error}")) from None
        try:
            name = f"{item['sha256'][:16]}.so"
            self._session.upload(item["path"], target=name)
            module = self._session.load_module(name)
            module[ENTRY]
            shared = self._tensors(config.layouts)
            tensors = [self._wire.tensor(array) for array in constants]
            arguments = [shared.data, *tensors, *shared.rest, shared.out]
        except Exception as error:
            raise self._failure(error, ErrorKind.UPLOAD_ERROR) from None
        workload = self._problem.workload
        least_s = plausible.least_s_of(workload, target, item["threads"])
        return _Loaded(module, arguments, kernel.tolerance_of(workload, config), shared, least_s)

    def _tensors(self, layouts: Layouts) -> _Shared:
        """The tensors that all candidates of these layouts use; uploaded for the first of them."""
        if layouts not in self._shared:
            self._shared[layouts] = _Shared.of(self._problem, layouts, self._wire)
        return self._shared[layouts]

    def check(self, loaded: _Loaded) -> dict[str, Any]:
        """Run once and compare with the reference; where that takes seconds, a timed run is the one."""
        shared = loaded.shared
        try:
            self._wire.put(shared.nothing, shared.out)
            if shared.timed is not None:
                self._wire.put(shared.inputs, shared.data)
            if self.simulated and shared.timed is None:
                loaded.first = self._repeat(loaded, 1)
            else:
                loaded.module[ENTRY](*loaded.arguments)
            result = from_layout(self._wire.get(shared.out), shared.out_layout)
            error = max_error(result, self._problem.expected)
        except (_Failed, plausible.Lie):
            raise
        except Exception as failure:
            raise self._failure(failure, ErrorKind.CRASH) from None
        if error <= loaded.tolerance:
            return {"max_error": error}
        unit = "quanta" if self._problem.expected.dtype.kind in "iu" else "of the largest value"
        message = f"largest error {error:.3g} {unit}, {loaded.tolerance:g} allowed"
        if not math.isfinite(error):
            message = "some of the output is not a number, infinite, or never written"
        return {"error": ErrorKind.WRONG_RESULT, "message": message}

    def time(self, loaded: _Loaded) -> Repeats:
        """Seconds a call, for as long as the candidate deserves: less when it is far behind the best.

        Longer where others disturb it, within bounds.
        """
        if self.simulated:
            return loaded.first if loaded.shared.timed is None else self._repeat(loaded, 1)
        options = self._problem.options
        cutoff_s = math.inf if options["best_s"] is None else options["cutoff"] * options["best_s"]
        found = self._repeat(loaded, 1)
        if found.enough and found.quiet[0] > FAR * cutoff_s:
            return found
        found += self._repeat(loaded, PROBES - 1)
        if found.quiet and min(found.quiet) > cutoff_s:
            return found
        if not self._preparation:
            loaded.number = max(1, math.ceil(WARM_REPEAT_S / min(found.counted)))
            found = Repeats() if loaded.number > 1 else found
        while (few := self._missing(loaded, found)) > 0 or loaded.timed_s < options["min_time_s"]:
            wanted = math.ceil((options["min_time_s"] - loaded.timed_s) / loaded.each_s)
            found += self._repeat(loaded, min(MAX_REPEATS, max(1, few, wanted)))
        return found

    def _missing(self, loaded: _Loaded, found: Repeats) -> int:
        """Repeats to make before there are enough: quiet ones, as long as there is patience."""
        return MIN_REPEATS - len(found if self._too_long(loaded.timed_s) else found.quiet)

    def _too_long(self, seconds: float) -> bool:
        return seconds > PATIENCE * float(self._problem.options["min_time_s"])

    def turn(self, loaded: _Loaded, turns: int) -> Repeats:
        """Seconds a call in one of several turns; twice as many where they were disturbed."""
        wanted = math.ceil(self._problem.options["min_time_s"] / turns / loaded.each_s)
        found = self._repeat(loaded, min(MAX_REPEATS, max(PROBES, wanted)))
        if not found.enough and not self._too_long(loaded.each_s * len(found)):
            found += self._repeat(loaded, len(found))
        return found

    def _repeat(self, loaded: _Loaded, repeats: int) -> Repeats:
        """Time ``repeats`` repeats after one call to warm up."""
        try:
            if loaded.shared.timed is not None:
                self._wire.put(loaded.shared.timed, loaded.shared.data)
            evaluator = loaded.module.time_evaluator(
                ENTRY, self._wire.device, number=loaded.number, repeat=repeats, f_preproc=self._preparation
            )
            started = time.perf_counter()
            results = evaluator(*loaded.arguments).results
            spent = time.perf_counter() - started
            most_s = plausible.LONGEST_S if self.simulated else spent / loaded.number
            found = self._divide(plausible.times(results, loaded.least_s, most_s))
        except plausible.Lie:
            raise
        except Exception as error:
            raise self._failure(error, ErrorKind.CRASH) from None
        loaded.timed_s += spent
        loaded.each_s = spent / (repeats + 1)
        return found

    def circumstances(self, loaded: _Loaded) -> dict[str, Any]:
        """How long the timer ran, and what the board says of the last repeat and of itself."""
        found: dict[str, Any] = {"timed_s": loaded.timed_s}
        try:
            stats = self._stats() if self._stats else {}
        except Exception as error:
            raise self._failure(error, ErrorKind.CRASH) from None
        if self.simulated:
            found["counters"] = plausible.counters(stats, COUNTERS)
        return found | {
            name: plausible.reading(stats.get(name), *bounds) for name, bounds in plausible.BOUNDS.items()
        }

    def _failure(self, error: Exception, kind: ErrorKind) -> _Failed:
        """What an error of the session means for the candidate that runs."""
        text = str(error)
        if line := crash_of(text):
            if "SIGKILL" in line:  # which no candidate sends itself
                return _Failed(None, first_line(line))
            return _Failed(ErrorKind.CRASH, first_line(line), session_over=True)
        if "SessionTimeout" in text:
            return _Failed(ErrorKind.RUN_TIMEOUT, first_line(text), session_over=True)
        try:
            self._session.get_function("tvm.rpc.server.upload")
        except Exception:
            return _Failed(None, first_line(text), suspicion=kind)
        return _Failed(kind, first_line(text))
