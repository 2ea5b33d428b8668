"""A board's word is taken back while a job searches: the search goes on by what still stands."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from formula_engine import AVX2, TASKS, FakeEngine, Log, cost, job, ran, run
from memory_store import MemoryStore

from tuner.backend.check import Check, Delivery
from tuner.backend.verdict import Verdict
from tuner.job import doubts
from tuner.log.record import Record
from tuner.spec import Budget
from tuner.states import JobState
from worker.candidate import Candidate
from worker.outcome import Answer, ErrorKind, Outcome

LIES = 12


@pytest.mark.parametrize("clock", ["wall", "simulated:core"])
@pytest.mark.parametrize("withdrawn", [True, False])
def test_a_search_follows_no_lie_that_was_taken_back(
    monkeypatch: pytest.MonkeyPatch, clock: str, withdrawn: bool
) -> None:
    monkeypatch.setattr(doubts, "_EVERY_S", 0.0)
    store, log, asked = MemoryStore(), Log(), Counter[str]()

    def answer(candidate: Candidate) -> Outcome:
        asked[candidate.config.key] += 1
        if sum(asked.values()) <= LIES:
            return replace(ran(candidate), cost_s=1e-9, repeats_s=(1e-9,) * 3, board="liar", clock=clock)
        if not store.taken_back_times and len(store.records) >= LIES:
            take_back()
        return replace(ran(candidate), clock=clock)

    def take_back() -> None:
        for key, record in store.records.items():
            if record.board == "liar":
                gone = replace(record, cost_s=None, error=ErrorKind.WITHDRAWN, message="withdrawn")
                store.records[key] = gone if withdrawn else replace(record, disturbed=True)
        store.taken_back_times += 1

    spec = job(budget=Budget(trials=60), clock=clock)
    assert run(spec, FakeEngine(answer), store, log) is JobState.DONE
    for task in TASKS:
        known = store.known(task.workload, AVX2, clock, 1)
        best = min((r for r in known if r.error is None), key=lambda record: record.rank)
        assert (best.board, best.ranking_s) == ("bench", cost(best.config))
        told = [each for each in log.of("best") if each["task"] == task.id][-1]
        assert told["cost_s"] == best.ranking_s
        again = sum(asked[record.config.key] > 1 for record in known)
        left = sum(record.board == "liar" for record in known)
        assert left == 0 if withdrawn else again >= 3, (left, again)
    assert len(store.trials(1)) == 60


@pytest.mark.parametrize("every", [True, False])
def test_what_is_withdrawn_while_the_model_is_built_by_it_is_told_and_not_delivered(every: bool) -> None:
    engine, store = FakeEngine(), MemoryStore()

    def deliver(payload: dict[str, Any]) -> Answer:
        sent = [Record.from_json(each) for each in payload["records"]]
        for record in [*store.records.values()] if every else sent[:1]:
            gone = replace(record, cost_s=None, verified_s=None, placed_s=None, error=ErrorKind.WITHDRAWN)
            store.records[record.identity] = gone
        verdict = Verdict(2e-3, 1e-3, 2.0, 1.9, 2.1, 25)
        return Answer(
            json.loads(json.dumps(Delivery(Check(1e-4), 1e-3, 0.0, 0.0, verdict=verdict).to_json()))
        )

    engine.deliver = deliver
    assert run(job(model="m", clock="simulated:a"), engine, store) is JobState.DONE
    message = store.jobs[-1][1]
    found = re.search(r"(\d+) of (\d+) records that the model was built by were withdrawn meanwhile", message)
    assert found
    gone, sent = map(int, found.groups())
    assert (gone == sent) is every
    assert gone >= 1
    assert ("2 of 2 tasks have no record left that was not withdrawn" in message) is every
    assert [(each.untuned, each.verdict) for each in store.deliveries] == [(True, None)]
    assert store.log(1) == []
