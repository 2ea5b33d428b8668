"""What the fleet did in the last days: availability, use, and what the lab cost."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from server.boards.days import DAY_S, by_day
from server.boards.schemas import BoardReport, FleetReport
from server.db.tables import BoardDayRow, BoardRow, JobRow, TargetRow, TaskRow
from worker.outcome import ErrorKind

LOST = [kind.value for kind in ErrorKind if kind.infrastructure]


def fleet_report(session: Session, days: int, now_s: float) -> FleetReport:
    """The last ``days`` days up to ``now_s``, today among them."""
    first = int(now_s // DAY_S) - days + 1
    since = datetime.fromtimestamp(first * DAY_S, UTC)
    watched = select(
        BoardDayRow.board, func.sum(BoardDayRow.watched_s), func.sum(BoardDayRow.in_service_s)
    ).where(BoardDayRow.day >= first)
    seen = {
        board: (all_s, there_s)
        for board, all_s, there_s in session.execute(watched.group_by(BoardDayRow.board))
    }
    boards = []
    query = select(BoardRow.id, TargetRow.name).join(TargetRow, TargetRow.key == BoardRow.target_key)
    for board, target in session.execute(query.order_by(BoardRow.id)).all():
        all_s, there_s = seen.get(board, (0.0, 0.0))
        used = by_day(session, board, days, now_s).items
        boards.append(
            BoardReport(
                id=board,
                target=target,
                availability=there_s / all_s if all_s else None,
                leased=sum(day.leased for day in used) / days,
                timing=sum(day.timing for day in used) / days,
                trials=sum(day.trials for day in used),
                faults=sum(day.faults for day in used),
            )
        )
    tasks = select(TaskRow.trials, TaskRow.reused, TaskRow.errors).join(JobRow, JobRow.id == TaskRow.job_id)
    trials = lost = 0
    for tried, reused, errors in session.execute(tasks.where(JobRow.started >= since)):
        trials += tried - reused
        lost += sum(errors.get(kind, 0) for kind in LOST)
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
