"""JSON messages on a byte stream: four bytes of length, then the text."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 256 * 1024 * 1024
_LENGTH = struct.Struct(">I")


def frame(message: Any) -> bytes:
    """One message as bytes; raises TypeError for what JSON cannot hold."""
    text = json.dumps(message).encode()
    if len(text) > MAX_BYTES:
        raise ValueError(f"a message of {len(text)} bytes is over the limit of {MAX_BYTES}")
    return _LENGTH.pack(len(text)) + text


class FrameReader:
    """Puts messages together again from chunks of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Any]:
        """The messages that ``data`` completes; raises ValueError on a damaged stream."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_BYTES:
                raise ValueError(f"a message of {length} bytes is over the limit of {MAX_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield json.loads(text)
