"""Jobs and tasks as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from server.pages import Items, Page
from tuner.job import JobState, TaskState

Dimension = Annotated[int, Field(ge=1, lt=2**31)]


class Budget(BaseModel):
    """When a job ends at the latest; at least one is given, the first that is spent counts."""

    model_config = ConfigDict(extra="forbid")

    trials: int | None = Field(
        default=None, ge=1, lt=2**31, description="Trials of all tasks together.", examples=[500]
    )
    seconds: float | None = Field(
        default=None, gt=0, le=1e9, allow_inf_nan=False, description="Running time.", examples=[180]
    )

    @model_validator(mode="after")
    def _one_given(self) -> Self:
        if self.trials is None and self.seconds is None:
            raise ValueError("give trials, seconds or both")
        return self


class JobRequest(BaseModel):
    """What to tune, for which target, within which budget."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"model": "9f86d081884c7d65", "target": "host", "budget": {"seconds": 180}},
                {
                    "workload": {"kind": "gemm", "m": 64, "n": 1000, "k": 512},
                    "target": "host",
                    "strategy": "evolution",
                    "budget": {"trials": 200},
                },
            ]
        },
    )

    model: str | None = Field(default=None, description="A model's hash; this or `workload`.")
    workload: dict[str, Any] | None = Field(default=None, description="One workload in canonical form.")
    target: str = Field(description="A target's name.")
    threads: int = Field(default=1, ge=1, le=4096, description="Threads that kernels run on.")
    strategy: str = Field(
        default="model", description="How configs are chosen: `analysis`, `random`, `evolution` or `model`."
    )
    budget: Budget
    shapes: dict[str, list[Dimension]] | None = Field(
        default=None, description="Input shapes other than those of the upload, by input."
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of the search's random choices.")

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.model is None) == (self.workload is None):
            raise ValueError("give either model or workload")
        if self.shapes is not None and self.model is None:
            raise ValueError("shapes belong to a model, not to a workload")
        return self


class JobBudget(BaseModel):
    """The budget of a job."""

    trials: int | None
    seconds: float | None


class Job(BaseModel):
    """A job and how far it is."""

    id: int = Field(examples=[12])
    model: str | None = Field(description="The model's hash, or null.")
    model_name: str | None = Field(description="The model's name, or null.", examples=["squeezenet.onnx"])
    workload: dict[str, Any] | None = Field(description="The workload, for a job without model.")
    target: str = Field(examples=["host"])
    threads: int = Field(examples=[1])
    clock: str = Field(description="How its times are obtained.", examples=["wall"])
    strategy: str = Field(examples=["model"])
    seed: int
    budget: JobBudget
    shapes: dict[str, list[int]] | None = Field(description="Input shapes given with the job.")
    state: JobState
    message: str = Field(description="Why it did not end well, or empty.")
    created: datetime
    started: datetime | None = Field(description="When it was last started.")
    finished: datetime | None
    trials: int = Field(description="Trials so far, reused ones included.")
    failed: int = Field(description="Those that ended in an error.")
    reused: int = Field(description="Those whose record was known before.")
    trials_per_s: float | None = Field(description="Measured trials a second.")
    eta_s: float | None = Field(description="Seconds until the budget is spent; null when not running.")
    elapsed_s: float = Field(description="Running time over all runs of the job.")
    estimated_ms: float | None = Field(
        description="Sum over the tasks of weight times best cost; null until every task has one."
    )
    recommended_ms: float | None = Field(description="The same with the analysis's configs alone.")
    peak_gflops: float | None = Field(description="Measured peak of the target with so many threads.")
    errors: dict[str, int] = Field(description="Failed trials by error kind.", examples=[{"crash": 2}])


class Task(BaseModel):
    """One distinct workload of a job."""

    id: int
    workload_key: str = Field(examples=["0f3a9c1d2b4e5f60"])
    text: str = Field(description="The workload for people.", examples=["conv 64x56x56 -> 64, 3x3 +relu"])
    workload: dict[str, Any] = Field(description="The workload in canonical form.")
    weight: int = Field(description="How often it occurs in the model.")
    flops: int = Field(description="Floating-point operations of one occurrence.")
    state: TaskState
    trials: int
    failed: int
    reused: int
    best_s: float | None = Field(description="The lowest cost so far.")
    recommended_s: float | None = Field(description="The cost of the analysis's config.")
    gflops: float | None = Field(description="Billions of operations a second at the best cost.")
    share_of_peak: float | None = Field(description="`gflops` over the job's `peak_gflops`.")
    best_config: dict[str, int | str] | None
    curve: list[tuple[int, float]] = Field(
        description="Best cost so far as [trial, seconds], thinned to at most 200 points.",
        examples=[[[0, 0.0011], [7, 0.0009]]],
    )
    errors: dict[str, int] = Field(description="Failed trials by error kind.")
    messages: dict[str, str] = Field(description="The first message of each error kind.")


class JobPage(Page[Job]):
    """Jobs, the newest first."""


class TaskList(Items[Task]):
    """The tasks of a job in the order of the model."""
