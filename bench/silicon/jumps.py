"""The rows of jumps that are more than one instruction, as loops of their own.

Jumps of the table go to the next instruction, whether they are taken or not; here those that depend on
something go over a NOP, as the clock tells where code goes on by its address. What is random are the bits of
a number that changes every 32 jumps (Marsaglia's xorshift), where the table's source reads memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.silicon.loops import COPIES, Loop

_ADDED = re.compile(r" // add(?: x (\d))?(?: \(chain\))?$")
_ADD = "add x1, x1, x25"
_OVER = ("nop",)
_TAKEN = {
    "cbz (pc+4; taken)": ("cbz x10, .+8", *_OVER),
    "adds -> b.eq (pc+4; taken)": ("adds x11, x10, x10", "b.eq .+8", *_OVER),
    "fcmp -> b.eq (pc+4; taken)": ("fcmp d1, d1", "b.eq .+8", *_OVER),
}
_PASSED = {
    "cbz (pc+4; not taken)": ("cbz x24, .+4",),
    "adds -> b.eq (pc+4; not taken)": ("adds x0, x0, x25", "b.eq .+4"),
    "fcmp -> b.ne (pc+4; not taken)": ("fcmp d1, d1", "b.ne .+4"),
}
_PLAIN = {"b (pc+8)": ("b .+8", *_OVER), "b (pc+4)": ("b .+4",)}
_CALLS = {"bl-ret": "bl 8b", "blr-ret": "blr x2"}
_RANDOM = {
    "and -> cbz": "and x0, x17, #{bit:#x}; cbz x0, .+8; nop",
    "and -> cbnz": "and x0, x17, #{bit:#x}; cbnz x0, .+8; nop",
    "tbz": "tbz x17, #{number}, .+8; nop",
    "tbnz": "tbnz x17, #{number}, .+8; nop",
}
_BITS = 32
_NEXT = (
    "eor x17, x17, x17, lsl #13",
    "eor x17, x17, x17, lsr #7",
    "eor x17, x17, x17, lsl #17",
    "str x17, [x27]",
)
_CLEAR = ("mov x10, xzr",)


def jumps(name: str) -> Loop | None:
    """The loop of a row of the section "Branch"; None where it is a single instruction's, or not known."""
    added = _ADDED.search(name)
    adds = (_ADD,) * (int(added[1] or 1) if added else 0)
    what = name[: added.start()] if added else name
    if what in _CALLS:
        return _call(_CALLS[what], adds)
    if what.endswith(" (pc+4; full random)"):
        return _random(_RANDOM[what.removesuffix(" (pc+4; full random)")], adds)
    if what.startswith("adr -> br"):
        return _by_register(len(adds))
    if name.endswith(" // b (pc+4)"):
        what, adds = name.removesuffix(" // b (pc+4)"), ("b .+4",)
    lines = {**_TAKEN, **_PASSED, **_PLAIN}.get(what)
    alone = what.partition(" ")[0] in {"cbz", "cbnz", "tbz", "tbnz"} or name == "b (pc+4)"
    if lines is None or (alone and not adds):
        return None
    # Without taken jumps the whole loop is one block: few copies keep it within a turn.
    copies = 8 * len((*lines, *adds)) if what in _PASSED else COPIES
    return Loop((*lines, *adds), 1, _CLEAR, copies)


def _call(line: str, adds: Sequence[str]) -> Loop:
    there = (".p2align 7", "8:", *adds, "ret", ".p2align 7", "9:")
    return Loop((line,), 1, ("adr x2, 8f", "b 9f", *there), 64)


def _by_register(adds: int) -> Loop:
    before = (_ADD,) if adds == 2 else ()
    after = (_ADD,) if adds else ()
    return Loop((*before, f"adr x0, .+{8 + 4 * len(after)}", *after, "br x0"), 1)


def _random(text: str, adds: Sequence[str]) -> Loop:
    lines = list(_NEXT)
    for number in range(_BITS):
        lines += [*text.format(bit=1 << number, number=number).split("; "), *adds]
    return Loop(tuple(lines), _BITS, ("ldr x17, [x27]", "movk x17, #0x5678, lsl #32"), 2_000)
