"""What operators do with boards: which changes make sense, and which do not."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool

from server.boards import rows, views
from server.boards.schemas import Board
from server.db.database import Database
from server.engine import Engine
from server.http.problems import Problem
from worker.fleet.states import Health, Standing

_IN_SERVICE = (Health.GOOD, Health.UNKNOWN)
_HOW = {Health.MAINTENANCE: "in maintenance"}


class Boards:
    """Boards as the API's callers see and change them; problems for what cannot be."""

    def __init__(self, db: Database, engine: Engine) -> None:
        self._db, self._engine = db, engine

    def all(self) -> list[Board]:
        """All boards."""
        with self._db.read() as session:
            return views.show(session, self._engine.boards())

    def get(self, board: str) -> Board:
        """One board; 404 when there is none of that name."""
        with self._db.read() as session:
            views.get_row(session, board)
            return views.show(session, self._engine.boards(), board)[0]

    async def drain(self, board: str, reason: str) -> Board:
        """Take the board out of service when its present lease ends."""
        standing = await self._standing(board)
        if standing.health not in _IN_SERVICE or standing.draining:
            raise _conflict(board, standing, "drained")
        await self._engine.dispatcher.drain(board, reason)
        return await run_in_threadpool(self.get, board)

    async def park(self, board: str, reason: str) -> Board:
        """Take the board out of service at once."""
        standing = await self._standing(board)
        if standing.health in (Health.MAINTENANCE, Health.RETIRED):
            raise _conflict(board, standing, "parked")
        await self._engine.dispatcher.park(board, reason)
        return await run_in_threadpool(self.get, board)

    async def put_back(self, board: str, reason: str) -> Board:
        """Bring the board back into service."""
        standing = await self._standing(board)
        if standing.health in _IN_SERVICE and not standing.draining:
            raise _conflict(board, standing, "returned")
        await self._engine.dispatcher.put_back(board, reason)
        return await run_in_threadpool(self.get, board)

    async def retire(self, board: str, reason: str) -> Board:
        """Take the board out of service for good."""
        standing = await self._standing(board)
        if standing.health is Health.RETIRED:
            raise _conflict(board, standing, "retired")
        await self._engine.dispatcher.retire(board, reason)
        return await run_in_threadpool(self.get, board)

    async def _standing(self, board: str) -> Standing:
        def read() -> Standing:
            with self._db.read() as session:
                return rows.standing_of(views.get_row(session, board))

        return await run_in_threadpool(read)


def _conflict(board: str, standing: Standing, done: str) -> Problem:
    how = "draining" if standing.draining else _HOW.get(standing.health, str(standing.health))
    why = f" ({standing.reason})" if standing.reason else ""
    return Problem(409, f"board {board} is {how}{why} and cannot be {done}")
