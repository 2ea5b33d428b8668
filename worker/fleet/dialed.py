"""A board that dials in to the gateway of this process."""

from __future__ import annotations

import time
from typing import Any

from worker.fleet.agent_board import BoardError
from worker.fleet.board import Board
from worker.fleet.gateway import Gateway

_BACK_S = 10.0


class DialedBoard:
    """Our agent, started elsewhere with ``--dial`` and the same ``token``.

    ``target`` is the name of the kind of machine; ``clock`` and ``threads`` are as in
    ``worker/fleet/board.py``.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        id: str,
        gateway: Gateway,
        token: str,
        *,
        target: str = "",
        clock: str = "wall",
        threads: int = 1,
    ) -> None:
        self.id, self.key, self.target, self.clock, self.threads = id, id, target, clock, threads
        self.port = 0
        self._gateway, self._token = gateway, token

    @property
    def address(self) -> dict[str, Any]:
        """Where the gateway presents it."""
        return {"host": self.host, "port": self.port, "key": self.key}

    @property
    def board(self) -> Board:
        """The board as others see it."""
        return Board(self.id, self.target, self.host, self.port, self.clock, self.threads)

    def start(self) -> None:
        """Let it dial in, now or later. Raises BoardError."""
        self.port = self._gateway.add(self.id, self._token)

    def stop(self) -> None:
        """Let it in no more."""
        self._gateway.remove(self.id)

    def alive(self) -> bool:
        """Whether it is connected, or was a moment ago."""
        return self._gateway.expected(self.id)

    def restart(self) -> None:
        """End its session, which kills the candidate there, and wait until it is back. Raises BoardError."""
        self._gateway.drop_session(self.id)
        end = time.monotonic() + _BACK_S
        while not self._gateway.connected(self.id):
            if time.monotonic() > end:
                raise BoardError(f"board {self.id}: it has not dialed in again within {_BACK_S:.0f} s")
            time.sleep(0.02)
