"""A workload and its trials as the API shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernels.workload.base import Unit
from server.http.lists import Items


class Measured(BaseModel):
    """Where there are records of a workload."""

    target: str = Field(description="The target's name.", examples=["host"])
    target_key: str = Field(description="The target's hash.", examples=["5f0c1d2b4e5f6073"])
    clock: str = Field(description="`wall` or `simulated:...`.", examples=["wall"])
    threads: int = Field(description="Threads that kernels ran on.", examples=[1])
    records: int = Field(description="How many there are.", examples=[57])
    best_s: float | None = Field(
        description="The lowest cost among them, in any layout; of those measured quietly, if there are any."
    )


class WorkloadView(BaseModel):
    """One operator instance."""

    key: str = Field(description="The workload's hash.", examples=["6b7d178c4a20e046"])
    text: str = Field(description="The workload for people.", examples=["conv 64x56x56 -> 64, 3x3 +bias"])
    workload: dict[str, Any] = Field(description="In canonical form.")
    flops: int = Field(description="Operations, two a multiply-add.", examples=[231211008])
    unit: Unit = Field(description="What `flops` counts: `FLOP`, or `OP` of integers.")
    measured: list[Measured] = Field(description="For which targets, by which clocks, with how many threads.")


class TrialPoint(BaseModel):
    """One config and what became of it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "record": 4711,
                "config": {"kernel": "fconv", "block": "4x3", "channels": 64},
                "cost_s": 0.00071,
                "ranking_s": 0.00071,
                "disturbed": False,
                "error": None,
                "layouts": "nchw",
                "numerics": "exact",
            }
        }
    )

    record: int = Field(description="The record's number, in the order of measurement.")
    config: dict[str, int | str] = Field(description="The kernel's name and a value for each knob.")
    cost_s: float | None = Field(description="Measured seconds; null where it failed.")
    ranking_s: float | None = Field(
        description="What it ranks by: `cost_s`, or its place among those that were timed in a built model."
    )
    disturbed: bool = Field(
        description="Whether it could not be measured quietly; it ranks behind those that were."
    )
    error: str | None = Field(description="Its error kind, or null.")
    layouts: str = Field(description="What the config reads and writes.")
    numerics: str = Field(description="What it computes with: `exact` or `relaxed`.")


class TrialPoints(Items[TrialPoint]):
    """All trials of a workload, or a thinned part of them that keeps the fastest."""

    total: int = Field(description="How many there are in all.")


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
