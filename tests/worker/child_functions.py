"""What the tests make children do."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path


def echo(payload):
    return payload


def count(payload, send):
    for number in range(payload["to"]):
        send(number)
    if payload.get("then") == "crash":
        ctypes.string_at(0)
    return payload["to"]


def raise_it(payload):
    print("about to fail", file=sys.stderr)
    raise KeyError(payload)


def segfault(_):
    ctypes.string_at(0)


def leave(payload):
    os._exit(payload)


def sleep(payload):
    time.sleep(payload)


def sleep_with_grandchild(payload, send):
    send(subprocess.Popen(["sleep", str(payload)]).pid)
    time.sleep(payload)


def meet(payload):
    """Return when so many others are here at the same time."""
    folder = Path(payload["folder"])
    (folder / payload["name"]).touch()
    while len(list(folder.iterdir())) < payload["of"]:
        time.sleep(0.01)


def print_much(payload):
    block = "x" * (1 << 20)
    for _ in range(payload):
        print(block, flush=True)
    print("the end", flush=True)
    raise RuntimeError


def take_memory(payload):
    return len(bytearray(payload))


def kill_nursery(_):
    os.kill(os.getppid(), 9)
    time.sleep(30)


def affinity(_):
    return sorted(os.sched_getaffinity(0))


def open_files(_):
    return [fd for fd in range(3, 1000) if Path(f"/proc/self/fd/{fd}").is_symlink()]
