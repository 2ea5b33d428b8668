"""What old logs lead to: of each recorded space, the options that a third of its points leave to a build."""

from __future__ import annotations

import json
import lzma

from bench.spaces.record import SUFFIX
from bench.spaces.score import RECORDED, names
from kernels.numerics import Numerics
from tuner.backend.evidence import Evidence
from tuner.log import t4


def keys(_: object = None) -> list[str]:
    """The recorded spaces, each with the first point that is taken."""
    return [f"{name} {first}" for name in names() for first in range(3)]


def text(key: str) -> str:
    """The options by layouts: config, source, expected seconds."""
    name, first = key.split()
    document = json.loads(lzma.decompress((RECORDED / f"{name}{SUFFIX}").read_bytes()))
    records = t4.from_t4(document)[int(first) :: 3]
    target, workload = records[0].target, records[0].workload
    found = Evidence.of(records, target, 1, Numerics.EXACT_INTEGERS).options(workload) or {}
    lines = [
        f"{layouts} {option}" for layouts, option in sorted(found.items(), key=lambda each: str(each[0]))
    ]
    return "\n".join(lines) + "\n"
