"""Jobs whose process died, or that another process took: who goes on with them, and who lets go."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from test_jobs import URL, create, events, wait

from server import ownership
from server.app import create_app
from server.db.database import Database
from server.db.tables import JobRow, TaskRow, TrialRow
from server.settings import Settings
from worker.children.nursery import Nursery


def test_jobs_of_dead_processes_go_on(
    client: TestClient,
    settings: Settings,
    engine: FakeEngine,
    nursery: Nursery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a killed process of this host, a silent one of another, of none; not of one that lives elsewhere."""
    monkeypatch.setattr(ownership, "BEAT_S", 0.1)
    monkeypatch.setattr(ownership, "STALE_S", 2.0)
    job = wait(client, create(client)["id"])
    host, pid, _ = ownership.me().rsplit("/", 2)
    killed = f"{host}/{pid}/1.00"
    owners = {
        "killed": (killed, "running", "done"),
        "asked to cancel": (killed, "cancelling", "cancelled"),
        "silent": ("elsewhere/1/1.00", "running", "done"),
        "given back": (None, "queued", "done"),
        "never begun": (ownership.me(), "queued", "done"),
        "without a board": (killed, "running", "queued"),
        "alive": ("elsewhere/1/2.00", "running", "running"),
    }
    db = Database(settings.database)
    ids = {}
    with db.write() as session:
        row = session.get_one(JobRow, job["id"])
        (task,) = session.query(TaskRow).filter_by(job_id=job["id"])
        for name, (owner, state, _) in owners.items():
            values = {
                c.key: getattr(row, c.key) for c in JobRow.__table__.columns if c.key not in ("id", "wants")
            }
            tags = ["nowhere"] if name == "without a board" else []
            copy = JobRow(**{**values, "state": state, "owner": owner, "tags": tags, "finished": None})
            session.add(copy)
            session.flush()
            session.add(TaskRow(job_id=copy.id, workload_key=task.workload_key, weight=1))
            ids[name] = copy.id
    alive = threading.Event()

    def live() -> None:
        while not alive.wait(0.2):
            with db.write() as session:  # whatever this host's clock says
                beat = datetime.now(UTC) - timedelta(days=1)
                session.query(JobRow).filter_by(id=ids["alive"]).update({"beat": beat})

    beating = threading.Thread(target=live)
    beating.start()
    with TestClient(create_app(settings, engine.open, nursery)) as second:
        for name, (_, _, expected) in owners.items():
            assert wait(second, ids[name], expected)["state"] == expected, name
        for name in ("killed", "silent", "given back", "never begun"):
            assert second.get(f"{URL}/{ids[name]}").json()["trials"] == 12, name
        why = second.get(f"{URL}/{ids['without a board']}").json()["waiting"]
        assert why["position"] == 1
        assert why["reason"] == "host has no board here now: no board of that target has tag nowhere"
        assert second.post(f"{URL}/{ids['without a board']}/cancel").json()["state"] == "cancelled"
        assert second.get(f"{URL}/{ids['alive']}").json()["state"] == "running"
        asked = second.post(f"{URL}/{ids['alive']}/cancel")
        assert (asked.status_code, asked.json()["state"]) == (200, "cancelling")
    alive.set()
    beating.join()
    db.close()


def test_with_resume_off_jobs_of_dead_processes_are_interrupted(
    client: TestClient, settings: Settings, engine: FakeEngine, nursery: Nursery
) -> None:
    job = wait(client, create(client)["id"])
    host, pid, _ = ownership.me().rsplit("/", 2)
    db = Database(settings.database)
    with db.write() as session:
        session.query(JobRow).update({"state": "running", "owner": f"{host}/{pid}/1.00", "finished": None})
    db.close()
    off = settings.model_copy(update={"resume": False})
    with TestClient(create_app(off, engine.open, nursery)) as second:
        assert second.get(f"{URL}/{job['id']}").json()["state"] == "interrupted"
        assert events(second, job["id"])[-1][1:] == ("end", {"state": "interrupted"})


def test_a_job_that_another_process_took_is_let_go(
    client: TestClient, settings: Settings, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after this process stood still: it stores and tells nothing more of the job."""
    engine.most = 3
    job = create(client, budget={"trials": 14})
    while client.get(f"{URL}/{job['id']}").json()["trials"] < 3:
        time.sleep(0.01)
    db = Database(settings.database)
    with db.write() as session:
        session.query(JobRow).update({"owner": "elsewhere/1/1.00"})
    engine.most = math.inf
    while any(board["activity"] != "idle" for board in client.get("/api/v1/boards").json()["items"]):
        time.sleep(0.01)
    with db.read() as session:
        row = session.get_one(JobRow, job["id"])
        assert (row.state, row.owner) == ("running", "elsewhere/1/1.00")
        assert session.query(TrialRow).count() == 3
    db.close()


def test_a_silent_process_counts_as_dead_within_half_a_minute(client: TestClient, settings: Settings) -> None:
    """By the product's own pauses, on a clock of the test: a beat just given, a look just made."""
    job = wait(client, create(client)["id"])
    db = Database(settings.database)
    now_s = 0.0
    signs = ownership.Signs(clock=lambda: now_s)
    with db.write() as session:
        row = session.get_one(JobRow, job["id"])
        row.state, row.owner = "running", "elsewhere/1/1.00"
        died_s = None
        while not signs.dead(session):
            assert now_s < 120
            if now_s <= 4 * ownership.BEAT_S:
                row.beat, died_s = datetime.now(UTC), now_s
                session.flush()
            now_s += ownership.BEAT_S
        session.rollback()
    db.close()
    assert died_s == 4 * ownership.BEAT_S, "it was given up while it gave signs of life"
    assert now_s - died_s + ownership.BEAT_S <= 30
