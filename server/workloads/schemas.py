"""A workload and its trials as the API shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kernels.unit import Unit
from server.http.lists import Items, Page


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
    peak_gflops: float | None = Field(description="Measured peak of so many threads, float32, in GFLOP/s.")
    bandwidth_gbs: float | None = Field(
        description="What so many threads read from memory, measured, in GB/s."
    )


class WorkloadEntry(BaseModel):
    """A workload among others."""

    key: str = Field(description="The workload's hash.", examples=["6b7d178c4a20e046"])
    text: str = Field(description="The workload for people.", examples=["conv 64x56x56 -> 64, 3x3 +bias"])
    flops: int = Field(description="Operations, two a multiply-add.", examples=[231211008])
    unit: Unit = Field(description="What `flops` counts: `FLOP`, or `OP` of integers.")
    records: int = Field(description="How many there are of it.", examples=[57])
    targets: list[str] = Field(description="Names of the targets that it was measured on.")


class WorkloadPage(Page[WorkloadEntry]):
    """Workloads, those measured last first."""

    total: int = Field(description="How many there are in all.")


class WorkloadView(BaseModel):
    """One operator instance."""

    key: str = Field(description="The workload's hash.", examples=["6b7d178c4a20e046"])
    text: str = Field(description="The workload for people.", examples=["conv 64x56x56 -> 64, 3x3 +bias"])
    workload: dict[str, Any] = Field(description="In canonical form.")
    flops: int = Field(description="Operations, two a multiply-add.", examples=[231211008])
    unit: Unit = Field(description="What `flops` counts: `FLOP`, or `OP` of integers.")
    bytes: int = Field(
        description="Of what it takes and gives, each once: what memory has to move at least.",
        examples=[1753088],
    )
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
                "imported": False,
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
    imported: bool = Field(
        description="Whether it came from elsewhere; it ranks behind what this lab measured."
    )
    error: str | None = Field(description="Its error kind, or null.")
    layouts: str = Field(description="What the config reads and writes.")
    numerics: str = Field(description="What it computes with: `exact` or `relaxed`.")


class TrialPoints(Items[TrialPoint]):
    """All trials of a workload, or a thinned part of them that keeps the fastest."""

    total: int = Field(description="How many there are in all.")
    failed: int = Field(description="How many of all of them failed.")


class KnobEffect(BaseModel):
    """How much a knob matters."""

    knob: str = Field(description="Its name, or `kernel`.", examples=["block"])
    effect: float = Field(
        description="Mean size of its effect on the logarithm of the time: 0.1 is about 10 %.",
        examples=[0.31],
    )


class Predicted(BaseModel):
    """What the machine model says of a record's config."""

    record: int = Field(description="The record's number.")
    predicted_s: float = Field(description="Seconds.", examples=[0.00068])


class Insight(BaseModel):
    """What the trials of a workload say in all."""

    trials: int = Field(description="How many that ran it was learned from.", examples=[480])
    explained: float | None = Field(
        description="Share of the variance of log time that knobs predict of trials which were not learned "
        "from; null where there are too few trials."
    )
    knobs: list[KnobEffect] = Field(description="The knobs that vary, what matters most first.")
    predicted: list[Predicted] = Field(
        description="By the machine model, for the trials that a list of trials has."
    )


class HotLoop(BaseModel):
    """The innermost loop that computes most, as machine code."""

    dialect: str = Field(description="The instruction set.", examples=["x86"])
    lines: list[str] = Field(description="The instructions.")
    instructions: int = Field(description="How many there are.")
    multiply_adds: int = Field(description="Those of them that multiply and add vectors.")
    vector_bits: int = Field(description="How wide these are.")
    loads: int = Field(description="Loads.")
    stores: int = Field(description="Stores.")
    spills: int = Field(description="Stores to the stack.")
    reloads: int = Field(description="Loads from the stack.")
    vector_spills: int = Field(description="Those of `spills` that store vectors.")
    vector_reloads: int = Field(description="Those of `reloads` that load vectors.")


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
    hot_loop: HotLoop | None = Field(description="Its hottest loop; null where all of its code is straight.")
