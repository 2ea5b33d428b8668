"""Route of the profiles."""

from __future__ import annotations

from fastapi import APIRouter, Request

from server.http.json_text import JsonRoute
from server.http.problems import responses
from server.profiles import service
from server.profiles.schemas import Profile, ProfileRequest
from server.services import Ctx

router = APIRouter(prefix="/profiles", tags=["profiles"], route_class=JsonRoute)


@router.post("", summary="Run a model on a board", responses=responses(404, 409, 413, 422))
async def create_profile(asked: ProfileRequest, request: Request, ctx: Ctx) -> Profile:
    """Build a model from the best known configs and run it whole on a board.

    It answers with what the runs took, in all and call by call, and compares the outputs with the model's own
    definition. Nothing is stored. It takes as long as that takes; 409 when no board came to an answer.
    """
    return await service.profile(ctx, asked, request)
