"""Kernels of memory: a list walked, bursts of loads, streams read and written."""

from __future__ import annotations

from typing import Any

from kernels.target import Target
from worker.build.build import ENTRY
from worker.calibrate.kernel import INT, LONG, WORD, function

BURSTS, FILLER = 64, 96
"""Bursts of loads a call; turns of four operations between them, more than any core has in flight."""
STRIDE_BYTES, APART_BYTES = 5 * 4096 + 256, 256
"""From one load of a burst to the next, in other pages, so that no prefetcher follows; and between bursts."""
BLOCK_BYTES = 64
"""What a turn of a stream takes: so no compiler reads a line before the one that comes before it."""


def link(words: int) -> Any:
    """Makes a list of the elements that ``order`` names: each has the number of the next."""
    from tvm import tirx
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir
    from kernels.emit.function import Function

    count = tirx.Var("count", INT)
    made = Function(ENTRY, {"order": (count,), "list": (words,)}, {"order": INT, "list": LONG})
    with made as (order, list_), T.serial(0, count - 1) as at:
        tir.store(list_, tir.convert(order[at + 1], LONG, 1), order[at])
    return made.result()


def walk(words: int) -> Any:
    """``given[0]`` times the whole list that begins with element ``given[1]``, the lowest one.

    Each round waits for the one before: no compiler knows that where it ended is where it began. The end is
    seen, not counted. So compilers leave the loop as it is, of few instructions, which lie in one
    page of code; simulated clocks know by that loop which loads wait for each other.
    """
    from tvm.script.ir_builder import tirx as T

    from kernels.emit import tir

    made = function(words, LONG)
    with made as (given, list_, out):
        at, start = tir.registers(1, LONG), tir.convert(given[1], LONG, 1)
        tir.store(at, start, 0)
        with tir.loop(given[0]):
            tir.store(at, list_[at[0]], 0)
            with T.While(at[0] > start):
                tir.store(at, list_[at[0]], 0)
        tir.store(out, tir.convert(at[0], INT, 1), 0)
    return made.result()


def burst(words: int) -> Any:
    """Bursts of ``given[0]`` loads that do not wait, from element ``given[1]`` on, other work between."""
    from kernels.emit import tir

    made = function(words, LONG)
    with made as (given, list_, out):
        sums = tir.registers(2, INT)
        for slot in range(2):
            tir.store(sums, given[slot], slot)
        with tir.loop(BURSTS) as number:
            # Downwards, so that no line follows one of the burst before.
            start = given[1] + (BURSTS - 1 - number) * (APART_BYTES // WORD)
            with tir.loop(given[0]) as load:
                value = list_[start + load * (STRIDE_BYTES // WORD)]
                tir.store(sums, sums[0] + tir.convert(value, INT, 1), 0)
            with tir.loop(FILLER):
                for _ in range(2):
                    tir.store(sums, (sums[1] + given[0]) ^ given[1], 1)
        for slot in range(2):
            tir.store(out, sums[slot], slot)
    return made.result()


def stream(target: Target, words: int, writes: bool) -> Any:
    """``given[0]`` blocks of the list, read or written, again from the first one after ``given[1]``, a power
    of two less one."""
    from kernels.emit import tir

    block = BLOCK_BYTES // WORD
    lanes = min(block, max(1, target.lanes() * 4 // WORD))
    starts = range(0, block, lanes)
    made = function(words, LONG)
    with made as (given, list_, out):
        sums = tir.registers(block, LONG)
        for start in starts:
            tir.store(sums, tir.const(0, LONG, lanes), tir.vector(start, lanes))
        # One loop, not one in another: all sizes take the same but for memory.
        with tir.loop(given[0]) as turn:
            for start in starts:
                at, slot = tir.vector((turn & given[1]) * block + start, lanes), tir.vector(start, lanes)
                if writes:
                    tir.store(list_, tir.splat(tir.convert(turn, LONG, 1), lanes), at)
                else:
                    tir.store(sums, sums[slot] + list_[at], slot)
        for start in starts:
            slot = tir.vector(start, lanes)
            tir.store(out, tir.convert(sums[slot], INT, lanes), slot)
    return made.result()
