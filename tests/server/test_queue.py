"""Jobs that wait: they hold nothing, say their place and why, and cost the same however many they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_engine import HOST, FakeEngine
from fastapi.testclient import TestClient
from sqlalchemy import Engine as DatabaseEngine
from sqlalchemy import event
from test_jobs import GEMM, URL, create, wait

from kernels.target import CATALOGUE
from kernels.workload.base import Gemm
from server import ownership
from server.app import create_app
from server.db.database import Database
from server.db.tables import JobRow, TaskRow
from server.jobs import slots
from server.jobs.orphans import Orphans
from server.jobs.service import Jobs
from server.settings import Settings
from worker.children.nursery import Nursery
from worker.demand import Demand
from worker.fleet.book import Listing
from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

RPI4 = CATALOGUE["rpi4"]


def listings(away: bool) -> list[Listing]:
    problem = "it has not dialed in" if away else ""
    pi = Listing("desk-pi", RPI4, "wall", 1, alive=not away, problem=problem)
    return [Listing("host", HOST, "wall", 2), pi]


@pytest.fixture
def engine() -> FakeEngine:
    """With a board that may be away."""
    return FakeEngine(listings=listings(away=False))


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks every now and then, so that nobody waits for them."""
    monkeypatch.setattr(ownership, "BEAT_S", 0.1)


def copies(settings: Settings, job: int, count: int, **changes: Any) -> list[int]:
    """So many more jobs like ``job``, their ids."""
    db = Database(settings.database)
    with db.write() as session:
        row = session.get_one(JobRow, job)
        columns = {each.key for each in JobRow.__table__.columns} - {"id", "wants"}
        values = {name: getattr(row, name) for name in columns} | {"owner": None} | changes
        rows = [JobRow(**values) for _ in range(count)]
        session.add_all(rows)
        session.flush()
        tasks = session.query(TaskRow).filter_by(job_id=job).all()
        session.add_all(
            TaskRow(job_id=each.id, workload_key=task.workload_key, weight=1)
            for each in rows
            for task in tasks
        )
        ids = [each.id for each in rows]
    db.close()
    return ids


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("why", ["away", "parked"])
def test_jobs_for_an_absent_board_hold_nothing(
    client: TestClient, engine: FakeEngine, settings: Settings, why: str
) -> None:
    if why == "away":
        engine.listings = listings(away=True)
        activity = "offline"
    else:
        client.post("/api/v1/boards/desk-pi/park", json={"reason": "a new fan"})
        activity = "idle"
    until(lambda: client.get("/api/v1/boards/desk-pi").json()["activity"] == activity)
    first = [create(client, target="rpi4", workload=GEMM, budget={"trials": 1})["id"] for _ in range(3)]
    more = copies(settings, first[0], 157)
    assert wait(client, create(client)["id"])["state"] == "done"

    shown = client.get(f"{URL}/{first[2]}").json()
    assert (shown["state"], shown["waiting"]["position"]) == ("queued", 3)
    reason = shown["waiting"]["reason"]
    assert reason.startswith("rpi4 has no board here now: the board desk-pi ")
    if why == "away":
        assert "desk-pi is offline since 2" in reason
        assert reason.endswith("UTC: it has not dialed in")
    else:
        assert reason.endswith("desk-pi is in maintenance: a new fan")
    page = client.get(URL, params={"limit": 50, "state": "queued"}).json()["items"]
    assert [job["waiting"]["position"] for job in page] == list(range(160, 110, -1))
    urgent = create(client, target="rpi4", workload=GEMM, budget={"trials": 1}, priority=100)
    assert urgent["waiting"]["position"] == 1
    assert client.get(f"{URL}/{first[0]}").json()["waiting"]["position"] == 2

    client.post(f"{URL}/{first[1]}/cancel")
    cancelled = client.get(f"{URL}/{first[1]}").json()
    assert (cancelled["state"], cancelled["waiting"]) == ("cancelled", None)
    assert client.get(f"{URL}/{more[-1]}").json()["waiting"]["position"] == 160
    engine.listings = listings(away=False)
    client.post("/api/v1/boards/desk-pi/return")
    assert wait(client, urgent["id"])["state"] == "done"


