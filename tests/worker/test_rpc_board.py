"""Boards that are only an address: TVM's own server, at a tracker too, and our agent with a token."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import dialing
import pytest
from candidates import SPIN_C, c_candidate, tvm_candidate
from dialing import TOKEN, free_port, wait_until

from worker.children.nursery import ChildRaised
from worker.fleet.drivers.agent_build import build_agent, host_triple
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.rpc import RpcBoard, TrackedBoard
from worker.measure.child import connect


@contextlib.contextmanager
def tvm_exec(name, *options):
    """One of TVM's own programs, in a process group that is killed whole."""
    command = [sys.executable, "-m", f"tvm.exec.{name}", *map(str, options)]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_restarting_does_not_go_by_what_was_known_before():
    with socket.create_server(("127.0.0.1", 0)) as server:
        board = RpcBoard("silent", "127.0.0.1", server.getsockname()[1], cached_s=1000.0)
        assert board.alive()  # it takes connections, so it may be busy
    board.stop()
    assert board.alive()
    with pytest.raises(BoardError, match="silent: nothing answers"):
        board.restart()
    assert not board.alive()


def test_tvms_server_is_alive_idle_and_busy_and_dead_when_it_is_gone(nursery, tmp_path):
    port = free_port()
    board = RpcBoard("stock", "127.0.0.1", port, cached_s=0.05)
    assert not board.alive()
    with pytest.raises(BoardError, match=rf"stock: nothing answers at 127\.0\.0\.1 port {port}"):
        board.restart()
    options = ("--host", "127.0.0.1", "--port", port, "--port-end", port + 1, "--key", "stock")
    with tvm_exec("rpc_server", *options):
        wait_until(board.alive)
        board.restart()
        double = {"address": board.address, "path": str(tvm_candidate(tmp_path))}
        for _ in range(2):  # probes have not broken it
            assert nursery.call("board_clients:double", double, timeout_s=200)
            time.sleep(0.1)
            assert board.alive()
        states = []

        def look(_):
            for _ in range(5):  # many times: TVM's server has room for two that wait
                time.sleep(0.1)
                states.append(board.alive())

        nursery.call("board_clients:visit", board.address, timeout_s=200, on_message=look)
        assert states
        assert all(states)
        assert nursery.call("board_clients:double", double, timeout_s=200)
    wait_until(lambda: not board.alive())
    board.stop()


def test_a_tracker_that_was_killed_is_found_again(nursery, tmp_path):
    port, server_port = free_port(), free_port()
    board = TrackedBoard("tracked", f"127.0.0.1:{port}", key="pi", cached_s=0.05)
    assert not board.alive()
    options = ("--host", "127.0.0.1", "--port", server_port, "--port-end", server_port + 1, "--key", "pi")
    path = str(tvm_candidate(tmp_path))
    with tvm_exec("rpc_server", *options, "--tracker", f"127.0.0.1:{port}"):
        for _ in range(2):
            with tvm_exec("rpc_tracker", "--host", "127.0.0.1", "--port", port, "--port-end", port + 1):
                wait_until(board.alive, 240)
                payload = {"address": board.address, "path": path}
                assert nursery.call("board_clients:double", payload, timeout_s=200)
            wait_until(lambda: not board.alive())
    with pytest.raises(BoardError, match=r"tracker 127\.0\.0\.1"):
        board.restart()
    with pytest.raises(BoardError, match="'nowhere' is not like host:port"):
        TrackedBoard("tracked", "nowhere")


def listening_port(process):
    return int(process.stdout.readline())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_an_agent_with_a_token_serves_who_knows_it(agent_dir, tmp_path, nursery, address):
    if ":" in address and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with dialing.agent(agent_dir, tmp_path, "--bind", address) as (_, process):
        board = RpcBoard("board", address, listening_port(process), tokens=(TOKEN,), cached_s=0.05)
        assert board.alive()
        assert board.address["key"] == f"board.{TOKEN}"
        assert nursery.call("board_clients:stats", board.address, timeout_s=200)["clock"] == "wall"
        wrong = ("board", "", f"board.{TOKEN}x", f"board.{TOKEN[:-1]}", f"other.{TOKEN}", TOKEN)
        for key in (*wrong, f"board.{TOKEN[:-1]}x"):
            greeting = f"client:{key}".encode()
            with socket.create_connection((board.host, board.port), 120) as peer:
                peer.sendall(struct.pack("<ii", 0xFF271, len(greeting)) + greeting)
                assert peer.recv(1 << 10) == struct.pack("<i", 0xFF271 + 2), key
        assert nursery.call("board_clients:stats", board.address, timeout_s=200)
    wait_until(lambda: not board.alive())


