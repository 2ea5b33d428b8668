"""The fleet file: what it says, and that every mistake is named with its place and the way out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kernels.target import CATALOGUE
from worker.fleet.drivers.agent_process import AgentBoard
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.registry import KINDS
from worker.fleet.drivers.rpc import RpcSpec
from worker.fleet.drivers.spec import Site
from worker.fleet.drivers.token_file import read_tokens
from worker.fleet.fleet_file import FleetError, fleet_of, read_fleet, read_targets
from worker.fleet.small_file import MOST_BYTES

EXAMPLE = Path(__file__).parents[2] / "docs" / "fleet.example.toml"
TARGET = '[[target]]\nname = "my-board"\ntriple = "aarch64-linux-gnu"\ncpu = "cortex-a55"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.toml"
    path.write_text(text)
    return path


def test_the_example_has_every_kind_of_board() -> None:
    fleet = read_fleet(EXAMPLE)
    assert {board.kind for board in fleet.boards} == set(KINDS)
    assert any(isinstance(board, RpcSpec) and board.tracker for board in fleet.boards)
    assert fleet.targets
    assert set(fleet.known_targets) > set(CATALOGUE)


def test_each_kind_gets_its_driver(tmp_path: Path) -> None:
    (tmp_path / "pi.token").write_text("0123456789abcdef\n")
    path = write(
        tmp_path,
        '[[board]]\nid="host"\nkind="host"\nthreads=2\n'
        '[[board]]\nid="sim"\nkind="simulated"\nmodel="rpi4-sim"\ntags=["quick"]\n'
        '[[board]]\nid="pi"\nkind="agent"\ntarget="rpi4"\naddress="[::1]:9090"\ntoken_file="pi.token"\n'
        '[[board]]\nid="far"\nkind="dial"\ntarget="rpi5"\nthreads=4\ntoken_file="pi.token"\n'
        '[[board]]\nid="tvm"\nkind="rpc"\ntarget="my-board"\ntracker="10.0.0.1:9190"\nkey="k"\n' + TARGET,
    )
    fleet = read_fleet(path)
    assert fleet.targets["my-board"].cpu == "cortex-a55"
    site = Site(tmp_path, [0], [0], Gateway(port=0))
    drivers = [spec.driver(site) for spec in fleet.boards]
    names = [type(driver).__name__ for driver in drivers]
    assert names == ["NativeBoard", "SimulatedBoard", "RpcBoard", "DialedBoard", "TrackedBoard"]
    assert [driver.id for driver in drivers] == [spec.id for spec in fleet.boards]
    assert [driver.threads for driver in drivers] == [2, 4, 1, 4, 1]
    assert drivers[1].clock.startswith("simulated:rpi4-sim:")
    assert drivers[2].address == {"host": "::1", "port": 9090, "key": "pi.0123456789abcdef"}
    assert drivers[4].address == {"tracker": "10.0.0.1:9190", "key": "k"}
    (tmp_path / "pi.token").unlink()
    with pytest.raises(BoardError, match=r"board far: token file .*pi\.token: No such file .*; make it with"):
        fleet.boards[3].driver(site)


RPC = '[[board]]\nid = "r"\nkind = "rpc"\ntarget = "rpi4"\naddress = "h:1"\n'
SIM = '[[board]]\nid = "a"\nkind = "simulated"\nmodel = "rpi4-sim"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"fleet\.toml: there is no board; add a"),
        ("[[board]", r"fleet\.toml: not TOML"),
        ("[[board]]\nkind = 'host'", r"fleet\.toml: board 1: id: it is missing"),
        (
            SIM + "[[board]]\nid = 'b'\nkind = 'hots'",
            r"board 2 \(b\): kind: there is no 'hots'; there are",
        ),
        (SIM + "colour = 'red'", r"board 1 \(a\): colour: there is no such field"),
        (SIM + "address = 'h:1'", r"board 1 \(a\): address: there is no such field of a board of"),
        (SIM.replace("rpi4-sim", "vax"), r"board 1 \(a\): model: there is no 'vax'; there are .*rpi4-sim"),
        (SIM + SIM, r"board a is there 2 times; give each another id"),
        (SIM.replace('"a"', '"a b"'), r"id: a board's id is"),
        (
            "[[board]]\nid='a'\nkind='dial'\ntarget='rpi4'",
            r"board 1 \(a\): token_file: it is missing",
        ),
        ("[[board]]\nid='a'\nkind='rpc'\ntarget='rpi4'", r"either an address or a tracker"),
        (
            "[[board]]\nid='a'\nkind='rpc'\ntarget='x'\naddress='h:1'",
            r"board 1 \(a\): target: 'x' is unknown",
        ),
        ("[[board]]\nid='a'\nkind='rpc'\ntarget='rpi4'\naddress='h'", r"address: 'h' is not like host:port"),
        ("[[board]]\nid='a'\nkind='host'\nthreads=0", r"board 1 \(a\): threads: .*not 0"),
        ("[[board]]\nid='a'\nkind='host'\n[[board]]\nid='b'\nkind='host'", r"this machine is one board"),
        ("board = [3]", r"fleet\.toml: board: number 1: .*not 3"),
        ("[[board]]\nid='a'", r"board 1 \(a\): kind: it is missing; there are host, "),
        (SIM + "[gateway]\nlisten = 'here'", r"gateway: listen: 'here' is not like host:port"),
        (SIM + TARGET + "colour = 'red'", r"target 1 \(my-board\): target colour"),
        (SIM + TARGET.replace("my-board", "rpi4"), r"target 1 \(rpi4\): there is a target of that name"),
        ("targets = ['no.toml']\n" + SIM, r"no\.toml: No such file"),
        ('targets = ["a\\u0000"]\n' + SIM, r"no file has a NUL in its name"),
        ("x = " + "9" * 5000, r"fleet\.toml: not TOML: .*4300 digits"),
        (RPC + f"threads = {10**22}", r"board 1 \(r\): threads: .* 4096"),
        (RPC + "key = 'a b'", r"board 1 \(r\): key: "),
        (RPC + 'tags = ["\\u001b[2J"]', r"board 1 \(r\): tags: number 1: "),
        (RPC.replace("h:1", "h\\u001b:1"), r"address: 'h\\x1b:1' is not like host:port"),
        (RPC.replace("h:1", "h" * 300 + ":1"), r"address: .* 280 "),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        read_fleet(write(tmp_path, text))


def test_targets_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TARGET)
    fleet = read_fleet(write(tmp_path, 'targets = ["mine.toml"]\n' + SIM))
    assert fleet.targets == read_targets(tmp_path / "mine.toml")
    with pytest.raises(FleetError, match="there is no target"):
        read_targets(write(tmp_path, ""))
    assert read_targets(write(tmp_path, SIM)) == {}


def test_files_that_name_each_other_are_told_so(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text('targets = ["more.toml"]\n[[board]]\nid = "host"\nkind = "host"\n')
    for name in ("more.toml", "../more.toml", "fleet.toml"):
        folder = tmp_path / "sub" if name.startswith("..") else tmp_path
        folder.mkdir(exist_ok=True)
        (tmp_path / "more.toml").write_text(
            f'targets = ["{"sub/" if folder != tmp_path else ""}again.toml"]\n'
        )
        (folder / "again.toml").write_text(f'targets = ["{name}"]\n')
        with pytest.raises(
            FleetError, match=r"again\.toml: it names .*, which names it; take one of the two"
        ):
            read_fleet(tmp_path / "fleet.toml")


def test_names_make_a_fleet() -> None:
    fleet = fleet_of(["host", "rpi4-sim", "rpi4-sim", "power10-sim"], threads=2)
    assert [board.id for board in fleet.boards] == ["host", "rpi4-sim", "rpi4-sim-2", "power10-sim"]
    assert fleet.host is not None
    assert fleet.host.threads == 2
    for names, message in (
        ([], "no board named"),
        (["vax-sim"], "unknown board 'vax-sim'; there are: host"),
        (["host", "host"], "this machine is one board"),
    ):
        with pytest.raises(FleetError, match=message):
            fleet_of(names)


def test_what_is_no_small_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe, large, deep = tmp_path / "pipe", tmp_path / "large", tmp_path / "deep"
    os.mkfifo(pipe)
    large.write_bytes(b"a" * (MOST_BYTES + 1))
    deep.write_text("a = " + "[" * 100_000)
    for path, words in ((pipe, "no regular file"), (large, "larger than 1 MB")):
        with pytest.raises(FleetError, match=words):
            read_fleet(path)
        with pytest.raises(BoardError, match=words):
            read_tokens("pi", path)
    with pytest.raises(FleetError, match="lists in lists"):
        read_fleet(deep)
    with pytest.raises(BoardError, match="NUL"):
        read_tokens("pi", tmp_path / "a\0")


def test_a_board_that_is_stopped_while_it_starts_leaves_no_agent(tmp_path: Path) -> None:
    class Slow(AgentBoard):
        def _prepare(self) -> list[str]:
            self.stop()
            return [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]

    board = Slow(
        "x",
        state_dir=tmp_path,
        cpus=sorted(os.sched_getaffinity(0))[:1],
        threads=1,
        target="host",
        clock="wall",
        memory_mb=64,
    )
    for _ in range(2):
        with pytest.raises(BoardError, match="stopped before it had started"):
            board.start()
    assert board._thread is None
    assert not (tmp_path / "ran").exists()