def test_who_waits_for_a_slot_learns_who_has_them(
    client: TestClient, engine: FakeEngine, settings: Settings
) -> None:
    engine.most = 0
    ids = [create(client, budget={"trials": 1})["id"] for _ in range(slots.SLOTS + 2)]
    until(lambda: client.get(URL, params={"state": "running"}).json()["total"] == slots.SLOTS)
    waiting = client.get(f"{URL}/{ids[-1]}").json()["waiting"]
    assert waiting == {
        "position": 2,
        "reason": f"all 16 slots of board host are taken by jobs 1, 2, 3 and {slots.SLOTS - 3} more",
    }
    # Of other boards there are as many again.
    engine.most = math.inf
    assert (
        wait(client, create(client, target="rpi4", workload=GEMM, budget={"trials": 1})["id"])["state"]
        == "done"
    )
    assert {wait(client, job)["state"] for job in ids} == {"done"}


def test_a_deadline_waits_for_no_board(client: TestClient, engine: FakeEngine) -> None:
    engine.listings = listings(away=True)
    until(lambda: client.get("/api/v1/boards/desk-pi").json()["activity"] == "offline")
    in_a_second = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    job = wait(
        client, create(client, target="rpi4", workload=GEMM, budget={"trials": 1}, deadline=in_a_second)["id"]
    )
    assert "deadline" in job["message"]
    assert job["trials"] == 0


def test_a_running_job_without_a_board_holds_no_slot() -> None:
    """And has it again when the board is back."""
    board = BoardStatus("b", HOST, 2, frozenset({"x"}), Activity.IDLE, Health.GOOD)
    other = replace(board, id="c", tags=frozenset({"y"}))
    plain, tagged = Demand(HOST), Demand(HOST, tags=frozenset({"x"}))
    running = dict.fromkeys(range(slots.SLOTS), tagged)
    assert slots.free(tagged, [board, other], running) == 0
    assert slots.free(plain, [board, other], running) == slots.SLOTS
    for gone in (
        replace(board, activity=Activity.OFFLINE),
        replace(board, health=Health.BAD),
        replace(board, health=Health.MAINTENANCE),
        replace(board, draining=True),
    ):
        assert slots.free(plain, [gone, other], running) == slots.SLOTS
        assert slots.free(tagged, [gone, other], running) == 0, "nothing would come of it"
        assert "no board here now: the board b " in slots.why_not(tagged, [gone, other], running, {})
    assert slots.free(tagged, [board, other], {}) == slots.SLOTS


@dataclass
class Cost:
    """What a database is asked for."""

    calls: int = 0
    statements: int = 0
    """One for each set of parameters."""
    rows: int = 0
    """Changed ones."""


