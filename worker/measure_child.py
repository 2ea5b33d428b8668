"""The measuring child: one RPC session with a board for a batch of candidates of one workload.

Every stage is announced to the parent, which kills the child when it is silent for too long: TVM's RPC calls
can block for ever.
"""

from __future__ import annotations

import fcntl
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernels import registry
from kernels import target as targets
from kernels import workload as workloads
from kernels.reference import max_error, random_inputs, reference
from kernels.space import Config
from worker.build import ENTRY, first_line
from worker.outcome import ErrorKind

PROBES = 3
"""Repeats before it is decided how many more a candidate deserves."""
MIN_REPEATS, MAX_REPEATS = 5, 50
WARM_REPEAT_S = 1e-3
_LOCK_POLL_S = 0.01
Send = Callable[[Any], None]


def measure_in_child(payload: dict[str, Any], send: Send) -> dict[str, str]:
    """Measure ``payload["items"]``; sends ``{"start": id}`` and ``{"id", "outcome"}`` for each.

    Returns ``{}`` when all are done, ``{"unreachable": why}`` when there is no session to be had, and
    ``{"lost": why}`` when it broke under the candidate started last, without a reason from the board.
    """
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        try:
            session = connect(payload["board"], payload["session_s"])
        except Exception as error:
            return {"unreachable": first_line(str(error))}
        send({"stage": "connected"})
        bench = _Bench(session, payload)
        send({"stage": "prepared"})
        return _run_all(bench, payload, send)


def connect(board: dict[str, Any], session_s: float) -> Any:
    """An RPC session with a board (``BoardHandle.address``); raises when there is none to be had.

    A frozen board, or a tracker that does not have it, is waited for without end: only silence ends that.
    """
    from tvm import rpc

    timeout_s = math.ceil(session_s)
    if "tracker" not in board:
        return rpc.connect(board["host"], board["port"], board["key"], session_timeout=timeout_s)
    host, _, port = board["tracker"].rpartition(":")
    return rpc.connect_tracker(host, int(port)).request(board["key"], session_timeout=timeout_s)


def agent_stats(session: Any) -> dict[str, Any] | None:
    """What our agent says of itself and of its clock; None on a board that runs TVM's own server."""
    try:
        stats = session.get_function("tilefleet.stats")
    except Exception:
        return None
    found: dict[str, Any] = json.loads(stats())
    return found


def take(lock: Any, send: Send) -> None:
    """Wait until this child alone has the board."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_POLL_S)
            send({"stage": "waiting"})
        else:
            return


def _run_all(bench: _Bench, payload: dict[str, Any], send: Send) -> dict[str, str]:
    rounds = payload["rounds"]
    ready: list[tuple[int, _Loaded, dict[str, Any]]] = []
    for item in payload["items"]:
        send({"start": item["id"]})
        started = time.perf_counter()
        try:
            loaded = bench.load(item)
            outcome = bench.check(loaded)
            if "error" not in outcome and not rounds:
                outcome |= _summary(bench.time(loaded))
        except _Failed as failed:
            if failed.kind is None:
                return {"lost": failed.message}
            outcome = {"error": failed.kind, "message": failed.message}
            if failed.session_over:
                send({"id": item["id"], "outcome": outcome})
                return {"over": failed.message}
        if rounds and "error" not in outcome:
            ready.append((item["id"], loaded, outcome))
            continue
        send({"id": item["id"], "outcome": outcome | {"measure_s": time.perf_counter() - started}})
    return _interleave(bench, ready, rounds, send)


def _interleave(bench: _Bench, ready: list[Any], rounds: int, send: Send) -> dict[str, str]:
    """Time the candidates in turns, so that whatever the machine does meets all of them."""
    times: dict[int, list[float]] = {number: [] for number, _, _ in ready}
    # What is deterministic needs no turns.
    for turn in range(1 if bench.simulated else rounds):
        for number, loaded, _ in ready if turn % 2 == 0 else reversed(ready):
            send({"start": number})
            try:
                times[number] += bench.repeat(loaded, PROBES)
            except _Failed as failed:
                if failed.kind is None:
                    return {"lost": failed.message}
                send({"id": number, "outcome": {"error": failed.kind, "message": failed.message}})
                return {"over": failed.message}
    for number, _, outcome in ready:
        seconds = times[number]
        send({"id": number, "outcome": outcome | _summary(seconds) | {"measure_s": sum(seconds)}})
    return {}


def _summary(seconds: list[float]) -> dict[str, Any]:
    if len(seconds) == 1:
        return {"cost_s": seconds[0], "repeats_s": seconds, "spread": 0.0}
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return {"cost_s": middle, "repeats_s": seconds, "spread": (high - low) / middle}


class _Failed(Exception):
    """A candidate's failure; ``kind`` is None when the session broke and nobody said why."""

    def __init__(self, kind: ErrorKind | None, message: str, session_over: bool = False) -> None:
        super().__init__(message)
        self.kind, self.message, self.session_over = kind, message, session_over


