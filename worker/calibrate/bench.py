"""A board, asked what a turn of a kernel takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernels.target import Target
from worker.build.build import ENTRY
from worker.calibrate.kernel import BYTES, OUT
from worker.measure import plausible

_REPEATS, _COLD_REPEATS = 25, 5
_OF_MEMORY = ("walk", "burst", "read", "write")
_COLD = "cache_flush_cpu_non_first_arg"
_LONG_S = 1e-3
"""Of a timing by a clock of the wall, for what a call takes to be nothing; short enough that some repeats are
not disturbed."""


@dataclass(frozen=True)
class Turn:
    """What a turn of a kernel takes, and how far from the least repeat the median was, as part of that.
    ``instructions`` are 0 where nothing counts them."""

    seconds: float
    spread: float
    instructions: float = 0.0


class Bench:
    """``paths`` are the built kernels. ``hz`` makes cycles of seconds; it is 1 until it is known.

    Only inside a child, with a session of its own. ``stats`` are the agent's, None of TVM's own server.
    """

    def __init__(
        self,
        session: Any,
        paths: Mapping[str, str],
        target: Target,
        words: int,
        stats: Callable[[], dict[str, Any]] | None,
        said: Callable[[], None],
    ) -> None:
        import numpy as np
        from tvm.runtime import tensor

        self.target, self.words, self.hz = target, words, 1.0
        self._stats, self._said = stats, said
        self.simulated = bool(stats and stats()["simulated"])
        self._session, self._device, self._paths = session, session.cpu(0), dict(paths)
        self._modules: dict[str, Any] = {}
        self._tensor: Callable[[Any], Any] = lambda array: tensor(array, self._device)
        self._list = self._tensor(np.zeros(words, np.int64))
        self._bytes = self._tensor(np.zeros(BYTES, np.uint8))
        self._out = self._tensor(np.zeros(OUT, np.int32))

    def link(self, order: Any) -> None:
        """Make a list of the elements that ``order`` names."""
        self._module("link")[ENTRY](self._tensor(order), self._list)

    def turn(self, kernel: str, turns: int, other: int = 1) -> Turn:
        """What one of ``turns`` takes.

        On a simulated board that is the difference of as many and twice as many. By a clock of the wall the
        difference of two times that others lengthened may be anything; there as many times more are done as
        make a call nothing beside them, and what others do can only add.
        """
        if not self.simulated:
            alone = self._timed(kernel, turns, other)[0]
            turns *= max(1, round(_LONG_S / max(alone, 1e-9)))
            seconds, spread = self._timed(kernel, turns, other)
            return Turn(seconds / turns, spread)
        few = self._timed(kernel, turns, other)
        before = self._instructions()
        many = self._timed(kernel, 2 * turns, other)
        seconds = max(many[0] - few[0], 1e-15)
        return Turn(seconds / turns, 0.0, (self._instructions() - before) / turns)

    def cold(self, kernel: str, first: int, other: int) -> float:
        """Seconds of a call with these two numbers, where no cache has the list."""
        return self._timed(kernel, first, other, _COLD)[0]

    def cycles_a_second(self, kernel: str) -> float:
        """What a simulated board's clock says, which counts whole cycles."""
        assert self._stats is not None  # nothing else is simulated
        seconds = self._timed(kernel, 50_000, 1)[0]
        return float(f"{self._stats()['cycles'] / seconds:.5g}")

    def _instructions(self) -> float:
        """Those of the last timing, on a simulated board."""
        return float(self._stats()["instructions"]) if self._stats and self.simulated else 0.0

    def _timed(self, kernel: str, first: int, other: int, before: str = "") -> tuple[float, float]:
        """The least seconds, and how far from it the median is, as part of it."""
        import numpy as np

        self._said()
        given = self._tensor(np.array([first, other], np.int32))
        timer = self._module(kernel).time_evaluator(
            ENTRY,
            self._device,
            number=1,
            repeat=1 if self.simulated else _COLD_REPEATS if before else _REPEATS,
            f_preproc=before,
        )
        started = time.perf_counter()
        list_ = self._list if kernel in _OF_MEMORY else self._bytes
        results = timer(given, list_, self._out).results
        spent = plausible.LONGEST_S if self.simulated else time.perf_counter() - started
        found = plausible.times(results, 0.0, spent)
        return min(found), statistics.median(found) / min(found) - 1

    def _module(self, kernel: str) -> Any:
        if kernel not in self._modules:
            file = f"{kernel.replace(' ', '-')}.so"
            self._session.upload(self._paths[kernel], target=file)
            self._modules[kernel] = self._session.load_module(file)
        return self._modules[kernel]
