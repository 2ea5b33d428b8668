"""What loops take on a core that waits for sources alone, each instruction as long as the table has it."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter

from bench.silicon.encode import assembled, encodings
from bench.silicon.forms.form import Form
from bench.silicon.forms.sections import form
from bench.silicon.loops import Loop, is_vector
from bench.silicon.table import rows

Register = tuple[str, int]
PLACES = {"d": 0, "D": 0, "s": 0, "n": 5, "N": 5, "a": 10, "e": 10, "S": 10, "m": 16, "M": 16}
"""The lowest bit of each role."""
Encoding = tuple[int, int]
MOVES = (
    Form("fmov d{d}, x{n}"),
    *(
        Form(f"{word}, v{{n}}.{lane}", 31 << 16)
        for word, lane in (("mov x{d}", "d[0]"), ("mov w{d}", "s[0]"))
    ),
    *(Form(f"{word} w{{d}}, v{{n}}.{lane}[0]") for word in ("smov", "umov") for lane in "bh"),
    Form("smov x{d}, v{n}.s[0]"),
    Form("fmov x{d}, v{n}.d[1]"),
)
"""Those to a vector register and from one of which the table has no row of their own."""
TURNS = 40


class Dataflow:
    """``core``'s latencies; ``there`` is that of FMOV to a vector register, ``back`` that of a move from one.

    Rows whose results go from one bank to the other have half of two moves taken off that are not those
    which lead back: what is left of it belongs to the instruction.
    """

    def __init__(self, core: str, there: float, back: float) -> None:
        self._latency: dict[Encoding, float] = {}
        self._to: dict[tuple[Encoding, str], float] = {}
        measured = [
            (row, found) for row in rows() if (found := form(row.section, row.name)) and not _alike(found)
        ]
        pair = next(row.latency[core] or 0.0 for row, _ in measured if row.name == "mov.d (v.d[0] <-> x)")
        forms = [*(found for _, found in measured), *MOVES]
        self._forms = sorted(
            zip(encodings(forms), forms, strict=True), key=lambda each: -each[0][0].bit_count()
        )
        for (row, found), key in zip(measured, encodings(forms), strict=False):
            latency = row.latency[core]
            if latency is None:
                continue
            if found.forward:
                self._to[key, found.enters] = latency
            elif found.leaves in {"e", "N"}:
                self._to[key, found.leaves] = latency
            elif found.back:
                self._latency[key] = latency - back
            else:
                crosses = len({is_vector(found, role) for role in found.roles}) == 2 and "[x" not in found.asm
                more = 0.0
                if crosses and found.mnemonic == "dup":
                    more = pair / 2 - back
                elif crosses and not is_vector(found, "d"):
                    more = (there + back + 1) / 2 - (pair - back)
                self._latency.setdefault(key, latency + more)
        moves = encodings(MOVES)
        self._latency |= {key: there if number == 0 else back for number, key in enumerate(moves)}

    def cycles(self, loops: Sequence[Loop]) -> dict[Loop, float]:
        """Of a step of each loop."""
        words = iter(assembled(line for loop in loops for line in loop.lines))
        return {
            loop: self._steady([self._decoded(next(words)) for _ in loop.lines]) / loop.steps
            for loop in loops
        }

    def _decoded(self, word: int) -> tuple[Encoding, Form, dict[str, Register]]:
        key, found = next(pair for pair in self._forms if word & pair[0][0] == pair[0][1])
        registers = {}
        for role in found.roles:
            number = (word >> PLACES[role[0]] & 31) + int(role[1:] or 0)
            if role == "m" and "v{m}.h[" in found.asm:
                number &= 15
            registers[role] = ("v" if is_vector(found, role) else "x", number % 32)
        return key, found, registers

    def _steady(self, lines: Sequence[tuple[Encoding, Form, dict[str, Register]]]) -> float:
        """Cycles of a turn once the start is over."""
        ready: dict[Register, float] = {}
        ends = []
        for _ in range(TURNS):
            for line in lines:
                self._execute(*line, ready)
            ends.append(max(ready.values()))
        return (ends[-1] - ends[TURNS // 2 - 1]) / (TURNS // 2)

    def _execute(
        self, key: Encoding, each: Form, registers: dict[str, Register], ready: dict[Register, float]
    ) -> None:
        latency, flags = self._latency.get(key, 1.0), ("flags", 0)
        start = ready.get(flags, 0.0) if each.reads_flags else 0.0
        for role, register in registers.items():
            if role[0] not in "de":
                early = latency - self._to.get((key, role), latency) if role in "Da" else 0.0
                start = max(start, ready.get(register, 0.0) - early)
        for role, register in registers.items():
            if role[0] in "dDeMN":
                ready[register] = start + (self._to.get((key, role), latency) if role in "eN" else latency)
        if each.writes_flags:
            ready[flags] = start + latency


def _alike(found: Form) -> bool:
    """Whether a register is there twice: such a row has the encoding of another one."""
    roles = [role for _, role, _, _ in Formatter().parse(found.asm) if role]
    return len(roles) > len(set(roles))
