"""Seed 004: two convolutions in slices on Hexagon."""

from __future__ import annotations

from typing import Any

from bench.papers.claim import NONE, SIMULATED, Claim
from bench.papers.reports import Bench, Missing, Reports

PAPER = "004"
CACHES = {
    (1, 1, 1): "64 K / 4 K / 64 K",
    (1, 2, 2): "128 K / 8 K / 128 K",
    (3, 2, 2): "192 K / 72 K / 192 K",
}
"""Elements of the caches (input and output, filters, between), by side of the filters, h_split, k_split."""
CHAINS = Bench("chains-hexagon", "bench.chains --target hexagon-sim --candidates 2", "")
RPI4 = Bench("chains-rpi4", "bench.chains --target rpi4-sim --floats --candidates 6", "")
NETWORK = Bench("chains-network", "bench.chains --target rpi4-sim --network --floats --candidates 4", "")
BYTES = Bench("chains-network-int8", "bench.chains --target rpi4-sim --network --candidates 4", "")
KILO = 1024


def _sizes(side: int, h_split: int, k_split: int) -> Any:
    """The caches of 64x64x128 -> 128 -> 128 by this project's slices."""

    def figure(_: Reports) -> str:
        from kernels.chains.slices import Slices
        from kernels.workload.base import Conv2d

        first = Conv2d(1, 128, 64, 64, 128, side, side)
        second = Conv2d(1, 128, first.out_h, first.out_w, 128, side, side)
        sizes = Slices(first, second, 8, h_split, k_split, kept=False).cache_elements.values()
        return " / ".join(f"{size / KILO:g} K" for size in sizes)

    return figure


def _gain(bench: Bench, case: str) -> Any:
    """Cycles of the best two separate kernels over those of the chain."""

    def figure(reports: Reports) -> float:
        rows = [row for row in reports.of(bench)["rows"] if row["case"] == case]
        if not rows:
            raise Missing(f"{case} was not measured yet")
        reports.say("")
        return float(rows[0]["ratio"])

    return figure


CLAIMS = [
    *(
        Claim(
            PAPER,
            f"caches of {side}x{side} filters, h_split {h_split}, k_split {k_split}",
            sizes,
            "elements",
            "hexagon",
            NONE,
            "python -m pytest tests/kernels/test_chain.py",
            _sizes(side, h_split, k_split),
        )
        for (side, h_split, k_split), sizes in CACHES.items()
    ),
    *(
        Claim(
            PAPER,
            f"int8, {case} filters: cycles of two separate kernels / of the chain",
            "not given",
            "ratio",
            "hexagon-sim",
            SIMULATED,
            CHAINS.command,
            _gain(CHAINS, case),
        )
        for case in ("1x1", "3x3")
    ),
    *(
        Claim(
            PAPER,
            f"floats, MobileNet-v2's {case}: cycles of two separate kernels / of the chain",
            "not in the paper",
            "ratio",
            "rpi4-sim",
            SIMULATED,
            RPI4.command,
            _gain(RPI4, case),
        )
        for case in ("expand-112", "project-112", "project-56", "project-28", "project-14")
    ),
    *(
        Claim(
            PAPER,
            f"{kind}, all of MobileNet-v2: cycles of separate kernels / with chains where they are faster",
            "not in the paper",
            "ratio",
            "rpi4-sim",
            SIMULATED,
            bench.command,
            _gain(bench, "network"),
        )
        for kind, bench in (("floats", NETWORK), ("int8", BYTES))
    ),
]
