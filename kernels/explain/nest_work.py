"""How often each part of a loop nest runs, and what memory each loop around the hot code touches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernels.explain.loop_nest import Access, Body, Branch, Loop, Nest, Node, Straight, children, walk

Touched = npt.NDArray[np.bool_]


@dataclass
class Work:
    """Exact counts over one call: runs of straight pieces, and how many turns a loop may take at a time."""

    runs: Counter[Straight] = field(default_factory=Counter)
    turns: dict[Loop, set[int]] = field(default_factory=dict)

    def products(self, node: Node) -> int:
        """Multiply-adds (one lane each) of all runs of what is in ``node``."""
        return sum(
            self.runs[piece] * lanes * count
            for piece in walk((node,))
            if isinstance(piece, Straight)
            for lanes, count in piece.multiply_adds.items()
        )


def count(nest: Nest) -> Work:
    """Go through the loops, those that nothing depends on all at once."""
    work = Work()
    inside = {node: _decided_by((node,)) for node in walk(nest.body)}

    def go(body: Body, values: dict[int, int], times: int) -> None:
        for node in body:
            if isinstance(node, Straight):
                work.runs[node] += times
            elif isinstance(node, Branch):
                go(node.then if node.condition.at(values) else node.otherwise, values, times)
            else:
                turns = max(0, node.extent.at(values))
                work.turns.setdefault(node, set()).add(turns)
                if not any(node.number in inside[child] for child in node.body):
                    go(node.body, values, times * turns)
                    continue
                start = node.start.at(values)
                for value in range(start, start + turns):
                    go(node.body, {**values, node.number: value}, times)

    go(nest.body, {}, 1)
    return work


def _decided_by(body: Body) -> frozenset[int]:
    """The loops on which extents and conditions inside depend."""
    uses: frozenset[int] = frozenset()
    for node in walk(body):
        if isinstance(node, Loop):
            uses |= node.extent.uses | node.start.uses
        elif isinstance(node, Branch):
            uses |= node.condition.uses
    return uses


def hot_path(nest: Nest, work: Work) -> tuple[list[Loop], Straight] | None:
    """The loops around the straight piece with the most multiply-adds, outermost first; None without any."""
    best: tuple[int, list[Loop], Straight] | None = None

    def go(body: Body, path: list[Loop]) -> None:
        nonlocal best
        for node in body:
            if isinstance(node, Straight):
                products = work.products(node)
                if products and (best is None or products > best[0]):
                    best = products, path, node
            else:
                go(children(node), [*path, node] if isinstance(node, Loop) else path)

    go(nest.body, [])
    return None if best is None else best[1:]


def working_set(nest: Nest, loop: Loop, line_bytes: int) -> dict[str, int]:
    """Bytes of each buffer that one whole run of ``loop`` touches, in full cache lines.

    The run is the first one: the loops around stand at their start. An index counts as a sum of one term a
    loop, which it is but for windows that cross rows.
    """
    touched = {name: np.zeros(size // nest.widths[name], np.bool_) for name, size in nest.buffers.items()}
    _touch((loop,), [], touched)
    sizes = {}
    for name, elements in touched.items():
        step = line_bytes // nest.widths[name]
        lines = np.add.reduceat(elements, range(0, len(elements), step), dtype=np.int64)
        if used := int(np.count_nonzero(lines)):
            sizes[name] = min(used * line_bytes, nest.buffers[name])
    return sizes


def _touch(body: Body, loops: list[Loop], touched: dict[str, Touched]) -> None:
    for node in body:
        if isinstance(node, Loop):
            _touch(node.body, [*loops, node], touched)
        elif isinstance(node, Branch):
            _touch(node.then + node.otherwise, loops, touched)
        else:
            _touch_straight(node, loops, touched)


def _touch_straight(piece: Straight, loops: list[Loop], touched: dict[str, Touched]) -> None:
    """Accesses of a buffer that move alike are marked together, then moved through every loop."""
    alike: dict[tuple[str, tuple[tuple[int, ...], ...]], list[tuple[int, int]]] = {}
    for access in piece.accesses.values():
        moves = tuple(_moves(access, loop) for loop in loops if loop.number in access.index.uses)
        alike.setdefault((access.buffer, moves), []).append((access.index.at({}), access.lanes))
    for (buffer, moves), places in alike.items():
        marked = np.zeros_like(touched[buffer])
        for at, lanes in places:
            marked[max(0, at) : max(0, at + lanes)] = True
        for offsets in moves:
            marked = _moved(marked, offsets)
        touched[buffer] |= marked


def _moves(access: Access, loop: Loop) -> tuple[int, ...]:
    """How far an access is from its first place at every turn of a loop; a step and a count when even."""
    start, turns = loop.start.at({}), max(1, loop.extent.at({}))
    first = access.index.at({loop.number: start})
    return tuple(access.index.at({loop.number: start + turn}) - first for turn in range(turns))


def _moved(marked: Touched, offsets: tuple[int, ...]) -> Touched:
    """The union of ``marked`` moved by each offset; even steps by doubling."""
    result = marked.copy()
    step = offsets[1] if len(offsets) > 1 else 0
    if all(offset == turn * step for turn, offset in enumerate(offsets)):
        done = 1
        while done < len(offsets):
            more = min(done, len(offsets) - done)
            _mark_moved(result, result.copy(), more * step)
            done += more
        return result
    for offset in offsets[1:]:
        _mark_moved(result, marked, offset)
    return result


def _mark_moved(result: Touched, marked: Touched, by: int) -> None:
    if by >= 0:
        result[by:] |= marked[: len(marked) - by] if by else marked
    else:
        result[:by] |= marked[-by:]
