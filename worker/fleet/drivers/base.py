"""What drivers of boards have in common."""

from __future__ import annotations

import socket
from typing import Protocol, runtime_checkable

from worker.measure.measure import BoardHandle


class BoardError(RuntimeError):
    """A board could not be started."""


class Driver(BoardHandle, Protocol):
    """A board that can be started and stopped; neither is done for a board that others run.

    ``target`` is the name of the kind of machine it is (empty: this machine); ``clock`` says how its times
    come about (``wall`` or ``simulated:...``); ``threads`` is what a parallel kernel gets.
    """

    target: str
    clock: str
    threads: int

    def start(self) -> None:
        """Make it available; raises BoardError."""

    def stop(self) -> None:
        """Give it up."""


@runtime_checkable
class Tokened(Protocol):
    """A board whose tokens may be exchanged while it works."""

    def retoken(self, tokens: tuple[str, ...]) -> None:
        """Take these tokens from now on, and those that are no more among them no longer."""


def keep_alive(connection: socket.socket) -> None:
    """Make the kernel notice within ten seconds that the other machine has gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, 4),
        (socket.TCP_KEEPINTVL, 2),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, 10_000),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
