"""What is measured of a target beside its trials: peak and bandwidth."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from server_samples import TARGET
from sqlalchemy import select
from sqlalchemy.orm import make_transient

from kernels.workload.base import Gemm, to_json
from server.db.database import Database
from server.db.tables import BandwidthRow, PeakRow, RelayoutRow
from server.mending import mend
from server.records import repository, told
from server.records.told import FactRow
from tuner.log.record import read_log
from tuner.log.relayouts import read_relayouts
from worker.fleet.book import Listing
from worker.measure.relayout_time import VERSION
from worker.outcome import Fact

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


KEY = {"target_key": TARGET.key, "threads": 1, "clock": "wall"}
TIMES = {"version": VERSION, "relayouts": {"nchw>nhwc": [[3136, 1e-6], [802816, 2e-4]]}}
LIES = [
    PeakRow(**KEY, gflops=-7680.0),
    PeakRow(**KEY, gflops=1e12),
    PeakRow(**KEY, gflops=float("inf")),
    PeakRow(**KEY, gflops=0.0),
    BandwidthRow(**KEY, gbs=-13421.0),
    BandwidthRow(**KEY, gbs=1e12),
    *(
        RelayoutRow(**KEY, document=document)
        for document in (
            {"version": VERSION, "relayouts": {"nchw>nhwc": [[3136, -5e-06]]}},
            {"version": VERSION, "relayouts": {"nchw>nhwc": [[3136, 1e-15]]}},
            {"version": VERSION, "relayouts": {"nchw>nhwc": [[3136]]}},
            {"version": VERSION, "relayouts": [7]},
            {"version": "?"},
            [],
            "",
        )
    ),
]


def store(db: Database, *rows: FactRow) -> None:
    with db.write() as session:
        repository.add_targets(session, [TARGET])
        for row in rows:
            make_transient(row)  # each test has a database of its own
            session.merge(row)


@pytest.mark.parametrize("lie", LIES, ids=lambda row: f"{row.__tablename__}")
def test_a_stored_fact_that_cannot_be_is_passed_over_and_measured_again(
    client: TestClient, engine: FakeEngine, db: Database, lie: FactRow
) -> None:
    """As old databases have them: every log of the target was refused, and no command mended it."""
    store(db, lie)
    key = (TARGET.key, 1, "wall")
    with db.read() as session:
        assert told.value(session, type(lie), key) is None
        assert told.peaks(session, [TARGET.key]) == {}
    lines = client.get(f"/api/v1/targets/{TARGET.name}/log").text.splitlines()
    assert list(read_log(lines)) == list(read_relayouts(lines, pytest.fail)) == []
    honest = PeakRow(**{**KEY, "threads": 2}, gflops=50.0)
    store(db, honest)
    assert mend(db)[f"rows of {lie.__tablename__} deleted"] == 1
    assert mend(db) == {}
    with db.read() as session:
        assert told.peaks(session, [TARGET.key]) == {(TARGET.key, 2, "wall"): 50.0}
    store(db, lie)
    job = wait(client, submit(client), "done")
    assert job["peak_gflops"] == 100
    with db.read() as session:
        if isinstance(lie, RelayoutRow):  # which a job of a workload alone needs not
            return
        assert told.value(session, type(lie), key) == (100 if isinstance(lie, PeakRow) else 20)
        assert session.get_one(type(lie), key).board == "pi"


def test_what_a_board_says_of_itself_goes_with_withdraw_and_is_measured_again(
    client: TestClient, engine: FakeEngine, db: Database
) -> None:
    engine.peak = 400.0  # a lie upwards that may be: the larger figure stayed for ever
    wait(client, submit(client), "done")
    simulated = {**KEY, "clock": SIMULATED}
    store(db, RelayoutRow(**KEY, document=TIMES, board=""), PeakRow(**simulated, gflops=3.0, board="pi-sim"))
    engine.peak = 100.0
    assert wait(client, submit(client, seed=1), "done")["peak_gflops"] == 400
    assert client.post("/api/v1/boards/pi/withdraw").status_code == 200
    with db.read() as session:
        left = [row for table in told.COLUMNS for row in session.scalars(select(table))]
        assert [(row.__tablename__, row.board) for row in left] == [("peaks", "pi-sim")]
    assert wait(client, submit(client, seed=2), "done")["peak_gflops"] == 100


def test_what_a_board_said_after_it_was_taken_away_is_not_kept(
    client: TestClient, engine: FakeEngine, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fact(demand: object, value: object) -> Fact:
        return Fact(value, "pi", lease=12345)

    monkeypatch.setattr(engine, "_fact", fact)
    assert wait(client, submit(client), "done")["peak_gflops"] is None
