"""Which jobs may run at once: so many for each set of boards that could serve them now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from worker.demand import Demand
from worker.fleet.matching import fits, state_of, why_none
from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

SLOTS = 16
_NAMED = 3
"""Jobs or boards that a reason names."""


def serving(demand: Demand, boards: Sequence[BoardStatus]) -> frozenset[str]:
    """The boards that serve such a demand now or when they are free; a job without any needs no slot."""
    return here([board for board in boards if fits(demand, board)])


def here(boards: Sequence[BoardStatus]) -> frozenset[str]:
    """Those of the boards that are there and do or await their work."""
    return frozenset(board.id for board in boards if _is_here(board))


def rivals(demand: Demand, boards: Sequence[BoardStatus]) -> tuple[bool, frozenset[str]]:
    """Whether a board is here, and the boards that are; without one those that would do. Demands of which
    this is equal wait in one queue."""
    ready = serving(demand, boards)
    return bool(ready), ready or frozenset(board.id for board in boards if fits(demand, board))


def free(demand: Demand, boards: Sequence[BoardStatus], running: Mapping[int, Demand]) -> int:
    """How many more jobs of such a demand may run."""
    ready = serving(demand, boards)
    return max(0, SLOTS - len(_holders(ready, boards, running))) if ready else 0


def why_not(
    demand: Demand,
    boards: Sequence[BoardStatus],
    running: Mapping[int, Demand],
    seen: Mapping[str, datetime | None],
) -> str:
    """Why a job of such a demand does not run; empty when it could. ``seen`` says when boards were last
    there."""
    ready = serving(demand, boards)
    if ready:
        holders = _holders(ready, boards, running)
        if len(holders) < SLOTS:
            return ""
        of = f"board {next(iter(ready))}" if len(ready) == 1 else f"boards {_some(sorted(ready))}"
        return f"all {SLOTS} slots of {of} are taken by jobs {_some(list(map(str, holders)))}"
    fitting = [board for board in boards if fits(demand, board)]
    if not fitting:
        return f"{demand.target.name} has no board here now: {why_none(demand, boards)}"
    absent = [f"the board {board.id} {_absence(board, seen.get(board.id))}" for board in fitting[:_NAMED]]
    more = f"; and {len(fitting) - _NAMED} more" if len(fitting) > _NAMED else ""
    return f"{demand.target.name} has no board here now: {'; '.join(absent)}{more}"


def _is_here(board: BoardStatus) -> bool:
    working = board.health in (Health.GOOD, Health.UNKNOWN) and not board.draining
    return working and board.activity is not Activity.OFFLINE


def _holders(
    ready: frozenset[str], boards: Sequence[BoardStatus], running: Mapping[int, Demand]
) -> list[int]:
    """The jobs that hold a slot of these boards, by what boards there are now: one whose boards have gone
    holds none."""
    sets: dict[object, frozenset[str]] = {}
    for demand in running.values():
        if demand.wants not in sets:
            sets[demand.wants] = serving(demand, boards)
    return sorted(job for job, demand in running.items() if sets[demand.wants] == ready)


def _absence(board: BoardStatus, seen: datetime | None) -> str:
    if board.health in (Health.GOOD, Health.UNKNOWN) and board.activity is Activity.OFFLINE:
        since = f"is offline since {seen:%Y-%m-%d %H:%M} UTC" if seen else "was never here"
        return f"{since}: {board.reason}" if board.reason else since
    return state_of(board)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
