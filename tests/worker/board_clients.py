"""What clients of a board do, in children: TVM's client keeps Python's lock while it waits."""

import json
import time
from pathlib import Path

import numpy as np
from candidates import load, on_board

from worker.measure.child import connect


def stats(address):
    return json.loads(connect(address, 20).get_function("tilefleet.stats")())


def double(payload):
    """Run a kernel, and send and fetch a big tensor; whether all is right."""
    session = connect(payload["address"], 20)
    big = np.random.default_rng().standard_normal(1 << 20).astype("float32")
    a, b, c = on_board(session, np.zeros(4096, "float32"), np.zeros(4096, "float32"), big)
    load(session, Path(payload["path"]))["doubled"](a, b)
    return bool((b.numpy() == 2).all() and (c.numpy() == big).all())


def run_main(payload):
    session = connect(payload["address"], payload.get("session_s", 60))
    load(session, Path(payload["path"]))["main"]()


def sessions(payload):
    """Open and close sessions, one right after the other."""
    for _ in range(payload["count"]):
        connect(payload["address"], 20).get_function("tilefleet.stats")()


def hold(address, send):
    """Open a session, say so, and use it until it breaks."""
    session = connect(address, 60)
    send("connected")
    while True:
        session.get_function("tvm.rpc.server.upload")


def visit(address, send):
    """Open a session, say so, and leave in good order a while later."""
    session = connect(address, 60)
    send("connected")
    time.sleep(2)
    del session


def flood(address, send):
    """Send tensors without end."""
    session = connect(address, 60)
    while True:
        on_board(session, np.zeros(1 << 22, "float32"))
        send("sent")
