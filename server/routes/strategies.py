"""Routes of the search strategies."""

from __future__ import annotations

from fastapi import APIRouter

from server.jobs.schemas import SearchStrategy, StrategyList
from tuner.search import strategies

router = APIRouter(prefix="/strategies", tags=["strategies"])


@router.get("", summary="List strategies")
def list_strategies() -> StrategyList:
    """The search strategies that a job can name: the built-in ones and those of installed packages."""
    found = strategies.listed().items()
    return StrategyList(items=[SearchStrategy(name=name, about=each.about()) for name, each in found])
