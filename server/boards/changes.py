"""Telling subscribers what becomes of the boards."""

from __future__ import annotations

from collections.abc import Callable

from server.engine import Engine
from server.events.base import BOARDS, Events
from worker.fleet.status import BoardStatus


def tell_of_boards(engine: Engine, events: Events, changed: Callable[[], None]) -> None:
    """Publish every change of a board from now on, and how each is; ``changed`` is called after each."""

    def publish(board: BoardStatus) -> None:
        data = {
            "board": board.id,
            "activity": board.activity.value,
            "health": board.health.value,
            "reason": board.reason,
            "draining": board.draining,
            "job": board.job,
        }
        events.publish(BOARDS, "board", data)
        changed()

    engine.dispatcher.on_change = publish
    for board in engine.boards():
        publish(board)
