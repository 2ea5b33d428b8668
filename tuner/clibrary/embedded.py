"""An ELF object that holds bytes: weights in an archive, without an assembler.

Assemblers differ by machine, and zig's keeps a copy of what it assembled, which does not see that a file that
is included has changed.
"""

from __future__ import annotations

import struct

_RODATA, _NOTE, _SYMBOLS, _NAMES, _SECTION_NAMES = range(1, 6)
_SECTIONS = (b"", b".rodata", b".note.GNU-stack", b".symtab", b".strtab", b".shstrtab")
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_LOADED = 2
_GLOBAL_OBJECT, _HIDDEN = 0x11, 2


def embedded(data: bytes, symbol: str, alignment: int, like: bytes) -> bytes:
    """An object for the machine of the little-endian ELF object ``like``, with ``data`` under ``symbol``."""
    wide = like[4] == 2
    header = 64 if wide else 52
    machine = struct.unpack_from("<H", like, 18)[0]
    flags = struct.unpack_from("<I", like, 48 if wide else 36)[0]
    names = b"\0" + symbol.encode() + b"\0"
    if wide:
        entry = struct.pack("<IBBHQQ", 1, _GLOBAL_OBJECT, _HIDDEN, _RODATA, 0, len(data))
    else:
        entry = struct.pack("<IIIBBH", 1, 0, len(data), _GLOBAL_OBJECT, _HIDDEN, _RODATA)
    symbols = bytes(len(entry)) + entry
    section_names = b"\0".join(_SECTIONS) + b"\0"
    start = -(-header // alignment) * alignment
    contents = [data, b"", symbols, names, section_names]
    kinds = [_PROGBITS, _PROGBITS, _SYMTAB, _STRTAB, _STRTAB]
    aligned = [alignment, 1, 8, 1, 1]
    body = bytearray(start - header)
    offsets = []
    for content, at in zip(contents, aligned, strict=True):
        body += bytes(-(header + len(body)) % at)
        offsets.append(header + len(body))
        body += content
    body += bytes(-(header + len(body)) % 8)
    table = header + len(body)
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    rows = [bytes(struct.calcsize(layout))]
    for number, (content, kind, at, offset) in enumerate(
        zip(contents, kinds, aligned, offsets, strict=True), start=1
    ):
        is_table = kind == _SYMTAB
        rows.append(
            struct.pack(
                layout,
                section_names.index(b"\0" + _SECTIONS[number] + b"\0") + 1,
                kind,
                _LOADED if number == _RODATA else 0,
                0,
                offset,
                len(content),
                _NAMES if is_table else 0,
                1 if is_table else 0,  # the first global symbol
                at,
                len(entry) if is_table else 0,
            )
        )
    identity = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    rest = (0, 0, table, flags, header, 0, 0, len(rows[0]), len(rows), _SECTION_NAMES)
    fields = struct.pack("<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH", 1, machine, 1, *rest)
    return identity + fields + bytes(body) + b"".join(rows)
