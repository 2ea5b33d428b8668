"""A fleet that changes while its coordinator runs: real processes, the signal and the request."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.soak.fleet_file import free_port
from bench.soak.world import Service, World, wait_for
from kernels.workload.base import Gemm, to_json
from tilefleet.errors import Conflict
from worker.fleet.drivers.agent_build import build_agent, host_triple

FIRST, SECOND = "correct-horse-battery-staple", "another-horse-battery-staple"
HOST = '[[board]]\nid = "host"\nkind = "host"\n'


def dial(id: str, tags: str = "") -> str:
    more = f'tags = ["{tags}"]\n' if tags else ""
    return f'[[board]]\nid = "{id}"\nkind = "dial"\ntarget = "x86-avx2"\ntoken_file = "{id}.token"\n{more}'


class Lab:
    """A service with a fleet file, and agents that dial in to it."""

    def __init__(self, world: World) -> None:
        self.world, self.folder, self.port = world, world.home, free_port()
        self.file = world.home / "fleet.toml"
        for id in ("one", "two"):
            self.tokens(id, FIRST)
        self.write(HOST, dial("one"))
        self.service = Service(world, "--fleet", self.file)
        self.client = self.service.client

    def write(self, *boards: str) -> None:
        self.file.write_text(f'[gateway]\nlisten = "127.0.0.1:{self.port}"\n\n' + "\n".join(boards))

    def tokens(self, id: str, *tokens: str) -> None:
        file = self.folder / f"{id}.token"
        file.write_text("".join(f"{token}\n" for token in tokens))
        file.chmod(0o600)

    @contextmanager
    def agent(self, id: str, token: str) -> Iterator[subprocess.Popen[bytes]]:
        own = self.folder / f"{id}-agent.token"
        own.write_text(token)
        process = self.world.start(
            build_agent(host_triple(), self.folder),
            *("--key", id, "--token-file", own, "--dial", f"127.0.0.1:{self.port}"),
            *("--threads", "1", "--parent", os.getpid()),
            log=f"{id}.log",
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            wait_for(lambda: not self.there(id), why=self.boards)

    def boards(self) -> dict[str, str]:
        return {board.id: f"{board.activity} {board.health}" for board in self.client.boards()}

    def there(self, id: str) -> bool:
        return self.boards().get(id) == "idle good"

    def said(self) -> str:
        return (self.folder / "up.log").read_text()


@pytest.fixture(scope="module")
def lab(world: World) -> Iterator[Lab]:
    lab = Lab(world)
    yield lab
    lab.service.stop()


def test_boards_come_change_and_go_without_a_stop(lab: Lab) -> None:
    """By the request and by the signal; what works meanwhile is not disturbed."""
    with lab.agent("one", FIRST), lab.agent("two", FIRST):
        wait_for(lambda: lab.there("one") and lab.there("host"), why=lab.boards)
        lab.write(HOST, dial("one"), dial("two", "fast"))
        job = lab.client.submit(target="host", workload=to_json(Gemm(m=64, n=64, k=64)), trials=12)
        change = lab.client.reload_fleet()
        assert change == {"added": ["two"], "removed": [], "changed": [], "tokens": []}
        wait_for(lambda: lab.there("two"), why=lab.boards)
        assert lab.client.reload_fleet() == {"added": [], "removed": [], "changed": [], "tokens": []}

        lab.write(HOST, dial("one", "lab"), dial("two", "fast"))
        assert lab.client.reload_fleet()["changed"] == ["one"]
        wait_for(lambda: lab.there("one") and lab.client.board("one").tags == ["lab"], why=lab.boards)

        lab.write(HOST, dial("one", "lab"))
        lab.service.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "removed: two" in lab.said(), why=lab.said)
        wait_for(lambda: lab.boards()["two"].startswith("offline"), why=lab.boards)
        # Its tags are told before it has come again with them.
        wait_for(lambda: lab.there("one"), why=lab.boards)
        done = wait_for(lambda: (now := lab.client.job(job.id)).ended and now)
        assert (done.state, done.failed) == ("done", 0)
        lab.write(HOST, dial("one"))
        lab.client.reload_fleet()
        wait_for(lambda: lab.client.board("one").tags == [], why=lab.boards)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("[[board]\n", "not TOML"),
        (HOST + '[[board]]\nid = "x"\nkind = "phone"\n', "there is no 'phone'"),
        (HOST + dial("three"), "three.token"),
        (HOST.replace("kind", "threads = 9\nkind"), "9 in the file"),
        (dial("one"), "0 in the file"),
    ],
)
def test_a_broken_file_changes_nothing(lab: Lab, file: str, words: str) -> None:
    before = {board.id: board.tags for board in lab.client.boards()}
    lab.write(file)
    with pytest.raises(Conflict, match="the fleet stays as it was") as refused:
        lab.client.reload_fleet()
    assert words in str(refused.value)
    lab.service.process.send_signal(signal.SIGHUP)
    wait_for(lambda: words in lab.said(), why=lab.said)
    assert lab.service.runs()
    assert {board.id: board.tags for board in lab.client.boards()} == before
    lab.write(HOST, dial("one"))


def test_a_token_is_exchanged_without_a_stop(lab: Lab) -> None:
    """The old one and the new one hold, then the new one alone: who has the old one is sent away."""
    lab.write(HOST, dial("one"))
    lab.tokens("one", FIRST)
    lab.client.reload_fleet()
    with lab.agent("one", FIRST):
        wait_for(lambda: lab.there("one"), why=lab.boards)
        lab.tokens("one", FIRST, SECOND)
        assert lab.client.reload_fleet()["tokens"] == ["one"]
        assert lab.there("one"), lab.boards()
    with lab.agent("one", SECOND):
        wait_for(lambda: lab.there("one"), why=lab.boards)
        lab.tokens("one", SECOND)
        assert lab.client.reload_fleet()["tokens"] == ["one"]
        assert lab.there("one"), lab.boards()
    with lab.agent("one", FIRST):
        log = lab.folder / "one.log"
        wait_for(lambda: "another token" in log.read_text(), why=log.read_text)
        wait_for(lambda: lab.boards()["one"].startswith("offline"), why=lab.boards)
