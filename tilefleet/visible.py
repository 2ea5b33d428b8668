"""What a terminal would obey or turn round is shown as an escape: others wrote what is printed here."""

from __future__ import annotations

import io
import sys
from typing import Any

_C1_AND_BIDI = (*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x61C, 0x200E, 0x200F)
_C0 = (*range(0x9), *range(0xB, 0x20), 0x7F)
_ALWAYS = {code: ascii(chr(code))[1:-1] for code in _C1_AND_BIDI}
_IN_TEXTS = {**_ALWAYS, **{code: ascii(chr(code))[1:-1] for code in _C0}}


def visible(text: str) -> str:
    """The text with escapes in the place of control characters, but for tabs and ends of lines."""
    return text.translate(_IN_TEXTS)


class _Stream(io.TextIOWrapper):
    def write(self, text: str) -> int:
        """Write it with what no program of ours prints made visible."""
        return super().write(text.translate(_ALWAYS))


def guard_output() -> None:
    """Have all that this process prints from now on be so."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:
            same = ("encoding", "errors", "line_buffering", "write_through")
            kept = {each: getattr(stream, each) for each in same}
            options: dict[str, Any] = kept
            setattr(sys, name, _Stream(stream.detach(), **options))
