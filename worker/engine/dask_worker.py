"""The tasks that run on Dask workers: each finds the context of its worker.

Cancelling a Dask task does not stop it, so the engine tells the worker to give up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distributed import Status, Worker, get_worker

from kernels.target import Target
from worker.build.build import Built
from worker.build.space import with_room
from worker.candidate import Candidate
from worker.children.nursery import ChildError, ChildRaised
from worker.engine.health_check import check_board
from worker.engine.outcome_events import write
from worker.engine.worker_context import Stopped, WorkerContext
from worker.fleet.book import Check, Listing
from worker.measure.bandwidth import bandwidth_gbs
from worker.measure.measure import MeasureOptions, measure
from worker.measure.peak import peak_gflops
from worker.measure.plausible import Lie
from worker.measure.relayout_time import relayout_seconds
from worker.measure.session import lock_file
from worker.outcome import ErrorKind, Outcome

PRELOAD = (
    "tvm",
    "tvm.rpc",
    "kernels.registry",
    "worker.build.build",
    "worker.measure.child",
    "worker.children.warm",
)
STOPS_KEPT = 1000
"""Tokens of what was stopped that a worker remembers: far more than can be under way."""
EMULATED_TIMES = 30
"""How much longer a candidate may take of a board that is emulated."""


class ContextWorker(Worker):
    """A Dask worker that owns a context."""

    context: WorkerContext

    def stopped(self, token: str) -> Stopped:
        """Set once what runs here under ``token`` is to be given up."""
        return Stopped(self.context, token, lambda: self.status not in (Status.running, Status.paused))


def _me() -> ContextWorker:
    worker = get_worker()
    assert isinstance(worker, ContextWorker)  # the engine starts no others
    return worker


def build_task(candidate: Candidate, timeout_s: float, token: str) -> Built | Outcome:
    """Build on this worker."""
    context, stopped = _me().context, _me().stopped(token)
    with context.cores.building(stopped):
        built = context.builder.build(candidate, timeout_s, stopped)
    return built if isinstance(built, Outcome) else replace(built, data=built.path.read_bytes())


def measure_task(
    parts: list[Built], options: MeasureOptions, rounds: int, token: str, topic: str
) -> list[Outcome]:
    """Measure on this worker's board; the outcomes in order, and each at once as an event of ``topic``."""
    worker = _me()
    context, stopped = worker.context, worker.stopped(token)
    assert context.board is not None  # by the task's resource
    clock = context.board.clock
    if clock != "wall":
        options = replace(options, run_timeout_s=EMULATED_TIMES * options.run_timeout_s)
    paths = with_room(lambda: [context.store.put(built.data)[1] for built in parts], stopped)
    if paths is None:
        return [Outcome(error=ErrorKind.CANCELLED, message="cancelled while the disk was full")] * len(parts)
    here = [replace(built, path=path, data=b"") for built, path in zip(parts, paths, strict=True)]

    def report(index: int, outcome: Outcome) -> None:
        worker.log_event(topic, write(token, index, replace(outcome, clock=clock)))

    with context.cores.measuring(stopped):
        outcomes = measure(
            context.nursery,
            context.board,
            here,
            options,
            lock_dir=context.state_dir,
            rounds=rounds,
            cancelled=stopped,
            on_outcome=report,
        )
    return [replace(outcome, clock=clock) for outcome in outcomes]


def check_task() -> Check:
    """Run the reference kernel on this worker's board."""
    context = _me().context
    with context.cores.measuring():
        return check_board(context)


def probe_task(kind: str, target: Target, threads: int) -> dict[str, Any]:
    """``{"found"}``: the ``peak`` or ``bandwidth`` of this worker's board, or what its ``layout conversions``
    take; or ``{"lie"}``, what it said of them that cannot be."""
    context = _me().context
    assert context.board is not None  # by the task's resource
    find = {
        "peak": peak_gflops,
        "bandwidth": bandwidth_gbs,
        "layout conversions": relayout_seconds,
    }[kind]
    with context.cores.measuring():
        try:
            found = find(
                context.nursery,
                context.board,
                target,
                threads,
                store=context.store,
                lock_dir=context.state_dir,
            )
        except ChildRaised as error:
            if error.type_name != Lie.__name__:
                raise
            return {"lie": error.message}
    return {"found": found}


def beside_task(
    function: str, payload: dict[str, Any], timeout_s: float, memory_bytes: int, anywhere: bool, token: str
) -> dict[str, Any] | None:
    """``{"result"}`` of a call in a child on the board's own cores, or ``{"problem"}``.

    Where the board is not the machine that this worker runs on: None, or with ``anywhere`` the same with the
    address of the ``board`` in the payload, which has the board's ``id`` and ``lock`` in any case.
    """
    context = _me().context
    assert context.board is not None  # by the task's resource
    if not context.native and not anywhere:
        return None
    where, id = {} if context.native else {"board": context.board.address}, context.board.id
    stopped = _me().stopped(token)
    try:
        with context.cores.measuring(stopped):
            result = context.nursery.call(
                function,
                {**payload, **where, "id": id, "lock": str(lock_file(context.state_dir, id))},
                timeout_s=timeout_s,
                memory_bytes=memory_bytes,
                on_message=lambda _: None,
                cancelled=stopped,
            )
    except ChildError as error:
        return {"problem": str(error) or type(error).__name__}
    return {"result": result}


def stop(token: str, dask_worker: Any) -> None:
    """Give up whatever runs, or is still to run, under ``token``."""
    stopped = dask_worker.context.stopped
    stopped[token] = None
    if len(stopped) > STOPS_KEPT:
        del stopped[next(iter(stopped))]


def describe(dask_worker: Any) -> Listing | None:
    """The board of a worker, or None."""
    listing: Listing | None = dask_worker.context.describe()
    return listing
