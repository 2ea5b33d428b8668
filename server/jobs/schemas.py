"""Jobs and tasks as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from kernels.numerics import Numerics
from kernels.unit import Unit
from server import lengths
from server.baselines.schemas import Baseline
from server.http.lists import Items, Page
from server.http.times import InUtc
from server.jobs.built import BuiltModel, JobVerdict
from server.jobs.examples import JOB, TASK
from server.models.schemas import GivenShapes
from tuner.states import TASK_TRIALS, JobState, Phase, TaskState
from worker.fleet.tag import Tag

Label = Annotated[str, Field(min_length=1, max_length=lengths.LABEL, pattern=r"^[\w.:/@+-]+$")]
Labels = Annotated[
    set[Label],
    Field(
        max_length=20,
        description="Words to find it again by.",
        examples=[["nightly", "pi"]],
        json_schema_extra={"uniqueItems": False},  # said twice it is the same
    ),
]
Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=lengths.NAME, pattern=lengths.PLAIN),
    Field(description="What it is called, or empty.", examples=["before the new kernel"]),
]


class Budget(BaseModel):
    """When a job ends at the latest; at least one is given, the first that is spent counts."""

    model_config = ConfigDict(extra="forbid")

    trials: int | None = Field(
        default=None, strict=True, ge=1, lt=2**31, description="Trials of all tasks together.", examples=[500]
    )
    seconds: float | None = Field(
        default=None,
        strict=True,
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        description="Running time.",
        examples=[180],
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
                    "model": "9f86d081884c7d65",
                    "target": "host",
                    "numerics": "exact",
                    "budget": {"seconds": 180},
                },
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
    threads: int = Field(default=1, strict=True, ge=1, le=4096, description="Threads that kernels run on.")
    strategy: str = Field(
        default="model",
        description="How configs are chosen: `analysis`, `exhaustive`, `random`, `annealing`, `evolution`, "
        "`model`, `bandit`, or one that an installed package adds.",
    )
    budget: Budget | None = Field(
        default=None, description=f"Without, {TASK_TRIALS} trials for each distinct workload."
    )
    shapes: GivenShapes | None = Field(
        default=None,
        description="Input shapes other than those of the upload, by input; of several sets, the job tunes "
        "the layers of all, weighted as one run of the model with each has them.",
    )
    seed: int = Field(
        default=0, strict=True, ge=0, lt=2**63, description="Seed of the search's random choices."
    )
    numerics: Numerics = Field(
        default=Numerics.EXACT_INTEGERS,
        description="`exact` leaves out algorithms that round more than sums of products do, "
        "`exact-integers` only those for integers.",
    )
    priority: int = Field(
        default=0,
        strict=True,
        ge=-100,
        le=100,
        description="A job of higher priority gets boards before others.",
    )
    tags: set[Tag] = Field(
        default_factory=set, max_length=20, description="Only boards that have all of these measure for it."
    )

    deadline: Annotated[AwareDatetime, InUtc] | None = Field(
        default=None,
        description="When it ends with what it has, also while it waits for a board; without, it waits for "
        "as long as there is a board that may come back.",
    )
    # By factories, as tags: what has a default in the document is no option to its typed clients.
    name: Name = Field(default_factory=str)
    labels: Labels = Field(default_factory=set)
    submitter: Name = Field(default_factory=str, description="Who submits it, as they call themselves.")

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.model is None) == (self.workload is None):
            raise ValueError("give either model or workload")
        if self.shapes is not None and self.model is None:
            raise ValueError("shapes belong to a model, not to a workload")
        return self


class JobChange(BaseModel):
    """What is to change of a job; what is not given stays."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"name": "before the new kernel", "labels": ["nightly", "pi"]}],
            "minProperties": 1,
        },
    )

    name: Name | None = Field(default=None, description="What it is called; empty takes the name away.")
    labels: Labels | None = Field(default=None, description="All that it is to have from now on.")

    @model_validator(mode="after")
    def _something_given(self) -> Self:
        if self.name is None and self.labels is None:
            raise ValueError("give name, labels or both")
        return self


ENDED = tuple(state for state in JobState if state.final)


