"""Where boards dial in: each appears here as a port on the loopback interface for TVM's RPC client.

A board keeps one idle connection. Lines go over it: after both have proved the token (``dial_proof.py``)
``ping`` and ``pong``, until the gateway has a client and says ``session``; the board answers ``ready`` and
from there on it is the client's. For the next session the board dials again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import struct
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from worker.fleet.drivers.base import BoardError, keep_alive
from worker.fleet.drivers.dial_proof import DEFAULT_PORT, VERSION, check_id, check_token, prove
from worker.fleet.drivers.newcomers import Newcomer, Newcomers
from worker.fleet.drivers.refusals import Refusals

GREETING_S = 5.0
"""What a newcomer may take to say who it is and to prove it."""
PING_S, PONG_S = 3.0, 4.0
BETWEEN_SESSIONS_S = 3.0
_WAITING_CLIENTS = 8
_MAX_LINE = 512
_GREETING = struct.Struct("<ii")
_PIECE = 1 << 18
_CALL_S = 10.0
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass
class _Peer:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def gone(self) -> bool:
        """Whether it has hung up, as far as is known."""
        return self.reader.at_eof() or self.writer.is_closing()

    async def line(self, seconds: float) -> str:
        """The next line; raises OSError, TimeoutError or ValueError."""
        async with asyncio.timeout(seconds):
            line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("hung up")
        return line[:-1].decode("ascii")

    async def say(self, line: str) -> None:
        """Send a line."""
        self.writer.write(f"{line}\n".encode())
        async with asyncio.timeout(PONG_S):
            await self.writer.drain()

    def drop(self) -> None:
        """Close, throwing away what was not sent."""
        self.writer.transport.abort()


@dataclass
class _Client(_Peer):
    """A connection of TVM's client, with what it has said already."""

    greeting: bytes = b""


@dataclass
class _Board:
    """One board's side of the gateway."""

    id: str
    tokens: tuple[str, ...]
    secret: str = field(default_factory=lambda: secrets.token_hex(32))
    """What clients on this machine have to know."""
    strangers: Newcomers = field(default_factory=Newcomers)
    """Clients that have not named the key."""
    clients: asyncio.Queue[_Client] = field(default_factory=lambda: asyncio.Queue(_WAITING_CLIENTS))
    server: asyncio.Server | None = None
    agent: _Peer | None = None
    proven: str = ""
    """The token that the agent has proved."""
    session: _Client | None = None
    served: float = float("-inf")
    """When its last session ended."""

    @property
    def connected(self) -> bool:
        return self.agent is not None and not self.agent.gone

    @property
    def expected(self) -> bool:
        """Whether it is there, or on its way back from a session that ends or has ended."""
        serving = self.session is not None
        return self.connected or serving or time.monotonic() - self.served < BETWEEN_SESSIONS_S

    def forget_gone(self) -> None:
        """Take clients that have hung up out of the queue."""
        for _ in range(self.clients.qsize()):
            client = self.clients.get_nowait()
            if not client.gone:
                self.clients.put_nowait(client)


