"""Seed 004: two convolutions in slices on Hexagon."""

from __future__ import annotations

from bench.papers.claim import NONE, SIMULATED, Claim, absent

PAPER = "004"
NOT_YET = absent("chains of two convolutions have no bench yet")
COMMAND = "none yet"
CACHES = {
    "1x1, h_split 1, k_split 1": "64 K / 4 K / 64 K",
    "1x1, h_split 2, k_split 2": "128 K / 8 K / 128 K",
    "3x3, h_split 2, k_split 2": "192 K / 72 K / 192 K",
}
"""Elements of the input's, the filters' and the result's cache."""
CLAIMS = [
    *(
        Claim(PAPER, f"sizes of the caches, {case}", sizes, "elements", "hexagon", NONE, COMMAND, NOT_YET)
        for case, sizes in CACHES.items()
    ),
    Claim(
        PAPER,
        "two convolutions in slices: cycles of two separate kernels / ours",
        "not given",
        "ratio",
        "hexagon-sim",
        SIMULATED,
        COMMAND,
        NOT_YET,
    ),
]
