"""Routes of the fleet as a whole."""

from __future__ import annotations

from fastapi import APIRouter

from server.boards.schemas import FleetChange
from server.http.problems import responses
from server.services import Ctx

router = APIRouter(prefix="/fleet", tags=["boards"])


@router.post(":reload", summary="Read the fleet file again", responses=responses(409))
async def reload_fleet(ctx: Ctx) -> FleetChange:
    """Take over what has changed in the fleet file and in the files of tokens, without a stop.

    Boards that were added start, those that were removed go, and those that changed start anew, once nobody
    has a lease of them. What cannot be so is refused by 409 with the reason, and nothing changes.
    """
    return await ctx.fleet.reload()
