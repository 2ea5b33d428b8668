"""The report of the fleet: availability by what was seen, use by leases, and what the lab cost."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from test_jobs import create, wait
from test_notices import AWAY, GOOD, kinds

from server import notifying
from server.boards import presence
from server.boards.book import SqlBook
from server.boards.days import DAY_S
from server.boards.report import fleet_report, text
from server.db.database import Database
from server.notices.notice import DRIFT, News
from server.settings import Settings
from tilefleet import Client
from worker.fleet.book import Listing, Purpose, Usage
from worker.fleet.states import Health, Standing

NOW_S = 20000 * DAY_S + 6 * 3600.0


def test_availability_is_the_share_of_the_watched_time_in_service(db: Database) -> None:
    book = SqlBook(db, clock=lambda: NOW_S - 3600)
    book.enlist([Listing("pi", GOOD.target, "wall", 1), Listing("new", GOOD.target, "wall", 1)])
    parked = replace(GOOD, health=Health.MAINTENANCE)
    for board, seconds, day in ((GOOD, 60, 0), (GOOD, 60, 1), (AWAY, 30, 1), (parked, 50, 2), (AWAY, 999, 9)):
        presence.keep(db, [board], seconds, NOW_S - day * DAY_S)
    book.change("pi", Standing.check_passed, "good")
    lease = book.acquire("pi", "me", Purpose.TRIALS, None)
    assert lease is not None
    book.release(lease, Usage(8, 6.0, 3.0))
    with db.read() as session:
        report = fleet_report(session, 7, NOW_S)
    pi, new = {board.id: board for board in report.boards}["pi"], report.boards[0]
    assert (pi.availability, pi.trials, pi.faults) == (120 / 200, 8, 0)
    assert (new.id, new.availability) == ("new", None)
    assert (report.trials, report.lost, report.lost_share) == (0, 0, 0.0)
    assert "pi (rpi4): 60.0% available" in text(report)


def test_trials_lost_to_the_lab_are_those_of_the_jobs(client: TestClient) -> None:
    assert wait(client, create(client)["id"])["state"] == "done"
    report = client.get("/api/v1/boards/report", params={"days": 1}).json()
    assert report["trials"] > 0
    assert report["lost"] == 0
    assert {board["id"] for board in report["boards"]} == {
        board["id"] for board in client.get("/api/v1/boards").json()["items"]
    }
    assert client.get("/api/v1/boards/report", params={"days": 0}).status_code == 422


def test_a_weekly_report_is_sent_once_and_not_for_a_week_that_nobody_saw(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notifying, "fleet_report", lambda session, days, now_s: _Report(now_s))
        patch.setattr(notifying, "text", lambda report: f"until {report.now_s}")
        settings = Settings(home=tmp_path)
        db = Database(f"sqlite:///{tmp_path / 'x.sqlite3'}")
        monday = 20003 * DAY_S
        assert time.gmtime(monday).tm_wday == 0
        told = [notifying.weekly(settings, db, monday + hours * 3600) for hours in (-30, -1, 0, 1, 160, 168)]
        assert [each and each.text for each in told] == [
            None, None, f"until {monday - 1}", None, None, f"until {monday + 7 * DAY_S - 1}",
        ]  # fmt: skip
        silent = Settings(home=tmp_path, notify_report=False)
        assert notifying.weekly(silent, db, monday + 99 * DAY_S) is None
        db.close()


class _Report:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {}


def test_a_board_that_becomes_slower_is_told_once() -> None:
    news = News(60, 0)
    found = [
        kinds(news.look([], [GOOD], 1, at, {"pi": drift}))
        for at, drift in enumerate((1.0, DRIFT, DRIFT + 1, DRIFT - 0.01, 1.0, DRIFT))
    ]
    assert found == [[], ["board_drift"], [], [], [], ["board_drift"]]


def test_the_client_reads_the_report(monkeypatch: pytest.MonkeyPatch, client: TestClient) -> None:
    answer = client.get("/api/v1/boards/report")
    monkeypatch.setattr(Client, "_send", lambda *_, **__: answer)
    report = Client("http://127.0.0.1:1").report()
    assert report.lost_share == 0.0
