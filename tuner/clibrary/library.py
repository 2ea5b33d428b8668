"""What a C library is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from compiler.intake.shapes import OpenRange
from kernels.arithmetic import ceil_div
from kernels.open_size import Size
from kernels.target import Target
from tuner.backend.arena import ALIGNMENT, Arena
from tuner.backend.open_products import Shape
from tuner.backend.program import Port, Program
from tuner.backend.turns import ToldTurns
from tuner.clibrary.cpu import Needs
from tuner.clibrary.parallel import Fork
from tuner.clibrary.refusals import Texts, offsets_of, refusals_of
from tuner.clibrary.weights import Weights


@dataclass(frozen=True)
class Loop:
    """A loop that data end: what a turn does, and where in its workspace that lies.

    ``aside`` are the places of results that are put aside, ``number`` that of the turn's number, ``on`` that
    of whether to go on; ``bytes`` is the workspace.
    """

    told: ToldTurns
    arena: Arena
    aside: Mapping[int, int]
    number: int
    on: int
    bytes: int


@dataclass(frozen=True)
class Variant:
    """The model for one kind of processor.

    ``symbols`` are what its functions are called in C, ``forks`` their loops in parallel, ``loops`` those of
    the functions that are loops which data end, inner ones first. Where a size is open, ``lengths`` are what
    each call takes for it.
    """

    target: Target
    program: Program
    arena: Arena
    symbols: Mapping[str, str]
    needs: Needs | None
    forks: tuple[Fork, ...]
    loops: Mapping[str, Loop] = field(default_factory=dict)
    lengths: tuple[Size, ...] = ()

    @cached_property
    def texts(self) -> dict[str, Texts]:
        """What its functions may refuse, of those that do so."""
        return refusals_of(self.program.functions)


@dataclass(frozen=True)
class OpenLength:
    """A size that is left open within ``span``, and the extents of inputs and outputs by it."""

    span: OpenRange
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]


@dataclass(frozen=True)
class Library:
    """A library called ``name``: the first of ``variants`` that a processor can run is run.

    For each processor there are as many of them as there are ``sets`` of shapes, one behind the other.

    ``embed``: the weights are in the archive, not in a file beside it. ``threads`` is how many shares a loop
    in parallel has at the most. ``version`` is Tilefleet's and ``log`` the SHA-256 of the tuning log. Where
    ``open`` is given, the programs are those of the greatest length, and their functions take any.
    """

    name: str
    model: str
    version: str
    log: str
    variants: tuple[Variant, ...]
    weights: Weights
    embed: bool
    threads: int
    sets: int = 1
    open: OpenLength | None = None

    @property
    def which(self) -> str:
        """What its functions take first to know all sizes, ``set`` or ``length``; empty where they do."""
        return "length" if self.open else "set" if self.sets > 1 else ""

    @property
    def declared(self) -> str:
        """That as C declares it, with a comma behind it."""
        return {"length": "size_t length, ", "set": "int set, ", "": ""}[self.which]

    @property
    def handed(self) -> str:
        """That as C hands it on, with a comma behind it."""
        return self.which and f"{self.which}, "

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What the model takes, by the first set of shapes; the same for all processors."""
        return self.variants[0].program.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What it returns, by the first set; where it is counted, there is room for so much."""
        return self.variants[0].program.outputs

    @property
    def ports(self) -> tuple[tuple[tuple[Port, ...], tuple[Port, ...]], ...]:
        """Inputs and outputs by each set of shapes."""
        first = self.variants[: self.sets]
        return tuple((each.program.inputs, each.program.outputs) for each in first)

    @property
    def levels(self) -> tuple[Variant, ...]:
        """A variant for each processor."""
        return self.variants[:: self.sets]

    @property
    def counted(self) -> bool:
        """Whether data decide the size of an output."""
        return bool(self.variants[0].program.cuts)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Behind how many refusals those of each function are."""
        return offsets_of(self._texts, [*self._texts])

    @property
    def refusals(self) -> Texts:
        """All that a run may be refused for, in the order of the codes."""
        return tuple(text for texts in self._texts.values() for text in texts)

    @cached_property
    def _texts(self) -> dict[str, Texts]:
        called = [call.function for variant in self.variants for call in variant.program.calls]
        texts = {name: each for variant in self.variants for name, each in variant.texts.items()}
        return {name: texts[name] for name in dict.fromkeys(called) if name in texts}

    @property
    def prefix(self) -> str:
        """What constants in C begin with."""
        return self.name.upper()

    @property
    def header_bytes(self) -> int:
        """What the arena begins with: where the weights are, when they are in a file, and the extents of
        outputs after a run, when data decide them."""
        extents = ceil_div(8 * self.axes, ALIGNMENT) * ALIGNMENT if self.counted else 0
        return self.extents_at + extents

    @property
    def extents_at(self) -> int:
        """Where in the arena the extents of outputs are."""
        return 0 if self.embed else ALIGNMENT

    @property
    def axes(self) -> int:
        """How many axes all outputs have."""
        return sum(len(port.shape) for port in self.outputs)

    @cached_property
    def arena_bytes(self) -> int:
        """What the caller must provide for a run."""
        most = max(variant.arena.bytes for variant in self.variants)
        return max(ALIGNMENT, self.header_bytes + most)

    @property
    def checks_cpu(self) -> bool:
        """Whether it can tell that a processor is too old."""
        return all(variant.needs is not None for variant in self.variants)
