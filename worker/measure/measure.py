"""Measuring built candidates on a board: what one batch of one workload leads to."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kernels import target as targets
from kernels.workload import base as workloads
from worker.build.build import Built
from worker.children.nursery import ChildCancelled, ChildCrashed, ChildRaised, ChildTimeout, Flag, Nursery
from worker.measure.session import lock_file, why_silent
from worker.outcome import ErrorKind, OnOutcome, Outcome
from worker.shortage import shortage

_LONGEST_S = 3600.0
PREPARED_BYTES_S, REFERENCE_FLOPS_S = 50e6, 5e9
"""How fast tensors are made and sent, and the reference computed, on a slow and busy machine."""


class BoardHandle(Protocol):
    """A board as seen by its worker: an RPC server."""

    @property
    def id(self) -> str:
        """The board's name."""

    @property
    def address(self) -> dict[str, Any]:
        """Where its RPC server is now: ``{"host", "port", "key"}`` or ``{"tracker": "host:port", "key"}``."""

    def alive(self) -> bool:
        """Whether it is worth trying."""

    def restart(self) -> None:
        """Bring the RPC server back to a known state, if that can be done from here."""


def _min_time_s() -> float:
    text = os.environ.get("TILEFLEET_MIN_TIME_MS", "60")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 10_000:
        raise ValueError(f"TILEFLEET_MIN_TIME_MS must be milliseconds from above 0 to 10000, got {text!r}")
    return value / 1e3


@dataclass(frozen=True)
class MeasureOptions:
    """How to measure. All times in seconds.

    ``cold`` evicts the weights before each call, as inside a model. A candidate is repeated for
    ``min_time_s``, warm-up and evictions included (by default ``TILEFLEET_MIN_TIME_MS`` milliseconds, or
    60), but only a few times when it is ``cutoff`` times slower than ``best_s``, the best known.
    ``run_timeout_s`` is what one candidate may take of the board in all; ``patience`` adds to it for
    workloads whose tensors take long to make, check and send.
    """

    cold: bool = True
    min_time_s: float = field(default_factory=_min_time_s)
    cutoff: float = 3.0
    best_s: float | None = None
    build_timeout_s: float = 30.0
    run_timeout_s: float = 10.0

    def patience(self, workload: workloads.Workload) -> float:
        """Seconds after which a candidate of ``workload`` that shows no progress is given up."""
        elements = sum(map(math.prod, workloads.array_shapes(workload).values()))
        return self.run_timeout_s + 4 * elements / PREPARED_BYTES_S + workload.flops / REFERENCE_FLOPS_S


def measure(
    nursery: Nursery,
    board: BoardHandle,
    built: Sequence[Built],
    options: MeasureOptions,
    *,
    lock_dir: Path,
    rounds: int = 0,
    cancelled: Flag | None = None,
    on_outcome: OnOutcome | None = None,
) -> list[Outcome]:
    """One outcome for each of ``built``, all of one workload; with ``rounds`` they are timed in turns.

    A candidate that ends the session gets its error kind, and the others go on in a new one. ``lock_dir``
    holds one lock file a board, so that two processes never use it at once. ``on_outcome`` gets each
    outcome with its place as soon as it is there.
    """
    lock = lock_file(lock_dir, board.id)
    return _Sessions(nursery, board, built, options, lock, rounds, cancelled, on_outcome).run()


