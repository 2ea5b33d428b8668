"""The caches and the memory of a board: sizes, ways, lines, latencies, streams, misses under way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from worker.calibrate.bench import Bench, Turn
from worker.calibrate.figure import Figure
from worker.calibrate.kernel import WORD
from worker.calibrate.levels import capacity, fewest, levels, rising, ways
from worker.calibrate.lists import SPACING_BYTES, by_page, paired, scattered
from worker.calibrate.memory_kernels import APART_BYTES, BLOCK_BYTES, BURSTS, STRIDE_BYTES

_LEAST_BYTES = 4096
_LEAST_STEPS = 4096
_NOISE, _EXACT = 0.25, 0.08
"""By how much more a step takes that comes from elsewhere: by a clock of the wall, and by a simulated one."""
_TIMES_CACHE = 4
_PARTS = 32
_MOST_MISSES = 64
_NAMES = ("l1", "l2", "l3")
_LINES = (32, 64, 128, 256)


class Memory:
    """What is found of a board's memory, up to a size of ``most`` bytes."""

    def __init__(self, bench: Bench, most: int) -> None:
        self._bench, self._most = bench, most
        self._spreads: dict[int, float] = {}
        curve = [(size, self._step(size)) for size in _sizes(most)]
        self.levels = fewest(levels(curve, _EXACT if bench.simulated else _NOISE), len(_NAMES) + 1)
        self.sizes = [capacity(level, beyond.step, self._step) for level, beyond in pairwise(self.levels)]
        self.line_bytes = 0

    def figures(self) -> Iterator[Figure]:
        """All of them; a simulated board's are pure of anything else."""
        yield Figure(
            "l1 load",
            self.levels[0].step,
            "cycles",
            "a list in the first cache; no figure of a board",
            0,
            False,
        )
        if not self.sizes:
            yield Figure("l1_bytes", None, "bytes", f"no step in the times of lists up to {self._most} bytes")
            return
        yield from self._caches()
        yield self._line()
        yield from self._latencies()
        yield from self._streams()
        yield self._misses()

    def _caches(self) -> Iterator[Figure]:
        for name, size, (level, beyond) in zip(_NAMES, self.sizes, pairwise(self.levels), strict=False):
            how = "the largest list that does not take longer, to an eighth of a power of two"
            yield Figure(f"{name}_bytes", size, "bytes", how, self._spreads.get(level.inside, 0.0))
            more = max(1, size // _PARTS // SPACING_BYTES) * SPACING_BYTES
            step = self._cycles(self._walked(by_page(size + more)))
            found = ways(level, beyond.step, step, size / more)
            yield self._ways(f"{name}_ways", size, found)

    def _ways(self, name: str, size: int, found: float) -> Figure:
        how = "how many lines a list loses that is a little longer than the cache"
        whole = max(1, round(found))
        sets, rest = divmod(size, whole * _LINES[0])
        if abs(found - whole) < 0.25 and whole <= _PARTS and not rest and not sets & (sets - 1):
            return Figure(name, whole, "", how)
        why = f"{found:.1f}, so what is dropped is not what was used longest ago"
        return Figure(name, None, "", f"kept: {how} says {why}")

    def _line(self) -> Figure:
        """Where the second of two neighbours is there, a step takes the mean of both levels."""
        first, second = self.levels[0].step, self.levels[1].step
        size = self._inside(1)
        steps = rising([self._cycles(self._walked(paired(size, length))) for length in _LINES])
        near = [length for length, step in zip(_LINES, steps, strict=True) if step < (first + 3 * second) / 4]
        if not near:
            return Figure("line_bytes", None, "bytes", "kept: no neighbour comes along, not within 32 bytes")
        self.line_bytes = near[-1]
        return Figure("line_bytes", self.line_bytes, "bytes", "neighbours that come together")

    def _latencies(self) -> Iterator[Figure]:
        names = [f"{name}_cycles" for name in _NAMES[1 : len(self.levels) - 1]] + ["memory_cycles"]
        for name, level in zip(names, self.levels[1:], strict=False):
            spread = self._spreads.get(level.inside, 0.0)
            yield Figure(
                name,
                level.step - self.levels[0].step,
                "cycles",
                f"a list through up to {level.inside} bytes, less a load from the first cache",
                spread,
            )

    def _streams(self) -> Iterator[Figure]:
        line = self.line_bytes or 64
        inner: dict[str, float] = {}
        names = ["l1", *_NAMES[1 : len(self.levels) - 1], "memory"]
        for number, name in enumerate(names):
            size = self._power_inside(number)
            blocks = size // BLOCK_BYTES
            for kernel in ("read", "write"):
                turn = self._bench.turn(kernel, max(_LEAST_STEPS, blocks), blocks - 1)
                a_line = self._cycles(turn) * line / BLOCK_BYTES
                gbs = line / (a_line / self._bench.hz) / 1e9
                yield Figure(f"{name} {kernel}", gbs, "GB/s", f"vectors, {size} bytes", turn.spread, False)
                inner.setdefault(kernel, a_line)
                if kernel == "read" and number:
                    how = "lines read one after another, less the same in the first cache"
                    more = max(a_line - inner[kernel], 0.0)
                    yield Figure(f"{name}_stream_cycles", more, "cycles", how, turn.spread)

    def _misses(self) -> Figure:
        """How many loads wait for memory together: one more takes a latency longer, or each a part of it."""
        latency = self.levels[-1].step - self.levels[0].step
        room = self._most - _MOST_MISSES * STRIDE_BYTES - BURSTS * APART_BYTES
        times: list[float] = []
        start = 0
        for count in range(1, _MOST_MISSES + 1):
            times.append(self._bench.cold("burst", count, start // WORD) * self._bench.hz / BURSTS)
            start = (start + BURSTS * STRIDE_BYTES) % room // STRIDE_BYTES * STRIDE_BYTES
            if self._bench.simulated and times[-1] - times[max(0, count - 2)] > latency / 2:
                break
        times = rising(times)
        for count, (before, after) in enumerate(pairwise(times), 1):
            if after - before > latency / 2:
                return Figure("in_flight", count, "", "loads that miss; one more takes a latency longer")
        each = (times[-1] - times[_MOST_MISSES // 2 - 1]) / (_MOST_MISSES // 2)
        if each * _MOST_MISSES < latency:
            how = f"kept: {_MOST_MISSES} loads that miss take no latency longer"
            return Figure("in_flight", None, "", how)
        return Figure("in_flight", latency / each, "", "a latency by what each more of many loads takes")

    def _inside(self, number: int) -> int:
        """A size that lies in a cache and in none before it."""
        low, high = self.sizes[number - 1], (*self.sizes, self._most)[number]
        return max(int((low * high) ** 0.5), low * 3 // 2) // 4096 * 4096

    def _power_inside(self, number: int) -> int:
        """A power of two of bytes that lies in a level and in none before it, if there is one."""
        if number == 0:
            return 1 << self.sizes[0].bit_length() - 2
        if number == len(self.sizes):
            return 1 << min(self._most, _TIMES_CACHE * self.sizes[-1]).bit_length() - 1
        low, high = self.sizes[number - 1], self.sizes[number]
        most = 1 << (high * 3 // 4).bit_length() - 1
        return most if most > low else 1 << high.bit_length() - 1

    def _step(self, size: int) -> float:
        """Cycles of a step of a list through ``size`` bytes."""
        order = scattered(size)
        turn = self._walked(order)
        self._spreads[size] = turn.spread
        return self._cycles(turn)

    def _walked(self, order: Any) -> Turn:
        """What a step of a list takes."""
        self._bench.link(order)
        steps = len(order) - 1
        turn = self._bench.turn("walk", -(-_LEAST_STEPS // steps), int(order[0]))
        return Turn(turn.seconds / steps, turn.spread)

    def _cycles(self, turn: Turn) -> float:
        return turn.seconds * self._bench.hz


def _sizes(most: int) -> list[int]:
    """Every power of two, and half as much again."""
    found, size = [], _LEAST_BYTES
    while size <= most:
        found += [size, size * 3 // 2]
        size *= 2
    return [size for size in found if size <= most]
