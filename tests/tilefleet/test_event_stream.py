"""The stream of events against a real HTTP server that misbehaves on purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tilefleet import Client, NotFound, ServerUnreachable, sse


class Flaky(BaseHTTPRequestHandler):
    """Drops the first connection after two events, in the middle of the third."""

    asked: list[str | None]
    endless_loss = False

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Last-Event-ID"))
        if self.path != "/api/v1/jobs/7/events":
            body = b'{"title": "Not Found", "status": 404, "detail": "there is no job 8"}'
            self.send_response(404)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        if self.endless_loss:
            return
        if len(self.asked) == 1:
            self.wfile.write(b': hello\n\nid: 1\nevent: trial\ndata: {"number": 0}\n\n')
            self.wfile.write(b'id: 2\nevent: trial\ndata: {"number": 1}\n\nid: 3\nevent: trial\ndata: {"num')
        else:
            self.wfile.write(b'id: 3\nevent: trial\ndata: {"number": 2}\n\n')
            self.wfile.write(b'id: 4\nevent: end\ndata: {"state": "done"}\n\nid: 5\nevent: x\ndata: {}\n\n')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (Flaky,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def client_of(server: ThreadingHTTPServer) -> Client:
    return Client(f"http://127.0.0.1:{server.server_port}")


def test_a_dropped_stream_goes_on_where_it_broke(flaky: ThreadingHTTPServer) -> None:
    with client_of(flaky) as client:
        events = list(client.events(7))
    assert [(event.name, event.data.get("number")) for event in events] == [
        ("trial", 0),
        ("trial", 1),
        ("trial", 2),
        ("end", None),
    ]
    assert flaky.RequestHandlerClass.asked == [None, "2"]  # type: ignore[attr-defined]  # the class above


def test_a_refusal_is_no_reason_to_try_again(flaky: ThreadingHTTPServer) -> None:
    with client_of(flaky) as client, pytest.raises(NotFound, match="there is no job 8"):
        list(client.events(8))
    assert len(flaky.RequestHandlerClass.asked) == 1  # type: ignore[attr-defined]  # the class above


def test_a_server_that_stays_away_is_given_up(
    flaky: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky.RequestHandlerClass.endless_loss = True  # type: ignore[attr-defined]  # the class above
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with client_of(flaky) as client, pytest.raises(ServerUnreachable, match="ended before the job"):
        list(client.events(7))


def test_parsing_follows_the_standard() -> None:
    lines = ["data: [1,", "data: 2]", "", ":ping", "", "event:best", "id: 9", 'data:{"a": 1}', "", "data: {}"]
    with pytest.raises(ValueError, match="data"):
        list(sse.parse(lines))  # events of ours are objects
    events = list(sse.parse(lines[3:]))
    assert [(event.id, event.name, event.data) for event in events] == [("9", "best", {"a": 1})]
