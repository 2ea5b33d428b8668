"""A store in memory that behaves as ``tuner.job.store.Store`` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.backend.check import Delivery
from tuner.log.record import Identity, Record
from tuner.spec import Trial
from tuner.states import JobState, TaskState


class MemoryStore:
    def __init__(self) -> None:
        self.records: dict[Identity, Record] = {}
        self.saved: dict[int, dict[tuple[int, Identity], Trial]] = {}
        self.elapsed = 0.0
        self.lost_leases: set[int] = set()
        self.tasks: dict[int, TaskState] = {}
        self.jobs: list[tuple[JobState, str]] = []
        self.deliveries: list[Delivery] = []
        self.delivers_untuned = False
        self.taken_back_times = 0

    def known(self, workload, target, clock, threads) -> list[Record]:
        wanted = (workload.key, target.key, clock, threads)
        return [r for key, r in self.records.items() if (key[0], key[1], key[2], key[5]) == wanted]

    def trials(self, job_id: int) -> list[Trial]:
        saved = self.saved.get(job_id, {})
        return [replace(trial, record=self.records[key]) for (_, key), trial in saved.items()]

    def changed(self, job_id: int, known) -> list[Trial]:
        def other(task: int, r: Record) -> bool:
            now = (r.error and r.error.value, r.disturbed, r.board, r.ranking_s)
            return known.get((task, r.config.key), now) != now

        return [trial for trial in self.trials(job_id) if other(trial.task_id, trial.record)]

    def taken_back(self, since: float) -> int:
        return self.taken_back_times

    def save(self, job_id: int, trials: Sequence[Trial], elapsed_s: float) -> list[Trial]:
        self.elapsed = elapsed_s
        kept = [trial for trial in trials if trial.lease not in self.lost_leases]
        for trial in kept:
            key = trial.record.identity
            old = self.records.get(key)
            if old is None or old.disturbed or (old.error is not None and old.error.transient):
                self.records[key] = trial.record
            self.saved.setdefault(job_id, {}).setdefault((trial.task_id, key), trial)
        return kept

    def remeasured(self, record: Record, before: Record, lease: int = 0, at: float = 0.0) -> bool:
        is_, was = (
            (r.error, r.disturbed, r.board, r.cost_s) for r in (self.records[record.identity], before)
        )
        if lease in self.lost_leases or is_ != was:
            return False
        self.records[record.identity] = record
        return True

    def log(self, job_id: int) -> list[Record]:
        if self.delivers_untuned:
            return []
        best: dict[object, Record] = {}
        trials = self.trials(job_id)
        for record in sorted((t.record for t in trials), key=lambda record: (record.rank, record.config.key)):
            if record.error is None:
                best.setdefault((record.workload, record.layouts), record)
        asked = [
            t.record for t in trials if t.recommended and not (t.record.error and t.record.error.transient)
        ]
        return list({record.identity: record for record in (*best.values(), *asked)}.values())

    def relayouts(self, target, threads, clock) -> list[str]:
        return []

    def delivered(self, job_id: int, delivery: Delivery, lease: int = 0) -> bool:
        if lease in self.lost_leases:
            return False
        self.deliveries.append(delivery)
        self.delivers_untuned = delivery.untuned
        return True

    def task_state(self, task_id: int, state: TaskState) -> None:
        self.tasks[task_id] = state

    def job_state(self, job_id: int, state: JobState, message: str) -> None:
        self.jobs.append((state, message))
        if state is JobState.RUNNING:  # what came of an earlier run is forgotten
            self.delivers_untuned = False
