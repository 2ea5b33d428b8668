"""The rows of loads and stores at odd places, as other rows with another address.

Their latencies are not compared: a chain of loads would need addresses that lie at odd places themselves.
"""

from __future__ import annotations

import re
from dataclasses import replace

from bench.silicon.forms.sections import form
from bench.silicon.loops import POINTERS, SCRATCH, Loop, throughput

_PLACES = {"unaligned": 1, "cross-cache": 61, "cross-page": 4093}
"""By how many bytes the address is off: by one, by what crosses a line, by what crosses a page."""
_PLACE = re.compile(r"; (unaligned|cross-cache|cross-page)(?=[;)])")


def elsewhere(section: str, name: str) -> tuple[Loop, ...]:
    """The loops of a row; nothing where it has no such place."""
    place = _PLACE.search(name)
    plain = form(section, _PLACE.sub("", name)) if place else None
    if place is None or plain is None:
        return ()
    off = f"#{_PLACES[place[1]]}"
    moved = ("mov x22, " + off, f"add x{POINTERS}, x{POINTERS}, x22", f"add x{SCRATCH}, x{SCRATCH}, x22")
    return tuple(replace(loop, setup=(*moved, *loop.setup)) for loop in throughput(plain, name))
