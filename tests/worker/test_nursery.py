import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from worker.children.nursery import (
    STDERR_BYTES,
    ChildCancelled,
    ChildCrashed,
    ChildRaised,
    ChildTimeout,
    Nursery,
    NurseryError,
)


@pytest.fixture(scope="module")
def quick():
    with Nursery(preload=("child_functions",)) as nursery:
        yield nursery


def call(nursery, function, payload=None, timeout_s=120, **options):
    return nursery.call(f"child_functions:{function}", payload, timeout_s=timeout_s, **options)


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_json_of_any_size_goes_both_ways(quick):
    for payload in (None, {"a": [1, 2.5, "ü", None]}, "x" * 3_000_000):
        assert call(quick, "echo", payload) == payload


def test_messages_arrive_in_order_and_before_the_result(quick):
    seen = []
    assert call(quick, "count", {"to": 1000}, on_message=seen.append) == 1000
    assert seen == list(range(1000))


def test_messages_before_a_crash_are_not_lost(quick):
    seen = []
    with pytest.raises(ChildCrashed) as crash:
        call(quick, "count", {"to": 1000, "then": "crash"}, on_message=seen.append)
    assert crash.value.signal == signal.SIGSEGV
    assert len(seen) == 1000


def test_an_exception_comes_back_with_type_message_and_output(quick):
    with pytest.raises(ChildRaised) as raised:
        call(quick, "raise_it", "the knob")
    assert (raised.value.type_name, raised.value.message) == ("KeyError", "'the knob'")
    assert raised.value.stderr_tail == "about to fail"
    with pytest.raises(ChildRaised, match="nowhere"):
        quick.call("nowhere:nothing", None, timeout_s=120)


def test_a_child_that_just_exits_crashed(quick):
    with pytest.raises(ChildCrashed, match="exited with 3") as crash:
        call(quick, "leave", 3)
    assert crash.value.signal is None


def test_the_deadline_kills_the_whole_process_group(quick):
    pids = []
    with pytest.raises(ChildTimeout):
        call(quick, "sleep_with_grandchild", 600, timeout_s=4, on_message=pids.append)
    (pid,) = pids
    end = time.monotonic() + 60
    while not gone(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert gone(pid)


def test_a_cancelled_call_ends(quick):
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    with pytest.raises(ChildCancelled):
        call(quick, "sleep", 600, timeout_s=600, cancelled=cancelled)


def test_endless_output_does_no_harm(quick):
    with pytest.raises(ChildRaised) as raised:
        call(quick, "print_much", 300)
    assert raised.value.stderr_tail.endswith("the end")
    assert len(raised.value.stderr_tail) <= STDERR_BYTES


def test_memory_is_limited(quick):
    assert call(quick, "take_memory", 10 << 20, memory_bytes=100 << 20) == 10 << 20
    with pytest.raises(ChildRaised, match="MemoryError"):
        call(quick, "take_memory", 200 << 20, memory_bytes=100 << 20)


def test_calls_run_at_the_same_time_and_keep_their_answers_apart(quick, tmp_path):
    def one(number):
        seen = []
        return call(quick, "count", {"to": number}, on_message=seen.append) == number == len(seen)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(100, 140)))
        meetings = [{"folder": str(tmp_path), "name": str(number), "of": 8} for number in range(8)]
        list(pool.map(lambda who: call(quick, "meet", who, timeout_s=120), meetings))


def test_a_child_inherits_nothing_of_its_siblings(quick):
    runs, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        more = {"on_message": lambda _: runs.set(), "cancelled": over}
        sibling = pool.submit(call, quick, "sleep_with_grandchild", 600, timeout_s=600, **more)
        try:
            assert runs.wait(60)
            assert len(call(quick, "open_files")) == 1  # Where its answers go.
        finally:
            over.set()
        with pytest.raises(ChildCancelled):
            sibling.result()


def test_a_killed_nursery_is_started_anew(quick):
    call(quick, "echo")
    os.kill(quick.pid, signal.SIGKILL)
    assert call(quick, "echo", 1) == 1


def test_a_child_that_kills_the_nursery_again_and_again_crashed(quick):
    with pytest.raises(ChildCrashed, match="nursery died"):
        call(quick, "kill_nursery")
    assert call(quick, "echo", 1) == 1


def test_children_use_the_given_cores():
    core = max(os.sched_getaffinity(0))
    with Nursery(preload=("child_functions",), cpus=[core]) as nursery:
        assert call(nursery, "affinity") == [core]


def test_one_process_forks_children_for_other_cores():
    cores = sorted(os.sched_getaffinity(0))
    with Nursery(preload=("child_functions",), cpus=cores[:1]) as nursery:
        other = nursery.on(cores[-1:])
        assert call(other, "affinity") == cores[-1:]
        assert call(nursery, "affinity") == cores[:1]
        assert other.pid == nursery.pid


def test_a_nursery_that_cannot_start_says_why():
    with Nursery(preload=("no_such_module",)) as nursery, pytest.raises(NurseryError, match="no_such_module"):
        nursery.start()


def test_closing_kills_what_runs():
    nursery = Nursery(preload=("child_functions",))
    with ThreadPoolExecutor(1) as pool:
        pids = []
        more = {"timeout_s": 600, "on_message": pids.append}
        running = pool.submit(call, nursery, "sleep_with_grandchild", 600, **more)
        while not pids:
            time.sleep(0.01)
        nursery.close()
        with pytest.raises((ChildCrashed, NurseryError)):
            running.result(timeout=120)
    with pytest.raises(NurseryError, match="closed"):
        call(nursery, "echo")
