"""The recorded spaces: read back as they were packed, and searched as jobs search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.spaces import record, score
from bench.spaces.layers import Subject, subjects
from kernels import registry
from kernels.workload.base import Gemm
from tuner.log.record import Record, write_log
from worker.outcome import ErrorKind

SIX = (
    "graviton3-sim-1x1-project",
    "power10-sim-7x7-s2",
    "riscv-k1-sim-depthwise-s2",
    "rpi4-sim-depthwise",
    "rpi5-sim-1x1",
    "rpi5-sim-int8-depthwise",
)


def test_the_default_strategy_finds_the_best_of_six_spaces_in_few_trials() -> None:
    spaces = [score.space(name) for name in SIX]
    found = {
        name: score.mean([score.row(each, name, seeds) for each in spaces])
        for name, seeds in (("model", 5), ("random", 2))
    }
    _, ten, thirty, sixty = found["model"].regrets
    assert found["model"].score > 0.7
    assert found["model"].score > found["random"].score + 0.1
    assert ten < 0.02
    assert thirty < 0.01
    assert sixty < 0.005


def test_every_shipped_space_is_a_subject_and_whole() -> None:
    known = {each.name for each in subjects()}
    for name in score.names():
        assert name in known
        found = score.space(name)
        assert found.share == 1.0
        assert set(found.problem.seeds) <= found.costs.keys() == set(found.problem.space)
        assert all(found.problem.predict(config) > 0 for config in found.costs)


def test_a_space_is_read_as_it_was_packed_and_only_when_it_is_whole(tmp_path: Path) -> None:
    subject = Subject("rpi4-sim", "tiny", Gemm(16, 16, 16))
    problem, target = subject.problem(), subject.target()
    records = [
        Record(
            subject.workload,
            target,
            config,
            registry.kernel(config.kernel).version,
            clock="simulated:rpi4-sim:1",
            cost_s=1e-6 * (2 + at),
            counters={"cycles": at},
        )
        for at, config in enumerate(problem.space)
    ]
    records[1] = replace(records[1], cost_s=None, error=ErrorKind.CRASH)
    journal = tmp_path / "tiny.jsonl"
    journal.write_text("".join(write_log(records[:-1])))
    assert f"1 of {len(records)} points are missing" in record.pack(subject, journal, tmp_path)
    assert list(tmp_path.iterdir()) == [journal]
    # The last record of a config counts: it was measured again.
    again = replace(records[0], verified_s=5e-7)
    journal.write_text("".join(write_log([*records, again])))
    assert f"{len(records)} points, 1 failed" in record.pack(subject, journal, tmp_path)
    found = record.unpack(tmp_path / f"rpi4-sim-tiny{record.SUFFIX}")
    assert found.costs == {r.config: r.ranking_s for r in [again, *records[1:]]}
    assert found.problem.seeds == problem.seeds
    for config in found.costs:
        assert found.problem.predict(config) == pytest.approx(problem.predict(config))
