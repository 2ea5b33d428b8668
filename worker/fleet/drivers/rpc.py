"""Boards of kind ``rpc``: a TVM RPC server that others run, at an address or handed out by a tracker."""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from worker.fleet.drivers.base import BoardError, keep_alive
from worker.fleet.drivers.dial_proof import check_token
from worker.fleet.drivers.spec import Address, RemoteSpec, Site, split_address

# tvm.rpc.base's, which is not imported here because it brings all of TVM.
_MAGIC, _TRACKER_MAGIC = 0xFF271, 0x2F271
_TRACKER_SUMMARY = 6
_NOBODY = b"client:a-probe-that-no-key-is-like"
_ANSWER_S = 1.0
_BUSY_S = 600.0
"""How long a server that takes connections and says nothing passes for one that serves a session."""
_MAX_SUMMARY_BYTES = 1 << 24


class AddressSpec(RemoteSpec):
    """A board that is only an address."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The address in words."""

    @abstractmethod
    def connect(self) -> RemoteBoard:
        """What watches it; raises BoardError."""

    def absence(self) -> str:
        """See ``BoardSpec.absence``."""
        return f"nothing answers at {self.where}"

    def driver(self, site: Site) -> RemoteBoard:
        """See ``BoardSpec.driver``."""
        return self.connect()

    def outlook(self) -> str:
        """See ``BoardSpec.outlook``."""
        board = self.connect()
        try:
            return f"answers at {self.where}" if board.alive() else f"{self.absence()} now"
        finally:
            board.stop()


class RpcSpec(AddressSpec):
    """TVM's own RPC server; ``key`` is the server's, by default the id."""

    kind: Literal["rpc"] = "rpc"
    address: Address = ""
    tracker: Address = ""
    key: str = Field(default="", max_length=100, pattern=r"^[!-~]*$")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.address) == bool(self.tracker):
            raise ValueError("a board of kind rpc has either an address or a tracker; give one of them")
        return self

    @property
    def where(self) -> str:
        """See ``AddressSpec.where``."""
        return self.address or f"the tracker {self.tracker}"

    def absence(self) -> str:
        """See ``BoardSpec.absence``."""
        if self.tracker:
            return f"the tracker {self.tracker} does not answer, or knows no key {self.key or self.id}"
        return super().absence()

    def connect(self) -> RemoteBoard:
        """See ``AddressSpec.connect``."""
        facts: dict[str, Any] = {"key": self.key or None, "target": self.target, "threads": self.threads}
        if self.tracker:
            return TrackedBoard(self.id, self.tracker, **facts)
        return RpcBoard(self.id, *split_address(self.address), **facts)


class RemoteBoard(ABC):
    """What boards that are only an address share: they are watched, and neither started nor stopped.

    ``target``, ``clock`` and ``threads`` are as in ``Driver``.
    """

    def __init__(
        self, id: str, *, target: str = "", clock: str = "wall", threads: int = 1, cached_s: float = 2.0
    ) -> None:
        self._cached_s = cached_s
        self.id, self.target, self.clock, self.threads = id, target, clock, threads
        self._lock = threading.Lock()
        self._asked, self._answer = -math.inf, False

    @property
    @abstractmethod
    def address(self) -> dict[str, Any]:
        """Where its RPC server is; ``BoardHandle.address``."""

    @property
    @abstractmethod
    def _where(self) -> str:
        """The address in words, without secrets."""

    @abstractmethod
    def _probe(self) -> bool:
        """Whether the server is there; within a few seconds."""

    def start(self) -> None:  # noqa: B027  # not abstract: nothing to do, as a board that is not there may come
        """Nothing."""

    def stop(self) -> None:  # noqa: B027  # not abstract: nothing to do, as it is not ours
        """Nothing."""

    def alive(self) -> bool:
        """Whether it answered at most ``cached_s`` ago."""
        with self._lock:
            if time.monotonic() - self._asked >= self._cached_s:
                self._answer = self._probe()
                self._asked = time.monotonic()
            return self._answer

    def restart(self) -> None:
        """See that it is there now, which is all that can be done from here. Raises BoardError."""
        with self._lock:
            self._asked = -math.inf
        if not self.alive():
            raise BoardError(f"board {self.id}: nothing answers at {self._where}; start it there again")


