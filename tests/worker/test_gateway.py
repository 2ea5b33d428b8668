"""Boards that dial in: real agents, the gateway, and whatever comes between them."""

import contextlib
import itertools
import logging
import os
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import dialing
import faulty_kernels
import psutil
import pytest
from candidates import SPIN_C, c_candidate, tvm_candidate
from dialing import TOKEN, all_gone, wait_until
from tvm import rpc

from worker.children.nursery import ChildCancelled, ChildRaised
from worker.fleet.drivers.agent_build import agent_triple
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.dial import DialedBoard
from worker.fleet.drivers.dial_proof import prove
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.newcomers import OF_ADDRESS, ROOM, Newcomer, Newcomers
from worker.measure.measure import MeasureOptions, measure
from worker.outcome import ErrorKind


@pytest.fixture
def gateway():
    return Gateway(port=0)


@pytest.fixture
def board(gateway):
    board = DialedBoard("board", gateway, TOKEN)
    board.start()
    yield board
    board.stop()


def dial(gateway):
    return "--dial", f"127.0.0.1:{gateway.port}"


@pytest.fixture
def ask(nursery, board):
    """Do what ``board_clients`` has, with the board's present address."""

    def ask(what, timeout_s=200, **more):
        payload = {"address": board.address, **more} if more else board.address
        return nursery.call(f"board_clients:{what}", payload, timeout_s=timeout_s)

    return ask


@pytest.fixture
def meanwhile():
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_a_dialed_board_serves_session_after_session(agent_dir, tmp_path, gateway, board, ask):
    assert not board.alive()
    path = str(tvm_candidate(tmp_path))
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        assert not [at for at in agent.net_connections() if at.status == "LISTEN"]
        for _ in range(5):
            assert ask("double", path=path)
            assert board.alive()
        ask("sessions", count=50)
    wait_until(lambda: not board.alive())


def test_who_knows_no_secret_gets_no_session_of_a_dialed_board(agent_dir, tmp_path, gateway, board, ask):
    """Any user of the coordinator's machine may connect to the port of a board that has dialed in."""
    where = board.address
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        for key in ("board", "", f"board.{'0' * 64}", f"board.{TOKEN}", TOKEN):
            with pytest.raises(Exception, match="RecvAll"):
                rpc.connect(where["host"], where["port"], key)
            assert not agent.children(), "nothing of it came to the board"
        assert where["key"].partition(".")[2] not in (TOKEN, "")
        assert ask("stats")["clock"] == "wall"


def test_restart_ends_the_session_and_the_candidate(agent_dir, tmp_path, gateway, board, ask, meanwhile):
    path = str(c_candidate(tmp_path, SPIN_C))
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        client = meanwhile(ask, "run_main", path=path)
        wait_until(agent.children)
        spinning = agent.children()
        board.restart()
        assert all_gone(spinning)
        assert ask("stats")["clock"] == "wall"
        with pytest.raises(ChildRaised):
            client.result()


def test_a_batch_with_crashes_and_hangs_is_measured_to_its_end(
    agent_dir, tmp_path, gateway, board, nursery, builder, host
):
    faults = ("none", "segfault", "hang", "wrong", "none")
    batch = [builder.build(faulty_kernels.candidate(fault, host)) for fault in faults]
    options = MeasureOptions(min_time_s=0.01, run_timeout_s=10.0)
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        outcomes = measure(nursery, board, batch, options, lock_dir=tmp_path)
        wait_until(lambda: not agent.children())
    assert [outcome.error for outcome in outcomes] == [
        None,
        ErrorKind.CRASH,
        ErrorKind.RUN_TIMEOUT,
        ErrorKind.WRONG_RESULT,
        None,
    ]
    assert "SIGSEGV" in outcomes[1].message


def test_a_client_that_vanishes_mid_upload_frees_the_board(
    agent_dir, tmp_path, gateway, board, ask, nursery, meanwhile
):
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        gone, sent = threading.Event(), threading.Event()
        flood = meanwhile(
            nursery.call,
            "board_clients:flood",
            board.address,
            timeout_s=200,
            on_message=lambda _: sent.set(),
            cancelled=gone,
        )
        assert sent.wait(120)
        serving = agent.children()
        gone.set()
        with pytest.raises(ChildCancelled):
            flood.result()
        assert ask("stats")
        assert all_gone(serving)


def test_a_killed_agent_is_noticed_and_leaves_nothing_behind(
    agent_dir, tmp_path, gateway, board, ask, nursery, meanwhile
):
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        connected = threading.Event()
        client = meanwhile(
            nursery.call,
            "board_clients:hold",
            board.address,
            timeout_s=200,
            on_message=lambda _: connected.set(),
        )
        assert connected.wait(120)
        serving = agent.children()
        agent.kill()
        with pytest.raises(ChildRaised):
            client.result()
        assert all_gone(serving)
    wait_until(lambda: not board.alive())
    with pytest.raises(ChildRaised):  # at once, not after a deadline
        ask("stats", timeout_s=20)
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)):
        wait_until(board.alive)
        assert ask("stats")


