"""From the description of a board to what drives it."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from worker.fleet.agent_board import BoardError
from worker.fleet.dial_proof import check_token
from worker.fleet.dialed import DialedBoard
from worker.fleet.fleet_file import BoardSpec, split_address
from worker.fleet.gateway import Gateway
from worker.fleet.native import NativeBoard
from worker.fleet.rpc_board import RpcBoard, TrackedBoard
from worker.fleet.simulated import SimulatedBoard, why_no_emulator
from worker.measure import BoardHandle

LOCAL = ("host", "simulated")
"""Kinds whose agent runs here: where one cannot start, something is missing on this machine."""


class Driver(BoardHandle, Protocol):
    """A board that can be started and stopped; neither is done for a board that others run."""

    target: str
    clock: str
    threads: int

    def start(self) -> None:
        """Make it available; raises BoardError."""

    def stop(self) -> None:
        """Give it up."""


def why_not(spec: BoardSpec) -> str | None:
    """What this machine lacks to drive a board, with the way out; None when it could."""
    if spec.kind == "simulated":
        return why_no_emulator(spec.model)
    if spec.token_file is None:
        return None
    try:
        read_token(spec)
    except BoardError as error:
        return str(error)
    if spec.token_file.stat().st_mode & stat.S_IROTH:
        return f"everybody here can read the token file {spec.token_file}; chmod 600 {spec.token_file}"
    return None


def absence(spec: BoardSpec) -> str:
    """What to say of a board that is not there."""
    if spec.kind in LOCAL:
        return f"its agent does not run; see board-{spec.id}.log"
    if spec.kind == "dial":
        return "it has not dialed in"
    if spec.tracker:
        return f"the tracker {spec.tracker} does not answer, or knows no key {spec.key or spec.id}"
    return f"nothing answers at {spec.address}"


def make_driver(
    spec: BoardSpec, state_dir: Path, *, host_cpus: Sequence[int], other_cpus: Sequence[int], gateway: Gateway
) -> Driver:
    """The driver of a board, not started; raises BoardError when its token cannot be used.

    ``host_cpus`` are this machine's as a board, ``other_cpus`` what simulated boards may use. Boards that
    dial in do so at ``gateway``.
    """
    target, threads = spec.target, spec.threads
    if spec.kind == "host":
        return NativeBoard(spec.id, state_dir=state_dir, cpus=host_cpus, threads=threads)
    if spec.kind == "simulated":
        return SimulatedBoard(spec.model, id=spec.id, state_dir=state_dir, cpus=other_cpus)
    if spec.kind == "dial":
        return DialedBoard(spec.id, gateway, read_token(spec), target=target, threads=threads)
    if spec.tracker:
        return TrackedBoard(spec.id, spec.tracker, key=spec.key or None, target=target, threads=threads)
    host, port = split_address(spec.address)
    token = read_token(spec) if spec.kind == "agent" else ""
    return RpcBoard(spec.id, host, port, key=spec.key or None, token=token, target=target, threads=threads)


def read_token(spec: BoardSpec) -> str:
    """The token in a board's file; raises BoardError that names the file and the way out."""
    assert spec.token_file is not None  # the kinds that have a token need the file
    try:
        token = spec.token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BoardError(
            f"board {spec.id}: token file {spec.token_file}: {reason}; make it with: "
            f"(umask 077; openssl rand -hex 24 > {spec.token_file})"
        ) from None
    if problem := check_token(token):
        raise BoardError(f"board {spec.id}: token file {spec.token_file}: {problem}")
    return token
