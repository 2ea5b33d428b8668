"""A model built from the best known configs, and run whole on a leased board."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from compiler.intake.shapes import given_of, sets_of
from kernels import target as targets
from server.beside import beside_board
from server.db.tables import RelayoutRow
from server.http.problems import invalid
from server.jobs.views import operators_of
from server.profiles.schemas import Memory, Profile, ProfileRequest, Tensor
from server.records import repository, told
from server.services import Services
from tuner.job.profile import Ran
from worker.children.nursery import Flag
from worker.demand import Demand

FUNCTION = "tuner.job.profile_child:profile_in_child"


async def profile(services: Services, asked: ProfileRequest, request: Request) -> Profile:
    """Build the model, run it on the board, and say what that took; ends early once who asked has gone.

    Raises a 404 problem for a model that is none, 422 for a board, a target or inputs that cannot be, and 409
    when no board came to an answer.
    """
    demand = _demand(services, asked)
    async with services.reading.turn(request) if asked.shapes is not None else nullcontext() as gone:
        payload = await run_in_threadpool(_payload, services, asked, demand, gone)
    found = await beside_board(services.engine, FUNCTION, payload, demand, request.is_disconnected)
    if "invalid" in found:
        raise invalid(found["invalid"], "body", found["at"])
    ran = Ran.from_json(found)
    delivery = ran.delivery
    return Profile(
        board=ran.board,
        target=demand.target.name,
        threads=demand.threads,
        clock=demand.clock,
        measured_ms=None if delivery.seconds is None else 1e3 * delivery.seconds,
        spread=delivery.spread,
        estimated_ms=1e3 * ran.estimate_s,
        operators=operators_of(delivery),
        from_records=ran.from_records,
        by_analysis=ran.by_analysis,
        memory=Memory(weights_bytes=ran.weights_bytes, workspace_bytes=ran.workspace_bytes),
        checked=delivery.check.checked,
        check=vars(delivery.check),
        outputs={name: Tensor(**each) for name, each in ran.outputs.items()} if asked.outputs else None,
    )


def _demand(services: Services, request: ProfileRequest) -> Demand:
    """The board that is named, or any of the target; of boards with several clocks the first."""
    boards = {board.id: board for board in services.engine.boards()}
    if request.board is None:
        target = services.targets.get(request.target or "", "body", "target")
        clocks = sorted({board.clock for board in boards.values() if board.target.key == target.key})
        if not clocks:
            raise invalid(f"target {target.name!r} has no board here", "body", "target")
        return Demand(target, request.threads, clock=clocks[0])
    if request.board not in boards:
        listed = ", ".join(sorted(boards)) or "none"
        raise invalid(f"there is no board {request.board!r}; there are: {listed}", "body", "board")
    board = boards[request.board]
    return Demand(board.target, request.threads, clock=board.clock, board=board.id)


def _payload(
    services: Services, request: ProfileRequest, demand: Demand, cancelled: Flag | None
) -> dict[str, Any]:
    """What the child is told: the model, and what is known of its workloads."""
    target, threads = demand.target, demand.threads
    with services.db.read() as session:
        row = services.models.get(session, request.model)
        where = (
            RelayoutRow.target_key == target.key,
            RelayoutRow.threads == threads,
            RelayoutRow.clock == demand.clock,
        )
        relayouts = [each.line() for each in told.relayouts(session, *where)]
    # Of a model with several sets of shapes, the first.
    shapes = given_of([*sets_of(request.shapes or row.shapes)[:1]])
    shapes_asked = given_of([request.shapes]) if request.shapes else None
    extraction = services.models.extraction(row, shapes_asked, cancelled)
    keys = {each.workload.key for each in extraction.operators}
    log = repository.log(services.db, "best", 1, target_keys=[target.key], numerics=request.numerics)
    records = [
        record.to_json()
        for record in log
        if record.workload.key in keys and (record.threads, record.clock) == (threads, demand.clock)
    ]
    return {
        "model": str(services.models.file(row)),
        "shapes": shapes,
        "target": targets.to_json(target),
        "threads": threads,
        "numerics": request.numerics.value,
        "records": records,
        "relayouts": relayouts,
        "inputs": None
        if request.inputs is None
        else {name: each.model_dump(mode="json") for name, each in request.inputs.items()},
        "outputs": request.outputs,
    }
