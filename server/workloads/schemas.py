"""A workload and its trials as the API shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernels.workload import Unit
from server.pages import Items


class Measured(BaseModel):
    """Where there are records of a workload."""

    target: str = Field(description="The target's name.", examples=["host"])
    target_key: str
    clock: str = Field(examples=["wall"])
    threads: int = Field(examples=[1])
    records: int = Field(description="How many there are.", examples=[57])
    best_s: float | None = Field(description="The lowest cost among them, in any layout.")


class WorkloadView(BaseModel):
    """One operator instance."""

    key: str
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
                "error": None,
                "layouts": "nchw",
                "numerics": "exact",
            }
        }
    )

    record: int = Field(description="The record's number, in the order of measurement.")
    config: dict[str, int | str]
    cost_s: float | None = Field(description="Seconds; null where it failed.")
    error: str | None
    layouts: str
    numerics: str


class TrialPoints(Items[TrialPoint]):
    """All trials of a workload, or a thinned part of them that keeps the fastest."""

    total: int = Field(description="How many there are in all.")
