"""Repairs: the operator's own command for a board that failed, such as a power cycle."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from worker.fleet.known_board import KnownBoard
from worker.fleet.states import Health

_KEPT = 200
"""Of what a command says, so many last characters are kept."""


@dataclass(frozen=True)
class Repair:
    """A command, a program and its arguments, which gets ``timeout_s`` seconds."""

    command: tuple[str, ...]
    timeout_s: float


async def run(repair: Repair, board: str, reason: str) -> str:
    """What came of the command, in a line; never raises.

    It finds the board's name and what is wrong in TILEFLEET_BOARD and TILEFLEET_REASON. At its deadline it
    is killed with all that it started.
    """
    environment = {**os.environ, "TILEFLEET_BOARD": board, "TILEFLEET_REASON": reason.replace("\0", "")}
    try:
        process = await asyncio.create_subprocess_exec(
            *repair.command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"{repair.command[0]} cannot be run: {error.strerror or error}"
    try:
        async with asyncio.timeout(repair.timeout_s):
            out, _ = await process.communicate()
    except TimeoutError:
        return f"{repair.command[0]} was killed after {repair.timeout_s:g} s"
    finally:
        # Also what it left behind: nothing that it started goes on when somebody has the board again.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    said = out.decode(errors="replace").strip()[-_KEPT:].replace("\n", " ")
    ended = "is done" if process.returncode == 0 else f"ended with exit code {process.returncode}"
    return f"{repair.command[0]} {ended}" + (f": {said}" if said else "")


class Repairs:
    """Which boards have a repair, and whether it is time for it: once for each failure, once an absence."""

    def __init__(self, repairs: Mapping[str, Repair], absent_s: float) -> None:
        self._repairs, self._absent_s = repairs, absent_s
        self._tried: dict[str, int] = {}
        self._away: dict[str, float] = {}

    def after_failure(self, known: KnownBoard) -> Repair | None:
        """The repair before a check of a board that has failed once more since the last one."""
        failures = known.entry.standing.failures
        before = min(self._tried.get(known.id, 0), failures)
        self._tried[known.id] = failures
        return self._repairs.get(known.id) if failures > before else None

    def after_absence(self, known: KnownBoard, now: float) -> Repair | None:
        """The repair of a board that should be there and has been away for so long; ``now`` in s."""
        if known.listing.alive or known.entry.standing.health not in (Health.GOOD, Health.UNKNOWN):
            self._away.pop(known.id, None)
            return None
        if now - self._away.setdefault(known.id, now) < self._absent_s:
            return None
        self._away[known.id] = float("inf")  # not again before it has been there
        return self._repairs.get(known.id)
