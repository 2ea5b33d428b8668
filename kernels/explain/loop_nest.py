"""A PrimFunc's loops as a small tree that can be printed, counted and measured; ``loop_reader`` makes it.

What runs once is left out: a loop of one turn is replaced by its body. Straight code between loops is one
``Straight``: what it reads, writes and computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernels.explain.loop_index import Index


@dataclass(frozen=True)
class Access:
    """``lanes`` consecutive elements of a buffer, read or written."""

    buffer: str
    index: Index
    lanes: int
    written: bool


@dataclass(eq=False)
class Straight:
    """Code without loops. ``multiply_adds`` counts those that add to registers, and instructions that add
    products of integers, by products; ``others`` the rest of the arithmetic; ``accesses`` are those of
    memory, each different one once; ``calls`` the other intrinsics."""

    multiply_adds: Counter[int] = field(default_factory=Counter)
    others: Counter[int] = field(default_factory=Counter)
    accesses: dict[tuple[str, str, int, bool], Access] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)


@dataclass(eq=False)
class Branch:
    """Either of two bodies."""

    condition: Index
    then: Body
    otherwise: Body


@dataclass(eq=False)
class Loop:
    """``for name in range(start, start + extent)``; ``kind`` is serial, parallel, unrolled or vectorised."""

    number: int
    name: str
    start: Index
    extent: Index
    kind: str
    body: Body


Node = Straight | Branch | Loop
Body = tuple[Node, ...]


@dataclass(frozen=True)
class Nest:
    """A function: its loops, the bytes of each buffer in memory and of its elements, what fills the scratch
    buffers (names), and the largest set of accumulators in elements."""

    body: Body
    buffers: dict[str, int]
    widths: dict[str, int]
    filled_from: dict[str, list[str]]
    accumulators: int

    @property
    def scratch(self) -> list[str]:
        """The buffers that are no arguments."""
        return [name for name in self.buffers if name.startswith("scratch")]


def children(node: Node) -> Body:
    """What is directly inside a node."""
    if isinstance(node, Branch):
        return node.then + node.otherwise
    return node.body if isinstance(node, Loop) else ()


def walk(body: Body) -> Iterator[Node]:
    """All nodes, outer before inner."""
    for node in body:
        yield node
        yield from walk(children(node))
