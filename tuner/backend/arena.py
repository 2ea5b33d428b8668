"""Where every temporary of a program lies in one block: those that never live together may share."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.backend.program import Program

ALIGNMENT = 64
"""Of weights, of tensors between functions, and of workspaces, in bytes: what TVM's code counts on."""
TRIES = 300
"""Orders that are tried from each of the first ones where these leave gaps."""
BESIDE = 0.5
"""How often not a block on top is moved, but one that is in use beside it."""
_SEED = 0


@dataclass(frozen=True)
class Block:
    """``bytes`` that are in use from call ``first`` to call ``last``, both included."""

    bytes: int
    first: int
    last: int

    def meets(self, other: Block) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """``bytes`` in all, of which no plan can do with fewer than ``bound``; ``unshared`` is without sharing.

    ``temporaries`` are offsets by the number of the temporary, ``workspaces`` by the number of the call.
    """

    bytes: int
    bound: int
    unshared: int
    temporaries: Mapping[int, int]
    workspaces: Mapping[int, int]


def arena_of(program: Program, workspace: Mapping[str, int]) -> Arena:
    """The arena of a program whose functions want so much ``workspace`` each."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, call in enumerate(program.calls):
        for storage in (*call.writes, *call.reads):
            if storage.kind == "temporary":
                first.setdefault(storage.index, at)
                last[storage.index] = at
    counts = (storage for cut in program.cuts for storage, _ in cut.counts.values())
    for storage in (*(storage for storage, _ in program.copies), *counts):
        if storage.kind == "temporary":
            last[storage.index] = len(program.calls)
    temporaries = [
        (index, Block(_rounded(program.temporaries[index]), first[index], last[index])) for index in first
    ]
    workspaces = [
        (at, Block(_rounded(workspace[call.function]), at, at))
        for at, call in enumerate(program.calls)
        if workspace[call.function]
    ]
    blocks = [block for _, block in (*temporaries, *workspaces)]
    offsets = place(blocks)
    return Arena(
        bytes=_end(blocks, offsets),
        bound=bound(blocks),
        unshared=sum(block.bytes for block in blocks),
        temporaries={index: offset for (index, _), offset in zip(temporaries, offsets, strict=False)},
        workspaces={
            at: offset for (at, _), offset in zip(workspaces, offsets[len(temporaries) :], strict=True)
        },
    )


def bound(blocks: Sequence[Block]) -> int:
    """What is in use at once at the fullest time: no plan can do with less."""
    times = {block.first for block in blocks}
    return max((sum(b.bytes for b in blocks if b.first <= time <= b.last) for time in times), default=0)


def place(blocks: Sequence[Block]) -> list[int]:
    """Offsets of blocks, none over another that is in use at the same time.

    Blocks are put one after the other into the lowest gap that takes them. From each of several orders others
    are tried in which a block on top, or one that is in use beside it, has another place, as long as it ends
    no higher; the lowest of all is kept, and it stops where the bound is met.
    """
    least, meeting = bound(blocks), _meeting(blocks)
    orders = [
        sorted(range(len(blocks)), key=lambda i: (-blocks[i].bytes, blocks[i].first)),
        sorted(range(len(blocks)), key=lambda i: -blocks[i].bytes * (1 + blocks[i].last - blocks[i].first)),
        sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].bytes)),
    ]
    starts = [(order, _fill(blocks, meeting, order)) for order in orders]
    best = min((offsets for _, offsets in starts), key=lambda offsets: _end(blocks, offsets))
    for order, offsets in starts:
        if _end(blocks, best) == least:
            break
        found = _walked(blocks, meeting, order, offsets, least)
        best = min(best, found, key=lambda offsets: _end(blocks, offsets))
    return best


def _walked(
    blocks: Sequence[Block], meeting: list[list[int]], order: Sequence[int], best: list[int], least: int
) -> list[int]:
    """The lowest offsets on the way from ``order``, which gives those of ``best``."""
    chance = random.Random(_SEED)
    for _ in range(TRIES):
        end = _end(blocks, best)
        if end == least:
            break
        moved = chance.choice([i for i, offset in enumerate(best) if offset + blocks[i].bytes == end])
        if meeting[moved] and chance.random() < BESIDE:
            moved = chance.choice(meeting[moved])
        tried = list(order)
        tried.remove(moved)
        tried.insert(chance.randrange(len(tried) + 1), moved)
        offsets = _fill(blocks, meeting, tried)
        if _end(blocks, offsets) <= end:
            order, best = tried, offsets
    return best


def _meeting(blocks: Sequence[Block]) -> list[list[int]]:
    """Of each block, those that are in use at the same time."""
    return [
        [j for j, other in enumerate(blocks) if j != i and block.meets(other)]
        for i, block in enumerate(blocks)
    ]


def _fill(blocks: Sequence[Block], meeting: list[list[int]], order: Sequence[int]) -> list[int]:
    """Offsets of blocks that are placed in ``order``, each as low as it goes."""
    offsets = [-1] * len(blocks)
    for i in order:
        taken = sorted((offsets[j], offsets[j] + blocks[j].bytes) for j in meeting[i] if offsets[j] >= 0)
        at = 0
        for start, end in taken:
            if at + blocks[i].bytes <= start:
                break
            at = max(at, end)
        offsets[i] = at
    return offsets


def _end(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    return max((o + block.bytes for o, block in zip(offsets, blocks, strict=True)), default=0)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