def test_a_frozen_agent_is_noticed(agent_dir, tmp_path, gateway, board, ask):
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        agent.suspend()
        wait_until(lambda: not board.alive())
        agent.resume()
        wait_until(board.alive)
        assert ask("stats")


def test_the_agent_comes_back_to_a_gateway_that_was_away(
    agent_dir, tmp_path, gateway, board, ask, nursery, meanwhile
):
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)) as (agent, _):
        wait_until(board.alive)
        client = meanwhile(nursery.call, "board_clients:hold", board.address, timeout_s=200, on_message=str)
        wait_until(agent.children)
        board.stop()
        wait_until(lambda: not agent.children())
        with pytest.raises(ChildRaised):
            client.result()
        wait_until(lambda: "cannot reach 127.0.0.1" in (tmp_path / "board.log").read_text())
        back = DialedBoard("board", gateway, TOKEN)
        back.start()
        try:
            wait_until(back.alive)
            assert nursery.call("board_clients:stats", back.address, timeout_s=200)
        finally:
            back.stop()
    assert (tmp_path / "board.log").read_text().count("is connected to") == 2


def test_strangers_get_no_further_than_a_log_line(
    agent_dir, tmp_path, gateway, board, ask, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("worker.fleet.drivers.refusals.SUMMARY_S", 0.5)
    with (
        dialing.agent(agent_dir, tmp_path, *dial(gateway), token="not-the-right-token"),
        dialing.agent(agent_dir, tmp_path, *dial(gateway), id="nobody"),
    ):
        wait_until(
            lambda: "'board': not the token" in caplog.text and "'nobody': no such board" in caplog.text
        )
        assert not board.alive()
        wait_until(lambda: "refused: this gateway knows no such" in (tmp_path / "board.log").read_text())
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)):
        wait_until(board.alive)
        (tmp_path / "second").mkdir()
        with dialing.agent(agent_dir, tmp_path / "second", *dial(gateway)):
            wait_until(lambda: "board board: a second agent" in caplog.text)
        assert ask("stats")
    assert TOKEN not in caplog.text


def test_a_false_gateway_gets_no_session(agent_dir, tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as false,
        dialing.agent(agent_dir, tmp_path, "--dial", f"127.0.0.1:{false.getsockname()[1]}") as (agent, _),
    ):
        peer, _ = false.accept()
        with peer, peer.makefile("rwb") as lines:
            word, version, id, nonce = lines.readline().decode().split()
            assert (word, version, id) == ("tilefleet-agent", "1", "board")
            lines.write(b"prove 1234\n")
            lines.flush()
            proof = lines.readline().decode().split()[1]
            assert proof == prove(TOKEN, "agent", "board", "1234", nonce)
            lines.write(f"welcome {proof}\nsession\n".encode())  # its own proof is not ours
            lines.flush()
            with contextlib.suppress(ConnectionResetError):  # what it did not read resets the connection
                assert lines.read() == b""
        assert not agent.children()
    assert "no gateway that knows the token" in (tmp_path / "board.log").read_text()


def test_a_gateway_that_falls_silent_is_left(agent_dir, tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        dialing.agent(agent_dir, tmp_path, "--dial", f"127.0.0.1:{silent.getsockname()[1]}"),
    ):
        peer, _ = silent.accept()
        with peer, peer.makefile("rwb") as lines:
            nonce = lines.readline().decode().split()[3]
            lines.write(b"prove 1234\n")
            lines.flush()
            assert lines.readline()
            lines.write(f"welcome {prove(TOKEN, 'gateway', 'board', '1234', nonce)}\nping\n".encode())
            lines.flush()
            assert lines.readline() == b"pong\n"
            peer.settimeout(120)
            assert lines.read() == b""
        again, _ = silent.accept()
        again.close()


