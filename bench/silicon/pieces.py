"""How many pieces of 64 bits an instruction writes, to vector registers and to memory.

An A72 renames and dispatches those: three a cycle. The table of instructions shows it: what writes 64 bits of
a vector runs twice a cycle in its two pipes (ADDHN2, which writes the upper half, too), what writes 128 bits
of one at most 1.5 times, from whatever sources (SADDL); LD2R takes 5/3 of a cycle, LD3R 7/3, LD4R of words
10/3. A store of 128 bits takes two cycles of its pipe.
"""

from __future__ import annotations

import re

from bench.silicon.forms.form import WHOLE, Form

_REGISTER = re.compile(r"(?P<bank>[xwvqdshb])\{(?P<role>[a-zA-Z])\d*\}(?:\.(?P<elements>\w+))?")
_BYTES = {"q": 16, "x": 8, "d": 8, "w": 4, "s": 4, "h": 2, "b": 1}


def pieces(found: Form) -> int:
    """Count the pieces of 64 bits that it writes or stores, and a base that it moves; at least one."""
    written = stored = 0
    for each in _REGISTER.finditer(found.asm):
        bank, role = each["bank"], each["role"]
        elements = each["elements"] or bank
        size = 16 if elements in WHOLE.values() else _BYTES.get(elements, 8)
        if role in "sS":
            stored += size
        elif role == "N" or (role in "dDeM" and bank not in "xw"):
            written += 2 if size == 16 else 1
    if found.mnemonic.endswith("n2") and found.mnemonic != "trn2":
        return 1  # a narrower result goes to the upper half
    return max(1, written - -stored // 8)
