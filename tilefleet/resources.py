"""What the REST API answers with (docs/api.md); fields this version does not know stay in ``model_extra``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

FINAL_STATES = frozenset({"cancelled", "done", "failed", "interrupted"})


class _Resource(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Input(_Resource):
    """A graph input, every dimension fixed."""

    name: str
    shape: list[int]


class Model(_Resource):
    """An uploaded model, named by its content hash; ``flops`` of one inference."""

    hash: str
    name: str
    size: int
    state: str
    inputs: list[Input] = []
    operators: int | None = None
    tunable: int | None = None
    flops: float | None = None
    created: datetime | None = None


class WorkloadUse(_Resource):
    """A distinct workload of a model, and the nodes that compute it."""

    key: str
    text: str
    workload: dict[str, Any]
    count: int
    nodes: list[str] = []
    flops: float
    unit: str = "FLOP"


class NotTunable(_Resource):
    """A node that no kernel can compute, and why."""

    node: str
    op: str
    reason: str


class Workloads(_Resource):
    """All a model asks to be computed."""

    workloads: list[WorkloadUse]
    not_tunable: list[NotTunable]


class Budget(_Resource):
    """When a job ends at the latest; None is no limit."""

    trials: int | None = None
    seconds: float | None = None


class Waiting(_Resource):
    """Why a running job waits for a board, and its position among those that want the same ones."""

    position: int
    reason: str


class Job(_Resource):
    """Tuning one model or workload for one target. ``estimated_ms`` is the sum of its tasks' best costs."""

    id: int
    target: str
    state: str
    model: str | None = None
    model_name: str | None = None
    workload: dict[str, Any] | None = None
    threads: int = 1
    clock: str = "wall"
    strategy: str = ""
    seed: int = 0
    numerics: str = "relaxed"
    budget: Budget = Budget()
    created: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    message: str | None = None
    waiting: Waiting | None = None
    priority: int = 0
    tags: list[str] = []
    trials: int = 0
    failed: int = 0
    reused: int = 0
    trials_per_s: float | None = None
    eta_s: float | None = None
    elapsed_s: float | None = None
    estimated_ms: float | None = None
    recommended_ms: float | None = None
    peak_gflops: float | None = None
    errors: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether nothing more happens unless it is resumed."""
        return self.state in FINAL_STATES


class Baseline(_Resource):
    """What a library takes for a workload, in seconds a call."""

    library: str
    version: str
    seconds: float
    measured: datetime


class Task(_Resource):
    """One distinct workload of a job; costs in seconds a call, ``curve`` as [trial, best cost so far]."""

    id: int
    workload_key: str
    text: str
    workload: dict[str, Any]
    weight: float
    flops: float
    unit: str = "FLOP"
    state: str
    trials: int = 0
    failed: int = 0
    reused: int = 0
    best_s: float | None = None
    recommended_s: float | None = None
    gflops: float | None = None
    share_of_peak: float | None = None
    best_config: dict[str, Any] | None = None
    best_layouts: str | None = None
    curve: list[tuple[int, float]] = []
    baselines: list[Baseline] = []
    errors: dict[str, int] = {}
    messages: dict[str, str] = {}


class BoardLease(_Resource):
    """Who has a board; ``job`` is None for a health check."""

    holder: str
    token: int
    expires: datetime
    job: int | None = None
    purpose: str = "trials"


class Board(_Resource):
    """A device that runs candidates. ``utilisation`` is the share of the last 5 minutes inside the timer,
    ``drift`` the reference kernel's last time over its best."""

    id: str
    target: str
    clock: str
    activity: str
    health: str
    reason: str = ""
    draining: bool = False
    threads: int = 1
    tags: list[str] = []
    lease: BoardLease | None = None
    utilisation: float | None = None
    utilisation_total: float | None = None
    trials: int = 0
    leases: int = 0
    faults: int = 0
    busy_s: float = 0.0
    timed_s: float = 0.0
    reference_s: float | None = None
    best_reference_s: float | None = None
    drift: float | None = None
    temperature_c: float | None = None
    frequency_mhz: float | None = None
    checked: datetime | None = None
    enlisted: datetime | None = None
    last_seen: datetime | None = None


class BoardEvent(_Resource):
    """Something that happened to a board."""

    id: int
    at: datetime
    kind: str
    detail: dict[str, Any]


class Record(_Resource):
    """One measured trial, as in the tuning log."""

    workload: dict[str, Any]
    target: dict[str, Any]
    config: dict[str, Any]
    id: int | None = None
    threads: int = 1
    clock: str = "wall"
    cost_s: float | None = None
    verified_s: float | None = None
    in_place_s: float | None = None
    placed_s: float | None = None
    layouts: str = "nchw"
    gflops: float | None = None
    max_error: float | None = None
    error: str | None = None
    message: str = ""
    board: str = ""
    counters: dict[str, int] = {}
    temperature_c: float | None = None
    frequency_mhz: float | None = None
    created: str = ""


class Imported(_Resource):
    """What became of an imported log's lines."""

    imported: int
    duplicates: int


class Event(_Resource):
    """One Server-Sent Event of a job: ``state``, ``trial``, ``best``, ``progress`` or ``end``."""

    id: str
    name: str
    data: dict[str, Any]
