"""A board's health check: a known kernel must answer right, and in its time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from kernels.registry import recommendations
from kernels.workload.base import Conv2d
from worker.build.build import Built
from worker.candidate import Candidate
from worker.engine.worker_context import WorkerContext
from worker.fleet.book import Check
from worker.fleet.drivers.base import Driver
from worker.measure.measure import BoardHandle, MeasureOptions, measure
from worker.measure.session import lock_file, why_silent

REFERENCE = Conv2d(1, 32, 28, 28, 32, 3, 3, pad=(1, 1, 1, 1))
"""Some 100 us on a large core; on an emulated one without vectors its check takes seconds."""
RUN_S, EMULATED_RUN_S, BUILD_S = 10.0, 60.0, 60.0


def check_board(context: WorkerContext) -> Check:
    """Build, check and time the reference kernel on the context's board; what went wrong is in ``problem``.

    A board that fails is restarted, so that the next check finds it in a known state if that can be had.
    """
    board, target = context.board, context.target
    assert board is not None  # by the task's resource
    assert target is not None
    config = recommendations(REFERENCE, target)[0]
    built = context.builder.build(Candidate(REFERENCE, config, target), BUILD_S)
    if not isinstance(built, Built):
        return Check(None, f"the reference kernel was not built: {built.message}")
    # Whose clock it was is part of the name: after a change of the simulated clock all times are new ones.
    artifact = hashlib.sha256(f"{built.sha256} {board.clock}".encode()).hexdigest()
    check = replace(_run(context, board, built), artifact=artifact)
    if check.problem:
        try:
            board.restart()
        except Exception as error:
            return replace(check, problem=f"{check.problem}; restarting it failed: {error}")
    return check


def judge(check: Check, reference_s: float | None, artifact: str, clock: str, drift_limit: float) -> Check:
    """``check`` with a problem when its time is not what ``reference_s``, the best known, leads to expect.

    ``artifact`` is what that time belongs to; of another one it says nothing. ``clock`` is the board's: the
    wall's may take ``drift_limit`` times as long, a simulated one must be the same to the bit.
    """
    if check.problem or check.seconds is None or reference_s is None or check.artifact != artifact:
        return check
    took = f"the reference kernel took {check.seconds * 1e3:.6g} ms"
    if clock != "wall":
        if check.seconds == reference_s:
            return check
        return replace(
            check, problem=f"{took}, not the {reference_s * 1e3:.6g} ms that its clock always gave"
        )
    ratio = check.seconds / reference_s
    if ratio <= drift_limit:
        return check
    best = f"{ratio:.1f} times its best of {reference_s * 1e3:.6g} ms"
    return replace(check, problem=f"{took}, {best}; {drift_limit:g} times are allowed")


@dataclass(frozen=True)
class _AsItIs:
    """A board that is not restarted: what is wrong with it is to be seen."""

    board: BoardHandle

    @property
    def id(self) -> str:
        return self.board.id

    @property
    def address(self) -> dict[str, Any]:
        return self.board.address

    def alive(self) -> bool:
        return self.board.alive()

    def restart(self) -> None:
        raise RuntimeError("it failed the reference kernel")


def _run(context: WorkerContext, board: Driver, built: Built) -> Check:
    silence = why_silent(context.nursery, board.address, lock_file(context.state_dir, board.id))
    if silence:
        return Check(None, silence)
    run_s = RUN_S if board.clock == "wall" else EMULATED_RUN_S
    options = MeasureOptions(min_time_s=0.1, run_timeout_s=run_s)
    (outcome,) = measure(context.nursery, _AsItIs(board), [built], options, lock_dir=context.state_dir)
    if outcome.error is not None:
        return Check(None, f"the reference kernel ended as {outcome.error}: {outcome.message}")
    # The least is what the board can do: whatever disturbs it only adds. That is no drift.
    return Check(
        None if outcome.disturbed else min(outcome.repeats_s),
        temperature_c=outcome.temperature_c,
        frequency_mhz=outcome.frequency_mhz,
    )
