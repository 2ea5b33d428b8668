"""The pipes of a core whose instructions have measured prices, and what a line of the clock's table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

TICKS = 240
"""A cycle's (``worker/agent/simulation_page.h``)."""


@dataclass(frozen=True)
class Core:
    """A core's pipes: ``pipes`` has for each group of pipes how many there are, ``within`` the groups that
    contain another one. ``width`` is instructions a cycle, with ``split`` pieces of 64 bits that they write,
    ``window`` those in flight (0: they begin in their order), ``queues`` how many wait for each pipe where
    they are not as many as like, ``taken`` the cycles that a jump takes at least, to one place, back to a
    caller, on a condition, by register and as a call by register, ``guess`` those of a wrong guess. ``zero``
    is the integer register that nothing waits for. ``kinds`` has the group of all pipes of a kind (a field of
    ``SimModel``), ``times`` how many times as many of a group there are as were measured."""

    width: int
    window: int
    taken: tuple[float, float, float, float, float]
    guess: float
    pipes: Mapping[str, int]
    within: Mapping[str, tuple[str, ...]]
    split: bool = False
    queues: Mapping[str, int] = field(default_factory=dict)
    zero: int = 31
    kinds: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)

    def changed(self, width: int, pipes: Iterable[tuple[str, int]]) -> Core:
        """With another width, unless it is 0, and as many pipes of each kind as ``pipes`` says."""
        times: dict[str, float] = {}
        for kind, count in pipes:
            group = self.kinds[kind]
            parts = (name for name in self.pipes if group in (name, *self.within.get(name, ())))
            times.update(dict.fromkeys(parts, count / self.pipes[group]))
        return replace(self, width=width or self.width, times=times)

    def use(self, pipes: str, per_cycle: float, pieces: int = 1) -> list[int]:
        """Ticks of each resource, the front end first, that an instruction takes that writes ``pieces``."""
        taken = dict.fromkeys(self.pipes, 0.0)
        for group in pipes.split("+"):
            name, _, slots = group.partition("*")
            # With a number of slots, that many of the group; else what its measured rate leaves to others.
            cycles = float(slots) / self.pipes[name] if slots else 1 / per_cycle
            for each in (name, *self.within.get(name, ())):
                taken[each] += cycles * self.pipes[name] / self.pipes[each]
        return [
            TICKS * (pieces if self.split else 1) // self.width,
            *(round(TICKS * taken[name] / self.times.get(name, 1)) for name in taken),
        ]

    def head(self) -> Iterator[str]:
        """The first lines of its table (``worker/simclock/prices.h``)."""
        yield " ".join(("resources", "D", *self.pipes))
        yield f"window {self.window}"
        if self.queues:
            yield " ".join(["queues 0", *(str(self.queues.get(name, 0)) for name in self.pipes)])
        numbers = {name: number for number, name in enumerate(self.pipes, 1)}
        for group in self.pipes:
            members = [name for name in self.queues if group in self.within.get(name, ())]
            if members:
                yield " ".join(["either", *(str(numbers[name]) for name in (group, *members))])
        yield " ".join(["taken 0", *(str(round(TICKS * cycles)) for cycles in self.taken)])
        yield f"guess {round(TICKS * self.guess)}"
        yield f"zero {self.zero}"

    def line(
        self,
        row: Mapping[str, str],
        pipes: str,
        per_cycle: float,
        ticks: Iterable[int],
        measured: bool = True,
    ) -> str:
        """Of an instruction: ``ticks`` are those of its result, and of that to an accumulator."""
        words = [row["mask"], row["value"], *ticks, row["family"], row["loads"], row["stores"]]
        words += [*self.use(pipes, per_cycle, int(row.get("pieces", 1))), ":", row["operands"]]
        return " ".join(map(str, ["price" if measured else "other", *words]))
