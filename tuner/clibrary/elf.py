"""What an ELF object wants of others, and whether it has data that can be written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_WRITABLE, _LOADED, _NOBITS_OR_DATA = 1, 2, (1, 8)
_SYMBOLS = 2
_DEFINED_NOWHERE = 0


@dataclass(frozen=True)
class ObjectFacts:
    """``imports`` are the names that others must define; ``writable`` the sections with data to write."""

    imports: tuple[str, ...]
    writable: tuple[str, ...]


def facts_of(data: bytes) -> ObjectFacts:
    """The facts of a little-endian ELF object of 32 or 64 bits."""
    wide = data[4] == 2
    sections = list(_sections(data, wide))
    names = sections[struct.unpack_from("<H", data, 62 if wide else 50)[0]]
    writable = [
        _text(data, names.offset + each.name)
        for each in sections
        if each.flags & _WRITABLE and each.kind in _NOBITS_OR_DATA and each.size
    ]
    # Power's addresses of constants, which only the linker fills in.
    writable = [each for each in writable if each != ".toc"]
    imports: list[str] = []
    for table in (each for each in sections if each.kind == _SYMBOLS):
        texts = sections[table.link]
        entry = 24 if wide else 16
        for at in range(table.offset + entry, table.offset + table.size, entry):
            name, section = struct.unpack_from("<I2xH" if wide else "<I10xH", data, at)
            text = _text(data, texts.offset + name)
            if section == _DEFINED_NOWHERE and text:
                imports.append(text)
    return ObjectFacts(tuple(sorted(imports)), tuple(writable))


def code_bytes(data: bytes) -> int:
    """The bytes of an object that are loaded to run: instructions and constants."""
    return sum(each.size for each in _sections(data, data[4] == 2) if each.flags & _LOADED)


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int


def _sections(data: bytes, wide: bool) -> Iterator[_Section]:
    offset = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0]
    size, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    for index in range(count):
        layout = "<IIQ8xQQI" if wide else "<III4xIII"
        yield _Section(*struct.unpack_from(layout, data, offset + index * size))


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