class _Loaded:
    """A candidate on the board, with its arguments."""

    def __init__(self, module: Any, arguments: list[Any], tolerance: float) -> None:
        self.module, self.arguments, self.tolerance = module, arguments, tolerance
        self.number = 1


class _Bench:
    """Inputs, expected result and session that a batch shares."""

    def __init__(self, session: Any, payload: dict[str, Any]) -> None:
        from tvm.runtime import tensor

        self._session, self._options = session, payload["options"]
        self._workload = workloads.from_json(payload["workload"])
        # Fresh inputs each time: no candidate can be right by accident.
        self._inputs = random_inputs(self._workload, np.random.default_rng())
        self._expected = reference(self._workload, self._inputs)
        self._device = session.cpu(0)
        self._nothing = np.full(self._workload.out_shape, np.nan, np.float32)
        self._tensor: Callable[[Any], Any] = lambda array: tensor(array, self._device)
        self._data, *self._rest = map(self._tensor, [self._inputs[0], *self._inputs[2:]])
        self._out = self._tensor(self._nothing)
        stats = agent_stats(session)
        self.simulated = bool(stats and stats["simulated"])
        evict = "cache_flush_cpu_non_first_arg" if stats is None else "tilefleet.cold_weights"
        self._preparation = evict if self._options["cold"] else ""

    def load(self, item: dict[str, Any]) -> _Loaded:
        """Upload one candidate with its packed weights."""
        config, target = Config.from_json(item["config"]), targets.from_json(item["target"])
        kernel = registry.kernel(config.kernel)
        try:
            packed = kernel.pack(self._workload, config, target, self._inputs[1])
        except Exception as error:
            raise _Failed(ErrorKind.BUILD_ERROR, first_line(f"packing the weights: {error}")) from None
        try:
            name = f"{item['sha256'][:16]}.so"
            self._session.upload(item["path"], target=name)
            module = self._session.load_module(name)
            module[ENTRY]
            arguments = [self._data, self._tensor(packed), *self._rest, self._out]
        except Exception as error:
            raise self._failure(error, ErrorKind.UPLOAD_ERROR) from None
        return _Loaded(module, arguments, kernel.tolerance)

    def check(self, loaded: _Loaded) -> dict[str, Any]:
        """Run once and compare with the reference."""
        try:
            self._out.copyfrom(self._nothing)
            loaded.module[ENTRY](*loaded.arguments)
            error = max_error(self._out.numpy(), self._expected)
        except Exception as failure:
            raise self._failure(failure, ErrorKind.CRASH) from None
        if error <= loaded.tolerance:
            return {"max_error": error}
        message = f"largest error {error:.3g} of the largest value, {loaded.tolerance:g} allowed"
        if not math.isfinite(error):
            message = "some of the output is not a number, infinite, or never written"
        return {"error": ErrorKind.WRONG_RESULT, "message": message}

    def time(self, loaded: _Loaded) -> list[float]:
        """Seconds a call, as often as the candidate deserves: less when it is far behind the best."""
        seconds = self.repeat(loaded, PROBES)
        if self.simulated:
            return seconds
        best = self._options["best_s"]
        if best is not None and min(seconds) > self._options["cutoff"] * best:
            return seconds
        if not self._options["cold"]:
            loaded.number = max(1, math.ceil(WARM_REPEAT_S / min(seconds)))
        wanted = self._options["min_time_s"] / (min(seconds) * loaded.number)
        repeats = min(MAX_REPEATS, max(MIN_REPEATS, math.ceil(wanted)))
        if loaded.number > 1:
            return self.repeat(loaded, repeats)
        return seconds + self.repeat(loaded, repeats - len(seconds))

    def repeat(self, loaded: _Loaded, repeats: int) -> list[float]:
        """Time ``repeats`` repeats after one call to warm up; one is enough where all would be the same."""
        if self.simulated:
            repeats = 1
        try:
            evaluator = loaded.module.time_evaluator(
                ENTRY, self._device, number=loaded.number, repeat=repeats, f_preproc=self._preparation
            )
            return [float(value) for value in evaluator(*loaded.arguments).results]
        except Exception as error:
            raise self._failure(error, ErrorKind.CRASH) from None

    def _failure(self, error: Exception, kind: ErrorKind) -> _Failed:
        """What an error of the session means for the candidate that runs."""
        text = str(error)
        if "killed by signal" in text:
            line = next(line for line in text.splitlines() if "killed by signal" in line)
            return _Failed(ErrorKind.CRASH, first_line(line), session_over=True)
        if "SessionTimeout" in text:
            return _Failed(ErrorKind.RUN_TIMEOUT, first_line(text), session_over=True)
        try:
            self._session.get_function("tvm.rpc.server.upload")
        except Exception:
            return _Failed(None, first_line(text))
        return _Failed(kind, first_line(text))
