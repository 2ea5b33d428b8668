"""Which request gets which board: pure functions of who waits and which boards there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from worker.demand import Demand
from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

_NAMED = 3
"""Boards named in a reason."""


@dataclass(frozen=True)
class Request:
    """A demand that waits for the lease of a board.

    Among equal demands the oldest (``since``, seconds of any steady clock) goes first. ``avoid`` are boards
    that failed it before: taken only when no other can serve. A ``patient`` one waits for boards that may
    come back as long as jobs do.
    """

    id: int
    demand: Demand
    since: float = 0.0
    avoid: frozenset[str] = frozenset()
    patient: bool = False

    @cached_property
    def order(self) -> tuple[float, ...]:
        """What comes first is least."""
        return (-self.demand.priority, self.demand.turn, self.since, self.id)


@dataclass(frozen=True)
class Place:
    """A waiting request's position (from 1) among those that want the same boards, and why it waits."""

    request: Request
    position: int
    reason: str


def fits(demand: Demand, board: BoardStatus) -> bool:
    """Whether a board could ever serve a demand: target, clock, threads and tags."""
    return (
        board.target.key == demand.target.key
        and demand.clock in ("", board.clock)
        and board.threads >= demand.threads
        and demand.tags <= board.tags
        and demand.board in ("", board.id)
        and board.health is not Health.RETIRED
    )


def match(requests: Sequence[Request], boards: Sequence[BoardStatus]) -> list[tuple[Request, str]]:
    """Pairs of request and board id, each at most once, for the boards that are free now.

    Of the boards that fit, a request gets the one that has least beyond what it wants: a board with a rare
    tag or many threads is kept for those who need it.
    """
    free: dict[str, list[BoardStatus]] = {}
    for board in boards:
        if board.free:
            free.setdefault(board.target.key, []).append(board)
    pairs = []
    for request in sorted(requests, key=lambda request: request.order):
        if not free:
            break
        target = request.demand.target.key
        fitting = [board for board in free.get(target, ()) if fits(request.demand, board)]
        if request.avoid and fitting:
            others = [board for board in fitting if board.id not in request.avoid]
            if not others and _another_serves(request, boards):
                continue
            fitting = others or fitting
        if not fitting:
            continue
        chosen = min(fitting, key=lambda board: (len(board.tags), board.threads, board.id))
        pairs.append((request, chosen.id))
        free[target].remove(chosen)
        if not free[target]:
            del free[target]
    return pairs


def places(requests: Sequence[Request], boards: Sequence[BoardStatus]) -> list[Place]:
    """Where each request stands and why it waits, in the order in which they will be served."""
    found = []
    fitting = {
        demand.wants: frozenset(board.id for board in boards if fits(demand, board))
        for demand in (request.demand for request in requests)
    }
    by_id = {board.id: board for board in boards}
    ahead: dict[object, tuple[frozenset[str], Counter[int]]] = {}
    for request in sorted(requests, key=lambda request: request.order):
        demand = request.demand
        mine = fitting[demand.wants]
        rivals: Counter[int] = Counter()
        for others, count in ahead.values():
            if not mine.isdisjoint(others):
                rivals += count
        reason = _why(request, [by_id[id] for id in sorted(mine)], boards, rivals)
        found.append(Place(request, rivals.total() + 1, reason))
        ahead.setdefault(demand.wants, (mine, Counter()))[1][demand.priority] += 1
    return found


def _another_serves(request: Request, boards: Sequence[BoardStatus]) -> bool:
    """Whether a board that the request does not avoid will be free for it some time."""
    return any(
        board.in_service and board.id not in request.avoid and fits(request.demand, board) for board in boards
    )


def _why(
    request: Request, fitting: list[BoardStatus], boards: Sequence[BoardStatus], rivals: Counter[int]
) -> str:
    """Why a request waits; ``rivals`` counts those before it by priority."""
    if not fitting:
        return why_none(request.demand, boards)
    serving = [board for board in fitting if board.in_service]
    if not serving:
        if len(fitting) == 1:
            return f"the only board that fits, {fitting[0].id}, {state_of(fitting[0])}"
        return f"no board that fits is in service: {_listed(fitting)}"
    higher = sum(count for priority, count in rivals.items() if priority > request.demand.priority)
    if higher:
        return f"{_requests(higher)} with higher priority {_come(higher)} first"
    if rivals:
        equal = rivals.total()
        return f"{_requests(equal)} of equal priority {_come(equal)} first"
    avoided = [board for board in serving if board.free and board.id in request.avoid]
    if avoided and len(avoided) < len(serving):
        return f"board {avoided[0].id} failed it before; {_listed([b for b in serving if not b.free])}"
    if any(board.free for board in serving):
        return "it starts now"
    return f"board {_listed(serving)}" if len(serving) == 1 else f"all boards are busy: {_listed(serving)}"


def why_none(demand: Demand, boards: Sequence[BoardStatus]) -> str:
    """Why no board fits at all."""
    alike = [board for board in boards if board.target.key == demand.target.key]
    if not alike:
        return "no board is of that target"
    alike = [board for board in alike if demand.clock in ("", board.clock)]
    if not alike:
        return f"no board of that target has the clock {demand.clock}"
    if demand.board and not any(board.id == demand.board for board in alike):
        return f"no board of that target is called {demand.board}"
    missing = sorted(demand.tags - frozenset().union(*(board.tags for board in alike)))
    if missing:
        return f"no board of that target has tag {missing[0]}"
    if max(board.threads for board in alike) < demand.threads:
        return f"no board of that target has {demand.threads} threads"
    if all(board.health is Health.RETIRED for board in alike):
        return f"all boards of that target are retired: {_listed(alike)}"
    return "no board has all of the tags and threads that it wants"


def state_of(board: BoardStatus) -> str:
    """What a board does, for people: what follows its name."""
    match board.health:
        case Health.BAD:
            return f"is parked: {board.reason}"
        case Health.MAINTENANCE:
            return f"is in maintenance: {board.reason}"
        case Health.RETIRED:
            return f"is retired: {board.reason}"
    if board.activity is Activity.OFFLINE:
        return "is offline"
    if board.draining:
        return f"is draining: {board.reason}"
    if board.health is Health.UNKNOWN:
        return f"waits for its health check: {board.reason}"
    if board.activity is Activity.MEASURING and board.job is not None:
        return f"is measuring for job {board.job}"
    return f"is {board.activity}"


def _listed(boards: Sequence[BoardStatus]) -> str:
    named = "; ".join(f"{board.id} {state_of(board)}" for board in boards[:_NAMED])
    return named + (f"; and {len(boards) - _NAMED} more" if len(boards) > _NAMED else "")


def _requests(count: int) -> str:
    return f"{count} request" + ("s" if count > 1 else "")


def _come(count: int) -> str:
    return "comes" if count == 1 else "come"
