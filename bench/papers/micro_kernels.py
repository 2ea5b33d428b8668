"""Seed 001: micro-kernels tuned jointly with the schedule, NHWC and depthwise, against QNNPACK and TFLite."""

from __future__ import annotations

from typing import Any

from bench import timing
from bench.papers.claim import NONE, SIMULATED, Claim, absent
from bench.papers.int8_gemm import EXPLAIN, WHOLE, litert, ratios, total, whole
from bench.papers.reports import Bench, Missing, Reports

PAPER = "001"
MOBILENET = litert("rpi4-sim", "mobilenet_v2", "12")
SIDES = range(1, 9)


def _knob(name: str, knob: str, families: str, suite: str = "mobilenet_v2") -> Bench:
    words = f"bench.knob --target rpi4-sim --suite {suite} --families {families} --knob {knob} --seed 1"
    return Bench(f"knob-{name}-rpi4-sim", words, "12")


STAGE = _knob("stage", "stage", "qdepthwise")
MACRO = _knob("macro", "slab,order,split --candidates 2", "qgemm")
SPLIT = _knob("split", "split", "qgemm", "inception_v3")


def _sizes(target: str) -> Any:
    def figure(_: Reports) -> float:
        from kernels import registry
        from kernels.target import CATALOGUE
        from kernels.workload.base import QConv2d

        layer = QConv2d(1, 28, 28, 128, 128, 1, 1, data_dtype="int8", weight_range=(-127, 127), scale="small")
        space = registry.kernel("qgemm").space(layer, CATALOGUE[target])
        found = {(c.int("rows"), c.int("columns")) for c in space if c["block"] == "lane"}
        return float(len({size for size in found if size[0] in SIDES and size[1] in SIDES}))

    return figure


def _l1_misses(reports: Reports) -> float:
    """Lines missed in L1 over loads, of the pointwise layers."""
    rows = [r["tuned"] for r in reports.of(MOBILENET)["rows"] if r["tuned"]["config"]["kernel"] == "qgemm"]
    if not rows:
        raise Missing("no pointwise layer in the sample")
    reports.say(f"{len(rows)} layers")
    return float(100.0 * sum(row["l1_misses"] for row in rows) / sum(row["loads"] for row in rows))


def _depthwise(reports: Reports) -> list[tuple[float, int]]:
    """LiteRT / ours of the depthwise layers."""
    report = reports.of(MOBILENET)
    rows = [r for r in report["rows"] if r["tuned"]["config"]["kernel"] == "qdepthwise"]
    if not rows:
        raise Missing("no depthwise layer in the sample")
    reports.say(f"{len(rows)} layers")
    return ratios({**report, "rows": rows})


def _won(found: list[tuple[float, int]]) -> str:
    return f"{sum(ratio >= 1 for ratio, _ in found)} of {len(found)}"


def _without_packing(reports: Reports) -> float:
    """Cycles of depthwise layers from a copy of the input over those that read it in place."""
    rows = [row["values"] for row in reports.of(STAGE)["rows"] if row["values"]]
    pairs = [(v["band"]["cycles"], min(v[s]["cycles"] for s in ("none", "touch") if s in v)) for v in rows]
    reports.say(f"{len(pairs)} layers")
    return 100.0 * ((timing.geomean(copied / direct for copied, direct in pairs) or 1.0) - 1.0)


def _joint(reports: Reports) -> float:
    """The best loops around the micro-kernel for all layers over the best for each, in per cent."""
    from bench.knob import behind

    found = behind(reports.of(MACRO)["rows"])
    return 100.0 * (min(each["geomean"] for each in found.values()) - 1.0)


def _split(reports: Reports) -> float:
    """Cycles of the whole depth at once over those of the best number of parts, in per cent."""
    rows = [row["values"] for row in reports.of(SPLIT)["rows"] if row["values"]]
    if not rows:
        raise Missing("no layer of the sample is deep enough")
    reports.say(f"{len(rows)} layers of 1024 products and more")
    gains = [values["1"]["cycles"] / min(each["cycles"] for each in values.values()) for values in rows]
    return 100.0 * ((timing.geomean(gains) or 1.0) - 1.0)


def _claim(claim: str, paper: str, unit: str, bench: Bench, figure: Any) -> Claim:
    return Claim(PAPER, claim, paper, unit, "rpi4-sim", SIMULATED, bench.command, figure)


CLAIMS = [
    *(
        Claim(
            PAPER,
            "micro-kernels of M x N, both up to 8",
            "64",
            "sizes",
            target,
            NONE,
            f"{EXPLAIN} {target}",
            _sizes(target),
        )
        for target in ("rpi4", "rpi4-32")
    ),
    _claim("pointwise layers in NHWC: misses of L1 over loads", "2 (QNNPACK 1)", "%", MOBILENET, _l1_misses),
    _claim(
        "the same in NCHW",
        "40",
        "%",
        MOBILENET,
        absent("our quantized kernels read NHWC and nothing else"),
    ),
    _claim(
        "MobileNet-v2's convolutions that are at least as fast as QNNPACK's (ours: XNNPACK's, its successor)",
        "all",
        "layers",
        MOBILENET,
        lambda reports: _won(ratios(reports.of(MOBILENET))),
    ),
    _claim(
        "MobileNet-v2's depthwise layers that are",
        "most",
        "layers",
        MOBILENET,
        lambda reports: _won(_depthwise(reports)),
    ),
    _claim(
        "depthwise layers without packing the input: gain over a copy", "10.1", "%", STAGE, _without_packing
    ),
    _claim(
        "compute_at (ours: stage, band, chunk): gain on the first depthwise layer",
        "180",
        "%",
        STAGE,
        absent("the layer is of a private model"),
    ),
    _claim(
        "micro-kernel, slab, loop order and K split tuned together: gain over the same loops for all layers",
        "not given",
        "%",
        MACRO,
        _joint,
    ),
    _claim("K split, deep layers: gain over the whole depth at once", "not given", "%", SPLIT, _split),
    *(
        _claim(f"{title} end to end: TFLite / ours", paper, "ratio", WHOLE, whole(network))
        for title, network, paper in (
            ("MobileNet-v1", "mobilenet_v1", "drawn (figure 10)"),
            ("MobileNet-v2", "mobilenet_v2", "2"),
        )
    ),
    _claim(
        "MobileNet-v2's layers drawn, best of the configs measured: TFLite / ours, summed",
        "2",
        "ratio",
        MOBILENET,
        lambda reports: total(reports.of(MOBILENET)),
    ),
    _claim("LaneNet end to end: TFLite / ours", "much", "ratio", MOBILENET, absent("the model is private")),
]
