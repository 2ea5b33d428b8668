"""What the encodings of forms have in common, whatever registers and immediates they have."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.silicon.forms.form import Form

ARCHITECTURE = "armv8.6-a+crypto+sha3+sm4+fp16+fp16fml+rcpc+memtag+flagm"
"""The instruction sets that the assembler accepts."""
A64 = ("aarch64-linux-musl", f".arch {ARCHITECTURE}")
RISCV = ("riscv64-linux-musl", ".option arch, +v, +zvfh, +zba, +zbb\n.option norvc")
"""For each instruction set: the compiler's target, and the directives that allow its extensions."""
_ROLES = "dnmae"
_ALIKE = {"D": "d", "s": "d", "N": "n", "S": "e", "M": "m"}
"""Roles in the same place."""
_PATTERNS = {"d": (10, 21), "n": (9, 22), "m": (12, 19), "a": (6, 25), "e": (3, 28)}
"""Two numbers of a register that differ in all bits, so that both words differ where the register is."""
_SMALL = {**_PATTERNS, "m": (12, 3)}
"""For those that take m from the first 16 registers."""
_EVEN = {**_PATTERNS, "d": (10, 20), "m": (12, 18)}
"""For those that take pairs."""
_BY_HALF = re.compile(r"v\{m\}\.h\[")
_SECTION_HEADER_BYTES = 64


class AssemblyError(ValueError):
    """The assembler refused a form; the message has the lines."""


def registers(form: Form, numbers: dict[str, int]) -> dict[str, int]:
    """The register of each role of ``form``, by those of d, n, m, a and e."""
    found = {}
    for role in form.roles:
        place, after = role[0], role[1:]
        found[role] = (numbers[_ALIKE.get(place, place)] + int(after or 0)) % 32
    return found


def encodings(forms: Sequence[Form]) -> list[tuple[int, int]]:
    """For each form the bits that stay, as a mask, and their value. Raises AssemblyError."""
    lines = []
    for form in forms:
        patterns = _SMALL if _BY_HALF.search(form.asm) else _EVEN if "{M1}" in form.asm else _PATTERNS
        for which in (0, 1):
            numbers = {role: patterns[role][which] for role in _ROLES}
            lines.append(form.asm.format(**registers(form, numbers)))
    words = assembled(lines)
    found = []
    for form, first, second in zip(forms, words[::2], words[1::2], strict=True):
        mask = ~(first ^ second) & ~form.free & 0xFFFFFFFF
        found.append((mask, first & mask))
    return found


def assembled(lines: Iterable[str], machine: tuple[str, str] = A64) -> list[int]:
    """The words of instructions, one a line, none of them compressed. Raises AssemblyError."""
    code = assembled_bytes(lines, machine)
    return [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]


def assembled_bytes(lines: Iterable[str], machine: tuple[str, str] = A64) -> bytes:
    """The code of ``lines``. Raises AssemblyError."""
    triple, head = machine
    text = "\n".join([head, *lines, ""])
    with tempfile.TemporaryDirectory(prefix="tilefleet-silicon-") as folder:
        source, built = Path(folder) / "forms.s", Path(folder) / "forms.o"
        source.write_text(text)
        command = [sys.executable, "-P", "-m", "ziglang", "cc", "-target", triple, "-c"]
        done = subprocess.run(
            [*command, str(source), "-o", str(built)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise AssemblyError(f"the assembler refused forms:\n{done.stderr[-4000:]}")
        return _text_section(built.read_bytes())


def _text_section(binary: bytes) -> bytes:
    """The code of an object file of 64 bits: the first section that is executable."""

    def number(at: int, count: int) -> int:
        return int.from_bytes(binary[at : at + count], "little")

    start, count = number(0x28, 8), number(0x3C, 2)
    for header in range(start, start + count * _SECTION_HEADER_BYTES, _SECTION_HEADER_BYTES):
        kind, flags = number(header + 4, 4), number(header + 8, 8)
        if kind == 1 and flags & 4 and number(header + 32, 8):  # PROGBITS, EXECINSTR, not empty
            offset = number(header + 24, 8)
            return binary[offset : offset + number(header + 32, 8)]
    raise AssemblyError("the assembler wrote no code")
