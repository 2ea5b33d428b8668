"""What a job is to the runner: its tasks, its budget, and what a trial of it is."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.intake.shapes import GivenShapes
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.workload.base import Workload
from tuner.log.record import Record
from worker.demand import Demand


@dataclass(frozen=True)
class Budget:
    """How much a job may use: trials of all tasks together, seconds, or both; whichever ends first."""

    trials: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None:
            raise ValueError("a budget needs trials or seconds")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"budget trials must be at least 1, got {self.trials}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"budget seconds must be above 0, got {self.seconds}")


@dataclass(frozen=True)
class TaskSpec:
    """One distinct workload of a job; ``weight`` is how often it occurs in the model.

    ``incumbents`` are the configs that the untuned model has for it, in the layouts of its layers: the first
    trials. Where there are none, the first trial is the analysis's config. ``predicted_s`` is what the first
    of them is predicted to take; None where nobody planned the untuned model.
    """

    id: int
    workload: Workload
    weight: int = 1
    incumbents: tuple[Config, ...] = ()
    predicted_s: float | None = None


@dataclass(frozen=True)
class JobSpec:
    """All the runner needs to know of a job.

    ``elapsed_s`` is the running time that earlier, interrupted runs of the job have used of its budget.
    At its ``deadline``, seconds since the epoch, it ends with what it has.
    With ``any_layout`` configs of all layouts are tried, as a build of the whole model can use them.
    ``model`` is the file, with the ``shapes`` of its inputs, one set or several, in which the best configs
    are compared at last. ``planned_s`` is what it took to plan the untuned model, 0 where nobody did.
    ``others_s`` is what one run of that is predicted to spend outside the tasks' layers.
    """

    id: int
    tasks: tuple[TaskSpec, ...]
    demand: Demand
    budget: Budget
    strategy: str = "model"
    seed: int = 0
    numerics: Numerics = Numerics.EXACT_INTEGERS
    elapsed_s: float = 0.0
    any_layout: bool = False
    deadline: float | None = None
    model: str | None = None
    shapes: GivenShapes = None
    planned_s: float = 0.0
    others_s: float = 0.0


@dataclass(frozen=True)
class Trial:
    """One trial of a task: its sequence number in the task (0 is the incumbent) and its record.

    ``reused`` says that the record was known before and nothing was measured. ``recommended`` says that its
    config is one of the untuned model's or of the analysis's. ``lease`` is the fencing token
    under which it was measured, at the time ``at`` (since the epoch); 0 when that was under none.
    """

    task_id: int
    number: int
    record: Record
    reused: bool = False
    lease: int = 0
    at: float = 0.0
    recommended: bool = False
