"""What bench.conv says of all its layers together."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.timing import geomean

BEST = "best_peer"
NEAR = 1.03
"""A config that is at most so much slower than the best found is near it."""


def trials_to_near(curve: Sequence[tuple[int, float]]) -> int:
    """How many trials it took to find a config near the best of all; ``curve`` as of a ``Task``."""
    return 1 + next(number for number, seconds in curve if seconds <= NEAR * curve[-1][1])


def summarise(rows: list[dict[str, Any]], tuned: dict[str, Any], peak_gflops: float) -> dict[str, Any]:
    """Geometric means of peer time / ours, wins and the lowest ratio over ``rows`` (not empty).

    ``weighted`` counts a layer as often as it occurs in the suite; ``total`` is the time of all occurrences
    by one library over ours.
    """
    peers = list(rows[0]["ratios"])
    counts = [row["count"] for row in rows]
    lowest = min(rows, key=lambda row: row["ratio_best_peer"])

    def ratios(peer: str) -> list[float]:
        return [row["ratio_best_peer"] if peer == BEST else row["ratios"][peer]["median"] for row in rows]

    def total_s(peer: str | None = None) -> float:
        """Seconds of all occurrences by a peer, or by us."""
        rates = [
            row["tuned_gflops"] if peer is None else row["peers"][row[BEST] if peer == BEST else peer]
            for row in rows
        ]
        return float(sum(row["count"] * row["gflop"] / rate for row, rate in zip(rows, rates, strict=True)))

    names = [*peers, BEST]
    square = [row["ratios"]["onnxruntime"]["median"] for row in rows if row["stride_1_3x3"]]
    jobs = [tuned[row["layer"]] for row in rows]
    near = sorted(job["trials_to_near"] for job in jobs if "trials_to_near" in job)
    return {
        "n": len(rows),
        "occurrences": sum(counts),
        "wins": sum(row["ratio_best_peer"] >= 1 for row in rows),
        "geomean": {name: geomean(ratios(name)) for name in names},
        "weighted": {name: geomean(ratios(name), counts) for name in names},
        "total": {name: total_s(name) / total_s() for name in names},
        "wall_best_peer": geomean(row["wall"][row[BEST]] for row in rows),
        "lowest": {"ratio": lowest["ratio_best_peer"], "layer": lowest["layer"], "text": lowest["text"]},
        "stride_1_3x3": {"n": len(square), "onnxruntime": geomean(square)},
        "analysis_over_tuned": geomean(row["analysis_gflops"] / row["tuned_gflops"] for row in rows),
        "trials": sum(job["trials"] for job in jobs),
        "most_trials": max(job["trials"] for job in jobs),
        "trials_to_near": near
        and {
            "layers": len(near),
            "median": median(near),
            "p90": near[9 * (len(near) - 1) // 10],
            "most": near[-1],
        },
        "tuning_s": sum(job["tuning_s"] or 0.0 for job in jobs),
        "peak_gflops": peak_gflops,
    }


def line(row: dict[str, Any]) -> str:
    """One layer's figures, to be printed."""
    best = row["ratios"][row[BEST]]
    peers = " ".join(f"{peer} {gflops:.0f}" for peer, gflops in row["peers"].items())
    return (
        f"{row['text']:40s} tuned {row['tuned_gflops']:4.0f} analysis {row['analysis_gflops']:4.0f} | {peers}"
        f" | best peer/ours {best['median']:.2f} ({best['p10']:.2f}-{best['p90']:.2f})"
    )


def summary(value: dict[str, Any]) -> str:
    """``summarise``'s figures as a few lines of text."""

    def listed(means: dict[str, float]) -> str:
        return ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())

    square, lowest = value["stride_1_3x3"], value["lowest"]
    lines = [
        f"{value['wins']} of {value['n']} layers won against the best peer of each; the lowest ratio is "
        f"{lowest['ratio']:.2f}, of {lowest['text']} ({lowest['layer']}).",
        f"Peer time / ours, geometric mean: {listed(value['geomean'])}.",
        f"Weighted by {value['occurrences']} occurrences: {listed(value['weighted'])}.",
        f"Time of all occurrences: {listed(value['total'])}.",
        f"Best peer by wall time: {value['wall_best_peer']:.2f}.",
        f"The analysis's config alone is at {value['analysis_over_tuned']:.2f} of the tuned one.",
        f"{value['trials']} trials, at most {value['most_trials']} a layer, in {value['tuning_s'] / 60:.0f} "
        f"minutes; a core's peak is {value['peak_gflops']:.0f} GFLOP/s.",
    ]
    if near := value.get("trials_to_near"):
        lines.append(
            f"A config within {100 * (NEAR - 1):.0f} % of the best found had been measured after "
            f"{near['median']:g} trials in half of {near['layers']} layers, after {near['p90']} in 90 %, "
            f"after {near['most']} in all."
        )
    if square["n"]:
        lines.insert(
            2, f"{square['n']} layers of 3x3 with stride 1: onnxruntime {square['onnxruntime']:.2f}."
        )
    return "\n".join(lines)