@dataclass
class _Sessions:
    """The sessions that built candidates take; ``running`` is the one that the present session has begun."""

    nursery: Nursery
    board: BoardHandle
    built: Sequence[Built]
    options: MeasureOptions
    lock: Path
    rounds: int
    cancelled: Flag | None
    on_outcome: OnOutcome | None
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    losses: Counter[int] = field(default_factory=Counter)
    running: int | None = None
    refusals: int = 0
    fault: str = ""
    started: float = 0.0

    def __post_init__(self) -> None:
        self.patience_s = self.options.patience(self.built[0].candidate.workload) if self.built else 0.0

    def run(self) -> list[Outcome]:
        """Sessions until every candidate has its outcome."""
        while self._pending():
            self.running = None
            try:
                ended = self.nursery.call(
                    "worker.measure.child:measure_in_child",
                    self._payload(),
                    timeout_s=_LONGEST_S,
                    silence_s=self.patience_s,
                    on_message=self._on_message,
                    cancelled=self.cancelled,
                )
            except ChildCancelled:
                self._fail_pending(ErrorKind.CANCELLED, "cancelled while measuring")
            except ChildTimeout:
                self._timed_out()
            except (ChildCrashed, ChildRaised) as error:
                self._lost(f"the measuring child failed: {error}")
            else:
                if "unreachable" in ended:
                    self._refused(ended["unreachable"])
                elif "lie" in ended:
                    self._lied(ended["lie"])
                elif "lost" in ended:
                    self._lost(ended["lost"], ErrorKind(ended["suspicion"]))
        return [self.outcomes[number] for number in range(len(self.built))]

    def _pending(self) -> list[int]:
        return [number for number in range(len(self.built)) if number not in self.outcomes]

    def _payload(self) -> dict[str, Any]:
        pending = self._pending()
        items = [
            {
                "id": number,
                "config": built.candidate.config.to_json(),
                "target": targets.to_json(built.candidate.target),
                "path": str(built.path),
                "sha256": built.sha256,
                "threads": built.candidate.threads,
            }
            for number in pending
            for built in [self.built[number]]
        ]
        return {
            "board": self.board.address,
            "lock": str(self.lock),
            "patience_s": self.patience_s,
            "workload": workloads.to_json(self.built[0].candidate.workload),
            "options": asdict(self.options),
            "rounds": self.rounds,
            "items": items,
        }

    def _on_message(self, message: dict[str, Any]) -> None:
        if "start" in message:
            self.running, self.started = message["start"], time.perf_counter()
        elif "outcome" in message:
            self._record(message["id"], Outcome(**_typed(message["outcome"])))

    def _record(self, number: int, outcome: Outcome) -> None:
        built = self.built[number]
        self.outcomes[number] = replace(
            outcome,
            board=self.board.id,
            cold=self.options.cold,
            build_s=built.build_s,
            toolchain=built.toolchain,
            fault=self.fault,
        )
        self.fault = ""
        if self.on_outcome is not None:
            self.on_outcome(number, self.outcomes[number])

    def _fail(self, number: int, kind: ErrorKind, message: str) -> None:
        spent = time.perf_counter() - self.started if number == self.running else 0.0
        self._record(number, Outcome(error=kind, message=message, measure_s=spent))

    def _fail_pending(self, kind: ErrorKind, message: str) -> None:
        for number in self._pending():
            self._fail(number, kind, message)

    def _timed_out(self) -> None:
        if self.running is None or self.running in self.outcomes:
            self._refused(f"no answer within {self.patience_s:.3g} s")
            return
        # A board that is well has ended the session by now and opens the next one at once.
        silence = why_silent(self.nursery, self.board.address, self.lock)
        if silence:
            self._lost(silence, ErrorKind.RUN_TIMEOUT)
            return
        self._fail(self.running, ErrorKind.RUN_TIMEOUT, f"not done within {self.patience_s:.3g} s")
        self._restart()

    def _lost(self, reason: str, suspicion: ErrorKind = ErrorKind.CRASH) -> None:
        """The connection broke and nobody says why: once may be the board, twice is the candidate, unless it
        was still on its way there."""
        if self.running is None or self.running in self.outcomes:
            self._refused(reason)
            return
        self.losses[self.running] += 1
        if self.losses[self.running] > 1:
            self.fault = ""
            self._fail(self.running, suspicion, f"the connection broke twice under it: {reason}")
        else:
            self.fault = reason
        self._restart()

    def _refused(self, reason: str) -> None:
        self.refusals += 1
        if self.refusals > 1:
            self._fail_pending(ErrorKind.BOARD_LOST, f"board {self.board.id}: {reason}")
        else:
            self.fault = reason
            self._restart()

    def _lied(self, what: str) -> None:
        """Nothing more is measured on a board that says what cannot be."""
        for number in self._pending():
            message = f"board {self.board.id}: {what}"
            self._record(number, Outcome(error=ErrorKind.BOARD_LOST, message=message, lied=True))

    def _restart(self) -> None:
        try:
            self.board.restart()
        except Exception as error:
            if short := shortage(error):
                raise short from None
            who = f"board {self.board.id}: "  # most of its own errors begin so
            self._fail_pending(ErrorKind.BOARD_LOST, who + str(error).removeprefix(who))


def _typed(value: dict[str, Any]) -> dict[str, Any]:
    if "error" in value:
        value["error"] = ErrorKind(value["error"])
    if "repeats_s" in value:
        value["repeats_s"] = tuple(value["repeats_s"])
    return value
