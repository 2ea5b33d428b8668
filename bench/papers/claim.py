"""What a paper claims, and the row that it becomes beside our own figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.papers.reports import Missing, Reports

SIMULATED, WALL, CACHES, NONE = "simulated", "processor time", "valgrind's caches", "none"
"""Clocks: of a simulated board, of this machine, what counts misses, and where nothing is timed."""


@dataclass(frozen=True)
class Claim:
    """One claim; ``figure`` makes ours, a number or a word, or raises Missing.

    ``paper_figure`` is as the paper has it, ``command`` what makes ours.
    """

    paper: str
    claim: str
    paper_figure: str
    unit: str
    target: str
    clock: str
    command: str
    figure: Callable[[Reports], float | str]

    def row(self, reports: Reports) -> dict[str, Any]:
        """The claim with ``our_figure``, which is None where ``note`` says why."""
        try:
            ours: float | str | None = self.figure(reports)
            note = reports.note()
        except Missing as reason:
            ours, note = None, str(reason)
        except Exception as error:  # a row that fails must not take the rest of the table with it
            ours, note = None, f"failed: {type(error).__name__}: {str(error).splitlines()[-1:]}"
        names = ("paper", "claim", "paper_figure", "unit", "target", "clock", "command")
        return {name: getattr(self, name) for name in names} | {"our_figure": ours, "note": note}


def absent(why: str) -> Callable[[Reports], float | str]:
    """A figure that nobody can make yet, and why."""

    def figure(_: Reports) -> float | str:
        raise Missing(why)

    return figure
