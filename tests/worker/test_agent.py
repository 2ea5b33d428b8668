"""The board agent, through TVM's own client and through a raw socket."""

import contextlib
import gc
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import candidates
import numpy as np
import psutil
import pytest
import tvm
from candidates import c_candidate, connect, load, on_board, tvm_candidate

from worker.fleet.drivers.agent_build import build_agent, host_triple
from worker.fleet.drivers.host import NativeBoard

MAGIC = 0xFF271


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return tvm_candidate(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def session(board):
    return connect(board)


def agent_of(board):
    """The agent's process, found by the port it listens on."""
    for child in psutil.Process().children():
        if any(at.laddr.port == board.port for at in child.net_connections() if at.status == "LISTEN"):
            return child
    raise AssertionError("no agent listens")


def probe(board):
    """Whether the board serves another session."""
    return json.loads(connect(board).get_function("tilefleet.stats")())["clock"] == "wall"


def test_tensors_round_trip(session):
    rng = np.random.default_rng(1)
    for array in (
        rng.standard_normal((3, 5, 7)).astype("float32"),
        rng.integers(-128, 127, (2, 1 << 20)).astype("int8"),
        np.arange(4, dtype="int64").reshape(2, 2),
    ):
        (there,) = on_board(session, array)
        np.testing.assert_array_equal(there.numpy(), array)
        other = tvm.runtime.empty(array.shape, array.dtype, session.cpu(0))
        there.copyto(other)
        np.testing.assert_array_equal(other.numpy(), array)


def test_kernel_computes_the_right_result(session, kernels):
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(n).astype("float32") for n in (16, candidates.ROWS * 16))
    on = on_board(session, x, w, np.zeros(16, "float32"))
    load(session, kernels)["weighted"](*on)
    exact = (w.reshape(-1, 16).astype("float64") * x).sum(0)
    np.testing.assert_allclose(on[2].numpy(), exact, rtol=1e-3, atol=0.1)


def test_module_lives_as_long_as_its_functions(session, kernels):
    double = load(session, kernels)["doubled"]
    session.remove("kernels.so")
    gc.collect()
    a, b = on_board(session, np.ones(4096, "float32"), np.zeros(4096, "float32"))
    double(a, b)
    np.testing.assert_allclose(b.numpy(), np.full(4096, 2 * np.e), rtol=1e-6)
    with pytest.raises(tvm.error.RPCError, match=r"kernels\.so was not uploaded"):
        session.load_module("kernels.so")


def test_wrong_use_is_an_error_and_the_session_goes_on(session, kernels):
    module = load(session, kernels)
    a, b = on_board(session, np.zeros(4096, "float32"), np.zeros(4096, "float32"))
    with pytest.raises(tvm.error.RPCError, match="no function nothing"):
        module["nothing"]
    with pytest.raises(tvm.error.RPCError, match="Expected 2 arguments"):
        module["doubled"](a)
    with pytest.raises(tvm.error.RPCError, match="no f_preproc elsewhere"):
        module.time_evaluator("doubled", session.cpu(0), f_preproc="elsewhere")
    module["doubled"](a, b)
    assert (b.numpy() == 2).all()


def test_time_evaluator_repeats_and_fills_the_minimum_time(session, kernels):
    module, device = load(session, kernels), session.cpu(0)
    on = on_board(session, *(np.zeros(n, "float32") for n in (16, candidates.ROWS * 16, 16)))
    single = module.time_evaluator("weighted", device, number=1, repeat=9)(*on).results
    assert len(single) == 9
    assert min(single) > 0
    started = time.monotonic()
    mean = module.time_evaluator("weighted", device, number=1, repeat=3, min_repeat_ms=50)(*on).results
    assert time.monotonic() - started >= 0.15
    assert min(mean) < 0.05  # seconds a call, not a repeat
    small = module.time_evaluator("doubled", device, number=1, repeat=9)(
        *on_board(session, np.zeros(4096, "float32"), np.zeros(4096, "float32"))
    )
    assert small.min < min(single)  # 4096 numbers against a million