class Resumption(BaseModel):
    """Which jobs are to go on: those of which all that is given is so."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"state": ["interrupted", "failed"], "target": "host"}]},
    )

    state: list[JobState] = Field(
        default=[JobState.INTERRUPTED],
        min_length=1,
        description="How they ended: one of these states.",
        examples=[["interrupted", "failed"]],
    )
    target: str | None = Field(default=None, description="Only jobs for the target of this name.")
    model: str | None = Field(
        default=None, min_length=1, description="Only jobs of the model of this name or hash."
    )
    label: list[str] = Field(default=[], max_length=20, description="Only jobs that have all these labels.")
    search: str | None = Field(
        default=None,
        max_length=200,
        description="Words that must all be in what names the job, as in the list.",
    )

    @field_validator("state")
    @classmethod
    def _over(cls, state: list[JobState]) -> list[JobState]:
        if any(each not in ENDED for each in state):
            raise ValueError(f"only jobs that ended can be resumed: take of {', '.join(ENDED)}")
        return state


class Resumed(BaseModel):
    """What came of resuming many jobs."""

    resumed: int = Field(description="How many jobs are queued by it.")


class JobBudget(BaseModel):
    """The budget of a job."""

    trials: int | None = Field(description="Trials of all tasks together; null: unlimited.")
    seconds: float | None = Field(description="Running time; null: unlimited.")


class Waiting(BaseModel):
    """A job that is queued, or one that runs and waits for a board, so that nothing of it is measured."""

    position: int = Field(
        description="From 1: of one that is queued among those queued for the same boards, of one that runs "
        "among the requests for them."
    )
    reason: str = Field(description="What it waits for.")


class Job(BaseModel):
    """A job and how far it is."""

    model_config = ConfigDict(json_schema_extra={"example": JOB})

    id: int = Field(description="Grows with every job.")
    model: str | None = Field(description="The model's hash, or null.")
    model_name: str | None = Field(description="The model's name, or null.")
    workload: dict[str, Any] | None = Field(description="The workload, for a job without model.")
    target: str = Field(description="The target's name.")
    threads: int = Field(description="Threads that its kernels run on.")
    clock: str = Field(description="How its times are obtained.")
    strategy: str = Field(description="How configs are chosen.")
    seed: int = Field(description="Seed of the search's random choices.")
    numerics: Numerics = Field(description="Which algorithms it may use.")
    priority: int = Field(description="A job of higher priority gets boards before others.")
    tags: list[str] = Field(description="What a board must have to measure for it.")
    name: str = Field(description="What somebody called it, or empty.")
    labels: list[str] = Field(description="Words to find it again by.")
    submitter: str = Field(description="Who submitted it, as they call themselves, or empty.")
    version: str = Field(description="Tilefleet's version when it was last started, or empty.")
    budget: JobBudget = Field(description="When it ends at the latest.")
    shapes: dict[str, list[int]] | list[dict[str, list[int]]] | None = Field(
        description="Input shapes given with the job: one set or several."
    )
    state: JobState = Field(
        description="The last five of them have ended, and can be resumed; "
        "`incomplete` lacks a config that ran for one or more layers."
    )
    message: str = Field(description="Why it did not end well, or empty.")
    waiting: Waiting | None = Field(description="Why it waits; null while it is measured, and at its end.")
    deadline: datetime | None = Field(description="When it ends with what it has, or null.")
    created: datetime = Field(description="When it was submitted.")
    started: datetime | None = Field(description="When it was last started.")
    finished: datetime | None = Field(description="When it last ended.")
    trials: int = Field(description="Trials so far, reused ones included.")
    failed: int = Field(description="Those that ended in an error.")
    reused: int = Field(description="Those whose record was known before.")
    trials_per_s: float | None = Field(description="Measured trials a second.")
    phase: Phase | None = Field(description="What a running job does; null when it does not run.")
    eta_s: float | None = Field(
        description="Seconds until the budget is spent; null when not running, while the model is built, and "
        "after the search unless the budget's seconds ended it."
    )
    elapsed_s: float = Field(description="Running time over all runs of the job.")
    estimated_ms: float | None = Field(
        description="Sum over the tasks of weight times best cost; a task without one is as predicted, times "
        "what others took over theirs. Until the model is built, what is not tuned is added as predicted; "
        "once `built` is known, the sum is times its `in_place` and with its `other_ms`. Null while no "
        "task has a time, and of a job that ended without one of each."
    )
    first_look_s: float | None = Field(
        default=None,
        description="About how many seconds a first result takes: a trial of each layer, the build and its "
        "runs, as earlier builds for such boards did. Null where this coordinator has seen none, of one "
        "workload, and of a job that has ended.",
    )
    verdict: JobVerdict | None = Field(description="What tuning gained; null where that was not measured.")
    no_verdict: str = Field(description="Why an ended job has no verdict, or empty.")
    built: BuiltModel | None = Field(
        description="What the whole model takes: null until a job of a model has built it at its end."
    )
    peak_gflops: float | None = Field(
        description="Measured peak of the target with so many threads, float32, in GFLOP/s."
    )
    errors: dict[str, int] = Field(description="Failed trials by error kind.")

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless it is resumed."""
        return self.state.final