def hangs_up(peer, said):
    """Whether the gateway hangs up after this."""
    peer.settimeout(120)
    peer.sendall(said)
    try:
        while peer.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_nonsense_and_slowness_are_cut_off(gateway, board, caplog):
    where = (gateway.host, gateway.port)
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\n",
        b"x" * 100_000,
        b"tilefleet-agent 1 board\n",
        b"tilefleet-agent 9 board 12\n",
        b"tilefleet-agent 1 board 12\nproof 34\n",
    ):
        with socket.create_connection(where) as peer:
            assert hangs_up(peer, said)
    before = psutil.Process().num_fds()
    slow = [socket.create_connection(where) for _ in range(OF_ADDRESS + 1)]
    for peer in slow:
        with contextlib.suppress(ConnectionError):
            peer.sendall(b"tilefleet-")
    for peer in slow:
        assert hangs_up(peer, b"")
        peer.close()
    wait_until(lambda: psutil.Process().num_fds() < before + OF_ADDRESS // 2)


def test_silent_sockets_keep_no_board_out_and_fill_no_log(
    agent_dir, tmp_path, gateway, board, ask, caplog, monkeypatch
):
    """80 connections that say nothing, each made anew as soon as it is ended: no board came in."""
    monkeypatch.setattr("worker.fleet.drivers.refusals.SUMMARY_S", 0.5)
    over, made = threading.Event(), itertools.count()

    def keep_out():
        while not over.is_set():
            with contextlib.suppress(OSError), socket.create_connection((gateway.host, gateway.port)) as peer:
                next(made)
                peer.settimeout(1)
                peer.recv(1)

    attackers = [threading.Thread(target=keep_out) for _ in range(80)]
    for each in attackers:
        each.start()
    try:
        wait_until(lambda: next(made) > 400)
        with dialing.agent(agent_dir, tmp_path, *dial(gateway)):
            for _ in range(3):
                wait_until(board.alive)
                assert ask("stats")
    finally:
        over.set()
        for each in attackers:
            each.join()
    assert next(made) > 400
    refusals = [each for each in caplog.messages if "refused" in each]
    assert any("others came while it said nothing" in each for each in refusals)
    assert len(refusals) < next(made) / 10


def test_silent_clients_take_no_more_than_their_room(agent_dir, tmp_path, gateway, board, ask):
    """Any user of this machine can connect to a board's port, and could take all descriptors."""
    with dialing.agent(agent_dir, tmp_path, *dial(gateway)), contextlib.ExitStack() as stack:
        wait_until(board.alive)
        silent = [socket.create_connection((board.host, board.port)) for _ in range(2 * OF_ADDRESS)]
        for each in silent:
            stack.enter_context(each)
        first = silent[0]
        first.settimeout(4)  # less than a greeting may take
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
        assert ask("stats")


def test_the_oldest_silent_one_of_the_fullest_address_makes_room():
    room, gone = Newcomers(), []

    def arrive(address, spoke=False):
        newcomer = Newcomer(address, lambda: gone.append(newcomer), spoke)
        room.add(newcomer)
        return newcomer

    spoke, *silent = [arrive("here", spoke=n == 0) for n in range(OF_ADDRESS)]
    assert not gone
    arrive("here")
    assert (gone, silent[0].pushed_out) == ([silent[0]], True)
    others = [arrive(f"there {n}") for n in range(ROOM - OF_ADDRESS)]
    arrive("yonder")
    assert gone == silent[:2]
    room.remove(others[0])
    arrive("yonder")
    assert gone == silent[:2]
    talkers = [arrive("talkers", spoke=True) for _ in range(OF_ADDRESS + 1)]
    assert talkers[0] in gone
    assert spoke not in gone


def test_what_cannot_be_a_board_is_refused(gateway, board):
    for id, token, problem in (
        ("bo ard", TOKEN, "board's id is"),
        ("other", "short", "16 to 256 characters, not 5"),
        ("other", "spaces in the token", "without spaces"),
        ("board", TOKEN, "two of that name"),
    ):
        with pytest.raises(BoardError, match=problem):
            DialedBoard(id, gateway, token).start()
    with pytest.raises(BoardError, match=f"cannot listen on 127.0.0.1 port {gateway.port}"):
        DialedBoard("other", Gateway(port=gateway.port), TOKEN).start()


@pytest.mark.parametrize(
    ("machine", "cpu"),
    [
        ("aarch64", "cortex-a72"),
        ("arm", "max"),
        ("powerpc64le", "power10"),
        ("hexagon", "v67"),
        ("riscv64", "rv64"),
    ],
)
def test_other_machines_dial_too(agent_dir, tmp_path, gateway, board, ask, machine, cpu):
    emulator = f"qemu-{machine.replace('powerpc64le', 'ppc64le')}"
    if shutil.which(emulator) is None:
        assert os.environ.get("CI") != "true", f"{emulator} is missing"
        pytest.skip(f"{emulator} is missing")
    where = ("--dial", f"localhost:{gateway.port}")
    triple = agent_triple(f"{machine}-linux-gnu")
    with dialing.agent(agent_dir, tmp_path, *where, emulator=[emulator, "-cpu", cpu], triple=triple):
        wait_until(board.alive)
        for _ in range(2):
            told = ask("stats")
            assert told["simulated"] is False
            assert {"temperature_c", "frequency_mhz"} <= set(told)


def test_a_board_that_is_stopped_while_it_starts_is_not_let_in(gateway):
    # As a board that is removed from the fleet file while another thread waits for the gateway.
    starting, stopped = threading.Event(), threading.Event()
    add = gateway.add

    def slow(*arguments):
        starting.set()
        stopped.wait(0.2)
        return add(*arguments)

    gateway.add = slow
    board = DialedBoard("board", gateway, TOKEN)
    with ThreadPoolExecutor() as pool:
        start = pool.submit(board.start)
        starting.wait()
        board.stop()
        stopped.set()
        start.result()
    with pytest.raises(BoardError, match="stopped before it had started"):
        board.start()
    again = DialedBoard("board", gateway, TOKEN)
    again.start()
    again.stop()
    assert gateway._thread is None
