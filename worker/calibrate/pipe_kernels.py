"""Kernels of instructions: chains of one kind, side by side, so that only pipes and widths limit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels.target import Target
from worker.calibrate.kernel import BYTE, BYTES, FLOAT, INT, LONG, OUT, function

CHAIN = 8
"""Steps that each chain makes in a turn."""
STORES = 128
_FEW = {"x86_64": 11, "arm": 8, "armv7": 8}
"""Integer registers for chains, where there are few; others have 20 at least."""


@dataclass(frozen=True)
class Mix:
    """Chains side by side: of integer operations, of multiplications of two floats, of loads."""

    integers: int
    floats: int
    loads: int

    @property
    def operations(self) -> int:
        """In a turn."""
        return CHAIN * (self.integers + self.floats + self.loads)


def loads_of(target: Target) -> Mix:
    """As many lists as registers hold, since a load takes several cycles."""
    return Mix(0, 0, _FEW.get(target.triple.split("-")[0], 14))


def wide_of(target: Target) -> Mapping[str, Mix]:
    """Mixes of all kinds, so wide that not even a load is waited for; one of them fits the pipes best."""
    mixes = [Mix(8, 14, 10), Mix(14, 10, 6), Mix(8, 18, 6), Mix(6, 10, 14)]
    if target.triple.split("-")[0] in _FEW:
        mixes = [Mix(4, 12, 3), Mix(6, 6, 2), Mix(3, 12, 2), Mix(3, 6, 5)]
    return {f"width {number}": each for number, each in enumerate(mixes)}


def floats_of(target: Target) -> Mix:
    """As many pairs of floats as registers hold beside the factor, since a product takes several cycles."""
    return Mix(0, 24 if target.vector_registers >= 32 else 14, 0)


def products_of(target: Target) -> int:
    """Chains of products that keep the pipes of vectors busy."""
    return target.vector_registers - 4


def mix(chains: Mix) -> Any:
    """``given[0]`` turns of ``chains``. Lists are single bytes of a table of zeros."""
    from kernels.emit import tir

    made = function(BYTES, BYTE)
    with made as (given, list_, out):
        whole = tir.registers(max(1, chains.integers), INT)
        pairs = tir.registers(2 * max(1, chains.floats))
        at = tir.registers(max(1, chains.loads), LONG)
        for n in range(chains.integers):
            tir.store(whole, given[1] + n, n)
        for n in range(chains.floats):
            tir.store(pairs, tir.convert(tir.splat(given[1] + n, 2), FLOAT, 2), tir.vector(2 * n, 2))
        for n in range(chains.loads):
            tir.store(at, tir.convert(list_[given[1] + n], LONG, 1), n)
        # Two numbers: cores multiply by one number in both lanes with another instruction.
        factor = tir.convert(given[tir.vector(0, 2)], FLOAT, 2)
        with tir.loop(given[0]):
            for step in range(CHAIN):
                for n in range(max(chains.integers, chains.floats, chains.loads)):
                    if n < chains.integers:
                        other = given[1] if chains.integers == 1 else whole[(n + 1) % chains.integers]
                        tir.store(whole, _operation(step + n, whole[n], other), n)
                    if n < chains.floats:
                        mine = tir.vector(2 * n, 2)
                        tir.store(pairs, pairs[mine] * factor, mine)
                    if n < chains.loads:
                        tir.store(at, tir.convert(list_[at[n]], LONG, 1), n)
        left = [whole[n] for n in range(chains.integers)]
        left += [tir.reinterpret(pairs[n], INT, 1) for n in range(2 * chains.floats)]
        left += [tir.convert(at[n], INT, 1) for n in range(chains.loads)]
        for n, value in enumerate(left):
            tir.store(out, value, n)
    return made.result()


def _operation(kind: int, value: Any, other: Any) -> Any:
    """One of three, on another chain where there is one, so that no compiler makes vectors of several chains
    or one operation of several."""
    return (value + other, value ^ other, value | other)[kind % 3]


def stores() -> Any:
    """``given[0]`` turns of stores of one number, to places apart."""
    from kernels.emit import tir

    made = function(BYTES, BYTE)
    with made as (given, _, out), tir.loop(given[0]) as turn:
        for n in range(STORES):
            tir.store(out, turn, turn % 8 + OUT // STORES * n)
    return made.result()


def divide() -> Any:
    """``given[0]`` turns of divisions of a float that wait for each other."""
    from kernels.emit import tir

    made = function(BYTES, BYTE)
    with made as (given, _, out):
        value = tir.registers(1)
        factor = tir.convert(given[1], FLOAT, 1)
        tir.store(value, tir.convert(given[0], FLOAT, 1), 0)
        with tir.loop(given[0]):
            for _ in range(CHAIN):
                tir.store(value, value[0] / factor, 0)
        tir.store(out, tir.reinterpret(value[0], INT, 1), 0)
    return made.result()


def products(target: Target, count: int) -> Any:
    """``given[0]`` turns of multiply-adds of whole vectors, in ``count`` chains."""
    from kernels.emit import tir

    lanes = target.lanes()
    made = function(BYTES, BYTE)
    with made as (given, _, out):
        sums = tir.registers(count * lanes)
        slots = [tir.vector(slot, lanes) for slot in range(0, count * lanes, lanes)]
        factor = tir.convert(tir.splat(given[1], lanes), FLOAT, lanes)
        for n, slot in enumerate(slots):
            tir.store(sums, tir.convert(tir.splat(given[1] + n, lanes), FLOAT, lanes), slot)
        with tir.loop(given[0]):
            for _ in range(CHAIN):
                for slot in slots:
                    tir.store(sums, sums[slot] + sums[slot] * factor, slot)
        for slot in slots:
            tir.store(out, tir.reinterpret(sums[slot], INT, lanes), slot)
    return made.result()
