"""Routes of the boards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, Self

from fastapi import APIRouter
from pydantic import BaseModel, Field

from server.pages import Items
from server.services import Ctx
from worker.engine import BoardStatus

router = APIRouter(prefix="/boards", tags=["boards"])


class Board(BaseModel):
    """One device that can run candidates."""

    id: str = Field(examples=["host"])
    target: str = Field(description="The kind of machine it is.", examples=["host"])
    clock: str = Field(description="`wall` or `simulated:...`.", examples=["wall"])
    threads: int = Field(description="What a parallel kernel gets.", examples=[4])
    state: Literal["idle", "measuring", "offline"]
    trials: int = Field(description="Candidates measured since the service started.")
    busy_s: float = Field(description="Seconds spent measuring since the service started.")
    last_seen: datetime = Field(description="When it last answered.")

    @classmethod
    def of(cls, board: BoardStatus) -> Self:
        """The engine's board as the API shows it."""
        seen = datetime.fromtimestamp(board.last_seen, UTC)
        return cls.model_validate(
            {**vars(board), "target": board.target.name, "state": board.state, "last_seen": seen}
        )


class BoardList(Items[Board]):
    """All boards."""


@router.get("", summary="List boards")
def list_boards(ctx: Ctx) -> BoardList:
    """All boards as they are now."""
    return BoardList(items=[Board.of(board) for board in ctx.engine.boards()])
