"""How an attention is computed: blocks of its two products, and of the rows whose scores are there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.float.activations import ActivationPlan
from kernels.float.matmul.blocking import MOST_CHAINS, Blocking, Factors
from kernels.knobs import Block, KnobSet
from kernels.target import Target
from kernels.workload.base import Attention, View


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``keys`` and ``values`` say where their columns are read, ``scores`` and ``sums`` are the register
    blocks of the products with them, and ``block`` is of how many rows the scores are there at a time."""

    keys: str
    scores: Block
    values: str
    sums: Block
    block: int


@dataclass(frozen=True)
class Plan(ActivationPlan[Attention]):
    """A config's sizes, fitted to the workload."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why no code can be made of it, or None when it can."""
        return self.scores.why_not() or self.mixed.why_not()

    @property
    def shared(self) -> int:
        """Places of the batch that have keys and values in common."""
        return shared(self.workload)

    @cached_property
    def scores(self) -> Blocking:
        """The product of queries and keys, with all rows that share keys."""
        return chained(scores_of(self.workload), self.target, self.knobs.keys, self.knobs.scores)

    @cached_property
    def mixed(self) -> Blocking:
        """The product of weights and values, whose weights are rows of a workspace."""
        product = mixed_of(self.workload, self.target)
        return chained(product, self.target, self.knobs.values, self.knobs.sums)

    @property
    def pitch(self) -> int:
        """Elements between rows of scores."""
        return pitch(self.workload, self.target)

    @property
    def block(self) -> int:
        """Rows whose scores are there at a time."""
        return min(self.workload.rows, self.knobs.block)

    @property
    def groups(self) -> int:
        """How many keys and values there are."""
        return math.prod(self.workload.extents) // self.shared

    @property
    def splits(self) -> int:
        """Into how many shares the blocks of rows are divided, so that every thread has some."""
        if self.groups % self.parts == 0 or self.groups >= 4 * self.parts:
            return 1
        return min(self.parts, ceil_div(self.workload.rows, self.block))


def shared(what: Attention) -> int:
    """How many of the batch's places, one after another, have keys and values in common."""
    total = 1
    for extent, *strides in reversed(
        list(zip(what.extents, what.keys.batch, what.values.batch, strict=True))
    ):
        if any(strides) and extent > 1:
            break
        total *= extent
    return total


def pitch(what: Attention, target: Target) -> int:
    """Elements between rows of scores, which are whole vectors."""
    return ceil_div(what.count, target.lanes()) * target.lanes()


def scores_of(what: Attention) -> Factors:
    """The product of queries and keys, all rows that share these."""
    return Factors(what.rows * shared(what), what.count, what.depth, what.queries, what.keys)


def mixed_of(what: Attention, target: Target) -> Factors:
    """The product of the scores' exponentials and values."""
    weights = View((), pitch(what, target), 1)
    return Factors(what.rows * shared(what), what.width, what.count, weights, what.values)


def chained(product: Factors, target: Target, way: str, tile: Block) -> Blocking:
    """The blocking with that tile and the most chains that it has use for."""
    for chains in range(MOST_CHAINS, 1, -1):
        blocking = Blocking(product, target, way, *tile, chains=chains)
        if blocking.why_not() is None:
            return blocking
    return Blocking(product, target, way, *tile, chains=1)
