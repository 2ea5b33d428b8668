"""Records as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from kernels.numerics import Numerics
from kernels.unit import Unit
from server.http.lists import Items, Page
from worker.outcome import ErrorKind

_EXAMPLE: JsonDict = {
    "id": 4711,
    "format": 1,
    "workload": {
        "kind": "gemm",
        "m": 64,
        "n": 1000,
        "k": 512,
        "dtype": "float32",
        "epilogue": {"bias": True},
    },
    "target": {"name": "host", "triple": "x86_64-linux-gnu", "cpu": "x86-64-v3"},
    "config": {"kernel": "gemm", "mc": 64, "kc": 256},
    "kernel_version": 1,
    "threads": 1,
    "clock": "wall",
    "cost_s": 0.00071,
    "verified_s": 0.00072,
    "in_place_s": None,
    "placed_s": None,
    "repeats_s": [0.0007, 0.00071, 0.00074],
    "spread": 0.03,
    "disturbed": False,
    "imported": False,
    "max_error": 3e-7,
    "cold": True,
    "error": None,
    "message": "",
    "board": "host",
    "counters": {"cycles": 1065000, "instructions": 2310000, "l1_misses": 4100},
    "temperature_c": 48.3,
    "frequency_mhz": 1500.0,
    "toolchain": {"tvm": "0.27.0"},
    "created": "2026-11-21T05:00:00+00:00",
    "workload_key": "0f3a9c1d2b4e5f60",
    "text": "gemm 64x512 by 512x1000 +bias",
    "gflops": 91.0,
    "unit": "FLOP",
    "numerics": "exact",
    "layouts": "nchw",
}


class LogLine(BaseModel):
    """One trial with its circumstances, as a line of a tuning log has it."""

    format: int = Field(description="Version of the log format.")
    workload: dict[str, Any] = Field(description="The operator instance in canonical form.")
    target: dict[str, Any] = Field(description="The kind of machine it was measured on.")
    config: dict[str, int | str] = Field(description="The kernel's name and a value for each knob.")
    kernel_version: int = Field(description="Version of the kernel's code generator.")
    threads: int = Field(description="Threads that the kernel ran on.")
    clock: str = Field(description="How the time was obtained: `wall` or `simulated:...`.")
    cost_s: float | None = Field(description="Median seconds of a call; null after an error.")
    verified_s: float | None = Field(description="Median of the interleaved re-measurement of the best few.")
    in_place_s: float | None = Field(description="Median of its calls inside a built model, where timed.")
    placed_s: float | None = Field(
        description="Seconds that it ranks by after a comparison inside a model; null without one."
    )
    repeats_s: list[float] = Field(description="The single measurements.")
    spread: float | None = Field(description="Interquartile range over the median.")
    disturbed: bool = Field(description="Whether others had the machine as well; it ranks behind quiet ones.")
    imported: bool = Field(
        False, description="Whether it came in a log; it ranks behind what was measured here."
    )
    max_error: float | None = Field(
        description="Largest difference from float64 arithmetic over the largest value."
    )
    cold: bool = Field(description="Whether the weights were out of the caches.")
    error: ErrorKind | None = Field(description="How the trial failed, or null.")
    message: str = Field(description="What the failure said.")
    board: str = Field(description="The board that measured.")
    counters: dict[str, int] = Field(
        description="What a simulated board counted in a call: cycles, instructions, loads, stores, misses."
    )
    temperature_c: float | None = Field(description="The board's after measuring, where it tells.")
    frequency_mhz: float | None = Field(description="The board's after measuring, where it tells.")
    toolchain: dict[str, str] = Field(description="Versions of what built it.")
    created: str = Field(description="When, ISO 8601.")


class Record(LogLine):
    """A line of a tuning log with its id, and what follows from it."""

    model_config = ConfigDict(json_schema_extra={"example": _EXAMPLE})

    id: int = Field(description="The record's number in this database.")
    workload_key: str = Field(description="The workload's hash.")
    text: str = Field(description="The workload for people.")
    gflops: float | None = Field(
        description="Billions of operations a second: GFLOP/s, or GOP/s of integers."
    )
    unit: Unit = Field(description="What `gflops` counts: `FLOP`, or `OP` of integers.")
    numerics: Numerics = Field(description="What the config computes with.")
    layouts: str = Field(description="What the config reads and writes: `nchw`, `nhwc>nchw` and so on.")


class Imported(BaseModel):
    """What became of an imported log."""

    imported: int = Field(description="Records that were new.", examples=[120])
    duplicates: int = Field(description="Records that were there already.", examples=[3])


class Forgotten(BaseModel):
    """What was deleted."""

    records: int = Field(description="How many records.", examples=[120])


class DamagedRecord(BaseModel):
    """A row that cannot be read."""

    id: int = Field(description="Its number.", examples=[4711])
    problem: str = Field(
        description="What is wrong with it.", examples=["cost_s must be a positive number of seconds, got -1"]
    )


class DamagedPage(Page[DamagedRecord]):
    """Rows that cannot be read, in the order they were stored."""


class BestRecords(Page[Record]):
    """The best records of some workloads."""


class RecordPage(Page[Record]):
    """Records in the order that was asked for."""

    left_out: int = Field(
        default=0, description="Rows of this page that are damaged (`GET /records/damaged`) and not listed."
    )


class Minute(BaseModel):
    """The records of a minute."""

    at: datetime = Field(description="When it began.")
    records: int = Field(description="How many were stored, failures and imports among them.")


class RecordRate(Items[Minute]):
    """Records by minute, from the oldest on, without gaps; the last minute is the present one."""


_RECENT: JsonDict = {
    "record": 4711,
    "job": 12,
    "workload_key": "6b7d178c4a20e046",
    "text": "conv 96x112x112 -> 96, 3x3/2 g96 +bias +clip",
    "target": "host",
    "clock": "wall",
    "threads": 1,
    "best_s": 0.000296,
    "recommended_s": 0.000328,
    "gflops": 18.3,
    "unit": "FLOP",
    "config": {"kernel": "grouped", "filters": 1, "flat": 0, "rows": 2, "vectors": 3},
}


class RecentBest(BaseModel):
    """The best of a task, as found by some job."""

    model_config = ConfigDict(json_schema_extra={"example": _RECENT})

    record: int = Field(description="The record's number.")
    job: int = Field(description="The newest job that has it as its best.")
    workload_key: str = Field(description="The workload's hash.")
    text: str = Field(description="The workload for people.")
    target: str = Field(description="The target's name.")
    clock: str = Field(description="`wall` or `simulated:...`; times of two clocks do not compare.")
    threads: int = Field(description="Threads that the kernel ran on.")
    best_s: float = Field(description="Seconds a call.")
    recommended_s: float | None = Field(description="What the untuned config takes, trial 0 of the task.")
    gflops: float = Field(description="Billions of operations a second: GFLOP/s, or GOP/s of integers.")
    unit: Unit = Field(description="What `gflops` counts: `FLOP`, or `OP` of integers.")
    config: dict[str, int | str] = Field(description="The config of `best_s`.")


class RecentBests(Items[RecentBest]):
    """The best records of tasks that were measured last, the newest first."""
