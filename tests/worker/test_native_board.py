"""The supervisor of the agent on this machine."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from candidates import connect
from tvm import rpc

from worker.build.toolchain import ZIG
from worker.fleet.drivers.agent_build import SOURCES, build_agent, host_triple, machine_flags
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.host import NativeBoard


def stats(board):
    return json.loads(connect(board).get_function("tilefleet.stats")())


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_board_describes_itself(agent_dir):
    cpu = max(os.sched_getaffinity(0))
    with NativeBoard("one", cpus=[cpu], threads=2, target="x86-avx2", state_dir=agent_dir) as board:
        told = stats(board)
        assert told["simulated"] is False
        assert (told["clock"], told["threads"]) == ("wall", 2)
        assert (board.id, board.target) == ("one", "x86-avx2")
        (agent,) = [child for child in psutil.Process().children() if "one" in child.cmdline()]
        assert agent.cpu_affinity() == [cpu]
    assert not agent.is_running()
    assert not board.alive()


def test_board_comes_back_when_its_agent_dies(agent_dir):
    with NativeBoard("phoenix", state_dir=agent_dir) as board:
        port = board.port
        (agent,) = [child for child in psutil.Process().children() if "phoenix" in child.cmdline()]
        agent.kill()
        wait_until(lambda: board.starts == 2)
        assert board.alive()
        assert board.port == port
        assert stats(board)
        session = connect(board)
        board.restart()
        assert board.starts == 3
        assert stats(board)
        del session


def test_board_moves_when_its_port_is_taken(agent_dir):
    with (
        NativeBoard("mover", state_dir=agent_dir) as board,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        board.port = taken = other.getsockname()[1]
        board.restart()
        assert board.port != taken
        assert stats(board)


def test_agent_dies_with_the_process_that_started_it(agent_dir):
    script = f"""
import pathlib, time
from worker.fleet.drivers.host import NativeBoard
board = NativeBoard("short", state_dir=pathlib.Path({str(agent_dir)!r}))
board.start()
print(board.port, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline()
        (agent,) = psutil.Process(owner.pid).children()
        owner.kill()
    _, left = psutil.wait_procs([agent], timeout=60)
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def test_board_that_cannot_start_says_why(agent_dir, tmp_path):
    with pytest.raises(BoardError, match=r"may not use the CPUs \[9999\]"):
        NativeBoard("far", cpus=[9999], state_dir=agent_dir).start()
    agent = build_agent(host_triple(), agent_dir)
    (tmp_path / agent.name).write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / agent.name).chmod(0o755)
    with pytest.raises(BoardError, match=r"failed to start 5 times: see .*board-broken\.log"):
        NativeBoard("broken", state_dir=tmp_path).start()
    (tmp_path / agent.name).chmod(0o644)
    with pytest.raises(BoardError, match=r"failed to start 5 times: .*Permission denied"):
        NativeBoard("broken", state_dir=tmp_path).start()


def test_agent_is_built_once(agent_dir):
    first = build_agent(host_triple(), agent_dir)
    before = first.stat()
    assert build_agent(host_triple(), agent_dir) == first
    assert first.stat().st_mtime_ns == before.st_mtime_ns


def test_code_of_the_agent_for_hexagon_loads_nothing_in_a_packet_that_stores_before(tmp_path):
    """As QEMU 7.2 may load what was there before."""
    source = SOURCES / "tensors.c"
    triple = "hexagon-linux-musl"
    command = [
        "cc",
        "-target",
        triple,
        "-O2",
        "-D_GNU_SOURCE",
        '-DARCH_HEADER="arch_hexagon.h"',
        "-S",
        source,
    ]
    found = []
    for flags in ((), machine_flags(triple)):
        subprocess.run([ZIG, *command, *flags, "-o", tmp_path / "code.s"], check=True)
        packets = re.findall(r"\{([^}]*)\}", (tmp_path / "code.s").read_text())
        found.append(sum(bool(re.search(r"mem\w+\([^\n]*\) ?= .*= ?mem", each, re.S)) for each in packets))
    assert found[0] > 0 == found[1]


def test_a_new_agent_replaces_the_old_ones_of_its_machine(tmp_path):
    other = "aarch64-linux-musl" if "aarch64" not in host_triple() else "x86_64-linux-musl"
    old = tmp_path / f"tilefleet-agent-{host_triple()}-0123456789abcdef"
    others = tmp_path / f"tilefleet-agent-{other}-0123456789abcdef"
    for path in (old, others):
        path.write_bytes(b"old")
    new = build_agent(host_triple(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([new.name, others.name])


def test_who_does_not_know_the_token_gets_no_session(board):
    for key in (board.id, "", f"{board.id}.{'0' * 64}"):
        with pytest.raises(Exception, match="cannot find server that matches"):
            rpc.connect(board.host, board.port, key)
    words = Path(f"/proc/{board._process.pid}/cmdline").read_text().split("\0")
    assert not any(board.key.partition(".")[2] in word for word in words), "others could read it there"


def test_each_start_has_a_token_of_its_own(board):
    before = board.key
    board.restart()
    assert board.key != before
    assert board.address["key"] == board.key
