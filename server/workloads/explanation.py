"""What a config makes of a workload, worked out in a child that may take its time but not for ever."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from kernels import target as targets
from kernels.target import Target
from server.db.tables import TargetRow
from server.models.extraction import Nursery
from server.pages import Threads
from server.problems import Problem, responses
from server.records import repository
from server.services import Ctx, Services
from server.workloads.routes import Clock, Key, TargetQuery, get_row
from worker.nursery import ChildCrashed, ChildRaised, ChildTimeout

TIMEOUT_S = 60.0
MEMORY_BYTES = 4 << 30
router = APIRouter(prefix="/workloads", tags=["records"])


class NestLine(BaseModel):
    """One line of a loop nest."""

    depth: int = Field(description="How far in it is.")
    text: str = Field(description="The loop or statement for people.", examples=["for rows in 14"])
    moves: list[str] = Field(description="The buffers whose place depends on the loop.")
    share: float | None = Field(description="Part of all multiply-adds inside; null where there are none.")
    hot: bool = Field(description="Whether it is the line with most multiply-adds.")


class Cache(BaseModel):
    """A cache of the target."""

    level: str = Field(description="L1, L2 or L3.", examples=["L1"])
    bytes: int = Field(description="How much it holds.", examples=[32768])


class WorkingSet(BaseModel):
    """What one run of a loop around the hot code touches."""

    loop: str = Field(description="The loop, as in the nest.", examples=["for rows in 14"])
    bytes: dict[str, int] = Field(description="By buffer.")
    total: int = Field(description="Of all buffers, in bytes.")
    level: str = Field(description="The smallest cache that holds it, else `memory`.", examples=["L1"])


class Resident(BaseModel):
    """What the kernel's analysis meant to stay in a cache."""

    level: str = Field(description="The cache.", examples=["L2"])
    what: str = Field(description="The part of a buffer.", examples=["packed weights of 16 filters"])
    size: int = Field(description="In bytes.")


class Registers(BaseModel):
    """Vector registers that hold sums."""

    accumulators: int = Field(description="How many do.")
    of: int = Field(description="How many the target has.")
    bits: int = Field(description="Width of one.")


class Explanation(BaseModel):
    """A config of a workload: its loops, and what they keep in which cache."""

    config: dict[str, int | str] = Field(description="The kernel's name and a value for each knob.")
    measured_s: float | None = Field(description="Seconds by the record, where there is one.")
    predicted_s: float = Field(description="Seconds by the machine model.")
    products: int = Field(description="Multiply-adds done.")
    nest: list[NestLine] = Field(description="From the outermost line on.")
    registers: Registers = Field(description="How many vector registers hold sums.")
    caches: list[Cache] = Field(description="Those the target has, the smallest first.")
    working_sets: list[WorkingSet] = Field(description="The innermost loop first.")
    residents: list[Resident] = Field(description="What the analysis meant to stay where.")


@router.get("/{key}/explanation", summary="Explain a config", responses=responses(404, 422, 503))
async def explain_config(
    key: Key,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
    config: Annotated[
        Literal["best", "analysis"],
        Query(description="The fastest record's, in any layouts, or the analysis's."),
    ] = "best",
) -> Explanation:
    """The loop nest of a config, and what each loop touches against the sizes of the caches."""
    payload, machine, measured_s = await run_in_threadpool(_asked, ctx, key, target, clock, threads, config)
    async with ctx.compiling.turn():
        found = await run_in_threadpool(_explained, ctx.nursery, payload)
    levels = (("L1", machine.l1_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    return Explanation(
        **{**found, "caches": [{"level": level, "bytes": size} for level, size in levels if size]},
        measured_s=measured_s,
    )


def _asked(
    ctx: Services, key: str, target: str, clock: str, threads: int, config: str
) -> tuple[dict[str, Any], Target, float | None]:
    """What the child is asked, the machine, and the seconds of the record that is explained."""
    with ctx.db.read() as session:
        workload = get_row(session, key)
        keys = ctx.targets.keys(session, target)
        bests = [
            found
            for each in keys
            if (found := repository.best(session, key, each, clock, threads, layouts=None)) is not None
        ]
        best = min((record for _, record in bests), key=lambda each: each.ranking_s or 0, default=None)
        if config == "best" and best is None:
            raise Problem(404, f"no record of workload {key} on target {target} with threads={threads}")
        row = session.get(TargetRow, best.target.key if best else keys[0])
        machine = targets.from_json(row.document) if row else ctx.targets.get(target)
        payload = {
            "workload": workload.document,
            "target": targets.to_json(machine),
            "threads": threads,
            "config": best.config.to_json() if best and config == "best" else None,
        }
    return payload, machine, best.isolated_s if best and config == "best" else None


def _explained(nursery: Nursery, payload: dict[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = nursery.call(
            "tuner.explain:explain_in_child", payload, timeout_s=TIMEOUT_S, memory_bytes=MEMORY_BYTES
        )
        return found
    except ChildTimeout:
        raise Problem(503, f"compiling took more than {TIMEOUT_S:.0f} s") from None
    except ChildCrashed as error:
        raise Problem(503, f"the compiler died: {error}") from None
    except ChildRaised as error:
        raise Problem(422, f"that cannot be explained: {error.message or error.type_name}") from None
