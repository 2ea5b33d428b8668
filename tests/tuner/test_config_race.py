"""The verdict of a job of one workload: the untuned config beside the best one, in turns."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from formula_engine import AVX2, LOST, TASKS, FakeEngine, Log, job, run
from memory_store import MemoryStore

from tuner.backend.verdict import Verdict
from tuner.job import config_race
from tuner.job.config_race import GROUPS, MOST_GROUPS
from tuner.job.reserve import CONFIGS_S, CONFIGS_SHARE, LATE_SHARE, SPARE, Deliveries
from tuner.job.runner import run_job
from tuner.log.record import Record
from tuner.spec import Budget
from tuner.states import JobState
from worker.batch import VERIFY_ROUNDS
from worker.outcome import ErrorKind, Outcome

ONE = TASKS[:1]


class Engine(FakeEngine):
    """In a race the best config takes ``slower`` times what the untuned one does, now more, now less."""

    def __init__(self, slower: float, noise: float = 0.0) -> None:
        super().__init__()
        self.slower, self.noise, self.races = slower, noise, []

    async def verify(self, batch):
        if not self.racing:
            return await super().verify(batch)
        self.races.append(batch.configs)
        factors = (1.0, self.slower * (1 + self.noise * (-1) ** len(self.races)))
        outcomes = [
            replace(each, repeats_s=(1e-3 * f,) * 7) for each, f in zip(self.ran(batch), factors, strict=True)
        ]
        return self.spoil(outcomes)

    def ran(self, batch):
        return [self.answer(candidate) for candidate in batch.candidates]

    def spoil(self, outcomes):
        return outcomes


@pytest.fixture
def racing(monkeypatch):
    """Tells an engine whether what it measures is the race."""

    def of(engine: Engine) -> Engine:
        engine.racing = False
        race = config_race._race

        async def racing(*arguments):
            engine.racing = True
            return await race(*arguments)

        monkeypatch.setattr(config_race, "_race", racing)
        return engine

    return of


def ended(spec, engine, store=None) -> tuple[MemoryStore, Verdict | None, list[Record]]:
    """What comes of a job: its store, its verdict, and its records that ran, the fastest first."""
    store = store or MemoryStore()
    assert run(spec, engine, store) is JobState.DONE
    known = [r for r in store.known(ONE[0].workload, AVX2, spec.demand.clock, 1) if not r.error]
    verdict = store.deliveries[-1].verdict if store.deliveries else None
    return store, verdict, sorted(known, key=lambda record: record.rank)


def test_the_best_config_is_raced_beside_the_untuned_one_and_its_gain_has_an_interval(racing):
    for noise, groups in ((0.0, GROUPS), (0.05, MOST_GROUPS)):
        engine = racing(Engine(0.5, noise))
        store, verdict, records = ended(job(tasks=ONE, strategy="random"), engine)
        assert engine.races == [[engine.evaluated[0].config, records[0].config]] * groups
        assert (verdict.rounds, verdict.same, verdict.untuned_s) == (VERIFY_ROUNDS * groups, False, 1e-3)
        assert verdict.rounds >= 21
        assert (verdict.low < 2.0 < verdict.high) == bool(noise)
        assert verdict.gain == pytest.approx(2.0, rel=0.05)
        assert store.jobs[-1][1] == ""
        # The records are what the trials said, and tell how often they were measured.
        assert records[0].ranking_s < 1.9e-3
        verified = sum(configs.count(records[0].config) for configs in engine.verified)
        assert records[0].remeasured == groups + verified
        assert len(store.trials(1)) == len(engine.evaluated) == 40
        assert store.log(1)


def test_a_best_config_that_loses_ranks_behind_the_untuned_one(racing):
    engine = racing(Engine(2.0))
    store, verdict, records = ended(job(tasks=ONE, strategy="random"), engine)
    assert records[0].config == engine.evaluated[0].config
    assert records[1].ranking_s >= 1.9 * records[0].ranking_s
    assert (verdict.same, verdict.gain, verdict.untuned_s) == (True, 1.0, 1e-3)
    assert "the untuned config won with 1 ms, the best of the search took 2 ms" in store.jobs[-1][1]


def test_what_is_known_is_not_raced(racing):
    for clock, budget in (("simulated:a", Budget(trials=40)), ("wall", Budget(trials=1))):
        engine = racing(Engine(0.5))
        engine.answer = lambda candidate, clock=clock: replace(FakeEngine().answer(candidate), clock=clock)
        spec = job(tasks=ONE, clock=clock, strategy="random", budget=budget)
        _, verdict, records = ended(spec, engine)
        first = next(r for r in records if r.config == engine.evaluated[0].config)
        assert (verdict.untuned_s, verdict.delivered_s) == (first.ranking_s, records[0].ranking_s)
        assert verdict.low == verdict.gain == verdict.high == first.ranking_s / records[0].ranking_s
        assert verdict.same is (clock == "wall")
        assert not engine.races


WRONG = Outcome(error=ErrorKind.WRONG_RESULT, message="largest error 1")


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        (lambda pair: [pair[0], LOST], "board 7 is gone"),
        (lambda pair: [pair[0], WRONG], "largest error 1"),
        (lambda pair: [pair[0], replace(pair[1], lease=9)], "the board was lost between the two"),
    ],
)
def test_why_there_is_no_verdict_is_told(racing, spoiled, why):
    engine = racing(Engine(0.5))
    engine.spoil = spoiled
    store, verdict, records = ended(job(tasks=ONE, strategy="random"), engine)
    assert verdict is None
    assert f"there is no verdict, as the race of both configs has no result: {why}" in store.jobs[-1][1]
    (raced,) = engine.races
    # What is wrong when it is measured again is no best any more.
    assert (raced[1] in [record.config for record in records]) is (why != WRONG.message)


def test_the_race_ends_with_the_seconds_and_is_learned_from(racing):
    deliveries, spec = Deliveries(), job(tasks=ONE, budget=Budget(seconds=100.0))
    assert deliveries.expected_s(spec) == pytest.approx(SPARE * CONFIGS_S)
    short = replace(spec, budget=Budget(seconds=1.0))
    assert deliveries.expected_s(short) == CONFIGS_SHARE
    assert deliveries.late_s(short, tuned=True) == LATE_SHARE
    deliveries.observe(spec, 10.0)
    assert deliveries.expected_s(spec) == pytest.approx(SPARE * 10.0)
    assert deliveries.expected_s(replace(spec, demand=job(clock="simulated:a").demand)) == 0.0
    # The races say nothing about builds of models.
    model = replace(spec, model="m")
    assert deliveries.expected_s(model) == Deliveries().expected_s(model)
    engine, store, waited = racing(Engine(0.5)), MemoryStore(), []

    async def slow(batch):
        if not engine.racing:
            return await Engine.verify(engine, batch)
        await batch.cancelled.wait()
        waited.append(batch)
        return [Outcome(error=ErrorKind.CANCELLED, message="cancelled")] * 2

    engine.verify = slow
    assert run(replace(short, strategy="random"), engine, store) is JobState.DONE
    assert len(waited) == 1
    assert store.deliveries == []
    assert "has no result: the time of the job was over" in store.jobs[-1][1]


def test_a_cancelled_job_is_not_raced(racing):
    engine, store, cancelled = racing(Engine(0.5)), MemoryStore(), asyncio.Event()
    cancelled.set()
    assert asyncio.run(run_job(job(tasks=ONE), engine, store, Log(), cancelled)) is JobState.CANCELLED
    assert not engine.races
    assert not store.deliveries
