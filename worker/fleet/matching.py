"""Which request gets which board: pure functions of who waits and which boards there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from worker.fleet.states import Activity, Health

_NAMED = 3
"""Boards named in a reason."""


@dataclass(frozen=True)
class Request:
    """A batch that wants a board.

    ``priority`` is the job's, higher first; ``start`` its virtual start by fair queueing, lower first; then
    the oldest (``since``, seconds of any steady clock) goes first. ``tags`` must all be the board's.
    ``avoid`` are boards that failed it before: taken only when no other can serve.
    """

    id: int
    target: str
    """The target's key."""
    threads: int = 1
    tags: frozenset[str] = frozenset()
    priority: int = 0
    start: float = 0.0
    since: float = 0.0
    job: int | None = None
    avoid: frozenset[str] = frozenset()
    what: str = ""
    """For people."""
    clock: str = ""
    """The only one that will do, if any: times of different clocks are never compared."""

    @cached_property
    def order(self) -> tuple[float, ...]:
        """What comes first is least."""
        return (-self.priority, self.start, self.since, self.id)

    @property
    def wants(self) -> tuple[str, int, frozenset[str], str]:
        """What decides which boards fit."""
        return (self.target, self.threads, self.tags, self.clock)


@dataclass(frozen=True)
class View:
    """A board as matching sees it. ``reason`` says why its health is not good; ``job`` is whose it is now."""

    id: str
    target: str
    threads: int
    tags: frozenset[str]
    activity: Activity
    health: Health
    draining: bool = False
    reason: str = ""
    job: int | None = None
    clock: str = "wall"

    @property
    def in_service(self) -> bool:
        """Whether it takes trials, now or when it is free."""
        return self.health is Health.GOOD and not self.draining and self.activity is not Activity.OFFLINE

    @property
    def free(self) -> bool:
        """Whether it takes trials now."""
        return self.in_service and self.activity is Activity.IDLE


@dataclass(frozen=True)
class Place:
    """A waiting request's position (from 1) among those that want the same boards, and why it waits."""

    request: Request
    position: int
    reason: str


def fits(request: Request, board: View) -> bool:
    """Whether a board could ever serve a request: target, clock, threads and tags."""
    return (
        board.target == request.target
        and request.clock in ("", board.clock)
        and board.threads >= request.threads
        and request.tags <= board.tags
        and board.health is not Health.RETIRED
    )


def match(requests: Sequence[Request], boards: Sequence[View]) -> list[tuple[Request, str]]:
    """Pairs of request and board id, each at most once, for the boards that are free now.

    Of the boards that fit, a request gets the one that has least beyond what it wants: a board with a rare
    tag or many threads is kept for those who need it.
    """
    free: dict[str, list[View]] = {}
    for board in boards:
        if board.free:
            free.setdefault(board.target, []).append(board)
    pairs = []
    for request in sorted(requests, key=lambda request: request.order):
        if not free:
            break
        fitting = [board for board in free.get(request.target, ()) if fits(request, board)]
        if request.avoid and fitting:
            others = [board for board in fitting if board.id not in request.avoid]
            if not others and _another_serves(request, boards):
                continue
            fitting = others or fitting
        if not fitting:
            continue
        chosen = min(fitting, key=lambda board: (len(board.tags), board.threads, board.id))
        pairs.append((request, chosen.id))
        free[request.target].remove(chosen)
        if not free[request.target]:
            del free[request.target]
    return pairs


def places(requests: Sequence[Request], boards: Sequence[View]) -> list[Place]:
    """Where each request stands and why it waits, in the order in which they will be served."""
    found = []
    fitting = {
        request.wants: frozenset(board.id for board in boards if fits(request, board)) for request in requests
    }
    by_id = {board.id: board for board in boards}
    ahead: dict[object, tuple[frozenset[str], Counter[int]]] = {}
    for request in sorted(requests, key=lambda request: request.order):
        mine = fitting[request.wants]
        rivals: Counter[int] = Counter()
        for others, count in ahead.values():
            if not mine.isdisjoint(others):
                rivals += count
        reason = _why(request, [by_id[id] for id in sorted(mine)], boards, rivals)
        found.append(Place(request, rivals.total() + 1, reason))
        ahead.setdefault(request.wants, (mine, Counter()))[1][request.priority] += 1
    return found


def _another_serves(request: Request, boards: Sequence[View]) -> bool:
    """Whether a board that the request does not avoid will be free for it some time."""
    return any(
        board.in_service and board.id not in request.avoid and fits(request, board) for board in boards
    )


def _why(request: Request, fitting: list[View], boards: Sequence[View], rivals: Counter[int]) -> str:
    """Why a request waits; ``rivals`` counts those before it by priority."""
    if not fitting:
        return _why_none(request, boards)
    serving = [board for board in fitting if board.in_service]
    if not serving:
        if len(fitting) == 1:
            return f"the only board that fits, {fitting[0].id}, {_state(fitting[0])}"
        return f"no board that fits is in service: {_listed(fitting)}"
    higher = sum(count for priority, count in rivals.items() if priority > request.priority)
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


def _why_none(request: Request, boards: Sequence[View]) -> str:
    alike = [board for board in boards if board.target == request.target]
    if not alike:
        return "no board is of that target"
    alike = [board for board in alike if request.clock in ("", board.clock)]
    if not alike:
        return f"no board of that target has the clock {request.clock}"
    missing = sorted(request.tags - frozenset().union(*(board.tags for board in alike)))
    if missing:
        return f"no board of that target has tag {missing[0]}"
    if max(board.threads for board in alike) < request.threads:
        return f"no board of that target has {request.threads} threads"
    if all(board.health is Health.RETIRED for board in alike):
        return f"all boards of that target are retired: {_listed(alike)}"
    return "no board has all of the tags and threads that it wants"


def _state(board: View) -> str:
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


def _listed(boards: Sequence[View]) -> str:
    named = "; ".join(f"{board.id} {_state(board)}" for board in boards[:_NAMED])
    return named + (f"; and {len(boards) - _NAMED} more" if len(boards) > _NAMED else "")


def _requests(count: int) -> str:
    return f"{count} request" + ("s" if count > 1 else "")


def _come(count: int) -> str:
    return "comes" if count == 1 else "come"