def test_cold_weights_are_slower_than_warm(session, kernels):
    evaluate, device = load(session, kernels).time_evaluator, session.cpu(0)
    on = on_board(session, *(np.zeros(n, "float32") for n in (16, candidates.ROWS * 16, 16)))
    warm, cold = [], []
    for _ in range(5):
        warm.append(evaluate("weighted", device, number=1, repeat=10)(*on).min)
        cold.append(
            evaluate("weighted", device, number=1, repeat=10, f_preproc="tilefleet.cold_weights")(*on).min
        )
    assert min(cold) > 1.5 * min(warm)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parallel_loops_use_every_thread(agent_dir, tmp_path, kernels, threads):
    path = c_candidate(tmp_path, candidates.TASKS_C)
    with NativeBoard(f"threads{threads}", threads=threads, state_dir=agent_dir) as board:
        session = connect(board)
        a, b = on_board(session, np.zeros(4096, "float32"), np.zeros(4096, "float32"))
        (child,) = agent_of(board).children()
        assert child.num_threads() == threads  # a candidate can start none
        if os.geteuid() == 0:  # nobody else may look into an agent
            opened = [str(link.readlink()) for link in Path(f"/proc/{child.pid}/fd").iterdir()]
            waits = [path for path in opened if path.endswith("/schedstat")]
            assert len(waits) == threads - 1  # how long each worker waits for its CPU is known
        load(session, kernels)["doubled"](a, b)
        assert (b.numpy() == 2).all()
        assert child.num_threads() == threads
        tasks = load(session, path)
        (out,) = on_board(session, np.zeros(64, "int64"))
        for _ in range(20):
            tasks["main"](out)
        tasks_run, *stacks = out.numpy()[: threads + 1]
        assert tasks_run == threads
        assert len(set(stacks)) == threads
        with pytest.raises(tvm.error.RPCError, match=f"60 parallel tasks asked for.*{threads} threads"):
            tasks["many"](out)


def test_segfault_names_the_signal_and_the_board_goes_on(board, tmp_path):
    path = c_candidate(tmp_path, candidates.CRASH_C)
    with pytest.raises(tvm.error.RPCError, match=r"signal 11 \(SIGSEGV\)"):
        load(connect(board), path)["main"]()
    assert probe(board)


def test_hanging_candidate_is_stopped_at_the_timeout(board, tmp_path):
    path = c_candidate(tmp_path, candidates.SPIN_C)
    session = connect(board, timeout=1)
    with pytest.raises(Exception, match=r"RPCSessionTimeoutError: the session's 1 s are over"):
        load(session, path)["main"]()
    assert probe(board)


EVIL = {
    "opens a socket": ("41, 2, 1, 0", "198, 2, 1, 0"),
    "writes a file": ('2, (long)"/tmp/evil", 0102, 0644', '56, -100, (long)"/tmp/evil", 0102'),
    "empties a file": ('76, (long)"/tmp/kept", 0, 0', '45, (long)"/tmp/kept", 0, 0'),
    "removes a file": ('87, (long)"/tmp/kept", 0, 0', '35, -100, (long)"/tmp/kept", 0'),
    "runs a program": ('59, (long)"/bin/true", 0, 0', '221, (long)"/bin/true", 0, 0'),
    "forks": ("57, 0, 0, 0", "220, 17, 0, 0"),
    "clones itself": ("56, 17, 0, 0", "220, 17, 0, 0"),
    "kills its parent": ("62, call(110, 0, 0, 0), 9, 0", "129, call(173, 0, 0, 0), 9, 0"),
    "kills everybody": ("62, -1, 9, 0", "129, -1, 9, 0"),
    "looks into others": ("101, 16, call(110, 0, 0, 0), 0", "117, 16, call(173, 0, 0, 0), 0"),
    "reads a file": ('2, (long)"/etc/passwd", 0, 0', '56, -100, (long)"/etc/passwd", 0'),
    "sends signals by a pipe": ("72, 1, 8, 1", "25, 1, 8, 1"),  # F_SETOWN
    "keeps memory for ever": ("29, 0, 4096, 01666", "194, 0, 4096, 01666"),  # shmget
    "moves others to another core": ("203, 1, 8, (long)(long[]){1}", "122, 1, 8, (long)(long[]){1}"),
    "becomes a real-time process": ("144, 0, 1, (long)(int[]){99}", "119, 0, 1, (long)(int[]){99}"),
    "locks all memory": ("151, 1, 0, 0", "230, 1, 0, 0"),
    "lifts its limits": ("160, 4, (long)(long[]){-1, -1}, 0", "164, 4, (long)(long[]){-1, -1}, 0"),
}
"""What a candidate tries, as system calls of x86-64 and of aarch64."""


