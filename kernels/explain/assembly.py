"""The hot loop in a kernel's assembly, and what its instructions do.

LLVM's text for the instruction sets of the catalogue. A loop is what lies between a label and a branch
back to it, on Hexagon between ``loop0(label)``'s label and ``:endloop0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """How one instruction set is read: patterns over an instruction's text.

    ``fused`` are multiply-adds, of floats or of 8- and 16-bit integers. ``stack`` finds an address on the
    stack, ``vector`` a vector register that is loaded or stored. ``widths`` maps a pattern over a
    multiply-add to the bits it works on; the first that fits counts.
    """

    name: str
    fused: re.Pattern[str]
    load: re.Pattern[str]
    store: re.Pattern[str]
    stack: re.Pattern[str]
    vector: re.Pattern[str]
    widths: tuple[tuple[str, int], ...]


_DIALECTS = {
    "x86_64": Dialect(
        "x86-64",
        # Without FMA (x86-64-v2 and older) the multiplication stands for the pair.
        re.compile(r"^(vfn?m(add|sub)\d+[ps]s|v?mul[ps]s|v?pmadd(wd|ubsw)|vpdp\w+)\b"),
        re.compile(r"^(?!lea|nop|prefetch).*\("),
        re.compile(r"^v?mov\w*\s.*,\s*[^,]*\([^()]*\)$"),
        re.compile(r"\(%r[sb]p\b"),
        re.compile(r"%[xyz]mm"),
        ((r"\bv?\w+ss\b", 32), (r"%zmm", 512), (r"%ymm", 256), (r"%xmm", 128)),
    ),
    "aarch64": Dialect(
        "AArch64",
        re.compile(r"^(fml[as]|fn?madd|fn?msub|[su](ml[as]l|mull)2?|[su]m?mla|[su]dot)\b"),
        re.compile(r"^ld"),
        re.compile(r"^st"),
        re.compile(r"\[(sp|x29)\b"),
        re.compile(r" [qdsv]\d"),
        ((r"\.(4s|8h|2d)", 128), (r"\.2s", 64), (r"^(fn?m(add|sub)|[su]mull)", 32)),
    ),
    "arm": Dialect(
        "Arm",
        re.compile(r"^(vfn?m[as]|vn?ml[as]l?|vmull|v[su]dot|v[su]mmla)\b"),
        re.compile(r"^v?(ld|pop)"),
        re.compile(r"^v?(st|push)"),
        re.compile(r"(\[|m\w* )(sp|r11)\b"),
        re.compile(r" \{?[qds]\d"),
        ((r" q\d", 128), (r" d\d", 64), (r" s\d", 32)),
    ),
    "powerpc64le": Dialect(
        "Power",
        re.compile(r"^(xvn?m(add|sub)[am]sp|vmaddfp|xsn?m(add|sub)[am]sp|xvf32ger\w*)\b"),
        re.compile(r"^p?l(xv|xs|v|f|w|d|b|h)"),
        re.compile(r"^p?st"),
        re.compile(r"\(1\)"),
        re.compile(r"^p?(l|st)xv"),
        ((r"^xvf32ger", 512), (r"^xs", 32), (r"^[xv]", 128)),
    ),
    "hexagon": Dialect(
        "Hexagon",
        re.compile(r"[+-]= ?sfmpy\("),
        re.compile(r"= ?mem[bhwd]u?b?\("),
        re.compile(r"^(if ?\(.*\) ?)?mem[bhwd]\(.*\) ?="),
        re.compile(r"\(r(29|30)\b"),
        re.compile(r"mem\(v"),
        ((r"sfmpy", 32),),
    ),
    "riscv64": Dialect(
        "RISC-V",
        re.compile(r"^(vf?w?n?m(acc|add|sac|sub)u?(su|us)?\.v[vfx]|fn?m(add|sub)\.s)\b"),
        re.compile(r"^(f?l[bhwd]u?|vl\w+\.v) "),
        re.compile(r"^(f?s[bhwd]|vs(\d+r|[a-z]*\d+|m)\.v) "),
        # Whole registers without regard to their elements are moved to and from the stack alone.
        re.compile(r"\(sp\)|^v[ls]\d+r\.v"),
        re.compile(r"^v"),
        ((r"^v", 256), (r"^f", 32)),
    ),
}
_LABEL = re.compile(r"^([.\w$]+):$")
_TARGET = re.compile(r"(\.L\w+)\)?(?:,#\d+\))?$")
_ARM32 = re.compile(r"arm(v\d\w*)?")
_STACK_ADDRESS = re.compile(r"add (r\d+|lr), sp, ")
_HARDWARE_LOOP = re.compile(r"\bloop0\((\.L\w+)")


@dataclass(frozen=True)
class HotLoop:
    """The loop's instructions as text and what they are. ``vector_bits`` is how wide a multiply-add is;
    ``spills`` and ``reloads`` are the stores and loads on the stack, ``vector_*`` those of vectors."""

    dialect: str
    lines: tuple[str, ...]
    instructions: int
    multiply_adds: int
    vector_bits: int
    loads: int
    stores: int
    spills: int
    reloads: int
    vector_spills: int
    vector_reloads: int

    def to_json(self) -> dict[str, Any]:
        """The loop as plain JSON values."""
        return {**asdict(self), "lines": list(self.lines)}


def hot_loop(text: str, triple: str, products: int) -> HotLoop | None:
    """The innermost loop that computes most, or None when there is no loop with a multiply-add.

    ``products`` is how many multiply-adds of one lane the hot code of the loop nest has: among the loops that
    compute a multiple of it, which tells sums from transforms, that with the fewest stores wins, then the
    largest. Raises ValueError for an instruction set it cannot read.
    """
    machine = triple.partition("-")[0]
    dialect = _DIALECTS.get("arm" if _ARM32.fullmatch(machine) else machine)
    if dialect is None:
        raise ValueError(f"cannot read the assembly of {triple}; there are {sorted(_DIALECTS)}")
    found = [_counted(dialect, lines) for lines in _innermost(_lines(text))]
    loops = [loop for loop in found if loop.multiply_adds]

    def rank(loop: HotLoop) -> tuple[bool, bool, int]:
        whole = loop.multiply_adds * loop.vector_bits // 32 % products == 0
        return whole, loop.stores * 4 <= loop.multiply_adds, loop.multiply_adds

    return max(loops, key=rank, default=None)


def _lines(text: str) -> list[str]:
    """Labels that are jumped to, and instructions; tabs made spaces, directives and comments left out."""
    lines = []
    for line in text.splitlines():
        line = re.split(r"\s+(?:[#@](?= )|//|;#)", line.replace("\t", " "))[0].strip()
        if line and (not line.startswith(".") or re.match(r"\.LBB\w+:", line)):
            lines.append(re.sub(r" +", " ", line).removeprefix("{vex} "))
    return lines


def _innermost(lines: list[str]) -> Iterator[list[str]]:
    """The lines of every loop that holds no other."""
    places: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    hardware = ""
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            places[label[1]] = number
        elif ":endloop0" in line and hardware in places:
            spans.append((places[hardware], number))
        elif start := _HARDWARE_LOOP.search(line):
            hardware = start[1]
        elif (target := _TARGET.search(line)) and target[1] in places:
            spans.append((places[target[1]], number))
    for first, last in spans:
        if not any(first <= start and end <= last and (start, end) != (first, last) for start, end in spans):
            yield lines[first : last + 1]


def _with_stack_addresses(lines: list[str]) -> Iterator[str]:
    """The lines, registers that hold an address on the stack as ``sp``: vectors of 32-bit Arm need such."""
    held: set[str] = set()
    for line in lines:
        yield re.sub(r"\b(r\d+|lr)\b", lambda found: "sp" if found[1] in held else found[1], line)
        if start := _STACK_ADDRESS.match(line):
            held.add(start[1])
        elif written := re.match(r"\w+ (r\d+|lr), ", line):
            held.discard(written[1])


def _counted(dialect: Dialect, lines: list[str]) -> HotLoop:
    plain = [line for line in lines if not _LABEL.match(line) and not line.startswith(("{", "}"))]
    instructions = list(_with_stack_addresses(plain))
    fused = [line for line in instructions if dialect.fused.search(line)]
    stores = [line for line in instructions if dialect.store.search(line)]
    loads = [line for line in instructions if dialect.load.search(line) and not dialect.store.search(line)]
    bits = [next(bits for pattern, bits in dialect.widths if re.search(pattern, line)) for line in fused]
    spills, reloads = ([line for line in each if dialect.stack.search(line)] for each in (stores, loads))
    return HotLoop(
        dialect=dialect.name,
        lines=tuple(lines),
        instructions=len(instructions),
        multiply_adds=len(fused),
        vector_bits=max(bits, default=0),
        loads=len(loads),
        stores=len(stores),
        spills=len(spills),
        reloads=len(reloads),
        vector_spills=sum(bool(dialect.vector.search(line)) for line in spills),
        vector_reloads=sum(bool(dialect.vector.search(line)) for line in reloads),
    )
