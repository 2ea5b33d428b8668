"""What the fleet did in the last days: availability, use, and what the lab cost."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.boards.days import DAY_S, faults, used
from server.boards.schemas import BoardReport, FleetReport
from server.db.documents import fitting
from server.db.tables import BoardDayRow, BoardRow, JobRow, TargetRow, TaskRow
from worker.outcome import ErrorKind

LOST = [kind.value for kind in ErrorKind if kind.infrastructure]


def fleet_report(session: Session, days: int, now_s: float) -> FleetReport:
    """The last ``days`` days up to ``now_s``, today among them."""
    first = int(now_s // DAY_S) - days + 1
    since = datetime.fromtimestamp(first * DAY_S, UTC)
    watched = select(
        BoardDayRow.board, func.sum(BoardDayRow.watched_s), func.sum(BoardDayRow.in_service_s)
    ).where(BoardDayRow.day >= first, BoardDayRow.day <= int(now_s // DAY_S))
    seen = {
        board: (all_s, there_s)
        for board, all_s, there_s in session.execute(watched.group_by(BoardDayRow.board))
    }
    boards = []
    query = select(BoardRow.id, TargetRow.name).join(TargetRow, TargetRow.key == BoardRow.target_key)
    for board, target in session.execute(query.order_by(BoardRow.id)).all():
        all_s, there_s = seen.get(board, (0.0, 0.0))
        leased_s = timed_s = there = trials_of = 0.0
        for _, of, length_s in used(session, board, days, now_s):
            leased_s, timed_s = leased_s + of["leased_s"], timed_s + of["timed_s"]
            there, trials_of = there + length_s, trials_of + of["trials"]
        boards.append(
            BoardReport(
                id=board,
                target=target,
                availability=there_s / all_s if all_s else None,
                leased=min(1.0, leased_s / max(1.0, there)),
                timing=min(1.0, timed_s / max(1.0, there)),
                trials=int(trials_of),
                faults=sum(faults(session, board, first).values()),
            )
        )
    until = datetime.fromtimestamp(now_s, UTC)
    tasks = select(TaskRow.trials, TaskRow.reused, TaskRow.errors).join(JobRow, JobRow.id == TaskRow.job_id)
    trials = lost = 0
    started = JobRow.started >= since, JobRow.started <= until
    for tried, reused, errors in session.execute(tasks.where(*started)):
        trials += tried - reused
        counts: dict[str, int] = fitting(errors, dict[str, int], {}, "the errors of a task")
        lost += sum(counts.get(kind, 0) for kind in LOST)
    return FleetReport(
        since=since, boards=boards, trials=trials, lost=lost, lost_share=lost / trials if trials else 0.0
    )


def text(report: FleetReport) -> str:
    """The report in lines, for mail and chats."""
    lines = [
        f"the fleet since {report.since:%Y-%m-%d}: {report.trials} trials, {report.lost} lost to the lab "
        f"({report.lost_share:.2%})"
    ]
    for board in report.boards:
        there = "not watched" if board.availability is None else f"{board.availability:.1%} available"
        lines.append(
            f"{board.id} ({board.target}): {there}, {board.leased:.0%} in use, {board.timing:.0%} timing, "
            f"{board.trials} trials, {board.faults} faults"
        )
    return "\n".join(lines)