class RpcBoard(RemoteBoard):
    """TVM's own RPC server, or our agent with ``--bind``, at ``host`` and ``port``.

    ``key`` is the server's (by default the id). Our agent's is its id and one of ``tokens`` together; of
    several it is found out which. Raises BoardError for a short token.
    """

    def __init__(
        self,
        id: str,
        host: str,
        port: int,
        *,
        key: str | None = None,
        tokens: tuple[str, ...] = (),
        **facts: Any,
    ) -> None:
        super().__init__(id, **facts)
        for token in tokens:
            if problem := check_token(token):
                raise BoardError(f"board {id}: {problem}")
        self.host, self.port = host, port
        self._name = key or id
        self._keys = self._keys_of(tokens)
        self.key = self._keys[0]
        self._pending: tuple[socket.socket, float] | None = None

    @property
    def address(self) -> dict[str, Any]:
        """Where the server listens."""
        return {"host": self.host, "port": self.port, "key": self.key}

    @property
    def _where(self) -> str:
        return f"{self.host} port {self.port}"

    def _keys_of(self, tokens: tuple[str, ...]) -> list[str]:
        return [f"{self._name}.{token}" for token in tokens] or [self._name]

    def retoken(self, tokens: tuple[str, ...]) -> None:
        """See ``Tokened.retoken``."""
        with self._lock:
            self._keys = self._keys_of(tokens)
            if self.key not in self._keys:
                self.key = self._keys[0]

    def stop(self) -> None:
        """Drop the probe that may be under way."""
        with self._lock:
            self._forget()

    def _probe(self) -> bool:
        """Greet with a key that nobody has: a server that listens says so, and goes on listening.

        One that serves a session answers after that, so that at most one greeting waits at a time: TVM's
        server has room for little more in its queue. Of several keys the one in use is tried, which costs the
        server a session without a candidate; when it is wrong, the next one is.
        """
        several = len(self._keys) > 1
        said_key = f"client:{self.key}".encode() if several else _NOBODY
        patience_s = 0.0
        if self._pending is None:
            patience_s = _ANSWER_S
            try:
                server = socket.create_connection((self.host, self.port), _ANSWER_S)
                keep_alive(server)
                server.sendall(struct.pack("<ii", _MAGIC, len(said_key)) + said_key)
            except OSError:
                return False
            self._pending = server, time.monotonic()
        server, since = self._pending
        if not select.select([server], [], [], patience_s)[0]:
            if time.monotonic() - since < _BUSY_S:
                return True
            self._forget()
            return False
        try:
            said = server.recv(4)
        except OSError:
            said = b""
        self._forget()
        wrong = said == struct.pack("<i", _MAGIC + 2)
        if wrong and several:
            self.key = self._keys[(self._keys.index(self.key) + 1) % len(self._keys)]
        return wrong or (several and said == struct.pack("<i", _MAGIC))

    def _forget(self) -> None:
        if self._pending is not None:
            self._pending[0].close()
            self._pending = None


class TrackedBoard(RemoteBoard):
    """A server that is registered at the TVM tracker ``tracker`` (``host:port``) under ``key``.

    The key should be this board's alone: a tracker hands out any server of a key. Raises BoardError for a
    tracker that is not like host:port.
    """

    def __init__(self, id: str, tracker: str, *, key: str | None = None, **facts: Any) -> None:
        super().__init__(id, **facts)
        self.tracker, self.key = tracker, key or id
        host, _, port = tracker.rpartition(":")
        if not host or not port.isdecimal():
            raise BoardError(f"board {id}: the tracker {tracker!r} is not like host:port")
        self._tracker = host, int(port)

    @property
    def address(self) -> dict[str, Any]:
        """The tracker, and what to ask it for."""
        return {"tracker": self.tracker, "key": self.key}

    @property
    def _where(self) -> str:
        return f"the tracker {self.tracker} under the key {self.key}"

    def _probe(self) -> bool:
        """Whether the tracker knows a server of the key, free or not."""
        try:
            servers = _tracker_summary(self._tracker)["server_info"]
            return any(server.get("key") == f"server:{self.key}" for server in servers)
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return False


def _tracker_summary(address: tuple[str, int]) -> Any:
    """What a tracker says of its servers."""
    deadline = time.monotonic() + _ANSWER_S
    with socket.create_connection(address, _ANSWER_S) as tracker:
        question = json.dumps([_TRACKER_SUMMARY]).encode()
        tracker.sendall(struct.pack("<i", _TRACKER_MAGIC))
        if struct.unpack("<i", _receive(tracker, 4, deadline))[0] != _TRACKER_MAGIC:
            raise ValueError("not a tracker")
        tracker.sendall(struct.pack("<i", len(question)) + question)
        (length,) = struct.unpack("<i", _receive(tracker, 4, deadline))
        if not 0 <= length <= _MAX_SUMMARY_BYTES:
            raise ValueError("not a tracker's answer")
        return json.loads(_receive(tracker, length, deadline))[1]


def _receive(peer: socket.socket, size: int, deadline: float) -> bytes:
    """Exactly ``size`` bytes before the deadline; raises OSError."""
    got = b""
    while len(got) < size:
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        piece = peer.recv(size - len(got))
        if not piece:
            raise ConnectionError("hung up")
        got += piece
    return got