@pytest.mark.parametrize("tried", EVIL)
def test_an_evil_candidate_gets_nowhere(session, board, tmp_path, tried):
    limits = json.loads(session.get_function("tilefleet.stats")())["limits"]
    assert {"cores", "files", "memory", "privileges"} <= {*limits}
    if "calls" not in limits:
        pytest.skip("this kernel filters no system calls")
    kept, evil = tmp_path / "kept", tmp_path / "evil"
    kept.write_text("all of it")
    arguments = EVIL[tried][candidates.MACHINE != "x86_64"]
    arguments = arguments.replace("/tmp/kept", str(kept)).replace("/tmp/evil", str(evil))
    code = f"{candidates.SYSTEM_CALL_C}int __tvm_ffi_main(void) {{ call({arguments}); return 0; }}"
    agent = agent_of(board)
    with pytest.raises(
        tvm.error.RPCError, match=r"signal 31 \(SIGSYS: a system call that candidates may not"
    ):
        load(session, c_candidate(tmp_path, code))["main"]()
    assert probe(board)
    assert agent_of(board) == agent
    assert kept.read_text() == "all of it"
    assert not evil.exists()


@pytest.mark.parametrize("trick", ["writes into", "closes"])
def test_who_pretends_to_have_ended_is_stopped_all_the_same(board, tmp_path, trick):
    """The agent watches a pipe, and a candidate has its other end."""
    number = {"writes into": (1, 64), "closes": (3, 57)}[trick][candidates.MACHINE != "x86_64"]
    code = (
        f"{candidates.SYSTEM_CALL_C}int __tvm_ffi_main(void) {{ static char byte;"
        f"for (int fd = 3; fd < 64; fd++) call({number}, fd, (long)&byte, 1); for (;;) ; }}"
    )
    session = connect(board, timeout=2)
    with pytest.raises((tvm.error.RPCError, tvm.error.InternalError)):  # its connection got the byte, too
        load(session, c_candidate(tmp_path, code))["main"]()
    assert probe(board)


def reset_on_close():
    """Make the death of this process reset its connections instead of ending them in order."""
    for fd in range(3, 100):
        with contextlib.suppress(OSError):
            connection = socket.socket(fileno=os.dup(fd))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


@pytest.mark.parametrize("code", [candidates.SPIN_C, candidates.LATE_CRASH_C], ids=["spins", "crashes later"])
def test_client_that_leaves_its_candidate_frees_the_board(board, tmp_path, code):
    path, starts = c_candidate(tmp_path, code), board.starts
    child = os.fork()
    if child == 0:
        try:
            main = load(connect(board, timeout=0), path)["main"]
            reset_on_close()
            main()
        finally:
            os._exit(1)
    time.sleep(0.4)  # less than the one that crashes takes
    os.kill(child, 9)
    assert os.waitpid(child, 0)[1] == 9  # it was waiting for its candidate
    assert probe(board)
    assert board.starts == starts


def test_candidate_that_wants_too_much(session, board, tmp_path):
    with pytest.raises(tvm.error.RPCError, match="out of memory: a workspace of"):
        load(session, c_candidate(tmp_path, candidates.GREEDY_C))["main"]()
    with pytest.raises(tvm.error.RPCError, match="undefined symbol no_such_thing"):
        load(session, c_candidate(tmp_path, candidates.UNDEFINED_C))


