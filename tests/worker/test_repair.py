"""Repairs: the operator's command between a failure and the check, its deadline, and how often it runs."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.target import CATALOGUE
from worker.fleet.book import Check, Listing
from worker.fleet.dispatcher import Dispatcher
from worker.fleet.fleet_file import FleetError, read_fleet
from worker.fleet.memory_book import MemoryBook
from worker.fleet.repair import Repair, run
from worker.fleet.states import MAX_FAILURES, Health
from worker.fleet.times import FleetTimes

BOARD = Listing("pi", CATALOGUE["rpi4"], "wall", 1)
TIMES = FleetTimes(tick_s=0.01, check_backoff_s=(0.01,), repair_absent_s=0.1)


async def until(true):
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def dispatcher(tmp_path, check):
    """One with a board whose repair adds a line to a file; ``check`` gets how many there are."""
    lines = tmp_path / "repairs"
    lines.touch()
    command = ("sh", "-c", f'echo "$TILEFLEET_BOARD: $TILEFLEET_REASON" >> {lines}; echo power is back')

    async def checked(board, entry):
        return Check(1e-3, check(len(lines.read_text().splitlines())))

    made = Dispatcher(
        MemoryBook(), checked, "me", threaded=False, times=TIMES, repairs={"pi": Repair(command, 20)}
    )
    await made.start()
    try:
        yield made, lines
    finally:
        await made.close()


async def test_a_board_that_failed_is_repaired_before_its_next_check_and_not_before_its_first(tmp_path):
    async with dispatcher(tmp_path, lambda repaired: "" if repaired else "no answer") as (it, lines):
        await it.seen([BOARD])
        await until(lambda: it.boards()[0].health is Health.GOOD)
        assert lines.read_text() == "pi: no answer\n"


async def test_each_failure_gets_one_repair_and_the_history_says_what_came_of_it(tmp_path):
    async with dispatcher(tmp_path, lambda _: "no answer") as (it, lines):
        seen = []
        it.on_change = lambda board: seen.append(board.reason)
        await it.seen([BOARD])
        await until(lambda: it.boards()[0].health is Health.BAD)
        assert len(lines.read_text().splitlines()) == MAX_FAILURES - 1
        assert "no answer; repair: sh is done: power is back" in seen


async def test_a_board_that_leaves_the_fleet_is_repaired_no_more(tmp_path):
    async with dispatcher(tmp_path, lambda _: "") as (it, lines):
        await it.seen([BOARD])
        await until(lambda: it.boards()[0].health is Health.GOOD)
        await it.leave("pi")
        await it.seen([replace(BOARD, alive=False)])
        await asyncio.sleep(0.5)
        assert not lines.read_text()


async def test_a_board_that_was_away_for_long_is_repaired_once_an_absence(tmp_path):
    async with dispatcher(tmp_path, lambda _: "") as (it, lines):
        await it.seen([BOARD])
        await until(lambda: it.boards()[0].health is Health.GOOD)
        for count in (1, 2):
            await it.seen([replace(BOARD, alive=False)])
            await until(lambda count=count: len(lines.read_text().splitlines()) == count)
            await asyncio.sleep(0.3)
            await it.seen([BOARD])
            await until(lambda: it.boards()[0].health is Health.GOOD)
        assert len(lines.read_text().splitlines()) == 2


async def test_a_repair_is_killed_at_its_deadline_with_all_that_it_started(tmp_path):
    pid = tmp_path / "pid"
    command = ("sh", "-c", f"sleep 600 & echo $! > {pid}; wait")
    said = await run(Repair(command, 2.0), "pi", "no answer")
    assert said == "sh was killed after 2 s"
    stat, end = Path(f"/proc/{int(pid.read_text())}/stat"), time.monotonic() + 10
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end, "what it started is still there"
        await asyncio.sleep(0.05)


async def test_a_repair_that_fails_or_is_not_there_is_told():
    assert await run(Repair(("false",), 10), "pi", "") == "false ended with exit code 1"
    assert (
        await run(Repair(("/nope/power",), 10), "pi", "")
        == "/nope/power cannot be run: No such file or directory"
    )


def test_the_fleet_file_has_repairs(tmp_path):
    file = tmp_path / "fleet.toml"
    file.write_text('[[board]]\nid="h"\nkind="host"\nrepair=["./power", "3"]\nrepair_timeout_s=9.5\n')
    assert read_fleet(file).repairs == {"h": Repair(("./power", "3"), 9.5)}
    file.write_text('[[board]]\nid="h"\nkind="host"\nrepair="./power 3"\n')
    with pytest.raises(FleetError, match="repair"):
        read_fleet(file)
