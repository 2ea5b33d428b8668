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
from worker.fleet.book import Check, Entry
from worker.fleet.drivers.base import Driver
from worker.fleet.times import FleetTimes
from worker.measure.measure import BoardHandle, MeasureOptions, measure
from worker.measure.session import lock_file, why_silent
from worker.shortage import shortage

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
            if short := shortage(error):
                raise short from None
            return replace(check, problem=f"{check.problem}; restarting it failed: {error}")
    return check


def judge(check: Check, board: str, entry: Entry, clock: str, times: FleetTimes) -> Check:
    """``check`` of ``board`` with a problem when its time is not what the book's ``entry`` leads to expect.

    Times of another artifact say nothing. ``clock`` is the board's: the wall's may differ by ``drift_limit``
    and ``kin_limit`` of ``times``; a simulated one must be the same to the bit. A board that is faster need
    not be better: it may lie.
    """
    if check.problem or check.seconds is None:
        return check
    own_s = entry.reference_s if entry.reference_artifact == check.artifact else None
    kin = {id: seconds for id, artifact, seconds in entry.kin if artifact == check.artifact and id != board}
    why = _alone(check.seconds, own_s, clock, times) or _beside(check.seconds, kin, clock, times)
    return replace(check, problem=f"the reference kernel took {_ms(check.seconds)}, {why}") if why else check


def _alone(seconds: float, own_s: float | None, clock: str, times: FleetTimes) -> str:
    """What is wrong with a time beside the board's own best; empty where nothing is."""
    if own_s is None:
        return ""
    if clock != "wall":
        return "" if seconds == own_s else f"not the {_ms(own_s)} that its clock always gave"
    if seconds > times.drift_limit * own_s:
        best = f"{seconds / own_s:.1f} times its best of {_ms(own_s)}"
        return f"{best}; {times.drift_limit:g} times are allowed"
    if own_s > times.kin_limit * seconds:
        return (
            f"{own_s / seconds:.1f} times less than its best of {_ms(own_s)}: if it is another machine by "
            "now, `tilefleet boards return` takes this for its best"
        )
    return ""


def _beside(seconds: float, kin: dict[str, float], clock: str, times: FleetTimes) -> str:
    """What is wrong with a time beside those of others of its kind: more than half of them differ."""
    most = times.kin_limit if clock == "wall" else 1.0
    others = {id: each for id, each in kin.items() if not each / most <= seconds <= each * most}
    if 2 * len(others) <= len(kin):
        return ""
    named = ", ".join(f"{id} ({_ms(each)})" for id, each in sorted(others.items())[:3])
    how = f"over {most:g} times more or less" if clock == "wall" else "not the same"
    return (
        f"{how} than on {len(others)} of {len(kin)} other boards of its target: {named}; one of them lies, "
        "is broken, or is another kind of machine, which needs a target of its own in the fleet file"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.6g} ms"


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
