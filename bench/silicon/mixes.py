"""Random loops of many instructions on a simulated board's clock, beside the port model.

A mix takes some of the table's rows. Its instructions wait for nothing, for one of up to six results that are
carried on through one kind of instruction or several, for what others made lately, or a mixture of these.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.silicon import port_model
from bench.silicon.forms.form import Form
from bench.silicon.forms.sections import form
from bench.silicon.loops import INDEX, ZEROS, Loop, constants, in_memory, is_vector
from bench.silicon.programs import measured
from bench.silicon.table import CORES, rows

SHARE = 0.1
"""How far the clock may be from the port model."""
KINDS = ("independent", "chains", "chains through several", "mixture")
_FARTHEST = 5
"""How many are told where all agree; those that do not are told as well."""
_LEAST_PER_CYCLE = 0.2
"""Without divisions: with one of them the others do not matter."""
_SECTIONS_WITHOUT = ("divide", "store", "Atomic", "Branch")
_SHORTEST, _LONGEST = 4, 60
_CARRIED = {"v": 8, "x": 0}
"""The first of the registers that carry a result on."""
_MOST_CARRIED = 6
_FREE = {"v": range(14, 32), "x": range(6, 24)}
"""Registers of other results."""
_SETUP = (f"mov x{INDEX}, xzr",)
_MASK = "and x{d}, x{n}, #0x1ffc"
_MASKED = "and x{d}, x{n}, #0x8"
"""Makes an address of anything: what is there is zero."""
_LOAD = "ldr x{d}, [x{n}, x{m}]"


@dataclass(frozen=True)
class Instruction:
    """A form with its registers."""

    form: Form
    numbers: Mapping[str, int]
    text: str


@dataclass(frozen=True)
class Mix:
    """A loop."""

    kind: str
    instructions: tuple[Instruction, ...]

    @property
    def loop(self) -> Loop:
        """For the board."""
        lines = tuple(each.text for each in self.instructions)
        return Loop(lines, 1, _SETUP)

    def modelled(self, core: str) -> float:
        """Cycles by the port model, as those of the board: with the way back that the copies share."""
        body = [port_model.work(core, each.form, each.numbers) for each in self.instructions]
        copies = self.loop.repeats
        return port_model.cycles(core, body * copies + port_model.way_back(core)) / copies


@dataclass(frozen=True)
class Result:
    """Cycles of a mix; the board has none where its processor does not know an instruction."""

    mix: Mix
    modelled: float
    simulated: float | None

    @property
    def off(self) -> float:
        """The simulated cycles' relative distance from the model's."""
        return (self.simulated or 0.0) / self.modelled - 1

    @property
    def within(self) -> bool:
        """Whether the two agree."""
        return abs(self.off) <= SHARE


def compared(mixes: Sequence[Mix], board: str, folder: Path) -> list[Result]:
    """Each mix on ``board`` and by the port model of its core. Raises as ``programs.measured``."""
    simulated = measured([mix.loop for mix in mixes], board, folder)
    return [Result(mix, mix.modelled(CORES[board]), simulated[mix.loop]) for mix in mixes]


def told(results: Sequence[Result], board: str) -> str:
    """How many agree, and the worst ones with their text."""
    known = sorted((each for each in results if each.simulated), key=lambda each: -abs(each.off))
    lines = [f"{board} beside a port model of {CORES[board]}: {_share(known)} mixes within {SHARE:.0%}"]
    for kind in KINDS:
        lines.append(f"  {kind}: {_share([each for each in known if each.mix.kind == kind])}")
    if lacking := len(results) - len(known):
        verb = "has" if lacking == 1 else "have"
        lines.append(f"{lacking} {verb} an instruction that the emulated processor lacks")
    lines.append("the farthest: cycles by the model -> on the board")
    outside = sum(not each.within for each in known)
    for each in known[: max(outside, _FARTHEST)]:
        text = "; ".join(one.text for one in each.mix.instructions)
        lines.append(f"{each.off:+.1%} {each.modelled:.2f} -> {each.simulated:.2f} ({each.mix.kind}): {text}")
    return "\n".join(lines)


def _share(results: Sequence[Result]) -> str:
    return f"{sum(each.within for each in results)}/{len(results)}"


def generated(core: str, count: int, seed: int) -> list[Mix]:
    """``count`` different mixes of what was measured on ``core``, the same for the same ``seed``."""
    rng = random.Random(seed)
    by_section = _by_section(core)
    found: dict[Loop, Mix] = {}
    while len(found) < count:
        mix = _mix(rng, by_section, KINDS[len(found) % len(KINDS)])
        found.setdefault(mix.loop, mix)
    return list(found.values())


def _by_section(core: str) -> list[list[Form]]:
    known = port_model.costs(core)
    found: dict[str, dict[str, Form]] = {}
    for row in rows():
        each = form(row.section, row.name)
        rate = row.per_cycle[core]
        if each and each.asm in known and rate and rate >= _LEAST_PER_CYCLE and _usable(row.section, each):
            found.setdefault(row.section, {}).setdefault(each.asm, each)
    return [list(section.values()) for section in found.values()]


def _usable(section: str, found: Form) -> bool:
    """Leaves out what the mixes do not have, and ways between the banks: the table has the sums of two."""
    if any(word in section for word in _SECTIONS_WITHOUT) or "N" in found.roles or " ." in found.asm:
        return False
    banks = {is_vector(found, role) for role in found.roles}
    one_bank = len(banks) == 1 or in_memory(found)
    return (
        bool(found.roles)
        and one_bank
        and found.asm.count("{") - found.asm.count("{{") * 2 == len(found.roles)
    )


def _mix(rng: random.Random, by_section: Sequence[Sequence[Form]], kind: str) -> Mix:
    several = 1 if kind == "chains" else rng.randint(2, 8)
    forms = [rng.choice(rng.choice(by_section)) for _ in range(several)]
    maker = _Maker(rng, rng.randint(1, _MOST_CARRIED))
    length = rng.randint(_SHORTEST, _LONGEST)
    chained = {"independent": 0.0, "mixture": rng.random()}.get(kind, 1.0)
    recent = rng.random() if kind == "mixture" else 0.0
    loads = rng.random() < 0.25 and kind in KINDS[2:]
    while len(maker.made) < length:
        on_chain = rng.random() < chained
        if on_chain and loads and len(maker.made) + 2 <= length and rng.random() < 0.2:
            maker.load_on_chain()
        else:
            maker.add(rng.choice(forms), on_chain, rng.random() < recent)
    return Mix(kind, tuple(maker.made))


class _Maker:
    """Writes instructions; ``carried`` registers of each bank carry results on."""

    def __init__(self, rng: random.Random, carried: int) -> None:
        self.made: list[Instruction] = []
        self._rng, self._carried = rng, carried
        self._next = {"v": 0, "x": 0}
        self._recent: dict[str, list[int]] = {"v": [], "x": []}

    def add(self, found: Form, on_chain: bool, from_recent: bool) -> None:
        """One that carries a result on, where it can, or one that writes another register."""
        numbers = constants(found)
        targets = [role for role in found.roles if role[0] in "dDe"]
        sources = [role for role in numbers if not role[1:] and not (in_memory(found) and role in "nm")]
        if from_recent and sources:
            self._read_recent(found, numbers, sources)
        ways = [role for role in sources if targets and self._same_bank(found, role, targets[0])]
        if on_chain and len(targets) == 1 and (ways or targets[0] == "D"):
            numbers |= self._on_chain(found, targets[0], ways)
        elif targets:
            bank = _bank(found, targets[0])
            first = self._target(bank, len(targets))
            numbers |= {role: first + at for at, role in enumerate(targets)}
            self._recent[bank] = [*self._recent[bank], first][-4:]
        self._write(found, numbers)

    def load_on_chain(self) -> None:
        """A load from an address that a carried result tells."""
        carried = self._carry("x")
        self._write(Form(_MASK), {"d": carried, "n": carried})
        self._write(Form(_LOAD), {"d": carried, "n": ZEROS, "m": carried})

    def _on_chain(self, found: Form, target: str, ways: Sequence[str]) -> dict[str, int]:
        carried = self._carry(_bank(found, target))
        if target == "D":
            return {"D": carried}
        enters = [role for role in ways if role in found.enters] or ways
        return {target: carried, self._rng.choice(enters): carried}

    def _read_recent(self, found: Form, numbers: dict[str, int], sources: Sequence[str]) -> None:
        role = self._rng.choice(sources)
        several = any(other != role and other[0] == role for other in numbers)
        recent = self._recent[_bank(found, role)]
        choices = [number for number in recent if number < 16 or "v{m}.h[" not in found.asm]
        if choices and not several:
            numbers[role] = self._rng.choice(choices)

    def _carry(self, bank: str) -> int:
        return _CARRIED[bank] + self._rng.randrange(self._carried)

    def _target(self, bank: str, count: int) -> int:
        free = _FREE[bank]
        if self._next[bank] + count > len(free):
            self._next[bank] = 0
        first = free[self._next[bank]]
        self._next[bank] += count
        return first

    @staticmethod
    def _same_bank(found: Form, role: str, other: str) -> bool:
        return is_vector(found, role) == is_vector(found, other)

    def _write(self, found: Form, numbers: dict[str, int]) -> None:
        text = found.asm.replace(_MASK, _MASKED).format(**numbers)
        self.made.append(Instruction(found, numbers, text))


def _bank(found: Form, role: str) -> str:
    return "v" if is_vector(found, role) else "x"
