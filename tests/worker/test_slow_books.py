"""The dispatcher with books that take their time, in threads and real time."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

import pytest
from test_dispatcher import listing, request

from worker.fleet.book import Check
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.memory_book import MemoryBook
from worker.fleet.states import Activity


class SlowBook(MemoryBook):
    """One that takes its time, and says when it is asked for a lease."""

    def __init__(self):
        super().__init__()
        self.asked, self.refuses, self.calls = threading.Event(), False, []

    def acquire(self, *arguments):
        self.asked.set()
        time.sleep(0.2)
        return None if self.refuses else super().acquire(*arguments)

    def entries(self):
        self.calls.append("entries")
        return super().entries()


@pytest.mark.parametrize("refuses", [False, True])
async def test_closing_while_a_lease_is_taken_leaves_none_and_nobody_waiting(refuses):
    async def check(board, entry):
        return Check(1e-3)

    book = SlowBook()
    for first in ("check", "trials"):
        dispatcher = Dispatcher(book, check, "me")
        await dispatcher.start()
        book.refuses = refuses and first == "check"
        book.asked.clear()
        await dispatcher.seen([listing()])
        if first == "trials":
            while dispatcher.boards()[0].activity is not Activity.IDLE:
                await asyncio.sleep(0.01)
            book.refuses = refuses
            book.asked.clear()
        waiting = asyncio.ensure_future(dispatcher.lease(request()).__aenter__())
        await asyncio.to_thread(book.asked.wait)
        await dispatcher.close()
        called = len(book.calls)
        with suppress(NoBoard):
            held = await asyncio.wait_for(waiting, 30)
            assert held.lost.is_set()
        assert book.entries()["a"].lease is None
        await asyncio.sleep(0.3)
        assert book.entries()["a"].lease is None
        assert len(book.calls) == called + 2, "the book was used after closing"


class LateBook(MemoryBook):
    """One that writes the end of a lease at once, and answers when it may."""

    def __init__(self):
        super().__init__()
        self.written, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def release(self, *arguments):
        released = super().release(*arguments)
        if not self.answers.is_set():
            self.written.set()
            assert self.answers.wait(30)
        return released


async def test_a_lease_that_is_being_given_back_is_not_lost_when_the_book_is_read_meanwhile():
    async def check(board, entry):
        return Check(1e-3)

    book = LateBook()
    dispatcher = Dispatcher(book, check, "me")
    await dispatcher.start()
    await dispatcher.seen([listing()])

    async def use():
        async with dispatcher.lease(request()) as held:
            book.answers.clear()
        return held

    using = asyncio.ensure_future(use())
    assert await asyncio.to_thread(book.written.wait, 30)
    await dispatcher.seen([listing()])
    book.answers.set()
    assert not (await using).lost.is_set()
    await dispatcher.close()