def test_a_client_that_names_no_token_is_told(agent_dir, tmp_path, nursery):
    with dialing.agent(agent_dir, tmp_path, "--bind", "127.0.0.1") as (_, process):
        board = RpcBoard("board", "127.0.0.1", listening_port(process), cached_s=0.05)
        with pytest.raises(ChildRaised, match=r"(?i)key"):
            nursery.call("board_clients:stats", board.address, timeout_s=200)


def test_what_would_be_open_to_all_is_refused(agent_dir, tmp_path):
    program = build_agent(host_triple(), agent_dir)

    def said(*options):
        done = subprocess.run(
            [program, *map(str, options)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode in (1, 2)
        return done.stderr

    def token_file(text):
        (tmp_path / "token").write_text(text)
        return "--token-file", tmp_path / "token"

    for address in ("0.0.0.0", "192.168.1.1", "::", "::ffff:127.0.0.1"):
        assert "without --token-file" in said("--bind", address, "--key", "b")
    assert "16 to 256" in said("--bind", "0.0.0.0", "--key", "b", *token_file("fifteen-letters\n"))
    assert "16 to 256" in said("--bind", "0.0.0.0", "--key", "b", *token_file("x" * 257))
    assert "without spaces" in said("--bind", "0.0.0.0", "--key", "b", *token_file("these are four words"))
    assert "No such file" in said("--key", "b", "--token-file", tmp_path / "none")
    assert "also a --key" in said(*token_file(TOKEN))
    assert "not a numeric address: example.org" in said("--bind", "example.org")
    assert "also --token-file" in said("--dial", "127.0.0.1:1", "--key", "b")
    for where in ("127.0.0.1", ":1", "host:", "host:port"):
        assert f"not like HOST:PORT: {where}" in said("--dial", where, "--key", "b", *token_file(TOKEN))
    with pytest.raises(BoardError, match="16 to 256 characters, not 5"):
        RpcBoard("board", "127.0.0.1", 1, tokens=("short",))


def test_nobody_sees_the_token_and_a_spinning_candidate_is_stopped(agent_dir, tmp_path, nursery):
    with dialing.agent(agent_dir, tmp_path, "--bind", "127.0.0.1") as (agent, process):
        assert TOKEN not in json.dumps([agent.cmdline(), agent.environ()])
        board = RpcBoard("board", "127.0.0.1", listening_port(process), tokens=(TOKEN,), cached_s=0.05)
        spin = {"address": board.address, "path": str(c_candidate(tmp_path, SPIN_C)), "session_s": 1}
        with pytest.raises(ChildRaised, match="the session's 1 s are over"):
            nursery.call("board_clients:run_main", spin, timeout_s=200)
        assert board.alive()
        assert nursery.call("board_clients:stats", board.address, timeout_s=200)


def test_the_address_is_what_measuring_understands():
    with pytest.raises(Exception, match=r"[Cc]onnect|retry|[Rr]efused"):
        connect(RpcBoard("nobody", "127.0.0.1", 1).address, 1)


def test_a_tracker_whose_answer_is_too_deep_is_one_that_is_away():
    deep = b"[" * 100_000

    def answer():
        peer, _ = server.accept()
        with peer:
            peer.sendall(peer.recv(4) + struct.pack("<i", len(deep)) + deep)

    with socket.create_server(("127.0.0.1", 0)) as server:
        board = TrackedBoard("tracked", f"127.0.0.1:{server.getsockname()[1]}")
        answering = threading.Thread(target=answer)
        answering.start()
        assert not board.alive()
        answering.join()
