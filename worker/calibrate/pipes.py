"""The pipes and the width of a board's cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernels.target import Target
from worker.calibrate.bench import Bench, Turn
from worker.calibrate.figure import Figure
from worker.calibrate.pipe_kernels import (
    CHAIN,
    STORES,
    Mix,
    floats_of,
    loads_of,
    products_of,
    wide_of,
)

TURNS = 500
_LIMITED = 1.02
"""By how much longer than its pipes a mix takes that something else limits."""
INTEGERS = Mix(8, 0, 0)


_UNTOLD = {
    "riscv64": "what begins in its order waits for the slowest pipe of a mix",
    "hexagon": "it begins packets, not instructions",
}


def clock(bench: Bench) -> Figure:
    """The cycles of a second: a simulated board tells them, elsewhere integers are added in one each."""
    if bench.simulated:
        return Figure("hz", bench.cycles_a_second("clock"), "Hz", "as the clock says")
    turn = bench.turn("clock", TURNS)
    how = "additions that wait for each other, each a cycle"
    return Figure("hz", CHAIN / turn.seconds, "Hz", how, turn.spread)


def pipes(bench: Bench, target: Target) -> Iterator[Figure]:
    """How many instructions of a kind begin in a cycle, where nothing else limits them."""
    rates = []
    for name, operations, what in (
        ("integer", INTEGERS.operations, "additions, ands and exclusive ors of integers"),
        ("load", loads_of(target).operations, "loads"),
        ("store", STORES, "stores of one number"),
        ("vector", floats_of(target).operations, "multiplications of two floats"),
    ):
        turn = bench.turn(name, TURNS)
        rates.append(operations / turn.seconds / bench.hz)
        yield Figure(name, rates[-1], "a cycle", what, turn.spread)
    yield _width(bench, target, rates)
    for name, kernel, operations, unit, pasted in (
        ("divide_cycles", "divide", CHAIN, "cycles", True),
        ("product latency", "product chain", CHAIN, "cycles", False),
    ):
        turn = bench.turn(kernel, TURNS)
        value = turn.seconds * bench.hz / operations
        yield Figure(name, value, unit, "floats that wait for each other", turn.spread, pasted)
    turn = bench.turn("products", TURNS // 4)
    value = CHAIN * products_of(target) / turn.seconds / bench.hz
    how = f"multiply-adds of {target.lanes()} floats"
    yield Figure("products", value, "a cycle", how, turn.spread, False)


def _width(bench: Bench, target: Target, rates: Sequence[float]) -> Figure:
    """More of each kind side by side than begins in a cycle, where pipes are not what limits them."""
    if why := _UNTOLD.get(target.triple.split("-")[0]):
        return Figure("width", None, "a cycle", f"kept: {why}")
    integer, load, _, vector = rates
    turns = [(mix, bench.turn(name, TURNS)) for name, mix in wide_of(target).items()]
    mix, turn = max(turns, key=lambda each: _begun(*each) / each[1].seconds)
    # What a compiler adds, such as moves and the loop's own, are integer operations.
    integers = CHAIN * mix.integers + _begun(mix, turn) - mix.operations
    piped = max(integers / integer, CHAIN * mix.loads / load, CHAIN * mix.floats / vector)
    cycles = turn.seconds * bench.hz
    found, what = _begun(mix, turn) / cycles, "integers, floats and loads together"
    if cycles < piped * _LIMITED:
        return Figure("width", None, "a cycle", f"kept: {what} are {found:.2f} a cycle, limited by pipes")
    return Figure("width", found, "a cycle", what, turn.spread)


def _begun(mix: Mix, turn: Turn) -> float:
    """Instructions of a turn, its operations where nothing counts instructions."""
    return turn.instructions or mix.operations
