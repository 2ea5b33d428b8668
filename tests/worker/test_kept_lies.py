"""Lies that are told to a book which is away, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
import virtual_time
from test_dispatcher import listing, next_lease, request, scene

from worker.fleet.states import Health

LOOP = virtual_time.VirtualLoop


@pytest.mark.parametrize("repeated", [False, True])
async def test_a_lie_is_kept_when_the_book_is_there_again(monkeypatch, repeated: bool):
    """Else the board would serve on, and what it had recorded would be believed."""
    async with scene(listing()) as it:
        await asyncio.sleep(5)
        change, away = it.book.change, True

        def when_there(*arguments):
            if away:
                raise OSError("the database is away")
            return change(*arguments)

        async def lie():
            async with it.dispatcher.lease(request()) as held:
                if repeated:
                    await it.dispatcher.disbelieve("a", "others say something else")
                else:
                    held.lie("a call took -1 s")

        monkeypatch.setattr(it.book, "change", when_there)
        lying = asyncio.ensure_future(lie())
        waiting = asyncio.ensure_future(next_lease(it))
        await asyncio.sleep(600)
        assert not lying.done()
        assert not waiting.done()
        away = False
        await asyncio.sleep(60)
        assert lying.done()
        assert (it.board().health, it.board().reason) == (
            Health.BAD,
            "others say something else" if repeated else "a call took -1 s",
        )
        waiting.cancel()