def test_damaged_candidates_are_refused(session, kernels):
    good = kernels.read_bytes()
    rng = np.random.default_rng(3)
    damaged = [b"", b"not ELF", good[:40], good[:700], good[: len(good) // 2]]
    for _ in range(200):  # in the header and the tables, where a wild number would be followed
        copy = bytearray(good)
        for at in rng.integers(4, 1500, 3):
            copy[at] = rng.integers(256)
        damaged.append(bytes(copy))
    refusals = []
    for copy in damaged:
        session.upload(bytearray(copy), "damaged.so")
        with contextlib.suppress(tvm.error.RPCError):  # else the damage was not in anything that matters
            session.load_module("damaged.so")
            continue
        refusals.append(copy)
    assert len(refusals) > 50
    session.upload(bytearray(good[:700]), "damaged.so")
    with pytest.raises(tvm.error.RPCError, match="candidate: damaged"):
        session.load_module("damaged.so")


def handshake(board, key=None):
    peer = socket.create_connection((board.host, board.port), timeout=120)
    key = key or f"client:{board.key}".encode()
    peer.sendall(struct.pack("<ii", MAGIC, len(key)) + key)
    return peer


def answers(peer):
    """All that the agent says until it hangs up."""
    said = b""
    try:
        while piece := peer.recv(4096):
            said += piece
    except ConnectionResetError:
        pass
    return said


MALFORMED = {  # what the agent says -> to what
    "speaks TVM RPC protocol 0.8.0": struct.pack("<iQ5si", 2, 5, b"0.7.0", 0),
    "a version of": struct.pack("<iQ", 2, 1 << 60),
    "unknown request code 99": struct.pack("<i", 99),
    "unknown request code -1": struct.pack("<i", -1),
    "the packet ends 4 bytes early": struct.pack("<ii", 9, 1),
    "a value of 4611686018427387904 bytes": struct.pack("<iiiQ", 9, 1, 8, 1 << 62),
    "1073741824 values": struct.pack("<ii", 9, 1 << 30),
    "request 9 with an argument 0 of type 4": struct.pack("<iiiQ", 9, 1, 4, 0),
    "value type 70 cannot be sent": struct.pack("<iii", 9, 1, 70),
    "no object has the handle 12345": struct.pack("<iQi", 3, 12345, 0),
    "outside every tensor": struct.pack("<iQiiiIQQ", 6, 64, 1, 0, 0, 0x012002, 0, 8),
    "a tensor of 9999 dimensions": struct.pack("<iQiiiIQQ", 6, 64, 1, 0, 9999, 0x012002, 0, 8),
    "4 bytes too many": struct.pack("<iQ5si", 2, 5, b"0.8.0", 0) + b"more",
}


@pytest.mark.parametrize("complaint", MALFORMED)
def test_malformed_packets_end_with_a_message(board, complaint):
    packet = MALFORMED[complaint]
    with handshake(board) as peer:
        peer.sendall(struct.pack("<Q", len(packet)) + packet)
        peer.shutdown(socket.SHUT_WR)
        assert complaint.encode() in answers(peer)
    assert probe(board)


def test_bad_handshakes_are_dropped(board):
    lengths = (struct.pack("<ii", MAGIC, length) for length in (-5, 1 << 30))
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"x", *lengths):
        with socket.create_connection((board.host, board.port), timeout=120) as peer:
            peer.sendall(greeting)
            peer.shutdown(socket.SHUT_WR)
            assert answers(peer) == b""
    with handshake(board, b"client:somebody-else") as peer:
        assert answers(peer) == struct.pack("<i", MAGIC + 2)
    assert probe(board)


def test_session_dies_with_the_agent(agent_dir):
    with NativeBoard("orphans", cpus=[min(os.sched_getaffinity(0))], state_dir=agent_dir) as board:
        session = connect(board)
        agent = agent_of(board)
        (child,) = agent.children()
        agent.kill()
        gone, left = psutil.wait_procs([child], timeout=60)
        assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE], gone
        with pytest.raises(Exception, match=r"kReturn|Channel closes|reset"):
            session.get_function("tilefleet.stats")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
def test_others_of_its_user_cannot_read_the_agent(agent_dir):
    """Its environment and memory, where its token is; a candidate of another board has the same user."""
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        agent = shutil.copy(build_agent(host_triple(), agent_dir), folder)
        Path(folder).chmod(0o755)
        started = subprocess.Popen([agent], user=nobody, stdout=subprocess.PIPE)
        try:
            assert started.stdout is not None
            assert int(started.stdout.readline())  # its port
            looked = subprocess.run(
                ["cat", f"/proc/{started.pid}/environ"],
                user=nobody,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            started.kill()
            started.wait()
    assert "Permission denied" in looked.stderr
