"""Notices: what is news, where it goes, and that a real server sends them."""

from __future__ import annotations

import asyncio
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from pydantic import ValidationError
from test_jobs import create, wait

from kernels.target import CATALOGUE
from server import notifying
from server.app import create_app
from server.notices import outbox
from server.notices.notice import EndedJob, News, Notice
from server.notices.outbox import Outbox
from server.notices.places import Mail, Place, Webhook, deliver, places
from server.settings import Settings
from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

DEPLOY = Path(__file__).parents[2] / "deploy"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOOD = BoardStatus("pi", CATALOGUE["rpi4"], 1, frozenset(), Activity.IDLE, Health.GOOD)
AWAY = replace(GOOD, activity=Activity.OFFLINE, reason="no answer")
BAD = replace(GOOD, health=Health.BAD, reason="three failures")
NOTICE = Notice("job_ended", "job 7 (net for rpi4) is failed: no\nboard", {"job": 7})


def kinds(found: list[Notice]) -> list[str]:
    return [notice.kind for notice in found]


def test_an_ended_job_is_news_once_for_each_of_its_ends() -> None:
    news, job = News(60, 0), EndedJob(7, "net", "rpi4", "failed", "no board", NOW)
    (told,) = news.look([job], [], 1, 0)
    assert told.text == "job 7 (net for rpi4) is failed: no board"
    assert told.data["state"] == "failed"
    assert news.look([job], [], 1, 5) == []
    again = replace(job, state="done", message="", finished=NOW + timedelta(minutes=1))
    assert [each.text for each in news.look([job, again], [], 1, 9)] == ["job 7 (net for rpi4) is done"]
    assert news.look([], [], 1, 12) == []
    named = replace(job, id=8, model=None, name="before the fan", labels=("lab", "nightly"))
    (told,) = news.look([named], [], 1, 13)
    assert told.text == 'job 8 "before the fan" (one workload for rpi4; lab; nightly) is failed: no board'
    assert (told.data["name"], told.data["labels"]) == ("before the fan", ["lab", "nightly"])
    assert told.data["model_name"] is None


def test_boards_and_disks_are_news_when_they_become_so() -> None:
    news = News(60, 100)
    assert news.look([], [BAD], 1000, 0) == []  # as it was before anybody looked
    assert news.look([], [GOOD], 1000, 1) == []
    assert [each.text for each in news.look([], [BAD], 1000, 2)] == ["board pi is bad: three failures"]
    assert news.look([], [BAD], 1000, 3) == []
    assert news.look([], [AWAY], 1000, 10) == news.look([], [AWAY], 1000, 69) == []
    assert kinds(news.look([], [AWAY], 1000, 70)) == ["board_offline"]
    assert news.look([], [AWAY], 1000, 700) == news.look([], [GOOD], 1000, 701) == []
    assert news.look([], [AWAY], 1000, 710) == []
    assert kinds(news.look([], [AWAY], 1000, 771)) == ["board_offline"]
    parked = replace(AWAY, health=Health.MAINTENANCE)
    assert news.look([], [parked], 1000, 900) == news.look([], [parked], 1000, 9000) == []
    lows = [kinds(news.look([], [], free, 9999)) for free in (99, 99, 105, 99, 111, 99)]
    assert lows == [["disk_low"], [], [], [], [], ["disk_low"]]


class Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        server.got, server.answers = [], []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Post(socketserver.StreamRequestHandler):
    """As much of SMTP as it takes to get one mail."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                mail = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    mail += part
                self.server.got.append(mail.decode())  # type: ignore[attr-defined]
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 well\r\n")
            if word == b"QUIT":
                return


def sent(place: Place, notice: Notice, pauses: list[float] | None = None) -> str | None:
    """What comes of delivering, without its pauses."""

    async def pause(seconds: float) -> None:
        if pauses is not None:
            pauses.append(seconds)

    return asyncio.run(deliver(place, notice, pause))


def test_webhooks_get_plain_json_or_slacks(hook: Any) -> None:
    url = f"http://127.0.0.1:{hook.server_port}"
    plain, slack = places([f"{url}/secret", f"slack+{url}/chat"], None)
    assert sent(plain, NOTICE) is None
    assert sent(slack, NOTICE) is None
    (path, body), (_, message) = hook.got
    assert (path, body["kind"], body["text"], body["data"]) == (
        "/secret",
        "job_ended",
        NOTICE.text,
        {"job": 7},
    )
    assert datetime.fromisoformat(body["time"]).tzinfo is not None
    assert message == {"text": f"Tilefleet: {NOTICE.text}"}
    assert "secret" not in plain.name


def test_slack_calls_nobody_and_links_nowhere(hook: Any) -> None:
    """For what a job is called."""
    (slack,) = places([f"slack+http://127.0.0.1:{hook.server_port}/chat"], None)
    text = 'job 1 "<!channel> <http://evil.example|click here>" & more'
    assert sent(slack, Notice("job_ended", text, {})) is None
    ((_, message),) = hook.got
    assert message["text"] == (
        'Tilefleet: job 1 "&lt;!channel&gt; &lt;http://evil.example|click here&gt;" &amp; more'
    )


class Recorder:
    """A place that takes notices once ``open`` is set."""

    def __init__(self, name: str, open: bool) -> None:
        self.name, self.open, self.got = name, asyncio.Event(), list[str]()
        if open:
            self.open.set()

    async def send(self, notice: Notice) -> None:
        await self.open.wait()
        self.got.append(notice.text)


def test_a_slow_place_delays_no_other_and_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses the oldest of too many, which is logged."""
    notices = [Notice("job_ended", f"job {each}", {}) for each in range(7)]
    monkeypatch.setattr(outbox, "KEPT", 5)

    async def send() -> tuple[Recorder, Recorder]:
        slow, quick = Recorder("slow", open=False), Recorder("quick", open=True)
        boxes = [Outbox(slow), Outbox(quick)]
        tasks = [asyncio.create_task(box.run()) for box in boxes]
        for notice in notices:
            for box in boxes:
                box.put([notice])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        while len(quick.got) < len(notices):
            await asyncio.sleep(0.001)
        assert slow.got == []
        slow.open.set()
        while len(slow.got) < 6:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        return slow, quick

    slow, quick = asyncio.run(send())
    assert quick.got == [notice.text for notice in notices]
    assert slow.got == ["job 0", *(f"job {each}" for each in range(2, 7))], "it had begun with the first"


