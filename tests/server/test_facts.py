"""What is measured of a target beside its trials: peak and bandwidth."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import TARGET

from kernels.workload.base import Gemm, to_json
from worker.fleet.book import Listing

SIMULATED = "simulated:pi-sim:0123456789abcdef"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(
        listings=[Listing("pi", TARGET, "wall", 2), Listing("pi-sim", TARGET, SIMULATED, 1, ("sim",))]
    )


def submit(client: TestClient, **fields: Any) -> dict[str, Any]:
    body = {"workload": to_json(Gemm(32, 32, 32)), "target": TARGET.name, "budget": {"trials": 4}, **fields}
    job: dict[str, Any] = client.post("/api/v1/jobs", json=body).json()
    return job


def wait(client: TestClient, job: dict[str, Any], state: str) -> dict[str, Any]:
    deadline = time.monotonic() + 240
    while (found := client.get(f"/api/v1/jobs/{job['id']}").json())["state"] != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    ended: dict[str, Any] = found
    return ended


def test_each_clock_has_a_peak_of_its_own(client: TestClient, engine: FakeEngine) -> None:
    """Boards of one target and of two clocks: each job's share is of the peak by its own clock."""
    jobs = [submit(client, **more) for more in ({}, {"tags": ["sim"]}, {"seed": 2})]
    ended = [wait(client, job, "done") for job in jobs]
    assert [(job["clock"], job["peak_gflops"]) for job in ended] == [
        ("wall", 100),
        (SIMULATED, 10),
        ("wall", 100),
    ]


def test_a_peak_that_was_disturbed_is_mended_by_a_later_job(
    client: TestClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next day, or after a restart: the larger figure stays. By a simulated clock there is only one."""

    def peaks(**more: object) -> float:
        peak: float = wait(client, submit(client, **more), "done")["peak_gflops"]
        return peak

    engine.peak = 7.0
    assert peaks() == 7
    engine.peak = 100.0
    assert peaks() == 7
    assert peaks(tags=["sim"]) == 10
    monkeypatch.setattr("server.targets.facts.AGAIN_S", 0.0)
    assert peaks() == 100
    engine.peak = 50.0
    measured = engine.peaks
    assert (peaks(), engine.peaks) == (100, measured + 1)
    assert (peaks(tags=["sim"]), engine.peaks) == (10, measured + 1)


def test_a_job_that_waits_for_its_peak_can_be_cancelled(client: TestClient, engine: FakeEngine) -> None:
    engine.peak_delay_s = 3600.0
    job = submit(client)
    assert client.post(f"/api/v1/jobs/{job['id']}/cancel").status_code == 200
    wait(client, job, "cancelled")
