"""Seed 000: int8 NHWC convolution as im2col and a matrix product, against LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import timing
from bench.papers.claim import NONE, SIMULATED, Claim, absent
from bench.papers.reports import Bench, Missing, Reports

PAPER = "000"


def litert(board: str, suite: str, sample: str) -> Bench:
    """Layers of ``suite`` by LiteRT and by us on a simulated Arm."""
    words = f"bench.int8 --target {board} --litert guest --suite {suite} --seed 1 --candidates 2"
    return Bench(f"int8-{board}-{suite}", words, sample)


INCEPTION = litert("rpi4-sim", "inception_v3", "12")
WHOLE = Bench("whole-rpi4-sim", "bench.whole_sim --target rpi4-sim --litert guest", "")
NEWER = {board: litert(board, "mobilenet_v2", "12") for board in ("rpi5-sim", "graviton3-sim")}
BLOCKS = {
    board: Bench(
        f"knob-block-{board}", f"bench.knob --target {board} --suite mobilenet_v2 --knob block --seed 1", "6"
    )
    for board in NEWER
}


def ratios(report: dict[str, Any], of: str = "tuned") -> list[tuple[float, int]]:
    """LiteRT's cycles over ours for each layer, its interpreter's fixed cost taken off, and occurrences."""
    fixed = report["no_layer"]["cycles"]
    return [((row["litert"]["cycles"] - fixed) / row[of]["cycles"], row["count"]) for row in report["rows"]]


def mean(report: dict[str, Any], of: str = "tuned") -> float:
    """The geometric mean of ``ratios``."""
    return timing.geomean(ratio for ratio, _ in ratios(report, of)) or 0.0


def _mean_of(bench: Bench) -> Callable[[Reports], float]:
    return lambda reports: mean(reports.of(bench))


def total(report: dict[str, Any], of: str = "tuned") -> float:
    """LiteRT's cycles over ours, summed over the occurrences of the layers measured."""
    fixed = report["no_layer"]["cycles"]
    theirs = sum(row["count"] * (row["litert"]["cycles"] - fixed) for row in report["rows"])
    return float(theirs / sum(row["count"] * row[of]["cycles"] for row in report["rows"]))


def whole(network: str) -> Callable[[Reports], float]:
    """LiteRT's time of a whole network over ours."""

    def figure(reports: Reports) -> float:
        rows = [row for row in reports.of(WHOLE)["rows"] if row["model"] == network]
        if not rows:
            raise Missing(f"{network} was not measured yet")
        reports.say("with LiteRT's interpreter, untuned")
        return float(rows[0]["litert_s"] / rows[0]["ours_s"])

    return figure


def fusing(reports: Reports) -> float:
    """What storing all sums before they are scaled costs."""
    gains = [
        row["unfused"] / row["tuned"]["cycles"] for row in reports.of(INCEPTION)["rows"] if row["unfused"]
    ]
    return timing.geomean(gains) or 0.0


def _over(board: str, newer: str) -> Any:
    """How a block of older instructions compares with ``newer`` ones, where a layer has both."""

    def figure(reports: Reports) -> float:
        rows = [row["values"] for row in reports.of(BLOCKS[board])["rows"]]
        both = [values for values in rows if {"pairwise", newer} <= values.keys()]
        if not both:
            raise Missing(f"no layer of the sample has both pairwise and {newer} blocks")
        reports.say(f"{len(both)} layers")
        return (
            timing.geomean(values["pairwise"]["cycles"] / values[newer]["cycles"] for values in both) or 0.0
        )

    return figure


def _sizes(target: str, block: str, sizes: set[tuple[int, int]]) -> Any:
    """Which of these register blocks are in the space of a layer that has room for all."""

    def figure(_: Reports) -> str:
        from kernels import registry
        from kernels.target import CATALOGUE
        from kernels.workload.base import QConv2d

        layer = QConv2d(1, 28, 28, 128, 128, 1, 1, data_dtype="int8", weight_range=(-127, 127), scale="small")
        space = registry.kernel("qgemm").space(layer, CATALOGUE[target])
        found = {(c.int("rows"), c.int("columns")) for c in space if c["block"] == block}
        there = sorted(sizes & found)
        if not there:
            raise Missing(f"no {block} block of these sizes is in the space of {target}")
        return ", ".join(f"{rows}x{columns}" for rows, columns in there)

    return figure


EXPLAIN = "python -m tilefleet explain WORKLOAD --target"
CLAIMS = [
    Claim(
        PAPER,
        "Inception-v3, whole, untuned, one thread: TFLite / ours",
        "0.954",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        WHOLE.command,
        whole("inception_v3"),
    ),
    Claim(
        PAPER,
        "Inception-v3, layers drawn, untuned, one thread: TFLite / ours, summed",
        "0.954",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        lambda reports: total(reports.of(INCEPTION), "analysis"),
    ),
    Claim(
        PAPER,
        "Inception-v3's layers, best of the configs measured: LiteRT / ours, geometric mean",
        "0.954 (untuned)",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        lambda reports: mean(reports.of(INCEPTION)),
    ),
    Claim(
        PAPER,
        "Inception-v3, untuned, four threads: TFLite / ours",
        "0.93",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        absent("the layers were measured on one thread"),
    ),
    Claim(
        PAPER,
        "gain of matrix products over the schedules before",
        "2",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        absent("the schedules of 2020 are not there to be run"),
    ),
    Claim(
        PAPER,
        "scaling the sums before they are unpacked: sums stored first / ours",
        "not given",
        "ratio",
        "rpi4-sim",
        SIMULATED,
        INCEPTION.command,
        fusing,
    ),
    Claim(
        PAPER,
        "the block of umull, uadalp and addp",
        "4x4",
        "rows x columns",
        "rpi4",
        NONE,
        f"{EXPLAIN} rpi4",
        _sizes("rpi4", "pairwise", {(4, 4)}),
    ),
    Claim(
        PAPER,
        "with dot products there is room for a larger block",
        "12x4",
        "rows x columns",
        "rpi5",
        NONE,
        f"{EXPLAIN} rpi5",
        _sizes("rpi5", "dot", {(12, 4), (8, 12)}),
    ),
    Claim(
        PAPER,
        "blocks of dot products against those of umull and uadalp: cycles before / after",
        "not given",
        "ratio",
        "rpi5-sim",
        SIMULATED,
        BLOCKS["rpi5-sim"].command,
        _over("rpi5-sim", "dot"),
    ),
    Claim(
        PAPER,
        "blocks of smmla against those of umull and uadalp: cycles before / after",
        "not in the paper",
        "ratio",
        "graviton3-sim",
        SIMULATED,
        BLOCKS["graviton3-sim"].command,
        _over("graviton3-sim", "matrix"),
    ),
    *(
        Claim(
            PAPER,
            "MobileNet-v2's layers: LiteRT / ours, geometric mean",
            "not in the paper",
            "ratio",
            board,
            SIMULATED,
            bench.command,
            _mean_of(bench),
        )
        for board, bench in NEWER.items()
    ),
]
