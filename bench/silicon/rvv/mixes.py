"""Random loops of vector instructions on a board's clock, beside a model of its core (port_model.py).

A mix has one type of vectors and up to eight rows of the table. Its instructions wait for nothing, for the
result of the one before, or a mixture of these; scalar additions and loads from L1 are among them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.silicon.loops import Loop
from bench.silicon.programs import measured
from bench.silicon.rvv import port_model
from bench.silicon.rvv.forms import STOPS_QEMU, stores
from bench.silicon.rvv.port_model import WAY_BACK, Work
from bench.silicon.rvv.prices import Price, prices
from bench.silicon.rvv.table import Row, Type, rows

SHARE = 0.1
"""How far the clock may be from the model."""
KINDS = ("independent", "chains", "mixture")
_TYPES = tuple(map(Type, ("e8m1", "e16mf2", "e16m1", "e16m2", "e32mf2", "e32m1", "e32m2", "e64m1", "e64m2")))
_LONGEST, _SHORTEST = 60, 4
_MOST_CYCLES = 16.0
"""Without divisions and the like: with one of them the others do not matter."""
_STEP = 4
"""Registers between two groups, so that wide results have place."""
_GROUPS = range(8, 32, _STEP)
_ADD = "add a{0}, a{1}, a2"
_FARTHEST = 5


@dataclass(frozen=True)
class Mix:
    """A loop, with what each of its lines is."""

    kind: str
    type_: Type
    lines: tuple[tuple[str, Work], ...]

    @property
    def loop(self) -> Loop:
        """For the board."""
        head = f"vsetvli t1, zero, e{self.type_.bits}, {self.type_.group}, ta, ma"
        return Loop(tuple(text for text, _ in self.lines), 1, ("mv t0, s2", head), 64)

    def modelled(self, core: str) -> float:
        """Cycles by the model, with the way back that the copies share."""
        copies = self.loop.repeats
        body = [work for _, work in self.lines] * copies
        return port_model.cycles(core, [*body, *WAY_BACK]) / copies


@dataclass(frozen=True)
class Result:
    """Cycles of a mix."""

    mix: Mix
    modelled: float
    simulated: float

    @property
    def off(self) -> float:
        """The simulated cycles' relative distance from the model's."""
        return self.simulated / self.modelled - 1


def compared(mixes: Sequence[Mix], board: str, core: str, folder: Path) -> list[Result]:
    """Each mix on ``board`` and by the model; without those that the emulated processor does not know."""
    found = measured([mix.loop for mix in mixes], board, folder)
    return [Result(mix, mix.modelled(core), taken) for mix in mixes if (taken := found[mix.loop])]


def told(results: Sequence[Result], board: str) -> str:
    """How many agree, and the farthest."""
    ordered = sorted(results, key=lambda each: -abs(each.off))
    within = sum(abs(each.off) <= SHARE for each in results)
    lines = [f"{board} beside a model of its pipes: {within}/{len(results)} mixes within {SHARE:.0%}"]
    for kind in KINDS:
        mine = [each for each in results if each.mix.kind == kind]
        lines.append(f"  {kind}: {sum(abs(each.off) <= SHARE for each in mine)}/{len(mine)}")
    lines.append("the farthest: cycles by the model -> on the board")
    for each in ordered[: max(len(results) - within, _FARTHEST)]:
        text = "; ".join(line for line, _ in each.mix.lines)
        name = each.mix.type_.name
        lines.append(f"{each.off:+.1%} {each.modelled:.2f} -> {each.simulated:.2f} ({name}): {text}")
    return "\n".join(lines)


def generated(count: int, seed: int) -> list[Mix]:
    """``count`` different mixes, the same for the same ``seed``."""
    rng = random.Random(seed)
    found: dict[Loop, Mix] = {}
    while len(found) < count:
        mix = _mix(rng, KINDS[len(found) % len(KINDS)])
        found.setdefault(mix.loop, mix)
    return list(found.values())


@cache
def _usable(type_: Type) -> list[tuple[Row, Price]]:
    """Rows that write a vector and read others: what a chain can go through."""
    costs = {price.name: price for price in prices()}
    found = []
    for row in rows():
        price = costs.get(row.text)  # not of those that are others with their sources exchanged
        cost = price.by_type.get(type_) if price and type_ in row.cycles else None
        operands = row.text.partition(" ")[2].split(",")
        plain = operands[0] == "v8" and "v0" not in operands[-1] and not stores(row)
        plain = plain and not STOPS_QEMU.match(row.text)
        if (
            price
            and cost
            and plain
            and cost.cycles <= _MOST_CYCLES
            and "seg" not in row.text
            and "(t2)" not in row.text
        ):
            found.append((row, price))
    return found


def _mix(rng: random.Random, kind: str) -> Mix:
    type_ = rng.choice(_TYPES)
    several = rng.sample(_usable(type_), rng.randint(1, 8))
    chained = {"independent": 0.0, "chains": 1.0}.get(kind, rng.random())
    last, lines = _GROUPS[0], list[tuple[str, Work]]()
    for _ in range(rng.randint(_SHORTEST, _LONGEST)):
        if rng.random() < 0.2:
            number = rng.randint(3, 5)
            work = Work("I", 1, 1, (("x", 10 + number), ("x", 12)), (("x", 10 + number),))
            lines.append((_ADD.format(number, number), work))
            continue
        row, price = rng.choice(several)
        target, first, second = rng.sample(_GROUPS, 3)
        if rng.random() < chained:
            first = last
            target = rng.choice([group for group in _GROUPS if group not in (first, second)])
            second = rng.choice([group for group in _GROUPS if group not in (first, target)])
        lines.append(_line(row, price, type_, {"v8": target, "v16": first, "v24": second}))
        last = target
    return Mix(kind, type_, tuple(lines))


def _line(row: Row, price: Price, type_: Type, groups: dict[str, int]) -> tuple[str, Work]:
    mnemonic, _, operands = row.text.partition(" ")
    names = operands.split(",")
    text = f"{mnemonic} " + ",".join(f"v{groups[name]}" if name in groups else name for name in names)
    registers = {name: ("v", number) for name, number in groups.items() if name in names}
    target = registers.pop("v8")
    reads = tuple(registers.values()) + ((target,) if "va7" in price.operands else ())
    cost = price.by_type[type_]
    return text, Work(price.pipe, cost.cycles, cost.latency, reads, (target,))