def test_a_place_that_answers_byte_by_byte_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.notices.places.DEADLINE_S", 0.5)
    monkeypatch.setattr("server.notices.places.TRIES", 1)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"H")
                await writer.drain()
                await asyncio.sleep(0.05)

    async def send() -> str | None:
        async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await deliver(Webhook(f"http://127.0.0.1:{port}"), NOTICE)

    assert asyncio.run(send()) == "it did not take it within 0.5 s"


def test_a_failure_is_tried_again_and_then_told(hook: Any) -> None:
    place, pauses = Webhook(f"http://127.0.0.1:{hook.server_port}"), list[float]()
    hook.answers[:] = [500, 503]
    assert sent(place, NOTICE, pauses) is None
    assert len(pauses) == 2
    hook.answers[:] = [500] * 3
    assert sent(place, NOTICE, pauses) == "it answered 500"
    assert "refused" in str(sent(Mail("a@b.org", "smtp://127.0.0.1:1"), NOTICE, pauses))


def test_mail_goes_by_smtp_and_no_password_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Post) as server:
        server.got = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        address = f"127.0.0.1:{server.server_address[1]}"
        (place,) = places(["mailto:lab@example.org"], f"smtp://{address}?from=tilefleet@example.org")
        try:
            assert sent(place, NOTICE) is None
            monkeypatch.setattr("server.notices.places._LOOPBACK", ())
            secret = Mail("lab@example.org", f"smtp://me:word@{address}")
            assert "no TLS" in str(sent(secret, NOTICE))
        finally:
            server.shutdown()
            thread.join()
    (mail,) = server.got  # type: ignore[attr-defined]
    assert "Subject: Tilefleet: job 7 (net for rpi4) is failed: no board\r\n" in mail
    assert "From: tilefleet@example.org\r\nTo: lab@example.org" in mail
    assert "job: 7" in mail


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"notify": ("ftp://x",)}, "take https"),
        ({"notify": ("mailto:a@b.org",)}, "needs TILEFLEET_SMTP"),
        ({"notify": ("mailto:a@b.org",), "smtp": "mail.b.org"}, "smtp://"),
    ],
)
def test_places_that_are_none_are_named(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings(**fields)


def test_a_server_tells_of_a_job_and_a_full_disk(
    tmp_path: Path, engine: Any, nursery: Any, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "LOOK_S", 0.05)
    monkeypatch.setattr(notifying, "free_bytes", lambda folder: 5 << 20)
    url = f"http://127.0.0.1:{hook.server_port}"
    settings = Settings(home=tmp_path, notify=(url,), notify_disk_mb=6, allowed_hosts=("testserver",))
    app = create_app(settings, engine.open, nursery)
    with TestClient(app) as client:
        job = create(client, name="before the fan", labels=["nightly", "lab"])
        assert wait(client, job["id"])["state"] == "done"
        for _ in range(400):
            if len(hook.got) == 2:
                break
            threading.Event().wait(0.05)
    assert sorted(body["kind"] for _, body in hook.got) == ["disk_low", "job_ended"]
    (ended,) = [body for _, body in hook.got if body["kind"] == "job_ended"]
    told = ended["data"]
    assert (told["job"], told["state"], told["model_name"]) == (job["id"], "done", None)
    assert (told["name"], told["labels"]) == ("before the fan", ["lab", "nightly"])


def test_grafana_and_alerts_name_metrics_that_there_are(client: TestClient) -> None:
    wait(client, create(client)["id"])
    text = client.get("/metrics").text
    there = set(re.findall(r"^# TYPE (tilefleet_\w+)", text, re.MULTILINE))
    there |= set(re.findall(r"^(tilefleet_\w+)\{?", text, re.MULTILINE))
    rules = [
        rule
        for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    expressions = [rule["expr"] for rule in rules] + [t["expr"] for panel in panels for t in panel["targets"]]
    assert len(expressions) > 12
    for expression in expressions:
        named = set(re.findall(r"\btilefleet_\w+", expression))
        assert named, expression
        assert named <= there, expression
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
