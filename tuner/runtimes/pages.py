"""Which of its memory a process really has, by the kernel's table of its pages.

An emulated process reads the emulator's status when it asks for its own. The list of mappings that it sees is
its own, though, and the table of pages says of each address whether there is memory behind it. Needs NumPy
and nothing else of this project.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import BinaryIO

import numpy as np

_MAPS, _TABLE = Path("/proc/self/maps"), Path("/proc/self/pagemap")
_ENTRY_BYTES = 8
_PRESENT = np.uint64(1 << 63)
_PROBED = 64


def present_bytes() -> int | None:
    """Bytes of this process's mappings that are in memory; None where the table does not tell.

    It does not where an emulator has put the addresses elsewhere.
    """
    try:
        with _TABLE.open("rb") as table:
            if not _tells(table):
                return None
            found = 0
            for line in _MAPS.read_text().splitlines():
                addresses, rights = line.split()[:2]
                first, last = (int(each, 16) for each in addresses.split("-"))
                if rights.startswith("---") or "[vsyscall]" in line:
                    continue
                found += int(_present(table, first, last).sum())
            return found * mmap.PAGESIZE
    except (OSError, ValueError):
        return None


def _tells(table: BinaryIO) -> bool:
    """Whether pages that were just written, and no others, are there."""
    with mmap.mmap(-1, _PROBED * mmap.PAGESIZE) as fresh:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            fresh.madvise(mmap.MADV_NOHUGEPAGE)
        written = np.arange(_PROBED) % 3 == 1
        for page in np.flatnonzero(written):
            fresh[int(page) * mmap.PAGESIZE] = 1
        memory = np.frombuffer(fresh, np.uint8)
        start = memory.ctypes.data
        del memory
        return bool(np.array_equal(_present(table, start, start + len(fresh)), written))


def _present(table: BinaryIO, first: int, last: int) -> np.ndarray:
    """Of each page between two addresses, whether it is there."""
    table.seek(first // mmap.PAGESIZE * _ENTRY_BYTES)
    entries = table.read((last - first) // mmap.PAGESIZE * _ENTRY_BYTES)
    present: np.ndarray = (np.frombuffer(entries, np.uint64) & _PRESENT) != 0
    return present
