"""Boards over HTTP: how they are, what operators do with them, and that a lost lease records nothing."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fake_engine import HOST, FakeEngine
from fastapi.testclient import TestClient
from server_samples import TARGET, record
from sqlalchemy import text
from sqlalchemy.orm import Session

from kernels.workload.base import Conv2d, Gemm, to_json
from server import ownership
from server.boards import views
from server.boards.book import SqlBook
from server.boards.days import DAY_S, by_day
from server.boards.leases import LeaseState
from server.boards.pruning import prune
from server.db.database import Database
from server.db.tables import BoardEventRow, BoardRow, JobRow, LeaseRow, RecordRow, TaskRow, TrialRow
from server.events.base import BOARDS, Event
from server.jobs.store import SqlStore
from server.metrics import Metrics
from server.records import repository
from tuner.spec import Trial
from worker.fleet.book import Check, Listing, Purpose, Usage
from worker.fleet.states import Standing
from worker.fleet.times import USUAL

URL = "/api/v1/boards"
CONV = to_json(Conv2d(n=1, in_c=16, in_h=28, in_w=28, out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1)))
SIMULATED = "simulated:pi-sim:0123456789abcdef"


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(
        listings=[
            Listing("host", HOST, "wall", 2),
            Listing("pi-1", TARGET, "wall", 4, ("lab", "fan"), kind="agent", where="10.0.0.3:9190"),
            Listing("pi-2", TARGET, "wall", 4, ("lab",)),
            Listing("pi-sim", TARGET, SIMULATED, 1, ("sim",)),
        ]
    )


def wait(client: TestClient, path: str, **fields: Any) -> dict[str, Any]:
    """Ask until the answer has these fields."""
    deadline = time.monotonic() + 240
    while True:
        found: dict[str, Any] = client.get(path).json()
        if all(found[name] == value for name, value in fields.items()):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def submit(client: TestClient, **fields: Any) -> Any:
    body = {"workload": CONV, "target": "x86-avx2", "budget": {"trials": 6}, "strategy": "random", **fields}
    return client.post("/api/v1/jobs", json=body)


def test_boards_tell_how_they_are(client: TestClient) -> None:
    boards = {each["id"]: each for each in client.get(URL).json()["items"]}
    assert set(boards) == {"host", "pi-1", "pi-2", "pi-sim"}
    board = boards["pi-1"]
    assert board == client.get(f"{URL}/pi-1").json()
    assert (board["target"], board["clock"], board["threads"]) == ("x86-avx2", "wall", 4)
    assert board["instruction_sets"] == ["AVX2"]
    assert (board["activity"], board["health"], board["reason"]) == ("idle", "good", "")
    assert (board["tags"], board["lease"], board["draining"]) == (["lab", "fan"], None, False)
    assert (board["reference_s"], board["best_reference_s"], board["drift"]) == (1e-3, 1e-3, 1.0)
    assert board["last_seen"] >= board["enlisted"]
    missing = client.get(f"{URL}/pi-9")
    assert missing.status_code == 404
    assert missing.json()["detail"] == "there is no board 'pi-9'; there are: host, pi-1, pi-2, pi-sim"


def test_operators_take_boards_out_and_bring_them_back(client: TestClient) -> None:
    parked = client.post(f"{URL}/pi-1/park", json={"reason": "fan broken"})
    assert parked.status_code == 200, parked.text
    assert (parked.json()["health"], parked.json()["reason"]) == ("maintenance", "fan broken")
    again = client.post(f"{URL}/pi-1/park", json={"reason": "still"})
    assert (again.status_code, again.headers["content-type"]) == (409, "application/problem+json")
    assert again.json()["detail"] == "board pi-1 is in maintenance (fan broken) and cannot be parked"
    assert client.post(f"{URL}/pi-1/drain").status_code == 409
    assert client.post(f"{URL}/pi-1/return", json={"reason": "new fan"}).status_code == 200
    wait(client, f"{URL}/pi-1", health="good")
    assert client.post(f"{URL}/pi-1/return").status_code == 409
    assert client.post(f"{URL}/pi-1/drain").json()["health"] == "maintenance", "nobody had it"
    assert client.post(f"{URL}/pi-1/retire").json()["health"] == "retired"
    assert client.post(f"{URL}/pi-1/retire").status_code == 409
    for action in ("drain", "park", "return", "retire"):
        missing = client.post(f"{URL}/pi-9/{action}", json={"reason": "x"})
        assert (missing.status_code, "pi-2" in missing.json()["detail"]) == (404, True)
    for body in (None, {}, {"reason": ""}, {"reason": " "}, {"reason": "x" * 501}, {"reason": "x", "by": 1}):
        assert client.post(f"{URL}/pi-2/park", json=body).status_code == 422, body


def test_a_health_that_cannot_be_read_takes_one_board_out_of_service(
    client: TestClient, db: Database
) -> None:
    """It failed the list, and every look of the dispatcher at its boards."""
    book = SqlBook(db)
    book.enlist([Listing("a", TARGET, "wall", 1), Listing("b", TARGET, "wall", 1)])
    book.change("b", Standing.check_passed, "good")
    with db.write() as session:
        session.execute(text("update boards set health = 'zzz' where id = 'a'"))
    shown = {each["id"]: each["health"] for each in client.get("/api/v1/boards").json()["items"]}
    assert (shown["a"], shown["b"]) == ("maintenance", "good")
    assert "'zzz'; return" in client.get("/api/v1/boards/a").json()["reason"]
    entries = book.entries()
    assert (entries["a"].standing.health, entries["b"].standing.health) == ("maintenance", "good")
    book.change("a", Standing.put_back, "return")
    assert client.get("/api/v1/boards/a").json()["health"] == "unknown"


def test_history_is_kept_newest_first(client: TestClient) -> None:
    client.post(f"{URL}/pi-1/park", json={"reason": "fan broken"})
    client.post(f"{URL}/pi-1/return", json={"reason": "new fan"})
    wait(client, f"{URL}/pi-1", health="good", lease=None)
    seen, after = [], None
    while True:
        params = {"limit": 2} if after is None else {"limit": 2, "after": after}
        page = client.get(f"{URL}/pi-1/history", params=params).json()
        seen += page["items"]
        after = page["next"]
        if after is None:
            break
    assert [each["kind"] for each in seen] == [
        "good_check", "check", "return", "park", "good_check", "check"
    ]  # fmt: skip
    assert seen[2]["detail"]["reason"] == "new fan"
    assert (seen[3]["detail"]["before"], seen[3]["detail"]["reason"]) == ("good", "fan broken")
    ids = [each["id"] for each in seen]
    assert ids == sorted(set(ids), reverse=True)
    assert client.get(f"{URL}/pi-9/history").status_code == 404


def test_a_board_that_is_away_is_offline(client: TestClient, engine: FakeEngine) -> None:
    engine.listings = engine.listings[:1]
    assert client.portal is not None
    client.portal.call(engine.refresh)
    boards = {each["id"]: each["activity"] for each in client.get(URL).json()["items"]}
    assert boards == {"host": "idle", "pi-1": "offline", "pi-2": "offline", "pi-sim": "offline"}
    metrics = client.get("/metrics").text
    assert 'tilefleet_board_up{board="host"} 1.0' in metrics
    assert 'tilefleet_board_up{board="pi-1"} 0.0' in metrics


def test_events_of_boards_are_replayed(client: TestClient) -> None:
    client.post(f"{URL}/pi-1/park", json={"reason": "fan broken"})
    services = client.app.state.services  # type: ignore[attr-defined]  # the application's own

    async def read(after: str | None) -> list[Event]:
        """Up to the board's parking."""
        found = []
        async for burst in services.events.follow(BOARDS, after):
            for event in burst:
                found.append(event)
                if event.data["health"] == "maintenance":
                    return found
        return found

    assert client.portal is not None
    seen = client.portal.call(read, None)
    assert {event.name for event in seen} == {"board"}
    assert {event.data["board"] for event in seen} == {"host", "pi-1", "pi-2", "pi-sim"}
    assert (seen[-1].data["board"], seen[-1].data["reason"]) == ("pi-1", "fan broken")
    assert client.portal.call(read, seen[1].id) == seen[2:]


