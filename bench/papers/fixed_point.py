"""Seed 002: the fixed-point multiply by sqrdmulh and srshl."""

from __future__ import annotations

from typing import Any

from bench.papers.claim import NONE, SIMULATED, Claim
from bench.papers.int8_gemm import INCEPTION, fusing
from bench.papers.reports import Bench, Missing, Reports

PAPER = "002"
WAYS = Bench(
    "knob-requant-rpi4-sim",
    "bench.knob --target rpi4-sim --suite mobilenet_v2 --knob requant --seed 1",
    "12",
    quick=1,
)
TESTS = "python -m pytest tests/kernels/test_requantize.py"
DRAWN = 20_000


def _gain(way: str, most: bool) -> Any:
    """By how many per cent int64 takes longer than ``way``, where it is most, or over all occurrences."""

    def figure(reports: Reports) -> float:
        rows = [r for r in reports.of(WAYS)["rows"] if {"int64", way} <= r["values"].keys()]
        if not rows:
            raise Missing(f"no layer of the sample has int64 and {way}")
        reports.say(f"{len(rows)} layers")
        if most:
            ratio = max(r["values"]["int64"]["cycles"] / r["values"][way]["cycles"] for r in rows)
        else:
            cycles = {w: sum(r["count"] * r["values"][w]["cycles"] for r in rows) for w in ("int64", way)}
            ratio = cycles["int64"] / cycles[way]
        return float(100.0 * (ratio - 1.0))

    return figure


def _largest_error(reports: Reports) -> float:
    rows = [row["values"]["arm"] for row in reports.of(WAYS)["rows"] if "arm" in row["values"]]
    return max(float(row["off"]) for row in rows)


def _rounded_once(_: Reports) -> float:
    """How many of random sums the integer reference scales otherwise than Python's own integers do."""
    import numpy as np

    from kernels.int8.reference import multiply

    rng = np.random.default_rng()
    sums = rng.integers(-(2**31), 2**31, DRAWN)
    multipliers, shifts = rng.integers(2**30, 2**31, DRAWN), rng.integers(0, 20, DRAWN)
    found = multiply(sums, multipliers, shifts)
    exact = [
        (value * factor + (1 << (30 + shift))) >> (31 + shift)
        for value, factor, shift in zip(sums.tolist(), multipliers.tolist(), shifts.tolist(), strict=True)
    ]
    return float(np.count_nonzero(found != np.array(exact)))


def _claim(claim: str, paper: str, unit: str, figure: Any) -> Claim:
    return Claim(PAPER, claim, paper, unit, "rpi4-sim", SIMULATED, WAYS.command, figure)


CLAIMS = [
    _claim("sqrdmulh and srshl: most gained over int64 on a layer", "3 (hoped)", "%", _gain("arm", True)),
    _claim("sqrdmulh and srshl: gain on a whole network's layers", "1.5", "%", _gain("arm", False)),
    _claim("our exact sqdmulh and srshl: gain on a network", "not there", "%", _gain("high", False)),
    _claim("products of 32 bits alone: gain on a whole network", "proposed", "%", _gain("int32", False)),
    _claim("difference of rounding twice", "1", "quanta", _largest_error),
    Claim(
        PAPER,
        "the multiply rounds once, ties up: sums scaled otherwise",
        "0",
        f"of {DRAWN} drawn",
        "all",
        NONE,
        TESTS,
        _rounded_once,
    ),
    Claim(
        PAPER,
        "fusing the multiply before unpacking instead of after: stored first / ours",
        "wished for",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        fusing,
    ),
]