@contextmanager
def counted() -> Iterator[Cost]:
    """The cost of what happens meanwhile, on any database."""
    cost = Cost()

    def after(_: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        cost.calls += 1
        cost.statements += len(parameters) if many else 1
        if statement.lstrip()[:6].lower() in ("update", "insert", "delete"):
            cost.rows += max(0, cursor.rowcount)

    event.listen(DatabaseEngine, "after_cursor_execute", after)
    try:
        yield cost
    finally:
        event.remove(DatabaseEngine, "after_cursor_execute", after)


def test_many_that_wait_cost_what_few_do(
    settings: Settings, engine: FakeEngine, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start, a sign of life, a claim, a page, a submission, a stop: with 20 jobs that wait and 2,000."""
    monkeypatch.setattr(ownership, "BEAT_S", 1000.0)

    def costs() -> dict[str, Cost]:
        found: dict[str, Cost] = {}
        app = create_app(settings, engine.open, nursery)
        with counted() as found["start"]:
            client = TestClient(app)
            client.__enter__()
        services = app.state.services
        with counted() as found["sign of life"]:
            Orphans(services.db).look(())
        with counted() as found["claim"]:
            assert services.manager._queue.claim({}) == ([], {})
        with counted() as found["page"]:
            assert len(client.get(URL, params={"limit": 10}).json()["items"]) == 10
        with counted() as found["submission"]:
            create(client, target="rpi4", workload=GEMM, budget={"trials": 1})
        with counted() as found["stop"]:
            client.__exit__(None, None, None)
        return found

    with TestClient(create_app(settings, engine.open, nursery)) as client:
        client.post("/api/v1/boards/desk-pi/park", json={"reason": "a new fan"})
        first = create(client, target="rpi4", workload=GEMM, budget={"trials": 1})["id"]
    copies(settings, first, 19)
    few = costs()
    copies(settings, first, 1980)
    many = costs()
    for name in few:
        # Boards are looked at meanwhile, now and then.
        assert many[name].statements < few[name].statements + 50, name
        assert many[name].rows < few[name].rows + 50, name


def test_a_model_of_many_layers_is_submitted_and_listed_like_one_of_few(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post("/api/v1/boards/desk-pi/park", json={"reason": "a new fan"})
    loaded: list[TaskRow] = []
    event.listen(TaskRow, "load", lambda task, _: loaded.append(task))
    costs = []
    for count in (2, 300):
        layers = [(Gemm(m=64, n=64, k=8 * (count + each)), 1 + each) for each in range(count)]
        monkeypatch.setattr(Jobs, "_subject", lambda *_, layers=layers: (None, layers))
        with counted() as cost:
            job = create(client, target="rpi4", workload=GEMM, budget={"trials": 1})
        costs.append(cost.calls)
    assert costs[1] < costs[0] + 10
    assert len(client.get(URL).json()["items"]) == 2
    assert loaded == []
    tasks = client.get(f"{URL}/{job['id']}/tasks").json()["items"]
    assert [task["weight"] for task in tasks] == list(range(1, 301)), "they keep the model's order"


def test_many_jobs_are_resumed_at_once(client: TestClient, settings: Settings) -> None:
    client.post("/api/v1/boards/desk-pi/park", json={"reason": "a new fan"})
    first = create(client, target="rpi4", workload=GEMM, budget={"trials": 1}, labels=["old"])["id"]
    ids = copies(settings, first, 300, state="interrupted", finished=datetime.now(UTC))
    failed = copies(settings, first, 2, state="failed", message="out of luck", finished=datetime.now(UTC))
    resume = f"{URL}:resume"
    assert client.post(resume, json={"target": "host"}).json() == {"resumed": 0}
    with counted() as cost:
        assert client.post(resume, json={}).json() == {"resumed": 300}
    assert cost.calls < 30
    shown = client.get(f"{URL}/{ids[-1]}").json()
    assert (shown["state"], shown["finished"], shown["waiting"]["position"]) == ("queued", None, 301)
    assert client.post(resume, json={"state": ["failed"], "label": ["old"]}).json() == {"resumed": 0}
    assert client.post(resume, json={"state": ["failed"]}).json() == {"resumed": 2}
    assert client.get(f"{URL}/{failed[0]}").json()["message"] == ""
    wrong = client.post(resume, json={"state": ["running"]})
    assert wrong.status_code == 422
    assert "only jobs that ended can be resumed" in wrong.text
    assert client.post(resume, json={"sate": []}).status_code == 422


def test_of_a_target_without_boards_those_with_boards_are_named(client: TestClient) -> None:
    """Retired ones are none."""
    body = {"workload": GEMM, "target": "rpi4"}
    client.post("/api/v1/boards/desk-pi/retire")
    detail = client.post(URL, json=body).json()["errors"][0]["msg"]
    assert detail == "target 'rpi4' has no board here; targets with boards: host"
