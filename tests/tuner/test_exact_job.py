"""Exact and relaxed jobs over one set of records."""

from __future__ import annotations

from dataclasses import replace

from formula_engine import AVX2, CONV, TASKS, FakeEngine, job, run
from memory_store import MemoryStore

from kernels.numerics import Numerics
from kernels.space import Config
from tuner.search.problem import Problem
from tuner.spec import Budget


def test_exact_and_relaxed_jobs_share_what_both_may_use():
    engine, store = FakeEngine(), MemoryStore()
    winograd = {config for config in Problem.of(CONV, AVX2).space if is_winograd(config)}
    first = job(tasks=TASKS[:1], strategy="model")
    run(first, engine, store)
    assert winograd & {candidate.config for candidate in engine.evaluated}
    assert Problem.of(CONV, AVX2).seeds[0] in winograd
    engine.evaluated.clear()
    engine.verified.clear()
    run(replace(first, id=2, numerics=Numerics.EXACT), engine, store)
    numbers = {trial.number: trial.record.config for trial in store.trials(2)}
    assert numbers[0] == Problem.of(CONV, AVX2, Numerics.EXACT).seeds[0]
    used = set(numbers.values())
    assert not winograd & used
    assert not winograd.intersection(config for again in engine.verified for config in again)
    known = {trial.record.config for trial in store.trials(1)}
    assert {candidate.config for candidate in engine.evaluated} == used - known
    run(replace(first, id=3, budget=Budget(trials=200)), engine, store)
    third = store.trials(3)
    assert {trial.record.config for trial in third if trial.reused} >= known | used


def is_winograd(config: Config) -> bool:
    return config.kernel == "winograd"
