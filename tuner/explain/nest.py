"""The lines that show a loop nest: loops with their turns, straight code in one line, copies folded up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kernels.explain.loop_nest import Access, Body, Branch, Loop, Nest, Node, Straight, walk
from kernels.explain.nest_work import Work


@dataclass(frozen=True)
class NestLine:
    """One line at a depth. ``moves`` are the buffers whose place depends on the loop, ``share`` the part of
    all multiply-adds that happens inside, None where there are none; ``hot`` marks the line with most."""

    depth: int
    text: str
    moves: tuple[str, ...] = ()
    share: float | None = None
    hot: bool = False


def nest_lines(nest: Nest, work: Work, hot: Straight | None) -> list[NestLine]:
    """All lines of a nest."""
    return list(_Lines(nest, work, hot).of(nest.body, 0))


class _Lines:
    def __init__(self, nest: Nest, work: Work, hot: Straight | None) -> None:
        self.work, self.hot = work, hot
        self.products = sum(work.products(node) for node in nest.body)

    def of(self, body: Body, depth: int) -> Iterator[NestLine]:
        """The lines of a body; neighbours that fold to the same text are one line."""
        last = None
        for node in body:
            for line in self._node(node, depth):
                if line != last:
                    yield line
                last = line

    def _node(self, node: Node, depth: int) -> Iterator[NestLine]:
        if isinstance(node, Loop):
            yield from self._loop(node, depth)
        elif isinstance(node, Branch):
            yield from self._branch(node, depth)
        elif text := straight_text(node):
            yield NestLine(depth, text, (), self._share(node), node is self.hot)

    def _loop(self, loop: Loop, depth: int) -> Iterator[NestLine]:
        turns = self.work.turns.get(loop)
        if turns is None or turns == {0}:
            return
        if turns == {1}:
            yield from self.of(loop.body, depth)
            return
        share, head = self._share(loop), loop_text(loop, self.work)
        if share is None and len(_written((loop,))) == 1:
            yield NestLine(depth, f"{head}: {self._folded(loop)}")
            return
        moves = {access.buffer for access in _accesses(loop.body) if loop.number in access.index.uses}
        yield NestLine(depth, head, tuple(sorted(moves)), share)
        yield from self.of(loop.body, depth + 1)

    def _branch(self, branch: Branch, depth: int) -> Iterator[NestLine]:
        parts = ((f"if {plain(branch.condition.text)}", branch.then), ("else", branch.otherwise))
        if not branch.then:
            parts = ((f"unless {plain(branch.condition.text)}", branch.otherwise), ("", ()))
        for head, body in parts:
            lines = list(self.of(body, depth + 1))
            if len(lines) == 1:
                yield NestLine(depth, f"{head}: {lines[0].text}", (), lines[0].share, lines[0].hot)
            elif lines:
                yield NestLine(depth, head)
                yield from lines

    def _folded(self, loop: Loop) -> str:
        """What a loop without multiply-adds does, in all its runs: from where to where."""
        pieces = [piece for piece in walk((loop,)) if isinstance(piece, Straight)]
        written, read = _written((loop,)), {a.buffer for a in _accesses((loop,)) if not a.written}
        elements = sum(
            self.work.runs[piece] * access.lanes
            for piece in pieces
            for access in piece.accesses.values()
            if access.written
        )
        others = sum(self.work.runs[piece] * sum(piece.others.values()) for piece in pieces)
        sources = ", ".join(sorted(read - written))
        text = f"{sources} -> {', '.join(written)}" if sources else f"{', '.join(written)} cleared"
        text += f", {elements:,} elements"
        return f"{text}, {others:,} vector operations" if others else text

    def _share(self, node: Node) -> float | None:
        products = self.work.products(node)
        return products / self.products if products else None


def loop_text(loop: Loop, work: Work) -> str:
    """``for a in 16``; a range where some turns are fewer than others."""
    turns = sorted(work.turns.get(loop, {0}))
    count = f"{turns[0]}" if len(turns) == 1 else f"{turns[0]}..{turns[-1]}"
    kind = "" if loop.kind == "serial" else f"{loop.kind} "
    return f"{kind}for {loop.name} in {count}"


def straight_text(piece: Straight) -> str:
    """What straight code does, in one line."""
    parts = [
        f"{count} {what}{'s' if count > 1 else ''}{f' of {lanes} lanes' if lanes > 1 else ''}"
        for what, counts in (("multiply-add", piece.multiply_adds), ("operation", piece.others))
        for lanes, count in sorted(counts.items())
    ]
    parts += [f"{count} {name}" for name, count in sorted(piece.calls.items())]
    for verb, written in (("reads", False), ("writes", True)):
        groups = Counter((a.buffer, a.lanes) for a in piece.accesses.values() if a.written == written)
        if groups:
            each = [
                f"{count}{f'x{lanes}' if lanes > 1 else ''} {name}" for (name, lanes), count in groups.items()
            ]
            parts.append(f"{verb} {', '.join(each)}")
    return "; ".join(parts)


def plain(text: str) -> str:
    """An expression without the brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def _accesses(body: Iterable[Node]) -> Iterator[Access]:
    for node in walk(tuple(body)):
        if isinstance(node, Straight):
            yield from node.accesses.values()


def _written(body: Body) -> set[str]:
    return {access.buffer for access in _accesses(body) if access.written}
