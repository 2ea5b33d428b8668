"""The assembly of one measured instruction, and the short names that its parts have in the table.

The rows name a vector instruction by its element: ``add.b`` is ``add v0.16b, v1.16b, v2.16b``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Formatter

WHOLE = {"b": "16b", "h": "8h", "s": "4s", "d": "2d", "q": "1q"}
"""Elements of a vector of 128 bits, by one element."""
HALF = {"b": "8b", "h": "4h", "s": "2s", "d": "1d"}
WIDER = {"b": "h", "h": "s", "s": "d", "d": "q"}
NARROWER = {wide: narrow for narrow, wide in WIDER.items()}
LAST_LANE = {"b": 15, "h": 7, "s": 3, "d": 1}
_SHIFT_BITS = {"b": 3, "h": 4, "s": 5, "d": 6}


def words(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


_NAME = re.compile(r"(?P<word>[a-z0-9]+)(?:\.(?P<element>[bhsdq]))?(?: \((?P<notes>.*)\))?(?: / [a-z]+)?")
_FLAGS_READ = words(
    "adc adcs sbc sbcs ngc ngcs csel csinc csinv csneg cset csetm ccmn ccmp fcsel fccmp fccmpe cfinv rmif "
    "setf8 setf16"
)
_FLAGS_WRITTEN = words(
    "adds adcs subs sbcs ands bics negs ngcs tst ccmn ccmp fcmp fcmpe fccmp fccmpe cfinv rmif setf8 setf16 "
    "fjcvtzs"
)


@dataclass(frozen=True)
class Form:
    """An instruction without register numbers.

    ``asm`` is a template for ``str.format``: the letter before a brace is the register's bank, the name
    inside is its role. Roles, and where the encoding has them:

    - bits 0 to 4: ``d`` written, ``D`` read and written, ``s`` read (stored, or what a branch looks at);
    - bits 5 to 9: ``n`` read, ``N`` a base that is read and written;
    - bits 10 to 14: ``a`` read, ``e`` a second result, ``S`` a second one stored;
    - bits 16 to 20: ``m`` read, ``M`` read and written.

    A digit after a role is the register so many after it: ``d1`` is the one after ``d``. A role that is there
    twice is the same register in two places: the row has them alike.
    """

    asm: str
    free: int = 0
    """Bits of immediates (offsets, shift amounts, lanes, conditions) that its price does not depend on."""
    forward: bool = False
    """The row's latency is that to the accumulator of the same instruction."""
    enters: str = ""
    """The roles by which the chain of the row's latency comes in; all that are read when empty."""
    leaves: str = "d"
    """The role, with its digit, by which it goes on; ``d`` stands for ``D`` and ``M``, too."""
    back: str = ""
    """The instruction that leads the chain back: its latency is in the row's."""

    @property
    def mnemonic(self) -> str:
        """Its first word."""
        return self.asm.split()[0]

    @property
    def reads_flags(self) -> bool:
        """Whether its result depends on the flags."""
        return self.mnemonic in _FLAGS_READ or self.mnemonic.startswith("b.")

    @property
    def writes_flags(self) -> bool:
        """Whether what comes after may depend on the flags that it sets."""
        return self.mnemonic in _FLAGS_WRITTEN

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of its registers, each once, in the order of the text."""
        return tuple(dict.fromkeys(role for _, role, _, _ in Formatter().parse(self.asm) if role))

    def bank(self, role: str) -> str:
        """The letter before ``role``: x, w, v, q, d, s, h or b."""
        return self.asm[self.asm.index(f"{{{role}}}") - 1]


@dataclass(frozen=True)
class Name:
    """A row's name in parts: ``smull2.h (elem; [7])`` has the word smull2, the element h, and two notes."""

    word: str
    element: str
    notes: tuple[str, ...]

    @classmethod
    def parsed(cls, text: str) -> Name | None:
        """None when ``text`` is not one instruction."""
        found = _NAME.fullmatch(text)
        if found is None:
            return None
        notes = found["notes"]
        return cls(found["word"], found["element"] or "", tuple(notes.split("; ")) if notes else ())

    @property
    def whole(self) -> str:
        """The element's vector of 128 bits."""
        return WHOLE[self.element]

    @property
    def half(self) -> str:
        """The element's vector of 64 bits."""
        return HALF[self.element]

    @property
    def upper(self) -> bool:
        """Whether it takes or makes the upper half of a vector: ``saddl2``."""
        return self.word.endswith("2")

    @property
    def forward(self) -> bool:
        """Whether the row is one of latencies to the accumulator."""
        return "acc. fwd." in self.notes


def bits(low: int, count: int) -> int:
    """A mask of ``count`` bits from ``low``."""
    return ((1 << count) - 1) << low


def shift_bits(element: str) -> int:
    """Where a vector instruction has its shift amount, by the narrower element."""
    return bits(16, _SHIFT_BITS[element])
