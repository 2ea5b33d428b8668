"""A measuring child's way to its board: the lock, the session, and what the board says of itself."""

from __future__ import annotations

import fcntl
import json
import math
import time
from collections.abc import Callable
from typing import Any

_LOCK_POLL_S = 0.01
Send = Callable[[Any], None]


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
