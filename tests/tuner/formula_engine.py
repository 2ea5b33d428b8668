"""An engine without hardware for tests of the runner: costs come from a formula, faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from memory_store import MemoryStore

from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm
from tuner.job.reserve import Deliveries
from tuner.job.runner import run_job
from tuner.spec import Budget, JobSpec, TaskSpec
from tuner.states import JobState
from worker.candidate import Candidate
from worker.demand import Demand
from worker.outcome import Answer, ErrorKind, Outcome

AVX2 = CATALOGUE["x86-avx2"]
CONV = Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))
OTHER = Conv2d(1, 128, 28, 28, 256, 3, 3, pad=(1, 1, 1, 1))
TINY = Gemm(16, 32, 32)
TASKS = (TaskSpec(1, CONV, 3), TaskSpec(2, OTHER, 1))
LOST = Outcome(error=ErrorKind.BOARD_LOST, message="board 7 is gone")


def cost(config: Config) -> float:
    """Between 1 and 2 ms, at random but always the same for a config."""
    return 1e-3 * (1 + int(config.key, 16) / 16**16)


def ran(candidate: Candidate) -> Outcome:
    seconds = cost(candidate.config)
    return Outcome(cost_s=seconds, repeats_s=(seconds,) * 3, board="bench")


class FakeEngine:
    """One board: batches are served one after the other, ``trial_s`` a candidate."""

    def __init__(
        self,
        answer: Callable[[Candidate], Outcome] = ran,
        trial_s: float = 0.0,
        verify_factor: float = 1.0,
        verify_disturbed: bool = False,
    ) -> None:
        self.verify_disturbed = verify_disturbed
        self.answer, self.trial_s, self.verify_factor = answer, trial_s, verify_factor
        self.evaluated: list[Candidate] = []
        self.verified: list[list[Config]] = []
        self.first_is_wrong = False
        self.noisy_rounds = 0
        self.boards = 1
        self.streams = True
        self.dies_after = 0
        self.demands: list[Demand] = []
        self.flying = self.most_flying = 0
        self.board = asyncio.Lock()
        self.in_place: Callable[[dict], Answer] | None = None
        self.deliver: Callable[[dict], Answer] | None = None
        self.beside_calls: list[tuple[str, dict]] = []

    def capacity(self, demand):
        return self.boards

    async def evaluate(self, batch):
        if batch.rounds:
            return await self.verify(batch)
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        self.demands.append(batch.demand)
        outcomes = []
        try:
            async with self.board:
                for place, candidate in enumerate(batch.candidates):
                    outcomes.append(await self._one(candidate, batch.cancelled))
                    if self.streams:
                        batch.on_outcome(place, outcomes[-1])
                    if len(self.evaluated) == self.dies_after:
                        raise ConnectionError("the service is gone")
                return outcomes
        finally:
            self.flying -= 1

    async def _one(self, candidate, cancelled):
        if not cancelled.is_set():
            await asyncio.sleep(self.trial_s)
        if cancelled.is_set():
            return Outcome(error=ErrorKind.CANCELLED)
        self.evaluated.append(candidate)
        return self.answer(candidate)

    async def verify(self, batch):
        self.verified.append(list(batch.configs))
        await asyncio.sleep(self.trial_s)
        return [self._again(candidate) for candidate in batch.candidates]

    async def beside(self, function, payload, demand, **limits):
        self.beside_calls.append((function, payload))
        answer = self.deliver if function.endswith(":deliver_in_child") else self.in_place
        return answer(payload) if answer else None

    def _again(self, candidate: Candidate) -> Outcome:
        if self.first_is_wrong and candidate.config == self.verified[0][0]:
            return Outcome(error=ErrorKind.WRONG_RESULT, message="largest error 1")
        noise = 3 if len(self.verified) <= self.noisy_rounds else 1
        seconds = cost(candidate.config) * self.verify_factor * noise
        return replace(ran(candidate), cost_s=seconds, disturbed=self.verify_disturbed)


class Log:
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []

    def __call__(self, event: str, data: dict) -> None:
        self.events.append((event, data))

    def of(self, event: str) -> list[dict]:
        return [data for name, data in self.events if name == event]


def job(**changes) -> JobSpec:
    """Job 1 unless ``changes``, of the spec or of its demand, say otherwise."""
    wanted = {name: changes.pop(name) for name in ("clock", "tags", "priority") if name in changes}
    demand = Demand(AVX2, job=changes.get("id", 1), **{"clock": "wall", **wanted})
    return replace(JobSpec(1, TASKS, demand, Budget(trials=40), strategy="evolution"), **changes)


def run(
    spec: JobSpec,
    engine: FakeEngine,
    store: MemoryStore,
    log: Log | None = None,
    deliveries: Deliveries | None = None,
) -> JobState:
    return asyncio.run(run_job(spec, engine, store, log or Log(), asyncio.Event(), deliveries=deliveries))
