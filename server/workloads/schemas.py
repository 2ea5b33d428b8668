"""A workload and its trials as the API shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernels.workload import Unit
from server.pages import Items


class Measured(BaseModel):
    """Where there are records of a workload."""

    target: str = Field(description="The target's name.", examples=["host"])
    target_key: str = Field(description="The target's hash.", examples=["5f0c1d2b4e5f6073"])
    clock: str = Field(description="`wall` or `simulated:...`.", examples=["wall"])
    threads: int = Field(description="Threads that kernels ran on.", examples=[1])
    records: int = Field(description="How many there are.", examples=[57])
    best_s: float | None = Field(description="The lowest cost among them, in any layout.")


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
    error: str | None = Field(description="Its error kind, or null.")
    layouts: str = Field(description="What the config reads and writes.")
    numerics: str = Field(description="What it computes with: `exact` or `relaxed`.")


class TrialPoints(Items[TrialPoint]):
    """All trials of a workload, or a thinned part of them that keeps the fastest."""

    total: int = Field(description="How many there are in all.")
