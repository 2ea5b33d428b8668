"""What the filter of a candidate's system calls lets through: calls are tried, or the program is read."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from worker.fleet.drivers.agent_build import SOURCES, STATIC

NEEDED = {
    *("read", "write", "readv", "writev", "pread64", "close", "recvfrom", "sendto"),
    *("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "futex", "sched_yield"),
    *("clock_gettime", "clock_nanosleep", "nanosleep", "getrusage", "getpid", "gettid"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "restart_syscall", "exit", "exit_group"),
}
"""Of x86-64. ``tkill`` may name the process itself, ``madvise`` must not be a privileged advice."""
KERNEL_ANSWERS = {(335, 0, 0, 0), (336, 0, 0, 0)}
"""uretprobe and uprobe: newer kernels end who is not a probe, and ask no filter."""
HARMLESS = {"read", "sendto", "mprotect", "exit_group"}
EMULATED = {
    "aarch64-linux-musl": ("qemu-aarch64", 0xC00000B7),
    "arm-linux-musleabihf": ("qemu-arm", 0x40000028),
    "powerpc64le-linux-musl": ("qemu-ppc64le", 0xC0000015),
    "riscv64-linux-musl": ("qemu-riscv64", 0xC00000F3),
}
"""Each triple's emulator, and the machine's number in linux/audit.h."""
KILL, ALLOW = 0x80000000, 0x7FFF0000


def harness(triple, folder, name="every_call", parts=("confine", "calls", "landlock")):
    """A C program of this folder with the agent's own sources, for a machine."""
    built = folder / f"{name}-{triple}"
    sources = [Path(__file__).with_name(f"{name}.c"), *(SOURCES / f"{part}.c" for part in parts)]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, *STATIC, "-D_GNU_SOURCE"]
    subprocess.run([*command, "-I", SOURCES, *sources, "-o", built], check=True, timeout=600)
    return built


def lines_of(*command):
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300
    ).stdout.splitlines()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="tries the system calls of x86-64")
def test_every_call_ends_a_candidate_but_those_that_a_kernel_needs(tmp_path):
    tried = harness("x86_64-linux-musl", tmp_path)
    preprocess = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-musl", "-E", "-dM"]
    header = lines_of(*preprocess, "-include", "asm/unistd.h", "-x", "c", "/dev/null")
    defined = [line.split()[1:] for line in header if line.startswith("#define __NR_")]
    numbers = {name.removeprefix("__NR_"): int(value) for name, value, *_ in defined if value.isdigit()}
    assert len(numbers) > 350
    lived = {tuple(map(int, line.split())) for line in lines_of(tried)}
    if (numbers["openat"], 0, 0, 0) in lived:
        pytest.skip("this kernel filters no system calls")
    advice = {(numbers["madvise"], 0, 0, number) for number in range(100)}
    assert lived - KERNEL_ANSWERS == {(numbers[name], 0, 0, 0) for name in NEEDED} | advice


def decide(program, machine, number, arguments=()):
    """What a filter's program returns for a call."""
    data = {0: number, 4: machine} | {16 + 8 * i: value for i, value in enumerate(arguments)}
    at = accumulator = 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        match code:
            case 0x20:  # load
                accumulator = data[k]
            case 0x06:  # return
                return k
            case 0x15 | 0x35:  # equal; greater or equal
                at += yes if (accumulator == k if code == 0x15 else accumulator >= k) else no
            case _:
                raise AssertionError(f"instruction {code:#x}")


@pytest.mark.parametrize("triple", EMULATED)
def test_the_filter_of_other_machines_lets_as_little_through(tmp_path, triple):
    emulator, machine = EMULATED[triple]
    if not shutil.which(emulator):
        pytest.skip(f"{emulator} is not installed: apt-get install qemu-user")
    lines = [line.split() for line in lines_of(emulator, harness(triple, tmp_path), "program")]
    program = [tuple(map(int, line)) for line in lines if len(line) == 4]
    numbers = {name: int(number) for name, number in (line for line in lines if len(line) == 2)}
    assert all(decide(program, machine, numbers[name]) == ALLOW for name in HARMLESS)
    # Arguments of zeros; what is decided by them is tried below.
    refused = [name for name in numbers if decide(program, machine, numbers[name], [0] * 6) == KILL]
    assert {*refused} == {*numbers} - HARMLESS - {"madvise"}
    assert decide(program, machine, numbers["tkill"], [1234]) == ALLOW
    assert decide(program, machine, numbers["madvise"], [0, 0, 100]) == KILL
    assert decide(program, machine + 1, numbers["read"]) == KILL  # another machine's numbers
    allowed = [n for n in range(0x100000) if decide(program, machine, n, [0] * 6) == ALLOW]
    assert len(allowed) <= len(NEEDED) + 3


def test_a_proof_leaves_nothing_of_the_token_where_candidates_run(tmp_path):
    """A session is forked where the agent has proved its token: what was mixed with it was on the stack."""
    machine = {"x86_64": "x86_64", "aarch64": "aarch64"}.get(platform.machine())
    if machine is None:
        pytest.skip(f"no such test for {platform.machine()}")
    built = harness(f"{machine}-linux-musl", tmp_path, "forgotten_key", ["proof"])
    assert lines_of(built) == []
