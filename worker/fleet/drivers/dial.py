"""Boards of kind ``dial``: our agent, started elsewhere, which dials in to the gateway of this process."""

from __future__ import annotations

import threading
import time
from typing import Any, Literal

from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.spec import RemoteSpec, Site
from worker.fleet.drivers.token_file import TokenFile, read_tokens, why_no_token

_BACK_S = 10.0


class DialSpec(RemoteSpec):
    """Our agent, which needs no open port where it runs."""

    kind: Literal["dial"] = "dial"
    token_file: TokenFile

    @property
    def where(self) -> str:
        """See ``BoardSpec.where``."""
        return "dials in"

    def absence(self) -> str:
        """See ``BoardSpec.absence``."""
        return "it has not dialed in"

    def tokens(self) -> tuple[str, ...]:
        """See ``BoardSpec.tokens``."""
        return read_tokens(self.id, self.token_file)

    def why_not(self) -> str | None:
        """See ``BoardSpec.why_not``."""
        return why_no_token(self.id, self.token_file)

    def outlook(self) -> str:
        """See ``BoardSpec.outlook``."""
        return "may dial in"

    def driver(self, site: Site) -> DialedBoard:
        """See ``BoardSpec.driver``."""
        return DialedBoard(self.id, site.gateway, *self.tokens(), target=self.target, threads=self.threads)


class DialedBoard:
    """Our agent, started elsewhere with ``--dial`` and one of the same ``tokens``.

    ``target``, ``clock`` and ``threads`` are as in ``Driver``.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        id: str,
        gateway: Gateway,
        *tokens: str,
        target: str = "",
        clock: str = "wall",
        threads: int = 1,
    ) -> None:
        self.id, self.key, self.target, self.clock, self.threads = id, id, target, clock, threads
        self.port = 0
        self._gateway, self._tokens = gateway, tokens
        self._changing, self._over = threading.Lock(), False

    @property
    def address(self) -> dict[str, Any]:
        """Where the gateway presents it."""
        return {"host": self.host, "port": self.port, "key": self.key}

    def start(self) -> None:
        """Let it dial in, now or later. Raises BoardError."""
        with self._changing:
            if self._over:
                raise BoardError(f"board {self.id}: it was stopped before it had started")
            self.port, self.key = self._gateway.add(self.id, *self._tokens)

    def retoken(self, tokens: tuple[str, ...]) -> None:
        """See ``Tokened.retoken``."""
        self._tokens = tokens
        self._gateway.retoken(self.id, tokens)

    def stop(self) -> None:
        """Let it in no more, for good: a start that is under way in another thread comes to none."""
        with self._changing:
            self._over = True
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
