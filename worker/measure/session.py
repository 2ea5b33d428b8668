"""A measuring child's way to its board: the lock, the session, and what the board says of itself."""

from __future__ import annotations

import fcntl
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.children.nursery import ChildError, Nursery

GREETING_S = 5.0
"""How long a board may take to open a session. A healthy one takes milliseconds."""
_LOCK_POLL_S = 0.01
Send = Callable[[Any], None]


def lock_file(folder: Path, board: str) -> Path:
    """The file that whoever uses a board keeps locked."""
    return folder / f"board-{board}.lock"


def take(lock: Any, send: Send) -> None:
    """Wait until this child alone has the board."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_POLL_S)
            send({"stage": "waiting"})
        else:
            return


def connect(board: dict[str, Any], session_s: float) -> Any:
    """An RPC session with a board (``BoardHandle.address``); raises when there is none to be had.

    A frozen board, or a tracker that does not have it, is waited for without end: only silence ends that.
    """
    from tvm import rpc

    timeout_s = math.ceil(session_s)
    if "tracker" not in board:
        return rpc.connect(board["host"], board["port"], board["key"], session_timeout=timeout_s)
    host, _, port = board["tracker"].rpartition(":")
    return rpc.connect_tracker(host, int(port)).request(board["key"], session_timeout=timeout_s)


def stats_reader(session: Any) -> Callable[[], dict[str, Any]] | None:
    """Asks our agent about itself, its clock and its last timed repeat; None for TVM's own server."""
    try:
        stats = session.get_function("tilefleet.stats")
    except Exception:
        return None
    return lambda: dict(json.loads(stats()))


def crash_of(message: str) -> str:
    """The line in which a board says what signal killed what it ran; empty where it says none."""
    return next((line.strip() for line in message.splitlines() if "killed by signal" in line), "")


def why_silent(nursery: Nursery, board: dict[str, Any], lock: Path) -> str:
    """Why a board (``BoardHandle.address``) opens no session now; empty when it does."""
    try:
        # Waiting for the board's lock is announced, so only silence counts.
        nursery.call(
            "worker.measure.session:greet_in_child",
            {"board": board, "lock": str(lock)},
            timeout_s=3600.0,
            silence_s=GREETING_S,
            on_message=lambda _: None,
        )
    except ChildError as error:
        return f"no session within {GREETING_S:g} s: {error}"
    return ""


def greet_in_child(payload: dict[str, Any], send: Send) -> None:
    """Child: open a session; raises when there is none to be had."""
    with Path(payload["lock"]).open("w") as lock:
        take(lock, send)
        connect(payload["board"], GREETING_S)