class Gateway:
    """Listens on ``host`` and ``port`` (0: any) as long as there are boards that dial in.

    Whoever proves a board's token serves that board's sessions, and nobody else gets further than five
    seconds and a count in the log. What goes over the wire is not encrypted: beyond the loopback interface
    only through an SSH tunnel or a VPN. All methods may be called from any thread, but the client has to be
    another process: TVM's keeps Python's lock while it waits.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = DEFAULT_PORT) -> None:
        self.host, self.port = host, port
        self._boards: dict[str, _Board] = {}
        self._newcomers, self._refusals = Newcomers(), Refusals()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None

    def add(self, id: str, *tokens: str) -> tuple[int, str]:
        """Let the board ``id`` dial in with any of ``tokens``; its port on 127.0.0.1, and the secret key that
        sessions are opened with. Raises BoardError."""
        problems = [check_id(id), *map(check_token, tokens or [""])]
        if problem := next(filter(None, problems), None):
            raise BoardError(f"board {id}: {problem}")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=[self._loop], name="gateway", daemon=True
                )
                self._thread.start()
            try:
                return self._call(self._add(id, tokens))
            except OSError as error:
                raise BoardError(
                    f"board {id}: cannot listen on {self.host} port {self.port}: {error}"
                ) from None
            finally:
                self._stop_if_unused()

    def retoken(self, id: str, tokens: tuple[str, ...]) -> None:
        """Let the board dial in with these tokens from now on; who came in by another one goes after its
        session."""
        with self._lock:
            if self._loop is not None:
                self._call(self._retoken(id, tokens))

    def remove(self, id: str) -> None:
        """Forget a board and end its connections."""
        with self._lock:
            if self._loop is not None:
                self._call(self._remove(id))
                self._stop_if_unused()

    def connected(self, id: str) -> bool:
        """Whether the board is there: idle or in a session."""
        board = self._boards.get(id)
        return board is not None and board.connected

    def expected(self, id: str) -> bool:
        """Whether the board is connected, or served three seconds ago: it dials anew for every session."""
        board = self._boards.get(id)
        return board is not None and board.expected

    def drop_session(self, id: str) -> None:
        """End the session that the board serves, and send waiting clients away."""
        with self._lock:
            if self._loop is not None:
                self._call(self._drop_session(id))

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        assert self._loop is not None  # the callers have looked
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_S)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(asyncio.sleep(0))  # in which dropped connections are closed
        loop.close()

    def _stop_if_unused(self) -> None:
        if self._loop is not None and self._thread is not None and not self._boards:
            self._call(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop = self._thread = None

    async def _retoken(self, id: str, tokens: tuple[str, ...]) -> None:
        if board := self._boards.get(id):
            board.tokens = tokens
            if board.agent and board.proven not in tokens and board.session is None:
                board.agent.drop()

    async def _add(self, id: str, tokens: tuple[str, ...]) -> tuple[int, str]:
        if id in self._boards:
            raise BoardError(f"board {id}: there are two of that name")
        if self._server is None:
            self._server = await asyncio.start_server(self._arrived, self.host, self.port, limit=_MAX_LINE)
            self.port = self._server.sockets[0].getsockname()[1]
        board = _Board(id, tokens)
        board.server = await asyncio.start_server(
            lambda reader, writer: self._client(board, _Client(reader, writer)), "127.0.0.1", 0, limit=_PIECE
        )
        self._boards[id] = board
        return int(board.server.sockets[0].getsockname()[1]), f"{id}.{board.secret}"

    async def _remove(self, id: str) -> None:
        board = self._boards.pop(id, None)
        if board is not None and board.server is not None:
            board.server.close()
            self._end_session(board)
            if board.agent:
                board.agent.drop()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0.05)  # until those just accepted have a task, which can be ended

    async def _drop_session(self, id: str) -> None:
        if board := self._boards.get(id):
            self._end_session(board)

    def _end_session(self, board: _Board) -> None:
        if board.session is not None:
            board.session.drop()
            if board.agent:
                board.agent.drop()
        while not board.clients.empty():
            board.clients.get_nowait().drop()

    async def _client(self, board: _Board, client: _Client) -> None:
        """Put a client into the queue once it has named the key: a port scan or a probe costs no session, and
        other users of this machine get none."""
        stranger = Newcomer("", client.drop)
        board.strangers.add(stranger)
        try:
            keep_alive(client.writer.get_extra_info("socket"))
            async with asyncio.timeout(GREETING_S):
                client.greeting = await _greeting(client.reader, board)
            if client.greeting and board.expected:
                board.forget_gone()
                board.clients.put_nowait(client)
                return
        except (OSError, EOFError, TimeoutError, asyncio.QueueFull):
            pass
        finally:
            board.strangers.remove(stranger)
        client.drop()

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Everything about one connection of an agent, or of somebody who would like to be one."""
        peer = _Peer(reader, writer)
        where = str(writer.get_extra_info("peername"))
        newcomer = Newcomer((writer.get_extra_info("peername") or ("",))[0], peer.drop)
        self._newcomers.add(newcomer)
        board: _Board | None = None
        try:
            keep_alive(writer.get_extra_info("socket"))
            async with asyncio.timeout(GREETING_S):
                board = await self._admit(peer, newcomer)
        except _RefusedError as refusal:
            self._refusals.note(where, str(refusal))
            with contextlib.suppress(OSError, TimeoutError):
                await peer.say(f"no {refusal.told}")
                writer.close()
                return
        except (OSError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__
            pushed_out = "others came while it said nothing"
            self._refusals.note(where, pushed_out if newcomer.pushed_out else f"no greeting ({why})")
        except asyncio.CancelledError:
            _log.info("gateway: %s sent away: the gateway stops", where)
        finally:
            self._newcomers.remove(newcomer)
            if board is None and not writer.is_closing():
                peer.drop()
        if board is not None:
            with contextlib.suppress(asyncio.CancelledError):  # the gateway stops
                await self._serve(board, peer, where)

    async def _admit(self, peer: _Peer, newcomer: Newcomer) -> _Board:
        """Find out which board this is; the connection is its agent then."""
        words = (await peer.line(GREETING_S)).split(" ")
        newcomer.spoke = True
        if len(words) != 4 or words[0] != "tilefleet-agent":
            raise _RefusedError("no agent", "this is a gateway for Tilefleet's agents")
        _, version, id, theirs = words
        if version != VERSION:
            raise _RefusedError(
                f"board {id!r}: an agent of version {version!r}",
                f"the gateway speaks version {VERSION}: build the agent anew",
            )
        ours = secrets.token_hex(16)
        await peer.say(f"prove {ours}")
        said = await peer.line(GREETING_S)
        board = self._boards.get(id)
        # The same work and the same answer for an unknown board: nobody learns which ones there are.
        most = max((len(each.tokens) for each in self._boards.values()), default=1)
        tokens = (board.tokens if board else ()) + tuple(secrets.token_hex(16) for _ in range(most))
        right = [
            token
            for token in tokens[:most]
            if hmac.compare_digest(said.encode(), f"proof {prove(token, 'agent', id, ours, theirs)}".encode())
        ]
        if board is None or not right:
            what = "not the token" if board else "no such board"
            raise _RefusedError(f"board {id!r}: {what}", "this gateway knows no such board, or another token")
        if board.connected:
            raise _RefusedError(f"board {id}: a second agent", "another agent of this name is connected")
        board.agent, board.proven = peer, right[0]
        await peer.say(f"welcome {prove(right[0], 'gateway', id, ours, theirs)}")
        return board

    async def _serve(self, board: _Board, agent: _Peer, where: str) -> None:
        """Keep an idle agent until it has served one session."""
        _log.info("gateway: board %s is there, from %s", board.id, where)
        try:
            await self._idle(board, agent)
        except (OSError, TimeoutError, ValueError) as error:
            _log.warning("gateway: board %s has gone: %s", board.id, str(error) or "no answer")
            board.served = float("-inf")
        finally:
            agent.drop()
            if board.agent is agent:
                board.agent = None

    async def _idle(self, board: _Board, agent: _Peer) -> None:
        pinged = time.monotonic()
        while not agent.gone:
            client = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    client = await board.clients.get()
            if client is not None and agent.gone:
                board.clients.put_nowait(client)  # for the connection after this one
            elif client is not None and not client.gone:
                board.session = client
                try:
                    await self._session(agent, client)
                finally:
                    client.drop()
                    board.session = None
                    board.served = time.monotonic()
                return
            if time.monotonic() - pinged >= PING_S:
                await agent.say("ping")
                if await agent.line(PONG_S) != "pong":
                    raise ConnectionError("no pong")
                pinged = time.monotonic()
        raise ConnectionError("hung up")

    async def _session(self, agent: _Peer, client: _Client) -> None:
        await agent.say("session")
        if await agent.line(PONG_S) != "ready":
            raise ConnectionError("not ready")
        agent.writer.write(client.greeting)
        there, back = (
            asyncio.create_task(_copy(client, agent)),
            asyncio.create_task(_copy(agent, client)),
        )
        try:
            # When either side has gone, the other has nobody to talk to; what the board said last arrives.
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        client.writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PONG_S):
                await client.writer.wait_closed()


class _RefusedError(Exception):
    """Why a newcomer is sent away: for our log, and what it is told."""

    def __init__(self, reason: str, told: str) -> None:
        super().__init__(reason)
        self.told = told


async def _copy(source: _Peer, to: _Peer) -> None:
    """Pass on what comes until either side has gone."""
    with contextlib.suppress(OSError):
        while piece := await source.reader.read(_PIECE):
            to.writer.write(piece)
            await to.writer.drain()


async def _greeting(reader: asyncio.StreamReader, board: _Board) -> bytes:
    """What a client of TVM's RPC says first, its key without our secret; empty where that is wrong."""
    magic, length = _GREETING.unpack(await reader.readexactly(_GREETING.size))
    said = await reader.readexactly(min(max(length, 0), _MAX_LINE))
    wanted = f"client:{board.id}.{board.secret}".encode()
    if not secrets.compare_digest(said[: len(wanted)], wanted):
        return b""
    key = f"client:{board.id}".encode() + said[len(wanted) :]
    return _GREETING.pack(magic, len(key)) + key
