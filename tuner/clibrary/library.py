"""What a C library is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kernels.target import Target
from tuner.backend.arena import ALIGNMENT, Arena
from tuner.backend.program import Port, Program
from tuner.clibrary.cpu import Needs
from tuner.clibrary.parallel import Fork
from tuner.clibrary.weights import Weights


@dataclass(frozen=True)
class Variant:
    """The model for one kind of processor.

    ``symbols`` are what its functions are called in C, ``forks`` their loops in parallel.
    """

    target: Target
    program: Program
    arena: Arena
    symbols: Mapping[str, str]
    needs: Needs | None
    forks: tuple[Fork, ...]


@dataclass(frozen=True)
class Library:
    """A library called ``name``: the first of ``variants`` that a processor can run is run.

    ``embed``: the weights are in the archive, not in a file beside it. ``threads`` is how many shares a loop
    in parallel has at the most. ``version`` is Tilefleet's and ``log`` the SHA-256 of the tuning log.
    """

    name: str
    model: str
    version: str
    log: str
    variants: tuple[Variant, ...]
    weights: Weights
    embed: bool
    threads: int

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What the model takes; the same for all variants."""
        return self.variants[0].program.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What it returns."""
        return self.variants[0].program.outputs

    @property
    def prefix(self) -> str:
        """What constants in C begin with."""
        return self.name.upper()

    @property
    def header_bytes(self) -> int:
        """What the arena begins with: where the weights are, when they are in a file."""
        return 0 if self.embed else ALIGNMENT

    @cached_property
    def arena_bytes(self) -> int:
        """What the caller must provide for a run."""
        most = max(variant.arena.bytes for variant in self.variants)
        return max(ALIGNMENT, self.header_bytes + most)

    @property
    def checks_cpu(self) -> bool:
        """Whether it can tell that a processor is too old."""
        return all(variant.needs is not None for variant in self.variants)