class Share(BaseModel):
    """What the scheduler goes by when it gives out a running job's budget: the largest gain is next."""

    in_flight: int = Field(description="Candidates being built or measured.")
    open: bool = Field(description="Whether it can still get trials.")
    gain_ms: float | None = Field(
        description="What the whole model is expected to gain by one more trial; null while nothing of the "
        "task has run, which goes first."
    )
    step: float | None = Field(description="Expected relative improvement by one more trial.")
    flat: int = Field(description="Trials since the last improvement.")
    patience: int = Field(description="So many without improvement are its plateau, and its end.")


class Task(BaseModel):
    """One distinct workload of a job."""

    model_config = ConfigDict(json_schema_extra={"example": TASK})

    id: int = Field(description="As in the job's events.")
    workload_key: str = Field(description="The workload's hash.")
    text: str = Field(description="The workload for people.")
    workload: dict[str, Any] = Field(description="The workload in canonical form.")
    weight: int = Field(description="How often it occurs in the model; 0 of a chain, beside its parts.")
    flops: int = Field(description="Operations of one occurrence, two a multiply-add.")
    unit: Unit = Field(description="What `flops` and `gflops` count: `FLOP`, or `OP` of integers.")
    state: TaskState = Field(
        description="Whether it still gets trials, and why not; also of a job that is over."
    )
    trials: int = Field(description="Trials so far, reused ones included.")
    failed: int = Field(description="Those that ended in an error.")
    reused: int = Field(description="Those whose record was known before.")
    best_s: float | None = Field(description="The lowest cost so far; of the quiet ones, if there are any.")
    best_disturbed: bool = Field(description="Whether none could be measured quietly.")
    best_spread: float | None = Field(description="Interquartile range of its repeats over their median.")
    best_kernel_version: int | None = Field(description="The version of the best config's kernel.")
    recommended_s: float | None = Field(
        description="The cost of trial 0, the config that the untuned model has."
    )
    gflops: float | None = Field(
        description="Billions of operations a second at the best cost: GFLOP/s, or GOP/s of integers."
    )
    share_of_peak: float | None = Field(
        description="`gflops` over the job's `peak_gflops`; null of integers, whose peak is another."
    )
    bound_s: float | None = Field(
        description="The roofline: what its operations at the measured peak, or its bytes at the measured "
        "bandwidth take, whichever is longer; null of integers, and where these are not known."
    )
    best_config: dict[str, int | str] | None = Field(description="The config of `best_s`.")
    best_layouts: str | None = Field(
        description="What the best config reads and writes: `nchw`, `nchw8c>nchw` and so on."
    )
    curve: list[tuple[int, float]] = Field(
        description="Best cost so far as [trial, seconds], thinned to at most 200 points.",
        examples=[[[0, 0.0011], [7, 0.0009]]],
    )
    baselines: list[Baseline] = Field(description="What libraries take for it, the fastest first.")
    share: Share | None = Field(description="While the job runs: what its share of the budget goes by.")
    errors: dict[str, int] = Field(description="Failed trials by error kind.")
    messages: dict[str, str] = Field(description="The first message of each error kind.")


CURVE = 400
"""Most points of a job's curve."""


class Point(BaseModel):
    """The whole model after a number of trials."""

    trial: int = Field(description="Trials of all tasks by then; 0 before tuning.", examples=[120])
    estimated_ms: float = Field(
        description="As that of the job, from its best costs by then.", examples=[7.17]
    )
    task: int | None = Field(
        default=None, description="The task whose new best made it fall; null where none did.", examples=[140]
    )
    gain_ms: float = Field(default=0.0, description="What that new best brought.", examples=[0.23])


class Progress(BaseModel):
    """A falling curve."""

    points: list[Point] = Field(
        description=f"Where the estimate fell, and the last trial; of more than {CURVE} the largest falls."
    )


class JobPage(Page[Job]):
    """A part of the jobs that were asked for."""

    total: int = Field(description="How many there are on all pages.", examples=[128])


class LabelCount(BaseModel):
    """A label and how many jobs have it."""

    label: str = Field(description="The word.", examples=["nightly"])
    jobs: int = Field(description="How many have it.", examples=[12])


class LabelList(Items[LabelCount]):
    """All labels in the order of the alphabet."""


class SearchStrategy(BaseModel):
    """A way to choose the configs that a job tries."""

    name: str = Field(description="What a job calls it.", examples=["model"])
    about: str = Field(
        description="What it does; empty of a plug-in that does not say.",
        examples=["Draws configs at random, from all kernels alike."],
    )


class StrategyList(Items[SearchStrategy]):
    """All strategies: those that come with Tilefleet, then those of plug-ins."""


class TaskList(Items[Task]):
    """The tasks of a job in the order of the model."""
