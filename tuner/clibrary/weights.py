"""The constants of programs as one block of bytes, and the file that holds it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.backend.arena import ALIGNMENT
from tuner.backend.program import Program

MAGIC = b"TILEFLT1"
HASH_BYTES = 32
HEADER_BYTES = 64
"""Before the weights in a file: MAGIC, the bytes that follow the header, their SHA-256, zeros."""


@dataclass(frozen=True)
class Weights:
    """``data`` of all programs together; ``offsets`` of each program's constants, by their number."""

    data: bytes
    offsets: tuple[tuple[int, ...], ...]

    @property
    def sha256(self) -> bytes:
        """Of ``data``."""
        return hashlib.sha256(self.data).digest()

    @property
    def file(self) -> bytes:
        """What a file of them holds."""
        header = MAGIC + struct.pack("<Q", len(self.data)) + self.sha256
        return header.ljust(HEADER_BYTES, b"\0") + self.data


def weights_of(programs: Sequence[Program]) -> Weights:
    """The constants of all ``programs``, those that are the same once, each aligned."""
    data, places = bytearray(), dict[bytes, int]()
    offsets: list[tuple[int, ...]] = []
    for program in programs:
        mine: list[int] = []
        for constant in program.constants:
            content = constant.tobytes()
            if content not in places:
                data += bytes(-len(data) % ALIGNMENT)
                places[content] = len(data)
                data += content
            mine.append(places[content])
        offsets.append(tuple(mine))
    return Weights(bytes(data), tuple(offsets))