def test_a_job_waits_with_a_reason_and_goes_by_tags(client: TestClient, engine: FakeEngine) -> None:
    refused = submit(client, tags=["oven"])
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["body", "tags"]
    for word in ("oven", "pi-1 (fan, lab)", "pi-2 (lab)", "pi-sim (sim)"):
        assert word in refused.json()["detail"]
    assert submit(client, priority=101).status_code == 422
    client.post(f"{URL}/pi-1/park", json={"reason": "fan broken"})
    job = submit(client, tags=["fan"], priority=7).json()
    assert (job["priority"], job["tags"], job["clock"]) == (7, ["fan"], "wall")
    path = f"/api/v1/jobs/{job['id']}"
    deadline = time.monotonic() + 240
    while not (waiting := client.get(path).json()["waiting"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert waiting["position"] == 1
    assert "pi-1" in waiting["reason"]
    assert "fan broken" in waiting["reason"]
    assert 'tilefleet_jobs{state="queued"} 1.0' in client.get("/metrics").text
    client.post(f"{URL}/pi-1/return")
    done = wait(client, path, state="done")
    assert (done["waiting"], done["trials"]) == (None, 6)
    records = client.get("/api/v1/records", params={"job": job["id"]}).json()["items"]
    assert {each["board"] for each in records} == {"pi-1"}


def test_a_job_keeps_to_one_clock(client: TestClient) -> None:
    """Both kinds of boards have the target; a job's times are all of one, and no query mixes them."""
    wall = wait(client, f"/api/v1/jobs/{submit(client).json()['id']}", state="done")
    simulated = wait(client, f"/api/v1/jobs/{submit(client, tags=['sim']).json()['id']}", state="done")
    assert (wall["clock"], simulated["clock"]) == ("wall", SIMULATED)
    assert simulated["reused"] == 0
    for job in (wall, simulated):
        records = client.get("/api/v1/records", params={"job": job["id"]}).json()["items"]
        assert {each["clock"] for each in records} == {job["clock"]}


def new_job(db: Database, clock: str = "wall") -> tuple[int, int]:
    """A job of this process, which no manager takes up, and its one task; their ids."""
    with db.write() as session:
        repository.add_targets(session, [TARGET])
        repository.add_workloads(session, [Gemm(m=8, n=8, k=8)])
        job = JobRow(
            workload_key=Gemm(m=8, n=8, k=8).key,
            target_key=TARGET.key,
            threads=1,
            clock=clock,
            strategy="random",
            seed=0,
            budget_trials=10,
            state="done",
            owner=ownership.me(),
        )
        session.add(job)
        session.flush()
        task = TaskRow(job_id=job.id, workload_key=Gemm(m=8, n=8, k=8).key, weight=1)
        session.add(task)
        session.flush()
        return job.id, task.id


def test_what_a_zombie_measured_is_refused(db: Database) -> None:
    now = [1.7e9]
    book = SqlBook(db, clock=lambda: now[0])
    store = SqlStore(db, Metrics(), clock=lambda: now[0])
    book.enlist([Listing("a", TARGET, "wall", 1), Listing("b", TARGET, "wall", 1)])
    for board in "ab":
        book.change(board, Standing.check_passed, "good")
    job, task = new_job(db)

    def trial(number: int, token: int) -> Trial:
        return Trial(task, number, record(number + 1), lease=token)

    old = book.acquire("a", "elsewhere/1/1.00", Purpose.TRIALS, job)
    assert old is not None
    first = trial(0, old.token)
    assert store.save(job, [first], 1.0) == [first]
    now[0] += USUAL.lease_s
    late = trial(1, old.token)
    assert store.save(job, [late], 2.0) == [], "past its expiry, though nobody has the board"
    in_time = replace(trial(5, old.token), at=now[0] - 1.0)
    assert store.save(job, [in_time], 2.0) == [in_time], "the database was away, the lease was not"
    new = book.acquire("a", "elsewhere/2/1.00", Purpose.TRIALS, job)
    assert new is not None
    in_time = replace(trial(6, old.token), at=now[0] - 1.0)
    assert store.save(job, [in_time, replace(in_time, at=now[0] + 1.0)], 2.0) == [in_time]
    fresh, reused = trial(1, new.token), trial(2, 0)
    assert store.save(job, [late, fresh, trial(3, 10**6), reused], 3.0) == [fresh, reused]
    assert store.save(job, [fresh], 3.0) == [fresh], "saved twice, kept once"
    verified = replace(record(1), verified_s=2e-6)
    assert store.remeasured(verified, record(1), old.token) is False
    assert book.release(new, Usage(2, 1.0, 1.0))
    assert store.remeasured(verified, record(1), new.token), "released leases have ended well"
    parked = book.acquire("b", "elsewhere/1/1.00", Purpose.TRIALS, job)
    assert parked is not None
    book.revoke("b", "parked")
    late = replace(trial(4, parked.token), at=now[0] - 1.0)
    assert store.save(job, [trial(4, parked.token), late], 4.0) == []
    with db.read() as session:
        trials = session.query(TrialRow.number).order_by(TrialRow.number).all()
        assert [number for (number,) in trials] == [0, 1, 2, 5, 6]
        assert session.query(RecordRow).count() == 5
        assert session.get_one(TaskRow, task).trials == 5
        assert session.get_one(JobRow, job).elapsed_s == 4.0


def test_a_takeover_and_a_zombie_at_once_lose_nothing(db: Database) -> None:
    """While a result is stored its lease cannot be taken away; after that it is refused. Never both."""
    now = [1.7e9]
    book = SqlBook(db, clock=lambda: now[0])
    store = SqlStore(db, Metrics(), clock=lambda: now[0])
    book.enlist([Listing("a", TARGET, "wall", 1)])
    book.change("a", Standing.check_passed, "good")
    job, task = new_job(db)
    lease = book.acquire("a", "elsewhere/1/1.00", Purpose.TRIALS, job)
    assert lease is not None
    kept: list[int] = []

    def zombie() -> None:
        for number in range(60):
            trial = Trial(task, number, record(number + 1), lease=lease.token)
            kept.extend(each.number for each in store.save(job, [trial], 1.0))

    thread = threading.Thread(target=zombie)
    thread.start()
    while not kept:
        time.sleep(0.001)
    book.revoke("a", "parked")
    with db.read() as session:
        stored = session.query(TrialRow).count()
    thread.join(240)
    with db.read() as session:
        assert session.query(TrialRow).count() == stored == len(kept)
    assert kept == list(range(len(kept)))


def test_no_query_compares_clocks(client: TestClient, settings: Any) -> None:
    """The simulated record is far faster; where wall-clock times are wanted it must never win."""
    db = Database(settings.database)
    store = SqlStore(db, Metrics())
    job, task = new_job(db)
    slow, fast = record(900), record(1, clock=SIMULATED)
    kept = store.save(job, [Trial(task, 0, slow), Trial(task, 1, fast)], 1.0)
    assert [trial.number for trial in kept] == [0]
    with db.write() as session:  # as if some other path had let it in
        repository.add(session, [fast])
        fast_id = repository.find(session, fast.identity).id
        session.add(TrialRow(job_id=job, task_id=task, record_id=fast_id, number=1, reused=False))
    third = Trial(task, 2, record(901))
    assert store.save(job, [third], 1.0) == [third]
    shown = client.get(f"/api/v1/jobs/{job}").json()
    assert shown["estimated_ms"] == pytest.approx(0.9)
    (shown_task,) = client.get(f"/api/v1/jobs/{job}/tasks").json()["items"]
    assert shown_task["best_s"] == pytest.approx(900e-6)
    assert shown_task["curve"] == [[0, 900e-6], [2, 900e-6]]
    best = {"workload": slow.workload.key, "target": TARGET.name}
    assert client.get("/api/v1/configs/best", params=best).json()["cost_s"] == pytest.approx(900e-6)
    other = client.get("/api/v1/configs/best", params={**best, "clock": SIMULATED}).json()
    assert (other["cost_s"], other["clock"]) == (pytest.approx(1e-6), SIMULATED)
    lines = client.get(f"/api/v1/targets/{TARGET.name}/log").text.splitlines()
    assert sorted(json.loads(line)["clock"] for line in lines[1:]) == [SIMULATED, "wall"]
    top = client.get(f"/api/v1/targets/{TARGET.name}/log", params={"select": "top", "k": 1}).text
    assert len(top.splitlines()) == 3
    assert len(store.known(slow.workload, TARGET, "wall", 1)) == 2
    assert len(store.known(slow.workload, TARGET, SIMULATED, 1)) == 1
    db.close()


def test_utilisation_is_the_time_inside_the_timer(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.time()
    monkeypatch.setattr(views, "time", SimpleNamespace(time=lambda: now_s))
    book = SqlBook(db)
    book.enlist([Listing(name, TARGET, "wall", 1) for name in ("busy", "half", "held", "idle")])

    def lease(board: str, started: float, ended: float | None, timed_s: float) -> LeaseRow:
        state = LeaseState.ACTIVE if ended is None else LeaseState.RELEASED
        return LeaseRow(
            board=board, holder="elsewhere/1/1.00", purpose="trials", state=state.value,
            started=now_s + started, expires=now_s + 20, ended=None if ended is None else now_s + ended,
            timed_s=timed_s,
        )  # fmt: skip

    with db.write() as session:
        for row in session.query(BoardRow):
            row.enlisted = datetime.fromtimestamp(now_s - 1000, UTC)
        session.add_all(
            [
                lease("busy", -200, -50, 120.0),
                lease("busy", -50, -10, 30.0),
                lease("busy", -900, -800, 100.0),
                lease("half", -400, -200, 100.0),
                lease("held", -700, -400, 240.0),
                lease("held", -400, None, 0.0),
            ]
        )
    with db.read() as session:
        shares = {board.id: board.utilisation for board in views.show(session, [])}
    assert shares == pytest.approx({"busy": 0.5, "half": 50 / 300, "held": 0.8, "idle": 0.0})


def test_old_rows_are_forgotten(db: Database) -> None:
    now_s = time.time()
    clock = [now_s]
    book = SqlBook(db, clock=lambda: clock[0])
    book.enlist([Listing("a", TARGET, "wall", 1)])
    for days in (31, 2, 0):
        clock[0] = now_s - days * DAY_S
        book.checked("a", Check(1e-3, artifact="x"))
        for spoilt in (True, False):
            lease = book.acquire("a", "elsewhere/1/1.00", Purpose.CHECK, None)
            assert lease is not None
            if spoilt:
                book.revoke("a", "parked")
            else:
                book.release(lease, Usage())
    assert prune(db, now_s) == 2 + 1 + 2  # a month ago: leases, then events; two days ago: one released
    with db.read() as session:
        states = [row.state for row in session.query(LeaseRow).order_by(LeaseRow.token)]
        assert states == ["revoked", "revoked", "released"]
        oldest = datetime.fromtimestamp(now_s, UTC) - timedelta(days=30)
        assert all(event.at > oldest for event in session.query(BoardEventRow))
    assert prune(db, now_s) == 0


def test_use_by_day_outlives_its_leases(db: Database) -> None:
    now_s = time.time() // DAY_S * DAY_S + 0.5 * DAY_S
    clock = [now_s - 40 * DAY_S]
    book = SqlBook(db, clock=lambda: clock[0])
    book.enlist([Listing("a", TARGET, "wall", 1, kind="agent", where="10.0.0.3:9190")])
    book.change("a", Standing.check_passed, "good")
    for days, hours, trials in ((3, 6, 10), (3, 1, 5), (0, 6, 7)):
        clock[0] = now_s - days * DAY_S
        lease = book.acquire("a", "elsewhere/1/1.00", Purpose.TRIALS, None)
        assert lease is not None
        with db.write() as session:  # it lasted for hours
            session.get_one(LeaseRow, lease.token).expires = clock[0] + DAY_S
        clock[0] += hours * 3600
        assert book.release(lease, Usage(trials, hours * 3600, hours * 1800))

    def shown(session: Session) -> list[tuple[float, float, int]]:
        return [
            (round(day.leased, 6), round(day.timing, 6), day.trials)
            for day in by_day(session, "a", 5, clock[0]).items
        ]

    clock[0] = now_s + 12 * 3600 - 1
    with db.read() as session:
        before = shown(session)
    # 7 hours of one day; of today, which is over but for a second, 6 hours.
    nothing = (0.0, 0.0, 0)
    assert before[:1] + before[2:4] == [nothing] * 3
    assert before[1] == (round(7 / 24, 6), round(3.5 / 24, 6), 15)
    assert before[4] == (pytest.approx(6 / 24, rel=1e-3), pytest.approx(3 / 24, rel=1e-3), 7)
    assert prune(db, clock[0]) == 2 + 1  # two leases, and how it came to be good
    with db.read() as session:
        assert session.query(LeaseRow).count() == 1
        assert shown(session) == before
    assert prune(db, clock[0]) == 0


def test_a_board_says_its_kind_and_where_it_is(client: TestClient) -> None:
    board = client.get("/api/v1/boards/pi-1").json()
    assert (board["kind"], board["address"]) == ("agent", "10.0.0.3:9190")
    days = client.get("/api/v1/boards/pi-1/days", params={"count": 3}).json()["items"]
    assert len(days) == 3
    assert all(0 <= day["timing"] <= day["leased"] <= 1 for day in days)
    assert client.get("/api/v1/boards/nope/days").status_code == 404
