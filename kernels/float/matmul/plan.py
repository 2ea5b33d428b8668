"""How a product of two activations is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div, even
from kernels.float.activations import ActivationPlan
from kernels.float.matmul.blocking import MOST_CHAINS, ROWS, Blocking, Factors, tiles
from kernels.knobs import Block, KnobSet
from kernels.workload.base import MatMul


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``way`` says where columns are read, ``tile`` is the register block of rows and vectors of sums, of
    which ``chains`` take turns along k; ``depth`` is how much of k is packed at a time."""

    way: str
    tile: Block
    chains: int
    depth: int


@dataclass(frozen=True)
class Plan(ActivationPlan[MatMul]):
    """A config's sizes, fitted to the workload."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why no code can be made of it, or it is the same as another's; None when all is well."""
        if self.knobs.way == ROWS and (*self.knobs.tile, self.knobs.chains) != self._first_tile:
            return "what is multiplied element by element has no register blocks"
        if self.knobs.way != "packed" and self.knobs.depth != depths(self.workload.k)[0]:
            return "nothing is packed"
        return self.blocking.why_not()

    @property
    def _first_tile(self) -> tuple[int, int, int]:
        factors = factors_of(self.workload)
        found = (
            Blocking(factors, self.target, ROWS, rows, vectors, chains)
            for rows, vectors in tiles(factors, self.target)
            for chains in range(MOST_CHAINS, 0, -1)
        )
        first = next(each for each in found if each.why_not() is None)
        return first.rows, first.vectors, first.chains

    @cached_property
    def blocking(self) -> Blocking:
        """Its register blocks."""
        factors, knobs = factors_of(self.workload), self.knobs
        return Blocking(factors, self.target, knobs.way, *knobs.tile, chains=knobs.chains)

    @property
    def deepest(self) -> int:
        """How much of k is packed at a time, at most."""
        return max(size for size, _ in even(self.workload.k, self.knobs.depth))

    @property
    def widest(self) -> int:
        """How many columns are packed at a time, at most: half of L2 holds them."""
        width = self.blocking.width
        return max(1, self.target.l2_bytes // 8 // self.deepest // width) * width

    @property
    def splits(self) -> int:
        """Into how many shares the rows of each product are divided, so that every thread has some."""
        parts, batch = self.parts, self.workload.batch
        if batch % parts == 0 or batch >= 4 * parts:
            return 1
        return min(parts, ceil_div(self.workload.m, self.blocking.height))


def factors_of(product: MatMul) -> Factors:
    """One of the products."""
    return Factors(product.m, product.n, product.k, product.a, product.b)


def depths(k: int) -> list[int]:
    """How much of k may be packed at a time, what is to be taken first."""
    found = [512, 256, *([k] if k <= 2048 else [])] if k > 512 else [k, 256]
    return [depth for depth in dict.fromkeys(found) if depth <= k]
